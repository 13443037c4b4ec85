"""Rows of files: what is wrong with them is found out before anything is learned."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from evenhand.exceptions import InputError

__all__ = [
    "as_value",
    "divided",
    "examples",
    "last_decision",
    "learned_from",
    "read_rows",
    "row_names",
    "source_of",
    "to_judge_on",
    "two_labels",
]

_FEW = 100
"""Rows that numbers or words tell apart by chance."""


def read_rows(path: Path, wanted: list[str] | None = None) -> Any:
    """Read a file that has rows."""
    frame = import_module("evenhand.cli.files").read_table(path, wanted)
    if not frame.height:
        raise InputError(f"{path.name} has no rows.")
    return frame


def examples(path: Path, target: str, left_out: Sequence[str] = ()) -> tuple[Any, Any]:
    """Read features and labels."""
    frame = read_rows(path)
    return frame.drop(target, *(name for name in left_out if name in frame.columns)), frame.get_column(target)


def row_names(X: Any) -> list[str]:
    """Columns that are different in every row, as an account number is: whole numbers, text or times.

    Some values may be missing. Numbers with decimals are measurements, and differ by nature.
    """
    return [name for name in X.columns if _names_rows(X.get_column(name).drop_nulls(), len(X))]


def _names_rows(column: Any, rows: int) -> bool:
    if len(column) <= max(_FEW, 0.9 * rows) or column.dtype.is_nested():
        return False
    if column.dtype.is_float() and not ((column % 1) == 0).all():
        return False
    return bool(column.n_unique() == len(column))


def two_labels(path: Path, y: Any, positive: str | None = None) -> list[Any]:
    """Give the two labels of a file, the positive one last, or say what is wrong with them."""
    chosen = None if positive is None else as_value(y, positive)
    read = import_module("evenhand.inputs.labels").read_labels
    found: list[Any] = read(y, pos_label=chosen, what=f"{y.name!r} of {path.name}").classes.tolist()
    return found


def to_judge_on(test: Path, target: str, *, table: Path, X: Any, y: Any) -> tuple[Any, Any]:
    """Read the file to judge on: the columns that are learned from, and the same two labels."""
    X_test, y_test = examples(test, target)
    known, there = two_labels(table, y), two_labels(test, y_test)
    if set(known) != set(there):
        raise InputError(
            f"{target!r} is {there[0]!r} or {there[1]!r} in {test.name}, but {known[0]!r} or {known[1]!r} in "
            f"{table.name}: write the labels alike."
        )
    return X_test.select(X.columns), y_test


def divided(X: Any, y: Any, share: float) -> list[tuple[Any, Any]]:
    """Divide rows into those to learn from and a share to judge on, the same every time.

    Labels are not looked at: intervals on the rows to judge on are for a sample of its own.
    """
    split = import_module("sklearn.model_selection").train_test_split
    try:
        parts = split(range(len(y)), test_size=share, random_state=0)
    except ValueError:
        raise InputError(
            f"--test-share {share:g} of {len(y):,} rows leaves none to learn from or none to judge on."
        ) from None
    for rows, purpose in zip(parts, ("learn from", "judge on"), strict=True):
        if y[rows].n_unique() < 2:
            raise InputError(
                f"--test-share {share:g} leaves {len(rows):,} of {len(y):,} rows to {purpose}, all with the "
                "same label: choose a share that leaves both labels."
            )
    return [(X[sorted(rows)], y[sorted(rows)]) for rows in parts]


def source_of(table: Path, target: str, share: float | None, left_out: Sequence[str], key: str | None) -> Any:
    """Note by what `verify` finds the rows of a fit again."""
    rows, fingerprint = read_rows(table), import_module("evenhand.inputs.fingerprint")
    digest, unordered = fingerprint.digest_of(rows.get_column(target)), fingerprint.unordered_digest(rows)
    return import_module("evenhand.model_files.persistence").Source(
        table.name, target, share, len(rows), digest, tuple(left_out), key, unordered
    )


def learned_from(path: Path, source: Any) -> tuple[Any, Any] | str:
    """Find the rows again that `fit` learned from, or say why they are not there."""
    if source is None:
        raise InputError(
            "this model was not made by evenhand fit, so that it does not tell which rows of a file it was "
            "fitted to: use evenhand.verify(path, data=(X, y)) in Python."
        )
    files = import_module("evenhand.cli.files")
    files.refuse_strange(path, [source.target], files.columns_in(path))
    other: str | None = source.difference(read_rows(path))
    if other is not None:
        return other
    X, y = examples(path, source.target, source.left_out)
    return (X, y) if source.test_share is None else divided(X, y, source.test_share)[0]


def as_value(column: Any, text: str) -> Any:
    """Read the text of an option as a value of a column: true is True, and 1 is 1.0."""
    values = column.unique().drop_nulls().to_list()
    same = [value for value in values if str(value) == text]
    same += [value for value in values if isinstance(value, bool) and str(value).lower() == text.lower()]
    same += [value for value in values if isinstance(value, float) and repr(value) == f"{text}.0"]
    return same[0] if same else text


def last_decision(column: Any) -> Any:
    """Give the decision that sorts last, where there are two; None for 0 and 1 and for probabilities."""
    values = column.unique().drop_nulls().sort().to_list()
    if column.dtype.is_float() or all(value in (0, 1) for value in values):
        return None
    if len(values) == 2:
        return values[1]
    shown = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
    if len(values) == 1:
        raise InputError(f"{column.name!r} holds only {shown}: say which is positive with --positive.")
    raise InputError(f"{column.name!r} has {len(values)} values ({shown}), but a decision has two.")
