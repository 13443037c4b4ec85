"""The algorithms of "Bayes-Optimal Fair Classification with Multiple Sensitive Features" as printed.

To be read beside the paper: :class:`PaperInprocessor` is its Algorithm 1, :class:`PaperPostprocessor` its
Algorithm 2. For decisions about people use :class:`evenhand.FairPostprocessor` and
:class:`evenhand.FairInprocessor`: they learn from all rows, find the multipliers exactly and prove it, and
decide ties as the requirement needs it.
"""

from evenhand.paper.algorithms import PaperInprocessor, PaperPostprocessor
from evenhand.paper.multipliers import Ascent, Grid

__all__ = ["Ascent", "Grid", "PaperInprocessor", "PaperPostprocessor"]
