"""P(S, Y | x): the probability of each group and label given the features, by fitted classifiers.

Four factorisations into probabilistic classifiers, and one for a known group:

* separate:          P(Y | x) P(S | x), where P(S | x) has one sensitive feature after the other
* label_then_group:  P(Y | x) P(S | x, y), with a model of the group for each label
* joint:             one model of the cell (S, Y)
* known group:       P(Y | x, s) alone
* proxy:             P(Y | x) P(S), where the group's probabilities are given
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.data.features import join_columns, take_rows
from evenhand.exceptions import InputError
from evenhand.posteriors.boosted_trees import StackedTrees
from evenhand.posteriors.calibration import CellCalibrator, GroupCalibrator
from evenhand.posteriors.chain import FeatureChain
from evenhand.posteriors.learner import Learner, boosted_trees
from evenhand.posteriors.table_encoder import EncodedTable, Encoder, last_columns, without_last

__all__ = ["Encoded", "PosteriorModel", "calibrated", "within"]

Floats = NDArray[np.float64]

_FEW_ROWS = 1_000
"""Number of rows up to which a model is called once for all values of the features before its own."""


class PosteriorModel(Protocol):
    """A fitted model of the posterior of every cell, or of a factor of it."""

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        """P(S=m, Y=y | x), shape (n, M, L); P(Y=y | x), shape (n, 1, L); or P(S=m | x), shape (n, M, 1)."""
        ...


@dataclass(frozen=True, eq=False)
class Joint:
    """One model of all cells."""

    model: Learner
    n_labels: int = 2

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        p = self.model.proba(X).reshape(X.shape[0], -1, self.n_labels)
        return p if allowed is None else within(p, allowed[:, :, None])


@dataclass(frozen=True, eq=False)
class LabelThenGroup:
    """P(Y | x) P(S | x, y).

    Attributes
    ----------
    label : Learner
    groups : tuple of Learner or FeatureChain
        For each label.
    """

    label: Learner
    groups: tuple[Learner | FeatureChain, ...]

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        labels = self.label.proba(X)
        p = np.stack([labels[:, [y]] * groups.proba(X) for y, groups in enumerate(self.groups)], axis=2)
        return p if allowed is None else given_label(p, allowed[:, :, None])


@dataclass(frozen=True, eq=False)
class LabelAndProxy:
    """P(Y | x) P(S), where P(S) of each row is given by the last columns of X, which the label does not see.

    Attributes
    ----------
    label : Learner
    n_groups : int
        Number of these columns.
    """

    label: Learner
    n_groups: int

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:  # noqa: ARG002
        labels = self.label.proba(without_last(X, self.n_groups))
        return labels[:, None, :] * last_columns(X, self.n_groups)[:, :, None]


@dataclass(frozen=True, eq=False)
class KnownGroup:
    """P(Y | x, s); X holds the group."""

    label: Learner

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:  # noqa: ARG002
        return self.label.proba(X)[:, None, :]


@dataclass(frozen=True, eq=False)
class GroupByFeature:
    """P(S | x), a factor of the posteriors: one sensitive feature after the other, given those before.

    The number of models and of their classes grows with the number of values, not with that of groups.

    Attributes
    ----------
    features : tuple of Learner
        A model of each feature, which sees the values of the features before it as 0/1 columns.
    levels : array of int, shape (M, features)
        Which value of each feature a group has.
    """

    features: tuple[Learner, ...]
    levels: NDArray[np.intp]

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        """Shape (n, M, 1)."""
        p = np.ones((X.shape[0], len(self.levels)))
        for place, model in enumerate(self.features):
            before, which = np.unique(self.levels[:, :place], axis=0, return_inverse=True)
            for k, given in enumerate(self._given(model, X, before)):
                own = np.flatnonzero(which.ravel() == k)
                p[:, own] *= given[:, self.levels[own, place]]
        return within(p, np.ones(p.shape, np.bool_) if allowed is None else allowed)[:, :, None]

    def _given(self, model: Learner, X: Any, before: NDArray[np.intp]) -> Iterable[Floats]:
        """Probabilities of a feature for all rows, given each of some values of the features before it."""
        n = X.shape[0]
        if n <= _FEW_ROWS:
            return np.split(model.proba(self._with_values(X, before)), len(before))
        shared = model.proba_with(X, indicators(before, self.levels))
        return (
            (model.proba(self._with_values(X, one)) for one in before[:, None]) if shared is None else shared
        )

    def _with_values(self, X: Any, values: NDArray[np.intp]) -> Any:
        """All rows with the first of some values of the features before, then with the second, and so on."""
        n = X.shape[0]

        def make() -> Any:
            rows = take_rows(X, np.tile(np.arange(n), len(values))) if len(values) > 1 else X
            return with_features(rows, np.repeat(values, n, axis=0), self.levels)

        if not values.shape[1]:
            return X
        if n > _FEW_ROWS or not isinstance(X, EncodedTable):
            return make()
        return X.derived((values.shape, values.tobytes()), make)  # the models of all folds need the same


@dataclass(frozen=True, eq=False)
class Product:
    """P(Y | x) P(S | x): label and group as if independent given x, up to what calibration corrects.

    Attributes
    ----------
    label, group : PosteriorModel
    seen : array of bool, shape (M, L)
        Cells with examples; the others have probability 0.
    """

    label: PosteriorModel
    group: PosteriorModel
    seen: NDArray[np.bool_]

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        return self.joined(self.label.cells(X, allowed), self.group.cells(X, allowed), allowed)

    def joined(self, label: Floats, group: Floats, allowed: NDArray[np.bool_] | None) -> Floats:
        """Posteriors of the cells from those of the factors."""
        p = label * group
        known = np.ones((1, len(self.seen), 1), np.bool_) if allowed is None else allowed[:, :, None]
        possible = self.seen & known
        possible |= known & ~possible.any(axis=1, keepdims=True)  # a label that the group was not seen with
        return p if possible.all() else given_label(p, possible)


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
    calibrator: CellCalibrator | GroupCalibrator

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        return calibrated(self.calibrator, self.model.cells(X, allowed), allowed)


@dataclass(frozen=True, eq=False)
class Restricted:
    """A model that does not see the known attributes; they rule out groups afterwards.

    They are evidence about the label then, by Bayes' theorem: P(S, Y | x, known) is P(S, Y | x) without the
    groups that contradict what is known, scaled to sum to 1.
    """

    model: PosteriorModel

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        p = self.model.cells(X, None)
        return p if allowed is None else within(p, allowed[:, :, None])


@dataclass(frozen=True, eq=False)
class Encoded:
    """A model whose learners share one encoding of the table, or the preparation of their pipeline."""

    encoder: Encoder
    model: PosteriorModel

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, Encoder):
            raise InputError("the encoding of the table is not one that evenhand writes.")

    def cells(self, X: Any, allowed: NDArray[np.bool_] | None) -> Floats:
        """Posteriors of the cells; trees are evaluated together where rows are few."""
        rows = self.encoder(X)
        if isinstance(rows, np.ndarray) and rows.dtype == np.float64 and self._stacks:
            rows = EncodedTable(rows, np.zeros(rows.shape[1], np.bool_))
        if isinstance(rows, EncodedTable):
            rows = replace(rows, stacks=self._stacks)
        return self.model.cells(rows, allowed)

    @cached_property
    def _stacks(self) -> tuple[StackedTrees, ...]:
        """All trees of the models that see the same columns."""
        found = [boosted_trees(learner.model) for learner in _learners(self.model)]
        fitted = [model for model in found if model is not None]
        columns = sorted({model.n_features_in_ for model in fitted})
        return tuple(StackedTrees([m for m in fitted if m.n_features_in_ == n]) for n in columns)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in dict(self.__dict__).items() if name != "_stacks"}


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


def calibrated(
    calibrator: CellCalibrator | GroupCalibrator, p: Floats, allowed: NDArray[np.bool_] | None
) -> Floats:
    """Calibrated posteriors of the cells; impossible groups keep probability 0."""
    if isinstance(calibrator, GroupCalibrator):
        return calibrator(p[:, 0], _known_codes(allowed, len(p)))[:, None]
    new = calibrator(p.reshape(len(p), -1)).reshape(p.shape)
    return new if allowed is None else given_label(new, allowed[:, :, None])


def within(p: Floats, allowed: NDArray[np.bool_] | None) -> Floats:
    """Probabilities restricted to what is allowed and rescaled to sum to 1; uniform if nothing is left."""
    if allowed is None:
        return p
    axes = tuple(range(1, p.ndim))
    kept = np.where(allowed, p, 0.0)
    total = kept.sum(axis=axes, keepdims=True)
    even = np.broadcast_to(allowed, p.shape) / np.broadcast_to(allowed, p.shape).sum(axis=axes, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), even)


def given_label(p: Floats, possible: NDArray[np.bool_]) -> Floats:
    """Posteriors of the cells without impossible ones, and with the same P(Y | x)."""
    labels, possible = p.sum(axis=1), np.broadcast_to(possible, p.shape)
    given = [labels[:, [y]] * within(p[:, :, y], possible[:, :, y]) for y in range(p.shape[2])]
    return np.stack(given, axis=2)


def with_features(X: Any, values: NDArray[np.intp], levels: NDArray[np.intp]) -> Any:
    """X with a 0/1 column for each value of the sensitive features that come before another one.

    Parameters
    ----------
    X : table or matrix
    values : array of int, shape (n, features before)
    levels : array of int, shape (M, features)
        Of which all values that occur get a column.

    Returns
    -------
    table or matrix
    """
    columns = list(indicators(values, levels).T)
    if not columns:
        return X
    return X.joined(columns) if isinstance(X, EncodedTable) else join_columns(X, columns, "feature")


def indicators(values: NDArray[np.intp], levels: NDArray[np.intp]) -> Floats:
    """The 0/1 columns of `with_features`, shape (n, columns)."""
    of = zip(values.T, levels.T, strict=False)
    columns = [own == value for own, known in of for value in range(known.max() + 1)]
    return np.array(columns, dtype=np.float64).reshape(len(columns), len(values)).T
