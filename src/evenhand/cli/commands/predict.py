"""``evenhand predict``: decisions for the rows of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.cli.options import Flag, columns_in
from evenhand.cli.output import print_note, print_result, visible
from evenhand.cli.paths import check_paths
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["predict"]


def predict(
    model: Path,
    table: Path,
    /,
    *,
    out: Path,
    id: str | None = None,  # noqa: A002  (the name of the option)
    rows: int = 100_000,
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
        File for the rows with two more columns: decision, and the probability of the positive label.
    id
        Column that identifies rows, the key of randomised decisions; by default the one used in the fit.
    rows
        Rows per batch.
    formulas
        Keep text that a spreadsheet would take for a formula unchanged.
    force
        Overwrite the output if it exists.
    """
    from evenhand.cli import files  # noqa: PLC0415  (start-up time)

    check_paths([model, table], [out], force=force)
    if rows < 1:
        raise InputError(f"--rows should be at least 1, but is {rows}.")
    classifier: Any = eh.load(model)
    columns = columns_in(table)
    features = getattr(classifier, "feature_names_in_", ())
    needed = [name for name in features if name not in classifier.access_.unused]
    files.refuse_unknown(table, [*needed, *([] if id is None else [id])], columns)
    key = id or getattr(classifier._source, "id", None)
    if key is not None and key not in columns:
        print_note(
            f"evenhand: {table.name} has no column {key!r}, the key of randomised decisions in the fit: "
            "the features are the key instead."
        )
        key = None
    for name in ("decision", "probability"):
        if name in columns:
            raise InputError(f"{table.name} has a column {name!r} already: rename it.")
    available = [name for name in features if name in columns]
    decided = _decide(classifier, files.read_pieces(table, rows), available, key)
    count = files.write_pieces(out, decided, safe=not formulas)
    print_result(visible(f"{count:,} rows decided: {out}"))
    return 0


def _decide(
    classifier: Any, pieces: Iterator[pl.DataFrame], features: list[str], key: str | None
) -> Iterator[pl.DataFrame]:
    """Pieces of a table with decisions and their probabilities."""
    from evenhand.cli.files import with_decisions  # noqa: PLC0415  (start-up time)

    positive = classifier.classes_.tolist().index(classifier.pos_label_)
    for piece in pieces:
        X = piece.select(features)
        decisions: Any = []
        probabilities: Any = []
        if len(X):
            decisions = classifier.predict(X, ids=None if key is None else piece.get_column(key))
            probabilities = classifier.predict_proba(X)[:, positive]
        yield with_decisions(piece, decisions, probabilities, classifier.classes_)
