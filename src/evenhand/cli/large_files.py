"""Rows of a file that may be larger than memory: read in batches, decided and kept for the audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.cli.memory import SHARE, available_memory, memory_of
from evenhand.cli.options import Batches, Learning
from evenhand.cli.output import print_note
from evenhand.cli.table_rows import (
    SPLIT_SEED,
    FitRows,
    Part,
    distinct_values,
    large_table,
    refuse_other_labels,
)
from evenhand.display.progress import track
from evenhand.exceptions import InputError

__all__ = ["Tested", "is_read_in_batches", "rows_in_batches"]

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


def rows_in_batches(table: Path, learning: Learning, codes: Sequence[str]) -> FitRows:
    """The rows of a file that is read in batches; `codes` are read as text."""
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time
    from evenhand.data import batched_table  # noqa: PLC0415

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
    rows_of_file = table_files.count_rows(learning.test or table)
    pieces = track(
        test.batches(),
        what="deciding test rows",
        total=-(-rows_of_file // batched_table.BATCH_ROWS),
        verbose=True,
    )
    return FitRows(
        (train.select([*features, learning.target]), learning.target),
        (learning.part(piece) for piece in pieces),
        first=table_files.read_first(table, _FIRST_ROWS, codes).select(features),
        labels=labels,
        reported=_REPORTED / max(1.0, (learning.share if learning.test is None else 1.0) * rows_of_file),
    )


@dataclass(eq=False)
class Tested:
    """Decisions for the test rows, and what is kept of them in memory.

    `reported` is the share of the rows that is kept for the report.
    """

    model: Any
    target: str
    reported: float
    rows: int = 0
    kept: list[Part] = field(default_factory=list)

    @property
    def groups(self) -> list[str]:
        """Columns that the audit needs: sensitive features and control features."""
        strata = self.model.strata_.features if self.model.strata_ else ()
        return list(dict.fromkeys([*self.model.sensitive_features, *strata]))

    def column(self, name: str) -> str:
        """A name that no other column has."""
        while name == self.target or name in self.groups:
            name += "_"
        return name

    def decide(self, parts: Iterable[Part]) -> Iterator[Any]:
        """Label, groups and decision of each row, and what it would be without the requirement, if needed."""
        import numpy as np  # noqa: PLC0415  (start-up time)
        import polars as pl  # noqa: PLC0415

        from evenhand.data.batched_table import row_uniforms  # noqa: PLC0415

        kind = pl.Series(self.model.classes_.tolist()).dtype
        for part in parts:
            decided = {"decision": self.model.predict(part.X, ids=part.ids)}
            if self.compares:
                decided["before"] = self._without_requirement(part.X)
            numbers = np.arange(self.rows, self.rows + len(part.y))
            drawn = np.flatnonzero(row_uniforms(numbers, 1) < self.reported)
            self.kept.append(Part(part.X[drawn], part.y[drawn]))
            self.rows += len(part.y)
            columns = [pl.Series(self.column(name), v.tolist(), dtype=kind) for name, v in decided.items()]
            yield part.X.select(self.groups).with_columns(part.y.alias(self.target), *columns)
        if not self.rows:
            raise InputError("no rows are left to test on: choose a larger --test-share.")

    @property
    def compares(self) -> bool:
        """Whether the requirement says that no group may be worse off than without it."""
        from evenhand.requirements.bounds import NoWorse  # noqa: PLC0415  (start-up time)

        return any(isinstance(part, NoWorse) for part in self.model.constraint.bounds)

    def _without_requirement(self, X: Any) -> Any:
        """What would be decided without the requirement."""
        if not hasattr(self.model, "predict_label_proba"):
            raise InputError("--no-worse needs --method post.")
        positive = self.model.classes_.tolist().index(self.model.pos_label_)
        likely = self.model.predict_label_proba(X) > 0.5
        return self.model.classes_[[positive if one else 1 - positive for one in likely]]

    def sample(self) -> tuple[Any, Any]:
        """Some of the rows, and their labels."""
        import polars as pl  # noqa: PLC0415  (start-up time)

        return pl.concat([part.X for part in self.kept]), pl.concat([part.y for part in self.kept])


def _labels(path: Path, target: str) -> Any:
    """The distinct labels of a file."""
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time

    with table_files.reading(path):
        return distinct_values(table_files.scan(path), target)
