"""Rows of a lazy table, read from its files a batch at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from evenhand.data import batched_table
from evenhand.data.batched_table import BatchedTable
from evenhand.data.features import columns_of
from evenhand.display.progress import note, track
from evenhand.exceptions import GroupError, InputError
from evenhand.groups.proxy import Proxy
from evenhand.sources.layout import Columns, Kept, Layout
from evenhand.sources.posterior_file import PosteriorFile, readable_size
from evenhand.sources.row_source import (
    Counts,
    Fill,
    Own,
    Place,
    Rows,
    RowSource,
    Scorer,
    check_roles,
    weight_column,
)

T = TypeVar("T")


class InFiles(RowSource):
    """A table in files.

    Parameters
    ----------
    X : polars.LazyFrame, pyarrow.dataset.Dataset or BatchedTable
    y : str
        Column of labels.
    where : str, list of str or Proxy
        Sensitive columns, as named in the constructor of a classifier.
    sample_weight : str, default=None
    controls : sequence of str, default=()
        Control features that a requirement names.
    n_jobs : int, default=None
        Number of batches that are scored side by side.
    verbose : bool, default=False
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        where: Any,
        sample_weight: Any = None,
        *,
        controls: Sequence[str] = (),
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.table = BatchedTable.of(X)
        self.target = self.table.require(y, "the label")
        self.weight = None if sample_weight is None else self.table.require(sample_weight, "sample weights")
        if where is None or callable(where):
            raise GroupError(
                "where X is a lazy table, name its sensitive columns in the constructor: "
                "sensitive_features=['sex', 'race']."
            )
        named = [where] if isinstance(where, str | int) else () if isinstance(where, Proxy) else where
        self.sensitive = tuple(self.table.require(name, "a sensitive feature") for name in named)
        check_roles(self.target, self.weight, self.sensitive)
        self.controls = tuple(
            self.table.require(name, "a control feature") for name in controls if name not in self.sensitive
        )
        self.label = f"y ({self.target!r})"
        self.n_jobs = n_jobs
        self.verbose = verbose

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        found = self.table.count_rows()
        if not found:
            raise InputError("X has no rows.")
        return found

    def counts(self) -> Counts:
        """All combinations of sensitive features, control features and labels."""
        values, rows = self.table.combinations([*self.sensitive, *self.controls, self.target])
        sensitive, controls = (
            {name: values[name] for name in names} for names in (self.sensitive, self.controls)
        )
        return Counts(sensitive, controls, values[self.target], rows)

    def map(self, function: Callable[..., T], *shared: Any, what: str) -> list[T]:
        """``function(rows, *shared)`` for one batch after the other."""
        return [function(rows, *shared) for rows in self._watched(what)]

    @contextmanager
    def store(self, layout: Layout) -> Iterator[Fill]:
        """Temporary files for the posteriors of all rows."""
        with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
            file = PosteriorFile(Path(folder), self.n_rows, layout)
            note(
                f"Posteriors of {self.n_rows:,} rows take {readable_size(file.size)} in {file.folder}.",
                verbose=self.verbose,
            )
            file.reserve()
            yield partial(self._fill, file)

    def _fill(self, file: PosteriorFile, score: Scorer, own: Own) -> Kept:
        """Score all batches, several side by side."""
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator", pre_dispatch="n_jobs")
        for place, columns in parallel(self._to_score(score, own)):
            file.write(place.first, columns)
        return file

    def _to_score(self, score: Scorer, own: Own) -> Iterator[Any]:
        for k, rows in enumerate(self._watched("scoring rows")):
            place = Place(k, int(rows.numbers[0]), len(rows))
            yield delayed(_scored)(score, rows, own(place), place)

    def _watched(self, what: str) -> Iterator[Rows]:
        total = -(-self.n_rows // batched_table.BATCH_ROWS)
        return iter(track(self._batches(), what=what, total=total, verbose=self.verbose))

    def _batches(self) -> Iterator[Rows]:
        features = [name for name in self.table.names if name not in (self.target, self.weight)]
        read = 0
        for batch in self.table.batches():
            frame = nw.from_native(batch, eager_only=True)
            X = frame.select(features).to_native()
            weights = None
            if self.weight is not None:
                weights = weight_column(frame.get_column(self.weight), read)
            numbers = np.arange(read, read + len(frame))
            read += len(frame)
            sensitive = columns_of(X, list(self.sensitive)) if self.sensitive else {}
            yield Rows(numbers, X, frame.get_column(self.target), sensitive, weights)
        if read != self.n_rows:
            raise InputError(f"X had {self.n_rows:,} rows when they were counted, and now has {read:,}.")


def _scored(score: Scorer, rows: Rows, own: Any, place: Place) -> tuple[Place, Columns]:
    return place, score(rows, own)
