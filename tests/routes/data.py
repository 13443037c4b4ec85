"""Rows for tests of classifiers on a cluster."""

import time
from itertools import pairwise

import dask.dataframe as dd
import numpy as np
import pandas as pd

import evenhand as eh

FAIR = eh.DemographicParity(difference=0.05)
SENSITIVE = ["sex", "race"]


def table(n=2000, seed=1) -> pd.DataFrame:
    """Two features, two sensitive ones, a label of two words, and weights."""
    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, n), rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=n) + 0.7 * sex
    z = rng.normal(size=n) + 0.5 * (race == 1)
    y = rng.random(n) < 1 / (1 + np.exp(-(x + 0.5 * z - 0.5)))
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "sex": np.array(["F", "M"])[sex],
            "race": race,
            "y": np.array(["no", "yes"])[y.astype(int)],
            "weight": rng.random(n) + 0.5,
        }
    )


def in_partitions(frame: pd.DataFrame, sizes) -> dd.DataFrame:
    """A Dask table with partitions of given sizes, some of which may be 0."""
    ends = np.cumsum([0, *sizes])
    parts = [frame.iloc[first:last] for first, last in pairwise(ends)]
    return dd.from_map(lambda k: parts[k], range(len(parts)), meta=frame.iloc[:0])


def wait_until(true, seconds=60):
    """Wait for something that a cluster does in its own time."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
