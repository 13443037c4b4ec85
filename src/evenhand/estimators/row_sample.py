"""The rows that models learn from where a table is not in memory: counted, drawn, and held out.

Cells of group and label are counted in one pass. In another, rows are drawn by a hash of their number: the
same ones, whatever the batches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.batched_table import row_uniforms
from evenhand.data.columns import factorize
from evenhand.data.features import concat_rows
from evenhand.data.fingerprint import Fingerprint, sum_of
from evenhand.data.labels import read_labels
from evenhand.estimators.access import usable_features
from evenhand.estimators.imputed import groups_of_patterns
from evenhand.estimators.limits import read_actions
from evenhand.estimators.settings import Settings
from evenhand.estimators.training_data import (
    Counted,
    TrainingData,
    control_columns,
    count_in_strata,
    read_training_data,
)
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.groups.proxy import Proxy
from evenhand.groups.strata import read_strata
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import takes_weights
from evenhand.requirements.actions import on_actions
from evenhand.sources.row_source import Counts, Rows, RowSource

Floats = NDArray[np.float64]
CellCounts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountedTable:
    """Labels and groups of all rows of a table.

    Attributes
    ----------
    classes : array
        ``[negative, positive]``, or L > 2 labels in order.
    cells : array of int, shape (M + 1, L)
        Rows of each group and label; the last line has those whose group is not known.
    counted : Counted
        Groups and strata.
    """

    classes: NDArray[Any]
    cells: NDArray[np.int64]
    counted: Counted

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.cells.sum())

    def labels(self, y: Any) -> NDArray[np.intp]:
        """The numbers of some labels."""
        if not len(y):
            return np.empty(0, np.intp)
        levels, codes = factorize(y, what="y")
        order = self.classes.tolist()
        return np.array([*map(order.index, levels), 0], np.intp)[codes]

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        """Group of each row; -1 where it is not known."""
        groups = self.counted.groups
        if groups is None or not len(rows):
            return np.full(len(rows), -1, np.int32)
        return groups.encode(rows.sensitive)

    def cell_of(self, codes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
        """L m + y of rows, where m of an unknown group is M."""
        groups = np.where(codes < 0, len(self.cells) - 1, codes)
        return np.asarray(self.cells.shape[1] * groups + labels, np.intp)


def count_table(settings: Settings, source: RowSource) -> CountedTable:
    """Labels, groups and strata of all rows.

    Parameters
    ----------
    settings : Settings
    source : RowSource

    Returns
    -------
    CountedTable
    """
    counts = source.counts()
    several, positive = settings.classifier.takes_actions, settings.classifier.pos_label
    found = read_labels(
        counts.labels, pos_label=positive, what=source.label, counts=counts.rows, several=several
    )
    labels, n_labels = found.codes, len(found.classes)
    strata, stratum_codes = None, None
    if counts.controls:
        strata, stratum_codes = read_strata(counts.controls, counts.rows)
        strata = replace(strata, unseen=settings.groups.unseen)
    if isinstance(settings.classifier.sensitive_features, Proxy):
        cells = np.bincount(labels, counts.rows, n_labels).astype(np.int64)[None]
        return CountedTable(found.classes, cells, Counted(None, None, strata, None, None))
    groups, codes = Groups.fit(counts.sensitive, **settings.policies, row_counts=counts.rows)
    control_columns(settings, groups)  # refuses sensitive ones that decisions may not use
    compared, in_cells = count_in_strata(
        groups, codes, strata, stratum_codes, labels=labels, n_labels=n_labels, rows=counts.rows
    )
    actions = read_actions(settings, found.classes.tolist(), None)
    asked = settings.constraint if actions is None else on_actions(settings.constraint, actions)
    asked.check(compared)
    cells = np.zeros((len(groups) + 1, n_labels), np.int64)
    np.add.at(cells, (np.where(codes < 0, len(groups), codes), labels), counts.rows)
    known = _known_groups(settings, groups, counts)
    return CountedTable(found.classes, cells, Counted(groups, known, strata, compared, in_cells))


def _known_groups(settings: Settings, groups: Groups, counts: Counts) -> Groups | None:
    """Combinations of the features that may be used, of which a sample need not have all."""
    usable = usable_features(settings.classifier.aware, groups.features)
    if not usable or (usable == groups.features and groups.missing != "impute"):
        return None
    if groups.missing == "impute":
        return groups_of_patterns(groups, counts.sensitive, usable)
    columns = {name: counts.sensitive[name] for name in usable}
    return Groups.fit(columns, missing=groups.missing, unseen=groups.unseen, row_counts=counts.rows)[0]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a table that is not in memory as a whole.

    Attributes
    ----------
    data : TrainingData
        Rows to learn from, as of a table in memory, with weights that make up for the rates of the draw.
    rows : array of int
        Their numbers in the whole table; not of those that are in no group and only teach the label.
    held_out : Examples or None
        Rows that nothing is learned from, for a guarantee.
    table : CountedTable
    draw : Draw
    """

    data: TrainingData
    rows: NDArray[np.intp]
    held_out: Examples | None
    table: CountedTable
    draw: Draw

    @property
    def weights(self) -> Floats:
        """How much each row to learn from counts in risk and requirement, to stand for all rows."""
        stands_for, own = _stands_for(self.table, self.data.examples), self.data.weights
        return stands_for if own is None else stands_for * own


@dataclass(frozen=True, eq=False)
class Draw:
    """Which rows are drawn: those with the smallest hashes of their cell, in whatever batch they are.

    Attributes
    ----------
    sizes : array of int, shape (M + 1, L)
        How many rows of each cell.
    rates : array, shape (M + 1, L)
        Share of the rows of each cell that may be among them.
    weighted : bool
        Whether drawn rows get weights that make up for different rates.
    seed : int
    reserve : float, default=0.0
        Share of the rows that are held out.
    tested : float, default=0.0
        Share of the rows that are held out and drawn.
    """

    sizes: NDArray[np.int64]
    rates: Floats
    weighted: bool
    seed: int
    reserve: float = 0.0
    tested: float = 0.0

    def is_held_out(self, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether rows are held out, by their numbers."""
        return row_uniforms(numbers, self.seed + 1) < self.reserve


def draw_sample(settings: Settings, source: RowSource, table: CountedTable, seed: int) -> Sample:
    """Draw the rows to learn from; small cells are kept whole.

    Parameters
    ----------
    settings : Settings
        Its `max_samples` is the largest number of rows; ``n_features_in_`` and ``feature_names_in_`` are set
        on its recorder.
    source : RowSource
    table : CountedTable
    seed : int

    Returns
    -------
    Sample
    """
    draw = _plan(settings, table, seed)
    drawn = source.map(_candidates, table, draw, what="drawing rows to learn from")
    parts, tested, digests = zip(*drawn, strict=True)
    numbers, data = _joined(settings, table, draw, parts)
    held_out = None
    if any(map(len, tested)):  # with the groups of the whole table
        held_out = read_parts(settings, tested, counted=table.counted).examples
    data = replace(data, fingerprint=sum_of(digests))
    return Sample(data, numbers, held_out, table, draw)


def joined_examples(
    settings: Settings, table: CountedTable, draw: Draw, drawn: Sequence[tuple[Rows, Rows, Any]]
) -> Examples:
    """The examples to learn from, out of what was drawn from each batch."""
    return _joined(settings, table, draw, [part for part, _, _ in drawn])[1].examples


def _plan(settings: Settings, table: CountedTable, seed: int) -> Draw:
    """How many rows of each cell to draw."""
    most, cells = settings.posteriors.max_samples, table.cells
    reserve = tested = 0.0
    if settings.confidence is not None:
        reserve = float(settings.reserve)
        tested = min(reserve, most / table.n_rows)
        cells = np.ceil(cells * (1 - reserve)).astype(np.int64)
    weighted = all(takes_weights(learner) for learner in settings.learners)
    sizes = sample_sizes(cells, most, equal=not weighted)
    rates = candidate_rates(cells, sizes) if not reserve else candidate_rates(cells + 1, sizes)
    return Draw(sizes, rates, weighted, seed, reserve, tested)


def _candidates(rows: Rows, table: CountedTable, draw: Draw) -> tuple[Rows, Rows, Fingerprint]:
    """Rows of a batch that may be learned from, few more than will be; those to test on; a digest of all."""
    labels, codes = table.labels(rows.y), table.codes(rows)
    first = int(rows.numbers[0]) if len(rows) else 0
    digest = Fingerprint.of(rows.X, labels, codes, rows.weights, first=first)
    held_out = draw.is_held_out(rows.numbers)
    rates = draw.rates.ravel()[table.cell_of(codes, labels)]
    learned = ~held_out & (row_uniforms(rows.numbers, draw.seed) < rates)
    tested = held_out & (row_uniforms(rows.numbers, draw.seed + 1) < draw.tested) & (codes >= 0)
    return rows.take(np.flatnonzero(learned)), rows.take(np.flatnonzero(tested)), digest


def _joined(
    settings: Settings, table: CountedTable, draw: Draw, candidates: Sequence[Rows]
) -> tuple[NDArray[np.intp], TrainingData]:
    """The drawn rows of all batches: their numbers, and as training data."""
    parts = [part for part in candidates if len(part)]
    numbers = np.concatenate([part.numbers for part in parts])
    cells = np.concatenate([table.cell_of(table.codes(part), table.labels(part.y)) for part in parts])
    drawn = drawn_rows(row_uniforms(numbers, draw.seed), cells, draw.sizes)
    firsts = np.cumsum([0, *map(len, parts)])
    cuts = np.searchsorted(drawn, firsts)
    own = [drawn[a:b] - first for a, b, first in zip(cuts, cuts[1:], firsts, strict=False)]
    kept = [part.take(rows) for part, rows in zip(parts, own, strict=True)]
    data = read_parts(settings, kept, counted=table.counted)
    numbers, inside = numbers[drawn], cells[drawn] < table.cells[:-1].size
    if data.groups.excluded:
        numbers = numbers[inside]
    if draw.weighted:
        examples = data.examples
        factor = _stands_for(table, examples)
        weights = factor if examples.weights is None else factor * examples.weights
        data = replace(data, examples=replace(examples, weights=weights / weights.mean()))
    return numbers, data


def read_parts(settings: Settings, parts: Sequence[Rows], **how: Any) -> TrainingData:
    """Rows of several batches as training data, `how` as :func:`read_training_data` takes it."""
    parts = [part for part in parts if len(part)]
    X, y = concat_rows([part.X for part in parts]), concat_rows([part.y for part in parts])
    weights = [part.weights for part in parts if part.weights is not None]
    separate = None  # columns of X, if the constructor names them
    if settings.classifier.sensitive_features is None:
        names = parts[0].sensitive
        separate = {name: concat_rows([part.sensitive[name] for part in parts]) for name in names}
    given = np.concatenate(weights) if weights else None
    return read_training_data(settings, X, y, separate, given, **how)


def _stands_for(table: CountedTable, drawn: Examples) -> Floats:
    """For how many rows of its cell each drawn row stands."""
    cells = table.cell_of(drawn.codes, drawn.labels)
    sizes = np.bincount(cells, minlength=table.cells.size)
    return np.asarray((table.cells.ravel() / np.maximum(sizes, 1))[cells])


def sample_sizes(counts: CellCounts, max_samples: int | None, *, equal: bool = False) -> CellCounts:
    """How many rows of each cell to learn from.

    Small cells are kept whole, and a cell has at least half of an even share of the sample, because few rows
    would otherwise tell of a small group. The rest is drawn in proportion. A drawn row then stands for as
    many as its cell has rows for each drawn one.

    Parameters
    ----------
    counts : array of int, shape (M, L)
        Rows of each cell.
    max_samples : int or None
        Largest number of rows; None is all.
    equal : bool, default=False
        Whether all cells are drawn from at the same rate, for learners that take no weights.

    Returns
    -------
    array of int, shape (M, L)

    Examples
    --------
    >>> import numpy as np
    >>> sample_sizes(np.array([[1000, 10], [8000, 990]]), 1000)
    array([[125,  10],
           [740, 125]])
    """
    cells = int(np.count_nonzero(counts))
    if max_samples is None or counts.sum() <= max_samples:
        return counts.copy()
    if max_samples < 2 * cells:
        raise InputError(
            f"max_samples={max_samples:,} is too few for {cells:,} combinations of group and label: at least "
            f"{2 * cells:,} are needed, and some hundred for each are better."
        )
    at_least = np.minimum(counts, 1 if equal else max_samples // (2 * cells))

    def sizes(rate: float) -> CellCounts:
        return np.asarray(np.maximum(at_least, np.floor(rate * counts).astype(np.int64)))

    low, high = 0.0, 1.0
    for _ in range(60):  # the number of rows grows with the common rate
        rate = (low + high) / 2
        low, high = (rate, high) if sizes(rate).sum() <= max_samples else (low, rate)
    return sizes(low)


def candidate_rates(counts: CellCounts, sizes: CellCounts) -> Floats:
    """Share of the rows of each cell that may be drawn; the others need not be kept until the end.

    Rows are drawn by the smallest uniform numbers of their cell. Six standard deviations and twenty rows more
    than are wanted leave too few in one of 10^9 tables.
    """
    wanted = sizes + 6.0 * np.sqrt(sizes) + 20.0
    return np.where(sizes == counts, 1.0, np.minimum(1.0, wanted / np.maximum(counts, 1)))


def drawn_rows(uniforms: Floats, cells: NDArray[np.intp], sizes: CellCounts) -> NDArray[np.intp]:
    """Positions of the rows with the smallest uniform numbers of each cell, in order.

    Parameters
    ----------
    uniforms : array, shape (n,)
    cells : array of int, shape (n,)
    sizes : array of int
        How many to draw of each cell.

    Returns
    -------
    array of int

    Examples
    --------
    >>> import numpy as np
    >>> drawn_rows(np.array([0.3, 0.1, 0.2, 0.9]), np.array([0, 0, 0, 1]), np.array([2, 1]))
    array([1, 2, 3])
    """
    order = np.lexsort((uniforms, cells))
    starts = np.searchsorted(cells[order], np.arange(sizes.size))
    rank = np.arange(len(order)) - starts[cells[order]]
    return np.sort(order[rank < sizes.ravel()[cells[order]]])
