"""The certificate of a fitted model, computed once more from the rows that it was fitted to.

Posteriors are learned again with the model's own settings and seed. Then the formulas are written out here in
NumPy, apart from the solver: whatever multipliers a file holds, weak duality makes a valid bound of them.
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

from evenhand.classifier import Evidence, FairClassifier, as_posteriors, counted
from evenhand.columns import blocks
from evenhand.exceptions import EvenhandWarning, InputError
from evenhand.features import column_names, has_names, ordered_columns, person_tokens
from evenhand.guarantee import run_tests
from evenhand.inprocess import FairInprocessor
from evenhand.notions import Constraint
from evenhand.posteriors import Examples
from evenhand.postprocess import FairPostprocessor
from evenhand.rows import RowName
from evenhand.rule import written_out
from evenhand.scores import GroupedScores
from evenhand.solution import error_prices
from evenhand.solver.certificate import Certificate, small
from evenhand.ties import settle_ties

__all__ = ["TOLERANCE", "Claim", "Proof", "claimed", "prove", "recompute"]

Floats = NDArray[np.float64]

TOLERANCE = 1e-6
"""Largest difference from what the model holds, for costs of up to 1."""

_ROUNDING = 1e-9
"""Size of H below which its sign may be one of rounding."""

_NEGLIGIBLE = 1e-12
"""Mass below which a cell is empty, as it is for `solve`."""


@dataclass(frozen=True)
class Proof:
    """What the rows that a model was fitted to say of its certificate.

    Attributes
    ----------
    confirmed : bool
        Whether these are the rows, and everything that was computed from them is what the model holds.
    verdict : str
        What is proven, or what disagrees.
    stored : Certificate
        As the model has it.
    found : Certificate or None
        As it was computed again; None if the rows are others.
    rows : int
        How many rows the posteriors are of.
    """

    confirmed: bool
    verdict: str
    stored: Certificate
    found: Certificate | None = None
    rows: int = 0


@dataclass(frozen=True)
class Claim:
    """What a certificate proves of a classifier, and what it does not.

    Attributes
    ----------
    requirement : Constraint
        What the bound is about.
    asked : Constraint
        What was asked for; with a promise, a rule is made for a tighter requirement.
    bound : float
        No classifier that satisfies the requirement has a smaller risk, on the posteriors.
    risk, violation : float or None
        What the classifier attains on them; None if it was trained by itself, and is not the rule of the
        multipliers.
    halved : bool
        Whether the risk is half the error, because both errors cost 1/2.
    """

    requirement: Constraint
    asked: Constraint
    bound: float
    risk: float | None
    violation: float | None
    halved: bool

    @property
    def tightened(self) -> bool:
        """Whether the bound is about more than was asked for."""
        return repr(self.requirement) != repr(self.asked)

    @property
    def risk_name(self) -> str:
        """Say what risk is."""
        return "risk (half the error)" if self.halved else "risk"

    def __str__(self) -> str:
        if self.risk is None or self.violation is None:
            said = (
                f"on the posteriors that trained this classifier, none that satisfies {self.requirement!r} "
                f"has a {self.risk_name} below {self.bound:.6f}; what it attains is for an audit to say"
            )
        else:
            said = (
                f"no classifier that satisfies {self.requirement!r} on these posteriors has a "
                f"{self.risk_name} below {self.bound:.6f}; this one has {self.risk:.6f}, a gap of "
                f"{small(self.risk - self.bound)}, and is off the requirement by {small(self.violation)}"
            )
        tighter = (
            f". That requirement is tighter than what was asked for, {self.asked!r}, so that a promise can "
            "be given"
        )
        return said + (tighter if self.tightened else "")


def claimed(model: FairClassifier, found: Certificate | None = None) -> Claim:
    """Say what the certificate of a fitted model proves.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    found : Certificate, optional
        As it was computed again; by default as the model has it.

    Returns
    -------
    Claim
    """
    certificate = model.certificate_ if found is None else found
    trained = isinstance(model, FairInprocessor)  # its certificate is of the rule that it imitates
    return Claim(
        _asked(model),
        model.constraint,
        certificate.bound,
        None if trained else certificate.objective,
        None if trained else certificate.violation,
        halved=bool(np.all(error_prices(model.cost, len(model.groups_)) == 0.5)),
    )


def prove(model: FairClassifier, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> Proof:
    """Compute the certificate of a fitted model from scratch, and compare.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
        Fitted; it stays as it is.
    X, y, sensitive_features, sample_weight
        As they were passed to fit.

    Returns
    -------
    Proof
    """
    stored = model.certificate_
    if not hasattr(model, "fitted_to_"):
        return Proof(False, "not confirmed: the model does not tell which rows it was fitted to.", stored)
    X, other = _in_order(model, X)
    if other is not None:
        return Proof(False, f"not confirmed: these are not the rows of the fit: {other}.", stored)
    again = clone(model)
    holdout = model.holdout if isinstance(model, FairPostprocessor) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)  # told at fit
        given = again._training(X, y, sensitive_features, sample_weight)
        other = model.fitted_to_.difference(given.fingerprint)
        if other is not None:
            return Proof(False, f"not confirmed: {other}.", stored)
        evidence = again._estimate(X, y, sensitive_features, sample_weight, holdout=holdout, seed=model.seed_)
        found, problems = _compare(model, evidence)
    rows = len(evidence.rows)
    if found is not None and not problems:
        return Proof(True, f"proven on {rows:,} rows: {claimed(model, found)}.", stored, found, rows)
    return Proof(False, f"not confirmed: {'; '.join(problems)}.{_hint(model)}", stored, found, rows)


def recompute(
    evidence: Evidence,
    constraint: Constraint,
    prices: Floats,
    multipliers: Mapping[RowName, float],
    selection: Floats | None,
) -> tuple[Certificate, Floats, Certificate]:
    """Give the certificate of a selection by its formulas, the table W of the multipliers, and a room.

    The room is by how much rows with H = 0 could change the certificate where the selection is not given.

    With p the posteriors, w the weights, f the selection (1[<W, p> > 0] where it is None), and the
    requirement lo <= C rho + k <= hi:

        masses = sum of w p,  s = sum of w f p,  rho = s / masses
        W      = (-price of a false positive, price of a false negative) + C^T lambda / masses
        risk   = <false positive prices, s[:, 0]> + <false negative prices, masses[:, 1] - s[:, 1]>
        bound  = <false negative prices, masses[:, 1]> - sum of w max(0, <W, p>)
                 + sum of lambda (lo - k where lambda > 0, hi - k where lambda < 0)
    """
    n, M = len(evidence.rows), len(prices)
    weights = np.ones(n) if evidence.weights is None else evidence.weights
    w = weights / weights.sum()
    p = partial(written_out, evidence.posteriors, n_groups=M)
    everybody = [np.arange(n)[where] for where in blocks(n)]

    masses = sum((np.tensordot(w[i], p(i), axes=1) for i in everybody), np.zeros((M, 2)))
    masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
    rows = constraint.rows(masses, evidence.given.groups)
    lam = np.array([multipliers[name] for name in rows.names])
    C = np.divide(rows.C, masses, out=np.zeros_like(rows.C), where=masses > 0)
    W = prices * [-1.0, 1.0] + np.tensordot(lam, C, axes=1)

    s, positive_part, tied = np.zeros((M, 2)), 0.0, 0.0
    for i in everybody:
        H = np.tensordot(p(i), W, axes=2)
        f = H > 0 if selection is None else selection[i]
        s += np.tensordot(w[i] * f, p(i), axes=1)
        positive_part += float(w[i] @ np.maximum(H, 0.0))
        tied += float(w[i] @ (np.abs(H) <= _ROUNDING)) if selection is None else 0.0

    values = np.tensordot(C, s, axes=2) + rows.k
    risk = prices[:, 0] @ s[:, 0] + prices[:, 1] @ (masses[:, 1] - s[:, 1])
    held = np.where(lam > 0, rows.lo, rows.hi) - rows.k
    bound = prices[:, 1] @ masses[:, 1] - positive_part + held @ lam
    violation = np.maximum(rows.lo - values, values - rows.hi).max(initial=0.0)
    room = Certificate(tied * float(prices.max()), 0.0, tied * float(np.abs(C).max(initial=0.0)))
    return Certificate(float(risk), float(bound), float(violation)), W, room


def _compare(model: Any, evidence: Evidence) -> tuple[Certificate | None, list[str]]:
    """Give the certificate as it is found again, and what is not as the model has it."""
    prices = error_prices(model.cost, len(evidence.given.groups))
    near = TOLERANCE * max(1.0, float(prices.max()))
    rule = model.solved_rule_ if isinstance(model, FairPostprocessor) else None
    try:
        selection = None if rule is None else rule.selection(evidence.posteriors)
        found, W, room = recompute(evidence, _asked(model), prices, model.multipliers_, selection)
    except (KeyError, InputError):
        return None, ["the groups or the multipliers are not those of these rows"]
    problems = []
    for name, word in (("objective", "risk"), ("bound", "bound"), ("violation", "violation")):
        then, now, ties = (getattr(one, name) for one in (model.certificate_, found, room))
        if not abs(now - then) <= near + ties:
            problems.append(f"the {word} is {now:.7g} here and {then:.7g} in the model")
    if rule is not None and selection is not None:
        if not np.abs(rule.table - W).max() <= near:
            problems.append("the rule is not the one that the multipliers give")
        settled = settle_ties(rule, evidence.final, selection, evidence.weights)
        expected = settled.selection(evidence.final)
        decided = model.rule_.selection(_judged(model, evidence.given.examples.take(evidence.rows)))
        if not np.abs(decided - expected).mean() <= near:
            problems.append("the model does not decide about these rows as it should")
    if evidence.reserved is not None:
        problems += _compare_promise(model, evidence.reserved)
    return found, problems


def _in_order(model: FairClassifier, X: Any) -> tuple[Any, str | None]:
    """Put the columns of a table in the order of the fit, or say which are others."""
    names = list(getattr(model, "feature_names_in_", ()))
    there = column_names(X) if names and has_names(X) else names
    lacking = [name for name in names if name not in there]
    more = [name for name in there if name not in names]
    if lacking or more:
        told = (("there is no column", lacking), ("the fit had no column", more))
        return X, " and ".join(f"{words} {', '.join(map(repr, some[:5]))}" for words, some in told if some)
    return (X if there == names else ordered_columns(X, names)), None


def _asked(model: Any) -> Constraint:
    """Give what the certificate is about: with a promise, a rule is made for a tighter requirement."""
    careful = isinstance(model, FairPostprocessor) and model.promise_ is not None
    asked: Constraint = model.promise_.internal if careful else model.constraint
    return asked


def _judged(model: FairPostprocessor, people: Examples) -> NDArray[Any] | GroupedScores:
    cells = model.posterior_model_.cells(people.X, people.allowed)
    return as_posteriors(cells, people.codes, model.groups_, known=model.sight_.knows(model.groups_))


def _compare_promise(model: Any, kept_back: Examples) -> list[str]:
    """Test the promise again, on the rows kept back."""
    promise = model.promise_
    if isinstance(model, FairInprocessor):
        decisions = model.learner_.choose(kept_back.X) == 1
    else:
        posteriors = _judged(model, kept_back)
        decisions = model.rule_.decide(posteriors, lambda who: person_tokens(kept_back.X, who))
    rates = counted(kept_back, decisions, model.groups_, None)
    if promise.holds and not all(t.passed for t in run_tests(model.constraint, rates, 1 - model.confidence)):
        return ["the promise does not hold on the rows kept back"]
    return []


def _hint(model: FairClassifier) -> str:
    loose = [
        name
        for name, value in model.get_params().items()
        if name.endswith("__random_state") and value is None
    ]
    return f" What {loose[0]}=None draws cannot be drawn again: give a number to fit." if loose else ""
