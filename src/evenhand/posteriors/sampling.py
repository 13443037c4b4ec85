"""Which rows of a large table models learn from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError

__all__ = ["sampling_rates"]

Floats = NDArray[np.float64]


def sampling_rates(counts: NDArray[np.int64], learn_rows: int | None, *, equal: bool = False) -> Floats:
    """Share of the rows of each cell to learn from.

    Small cells are kept whole, and a cell has at least half of an even share of the sample, because few rows
    would otherwise tell of a small group. The rest is drawn in proportion. Drawn rows must then be weighted
    by one over these rates.

    Parameters
    ----------
    counts : array of int, shape (M, 2)
        Rows of each cell.
    learn_rows : int or None
        Largest number of rows; None is all.
    equal : bool, default=False
        Whether all cells have the same rate, for learners that take no weights.

    Returns
    -------
    array, shape (M, 2)

    Examples
    --------
    >>> import numpy as np
    >>> sampling_rates(np.array([[1000, 10], [8000, 990]]), 1000).round(2)
    array([[0.12, 1.  ],
           [0.08, 0.13]])
    """
    cells = int(np.count_nonzero(counts))
    total = int(counts.sum())
    if learn_rows is None or total <= learn_rows:
        return np.ones(counts.shape)
    if learn_rows < 2 * cells:
        raise InputError(
            f"learn_rows={learn_rows:,} is too few for {cells:,} combinations of group and label: at least "
            f"{2 * cells:,} are needed, and some hundred for each are better."
        )
    # Rows are drawn one by one, so their number varies: four standard deviations keep it below.
    wanted = max(learn_rows - 4 * np.sqrt(learn_rows), learn_rows / 2)
    if equal:
        return np.full(counts.shape, wanted / total)
    share = learn_rows / (2 * cells)
    at_least = np.minimum(1.0, share / np.maximum(counts, 1))
    low, high = 0.0, 1.0
    for _ in range(60):  # the expected number of rows grows with the common rate
        rate = (low + high) / 2
        few = (counts * np.maximum(at_least, rate)).sum() <= wanted
        low, high = (rate, high) if few else (low, rate)
    return np.maximum(at_least, low)
