"""Decisions to audit, and comparison of audits."""

import math

import numpy as np


def sample(n=4000, seed=0, *, least=0.2, favoured=("sex", "F"), by=0.15):
    """Labels, decisions and two features; positives and one favoured group are selected more often."""
    rng = np.random.default_rng(seed)
    features = {
        "sex": rng.choice(["F", "M"], n),
        "race": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
    }
    y = rng.random(n) < 0.4
    feature, value = favoured
    chosen = rng.random(n) < least + by * (features[feature] == value) + 0.3 * y
    return y.astype(int), chosen.astype(int), features


def assert_same(found, expected, where="audit"):
    """Every figure agrees to 1e-12, and everything else exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}, {key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for k, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, f"{where}, {k}")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12), (where, found, expected)
    else:
        assert found == expected, where
