"""A fit to a file that is larger than memory: read in batches, tested on rows that were held out."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.cli.memory import SHARE, available_memory, memory_of
from evenhand.cli.options import Batches, Learning
from evenhand.cli.output import print_note
from evenhand.cli.rows import SPLIT_SEED, Fitted, distinct_values, large_table, refuse_other_labels
from evenhand.display.progress import track
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.inputs.batched_table import BatchedTable

__all__ = ["fit_in_batches", "is_read_in_batches"]

_REPORTED = 100_000
"""Test rows that a report shows calibration on, at most."""
_FIRST_ROWS = 10_000
"""Rows by which columns that identify rows are found."""


def is_read_in_batches(table: Path, batches: Batches) -> bool:
    """Whether a file is read in batches: as an option says, or because it is large, which is then noted."""
    if batches.in_batches is not None:
        return batches.in_batches
    available = available_memory()
    if available is None:
        return False
    needed = memory_of(table)
    if needed <= SHARE * available:
        return False
    from evenhand.sources.posterior_file import readable_size  # noqa: PLC0415  (start-up time)

    print_note(
        f"evenhand: {table.name} takes about {readable_size(needed)} in memory, and "
        f"{readable_size(available)} are available: it is read in batches, and models learn from at most "
        f"{batches.max_samples:,} rows."
    )
    return True


def fit_in_batches(
    table: Path,
    learning: Learning,
    batches: Batches,
    codes: Sequence[str],
    *,
    constraint: Any,
    **settings: Any,
) -> Fitted:
    """Fit a model to a file, and audit it on held-out rows.

    Parameters
    ----------
    table : Path
    learning : Learning
    batches : Batches
    codes : sequence of str
        Columns that are read as text.
    constraint : Constraint
    **settings : object
        Of the classifier: aware, missing.

    Returns
    -------
    Fitted
    """
    from evenhand.cli import files  # noqa: PLC0415  (start-up time)

    key = [] if learning.id is None else [learning.id]
    left_out = [name for name in learning.left_out(table) if name not in key]
    labels = _labels(table, learning.target)
    if learning.test is None:
        train, test = large_table(table, left_out, codes).split(learning.share, SPLIT_SEED)
    else:
        refuse_other_labels(table, labels, learning.test, _labels(learning.test, learning.target))
        train = large_table(table, left_out, codes)
        test = large_table(learning.test, [], codes).select(train.names)
    features = [name for name in train.names if name not in (learning.target, *key)]
    first = files.read_first(table, _FIRST_ROWS, codes).select(features)
    for note in learning.notes(table, first, "rows at the start"):
        print_note(f"evenhand: {note}")
    model: Any = learning.classifier(first, labels, constraint=constraint, **settings)
    model.set_params(posteriors__max_samples=batches.max_samples)
    scratch = {} if batches.scratch is None else {"scratch": batches.scratch}
    model.fit(train.select([*features, learning.target]), learning.target, **scratch)
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        decided = Path(folder) / "decisions.parquet"
        rows_of_file = files.count_rows(learning.test or table)
        tested = _Tested(model, features, learning.target, learning.id, rows_of_file)
        files.write_pieces(decided, tested.decide(test))
        found = eh.audit(
            learning.target,
            tested.decision,
            model.sensitive_features,
            data=files.scan(decided),
            constraint=constraint,
            pos_label=model.pos_label_,
            missing=model.settings().missing,
            min_size=math.ceil(learning.min_group_size * tested.rows / model.fitted_to_.rows),
        )
    rows = model.fitted_to_.rows + (tested.rows if learning.test is None else 0)
    source = learning.source(table, rows=rows, in_batches=True)
    return Fitted(model, found, tested.constant, tested.sample(), source)


@dataclass(eq=False)
class _Tested:
    """Decisions for the test rows, and what is kept of them in memory."""

    model: Any
    features: list[str]
    target: str
    key: str | None
    rows_of_file: int
    rows: int = 0
    seen: set[Any] = field(default_factory=set)
    kept: list[Any] = field(default_factory=list)

    @property
    def decision(self) -> str:
        """Name of the column of decisions."""
        name = "decision"
        while name == self.target or name in self.model.sensitive_features:
            name += "_"
        return name

    def decide(self, test: BatchedTable) -> Iterator[Any]:
        """Label, sensitive features and decision of each row, batch by batch."""
        import numpy as np  # noqa: PLC0415  (start-up time)
        import polars as pl  # noqa: PLC0415

        from evenhand.inputs import batched_table  # noqa: PLC0415

        kind = pl.Series(self.model.classes_.tolist()).dtype
        total = -(-self.rows_of_file // batched_table.BATCH_ROWS)
        share = 1.0 if test.share is None else test.share[1] - test.share[0]
        rate = _REPORTED / max(1.0, share * self.rows_of_file)
        for batch in track(test.batches(), what="deciding test rows", total=total, verbose=True):
            ids = None if self.key is None else batch.get_column(self.key)
            decisions = self.model.predict(batch.select(self.features), ids=ids)
            self.seen.update(np.unique(decisions).tolist())
            numbers = np.arange(self.rows, self.rows + len(batch))
            drawn = np.flatnonzero(batched_table.row_uniforms(numbers, 1) < rate)
            self.kept.append(batch[drawn].select(*self.features, self.target))
            self.rows += len(batch)
            column = pl.Series(self.decision, decisions.tolist(), dtype=kind)
            yield batch.select(self.target, *self.model.sensitive_features).with_columns(column)
        if not self.rows:
            raise InputError("no rows are left to test on: choose a larger --test-share.")

    @property
    def constant(self) -> Any:
        """The decision for all rows, if it is the same."""
        return next(iter(self.seen)) if len(self.seen) == 1 else None

    def sample(self) -> tuple[Any, Any]:
        """Some of the rows, and their labels."""
        import polars as pl  # noqa: PLC0415  (start-up time)

        drawn = pl.concat(self.kept)
        return drawn.select(self.features), drawn.get_column(self.target)


def _labels(path: Path, target: str) -> Any:
    """The distinct labels of a file."""
    from evenhand.cli import files  # noqa: PLC0415  (start-up time)

    with files.reading(path):
        return distinct_values(files.scan(path), target)
