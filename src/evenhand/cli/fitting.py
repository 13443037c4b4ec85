"""A model fitted to a file, read as a whole or in batches, and audited on held-out rows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone

import evenhand as eh
from evenhand.auditing.result import Audit
from evenhand.cli import table_files
from evenhand.cli.bands import GroupColumns
from evenhand.cli.options import Batches, Learning
from evenhand.cli.output import print_note
from evenhand.cli.table_rows import (
    SPLIT_SEED,
    Part,
    distinct_values,
    large_table,
    read_rows,
    refuse_other_labels,
)
from evenhand.data import batched_table
from evenhand.data.batched_table import row_uniforms
from evenhand.data.fingerprint import digest_of, unordered_digest
from evenhand.display.progress import track
from evenhand.exceptions import InputError
from evenhand.files.persistence import Source
from evenhand.groups.sensitive import read_columns
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.bounds import NoWorse

_REPORTED = 100_000
"""Test rows that a report shows calibration on, at most."""
_FIRST_ROWS = 10_000
"""Rows by which columns that identify rows are found."""


@dataclass(frozen=True, eq=False)
class _FitRows:
    """Rows to learn from, as `fit` takes them, and batches of rows to test on.

    `first` and `labels` show the columns and the labels before anything is fitted. `reported` is the share of
    the test rows that a report shows calibration on; `source` describes a file that was read as a whole.
    """

    train: tuple[Any, Any]
    test: Iterable[Part]
    first: Any
    labels: Any
    reported: float = 1.0
    source: Source | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, its audit on test rows, and what the model file notes of the table.

    `constant` is the decision for every test row, if it is the same for all. `test`, and audits of the same
    rows `as_decided` by other means, are for the report.
    """

    model: Any
    audit: Audit
    as_decided: dict[str, Audit]
    constant: Any
    test: tuple[Any, Any]
    source: Source


def fit_file(
    table: Path,
    learning: Learning,
    groups: GroupColumns,
    settings: dict[str, Any],
    batches: Batches | None,
    *,
    report: bool = False,
) -> Fitted:
    """Fit a model to a file, read in batches or (None) as a whole, and audit it on held-out rows.

    For a report, so are decisions of a plain model, if the file is read as a whole, and without requirement.
    """
    whole = batches is None
    rows = _rows_in_memory(table, learning, groups) if whole else _rows_in_batches(table, learning, groups)
    for note in learning.notes(table, rows.first, "rows" if whole else "rows at the start"):
        print_note(f"evenhand: {note}")
    model: Any = learning.classifier(rows.first, rows.labels, **settings)
    options: dict[str, Any] = {}
    if batches is not None:
        model.set_params(posteriors__max_samples=batches.max_samples)
        options = {} if batches.scratch is None else {"scratch": batches.scratch}
    test = [_decidable(part, model) for part in rows.test] if whole else rows.test
    model.fit(*rows.train, **options)
    plain = _plain_model(model, *rows.train) if report and whole else None
    compares = report and learning.method == "post"
    tested = _Tested(model, learning.target, rows.reported, plain=plain, compares=compares)
    policy = model.settings().groups.missing
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        decided = Path(folder) / "decisions.parquet"
        table_files.write_pieces(decided, tested.decide(test))
        learned = len(rows.train[1]) if whole else model.fitted_to_.rows
        audited = partial(
            eh.audit,
            learning.target,
            sensitive_features=model.sensitive_features,
            data=table_files.scan(decided),
            control_features=list(model.strata_.features) if model.strata_ else None,
            constraint=model.constraint,
            pos_label=model.pos_label_,
            missing="exclude" if policy == "impute" else policy,
            min_size=math.ceil(learning.min_group_size * tested.rows / learned),
        )
        before = tested.column("before") if tested.names_reference else None
        found = audited(tested.column("decision"), before=before)
        as_decided = {} if plain is None else {"before": audited(tested.column("plain"), before=before)}
        if compares:
            as_decided["without"] = audited(tested.column("before"), before=before)
            as_decided["audit"] = audited(tested.column("decision"), before=tested.column("before"))
        decisions = distinct_values(table_files.scan(decided), tested.column("decision"))
    constant = decisions[0] if len(decisions) == 1 else None
    count = learned + (tested.rows if learning.test is None else 0)
    source = rows.source or learning.source(table, rows=count, in_batches=True)
    return Fitted(model, found, as_decided, constant, tested.sample(), source)


def _plain_model(model: Any, X: Any, y: Any) -> Any:
    """The learner by itself, which sees no sensitive feature and knows no requirement: labels are 0 and 1."""
    learner = clone(model.estimator or TabularClassifier())
    return learner.fit(X.drop(model.sensitive_features), (y == model.pos_label_).to_numpy() * 1)


def _rows_in_memory(table: Path, learning: Learning, groups: GroupColumns) -> _FitRows:
    rows = read_rows(table, groups)
    digests = {"labels": digest_of(rows.get_column(learning.target)), "unordered": unordered_digest(rows)}
    source = learning.source(table, rows=len(rows), **digests)
    del rows
    train, test = learning.parts(table, groups)
    return _FitRows((train.X, train.y), [test], first=train.X, labels=train.y, source=source)


def _decidable(test: Part, model: Any) -> Part:
    """Test rows without those that lack a sensitive feature which decisions use."""
    if model.settings().groups.missing != "exclude" or model.aware is False:
        return test
    used = model.sensitive_features if model.aware is True else model.aware
    columns = read_columns(test.X.select(used), max_levels=None).values()
    whole = np.flatnonzero(np.all([codes >= 0 for _, codes in columns], axis=0))
    lacking = len(test.y) - len(whole)
    if not len(whole):
        raise InputError("no test row has the sensitive features that decisions use: choose other test rows.")
    if lacking:
        print_note(
            f"evenhand: {lacking:,} of {len(test.y):,} test rows lack a sensitive feature that decisions "
            "use, and are not decided."
        )
    return Part(test.X[whole], test.y[whole], None if test.ids is None else test.ids[whole])


def _rows_in_batches(table: Path, learning: Learning, groups: GroupColumns) -> _FitRows:
    """The rows of a file that is read in batches."""
    key = [] if learning.id is None else [learning.id]
    left_out = [name for name in learning.left_out(table) if name not in key]
    labels = _labels(table, learning.target)
    if learning.test is None:
        train, test = large_table(table, left_out, groups).split(learning.share, SPLIT_SEED)
    else:
        refuse_other_labels(table, labels, learning.test, _labels(learning.test, learning.target))
        train = large_table(table, left_out, groups)
        test = large_table(learning.test, [], groups).select(train.names)
    features = [name for name in train.names if name not in (learning.target, *key)]
    rows_of_file = table_files.count_rows(learning.test or table)
    pieces = track(
        test.batches(),
        what="deciding test rows",
        total=-(-rows_of_file // batched_table.BATCH_ROWS),
        verbose=True,
    )
    return _FitRows(
        (train.select([*features, learning.target]), learning.target),
        (learning.part(piece) for piece in pieces),
        first=table_files.read_first(table, _FIRST_ROWS, groups).select(features),
        labels=labels,
        reported=_REPORTED / max(1.0, (learning.share if learning.test is None else 1.0) * rows_of_file),
    )


@dataclass(eq=False)
class _Tested:
    """Decisions for the test rows, and what is kept of them in memory.

    `reported` is the share of the rows that is kept for the report. Decisions of a `plain` model and, if it
    `compares`, those without the requirement are beside them.
    """

    model: Any
    target: str
    reported: float
    plain: Any = None
    compares: bool = False
    rows: int = 0
    kept: list[Part] = field(default_factory=list)

    @property
    def groups(self) -> list[str]:
        """Columns that the audit needs: sensitive features and control features."""
        strata = self.model.strata_.features if self.model.strata_ else ()
        return list(dict.fromkeys([*self.model.sensitive_features, *strata]))

    def column(self, name: str) -> str:
        """A name that no other column has."""
        while name == self.target or name in self.groups:
            name += "_"
        return name

    def decide(self, parts: Iterable[Part]) -> Iterator[Any]:
        """Label, groups and decision of each row, and what it would be without the requirement, if needed."""
        kind = pl.Series(self.model.classes_.tolist()).dtype
        for part in parts:
            decided = {"decision": self.model.predict(part.X, ids=part.ids)}
            if self.compares or self.names_reference:
                decided["before"] = self._without_requirement(part.X)
            if self.plain is not None:
                chosen = self.plain.predict(part.X.drop(self.model.sensitive_features)) == 1
                decided["plain"] = self._labels(chosen)
            numbers = np.arange(self.rows, self.rows + len(part.y))
            drawn = np.flatnonzero(row_uniforms(numbers, 1) < self.reported)
            self.kept.append(Part(part.X[drawn], part.y[drawn]))
            self.rows += len(part.y)
            columns = [pl.Series(self.column(name), v.tolist(), dtype=kind) for name, v in decided.items()]
            yield part.X.select(self.groups).with_columns(part.y.alias(self.target), *columns)
        if not self.rows:
            raise InputError("no rows are left to test on: choose a larger --test-share.")

    @property
    def names_reference(self) -> bool:
        """Whether the requirement says that no group may be worse off than without it."""
        return any(isinstance(part, NoWorse) for part in self.model.constraint.bounds)

    def _without_requirement(self, X: Any) -> Any:
        """What would be decided without the requirement."""
        if not hasattr(self.model, "predict_unconstrained"):
            raise InputError("--no-worse needs --method post.")
        return self.model.predict_unconstrained(X)

    def _labels(self, chosen: Any) -> Any:
        positive = self.model.classes_.tolist().index(self.model.pos_label_)
        return self.model.classes_[np.where(chosen, positive, 1 - positive)]

    def sample(self) -> tuple[Any, Any]:
        """Some of the rows, and their labels."""
        return pl.concat([part.X for part in self.kept]), pl.concat([part.y for part in self.kept])


def _labels(path: Path, target: str) -> Any:
    """The distinct labels of a file."""
    with table_files.reading(path):
        return distinct_values(table_files.scan(path), target)
