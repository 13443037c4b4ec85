"""Synthetic problems whose fair optimum is known exactly, for tests and benchmarks."""

from benchmarks.exact.finite import FiniteProblem
from benchmarks.exact.gaussian import GaussianProblem

__all__ = ["FiniteProblem", "GaussianProblem"]
