"""Tables in CSV and Parquet files: checked, read lazily, as a whole or in pieces, written in pieces."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

import polars as pl
from narwhals.exceptions import NarwhalsError

from evenhand._atomic import written_at_once
from evenhand.cli.bands import AS_THEY_ARE, GroupColumns
from evenhand.data.checks import near_columns
from evenhand.exceptions import InputError

_FORMULA = r"^[=+\-@\t\r\n]"
"""Start of text that a spreadsheet may take for a formula."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_PARSED = "\0"
"""Before the names of columns that are there a second time, as text."""


def columns_in(path: Path) -> list[str]:
    """Names of a file's columns."""
    lazy = scan(path)
    with reading(path):
        return lazy.collect_schema().names()


def index_columns(path: Path) -> list[str]:
    """Columns without a name of their own that hold the index of a pandas table, which describes no row."""
    return [name for name in columns_in(path) if re.fullmatch(r"(__index_level_\d+__)?", name)]


def codes_among(path: Path, columns: Sequence[str]) -> list[str]:
    """Columns of a CSV file whose numbers are codes: 01, 1 and 1.0 beside each other, or beyond 64 bits.

    Groups that are written differently are different groups, so these columns are read as text; so are all
    with leading zeros, because another file may have the same codes without.
    """
    if is_parquet(path):
        return []
    schema = scan(path).collect_schema()
    numbers = [name for name in columns if name in schema and schema[name].is_numeric()]
    if not numbers:
        return []
    with reading(path):
        lazy = pl.scan_csv(path, infer_schema=False, glob=False)
        codes = lazy.select(_holds_codes(name, schema[name]) for name in numbers)
        found = codes.collect(engine="streaming").row(0, named=True)
    return [name for name in numbers if found[name]]


def _holds_codes(name: str, kind: pl.DataType) -> pl.Expr:
    text = pl.col(name)
    padded, merged = text.str.contains(r"^(\+|-?0[0-9])").any(), text.n_unique() > text.cast(float).n_unique()
    if not kind.is_integer():
        return padded | merged
    beyond = text.is_not_null() & text.cast(pl.Int64, strict=False).is_null()
    return padded | merged | beyond.any()


def read_pieces(
    path: Path, rows: int, groups: GroupColumns = AS_THEY_ARE
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Read a file a number of rows at a time, each piece also as it is written: a CSV file as text.

    A file without rows is one empty piece.
    """
    lazy = scan(path, groups).select(pl.all().name.prefix(_PARSED))
    written = scan(path) if is_parquet(path) else pl.scan_csv(path, infer_schema=False, glob=False)
    both = pl.concat([lazy, written], how="horizontal")
    empty = True
    with reading(path):
        for piece in itertools.chain(
            both.collect_batches(chunk_size=rows, maintain_order=True), [both.head(0).collect()]
        ):
            if piece.height or empty:
                empty = False
                width = piece.width // 2
                parsed = piece[:, :width]
                parsed.columns = [name.removeprefix(_PARSED) for name in parsed.columns]
                yield parsed, piece[:, width:]


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of polars, met while it reads a file, into an InputError that names the file."""
    try:
        yield
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        NarwhalsError,
        csv.Error,
        OSError,
    ) as error:
        reason = _first_line(error) + (": save it as UTF-8." if "utf-8" in str(error) else "")
        raise InputError(f"{path.name} cannot be read as a table: {reason}") from None


def write_pieces(path: Path, pieces: Iterable[pl.DataFrame], *, safe: bool = True) -> int:
    """Write pieces one below the other, all of them or nothing.

    Parameters
    ----------
    path : Path
        CSV, or Parquet by its suffix.
    pieces : iterable of polars.DataFrame
    safe : bool, default=True
        In CSV, put an apostrophe before text that a spreadsheet would take for a formula.

    Returns
    -------
    int
        Number of rows written.
    """
    try:
        with written_at_once(path) as unfinished:
            if is_parquet(path):
                return _write_parquet(unfinished, pieces)
            return _write_csv(unfinished, map(_without_formulas, pieces) if safe else pieces)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path.name} cannot be written: {_first_line(error)}") from None


def _write_csv(path: Path, pieces: Iterable[pl.DataFrame]) -> int:
    count = 0
    with path.open("wb") as file:
        for k, piece in enumerate(pieces):
            text = piece.write_csv(include_header=k == 0)
            file.write(text.encode())  # by Python, because some versions of polars are silent on a full disk
            count += piece.height
    return count


def _write_parquet(path: Path, pieces: Iterable[pl.DataFrame]) -> int:
    """Write each piece to a file of its own, then copy these into one: few are in memory at a time."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:
        written: list[Path] = []
        for piece in pieces:
            written.append(Path(folder) / f"{len(written)}.parquet")
            piece.write_parquet(written[-1])
        with path.open("wb") as file:  # by its name, a thread of polars could make it again after an error
            pl.scan_parquet(written, glob=False).sink_parquet(file)
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def refuse_unknown(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise an InputError for a name that is not among a file's columns, with the nearest one that is."""
    for name in names:
        if name not in columns:
            raise InputError(f"{path.name} has no column {name!r}. {near_columns(name, columns)}")


def _without_formulas(piece: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before cells and names of columns that a spreadsheet would take for formulas."""
    piece = piece.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    text = pl.col(pl.String)
    formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    changed = pl.when(formula).then(pl.lit("'") + text).otherwise(text).name.keep()
    piece = piece.with_columns(changed) if pl.String in piece.dtypes else piece
    return piece.rename({name: f"'{name}" for name in piece.columns if re.match(_FORMULA, name)})


def scan(path: Path, groups: GroupColumns = AS_THEY_ARE) -> pl.LazyFrame:
    """A file as a lazy table, with columns of groups as they are to be read."""
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    with reading(path):
        if is_parquet(path):
            return groups(pl.scan_parquet(path, glob=False), path.name)
        status = path.stat()
        _checked(path.absolute(), status.st_size, status.st_mtime_ns)
        types = dict.fromkeys(groups.text, pl.String)
        rows = pl.scan_csv(path, schema_overrides=types, infer_schema_length=10_000, glob=False)
        return groups(rows, path.name)


def count_rows(path: Path) -> int:
    """Number of rows of a file; of a Parquet file without reading them."""
    with reading(path):
        return int(scan(path).select(pl.len()).collect(engine="streaming").item())


def is_parquet(path: Path) -> bool:
    """Whether a file is taken for Parquet, by its suffix."""
    return path.suffix.lower() in (".parquet", ".pq")


@lru_cache
def _checked(path: Path, *_: int) -> None:
    """Check a CSV file once for each size and time of change; commands open their files several times."""
    check_csv(path)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]


_BLOCK = 1 << 20
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def check_csv(path: Path) -> None:
    """Raise an InputError for a header that is no list of names, and for a row with too many fields.

    After a decimal comma (``3,5``) all values of the row are in the wrong columns, which polars notices only
    if it reads all of them.
    """
    with _opened(path) as file:
        names = _header(path, file.read(_BLOCK))
    line = _long_row(path, len(names)) if names else None
    if line is not None:
        raise InputError(
            f"line {line} of {path.name} has more fields than there are columns ({len(names)}): write 3.5 "
            "for 3,5, and put text with a comma into quotes."
        )


def _opened(path: Path) -> IO[bytes]:
    """A file, unpacked if it is packed by gzip."""
    with path.open("rb") as plain:
        zipped = plain.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path)) if zipped else path.open("rb")


def _header(path: Path, start: bytes) -> list[str]:
    """Names of the columns; none for an empty file."""
    if b"\0" in start.partition(b"\n")[0]:
        raise InputError(f"{path.name} is UTF-16 or no text at all: save it as CSV in UTF-8.")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)  # the block may end in a character
        names = next(csv.reader(io.StringIO(text, newline="")), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path.name} cannot be read: {error}. Save it as CSV in UTF-8.") from None
    for separator, called in _OTHER_SEPARATORS.items():
        if sum(name.count(separator) for name in names) >= len(names) > 0:
            raise InputError(
                f"{path.name} seems to be separated by {called}: save it with commas, and numbers with "
                "decimal points."
            )
    for name in names:
        if names.count(name) > 1:
            what = f"columns named {name!r}" if name else "columns without a name"
            raise InputError(f"{path.name} has {names.count(name)} {what}: give each a name of its own.")
    return names


def _long_row(path: Path, columns: int) -> int | None:
    """The line where the first row with too many fields begins."""
    try:
        rows = pl.scan_csv(path, infer_schema=False, glob=False)
        rows.select(pl.all().null_count()).collect(engine="streaming")
    except pl.exceptions.ComputeError as error:  # does not say where
        with _opened(path) as file:
            reader, begun = csv.reader(io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")), 1
            for row in reader:
                if len(row) > columns:
                    return begun
                begun = reader.line_num + 1
        if "more fields" in str(error) or "utf-8" in str(error):
            raise
    return None
