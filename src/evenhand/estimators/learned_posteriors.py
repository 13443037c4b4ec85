"""Posteriors of the training rows by models that have not seen them, and the model for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_memory

from evenhand import __version__
from evenhand.estimators.access import DIGITS
from evenhand.estimators.proxy_groups import ProxyAccess
from evenhand.estimators.settings import Settings, group_learner
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import (
    ConstantScoreWarning,
    InputError,
    TrainingRowsWarning,
    VisibleFeatureWarning,
    reason,
    warn_user,
)
from evenhand.groups.groups import Groups
from evenhand.optimum.action_problem import ActionsProblem, refuse_many_cells
from evenhand.optimum.objectives import Objective, read_problem
from evenhand.optimum.problem import FairnessProblem, label_and_group_suffice, prices_of
from evenhand.posteriors.crossfit import Estimated, RunFolds, cross_fit
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.leakage import has_seen
from evenhand.posteriors.learner import check_learner, is_frozen, is_tree_ensemble, left_out
from evenhand.posteriors.models import PosteriorModel
from evenhand.posteriors.spec import PosteriorSpec
from evenhand.posteriors.table_encoder import without_last
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.actions import Actions
from evenhand.requirements.requirement import Constraint


@dataclass(frozen=True, eq=False)
class LearnedPosteriors:
    """P(S, Y | x) of the rows that the rule is found on, and the model for new rows.

    Attributes
    ----------
    out_of_fold : Posteriors, or array of shape (n, M, L) for several actions
        By models that have not seen the rows.
    deployed : Posteriors
        Of the same rows, by `model`.
    rows : array of int
        Which of the examples they are.
    weights : array or None
        Of those rows, in risk and requirement.
    model : PosteriorModel
        For new rows.
    actions : Actions or None
        What is decided between, unless that is two labels.
    """

    out_of_fold: Any
    deployed: Any
    rows: NDArray[np.intp]
    weights: NDArray[np.float64] | None
    model: PosteriorModel
    actions: Actions | None = None

    def problem(
        self, constraint: Constraint, cost: Any, groups: Groups, objective: Objective = "risk"
    ) -> FairnessProblem:
        """The fairness problem on these rows."""
        if self.actions is not None:
            settings = {"cost": cost, "sample_weight": self.weights, "labels": self.actions.labels}
            return ActionsProblem.of(self.out_of_fold, constraint, groups=groups, **settings)
        return read_problem(
            objective, self.out_of_fold, constraint, cost=cost, sample_weight=self.weights, groups=groups
        )


def learn_posteriors(
    settings: Settings,
    data: TrainingData,
    *,
    seed: int,
    held_out: Examples | None = None,
    run: RunFolds | None = None,
) -> LearnedPosteriors:
    """Learn and calibrate the posteriors.

    Parameters
    ----------
    settings : Settings
        Its parameters say how.
    data : TrainingData
    seed : int
        The same seed gives the same posteriors.
    held_out : Examples, default=None
        Rows that are held out for a guarantee, which a frozen model that has seen them cannot have.
    run : function, default=None
        Fits the folds elsewhere; see :func:`evenhand.posteriors.crossfit.cross_fit`.

    Returns
    -------
    LearnedPosteriors
    """
    spec = posterior_spec(settings, data, seed)
    _check_frozen(spec, data.examples, held_out)
    given, classifier = settings.posteriors, settings.classifier
    average = given.average is not False
    what = {"cv": given.cv, "average": average, "calibration": given.calibration}
    where = {"n_jobs": classifier.n_jobs, "verbose": classifier.verbose, "run": run}
    learn = check_memory(given.memory).cache(_cross_fit, ignore=["where"])
    try:
        estimated = learn((__version__, sklearn.__version__), spec, data.examples, what, where)
    except PicklingError as error:
        raise InputError(f"`memory` cannot cache what these learners learn: {reason(error)}") from error
    return collect_posteriors(estimated, spec, data)


def _cross_fit(
    versions: tuple[str, ...],  # noqa: ARG001  (results of other versions are not those of this one)
    spec: PosteriorSpec,
    examples: Examples,
    what: dict[str, Any],
    where: dict[str, Any],
) -> Estimated:
    return cross_fit(spec, examples, **what, **where)


def _check_frozen(spec: PosteriorSpec, examples: Examples, held_out: Examples | None) -> None:
    """Warn of frozen models that have seen the rows; refuse them, or say what is assumed, for a guarantee."""
    parts = [examples] if held_out is None else [examples, held_out]
    found: dict[str, bool | None] = {}
    if is_frozen(spec.label):
        joint, proxies = spec.form == "joint", examples.n_groups if spec.form == "proxy" else 0
        rows = [
            (without_last(part.X, proxies), part.cells if joint else part.labels.astype(np.intp))
            for part in parts
        ]
        classes, names = (examples.n_cells, None) if joint else (spec.n_labels, spec.names)
        found["frozen model"] = has_seen(spec.label, rows, n_classes=classes, names=names, seed=spec.seed)
    if is_frozen(spec.group) and spec.form not in ("known", "joint", "proxy") and examples.known is None:
        rows = [(part.X, part.codes) for part in parts]
        found["frozen group model"] = has_seen(spec.group, rows, n_classes=examples.n_groups, seed=spec.seed)
    for model, seen in found.items():
        if seen and held_out is not None:
            raise InputError(
                f"nothing can be guaranteed of a {model} on rows that it was fitted to, as this one seems to "
                "have been: fit with rows that it has not seen."
            )
        if seen:
            warn_user(
                f"the {model} seems to have been fitted to these rows. Its scores are then better here than "
                "on new rows, where the tolerance may not hold: fit with rows that it has not seen.",
                TrainingRowsWarning,
            )
        elif seen is None and held_out is not None:
            warn_user(
                f"the guarantee holds only if the {model} has not seen these rows, which cannot be told from "
                "its scores.",
                TrainingRowsWarning,
            )


def collect_posteriors(estimated: Estimated, spec: PosteriorSpec, data: TrainingData) -> LearnedPosteriors:
    """Posteriors in the form that the rule is found on; warns if they are all the same.

    Parameters
    ----------
    estimated : Estimated
    spec : PosteriorSpec
    data : TrainingData
        Which they were estimated for.

    Returns
    -------
    LearnedPosteriors
    """
    rows = estimated.rows
    known, codes = spec.form == "known", data.examples.codes[rows]
    by_group = [estimated.final[codes == m] for m in np.unique(codes)] if known else [estimated.final]
    if all(map(_constant, by_group)) and not _constant(estimated.cells):  # solve warns of the latter
        warn_user("all rows have the same scores, so decisions can only be randomised.", ConstantScoreWarning)
    strata = None if data.examples.strata is None else data.examples.strata[rows]
    cells, final = (
        data.access.posteriors(data.groups, found, codes, strata, actions=data.actions is not None)
        for found in (estimated.cells, estimated.final)
    )
    return LearnedPosteriors(
        cells,
        final,
        rows,
        None if data.weights is None else data.weights[rows],
        estimated.model,
        data.actions,
    )


def posterior_spec(settings: Settings, data: TrainingData, seed: int) -> PosteriorSpec:
    """How posteriors are learned; what cannot be is refused before any fit."""
    if data.actions is None:
        prices_of(settings.classifier.cost, data.groups)
    else:
        refuse_many_cells(len(data.groups), data.actions)
    form: Any = "known" if data.access.knows(data.groups) else settings.posteriors.form
    label, group = settings.learners
    if form == "auto" and not settings.posteriors.group_estimator is not None and is_tree_ensemble(label):
        group = _tree_groups(settings, data)
    trees = type(group) is TabularClassifier
    known = data.examples.known
    if isinstance(data.access, ProxyAccess):
        if form not in ("auto", "separate"):
            raise InputError(
                f"form={form!r} learns groups, which are given by proxies here: use form='separate'."
            )
        form = "proxy"
    if known is not None:
        if form not in ("auto", "label_then_group"):
            raise InputError(
                f"form={form!r} cannot be learned from rows with missing sensitive values, or from "
                "probabilities: use form='label_then_group'."
            )
        form = "label_then_group"
    if form == "auto":
        form = "separate" if trees and _separate_is_enough(settings, data) else "label_then_group"
    if form == "joint" and settings.posteriors.group_estimator is not None:
        raise InputError(
            "form='joint' learns group and label with one model, so group_estimator would not be "
            "used: leave it out, or set form='label_then_group'."
        )
    weighted = data.examples.weights is not None
    check_learner(label, weighted=weighted, role="estimator")
    if form not in ("known", "joint", "proxy"):
        if known is not None and any(((p > 0) & (p < 1)).any() for p in known.values):
            weighted = True  # a row counts in part for each value that it may have
        check_learner(group, weighted=weighted, role="group_estimator")
    _warn_if_left_out([settings.classifier.estimator, label, group], data)
    levels = None if known is None else known.levels
    if trees and known is None:  # the features with the fewest values first
        groups = data.groups
        levels = groups.level_codes(sorted(groups.features, key=lambda name: len(groups.levels(name))))
    where, hidden = data.access.where, data.access.hidden
    return PosteriorSpec(
        form,
        label,
        group,
        data.classes,
        seed,
        levels,
        imputed=known is not None,
        unaware=is_frozen(label) and (not isinstance(where, list) or set(where) <= set(hidden)),
    )


def _tree_groups(settings: Settings, data: TrainingData) -> Any:
    """Our own trees for the groups where P(S | x) is enough; otherwise the learner of the label."""
    fits = not issparse(data.examples.X) and data.examples.known is None
    fits = fits and not isinstance(data.access, ProxyAccess) and _separate_is_enough(settings, data)
    return group_learner(TabularClassifier(), None) if fits else settings.learners[1]


def _warn_if_left_out(estimators: list[Any], data: TrainingData) -> None:
    """Warn if an estimator's own choice of columns leaves out those that tell what it may use."""
    X = data.examples.X
    added = len(data.access.added_columns(X)[1])
    for estimator in estimators:
        lost = left_out(estimator, X, added) if added else []
        if lost:
            warn_user(
                f"the ColumnTransformer of {type(estimator).__name__} leaves out columns that aware= adds to "
                f"X to tell the group: {', '.join(map(repr, lost))}. Set its remainder='passthrough', or "
                "let a transformer have them, in a table by make_column_selector(pattern='^known').",
                VisibleFeatureWarning,
            )
            return


def _separate_is_enough(settings: Settings, data: TrainingData) -> bool:
    """Whether P(Y | x) P(S | x) leads to the same optimum as the posteriors of the cells."""
    if data.access.known is not None or not data.examples.seen.all():
        return False  # a known feature, or an empty cell, ties label and group together
    if settings.classifier.objective != "risk":
        return False  # errors of a group depend on how label and group go together
    cells, L = data.examples.compared_cells, data.examples.n_labels
    counts = np.bincount(cells, weights=data.weights, minlength=L * len(data.compared))
    masses = (counts / counts.sum()).reshape(-1, L)
    cost = settings.classifier.cost if data.actions is None else 0.5
    return label_and_group_suffice(settings.constraint, cost, masses, data.compared, data.actions)


def _constant(cells: NDArray[np.float64]) -> bool:
    return len(cells) > 1 and bool(np.ptp(cells, axis=0).max() < 10.0**-DIGITS)
