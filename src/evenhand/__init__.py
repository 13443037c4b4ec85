"""Bayes-optimal fair binary classification with one or many sensitive features.

The public names are loaded when they are first used, so that ``import evenhand``
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AccuracyParity": "notions",
    "Audit": "auditing.audited",
    "CellRates": "rates",
    "DemographicParity": "notions",
    "EqualOpportunity": "notions",
    "EqualizedOdds": "notions",
    "DualAscent": "search",
    "FairInprocessor": "inprocess",
    "FairPostprocessor": "postprocess",
    "GridSearch": "search",
    "GroupedScores": "scores",
    "Frontier": "curve",
    "Groups": "groups",
    "Notion": "notions",
    "PredictiveEquality": "notions",
    "Rule": "rule",
    "Solution": "solution",
    "Statistic": "statistic",
    "accuracy_within": "scoring",
    "audit": "auditing.audit",
    "cell_rates": "rates",
    "datasets": "",
    "exceptions": "",
    "fair_scorer": "scoring",
    "frontier": "tracing",
    "load": "persistence",
    "save": "persistence",
    "solve": "solution",
    "verify": "persistence",
    "write_report": "report.page",
}

if TYPE_CHECKING:
    from evenhand import datasets, exceptions
    from evenhand.auditing.audit import audit
    from evenhand.auditing.audited import Audit
    from evenhand.curve import Frontier
    from evenhand.groups import Groups
    from evenhand.inprocess import FairInprocessor
    from evenhand.notions import (
        AccuracyParity,
        DemographicParity,
        EqualizedOdds,
        EqualOpportunity,
        Notion,
        PredictiveEquality,
    )
    from evenhand.persistence import load, save, verify
    from evenhand.postprocess import FairPostprocessor
    from evenhand.rates import CellRates, cell_rates
    from evenhand.report.page import write_report
    from evenhand.rule import Rule
    from evenhand.scores import GroupedScores
    from evenhand.scoring import accuracy_within, fair_scorer
    from evenhand.search import DualAscent, GridSearch
    from evenhand.solution import Solution, solve
    from evenhand.statistic import Statistic
    from evenhand.tracing import frontier

__all__ = [
    "AccuracyParity",
    "Audit",
    "CellRates",
    "DemographicParity",
    "DualAscent",
    "EqualOpportunity",
    "EqualizedOdds",
    "FairInprocessor",
    "FairPostprocessor",
    "Frontier",
    "GridSearch",
    "GroupedScores",
    "Groups",
    "Notion",
    "PredictiveEquality",
    "Rule",
    "Solution",
    "Statistic",
    "accuracy_within",
    "audit",
    "cell_rates",
    "datasets",
    "exceptions",
    "fair_scorer",
    "frontier",
    "load",
    "save",
    "solve",
    "verify",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(import_module(f"evenhand.{home}"), name) if home else import_module(f"evenhand.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
