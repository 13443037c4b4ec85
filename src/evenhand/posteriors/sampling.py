"""Which rows of a large table models learn from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def sample_sizes(counts: Counts, max_samples: int | None, *, equal: bool = False) -> Counts:
    """How many rows of each cell to learn from.

    Small cells are kept whole, and a cell has at least half of an even share of the sample, because few rows
    would otherwise tell of a small group. The rest is drawn in proportion. A drawn row then stands for as
    many as its cell has rows for each drawn one.

    Parameters
    ----------
    counts : array of int, shape (M, 2)
        Rows of each cell.
    max_samples : int or None
        Largest number of rows; None is all.
    equal : bool, default=False
        Whether all cells are drawn from at the same rate, for learners that take no weights.

    Returns
    -------
    array of int, shape (M, 2)

    Examples
    --------
    >>> import numpy as np
    >>> sample_sizes(np.array([[1000, 10], [8000, 990]]), 1000)
    array([[125,  10],
           [740, 125]])
    """
    cells = int(np.count_nonzero(counts))
    if max_samples is None or counts.sum() <= max_samples:
        return counts.copy()
    if max_samples < 2 * cells:
        raise InputError(
            f"max_samples={max_samples:,} is too few for {cells:,} combinations of group and label: at least "
            f"{2 * cells:,} are needed, and some hundred for each are better."
        )
    at_least = np.minimum(counts, 1 if equal else max_samples // (2 * cells))

    def sizes(rate: float) -> Counts:
        return np.asarray(np.maximum(at_least, np.floor(rate * counts).astype(np.int64)))

    low, high = 0.0, 1.0
    for _ in range(60):  # the number of rows grows with the common rate
        rate = (low + high) / 2
        low, high = (rate, high) if sizes(rate).sum() <= max_samples else (low, rate)
    return sizes(low)


def candidate_rates(counts: Counts, sizes: Counts) -> Floats:
    """Share of the rows of each cell that may be drawn; the others need not be kept until the end.

    Rows are drawn by the smallest uniform numbers of their cell. Six standard deviations and twenty rows more
    than are wanted leave too few in one of 10^9 tables.
    """
    wanted = sizes + 6.0 * np.sqrt(sizes) + 20.0
    return np.where(sizes == counts, 1.0, np.minimum(1.0, wanted / np.maximum(counts, 1)))


def drawn_rows(uniforms: Floats, cells: NDArray[np.intp], sizes: Counts) -> NDArray[np.intp]:
    """Positions of the rows with the smallest uniform numbers of each cell, in order.

    Parameters
    ----------
    uniforms : array, shape (n,)
    cells : array of int, shape (n,)
    sizes : array of int
        How many to draw of each cell.

    Returns
    -------
    array of int

    Examples
    --------
    >>> import numpy as np
    >>> drawn_rows(np.array([0.3, 0.1, 0.2, 0.9]), np.array([0, 0, 0, 1]), np.array([2, 1]))
    array([1, 2, 3])
    """
    order = np.lexsort((uniforms, cells))
    starts = np.searchsorted(cells[order], np.arange(sizes.size))
    rank = np.arange(len(order)) - starts[cells[order]]
    return np.sort(order[rank < sizes.ravel()[cells[order]]])
