"""Bayes-optimal fair classification with one or many sensitive features.

Public names are loaded on first use, so ``import evenhand`` itself is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The module of each public name; an empty module stands for a module that is public itself.
_NAMES = {
    "": "datasets exceptions",
    "auditing.audit": "audit",
    "auditing.score_audit": "audit_scores",
    "estimators.inprocess": "FairInprocessor",
    "estimators.postprocess": "FairPostprocessor",
    "estimators.scorer": "fair_scorer",
    "estimators.settings": "CrossFit GroupPolicy Guarantee",
    "requirements.actions": "Costs",
    "requirements.bounds": "NoWorse RateBound",
    "groups.groups": "Groups",
    "less_discriminatory.search": "alternatives",
    "monitoring.monitor": "Monitor",
    "requirements.notions": "AccuracyParity DemographicParity EqualOpportunity EqualizedOdds "
    "Notion PredictiveEquality",
    "groups.proxy": "Proxy",
    "requirements.rates": "cell_rates",
    "posteriors.posteriors": "GroupedScores",
    "requirements.statistic": "Statistic",
    "files.persistence": "load save verify",
    "optimum.solve": "solve",
    "posteriors.tabular": "TabularClassifier",
    "report.page": "write_report",
    "tradeoff.compute": "frontier",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_HOMES)  # type checkers see the aliases below

if TYPE_CHECKING:
    from evenhand import datasets as datasets
    from evenhand import exceptions as exceptions
    from evenhand.auditing.audit import audit as audit
    from evenhand.auditing.score_audit import audit_scores as audit_scores
    from evenhand.estimators.inprocess import FairInprocessor as FairInprocessor
    from evenhand.estimators.postprocess import FairPostprocessor as FairPostprocessor
    from evenhand.estimators.scorer import fair_scorer as fair_scorer
    from evenhand.estimators.settings import CrossFit as CrossFit
    from evenhand.estimators.settings import GroupPolicy as GroupPolicy
    from evenhand.estimators.settings import Guarantee as Guarantee
    from evenhand.files.persistence import load as load
    from evenhand.files.persistence import save as save
    from evenhand.files.persistence import verify as verify
    from evenhand.groups.groups import Groups as Groups
    from evenhand.groups.proxy import Proxy as Proxy
    from evenhand.less_discriminatory.search import alternatives as alternatives
    from evenhand.monitoring.monitor import Monitor as Monitor
    from evenhand.optimum.solve import solve as solve
    from evenhand.posteriors.posteriors import GroupedScores as GroupedScores
    from evenhand.posteriors.tabular import TabularClassifier as TabularClassifier
    from evenhand.report.page import write_report as write_report
    from evenhand.requirements.actions import Costs as Costs
    from evenhand.requirements.bounds import NoWorse as NoWorse
    from evenhand.requirements.bounds import RateBound as RateBound
    from evenhand.requirements.notions import AccuracyParity as AccuracyParity
    from evenhand.requirements.notions import DemographicParity as DemographicParity
    from evenhand.requirements.notions import EqualizedOdds as EqualizedOdds
    from evenhand.requirements.notions import EqualOpportunity as EqualOpportunity
    from evenhand.requirements.notions import Notion as Notion
    from evenhand.requirements.notions import PredictiveEquality as PredictiveEquality
    from evenhand.requirements.rates import cell_rates as cell_rates
    from evenhand.requirements.statistic import Statistic as Statistic
    from evenhand.tradeoff.compute import frontier as frontier


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(import_module(f"evenhand.{home}"), name) if home else import_module(f"evenhand.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
