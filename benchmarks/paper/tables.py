"""The tables of the paper, divided in halves."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from benchmarks.acs import load_acs
from evenhand.posteriors.tabular import TabularClassifier

ACS = Path(os.environ.get("EVENHAND_DATA", Path(__file__).parents[3] / "shared" / "data"))
RACES = {1: "White", 2: "Black", 6: "Asian"}
"""Codes of the survey that are groups of their own; the other six, from 9 rows on, are one more."""


@dataclass(frozen=True, eq=False)
class Half:
    """Rows to learn from, or to test on.

    Attributes
    ----------
    X : DataFrame
        For the learner of the table: as it is for trees, in columns of 0 and 1 for logistic regression.
    numbers : array
        In columns of numbers.
    y, codes : array
    sensitive : DataFrame
    """

    X: pd.DataFrame
    numbers: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    sensitive: pd.DataFrame

    def take(self, rows: np.ndarray) -> Half:
        """Give some of the rows."""
        return Half(
            self.X.iloc[rows].reset_index(drop=True),
            self.numbers[rows],
            self.y[rows],
            self.codes[rows],
            self.sensitive.iloc[rows].reset_index(drop=True),
        )

    @property
    def with_group(self) -> pd.DataFrame:
        """X, and the group as columns of 0 and 1."""
        names = [f"group {k}" for k in range(self.codes.max() + 1)]
        return pd.concat([self.X, pd.DataFrame(np.eye(len(names))[self.codes], columns=names)], axis=1)

    @property
    def numbers_with_group(self) -> np.ndarray:
        """Numbers, and the group as columns of 0 and 1."""
        return np.hstack([self.numbers, np.eye(self.codes.max() + 1)[self.codes]])


@dataclass(frozen=True)
class Table:
    """Where rows come from, what is sensitive, and the learner inside every method."""

    name: str
    source: str
    variant: str
    sensitive: tuple[str, ...]
    learner: str = "trees"
    splits: int = 10
    survey: bool = False

    def model(self) -> Any:
        """The learner, not fitted."""
        return Logistic() if self.learner == "logistic" else TabularClassifier()

    def halves(self, seed: int) -> tuple[Half, Half]:
        """Split the rows."""
        whole = read(self)
        first, second = train_test_split(np.arange(len(whole.y)), test_size=0.5, random_state=seed)
        return whole.take(first), whole.take(second)

    @property
    def there(self) -> bool:
        """Whether its rows are on this machine."""
        return not self.survey or ACS.is_dir()


class Logistic(ClassifierMixin, BaseEstimator):
    """Logistic regression on columns of numbers, which takes weights as any classifier does."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit it."""
        steps = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=1000))
        self.steps_ = steps.fit(X, y, logisticregression__sample_weight=sample_weight)
        self.classes_ = self.steps_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class."""
        return np.asarray(self.steps_.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class."""
        return np.asarray(self.steps_.predict(X))


TABLES = {
    table.name: table
    for table in [
        Table("COMPAS, race", "compas", "single", ("race",)),
        Table("COMPAS, race, logistic", "compas", "single", ("race",), "logistic"),
        Table("COMPAS, race x sex", "compas", "multiple", ("sex", "race")),
        Table("Adult, sex x race", "adult", "multiple", ("sex", "race")),
        Table("Adult, sex", "adult", "single", ("sex",), splits=3),
        Table("ACS income, race", "income", "", ("RAC1P",), splits=3, survey=True),
        Table("ACS income, race x sex", "income", "", ("RAC1P", "SEX"), splits=3, survey=True),
        Table("ACS coverage, race", "publiccoverage", "", ("RAC1P",), splits=3, survey=True),
        Table("ACS coverage, race x sex", "publiccoverage", "", ("RAC1P", "SEX"), splits=3, survey=True),
        Table("ACS employment, race", "employment", "", ("RAC1P",), splits=3, survey=True),
        Table("ACS employment, race x sex", "employment", "", ("RAC1P", "SEX"), splits=3, survey=True),
    ]
}


@cache
def read(table: Table) -> Half:
    """All rows of a table."""
    if table.survey:
        data = load_acs(table.source, folder=ACS, sensitive=table.sensitive)  # type: ignore[arg-type]
        numbers = data.features.to_numpy().astype(float)
    else:
        load = {"compas": eh.datasets.load_compas, "adult": eh.datasets.load_adult}[table.source]
        data = load(table.variant)  # type: ignore[arg-type]
        numbers = data.one_hot(drop_first=table.source == "adult")[0]
    sensitive = data.sensitive.to_pandas().loc[:, list(table.sensitive)]
    if table.survey:
        sensitive["RAC1P"] = [RACES.get(int(code), "other") for code in sensitive["RAC1P"]]
    label = data.label.to_numpy()
    X = data.features.to_pandas() if table.learner == "trees" else pd.DataFrame(numbers).add_prefix("x")
    return Half(
        X, numbers, (label == np.unique(label)[1]).astype(int), eh.Groups.fit(sensitive)[1], sensitive
    )


@cache
def fingerprint(table: Table) -> str:
    """Which rows these are."""
    whole = read(table)
    parts = (np.nan_to_num(whole.numbers, nan=-1.0), whole.y.astype(np.int8), whole.codes.astype(np.int8))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:12]
