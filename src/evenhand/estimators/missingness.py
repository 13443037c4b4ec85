"""Whether rows that lack a sensitive value differ in features and label from those that have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold

from evenhand.data.checks import check_fraction, check_rows
from evenhand.data.features import (
    column_names,
    drop_columns,
    has_names,
    join_columns,
    read_features,
    take_rows,
)
from evenhand.data.labels import read_labels
from evenhand.data.tables import Library, Results, library_of, make_table
from evenhand.display.notebook import html_table
from evenhand.exceptions import GroupError, InputError
from evenhand.groups.sensitive import read_columns
from evenhand.guarantee.intervals import Estimate, critical_value, difference, wilson
from evenhand.posteriors.learner import check_learner, fit_learner
from evenhand.posteriors.tabular import TabularClassifier

Interval = tuple[float, float, float]
"""A number, and the limits of its interval; NaN if it is not known."""


@dataclass(frozen=True)
class MissingComparison:
    """How rows that lack one sensitive feature differ from those that have it.

    Attributes
    ----------
    feature : str
    rows, missing : int
        All rows, and those without the feature.
    label_known, label_missing, label_difference : tuple of three floats
        Share of positive labels among rows with and without the feature, and the second minus the first, each
        with the limits of its interval.
    auc : tuple of three floats
        How well features and label predict whether the value is missing, with the limits of its interval:
        0.5 is not at all. Each row is scored by a model that has not seen it.
    """

    feature: str
    rows: int
    missing: int
    label_known: Interval
    label_missing: Interval
    label_difference: Interval
    auc: Interval

    @property
    def differs(self) -> bool:
        """Whether a difference in features or label is certain at the confidence asked for."""
        low, high = self.label_difference[1:]
        return low > 0 or high < 0 or self.auc[1] > 0.5

    def __str__(self) -> str:
        if not self.missing:
            return f"{self.feature}: no row lacks it"
        what = "differ in what is seen" if self.differs else "are not seen to differ"
        return (
            f"{self.feature}: {self.missing:,} of {self.rows:,} rows lack it; they {what}. Positive labels: "
            f"{_shown(self.label_missing)} without it, {_shown(self.label_known)} with it. Missing values "
            f"are predicted from features and label with an AUC of {_shown(self.auc)}"
        )


class MissingComparisons(Results[MissingComparison]):
    """One comparison per sensitive feature; ``to_frame()`` is a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{row}." for row in self._rows)

    def _repr_html_(self) -> str:
        records = list(self._records())
        return html_table(
            list(records[0]),
            [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in record.values()] for record in records],
        )

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """One row per sensitive feature.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            By default the library of X.

        Returns
        -------
        table
        """
        numbers = set(next(self._records())) - {"feature"}
        return make_table(self._records(), numbers=numbers, library=backend or self._library)

    def _records(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            shown: dict[str, Any] = {"feature": row.feature, "rows": row.rows, "missing": row.missing}
            for name in ("label_known", "label_missing", "label_difference", "auc"):
                value, low, high = getattr(row, name)
                shown |= {name: value, f"{name}_low": low, f"{name}_high": high}
            yield shown


def compare_missing(
    X: Any,
    y: Any,
    sensitive_features: Any,
    *,
    estimator: Any = None,
    pos_label: Any = None,
    confidence: float = 0.95,
    cv: int = 5,
    random_state: int = 0,
) -> MissingComparisons:
    """Whether rows that lack a sensitive value differ in features and label from those that have it.

    ``missing="impute"`` assumes that values are missing at random given x and y. If rows without a value
    differ in x and y, that is no harm to it, and dropping these rows would be: what is learned from the
    others is of another population. If they do not differ, dropping them costs rows only. Whether rows with
    the same x and y differ in the value itself cannot be seen in any data: only knowing why it is missing
    helps.

    Parameters
    ----------
    X : table, array or sparse matrix
        Features. Columns with the name of a sensitive feature are left out.
    y : array
        Any two labels.
    sensitive_features : table, mapping, array or sequence
        One column per sensitive feature, with missing values.
    estimator : classifier, default=None
        Predicts whether a value is missing. By default boosted trees that take tables as they are.
    pos_label : object, default=None
        The positive label. By default the one that sorts last.
    confidence : float, default=0.95
        Of each interval by itself.
    cv : int, default=5
        Folds: every row is scored by a model that has not seen it.
    random_state : int, default=0

    Returns
    -------
    MissingComparisons
        One ``MissingComparison`` per sensitive feature.

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> adult = eh.datasets.load_adult()
    >>> X, _ = adult.one_hot()
    >>> race = adult.sensitive["race"].to_numpy().astype(object)
    >>> race[::2] = None  # every second person, whoever that is
    >>> [found] = compare_missing(X[:4000], adult.label[:4000], {"race": race[:4000]})
    >>> found.missing
    2000
    >>> 0.45 < found.auc[0] < 0.55
    True
    """
    learner = TabularClassifier() if estimator is None else estimator
    check_learner(learner, weighted=False, role="estimator")
    check_fraction("confidence", confidence)
    library = library_of(X, sensitive_features)
    X = read_features(_Reader(), X, reset=True)
    factors = read_columns(sensitive_features, max_levels=None)
    check_rows({"X": X, "y": y, "sensitive_features": next(iter(factors.values()))[1]})
    positive = read_labels(y, pos_label=pos_label).positive
    if isinstance(cv, bool) or not isinstance(cv, int) or cv < 2:
        raise InputError(f"cv must be an integer of at least 2, got {cv!r}.")
    named = [name for name in column_names(X) if name in factors] if has_names(X) else []
    visible = join_columns(drop_columns(X, named), [positive.astype(np.float64)], "label")
    z = critical_value(confidence)
    found = []
    for name, (_, codes) in factors.items():
        lacking = codes < 0
        if lacking.all():
            raise GroupError(
                f"sensitive feature {name!r} is missing in every row: there is nothing to compare."
            )
        with_it, without = (
            wilson(positive[own].mean() if own.any() else np.nan, own.sum(), z) for own in (~lacking, lacking)
        )
        found.append(
            MissingComparison(
                name,
                len(codes),
                int(lacking.sum()),
                _interval(with_it),
                _interval(without),
                _interval(difference(without, with_it)),
                _auc(_scores(learner, visible, lacking, cv, random_state), lacking, z),
            )
        )
    return MissingComparisons(found, library)


class _Reader(BaseEstimator):
    """Takes what reading a table records."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags


def _scores(
    learner: Any, X: Any, lacking: NDArray[np.bool_], cv: int, seed: int
) -> NDArray[np.float64] | None:
    """Out-of-fold probability that a value is missing; None if too few rows lack it, or have it."""
    fewest = int(min(lacking.sum(), (~lacking).sum()))
    if fewest < 2:
        return None
    scores = np.empty(len(lacking))
    folds = StratifiedKFold(min(cv, fewest), shuffle=True, random_state=seed)
    for train, test in folds.split(np.zeros(len(lacking)), lacking):
        model = fit_learner(learner, take_rows(X, train), lacking[train].astype(np.intp), n_classes=2)
        scores[test] = model.proba(take_rows(X, test))[:, 1]
    return scores


def _auc(scores: NDArray[np.float64] | None, lacking: NDArray[np.bool_], z: float) -> Interval:
    """Area under the ROC curve with the interval of DeLong, DeLong and Clarke-Pearson (1988)."""
    if scores is None:
        return np.nan, np.nan, np.nan
    ranks = rankdata(scores)
    m, n = int(lacking.sum()), int((~lacking).sum())
    above = (ranks[lacking] - rankdata(scores[lacking])) / n  # share of the others that a row is above
    below = 1 - (ranks[~lacking] - rankdata(scores[~lacking])) / m
    value = float(above.mean())
    spread = z * float(np.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n))
    return value, max(0.0, value - spread), min(1.0, value + spread)


def _interval(found: Estimate) -> Interval:
    return float(found.value), float(found.low), float(found.high)


def _shown(interval: Interval) -> str:
    value, low, high = interval
    return "unknown" if np.isnan(value) else f"{value:.3f} [{low:.3f}, {high:.3f}]"
