"""Held-out rows, and classifiers judged on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import Comparison, compare
from evenhand.auditing.group_rates import Rate
from evenhand.auditing.tally import Tally, tally
from evenhand.auditing.within_strata import compare_in_strata
from evenhand.data.checks import check_fraction, check_rows
from evenhand.data.columns import named_columns
from evenhand.data.features import columns_of, random_split, take_rows
from evenhand.data.labels import read_labels, read_selection
from evenhand.estimators.access import ModelInput
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.groups.strata import groups_in_strata
from evenhand.guarantee.intervals import critical_value
from evenhand.requirements.rates import Decisions
from evenhand.requirements.statistic import ERROR
from evenhand.tradeoff.axis import Axis
from evenhand.tradeoff.frontier import Point


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as passed to `fit`: features, labels and sensitive features."""

    X: Any
    y: Any
    sensitive: Any = None


def split_rows(data: Rows, test: Sequence[Any] | float, seed: int) -> tuple[Rows, Rows]:
    """Rows to learn from and held-out rows: those of `test`, or a random fraction of the data.

    Parameters
    ----------
    data : Rows
    test : (X, y), (X, y, sensitive_features) or float
    seed : int

    Returns
    -------
    learn, held_out : Rows
    """
    if isinstance(test, Sequence):
        if len(test) not in (2, 3):
            raise InputError("test must be (X, y) or (X, y, sensitive_features).")
        return data, Rows(*test)
    check_fraction("test", test)
    check_rows({"X": data.X, "y": data.y, "sensitive_features": data.sensitive})
    X, labels = np.asarray(data.X) if isinstance(data.X, list) else data.X, np.asarray(data.y)
    columns = {} if data.sensitive is None else _columns(data.sensitive)
    learn, judge = (
        Rows(take_rows(X, rows), labels[rows], {name: one[rows] for name, one in columns.items()} or None)
        for rows in random_split(len(labels), test, seed)
    )
    return learn, judge


def _columns(sensitive: Any) -> dict[str, Any]:
    return named_columns(sensitive, what="sensitive_features", default_name="sensitive_feature")


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Held-out rows, on which decisions are counted and compared with a requirement."""

    axis: Axis
    confidence: float
    groups: Groups
    codes: NDArray[np.int32]
    positive: NDArray[np.bool_]
    classes: NDArray[Any]
    visible: ModelInput

    @classmethod
    def read(
        cls, classifier: FairClassifier, data: TrainingData, rows: Rows, axis: Axis, confidence: float
    ) -> HeldOutRows:
        """Read and check the rows, with groups and classes of the training data."""
        groups, classes, where = data.groups, data.classes, classifier.settings().columns
        columns = _columns(rows.sensitive) if where is None else columns_of(rows.X, where)
        check_rows({"X": rows.X, "y": rows.y, "sensitive_features": columns})
        positive = read_labels(rows.y, pos_label=classes[1]).positive
        codes = groups.encode(columns)
        shown = rows.sensitive if where is None and classifier.aware is not False else None
        visible = data.access.read(classifier, rows.X, shown)
        strata = data.access.strata
        if strata is not None and visible.strata is not None:
            if (visible.strata < 0).any():
                raise InputError(
                    "some test rows are in strata of control features that no learned row is in: leave them "
                    "out, or put values into fewer bands."
                )
            groups, codes = groups_in_strata(groups, codes, strata, visible.strata)
        return cls(axis, confidence, groups, codes, positive, classes, visible)

    @property
    def n_counted(self) -> int:
        """Number of rows that are counted: those in a group, as rows may lack a sensitive value."""
        return int((self.codes >= 0).sum())

    def count(self, selection: NDArray[Any]) -> Tally:
        """Counts of the decisions by group and label."""
        rows = np.flatnonzero(self.codes >= 0)
        codes, positive = self.codes[rows], self.positive[rows]
        return tally(Decisions(self.groups, codes, positive, selection[rows], classes=self.classes))

    def point(self, curve: str, slack: float | None, counted: Tally, **more: Any) -> Point:
        """The point of a classifier, with intervals and a verdict."""
        asked = self.axis.constraint if slack is None else self.axis.at(slack)
        judge = slack is not None
        found = [
            (compare_in_strata if notion.controls else compare)(notion, counted, self.confidence, judge=judge)
            for notion in asked.notions
        ]
        worst, everyone = max(found, key=_distance, default=None), np.ones((1, len(self.groups)), np.bool_)
        error = counted.share(ERROR, everyone).estimate(critical_value(self.confidence))
        accuracy = Rate(*(1 - float(limit[0]) for limit in (error.value, error.high, error.low)))
        tolerance = None if slack is None else self.axis.number(slack)
        prices, rate = more.pop("prices", {}), self.axis.rate(counted, self.confidence)
        return Point(curve, tolerance, counted, accuracy, worst, prices, rate=rate, **more)

    def other(self, name: str, value: Any, data: Rows) -> Point:
        """The point of a classifier, or of predictions, from elsewhere."""
        given = value.predict(data.X) if hasattr(value, "predict") else value
        selection = read_selection(given, classes=self.classes, what=f"predictions of {name!r}")
        check_rows({"the test rows": self.codes, f"predictions of {name!r}": selection})
        return self.point(name, None, self.count(selection))


def _distance(found: Comparison) -> float:
    """Distance from parity; of undefined values, minus infinity."""
    value = found.value if found.measure == "difference" else 1 - found.value
    return -math.inf if math.isnan(value) else value
