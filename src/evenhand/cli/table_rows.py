"""Rows of files: read, checked and split before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.bands import AS_THEY_ARE, Bands, GroupColumns, refuse_numbers
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.data.batched_table import BatchedTable
    from evenhand.files.persistence import Source

SPLIT_SEED = 0
"""Test rows are the same in every run."""
_FEW = 100
"""With fewer rows, the values of an ordinary column may all differ by chance."""


@dataclass(frozen=True)
class Part:
    """Rows to learn from or to test on; `ids` are the keys of randomised decisions, if there is a column."""

    X: Any
    y: Any
    ids: Any = None


def read_rows(path: Path, groups: GroupColumns = AS_THEY_ARE) -> Any:
    """Read a file, which must have rows."""
    from evenhand.cli.table_files import read_table  # noqa: PLC0415  (start-up time)

    frame = read_table(path, groups)
    if not frame.height:
        raise InputError(f"{path.name} has no rows.")
    return frame


def scan_rows(path: Path, columns: list[str], groups: GroupColumns) -> Any:
    """Some columns of a file, which must have rows, as a lazy table."""
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time

    table_files.refuse_unknown(path, columns, table_files.columns_in(path))
    rows = table_files.scan(path, groups).select(list(dict.fromkeys(columns)))
    if not rows.head(1).collect().height:
        raise InputError(f"{path.name} has no rows.")
    return rows


def read_examples(
    path: Path, target: str, left_out: Sequence[str] = (), groups: GroupColumns = AS_THEY_ARE
) -> tuple[Any, Any]:
    """Read features and labels."""
    frame = read_rows(path, groups)
    return frame.drop(target, *(name for name in left_out if name in frame.columns)), frame.get_column(target)


def identifiers(X: Any) -> list[str]:
    """Columns with a different value in every row, such as account numbers: whole numbers, text or times.

    Some values may be missing. Numbers with decimals are measurements, which always differ.
    """
    return [name for name in X.columns if _identifies_rows(X.get_column(name).drop_nulls(), len(X))]


def _identifies_rows(column: Any, n_rows: int) -> bool:
    if len(column) <= max(_FEW, 0.9 * n_rows) or column.dtype.is_nested():
        return False
    if column.dtype.is_float() and not ((column % 1) == 0).all():
        return False
    return bool(column.n_unique() == len(column))


def read_classes(path: Path, y: Any, positive: str | None = None) -> list[Any]:
    """The two labels of a file, the positive one last."""
    from evenhand.data.labels import read_labels  # noqa: PLC0415  (start-up time)

    chosen = None if positive is None else as_value(y, positive)
    classes: list[Any] = read_labels(y, pos_label=chosen, what=f"{y.name!r} of {path.name}").classes.tolist()
    return classes


def refuse_other_labels(table: Path, y: Any, test: Path, y_test: Any) -> None:
    """Raise an InputError if the labels of two files differ."""
    known, found = read_classes(table, y), read_classes(test, y_test)
    if set(known) != set(found):
        raise InputError(
            f"{y.name!r} is {found[0]!r} or {found[1]!r} in {test.name}, and {known[0]!r} or {known[1]!r} in "
            f"{table.name}: use the same labels in both."
        )


def split_rows(X: Any, y: Any, share: float) -> list[tuple[Any, Any]]:
    """Split rows into those to learn from and a share to test on, the same in every run.

    It is not stratified by label: intervals on the test rows assume a simple random sample.
    """
    from evenhand.data.features import random_split  # noqa: PLC0415  (start-up time)

    try:
        parts = random_split(len(y), share, seed=SPLIT_SEED)
    except InputError:
        raise InputError(
            f"--test-share {share:g} of {len(y):,} rows leaves none to learn from or none to test on."
        ) from None
    for rows, purpose in zip(parts, ("learn from", "test on"), strict=True):
        if y[rows].n_unique() < 2:
            raise InputError(
                f"--test-share {share:g} leaves {len(rows):,} of {len(y):,} rows to {purpose}, all with the "
                "same label: choose a share that leaves both labels."
            )
    return [(X[rows], y[rows]) for rows in parts]


def groups_of_files(
    files: Sequence[Path], names: Sequence[str], sensitive: Sequence[str], bands: Bands
) -> GroupColumns:
    """How columns of groups are read, alike in all files; sensitive ones of many numbers need bands."""
    from evenhand.cli.table_files import codes_among, scan  # noqa: PLC0415  (start-up time)

    others = [name for name in names if not bands.get(name)]
    text = sorted({name for file in files for name in codes_among(file, others)})
    refuse_numbers(scan(files[0]), [name for name in sensitive if name not in text], bands)
    return GroupColumns(text, bands)


def groups_of_fit(path: Path, model: Any) -> GroupColumns:
    """How columns of groups of a file are read, as in the fit of a model."""
    from evenhand.cli.table_files import codes_among  # noqa: PLC0415  (start-up time)

    bands = getattr(model._source, "bands", {})
    read = [model.groups_, *([model.strata_] if model.strata_ else [])]
    levels = {name: groups.levels(name) for groups in read for name in groups.features if name not in bands}
    text = [name for name, values in levels.items() if any(isinstance(value, str) for value in values)]
    return GroupColumns(list({*text, *codes_among(path, list(levels))}), bands)


def rows_of_fit(path: Path, source: Source | None, model: Any) -> tuple[Any, Any] | str:
    """The rows of a file that `fit` learned from, or in what way the file differs from that of the fit."""
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time

    if source is None:
        raise InputError(
            "this model was not written by evenhand fit, so its file does not record which rows it was "
            "fitted to: use evenhand.verify(path, data=(X, y)) in Python."
        )
    table_files.refuse_unknown(path, [source.target], table_files.columns_in(path))
    groups = groups_of_fit(path, model)
    if source.in_batches:
        return _batches_of_fit(path, source, groups)
    difference = source.difference(read_rows(path, groups))
    if difference is not None:
        return difference
    X, y = read_examples(path, source.target, source.left_out, groups)
    return (X, y) if source.test_share is None else split_rows(X, y, source.test_share)[0]


def _batches_of_fit(path: Path, source: Source, groups: GroupColumns) -> tuple[Any, Any] | str:
    from evenhand.cli.table_files import count_rows  # noqa: PLC0415  (start-up time)

    found = count_rows(path)
    if found != source.rows:
        return f"these are not the rows of the fit: there are {found:,} of them and not {source.rows:,}"
    table = large_table(path, source.left_out, groups)
    if source.test_share is not None:
        table, _ = table.split(source.test_share, SPLIT_SEED)
    return table, source.target


def large_table(path: Path, left_out: Sequence[str], groups: GroupColumns) -> BatchedTable:
    """A file that is read in batches, without some of its columns."""
    from evenhand.cli.table_files import scan  # noqa: PLC0415  (start-up time)
    from evenhand.data.batched_table import BatchedTable  # noqa: PLC0415

    table = BatchedTable.of(scan(path, groups))
    return table.select([name for name in table.names if name not in left_out])


def as_value(column: Any, text: str) -> Any:
    """The value of a column that an option writes as text: true is True, and 1 is 1.0."""
    values = column.unique().drop_nulls().to_list()
    same = [value for value in values if str(value) == text]
    same += [value for value in values if isinstance(value, bool) and str(value).lower() == text.lower()]
    same += [value for value in values if isinstance(value, float) and repr(value) == f"{text}.0"]
    return same[0] if same else text


def distinct_values(rows: Any, name: str) -> Any:
    """The distinct values of a column of a lazy table, sorted; the first of them if no label has so many."""
    from evenhand.data.labels import MAX_CLASSES  # noqa: PLC0415  (start-up time)

    found = rows.select(name).drop_nulls().unique().sort(name).head(MAX_CLASSES + 1)
    return found.collect(engine="streaming").get_column(name)


def default_positive(rows: Any, name: str) -> Any:
    """The one of two decisions that sorts last; None for 0 and 1 and for probabilities."""
    from evenhand.data.labels import MAX_CLASSES  # noqa: PLC0415  (start-up time)

    dtype = rows.collect_schema()[name]
    if dtype.is_float() or dtype.is_nested():
        return None
    values = distinct_values(rows, name).to_list()
    if all(value in (0, 1) for value in values):
        return None
    if len(values) == 2:
        return values[1]
    shown = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
    if len(values) == 1:
        raise InputError(f"{name!r} holds only {shown}: name the positive label with --positive.")
    number = len(values) if len(values) <= MAX_CLASSES else f"more than {MAX_CLASSES}"
    raise InputError(f"{name!r} has {number} values ({shown}); a decision has two.")
