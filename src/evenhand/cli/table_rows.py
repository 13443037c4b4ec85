"""Rows of files: checked and split before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

import evenhand as eh
from evenhand.cli.bands import Bands, GroupColumns, read_bands, refuse_numbers
from evenhand.cli.estimators import estimator_for
from evenhand.cli.options import Learning
from evenhand.cli.table_files import codes_among, columns_in, index_columns, reading, refuse_unknown, scan
from evenhand.data.batched_table import BatchedTable
from evenhand.data.checks import check_count, check_fraction, near_names
from evenhand.data.labels import MAX_CLASSES, read_labels
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.files.persistence import Source

_TEST_SHARE = 0.25
_SPLIT_SEED = 0
"""Test rows are the same in every run."""
_FIRST_ROWS = 10_000
"""Rows by which columns that identify rows are found."""
_FEW = 100
"""With fewer rows, the values of an ordinary column may all differ by chance."""


@dataclass(frozen=True)
class Part:
    """Rows to learn from or to test on; `ids` are the keys of randomised decisions, if there is a column."""

    X: Any
    y: Any
    ids: Any = None

    def take(self, rows: Any) -> Part:
        """Some of them."""
        return Part(self.X[rows], self.y[rows], None if self.ids is None else self.ids[rows])


@dataclass(frozen=True, eq=False)
class TrainingFile:
    """A file to learn from: what its columns are, and its rows in two parts.

    Attributes
    ----------
    path : Path
    options : Learning
    sensitive : list of str
        Names of the sensitive features.
    usable : bool or list of str
        Those that decisions may use: all (True), none (False), or those named.
    index : list of str
        Columns that are the index of a pandas table.
    names : list of str
        Features, the label and the key.
    groups : GroupColumns
        How columns of groups are read, in both files if there is one to test on.
    """

    path: Path
    options: Learning
    sensitive: list[str]
    usable: bool | list[str]
    index: list[str]
    names: list[str]
    groups: GroupColumns

    @classmethod
    def find(cls, path: Path, options: Learning, given: Sequence[str]) -> TrainingFile:
        """Raise an InputError for options that contradict each other and columns that files do not have."""
        if options.test is not None and options.test_share is not None:
            raise InputError("pass --test or --test-share, not both.")
        if options.test_share is not None:
            check_fraction("--test-share", options.test_share)
        check_count("--min-group-size", options.min_group_size)
        columns = columns_in(path)
        sensitive = column_names(options.sensitive, columns)
        dropped = column_names(options.drop, columns, "--drop") if options.drop else []
        key = [] if options.id is None else [options.id]
        used = {"--target": [options.target], "--sensitive": sensitive, "--id": key, "--drop": dropped}
        named = [name for names in used.values() for name in names]
        for name in named:
            if named.count(name) > 1:
                both = " and ".join(option for option, names in used.items() if name in names)
                raise InputError(f"{name!r} is both {both}.")
        refuse_unknown(path, named, columns)
        index = [name for name in index_columns(path) if name not in named]
        names = [name for name in columns if name not in (*dropped, *index)]
        files = [path]
        if options.test is not None:
            files.append(options.test)
            refuse_unknown(options.test, names, columns_in(options.test))
        bands = read_bands(options.bands, sensitive)
        groups = groups_of_files(files, [*sensitive, *given], sensitive, bands)
        return cls(path, options, sensitive, _usable(options.aware, sensitive), index, names, groups)

    @cached_property
    def labels(self) -> tuple[Any, int]:
        """The two labels, and the number of rows."""
        return self._labels(self.path, self.options.positive)

    def _labels(self, path: Path, positive: str | None = None) -> tuple[Any, int]:
        target = self.options.target
        values, rows = BatchedTable.of(scan_rows(path, [target], self.groups)).combinations([target])
        chosen = None if positive is None else as_value(pl.Series(list(values[target])), positive)
        what = f"{target!r} of {path.name}"
        found = read_labels(values[target], pos_label=chosen, what=what, counts=rows)
        return found.classes.tolist(), int(rows.sum())

    def parts(self) -> tuple[BatchedTable, BatchedTable]:
        """The rows to learn from and those to test on, the same in every run.

        They are not stratified by label: intervals on the test rows assume a simple random sample.
        """
        test, (labels, rows) = self.options.test, self.labels
        table = BatchedTable.of(scan(self.path, self.groups)).select(self.names)
        if test is not None:
            found, _ = self._labels(test)
            if set(labels) != set(found):
                raise InputError(
                    f"{self.options.target!r} is {found[0]!r} or {found[1]!r} in {test.name}, and "
                    f"{labels[0]!r} or {labels[1]!r} in {self.path.name}: use the same labels in both."
                )
            return table, BatchedTable.of(scan(test, self.groups)).select(self.names)
        parts = table.split(self.share, _SPLIT_SEED)
        for part, purpose in zip(parts, ("learn from", "test on"), strict=True):
            batches = part.batches([self.options.target])
            if len({label for batch in batches for label in batch.to_series().unique()}) < 2:
                raise InputError(
                    f"--test-share {self.share:g} of {rows:,} rows leaves too few to {purpose}: choose a "
                    "share that leaves both labels."
                )
        return parts

    @property
    def share(self) -> float:
        """Share of the rows to test on, without a file for them."""
        return self.options.test_share or _TEST_SHARE

    def part(self, rows: pl.DataFrame) -> Part:
        """Features, labels and keys of some rows."""
        key = self.options.id
        ids = None if key is None else rows.get_column(key)
        X = rows.drop(self.options.target, *([] if key is None else [key]))
        return Part(X, rows.get_column(self.options.target), ids)

    @cached_property
    def first(self) -> pl.DataFrame:
        """Features of the first rows."""
        with reading(self.path):
            rows = scan(self.path, self.groups).select(self.names).head(_FIRST_ROWS).collect()
        return rows.drop(self.options.target, *([] if self.options.id is None else [self.options.id]))

    def notes(self) -> list[str]:
        """Notes on columns that identify rows."""
        rows = f"{len(self.first):,} rows" + (" at the start" if len(self.first) < self.labels[1] else "")
        index = [
            f"{repr(name) if name else 'the first column'} of {self.path.name} is the index of a pandas "
            "table, and is left out."
            for name in self.index
        ]
        return index + [
            f"{name!r} has a different value in each of {rows}: if it only identifies them, leave it out "
            f"with --drop {name}, or make it the key of randomised decisions with --id {name}."
            for name in identifiers(self.first)
            if name not in self.sensitive
        ]

    @property
    def source(self) -> Source:
        """Description of the file, by which `verify` finds the rows of the fit again."""
        from evenhand.files.persistence import Source  # noqa: PLC0415  (an audit does not need scikit-learn)

        features = [name for name in self.names if name != self.options.id]
        return Source(
            file=self.path.name,
            target=self.options.target,
            test_share=None if self.options.test else self.share,
            left_out=tuple(name for name in columns_in(self.path) if name not in features),
            id=self.options.id,
            bands=self.groups.bands,
        )

    def classifier(
        self, *, missing: Any = "error", **settings: Any
    ) -> eh.FairPostprocessor | eh.FairInprocessor:
        """The fair classifier that the options describe, not fitted yet."""
        options = self.options
        kind = eh.FairPostprocessor if options.method == "post" else eh.FairInprocessor
        return kind(
            estimator_for(options.estimator, self.first.drop(self.sensitive)),  # others are added as 0 and 1
            sensitive_features=self.sensitive,
            groups=eh.GroupPolicy(missing, min_size=options.min_group_size),
            pos_label=None if options.positive is None else self.labels[0][1],
            verbose=True,
            **settings,
        )


def _usable(aware: tuple[str, ...] | None, sensitive: list[str]) -> bool | list[str]:
    if aware is None or aware == ("False",):
        return False
    if aware in ((), ("True",)):  # from true in a TOML file
        return True
    names = column_names(aware, sensitive, "--aware")
    for name in names:
        if name not in sensitive:
            hint = near_names(name, sensitive, "They are")
            raise InputError(f"--aware names {name!r}, which is not among the sensitive features. {hint}")
    return True if set(names) == set(sensitive) else names


def column_names(texts: Sequence[str], columns: Sequence[str], option: str = "--sensitive") -> list[str]:
    """Read names of columns separated by commas; a name in `columns` may itself hold a comma."""
    parts = [part for text in texts for part in ([text] if text in columns else text.split(","))]
    names = [part if part in columns else part.strip() for part in parts if part.strip()]
    if not names:
        raise InputError(f"{option} must name columns, separated by commas.")
    return list(dict.fromkeys(names))


def scan_rows(path: Path, columns: list[str], groups: GroupColumns) -> pl.LazyFrame:
    """Some columns of a file, which must have rows, as a lazy table."""
    refuse_unknown(path, columns, columns_in(path))
    with reading(path):
        rows = scan(path, groups).select(list(dict.fromkeys(columns)))
        if not rows.head(1).collect().height:
            raise InputError(f"{path.name} has no rows.")
    return rows


def identifiers(X: pl.DataFrame) -> list[str]:
    """Columns with a different value in every row, such as account numbers: whole numbers, text or times.

    Measurements, which are floats, always differ; so do the values of a few rows by chance.
    """
    exact = X.select(~(cs.float() | cs.nested()))
    return [column.name for column in exact.iter_columns() if column.n_unique() == len(X) > _FEW]


def groups_of_files(
    files: Sequence[Path], names: Sequence[str], sensitive: Sequence[str], bands: Bands
) -> GroupColumns:
    """How columns of groups are read, alike in all files; sensitive ones of many numbers need bands."""
    others = [name for name in names if not bands.get(name)]
    text = sorted({name for file in files for name in codes_among(file, others)})
    refuse_numbers(scan(files[0]), [name for name in sensitive if name not in text], bands)
    return GroupColumns(text, bands)


def groups_of_fit(path: Path, model: Any) -> GroupColumns:
    """How columns of groups of a file are read, as in the fit of a model."""
    bands = getattr(model._source, "bands", {})
    read = [model.groups_, *([model.strata_] if model.strata_ else [])]
    levels = {name: groups.levels(name) for groups in read for name in groups.features if name not in bands}
    text = [name for name, values in levels.items() if any(isinstance(value, str) for value in values)]
    return GroupColumns(list({*text, *codes_among(path, list(levels))}), bands)


def rows_of_fit(path: Path, source: Source | None, model: Any) -> tuple[BatchedTable, str]:
    """The rows of a file that `fit` learned from, and the column of labels."""
    if source is None:
        raise InputError(
            "this model was not written by evenhand fit, so its file does not record which rows it was "
            "fitted to: use evenhand.verify(path, data=(X, y)) in Python."
        )
    refuse_unknown(path, [source.target], columns_in(path))
    table = BatchedTable.of(scan(path, groups_of_fit(path, model)))
    table = table.select([name for name in table.names if name not in source.left_out])
    if source.test_share is not None:
        table, _ = table.split(source.test_share, _SPLIT_SEED)
    return table, source.target


def as_value(column: Any, text: str) -> Any:
    """The value of a column that an option writes as text: true is True, and 1 is 1.0."""
    values = column.unique().drop_nulls().to_list()
    same = [value for value in values if str(value) == text]
    same += [value for value in values if isinstance(value, bool) and str(value).lower() == text.lower()]
    same += [value for value in values if isinstance(value, float) and repr(value) == f"{text}.0"]
    return same[0] if same else text


def distinct_values(rows: Any, name: str) -> Any:
    """The distinct values of a column of a lazy table, sorted; the first of them if no label has so many."""
    found = rows.select(name).drop_nulls().unique().sort(name).head(MAX_CLASSES + 1)
    return found.collect(engine="streaming").get_column(name)


def positive_label(rows: Any, positive: str | None, label: str | None, decision: str | None) -> Any:
    """The positive label as a value of its column; that of decisions if labels are not known."""
    column = label or decision
    if positive is not None and column is not None:
        return as_value(distinct_values(rows, column), positive)
    return _default_positive(rows, decision) if label is None and decision is not None else positive


def _default_positive(rows: Any, name: str) -> Any:
    """The one of two decisions that sorts last; None for 0 and 1, probabilities, and more than two values."""
    dtype = rows.collect_schema()[name]
    values = [] if dtype.is_float() or dtype.is_nested() else distinct_values(rows, name).to_list()
    return values[1] if len(values) == 2 and set(values) != {0, 1} else None
