"""The certificate of a fitted model, recomputed from the rows that it was fitted to.

Posteriors are learned again with the model's own settings and seed. The certificate then follows from
formulas that are independent of the solver: by weak duality, any multipliers in a file give a valid bound.
A trained classifier is trained again, and has to decide alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from evenhand.data.batched_table import BatchedTable, is_dask, is_lazy
from evenhand.data.features import column_names, has_names, ordered_columns
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.fair_training import FairTraining, train_fair
from evenhand.estimators.fit_rows import ScoredRows, read_rows, space_for_posteriors
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.exceptions import EvenhandWarning, InputError
from evenhand.files.formulas import Mixture, Nearness, Part, recompute
from evenhand.files.guarantee_check import compare_guarantee, deployed_posteriors, with_ranks
from evenhand.optimum.action_problem import ActionsProblem
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.nearest import slack_of
from evenhand.optimum.problem import FairnessProblem, prices_of
from evenhand.optimum.rule import Rule
from evenhand.posteriors.examples import Examples
from evenhand.requirements.actions import Actions
from evenhand.requirements.notions import Notion
from evenhand.requirements.requirement import Constraint
from evenhand.solver.certificate import Certificate, small

TOLERANCE = 1e-6
"""Largest difference from the stored certificate, for costs of up to 1."""

_PROVEN = (("bound", "bound"), ("violation", "violation"))
_SHIPPED = (
    ("shipped_objective", "objective of the shipped rule"),
    ("shipped_violation", "violation of the shipped rule"),
)

_BORDERLINE = 1e-3
"""Share of the rows that a trained classifier may decide differently on another processor, at its border."""


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
        The requirement of the user. With a guarantee or a margin, the rule is made for a tighter one.
    bound : float
        No classifier that satisfies the requirement has a smaller risk under the posteriors.
    risk : float
        Of the classifier under the posteriors; with ``objective="minimax"`` the largest one of a group.
    violation : float
        Of the requirement, by the classifier.
    halved : bool
        Whether the risk is half the error rate, because both errors cost 1/2.
    minimised : str, default="risk"
        What the bound is about: the risk, or the largest risk of a group.
    trained : bool, default=False
        Whether the classifier was trained: new rows may then show another risk and violation.
    """

    requirement: Constraint
    asked: Constraint
    bound: float
    risk: float
    violation: float
    halved: bool
    minimised: str = "risk"
    trained: bool = False

    @property
    def tightened(self) -> bool:
        """Whether the bound is for a tighter requirement than was asked for."""
        return repr(self.requirement) != repr(self.asked)

    @property
    def risk_name(self) -> str:
        """Name of the risk in sentences."""
        return f"{self.minimised} (half the error)" if self.halved else self.minimised

    def __str__(self) -> str:
        has = f"{'has a' if self.minimised == 'risk' else 'brings the'} {self.risk_name}"
        if self.trained:
            text = (
                "under the posteriors that trained this classifier, none that satisfies "
                f"{self.requirement!r} {has} below {self.bound:.6f}; this one has {self.risk:.6f} and "
                f"violates the requirement by {small(self.violation)} under them, and an audit shows how it "
                "performs"
            )
        else:
            text = (
                f"no classifier that satisfies {self.requirement!r} under these posteriors {has} below "
                f"{self.bound:.6f}; this one has {self.risk:.6f}, a gap of "
                f"{small(self.risk - self.bound)}, and violates the requirement by {small(self.violation)}"
            )
        tighter = f". This is tighter than what was asked for, {self.asked!r}, for the sake of new rows"
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
    return Claim(
        _certified(model),
        model.settings().constraint,
        certificate.bound,
        *certificate.of_rule,
        halved=not isinstance(model.objective, Notion)
        and not isinstance(getattr(model, "rule_", None), ActionRule)
        and bool(np.all(prices_of(model.cost, model.groups_) == 0.5)),
        minimised=certificate.minimised,
        trained=isinstance(model, FairInprocessor),
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
    X, other = _as_fitted(model, X, y, sample_weight)
    if other is not None:
        return Proof(False, f"not confirmed: these are not the rows of the fit: {other}.", stored)
    again = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)  # shown by fit
        settings = again.settings()
        rows = read_rows(settings, X, y, sensitive_features, sample_weight, seed=model.seed_)
        other = model.fitted_to_.difference(rows.data.fingerprint)
        if other is not None:
            return Proof(False, f"not confirmed: {other}.", stored)
        trains = isinstance(model, FairInprocessor)
        data = rows.standing_for_all if trains else rows.data
        with nullcontext(ScoredRows) if trains else space_for_posteriors(settings, rows) as score_all:
            posteriors = rows.learn(settings, data, model.seed_)
            scored = score_all(posteriors)
            problem = scored.problem(settings, data.compared)
            trained = None
            if trains:
                asked, held_out = settings.constraint, rows.held_out
                trained = train_fair(again, asked, data, posteriors, seed=model.seed_, held_out=held_out)

            def randomised(rule: Rule) -> Rule:
                selection = rule.selection(posteriors.out_of_fold)
                made = with_ranks(model, scored.deployed(rule, selection, problem), rows.held_out)
                return made if model.rule_.randomises else scored.deterministic(made, problem)

            examples = data.examples.take(posteriors.rows)
            found, problems = _compare(
                model,
                examples,
                posteriors,
                problem=problem,
                parts=scored.parts,
                randomised=randomised,
                trained=trained,
            )
            if found is not None and rows.held_out is not None:
                problems += compare_guarantee(model, problem, posteriors, data, rows.held_out)
    proven, drawn = len(posteriors.rows), ""
    if rows.sample is not None and (trains or data.actions is not None):
        drawn = f" drawn from {data.fingerprint.rows:,}"
    elif rows.sample is not None:
        proven = data.fingerprint.rows
    if found is not None and not problems:
        verdict = f"proven on {proven:,} rows{drawn}: {claimed(model, found)}."
        return Proof(True, verdict, stored, found, proven)
    hint = "" if found is None else _hint(model)
    return Proof(False, f"not confirmed: {'; '.join(problems)}.{hint}", stored, found, proven)


def _compare(
    model: Any,
    examples: Examples,
    posteriors: LearnedPosteriors,
    *,
    problem: FairnessProblem,
    parts: Callable[[], Iterable[Part]],
    randomised: Callable[[Rule], Rule],
    trained: FairTraining | None,
) -> tuple[Certificate | None, list[str]]:
    """The recomputed certificate, and where it disagrees with the model.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    examples : Examples
        Rows that posteriors were learned from.
    posteriors : LearnedPosteriors
        Of these rows, learned again.
    problem : FairnessProblem
        The requirement on these rows.
    parts : function
        Posteriors of all rows that the certificate is about.
    randomised : function
        The rule for new rows, from the solved one.
    trained : FairTraining or None
        A trained classifier, trained again.

    Returns
    -------
    certificate : Certificate or None
    problems : list of str
    """
    several = problem.actions if isinstance(problem, ActionsProblem) else None
    costs = _costs(model, several)
    dearest = float(costs.max())
    near = TOLERANCE * max(1.0, dearest)
    rule = model.solved_rule_ if isinstance(model, FairPostprocessor) else None
    try:
        found, W = recompute(
            parts,
            model.compared_,
            _certified(model),
            multipliers=model.multipliers_,
            rule=rule,
            shipped=None if rule is None else model.rule_,
            costs=costs,
            actions=several,
            mixture=Mixture.of(model),
            nearness=Nearness.of(model),
        )
    except (AttributeError, InputError, KeyError, TypeError):
        return None, ["the groups or multipliers do not belong to these rows"]
    problems, borderline = [], {}
    if trained is not None:  # the stored multipliers give the bound, training again the rest
        certificate = trained.certificate
        found = replace(certificate, bound=found.bound)
        C = problem.linear_constraints.C
        flipped = _BORDERLINE * max(1.0, float(np.abs(C).max(initial=0.0)))
        borderline = {"objective": _BORDERLINE * dearest, "violation": flipped}
        here, there = (one.selection(examples.X) for one in (trained.chosen.model, model.learner_))
        if not np.abs(here - there).mean() <= _BORDERLINE:
            problems.append("the classifier is not the one that is trained on these rows")
        worth = flipped * sum(map(abs, model.multipliers_.values()))
        if not abs(certificate.relaxed - model.certificate_.relaxed) <= near + worth:
            problems.append("the bound for classifiers that violate the requirement as this one is another")
    if found.minimised != model.certificate_.minimised:
        problems.append(f"the fit minimises the {found.minimised}, and the model another objective")
    shipped = () if rule is None else _SHIPPED
    for name, word in (("objective", found.minimised), *_PROVEN, *shipped):
        then, now = (getattr(one, name) for one in (model.certificate_, found))
        if then is None or not abs(now - then) <= near + borderline.get(name, 0.0):
            known = "missing" if then is None else f"{then:.7g}"
            problems.append(f"the {word} is {now:.7g} here and {known} in the model")
    if isinstance(model.objective, Notion) and abs(slack_of(model.nearest_) - found.objective) > 10 * near:
        problems.append(f"{model.nearest_!r} is not what is attained")
    if rule is not None:
        if not np.abs(rule.table - W).max() <= near:
            problems.append("the rule does not follow from the multipliers")
        expected = randomised(rule).selection(posteriors.deployed)
        decided = model.rule_.selection(deployed_posteriors(model, examples))
        if not np.abs(decided - expected).mean() <= near:
            problems.append("the decisions on these rows do not follow from the rule")
    return found, problems


def _costs(model: FairClassifier, actions: Actions | None) -> Any:
    """What each action costs in each cell, shape (M, L, K); of two decisions, the prices of both errors."""
    if actions is not None:
        return np.broadcast_to(actions.costs, (len(model.compared_), *actions.costs.shape))
    return np.einsum("my,ya->mya", prices_of(model.cost, model.compared_), 1 - np.eye(2))


def _as_fitted(model: FairClassifier, X: Any, y: Any, sample_weight: Any) -> tuple[Any, str | None]:
    """The table with its columns in the order of the fit, and which columns differ."""
    names = list(getattr(model, "feature_names_in_", ()))
    if not (is_lazy(X) or is_dask(X)):
        there = column_names(X) if names and has_names(X) else names
        other = _other_columns(names, there)
        return (X if there == names or other else ordered_columns(X, names)), other
    X = BatchedTable.of(X) if is_lazy(X) else X
    there = list(getattr(X, "names", getattr(X, "columns", names)))
    others = [name for name in (y, sample_weight) if isinstance(name, str)]
    other = _other_columns(names, [name for name in there if name not in others])
    kept = [*names, *(name for name in others if name in there)]
    if other is None and isinstance(X, BatchedTable):
        X = X.select(kept)
    elif other is None and names:
        X = X[kept]
    return X, other


def _other_columns(names: Sequence[Any], there: Sequence[Any]) -> str | None:
    """Which columns of a table are not those of the fit, whatever their order; None if there are none."""
    lacking = [name for name in names if name not in there]
    more = [name for name in there if name not in names]
    parts = (("there is no column", lacking), ("the fit had no column", more))
    words = [f"{words} {', '.join(map(repr, some[:5]))}" for words, some in parts if some]
    return " and ".join(words) or None


def _certified(model: Any) -> Constraint:
    """The requirement of the certificate: the rule of a guarantee or a margin is made for a tighter one."""
    asked: Constraint = model.constraint
    if not isinstance(model, FairPostprocessor):
        return asked
    tighter = model.forecast_.internal if model.guarantee_ is None else model.guarantee_.internal
    return asked if tighter is None else tighter


def _hint(model: FairClassifier) -> str:
    loose = [
        name
        for name, value in model.get_params().items()
        if name.endswith("__random_state") and value is None
    ]
    if not loose:
        return ""
    return f" If the learner draws at random, {loose[0]}=None may be why: fit again with a number."
