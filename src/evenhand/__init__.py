"""Bayes-optimal fair binary classification with one or many sensitive features.

Public names are loaded on first use, so ``import evenhand`` itself is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AccuracyParity": "fairness.notions",
    "CrossFit": "estimators.settings",
    "DemographicParity": "fairness.notions",
    "EqualOpportunity": "fairness.notions",
    "EqualizedOdds": "fairness.notions",
    "FairInprocessor": "estimators.inprocess",
    "FairPostprocessor": "estimators.postprocess",
    "GroupPolicy": "estimators.settings",
    "GroupedScores": "fairness.scores",
    "Groups": "fairness.groups",
    "Guarantee": "estimators.settings",
    "NoWorse": "fairness.bounds",
    "Notion": "fairness.notions",
    "PredictiveEquality": "fairness.notions",
    "Proxy": "fairness.proxy",
    "RateBound": "fairness.bounds",
    "Statistic": "fairness.statistic",
    "TabularClassifier": "posteriors.tabular",
    "audit": "auditing.audit",
    "cell_rates": "fairness.rates",
    "datasets": "",
    "exceptions": "",
    "fair_scorer": "estimators.scorer",
    "frontier": "tradeoff.compute",
    "load": "model_files.persistence",
    "save": "model_files.persistence",
    "solve": "optimum.solve",
    "verify": "model_files.persistence",
    "write_report": "report.page",
}

if TYPE_CHECKING:
    from evenhand import datasets, exceptions
    from evenhand.auditing.audit import audit
    from evenhand.estimators.inprocess import FairInprocessor
    from evenhand.estimators.postprocess import FairPostprocessor
    from evenhand.estimators.scorer import fair_scorer
    from evenhand.estimators.settings import CrossFit, GroupPolicy, Guarantee
    from evenhand.fairness.bounds import NoWorse, RateBound
    from evenhand.fairness.groups import Groups
    from evenhand.fairness.notions import (
        AccuracyParity,
        DemographicParity,
        EqualizedOdds,
        EqualOpportunity,
        Notion,
        PredictiveEquality,
    )
    from evenhand.fairness.proxy import Proxy
    from evenhand.fairness.rates import cell_rates
    from evenhand.fairness.scores import GroupedScores
    from evenhand.fairness.statistic import Statistic
    from evenhand.model_files.persistence import load, save, verify
    from evenhand.optimum.solve import solve
    from evenhand.posteriors.tabular import TabularClassifier
    from evenhand.report.page import write_report
    from evenhand.tradeoff.compute import frontier

__all__ = [
    "AccuracyParity",
    "CrossFit",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "FairInprocessor",
    "FairPostprocessor",
    "GroupPolicy",
    "GroupedScores",
    "Groups",
    "Guarantee",
    "NoWorse",
    "Notion",
    "PredictiveEquality",
    "Proxy",
    "RateBound",
    "Statistic",
    "TabularClassifier",
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
