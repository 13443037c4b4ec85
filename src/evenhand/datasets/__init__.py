"""Data sets, and synthetic problems whose posteriors are known."""

from evenhand.datasets.bundled import load_adult, load_compas
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.gaussian import GaussianProblem

__all__ = ["Dataset", "GaussianProblem", "load_adult", "load_compas"]
