"""CSV files, checked for what polars would shift or rename without a word."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path
from typing import IO, cast

import polars as pl

from evenhand.exceptions import InputError

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
    except pl.exceptions.ComputeError:  # does not say where
        with _opened(path) as file:
            reader, begun = csv.reader(io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")), 1
            for row in reader:
                if len(row) > columns:
                    return begun
                begun = reader.line_num + 1
    return None
