"""Comparison of audits."""

import math


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
