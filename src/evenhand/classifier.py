"""What every fair classifier shares: reading people and labels, and answering in the labels of fit."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from evenhand.columns import level_order, named_columns
from evenhand.crossfit import cross_fit
from evenhand.data import Labels, check_choice, check_rows, read_labels, read_weights
from evenhand.exceptions import (
    ConstantClassifierWarning,
    ConstantScoreWarning,
    EvenhandError,
    InputError,
    reason,
)
from evenhand.features import read_features
from evenhand.fingerprint import Fingerprint
from evenhand.groups import Groups
from evenhand.guarantee import Promise, check_promise
from evenhand.learner import check_learner, check_model, is_frozen
from evenhand.notions import Constraint
from evenhand.overlap import warn_if_seen
from evenhand.people import Sight, find_groups, find_sight, find_usable
from evenhand.posteriors import Examples, PosteriorModel, Recipe
from evenhand.rates import CellRates
from evenhand.scores import GroupedScores
from evenhand.solution import Task, error_prices
from evenhand.solver.certificate import Certificate
from evenhand.tabular import TabularClassifier

__all__ = ["Evidence", "FairClassifier", "Training", "answers_for_file", "as_posteriors", "counted"]

Method = TypeVar("Method", bound=Callable[..., Any])

_DIGITS = 12


def answers_for_file(method: Method) -> Method:
    """Let a model that was loaded from a file say in a sentence that it cannot decide.

    A file may have been altered, or written with other versions of the packages that it needs: then their
    errors say nothing of the file. Errors of a model that was fitted here stay as they are.
    """

    @functools.wraps(method)
    def answered(self: FairClassifier, *given: Any, **named: Any) -> Any:
        try:
            return method(self, *given, **named)
        except EvenhandError:
            raise
        except Exception as error:
            if self._file is None:
                raise
            raise InputError(
                f"the model of {self._file!r} cannot decide about these rows: {reason(error)}"
            ) from error

    return answered  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Training:
    """What fit was given, read and validated.

    Attributes
    ----------
    examples : Examples
        Rows as the models see them; their weights are those of the inner fit.
    groups : Groups
    classes : array of two values
        ``[negative, positive]``.
    sight : Sight
    weights : array or None
        How much each row counts in risk and requirement.
    fingerprint : Fingerprint
        By which the rows are known again.
    """

    examples: Examples
    groups: Groups
    classes: NDArray[Any]
    sight: Sight
    weights: NDArray[np.float64] | None
    fingerprint: Fingerprint


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a rule is found on: posteriors of rows that their model has not seen.

    Attributes
    ----------
    given : Training
    posteriors : array of shape (k, M, 2), or GroupedScores
    rows : array of int
        Which of the examples they are.
    final : array or GroupedScores
        Of the same rows, by the model for new ones.
    weights : array or None
        Of those rows, in risk and requirement.
    model : PosteriorModel
        For new rows.
    seed : int
        For further draws, and for the key of lots.
    fits : int
        How many models were fitted.
    reserved : Examples or None
        Rows kept back for a promise, which nothing was learned from.
    """

    given: Training
    posteriors: NDArray[Any] | GroupedScores
    rows: NDArray[np.intp]
    final: NDArray[Any] | GroupedScores
    weights: NDArray[np.float64] | None
    model: PosteriorModel
    seed: int
    fits: int
    reserved: Examples | None = None

    def task(self, constraint: Constraint, cost: ArrayLike) -> Task:
        """Pose a requirement on these rows."""
        return Task.read(
            self.posteriors,
            constraint,
            cost=cost,
            sample_weight=self.weights,
            groups=self.given.groups,
        )


class FairClassifier(ClassifierMixin, BaseEstimator):
    """Parent of the fair classifiers; subclasses have a constructor, ``fit`` and ``_decide``."""

    _file: str | None = None
    """Where the model was loaded from."""

    _source: Any = None
    """What that file says of the table that it was learned from."""

    estimator: Any
    group_estimator: Any
    constraint: Any
    sensitive_features: Any
    aware: Any
    pos_label: Any
    weights: Any
    missing: Any
    unseen: Any
    min_group_size: Any
    random_state: Any
    cost: Any
    posterior: Any
    cv: Any
    average: Any
    calibration: Any
    balance: Any
    tol: Any
    n_jobs: Any
    verbose: Any
    confidence: Any
    reserve: Any
    classes_: NDArray[Any]
    pos_label_: Any
    groups_: Groups
    sight_: Sight
    certificate_: Certificate
    fitted_to_: Fingerprint
    promise_: Promise | None
    seed_: int

    def _training(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> Training:
        """Read and check everything before any work starts."""
        if not isinstance(self.constraint, Constraint):
            raise InputError(
                "constraint should be a notion of fairness, such as DemographicParity(difference=0.02), but "
                f"is {self.constraint!r}."
            )
        self.constraint.check(None)
        check_choice("weights", self.weights, ("both", "fit", "constraint"))
        check_model(self._label_model, role="estimator")
        check_model(self._group_model, role="group_estimator")
        if not isinstance(self.min_group_size, Integral) or self.min_group_size < 0:
            raise InputError(
                f"min_group_size should be a whole number from 0 on, but is {self.min_group_size!r}."
            )
        X = read_features(self, X, reset=True)
        y = _label_column(y)
        if sensitive_features is not None:  # refuses lazy tables and names that occur twice
            named_columns(sensitive_features, what="sensitive_features", default_name="sensitive_feature")
        check_rows({"X": X, "y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight})
        labels: Labels = read_labels(y, pos_label=self.pos_label)
        weights = read_weights(sample_weight, X.shape[0])
        if weights is not None and len(np.unique(labels.positive[weights > 0])) < 2:
            raise InputError("y has only one class where sample_weight is not 0, and two are needed.")
        groups, codes, columns = find_groups(
            X,
            sensitive_features,
            self.sensitive_features,
            missing=self.missing,
            unseen=self.unseen,
            min_size=self.min_group_size,
            single_features=any(notion.groups == "independent" for notion in self.constraint.notions),
        )
        self.constraint.check(groups)
        sight = find_sight(
            X,
            columns,
            groups,
            self.sensitive_features,
            aware=self.aware,
            frozen_to=self._frozen_to(groups),
        )
        people = sight.view(X, columns)
        examples = Examples(
            people.X,
            codes.astype(np.intp),
            labels.positive,
            len(groups),
            sight.allowed(groups, people.known),
            weights if self.weights != "constraint" else None,
        )
        return Training(
            examples,
            groups,
            labels.classes,
            sight,
            weights if self.weights != "fit" else None,
            Fingerprint.of(X, labels.positive, codes, weights),
        )

    def _estimate(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        *,
        holdout: float | None = None,
        seed: int | None = None,
    ) -> Evidence:
        """Learn posteriors, and give those of rows that their model has not seen.

        With the seed of an earlier fit they are those of that fit.
        """
        given = self._training(X, y, sensitive_features, sample_weight)
        if seed is None:
            seed = int(check_random_state(self.random_state).randint(2**31))
        given, reserved = self._kept_back(given, seed)
        recipe = self._recipe(given, seed)
        estimated = cross_fit(
            recipe,
            given.examples,
            cv=self.cv,
            holdout=holdout,
            average=self.average,
            calibration=self.calibration,
            seed=seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        rows = estimated.rows
        if is_frozen(self.estimator) and recipe.form != "joint":
            seen = warn_if_seen(estimated.plain[:, :, 1].sum(axis=1), given.examples.positive[rows])
            if seen and reserved is not None:
                raise InputError(
                    "nothing can be promised of a frozen model on rows that it was fitted to: fit with rows "
                    "that it has not seen."
                )
        known, codes = recipe.form == "known", given.examples.codes[rows]
        apart = [estimated.final[codes == m] for m in np.unique(codes)] if known else [estimated.final]
        if all(map(_constant, apart)) and not _constant(estimated.cells):  # solve tells of the latter
            warnings.warn(
                "all rows have the same scores, so that decisions can only be drawn by lot.",
                ConstantScoreWarning,
                stacklevel=4,
            )
        return Evidence(
            given,
            as_posteriors(estimated.cells, codes, given.groups, known=known),
            rows,
            as_posteriors(estimated.final, codes, given.groups, known=known),
            None if given.weights is None else given.weights[rows],
            estimated.model,
            seed,
            estimated.fits,
            reserved,
        )

    def _kept_back(self, given: Training, seed: int) -> tuple[Training, Examples | None]:
        """Keep rows back if something is to be promised."""
        if self.confidence is None:
            return given, None
        check_promise(self.constraint, self.confidence, self.reserve)
        if given.weights is not None:
            raise InputError(
                "a promise is about rows that count alike, and sample_weight counts in the requirement: set "
                "weights='fit', or leave confidence out."
            )
        if self.search != "exact":
            raise InputError(f"a promise needs search='exact', but search is {self.search!r}.")
        if not isinstance(self.cv, Integral) and not hasattr(self.cv, "split"):
            raise InputError(
                "cv should be a number or a splitter where rows are kept back for a promise, because given "
                "splits are about all rows."
            )
        first, second = given.examples.sample(float(self.reserve), seed)
        learned, reserved = given.examples.take(first), given.examples.take(second)
        counted = learned.positive if learned.weights is None else learned.positive[learned.weights > 0]
        if len(np.unique(counted)) < 2:
            raise InputError(
                f"reserve={self.reserve:g} leaves {len(learned):,} of {len(given.examples):,} rows to learn "
                "from, and y has only one class there: keep fewer rows back, or fit with more."
            )
        return replace(given, examples=learned), reserved

    def _recipe(self, given: Training, seed: int) -> Recipe:
        """Settle how posteriors are learned, and refuse what cannot be, before any fit."""
        check_choice("posterior", self.posterior, ("joint", "group_then_label", "label_then_group"))
        check_choice("calibration", self.calibration, (None, "dirichlet", "sigmoid", "isotonic", "binning"))
        check_choice("balance", self.balance, (None, "weight", "upsample"))
        error_prices(self.cost, len(given.groups))
        if not isinstance(self.tol, Real) or not 0 < float(self.tol) < 1:
            raise InputError(f"tol should be between 0 and 1, but is {self.tol!r}.")
        form: Any = "known" if given.sight.knows(given.groups) else self.posterior
        label, group = self._label_model, self._group_model
        if form == "group_then_label" and is_frozen(label):
            raise InputError(
                "posterior='group_then_label' adds the group to what the estimator sees, which a frozen one "
                "cannot take: use posterior='label_then_group'."
            )
        if form == "joint" and self.group_estimator is not None:
            raise InputError(
                "posterior='joint' learns group and label with one model, so that group_estimator would not "
                "be used: leave it out, or set posterior='label_then_group'."
            )
        weighted = given.examples.weights is not None
        reweighs = weighted or self.balance == "weight"
        check_learner(
            label,
            weighted=reweighs if form == "joint" else weighted,
            role="estimator",
            balanced=not weighted,
        )
        if form in ("group_then_label", "label_then_group"):
            check_learner(group, weighted=reweighs, role="group_estimator", balanced=not weighted)
        return Recipe(form, label, group, self.balance, given.classes, seed)

    def _remember(self, evidence: Evidence) -> None:
        """Keep what every fitted classifier tells, and what it takes to fit it again."""
        classes = evidence.given.classes
        self.classes_ = classes[level_order(classes.tolist())]  # scikit-learn's scorers expect them sorted
        self.pos_label_ = classes.tolist()[1]
        self.groups_ = evidence.given.groups
        self.sight_ = evidence.given.sight
        self.fitted_to_ = evidence.given.fingerprint
        self.seed_ = evidence.seed

    def _frozen_to(self, groups: Groups) -> int | None:
        """How many columns a frozen model was fitted to that will be asked, -1 if it does not tell."""
        models = [self._label_model]
        if find_usable(self.aware, groups.features) != groups.features:  # groups are learned as well
            models.append(self._group_model)
        frozen = [model for model in models if is_frozen(model)]
        return int(getattr(frozen[0], "n_features_in_", -1)) if frozen else None

    def _warn_if_constant(self, selection: NDArray[Any]) -> None:
        """Warn if a fitted classifier decides everybody alike.

        Parameters
        ----------
        selection : array
            Probability of a positive decision, of the rows that were learned from.
        """
        promise = getattr(self, "promise_", None)  # not there where a curve is traced
        if np.ptp(selection) == 0:
            where, chance = "of fit", float(selection[0])
        elif promise is not None and promise.constant:
            where, chance = "kept back", float(promise.n_selected > 0)
        else:
            return
        who = {0.0: "nobody", 1.0: "everybody"}.get(chance, f"everybody with the same chance, {chance:.3g},")
        warnings.warn(
            f"this classifier is a constant: it selects {who} among the rows {where}. A wider tolerance, "
            "more rows or aware=True may give one that tells people apart.",
            ConstantClassifierWarning,
            stacklevel=5,
        )

    @property
    def _label_model(self) -> Any:
        return TabularClassifier() if self.estimator is None else self.estimator

    @property
    def _group_model(self) -> Any:
        if self.group_estimator is not None:
            return self.group_estimator
        return TabularClassifier() if is_frozen(self._label_model) else self._label_model

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[np.bool_]:
        raise NotImplementedError

    @property
    def _positive(self) -> int:
        """Where in ``classes_`` the positive label is."""
        return int(self.classes_.tolist().index(self.pos_label_))

    def _by_class(self, selection: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of the decisions, one column per label in the order of ``classes_``."""
        columns = [1 - selection, selection] if self._positive else [selection, 1 - selection]
        return np.column_stack(columns)

    def _for_last(self, H: NDArray[np.float64]) -> NDArray[np.float64]:
        """A score that is positive for ``classes_[1]``, of one that is positive for the positive label."""
        return H if self._positive else -H

    @answers_for_file
    def predict(self, X: Any, *, sensitive_features: Any = None, ids: Any = None) -> NDArray[Any]:
        """Decide: one of the two labels for each row, the same for the same person every time.

        A decision by lot hangs on who the person is: by default, on the row of X, so that people with the
        same features get the same answer. With `ids` it hangs on these, and shares come out as planned also
        where many people have the same features.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, optional
            Needed only where they may be used and are not columns of X.
        ids : array or series, optional
            What people are known by, such as a number of their account.

        Returns
        -------
        array, shape (n,)
        """
        check_is_fitted(self)
        selected = self._decide(X, sensitive_features, ids)
        return np.asarray(self.classes_[np.where(selected, self._positive, 1 - self._positive)])

    def score(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        """Give the share of decisions that equal the label.

        Parameters
        ----------
        X : table or array
        y : array
        sensitive_features : table, mapping or array, optional
        sample_weight : array, optional

        Returns
        -------
        float
        """
        check_rows({"X": X, "y": y, "sample_weight": sample_weight})
        decisions = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(np.asarray(y), decisions, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        inner = get_tags(self._label_model).input_tags
        group = get_tags(self._group_model).input_tags
        tags.input_tags.allow_nan = inner.allow_nan and group.allow_nan
        tags.input_tags.sparse = inner.sparse and group.sparse
        return tags


def _label_column(y: Any) -> Any:
    if y is None:
        raise InputError("this classifier requires y to be passed, but the target y is None.")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        return y[:, 0]
    return y


def as_posteriors(
    cells: NDArray[np.float64], codes: NDArray[Any], groups: Groups, *, known: bool
) -> NDArray[Any] | GroupedScores:
    """Round posteriors to 12 digits, so that the last bits of a matrix product do not tell people apart."""
    p = np.round(cells, _DIGITS)
    return GroupedScores(p[:, 0, 1], codes, len(groups)) if known else p


def counted(
    rows: Examples, decisions: NDArray[np.bool_], groups: Groups, weights: NDArray[np.float64] | None
) -> CellRates:
    """Count decisions by group and label."""
    given = np.ones(len(rows)) if weights is None else weights
    mass, selected = (
        np.bincount(rows.cells, weights=by, minlength=2 * len(groups)).reshape(-1, 2)
        for by in (given, given * decisions)
    )
    return CellRates(groups, mass.astype(np.float64), selected.astype(np.float64))


def _constant(cells: NDArray[np.float64]) -> bool:
    return len(cells) > 1 and bool(np.ptp(cells, axis=0).max() < 10.0**-_DIGITS)
