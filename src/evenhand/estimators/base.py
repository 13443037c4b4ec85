"""What the fair classifiers share: their parameters, and decisions in the labels of `fit`."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from evenhand.data.batched_table import BatchedTable, is_dask, is_lazy
from evenhand.data.checks import check_rows
from evenhand.data.columns import level_order
from evenhand.data.features import Columns, known_names, naming_bad_rows
from evenhand.data.fingerprint import Fingerprint
from evenhand.estimators.access import AttributeAccess, Aware
from evenhand.estimators.imputed import ImputedRows
from evenhand.estimators.settings import (
    CrossFit,
    GroupPolicy,
    Guarantee,
    Margin,
    Settings,
    group_learner,
    read_object,
    read_settings,
)
from evenhand.exceptions import ConstantClassifierWarning, EvenhandError, InputError, reason, warn_user
from evenhand.groups.groups import Groups
from evenhand.groups.proxy import Proxy
from evenhand.guarantee.forecast import Forecast
from evenhand.guarantee.guarantee import GuaranteeResult
from evenhand.optimum.objectives import Objective
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.requirement import Constraint
from evenhand.solver.certificate import Certificate

if TYPE_CHECKING:
    from evenhand.estimators.training_data import TrainingData

Method = TypeVar("Method", bound=Callable[..., Any])


def names_its_file(method: Method) -> Method:
    """Let a model that was loaded from a file name the file where other packages raise.

    A file may have been altered, or written with other versions of packages: then their errors say nothing
    of the file. Errors of a model that was fitted here stay as they are.
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


def by_batches(method: Method) -> Method:
    """Let a method that takes rows take a table that is not in memory too; nothing is computed at once.

    Of a lazy table, results are an iterator, batch by batch; of one of Dask, a Series or array of Dask.
    Columns that the model does not know are left out, and `ids` is the name of a column. Errors name the file
    of a model that was loaded.
    """
    of_file = names_its_file(method)

    @functools.wraps(method)
    def answered(self: FairClassifier, X: Any, **named: Any) -> Any:
        if is_lazy(X):
            return _answer_batches(self, of_file, X, **named)
        if is_dask(X):
            return _answer_partitions(self, of_file, X, **named)
        return of_file(self, X, **named)

    return answered  # type: ignore[return-value]


def _answer_partitions(classifier: FairClassifier, method: Any, X: Any, **named: Any) -> Any:
    from evenhand.cluster.answers import answers  # noqa: PLC0415  (Dask is an extra)

    check_is_fitted(classifier)
    kind = classifier._decisions.dtype if method.__name__ == "predict" else np.dtype(np.float64)
    width = len(classifier._decisions) if method.__name__ == "predict_proba" else None
    return answers(classifier, method.__name__, X, kind=kind, width=width, **named)


def _answer_batches(
    classifier: FairClassifier, method: Any, X: Any, *, sensitive_features: Any = None, ids: Any = None
) -> Iterator[Any]:
    check_is_fitted(classifier)
    if sensitive_features is not None:
        raise InputError("where X is a lazy table, sensitive features are columns of it.")
    table = BatchedTable.of(X)
    known = known_names(classifier)
    features = [name for name in known if name in table.names or name not in classifier.access_.unused]
    for name in features:
        table.require(name, "a feature of the model")
    key = None if ids is None else table.require(ids, "ids")
    read = list(dict.fromkeys([*features, *([] if key is None else [key])]))

    def answers() -> Iterator[Any]:
        first = 0
        for batch in table.batches(read):
            frame = nw.from_native(batch, eager_only=True)
            more = {} if key is None else {"ids": frame.get_column(key).to_native()}
            X = frame.select(features).to_native()
            with naming_bad_rows(X, np.arange(first, first + len(X))):
                answer = method(classifier, X, **more)
            first += len(X)
            yield answer

    return answers()


@dataclass(eq=False, repr=False)
class FairClassifier(ClassifierMixin, BaseEstimator):
    """Parent of the fair classifiers, with their parameters; subclasses have ``fit`` and ``_decide``."""

    estimator: Any = None
    constraint: Constraint | None = None
    _: KW_ONLY
    sensitive_features: Columns | Proxy | None = None
    aware: Aware = False
    cost: ArrayLike = 0.5
    objective: Objective = field(default="risk", init=False)
    """What is minimised; a parameter of those that can choose it."""
    guarantee: Guarantee | float | None = None
    margin: Margin = field(default=0.0, init=False)
    """By how much the requirement is tightened; likewise."""
    posteriors: CrossFit | None = None
    groups: GroupPolicy | None = None
    pos_label: Any = None
    random_state: Any = 0
    n_jobs: int | None = None
    verbose: bool = False

    takes_actions: ClassVar[bool] = False
    """Whether labels may be more than two, and decisions among other actions than labels."""
    _file: str | None = field(default=None, init=False)
    """Name of the file that the model was loaded from."""
    _source: Any = field(default=None, init=False)
    """What that file says of the table that it was learned from."""

    classes_: NDArray[Any] = field(init=False)
    pos_label_: Any = field(init=False)
    groups_: Groups = field(init=False)
    compared_: Groups = field(init=False)
    access_: AttributeAccess = field(init=False)
    certificate_: Certificate = field(init=False)
    fitted_to_: Fingerprint = field(init=False)
    fitted_on_: datetime.date = field(init=False)
    """The day of the fit (UTC), which is saved with the model."""
    imputed_: ImputedRows | None = field(init=False)
    guarantee_: GuaranteeResult | None = field(init=False)
    forecast_: Forecast = field(init=False)
    seed_: int = field(init=False)
    input_tags_: tuple[bool, bool] = field(init=False)

    def settings(self) -> Settings:
        """The parameters, checked: raises an InputError if they cannot be used."""
        return read_settings(self, self._posteriors(), self._label_estimator())

    def _posteriors(self) -> CrossFit:
        found: CrossFit = read_object(CrossFit, "posteriors", self.posteriors)
        return found

    def _label_estimator(self) -> Any:
        return TabularClassifier() if self.estimator is None else self.estimator

    @property
    def strata_(self) -> Groups | None:
        """The strata of control features, by their values; None if the requirement names none."""
        check_is_fitted(self)
        return self.access_.strata

    def _remember(self, data: TrainingData, seed: int) -> None:
        """Keep what every fitted classifier tells, and what it takes to fit it again."""
        self.classes_ = data.classes[level_order(data.classes.tolist())]  # sorted, as scorers expect
        self.pos_label_ = data.classes.tolist()[1] if len(data.classes) == 2 else None
        self.groups_ = data.groups
        self.compared_ = data.compared
        self.access_ = data.access
        self.fitted_to_ = data.fingerprint
        self.fitted_on_ = datetime.datetime.now(datetime.UTC).date()
        self.imputed_ = data.imputed
        self.seed_ = seed
        self.input_tags_ = self._find_input_tags()  # validation asks for them at every prediction

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[Any]:
        """The number of each row's decision, or whether it is positive."""
        raise NotImplementedError

    def _warn_if_constant(self, selection: NDArray[Any]) -> None:
        """Warn if the fitted classifier gives everyone the same decision.

        Parameters
        ----------
        selection : array
            Probability of a positive decision, of the rows of the fit.
        """
        if np.ptp(selection) == 0:
            rows, chance = "training rows", float(selection[0])
        elif self.guarantee_ is not None and self.guarantee_.constant:
            rows, chance = "rows held out for the guarantee", float(self.guarantee_.n_selected > 0)
        else:
            return
        who = {0.0: f"none of the {rows}", 1.0: f"all of the {rows}"}.get(
            chance, f"each of the {rows} with the same probability ({chance:.3g})"
        )
        warn_user(
            f"this classifier is constant: it selects {who}. A wider tolerance, more rows or aware=True may "
            "give one that tells people apart.",
            ConstantClassifierWarning,
        )

    @property
    def _positive(self) -> int:
        """Position of the positive label in ``classes_``."""
        return int(self.classes_.tolist()[1] == self.pos_label_)

    @property
    def _decisions(self) -> NDArray[Any]:
        """What is decided between, by the numbers of decisions: of two labels the positive one last."""
        return self.classes_ if self._positive else self.classes_[::-1]

    def _by_class(self, selection: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of the decisions, one column per label in the order of ``classes_``."""
        columns = [1 - selection, selection] if self._positive else [selection, 1 - selection]
        return np.column_stack(columns)

    def _for_last(self, H: NDArray[np.float64]) -> NDArray[np.float64]:
        """A score that is positive for ``classes_[1]``, from one that is positive for the positive label."""
        return H if self._positive else -H

    @by_batches
    def predict(self, X: Any, *, sensitive_features: Any = None, ids: Any = None) -> NDArray[Any]:
        """Decisions, in the labels of `fit`; the same person always gets the same one.

        A randomised decision depends on a hash of the row of X, so people with the same features get the
        same answer. With `ids` it depends on the id instead, and shares come out as planned also where many
        people have the same features.

        Parameters
        ----------
        X : table, array, dict or list of dicts
            A dictionary is one row. Of a lazy table, decisions come as an iterator, batch by batch in the
            order of its rows.
        sensitive_features : table, mapping or array, optional
            Needed only where they may be used and are not columns of X.
        ids : array or series, optional
            What identifies a person, such as an account number. The name of a column of a lazy table.

        Returns
        -------
        array, shape (n,), or iterator of arrays
        """
        check_is_fitted(self)
        return np.asarray(self._decisions[self._decide(X, sensitive_features, ids).astype(np.intp)])

    def score(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of decisions that equal the label.

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
        if is_dask(X):
            y, sample_weight = (None if one is None else np.asarray(one) for one in (y, sample_weight))
        else:
            check_rows({"X": X, "y": y, "sample_weight": sample_weight})
        decisions = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(np.asarray(y), np.asarray(decisions), sample_weight=sample_weight))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn does; ``posteriors__cv`` also where `posteriors` is left out."""
        self.__dict__.pop("input_tags_", None)
        for name, kind in (("posteriors", CrossFit), ("groups", GroupPolicy), ("guarantee", Guarantee)):
            if getattr(self, name) is None and any(key.startswith(f"{name}__") for key in params):
                setattr(self, name, kind())
        return super().set_params(**params)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.takes_actions
        found = self.__dict__.get("input_tags_") or self._find_input_tags()
        tags.input_tags.allow_nan, tags.input_tags.sparse = found
        return tags

    def _find_input_tags(self) -> tuple[bool, bool]:
        """Whether all learners take missing values, and sparse matrices."""
        label, given = self._label_estimator(), getattr(self.posteriors, "group_estimator", None)
        inner = [get_tags(learner).input_tags for learner in (label, group_learner(label, given))]
        return all(tags.allow_nan for tags in inner), all(tags.sparse for tags in inner)
