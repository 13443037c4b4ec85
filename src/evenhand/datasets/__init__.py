"""Data sets, and synthetic problems whose posteriors are known."""

from evenhand.datasets.bundled import Dataset, load_adult, load_compas
from evenhand.datasets.gaussian import GaussianProblem

__all__ = ["Dataset", "GaussianProblem", "load_adult", "load_compas"]
