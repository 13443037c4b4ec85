"""P(S, Y | x): the probability of each group and label given the features, learned from examples.

Three factorisations into probabilistic classifiers, and one for a known group:

* joint:             one model of the cell (S, Y)
* group_then_label:  P(S | x) P(Y | x, s)
* label_then_group:  P(Y | x) P(S | x, y), with a model of the group for each label
* known group:       P(Y | x, s) alone
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.model_selection import train_test_split

from evenhand.exceptions import InputError
from evenhand.inputs.features import join_columns, take_rows
from evenhand.inputs.splits import random_split
from evenhand.posteriors.calibration import Calibrator, GroupCalibrator
from evenhand.posteriors.learner import Learner, fit_learner, is_frozen
from evenhand.posteriors.stacked_trees import StackedTrees
from evenhand.posteriors.table_encoder import EncodedTable, TableEncoder
from evenhand.posteriors.tabular import TabularClassifier

__all__ = [
    "Balance",
    "Encoded",
    "Examples",
    "Form",
    "PosteriorModel",
    "PosteriorSpec",
    "averaged",
    "calibrated",
]

Form = Literal["joint", "group_then_label", "label_then_group"]
Balance = Literal["weight", "upsample"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows to learn from, as the models see them.

    Attributes
    ----------
    X : table or matrix
        Without the columns that may not be used, with indicators of the known group.
    codes, positive : array
        Group and label of each row.
    n_groups : int
    allowed : array of bool, shape (n, M), or None
        Groups that are possible given the known attributes of each row.
    weights : array or None
    """

    X: Any
    codes: NDArray[np.intp]
    positive: NDArray[np.bool_]
    n_groups: int
    allowed: NDArray[np.bool_] | None = None
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def cells(self) -> NDArray[np.intp]:
        """2 m + y of each row."""
        return 2 * self.codes + self.positive

    def split(self, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows in two, stratified by cell; the second part has the given share.

        Both parts have the same share of each label in every group, so neither shows the sampling error of
        the other: tests and intervals on the second part are not valid for what was learned from the first.
        """
        cells = self.cells
        counts = np.bincount(cells, minlength=2 * self.n_groups)
        strata = np.where(counts[cells] > 1, cells, counts.argmax())  # single rows join the largest cell
        try:
            first, second = train_test_split(
                np.arange(len(self)), test_size=share, random_state=seed, stratify=strata
            )
        except ValueError:  # too few rows to stratify
            return self.sample(share, seed)
        return np.sort(first), np.sort(second)

    def sample(self, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows in two, the second a simple random sample; see :func:`random_split`."""
        return random_split(len(self), share, seed)

    def take(self, rows: NDArray[np.intp]) -> Examples:
        """Some of the rows."""
        return Examples(
            None if self.X is None else take_rows(self.X, rows),
            self.codes[rows],
            self.positive[rows],
            self.n_groups,
            None if self.allowed is None else self.allowed[rows],
            None if self.weights is None else self.weights[rows],
        )


class PosteriorModel(Protocol):
    """A fitted model of the posterior of every cell."""

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        """P(S=m, Y=y | x), shape (n, M, 2); or P(Y=y | x), shape (n, 1, 2), where the group is known."""
        ...


@dataclass(frozen=True, eq=False)
class Joint:
    """One model of all cells."""

    model: Learner

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        p = self.model.proba(X).reshape(X.shape[0], -1, 2)
        return p if allowed is None else _within(p, allowed[:, :, None])


@dataclass(frozen=True, eq=False)
class GroupThenLabel:
    """P(S | x) P(Y | x, s)."""

    group: Learner
    label: Learner

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        groups = _within(self.group.proba(X), allowed)
        p = np.empty((*groups.shape, 2))
        for m in range(groups.shape[1]):
            p[:, m] = self.label.proba(_with_group(X, np.full(len(groups), m), groups.shape[1]))
        return p * groups[:, :, None]


@dataclass(frozen=True, eq=False)
class LabelThenGroup:
    """P(Y | x) P(S | x, y)."""

    label: Learner
    groups: tuple[Learner, Learner]

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        labels = self.label.proba(X)
        p = np.stack([labels[:, [y]] * self.groups[y].proba(X) for y in (0, 1)], axis=2)
        # Jointly, because the known attributes are also evidence about the label.
        return p if allowed is None else _within(p, allowed[:, :, None])


@dataclass(frozen=True, eq=False)
class KnownGroup:
    """P(Y | x, s); X holds the group."""

    label: Learner

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:  # noqa: ARG002
        return self.label.proba(X)[:, None, :]


@dataclass(frozen=True, eq=False)
class Averaged:
    """The mean of several models."""

    models: tuple[PosteriorModel, ...]

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        total = self.models[0].cells(X, allowed)
        for model in self.models[1:]:
            total = total + model.cells(X, allowed)
        return total / len(self.models)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A model followed by a calibrator."""

    model: PosteriorModel
    calibrator: Calibrator | GroupCalibrator

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        return calibrated(self.calibrator, self.model.cells(X, allowed), allowed)


@dataclass(frozen=True, eq=False)
class Encoded:
    """A model whose learners share one encoding of the table."""

    encoder: TableEncoder
    model: PosteriorModel

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, TableEncoder):
            raise InputError("the encoding of the table is not one that evenhand writes.")

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        """Posteriors of the cells; trees are evaluated together where rows are few."""
        rows = self.encoder(X)
        if self._trees is not None and self._trees.suits(rows.shape[0]):
            found = zip(self._trees.models, self._trees.proba(rows.matrix), strict=True)
            rows = replace(rows, probabilities={id(model): p for model, p in found})
        return self.model.cells(rows, allowed)

    @cached_property
    def _trees(self) -> StackedTrees | None:
        """All trees of the model, where every learner sees the encoded columns alone."""
        fitted = [learner.model.model_ for learner in _learners(self.model) if learner.model is not None]
        columns = {model.n_features_in_ for model in fitted}
        return StackedTrees(fitted) if columns == {len(self.encoder.levels)} else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in dict(self.__dict__).items() if name != "_trees"}


def _learners(model: Any) -> list[Learner]:
    """All learners inside a posterior model."""
    if isinstance(model, Learner):
        return [model]
    parts = model if isinstance(model, tuple) else vars(model).values() if is_dataclass(model) else ()
    return [learner for part in parts for learner in _learners(part)]


def _known_codes(allowed: NDArray[np.bool_] | None, n: int) -> NDArray[np.intp]:
    """The only possible group of each row; -1 where there are several."""
    if allowed is None:
        return np.full(n, -1, np.intp)
    return np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)


def averaged(models: Iterable[PosteriorModel]) -> PosteriorModel:
    """The mean of several models, as a model."""
    return Averaged(tuple(models))


def calibrated(
    calibrator: Calibrator | GroupCalibrator, p: Floats, allowed: NDArray[np.bool_] | None
) -> Floats:
    """Calibrated posteriors of the cells; impossible groups keep probability 0."""
    if isinstance(calibrator, GroupCalibrator):
        return calibrator(p[:, 0], _known_codes(allowed, len(p)))[:, None]
    new = calibrator(p.reshape(len(p), -1)).reshape(p.shape)
    return new if allowed is None else _within(new, allowed[:, :, None])


@dataclass(frozen=True, eq=False)
class PosteriorSpec:
    """How to learn posteriors.

    Attributes
    ----------
    form : {"joint", "group_then_label", "label_then_group", "known"}
    label, group : classifier
        `label` is the model of the label, or of the cells if `form` is "joint".
    balance : {"weight", "upsample"}, default=None
        How to balance small classes of the group model.
    names : array, default=None
        The two values of the label, which a frozen classifier may have as its classes.
    seed : int, default=0
        For up-sampling.
    """

    form: Form | Literal["known"]
    label: Any
    group: Any
    balance: Balance | None = None
    names: NDArray[Any] | None = None
    seed: int = 0

    @property
    def fits(self) -> int:
        """Number of classifiers that one call of `fit` fits."""
        groups = {"group_then_label": 1, "label_then_group": 2}.get(self.form, 0)
        return (not is_frozen(self.label)) + (0 if is_frozen(self.group) else groups)

    def encoder(self, X: Any) -> TableEncoder | None:
        """An encoder of the table that all learners can share; None if they are not our own trees."""
        used = [self.label] if self.form in ("known", "joint") else [self.label, self.group]
        if issparse(X) or any(type(learner) is not TabularClassifier for learner in used):
            return None
        return TableEncoder.fit(X)

    def fit(self, rows: Examples) -> PosteriorModel:
        """Posterior model learned from examples."""
        if self.form == "known":
            return KnownGroup(self._label(rows.X, rows))
        if self.form == "joint":
            return Joint(self._group(self.label, rows, rows.cells, 2 * rows.n_groups))
        if self.form == "group_then_label":
            return GroupThenLabel(
                self._group(self.group, rows, rows.codes, rows.n_groups),
                self._label(_with_group(rows.X, rows.codes, rows.n_groups), rows),
            )
        given = []
        for label in (False, True):
            own = rows.positive == label
            which = np.flatnonzero(own if rows.weights is None else own & (rows.weights > 0))
            part = rows.take(which) if len(which) else rows
            given.append(self._group(self.group, part, part.codes, rows.n_groups))
        return LabelThenGroup(self._label(rows.X, rows), (given[0], given[1]))

    def _label(self, X: Any, rows: Examples) -> Learner:
        target = rows.positive.astype(np.intp)
        return fit_learner(self.label, X, target, n_classes=2, weights=rows.weights, names=self.names)

    def _group(self, estimator: Any, rows: Examples, target: NDArray[np.intp], n_classes: int) -> Learner:
        """Fit a model of groups or cells, balanced if asked for and corrected for it afterwards."""
        if self.balance is None:
            return fit_learner(estimator, rows.X, target, n_classes=n_classes, weights=rows.weights)
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        factor = _factors(target, weights, n_classes)
        if self.balance == "weight":
            more = weights * factor[target]
            found = fit_learner(estimator, rows.X, target, n_classes=n_classes, weights=more)
            after = np.bincount(target, weights=more, minlength=n_classes)
        else:
            drawn = _upsampled(target, factor, self.seed)
            X = take_rows(rows.X, drawn)
            part = None if rows.weights is None else weights[drawn]
            found = fit_learner(estimator, X, target[drawn], n_classes=n_classes, weights=part)
            after = np.bincount(target[drawn], weights=weights[drawn], minlength=n_classes)
        before = np.bincount(target, weights=weights, minlength=n_classes)
        correction = np.divide(before, after, out=np.ones(n_classes), where=after > 0)
        return Reweighted(found.model, found.places, n_classes, correction)


@dataclass(frozen=True, eq=False)
class Reweighted(Learner):
    """A classifier fitted to balanced classes; `correction` restores the population's class shares."""

    correction: Floats

    def proba(self, X: Any) -> Floats:
        """P(class | x) in the population."""
        p = super().proba(X) * self.correction
        return np.asarray(p / p.sum(axis=1, keepdims=True))


def _factors(target: NDArray[np.intp], weights: Floats, n_classes: int) -> Floats:
    """Factor for each class: a class with less than half of an even share is raised to that."""
    share = np.bincount(target, weights=weights, minlength=n_classes) / weights.sum()
    return np.maximum(1.0, 0.5 / n_classes / np.where(share > 0, share, 1.0))


def _upsampled(target: NDArray[np.intp], factor: Floats, seed: int) -> NDArray[np.intp]:
    """All rows, followed by further draws from the rows of small classes."""
    rng = np.random.default_rng(seed)
    again = []
    for k in np.flatnonzero(factor > 1):
        members = np.flatnonzero(target == k)
        again.append(rng.choice(members, size=round((factor[k] - 1) * len(members))))
    return np.concatenate([np.arange(len(target)), *again])


def _within(p: Floats, allowed: NDArray[np.bool_] | None) -> Floats:
    """Probabilities restricted to what is allowed and rescaled to sum to 1; uniform if nothing is left."""
    if allowed is None:
        return p
    axes = tuple(range(1, p.ndim))
    kept = np.where(allowed, p, 0.0)
    total = kept.sum(axis=axes, keepdims=True)
    even = np.broadcast_to(allowed, p.shape) / np.broadcast_to(allowed, p.shape).sum(axis=axes, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), even)


def _with_group(X: Any, codes: NDArray[Any], n_groups: int) -> Any:
    indicators = [(codes == m).astype(np.float64) for m in range(n_groups)]
    return X.joined(indicators) if isinstance(X, EncodedTable) else join_columns(X, indicators, "group")
