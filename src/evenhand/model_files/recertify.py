"""The certificate of a fitted model, recomputed from the rows that it was fitted to.

Posteriors are learned again with the model's own settings and seed. The formulas are written out here in
NumPy, independently of the solver: by weak duality, any multipliers in a file give a valid bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from evenhand.estimators.base import FairClassifier
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors, learn_posteriors
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.estimators.training_data import TrainingData, read_training_data, reserve_rows
from evenhand.exceptions import EvenhandWarning, InputError
from evenhand.fairness.bounds import NoWorse, with_reference
from evenhand.fairness.constraints import ConstraintName
from evenhand.fairness.groups import Groups
from evenhand.fairness.rates import CellRates
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.scores import GroupedScores
from evenhand.inference.group_tests import run_tests
from evenhand.inputs.columns import blocks
from evenhand.inputs.features import column_names, has_names, ordered_columns
from evenhand.inputs.row_keys import row_keys
from evenhand.optimum.atoms import randomise_atoms
from evenhand.optimum.problem import error_prices
from evenhand.optimum.rows import dense_posteriors
from evenhand.posteriors.examples import Examples
from evenhand.solver.certificate import Certificate, small

__all__ = ["TOLERANCE", "Claim", "Proof", "claimed", "prove", "recompute"]

Floats = NDArray[np.float64]

TOLERANCE = 1e-6
"""Largest difference from the stored certificate, for costs of up to 1."""

_ROUNDING = 1e-9
"""Magnitude of H below which its sign may be rounding."""

_NEGLIGIBLE = 1e-12
"""Mass below which a cell counts as empty, as in `solve`."""


@dataclass(frozen=True)
class Proof:
    """The certificate of a model, checked against the rows that it was fitted to.

    Attributes
    ----------
    confirmed : bool
        Whether these are the rows of the fit, and everything recomputed from them agrees with the model.
    verdict : str
        What is proven, or what disagrees.
    stored : Certificate
        The model's certificate.
    found : Certificate or None
        The recomputed certificate; None if these are other rows.
    rows : int
        Number of rows that the posteriors were learned from.
    """

    confirmed: bool
    verdict: str
    stored: Certificate
    found: Certificate | None = None
    rows: int = 0


@dataclass(frozen=True)
class Claim:
    """What a certificate proves about a classifier, and what it does not.

    Attributes
    ----------
    requirement : Constraint
        The requirement that the bound is for.
    asked : Constraint
        The requirement of the user. With a promise, the rule is made for a tighter one.
    bound : float
        No classifier that satisfies the requirement has a smaller risk under the posteriors.
    risk, violation : float or None
        Those of the classifier under the posteriors; None for a trained classifier, which is not the rule of
        the multipliers.
    halved : bool
        Whether the risk is half the error rate, because both errors cost 1/2.
    """

    requirement: Constraint
    asked: Constraint
    bound: float
    risk: float | None
    violation: float | None
    halved: bool

    @property
    def tightened(self) -> bool:
        """Whether the bound is for a tighter requirement than was asked for."""
        return repr(self.requirement) != repr(self.asked)

    @property
    def risk_name(self) -> str:
        """Name of the risk in sentences."""
        return "risk (half the error)" if self.halved else "risk"

    def __str__(self) -> str:
        if self.risk is None or self.violation is None:
            text = (
                "under the posteriors that trained this classifier, none that satisfies "
                f"{self.requirement!r} has a {self.risk_name} below {self.bound:.6f}; an audit shows how "
                "this one performs"
            )
        else:
            text = (
                f"no classifier that satisfies {self.requirement!r} under these posteriors has a "
                f"{self.risk_name} below {self.bound:.6f}; this one has {self.risk:.6f}, a gap of "
                f"{small(self.risk - self.bound)}, and violates the requirement by {small(self.violation)}"
            )
        tighter = f". This is tighter than what was asked for, {self.asked!r}, to make a promise possible"
        return text + (tighter if self.tightened else "")


def claimed(model: FairClassifier, found: Certificate | None = None) -> Claim:
    """What the certificate of a fitted model proves.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    found : Certificate, default=None
        The recomputed certificate; by default the model's own.

    Returns
    -------
    Claim
    """
    certificate = model.certificate_ if found is None else found
    trained = isinstance(model, FairInprocessor)  # the certificate is for the rule that it imitates
    return Claim(
        _certified(model),
        model.constraint,
        certificate.bound,
        None if trained else certificate.objective,
        None if trained else certificate.violation,
        halved=bool(np.all(error_prices(model.cost, len(model.groups_)) == 0.5)),
    )


def prove(model: FairClassifier, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> Proof:
    """Recompute the certificate of a fitted model, and compare.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
        Fitted; not changed.
    X, y, sensitive_features, sample_weight
        As passed to ``fit``.

    Returns
    -------
    Proof
    """
    stored = model.certificate_
    if not hasattr(model, "fitted_to_"):
        return Proof(False, "not confirmed: the model does not record which rows it was fitted to.", stored)
    X, other = _in_order(model, X)
    if other is not None:
        return Proof(False, f"not confirmed: these are not the rows of the fit: {other}.", stored)
    again = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)  # shown by fit
        data = read_training_data(again, X, y, sensitive_features, sample_weight)
        other = model.fitted_to_.difference(data.fingerprint)
        if other is not None:
            return Proof(False, f"not confirmed: {other}.", stored)
        data, reserved = reserve_rows(again, data, model.seed_)
        posteriors = learn_posteriors(again, data, seed=model.seed_, reserved=reserved is not None)
        found, problems = _compare(model, data, posteriors)
        if found is not None and reserved is not None:
            problems += _compare_promise(model, posteriors, reserved)
    rows = len(posteriors.rows)
    if found is not None and not problems:
        return Proof(True, f"proven on {rows:,} rows: {claimed(model, found)}.", stored, found, rows)
    return Proof(False, f"not confirmed: {'; '.join(problems)}.{_hint(model)}", stored, found, rows)


def recompute(
    posteriors: LearnedPosteriors,
    groups: Groups,
    constraint: Constraint,
    *,
    prices: Floats,
    multipliers: Mapping[ConstraintName, float],
    selection: Floats | None,
) -> tuple[Certificate, Floats, Certificate]:
    """The certificate of a selection, the table W of the multipliers, and the slack due to ties.

    The slack is by how much rows with H = 0 could change the certificate if `selection` is None.

    With p the posteriors, w the weights, f the selection (1[<W, p> > 0] where it is None), and the
    requirement lo <= C rho + B t + k <= hi for some t in [0, 1]:

        masses = sum of w p,  s = sum of w f p,  rho = s / masses
        W      = (-price of a false positive, price of a false negative) + C^T lambda / masses
        risk   = <false positive prices, s[:, 0]> + <false negative prices, masses[:, 1] - s[:, 1]>
        bound  = <false negative prices, masses[:, 1]> - sum of w max(0, <W, p>) - sum of max(0, B^T lambda)
                 + sum of lambda (lo - k where lambda > 0, hi - k where lambda < 0)
    """
    n, M = len(posteriors.rows), len(prices)
    weights = np.ones(n) if posteriors.weights is None else posteriors.weights
    w = weights / weights.sum()
    p = partial(dense_posteriors, posteriors.out_of_fold, n_groups=M)
    row_blocks = [np.arange(n)[where] for where in blocks(n)]

    masses = sum((np.tensordot(w[i], p(i), axes=1) for i in row_blocks), np.zeros((M, 2)))
    masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
    if any(isinstance(part, NoWorse) for part in constraint.bounds):
        free = prices * [-1.0, 1.0]
        best = np.zeros((M, 2))
        for i in row_blocks:
            best += np.tensordot(w[i] * (np.tensordot(p(i), free, axes=2) > 0), p(i), axes=1)
        constraint = with_reference(constraint, CellRates(groups, masses, np.minimum(best, masses)))
    linear = constraint.linear(masses, groups)
    lam = np.array([multipliers[name] for name in linear.names])
    C = np.divide(linear.C, masses, out=np.zeros_like(linear.C), where=masses > 0)
    W = prices * [-1.0, 1.0] + np.tensordot(lam, C, axes=1)

    s, positive_part, tied = np.zeros((M, 2)), 0.0, 0.0
    for i in row_blocks:
        H = np.tensordot(p(i), W, axes=2)
        f = H > 0 if selection is None else selection[i]
        s += np.tensordot(w[i] * f, p(i), axes=1)
        positive_part += float(w[i] @ np.maximum(H, 0.0))
        tied += float(w[i] @ (np.abs(H) <= _ROUNDING)) if selection is None else 0.0

    rho = np.divide(s, masses, out=np.zeros_like(s), where=masses > 0)
    risk = prices[:, 0] @ s[:, 0] + prices[:, 1] @ (masses[:, 1] - s[:, 1])
    held = np.where(lam > 0, linear.lo, linear.hi) - linear.k
    bound = prices[:, 1] @ masses[:, 1] - positive_part + held @ lam
    if linear.B is not None:  # a scalar t in [0, 1] gains at most max(0, <lambda, B>)
        bound -= np.maximum(lam @ linear.B, 0.0).sum()
    violation = linear.violation(rho)
    slack = Certificate(tied * float(prices.max()), 0.0, tied * float(np.abs(C).max(initial=0.0)))
    return Certificate(float(risk), float(bound), float(violation)), W, slack


def _compare(
    model: Any, data: TrainingData, posteriors: LearnedPosteriors
) -> tuple[Certificate | None, list[str]]:
    """The recomputed certificate, and where it disagrees with the model."""
    prices = error_prices(model.cost, len(data.groups))
    near = TOLERANCE * max(1.0, float(prices.max()))
    rule = model.solved_rule_ if isinstance(model, FairPostprocessor) else None
    try:
        selection = None if rule is None else rule.selection(posteriors.out_of_fold)
        found, W, slack = recompute(
            posteriors,
            data.groups,
            _certified(model),
            prices=prices,
            multipliers=model.multipliers_,
            selection=selection,
        )
    except (KeyError, InputError):
        return None, ["the groups or multipliers do not belong to these rows"]
    problems = []
    for name, word in (("objective", "risk"), ("bound", "bound"), ("violation", "violation")):
        then, now, ties = (getattr(one, name) for one in (model.certificate_, found, slack))
        if not abs(now - then) <= near + ties:
            problems.append(f"the {word} is {now:.7g} here and {then:.7g} in the model")
    if rule is not None and selection is not None:
        if not np.abs(rule.table - W).max() <= near:
            problems.append("the rule does not follow from the multipliers")
        randomised = randomise_atoms(rule, posteriors.deployed, selection, posteriors.weights)
        expected = randomised.selection(posteriors.deployed)
        decided = model.rule_.selection(_deployed(model, data.examples.take(posteriors.rows)))
        if not np.abs(decided - expected).mean() <= near:
            problems.append("the decisions on these rows do not follow from the rule")
    return found, problems


def _in_order(model: FairClassifier, X: Any) -> tuple[Any, str | None]:
    """The table with its columns in the order of the fit, or which columns differ."""
    names = list(getattr(model, "feature_names_in_", ()))
    there = column_names(X) if names and has_names(X) else names
    lacking = [name for name in names if name not in there]
    more = [name for name in there if name not in names]
    if lacking or more:
        parts = (("there is no column", lacking), ("the fit had no column", more))
        return X, " and ".join(f"{words} {', '.join(map(repr, some[:5]))}" for words, some in parts if some)
    return (X if there == names else ordered_columns(X, names)), None


def _certified(model: Any) -> Constraint:
    """The requirement of the certificate: with a promise, the rule is made for a tighter one."""
    careful = isinstance(model, FairPostprocessor) and model.promise_ is not None
    asked: Constraint = model.promise_.internal if careful else model.constraint
    return asked


def _deployed(model: FairPostprocessor, rows: Examples) -> NDArray[Any] | GroupedScores:
    cells = model.posterior_model_.cells(rows.X, rows.allowed)
    return as_posteriors(cells, rows.codes, model.groups_, known=model.access_.knows(model.groups_))


def _compare_promise(model: Any, learned: LearnedPosteriors, reserved: Examples) -> list[str]:
    """Test the promise again on the reserved rows."""
    if isinstance(model, FairInprocessor):
        decisions = model.learner_.choose(reserved.X) == 1
    else:
        posteriors = _deployed(model, reserved)
        decisions = model.rule_.decide(posteriors, lambda rows: row_keys(reserved.X, rows))
    rates = CellRates.count(model.groups_, reserved.cells, decisions)
    asked = learned.problem(model.constraint, model.cost, model.groups_).constraint  # with its references
    tests = run_tests(asked, rates, 1 - model.confidence)
    if model.promise_.holds and not all(test.passed for test in tests):
        return ["the promise does not hold on the reserved rows"]
    return []


def _hint(model: FairClassifier) -> str:
    loose = [
        name
        for name, value in model.get_params().items()
        if name.endswith("__random_state") and value is None
    ]
    return f" With {loose[0]}=None the fit cannot be repeated; fit again with a number." if loose else ""
