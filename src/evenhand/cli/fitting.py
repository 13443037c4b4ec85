"""A model fitted to a file, and audited on held-out rows."""

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
from evenhand.cli.output import print_note
from evenhand.cli.table_rows import Part, TrainingFile, distinct_values
from evenhand.data import batched_table
from evenhand.data.batched_table import row_uniforms
from evenhand.display.progress import track
from evenhand.exceptions import InputError
from evenhand.groups.sensitive import read_columns
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.bounds import NoWorse

_REPORTED = 100_000
"""Test rows that a report shows calibration on, at most."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model and its audit on test rows.

    `constant` is the decision for every test row, if it is the same for all. `test`, and audits of the same
    rows `as_decided` by other means, are for the report.
    """

    model: Any
    audit: Audit
    as_decided: dict[str, Audit]
    constant: Any
    test: tuple[Any, Any]


def fit_file(
    file: TrainingFile, settings: dict[str, Any], max_samples: int, *, report: bool = False
) -> Fitted:
    """Fit a model to a file, read in batches if it is large, and audit it on held-out rows.

    For a report, so are decisions of a plain model, if the file is not large, and without requirement.
    """
    options = file.options
    large = file.labels[1] > max_samples
    train, test = file.parts()
    for note in file.notes():
        print_note(f"evenhand: {note}")
    model: Any = file.classifier(**settings).set_params(posteriors__max_samples=max_samples)
    features = [name for name in train.names if name not in (options.target, options.id)]
    train = train.select([*features, options.target])
    model.fit(train, options.target)
    plain = None if large or not report else _plain_model(model, pl.concat(train.batches()), options.target)
    compares = report and options.method == "post"
    rows_of_file = table_files.count_rows(options.test or file.path)
    reported = _REPORTED / max(1.0, (file.share if options.test is None else 1.0) * rows_of_file)
    total = -(-rows_of_file // batched_table.BATCH_ROWS)
    pieces = track(test.batches(), what="deciding test rows", total=total, verbose=True)
    tested = _Tested(model, options.target, reported, plain=plain, compares=compares)
    policy = model.settings().groups.missing
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        decided = Path(folder) / "decisions.parquet"
        table_files.write_pieces(decided, tested.decide(file.part(piece) for piece in pieces))
        audited = partial(
            eh.audit,
            options.target,
            sensitive_features=model.sensitive_features,
            data=table_files.scan(decided),
            control_features=list(model.strata_.features) if model.strata_ else None,
            constraint=model.constraint,
            pos_label=model.pos_label_,
            missing="exclude" if policy == "impute" else policy,
            min_size=math.ceil(options.min_group_size * tested.rows / model.fitted_to_.rows),
        )
        before = tested.column("before") if tested.names_reference else None
        found = audited(tested.column("decision"), before=before)
        as_decided = {} if plain is None else {"before": audited(tested.column("plain"), before=before)}
        if compares:
            as_decided["without"] = audited(tested.column("before"), before=before)
            as_decided["audit"] = audited(tested.column("decision"), before=tested.column("before"))
        decisions = distinct_values(table_files.scan(decided), tested.column("decision"))
    constant = decisions[0] if len(decisions) == 1 else None
    sample = pl.concat([part.X for part in tested.kept]), pl.concat([part.y for part in tested.kept])
    return Fitted(model, found, as_decided, constant, sample)


def _plain_model(model: Any, rows: pl.DataFrame, target: str) -> Any:
    """The learner by itself, which sees no sensitive feature and knows no requirement: labels are 0 and 1."""
    learner = clone(model.estimator or TabularClassifier())
    positive = (rows.get_column(target) == model.pos_label_).to_numpy()
    return learner.fit(rows.drop(target, *model.sensitive_features), positive * 1)


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
    lacking: int = 0
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
        classes = self.model.classes_.tolist()
        kind, positive = pl.Series(classes).dtype, classes.index(self.model.pos_label_)
        for part in filter(lambda part: len(part.y), map(self._decidable, parts)):
            decided = {"decision": self.model.predict(part.X, ids=part.ids)}
            if self.compares or self.names_reference:
                if not hasattr(self.model, "predict_unconstrained"):
                    raise InputError("--no-worse needs --method post.")
                decided["before"] = self.model.predict_unconstrained(part.X)
            if self.plain is not None:
                chosen = self.plain.predict(part.X.drop(self.model.sensitive_features)) == 1
                decided["plain"] = self.model.classes_[np.where(chosen, positive, 1 - positive)]
            numbers = np.arange(self.rows, self.rows + len(part.y))
            drawn = np.flatnonzero(row_uniforms(numbers, 1) < self.reported)
            self.kept.append(part.take(drawn))
            self.rows += len(part.y)
            columns = [pl.Series(self.column(name), v.tolist(), dtype=kind) for name, v in decided.items()]
            yield part.X.select(self.groups).with_columns(part.y.alias(self.target), *columns)
        if not self.rows:
            raise InputError("no test row can be decided: choose other test rows, or a larger --test-share.")
        if self.lacking:
            print_note(
                f"evenhand: {self.lacking:,} of {self.rows + self.lacking:,} test rows lack a sensitive "
                "feature that decisions use, and are not decided."
            )

    def _decidable(self, part: Part) -> Part:
        """Rows without those that lack a sensitive feature which decisions use."""
        used = self.model.sensitive_features if self.model.aware is True else self.model.aware
        if self.model.settings().groups.missing != "exclude" or not used:
            return part
        columns = read_columns(part.X.select(used), max_levels=None).values()
        whole = np.flatnonzero(np.all([codes >= 0 for _, codes in columns], axis=0))
        self.lacking += len(part.y) - len(whole)
        return part.take(whole)

    @property
    def names_reference(self) -> bool:
        """Whether the requirement says that no group may be worse off than without it."""
        return any(isinstance(part, NoWorse) for part in self.model.constraint.bounds)
