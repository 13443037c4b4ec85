"""``evenhand predict``: decisions for the rows of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.cli.messages import in_options
from evenhand.cli.options import Flag, Integer, Names
from evenhand.cli.output import check_paths, print_note, print_result
from evenhand.display.progress import track
from evenhand.display.text import show
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

_ADDED = ("decision", "label_probability", "decision_probability")


def predict(
    model: Path,
    table: Path,
    /,
    *,
    out: Path,
    id: str | None = None,  # noqa: A002  (the name of the option)
    rows: Integer = 100_000,
    trusted: Names = (),
    formulas: Flag = False,
    force: Flag = False,
) -> int:
    """Decide for the rows of a file, in batches; all of its columns are kept.

    Parameters
    ----------
    model
        File of a model.
    table
        CSV or Parquet file.
    out
        File for the rows, their columns unchanged (those of a CSV file as text), with three more: decision;
        label_probability, the probability of the positive label (empty for --method in); and
        decision_probability, that of a positive decision (empty unless it is randomised).
    id
        Column that identifies rows, the key of randomised decisions; by default the one used in the fit.
    rows
        Rows per batch.
    trusted
        Full name of a class or function of your own in the model, such as mybank.features.Ratios; may be
        repeated. It is imported and run: never take it from the file, or from a message about it.
    formulas
        Keep text that a spreadsheet would take for a formula unchanged.
    force
        Overwrite the output if it exists.
    """
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time)
    from evenhand.cli.table_rows import groups_of_fit  # noqa: PLC0415

    check_paths([model, table], [out], force=force)
    if rows < 1:
        raise InputError(f"--rows must be at least 1, got {rows}.")
    with in_options():
        classifier: Any = eh.load(model, trusted=trusted)
    columns = table_files.columns_in(table)
    features = getattr(classifier, "feature_names_in_", ())
    needed = [name for name in features if name not in classifier.access_.unused]
    table_files.refuse_unknown(table, [*needed, *([] if id is None else [id])], columns)
    key = id or getattr(classifier._source, "id", None)
    if key is not None and key not in columns:
        print_note(
            f"evenhand: {table.name} has no column {key!r}, the key of randomised decisions in the fit: "
            "the features are the key instead."
        )
        key = None
    for name in _ADDED:
        if name in columns:
            raise InputError(f"{table.name} has a column {name!r} already: rename it.")
    available = [name for name in features if name in columns]
    pieces = table_files.read_pieces(table, rows, groups_of_fit(table, classifier))
    total = -(-table_files.count_rows(table) // rows)
    pieces = track(pieces, what="deciding", total=total, verbose=True)
    decided = _decide(classifier, pieces, available, key)
    count = table_files.write_pieces(out, decided, safe=not formulas)
    print_result(show(f"{count:,} rows decided: {out}"))
    return 0


def _decide(
    classifier: Any, pieces: Iterator[tuple[pl.DataFrame, pl.DataFrame]], features: list[str], key: str | None
) -> Iterator[pl.DataFrame]:
    """Pieces of a table as they are written, with decisions and probabilities."""
    import polars as pl  # noqa: PLC0415  (start-up time)

    positive = classifier.classes_.tolist().index(classifier.pos_label_)
    kinds: tuple[Any, ...] = (pl.Series(classifier.classes_.tolist()).dtype, pl.Float64, pl.Float64)
    for piece, written in pieces:
        added: tuple[Any, Any, Any] = ([], [], [])
        if len(piece):
            X, ids = piece.select(features), None if key is None else piece.get_column(key)
            known = hasattr(classifier, "predict_label_proba")  # in-processing learns decisions only
            likely = classifier.predict_label_proba(X).tolist() if known else [None] * len(X)
            chance = classifier.predict_proba(X)[:, positive].tolist()
            open_ = [value if 0 < value < 1 else None for value in chance]
            added = (classifier.predict(X, ids=ids).tolist(), likely, open_)
        columns = zip(_ADDED, added, kinds, strict=True)
        yield written.with_columns(pl.Series(name, values, dtype=kind) for name, values, kind in columns)
