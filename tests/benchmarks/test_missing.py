"""The benchmark of missing race hides what it says, and compares pairs."""

import numpy as np
import pytest
from benchmarks.missing import WAYS, hidden, interval, summary


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_share_asked_for_is_hidden(share, way):
    driver = np.random.default_rng(0).normal(size=20_000)
    gone = hidden(driver, share, way, seed=1)
    assert gone.mean() == pytest.approx(share, abs=0.01)
    apart = driver[gone].mean() - driver[~gone].mean()
    assert apart > 0.5 if way == "by x" else abs(apart) < 0.06


def test_differences_are_those_of_the_same_split():
    cells = []
    for split, base in enumerate((0.02, 0.04)):
        own = {"data": "Adult", "learner": "logistic", "notion": "DP", "split": split, "accuracy": 0.8}
        cells.append({**own, "way": "none hidden", "share": 0.0, "method": "complete", "MD": base})
        for share in (0.5, 0.9):
            for way in WAYS:
                cells.append({**own, "way": way, "share": share, "method": "impute", "MD": base + 0.01})
                cells.append({**own, "way": way, "share": share, "method": "drop", "MD": base + 0.03})
    found = summary(cells)
    assert found["Adult, logistic, DP: splits"] == 2
    assert found["Adult, logistic, DP: complete, MD"] == pytest.approx(0.03)
    line = "Adult, logistic, DP: 90% hidden by x, MD of"
    assert found[f"{line} impute minus complete"].startswith("+0.0100 [")
    assert found[f"{line} drop minus infer"].startswith("+0.0200 [")


def test_an_interval_is_that_of_the_mean():
    assert interval([0.0, 0.1, 0.2]) == "+0.1000 [-0.1484, +0.3484]"
