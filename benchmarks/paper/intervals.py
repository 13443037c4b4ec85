"""Intervals over splits of one table, whose training halves overlap.

Two random halves of the same rows share half of them, so that results of J splits are no J independent
results, and the usual standard error is too small. Nadeau and Bengio (2003, "Inference for the Generalization
Error", Machine Learning 52) replace the 1/J in it:

    half of the interval = t(0.975, J - 1) * sqrt((1 / J + n_test / n_train) * s^2),

where s^2 is the sample variance over splits. Halves have n_test = n_train. What is computed from all splits
together, such as the height of a mean curve, has a pseudo-value for each split in place of its result,

    J * (found with all splits) - (J - 1) * (found without this one),

which for a mean is the result itself.

A one-sided limit at 95 % has t(0.95, J - 1) in place of t(0.975, J - 1). A lower limit above minus a margin
shows non-inferiority by that margin, at level 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

__all__ = ["interval", "jackknife_half", "one_sided"]

TEST_TO_TRAIN = 1.0
"""Rows to test on for each row to learn from."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean over splits, and half of its 95 % interval."""
    known = np.asarray(values, dtype=float)
    n = len(known)
    if n < 2:
        return float(known.mean()), float("nan")
    spread = np.sqrt((1 / n + TEST_TO_TRAIN) * known.var(ddof=1))
    return float(known.mean()), float(student.ppf(0.975, n - 1) * spread)


def jackknife_half(whole: float, without: Sequence[float]) -> float:
    """Half of the 95 % interval of what was found with all splits, and without each of them."""
    n = len(without)
    return interval(n * whole - (n - 1) * np.asarray(without))[1] if n else float("nan")


def one_sided(half: float, n: int) -> float:
    """Distance of a one-sided 95 % limit, from half of the two-sided interval over `n` splits."""
    return half * float(student.ppf(0.95, n - 1) / student.ppf(0.975, n - 1))
