"""Tables in files: CSV and Parquet, read as a whole or in pieces, and decisions written piece by piece."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from evenhand._atomic import written_at_once
from evenhand.exceptions import InputError, MissingExtraError

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError:
    raise MissingExtraError("polars", "cli") from None

__all__ = [
    "columns_in",
    "index_columns",
    "read_pieces",
    "read_table",
    "refuse_existing",
    "refuse_strange",
    "with_decisions",
    "write_pieces",
]

_RISKY = r"^[=+\-@\t\r\n]"


def columns_in(path: Path) -> list[str]:
    """Give the names of a file's columns."""
    return _scan(path)[1]


def index_columns(path: Path) -> list[str]:
    """Names of the columns that are the index of a pandas table, which says nothing of a row.

    A Parquet file tells them; in a CSV file it is a first column without a name.
    """
    there = columns_in(path)
    if not _is_parquet(path):
        return [name for name in there[:1] if name == ""]
    told: Any = None
    try:
        told = json.loads(pl.read_parquet_metadata(path).get("pandas", "{}"))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        told = {}
    listed = told.get("index_columns") if isinstance(told, dict) else None
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return [name for name in there if name in names or re.fullmatch(r"__index_level_\d+__", name)]


def read_table(path: Path, wanted: Sequence[str] | None = None) -> pl.DataFrame:
    """Read a file, or some of its columns.

    Parameters
    ----------
    path : Path
        CSV, or Parquet by its suffix.
    wanted : sequence of str, optional
        A name that is not there is refused, with the nearest that is.

    Returns
    -------
    polars.DataFrame
    """
    lazy, there = _scan(path)
    refuse_strange(path, wanted or (), there)
    try:
        return (lazy if wanted is None else lazy.select(list(dict.fromkeys(wanted)))).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def read_pieces(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    """Read a file a number of rows at a time; one without rows is one piece."""
    lazy, _ = _scan(path)
    empty = True
    try:
        for piece in lazy.collect_batches(chunk_size=rows, maintain_order=True):
            if piece.height:
                empty = False
                yield piece
        if empty:
            yield lazy.head(0).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def write_pieces(path: Path, pieces: Iterable[pl.DataFrame], *, safe: bool = True) -> int:
    """Write pieces one below the other as CSV, or Parquet by the suffix: all of them or nothing.

    Parameters
    ----------
    path : Path
    pieces : iterable of polars.DataFrame
    safe : bool
        Put an apostrophe before text in CSV that a spreadsheet would take for a formula.

    Returns
    -------
    int
        Rows written.
    """
    write = _write_parquet if _is_parquet(path) else _write_csv
    try:
        with written_at_once(path) as unfinished:
            return write(unfinished, pieces, safe=safe)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path.name} cannot be written: {_first_line(error)}") from None


def _write_csv(path: Path, pieces: Iterable[pl.DataFrame], *, safe: bool) -> int:
    count = 0
    with path.open("wb") as file:
        for k, piece in enumerate(pieces):
            text = (_harmless(piece) if safe else piece).write_csv(include_header=k == 0)
            file.write(text.encode())  # by Python, because some versions of polars are silent on a full disk
            count += piece.height
    return count


def _write_parquet(path: Path, pieces: Iterable[pl.DataFrame], *, safe: bool) -> int:  # noqa: ARG001
    """Let polars take piece after piece, so that no more than a few are in memory."""
    rest = iter(pieces)
    first = next(rest, pl.DataFrame())
    count, failed = 0, None

    def source(*_: Any) -> Iterator[pl.DataFrame]:
        nonlocal count, failed
        try:
            for piece in itertools.chain([first], rest):
                count += piece.height
                yield piece
        except Exception as error:
            failed = error
            raise

    try:
        register_io_source(source, schema=first.schema).sink_parquet(path)
    except pl.exceptions.PolarsError:
        if failed is not None:  # polars would tell of it in words of its own
            raise failed from None
        raise
    return count


def with_decisions(piece: pl.DataFrame, decisions: Any, chances: Any, classes: Any) -> pl.DataFrame:
    """Put decisions, which are among two classes, and their probabilities beside the columns of a piece."""
    return piece.with_columns(
        pl.Series("decision", list(decisions), dtype=pl.Series(list(classes)).dtype),
        pl.Series("probability", chances, dtype=pl.Float64),
    )


def refuse_existing(path: Path | None, *, force: bool) -> None:
    """Refuse, before any work, an output that is there already or cannot be written."""
    if path is None:
        return
    folder = path.resolve().parent
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file in it.")
    if path.exists() and not path.is_file():  # a device or a pipe, which a rename would replace
        raise InputError(f"{path} is not a file that can be written: choose another name.")
    if path.exists() and not force:
        raise InputError(f"{path} is there already: use --force to overwrite it.")
    if not folder.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} to.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path.parent} cannot be written to.")


def _harmless(piece: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before names and text that a spreadsheet would take for a formula."""
    piece = piece.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    text = pl.col(pl.String)
    changed = pl.when(text.str.contains(_RISKY)).then(pl.lit("'") + text).otherwise(text).name.keep()
    piece = piece.with_columns(changed) if pl.String in piece.dtypes else piece
    return piece.rename({name: f"'{name}" for name in piece.columns if re.match(_RISKY, name)})


def _scan(path: Path) -> tuple[pl.LazyFrame, list[str]]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        if _is_parquet(path):
            lazy = pl.scan_parquet(path, glob=False)
        else:
            lazy = pl.scan_csv(path, infer_schema_length=10_000, glob=False)
        return lazy, lazy.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path.name} cannot be read as a table: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]


def refuse_strange(path: Path, wanted: Sequence[str], there: Sequence[str]) -> None:
    """Refuse names that are not there, with the nearest that is."""
    for name in wanted:
        if name not in there:
            close = get_close_matches(name, there, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {_listed(there)}."
            raise InputError(f"{path.name} has no column {name!r}: {hint}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
