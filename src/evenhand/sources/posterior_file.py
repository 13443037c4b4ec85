"""Posteriors of more rows than fit into memory, in temporary files that the solver reads piece by piece."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.batched_table import BatchedTable
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import DensePosteriors
from evenhand.solver.partitions import ThreadedPartitions
from evenhand.sources.layout import Columns, Layout

_PART_BYTES = 1 << 25
"""Of a partition: a few of them stay in memory at a time."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, a quota, or a limit on the size of files."""


@dataclass(eq=False)
class PosteriorFile:
    """Posteriors of rows in files, one for each array of their layout.

    Parameters
    ----------
    folder : Path
    n_rows : int
    layout : Layout
    """

    folder: Path
    n_rows: int
    layout: Layout
    owned: tempfile.TemporaryDirectory[str] | None = None
    """A folder that is removed with this object."""

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self.n_rows * self.layout.row_bytes

    def reserve(self) -> None:
        """Take the space on the disk before anything is computed."""
        free = shutil.disk_usage(self.folder).free
        if free < self.size:
            raise self._full(free)
        with self._told():
            for name, (kind, shape) in self.layout.kinds.items():
                _extend(self._path(name), self.n_rows * kind.itemsize * int(np.prod(shape)))

    def write(self, first: int, columns: Columns) -> None:
        """Write the arrays of some rows, from row number `first` on."""
        for name, (kind, shape) in self.layout.kinds.items():
            with self._told(), self._path(name).open("rb+") as file:
                file.seek(first * kind.itemsize * int(np.prod(shape)))
                # Not by a memory map, which a full disk would kill the process for.
                file.write(columns[name].data)

    @property
    def n_parts(self) -> int:
        """Number of parts that are read at a time."""
        return -(-self.n_rows // self._part_rows)

    @property
    def _part_rows(self) -> int:
        solved = 0 if self.layout.known else 16 * self.layout.compared  # bytes, with zeros in other strata
        return max(1, _PART_BYTES // max(self.layout.row_bytes, solved))

    def _part(self, k: int) -> Columns:
        """One part of the rows, mapped anew each time: those read before take no memory."""
        first, last = k * self._part_rows, min((k + 1) * self._part_rows, self.n_rows)
        found: dict[str, NDArray[Any]] = {}
        for name, (kind, shape) in self.layout.kinds.items():
            offset = first * kind.itemsize * int(np.prod(shape))
            found[name] = np.memmap(
                self._path(name), kind, mode="r", offset=offset, shape=(last - first, *shape)
            )
        return found

    def blocks(self) -> Iterator[Columns]:
        """The arrays, one part of the rows after the other."""
        return map(self._part, range(self.n_parts))

    def partitions(self) -> ThreadedPartitions:
        """The rows as partitions of the solver."""
        layout = self.layout
        return ThreadedPartitions(
            lambda k: layout.part(self._part(k)),
            self.n_parts,
            layout.compared,
            known=layout.known,
            weighted=layout.weighted,
        )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.bin"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one sentence that there is no space."""
        try:
            yield
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise self._full(shutil.disk_usage(self.folder).free) from None
            raise

    def _full(self, free: int) -> InputError:
        return InputError(
            f"posteriors of {self.n_rows:,} rows take {readable_size(self.size)}, and {self.folder} has "
            f"{readable_size(free)} free: set the environment variable TMPDIR (on Windows TEMP) to another "
            "folder."
        )


def _extend(path: Path, size: int) -> None:
    """Make a file of a size, with its space on the disk taken where the system can."""
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate") and size:
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)


def spooled(posteriors: Any, weight: str | None) -> ThreadedPartitions:
    """Posteriors in a lazy table, copied to a temporary file that is removed when nothing refers to it.

    Parameters
    ----------
    posteriors : polars.LazyFrame, pyarrow.dataset.Dataset or BatchedTable
        Columns P(S=0, Y=0 | x), P(S=0, Y=1 | x), P(S=1, Y=0 | x), and so on.
    weight : str or None
        Column of sample weights.

    Returns
    -------
    ThreadedPartitions
    """
    table = BatchedTable.of(posteriors)
    if weight is not None:
        table.require(weight, "sample weights")
    columns = [name for name in table.names if name != weight]
    if len(columns) % 2:
        raise InputError(f"posteriors must have two columns for each group, got {len(columns)} columns.")
    n_rows = table.count_rows()
    if not n_rows:
        raise InputError("posteriors have no rows.")
    folder = tempfile.TemporaryDirectory(prefix="evenhand-")
    # Half of the size and of the time of a pass; an error of 3e-8 is far below any tolerance.
    layout = Layout(len(columns) // 2, weighted=weight is not None, kind=np.float32)
    file = PosteriorFile(Path(folder.name), n_rows, layout, owned=folder)
    file.reserve()
    first = 0
    for batch in table.batches(rows=max(1, _PART_BYTES // layout.row_bytes)):
        rows, weights = _numbers(batch, columns), None
        if weight is not None:
            [weights] = _numbers(batch, [weight]).astype(np.float64).T
        posteriors = DensePosteriors(rows.reshape(len(rows), -1, 2))
        file.write(first, layout.columns(posteriors, weights))
        first += len(rows)
    return file.partitions()


def _numbers(batch: Any, columns: list[str]) -> NDArray[Any]:
    frame = nw.from_native(batch, eager_only=True).select(columns)
    other = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    if other:
        raise InputError(
            f"posteriors and weights must be numbers, got column {other[0]!r} of type "
            f"{frame.schema[other[0]]}."
        )
    return np.asarray(frame.to_numpy())


def readable_size(size: int) -> str:
    """A number of bytes for a person.

    Examples
    --------
    >>> readable_size(3_200_000_000), readable_size(512)
    ('3.2 GB', '512 bytes')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
