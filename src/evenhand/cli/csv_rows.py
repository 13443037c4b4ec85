"""CSV files, checked for what polars would shift or rename without a word."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path
from typing import IO, cast

import numpy as np

from evenhand.exceptions import InputError

_BLOCK = 1 << 20
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def check_csv(path: Path) -> None:
    """Raise an InputError for a header that is no list of names, and for a row with too many fields.

    After a decimal comma (``3,5``) all values of the row are in the wrong columns, which polars notices only
    if it reads all of them. The file is read in blocks.
    """
    with path.open("rb") as plain:
        zipped = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file = cast(IO[bytes], gzip.GzipFile(fileobj=plain) if zipped else plain)
        names = _header(path, file.read(_BLOCK))
        file.seek(0)
        line = _long_row(file, len(names)) if names else None
    if line is not None:
        raise InputError(
            f"line {line} of {path.name} has more fields than there are columns ({len(names)}): write 3.5 "
            "for 3,5, and put text with a comma into quotes."
        )


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


def _long_row(file: IO[bytes], columns: int) -> int | None:
    """The line where the first row with too many fields begins."""
    line, begun, commas, quoted = 1, 1, 0, False
    while block := file.read(_BLOCK):
        values = np.frombuffer(block, np.uint8)
        ends, separators = values == ord("\n"), values == ord(",")
        lines = np.flatnonzero(ends)
        if quoted or b'"' in block:
            outside = np.logical_xor.accumulate(np.append(not quoted, values == ord('"')))[1:]
            quoted = not outside[-1]
            ends, separators = ends & outside, separators & outside
        stops = np.append(np.flatnonzero(ends), len(block))  # of rows, and what has begun of the last one
        fields = 1 + np.diff(np.searchsorted(np.flatnonzero(separators), stops), prepend=-commas)
        starts = np.append(begun, line + 1 + np.searchsorted(lines, stops[:-1]))
        if (fields > columns).any():
            return int(starts[np.argmax(fields > columns)])
        line, begun, commas = line + len(lines), int(starts[-1]), int(fields[-1]) - 1
    return None
