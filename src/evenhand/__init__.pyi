"""Public names of the package and their types; ``__init__.py`` reads the modules of these names here."""

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

__version__: str
