"""Random splits of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from evenhand.exceptions import InputError


def random_split(n_rows: int, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row numbers in two parts; the second is a simple random sample.

    The draw depends only on the seed and the number of rows. So if rows are independent, those of the second
    part are independent of those of the first, and tests and intervals on them are valid for what was learned
    from the first.

    Parameters
    ----------
    n_rows : int
    share : float
        Share of the second part, strictly between 0 and 1.
    seed : int

    Returns
    -------
    first, second : array of int
        Sorted.

    Examples
    --------
    >>> first, second = random_split(10, 0.3, seed=0)
    >>> len(first), len(second)
    (7, 3)
    """
    try:
        first, second = train_test_split(np.arange(n_rows), test_size=share, random_state=seed)
    except ValueError:
        raise InputError(f"a share of {share:g} of {n_rows:,} rows leaves one part empty.") from None
    return np.sort(first), np.sort(second)
