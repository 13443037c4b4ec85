"""Stages of a fit to a table that is read in batches: count, draw, learn, score.

Models learn from a sample of the rows. Every row is then scored, and the rule is found on all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from evenhand.display.progress import note, track
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors
from evenhand.estimators.posterior_file import PosteriorFile, opened, readable_size
from evenhand.estimators.training_data import TrainingData, read_training_data
from evenhand.exceptions import GroupError, InputError
from evenhand.fairness.groups import Groups
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.batched_table import BATCH_ROWS, BatchedTable, row_uniforms
from evenhand.inputs.columns import factorize
from evenhand.inputs.features import columns_of, read_features, take_rows
from evenhand.inputs.fingerprint import Fingerprint, FingerprintOfBatches
from evenhand.inputs.labels import read_labels
from evenhand.posteriors.learner import takes_weights
from evenhand.posteriors.sampling import sampling_rates

__all__ = ["Batch", "LargeTable", "Sample", "Scored", "draw_sample", "read_large_table", "score_rows"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some consecutive rows of a large table.

    Attributes
    ----------
    first : int
        Number of the first row.
    X : table
        The features, with the sensitive columns.
    y : narwhals.Series
    positive, codes : arrays
        Label and group of each row.
    weights : array or None
    """

    first: int
    X: Any
    y: nw.Series[Any]
    positive: NDArray[np.bool_]
    codes: NDArray[np.int32]
    weights: Floats | None


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A table in files, of which labels and groups have been counted.

    Attributes
    ----------
    table : BatchedTable
    target : str
    weight : str or None
        Column of sample weights.
    sensitive : tuple of str
    groups : Groups
    classes : array of two values
        ``[negative, positive]``.
    counts : array of int, shape (M, 2)
        Rows of each cell.
    """

    table: BatchedTable
    target: str
    weight: str | None
    sensitive: tuple[str, ...]
    groups: Groups
    classes: NDArray[Any]
    counts: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def n_batches(self) -> int:
        """About how many batches there are, for a progress bar."""
        return -(-self.n_rows // BATCH_ROWS)

    def batches(self) -> Iterator[Batch]:
        """All rows, with their labels and groups."""
        features = [name for name in self.table.names if name not in (self.target, self.weight)]
        first = 0
        for rows in self.table.batches():
            frame = nw.from_native(rows, eager_only=True)
            levels, codes = factorize(frame.get_column(self.target), what=f"y ({self.target!r})")
            positive = np.array([*(level == self.classes[1] for level in levels), False], np.bool_)[codes]
            X = frame.select(features).to_native()
            groups = self.groups.encode(columns_of(X, list(self.sensitive)))
            weights = None if self.weight is None else _weights(frame.get_column(self.weight), first)
            yield Batch(first, X, frame.get_column(self.target), positive, groups, weights)
            first += len(positive)
        if first != self.n_rows:
            raise InputError(f"X had {self.n_rows:,} rows when they were counted, and now has {first:,}.")


def read_large_table(
    classifier: FairClassifier, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> LargeTable:
    """Read the schema of a lazy table, and count labels and groups.

    Parameters
    ----------
    classifier : FairClassifier
    X : polars.LazyFrame, pyarrow.dataset.Dataset or BatchedTable
    y, sample_weight : str
        Names of columns.
    sensitive_features : None
        They are named in the constructor.

    Returns
    -------
    LargeTable
    """
    classifier.check_settings()
    if classifier.confidence is not None:
        raise InputError(
            "confidence= needs a table in memory, of which rows are reserved: leave it out, or collect the "
            "table."
        )
    table = BatchedTable.of(X)
    target = table.require(y, "the label")
    weight = None if sample_weight is None else table.require(sample_weight, "sample weights")
    sensitive = _sensitive_columns(classifier, table, sensitive_features)
    for name in (target, *([] if weight is None else [weight])):
        if name in sensitive or (name == weight and name == target):
            raise InputError(f"column {name!r} has two roles: it is the label, a weight or sensitive.")
    values, rows = table.combinations([*sensitive, target])
    labels = read_labels(
        _column(values[target]), pos_label=classifier.pos_label, what=f"y ({target!r})", counts=rows
    )
    groups, codes = Groups.fit(
        {name: _column(values[name]) for name in sensitive},
        missing=classifier.missing,
        unseen=classifier.unseen,
        min_size=classifier.min_group_size,
        single_features=any(notion.groups == "independent" for notion in classifier.constraint.notions),
        row_counts=rows,
    )
    classifier.constraint.check(groups)
    counts = np.zeros((len(groups), 2), np.int64)
    np.add.at(counts, (codes, labels.positive.astype(np.intp)), rows)
    return LargeTable(table, target, weight, sensitive, groups, labels.classes, counts)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to learn from.

    Attributes
    ----------
    data : TrainingData
        As of a table in memory, with weights that make up for the rates of the draw.
    rows : array of int
        Their numbers in the whole table.
    """

    data: TrainingData
    rows: NDArray[np.intp]


def draw_sample(
    classifier: FairClassifier, large: LargeTable, seed: int, *, most: int | None = None
) -> Sample:
    """Draw the rows to learn from; small cells are kept whole.

    Parameters
    ----------
    classifier : FairClassifier
        Its `learn_rows` is the largest number of rows.
    large : LargeTable
    seed : int
    most : int, default=None
        The largest number of rows, in place of `learn_rows`.

    Returns
    -------
    Sample
    """
    most = classifier.learn_rows if most is None else most
    equal = not all(takes_weights(learner) for learner in classifier.posterior_learners)
    rates = sampling_rates(large.counts, most, equal=equal)
    tables, labels, codes, numbers = [], [], [], []
    weights: list[Floats] = []
    watched = track(
        large.batches(), what="drawing rows to learn from", total=large.n_batches, verbose=classifier.verbose
    )
    for batch in watched:
        own = rates[batch.codes, batch.positive.astype(np.intp)]
        number = np.arange(batch.first, batch.first + len(own))
        drawn = np.flatnonzero(row_uniforms(number, seed) < own)
        if len(drawn):
            tables.append(take_rows(batch.X, drawn))
            labels.append(batch.y[drawn])
            codes.append(2 * batch.codes[drawn] + batch.positive[drawn])
            if batch.weights is not None:
                weights.append(batch.weights[drawn])
            numbers.append(number[drawn])
    X = nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()
    y = nw.concat([series.to_frame() for series in labels]).get_column(large.target).to_native()
    given = np.concatenate(weights) if weights else None
    data = read_training_data(classifier, X, y, None, given, groups=large.groups)
    cells = np.concatenate(codes)
    kept = np.bincount(cells, minlength=large.counts.size)
    factor = (large.counts.ravel() / np.maximum(kept, 1))[cells]
    if np.ptp(factor) > 1e-9 * factor.max() and not equal:
        examples = data.examples
        own = factor if examples.weights is None else factor * examples.weights
        data = replace(data, examples=replace(examples, weights=own / own.mean()))
    return Sample(data, np.concatenate(numbers))


@dataclass(frozen=True, eq=False)
class Scored:
    """Posteriors of all rows.

    Attributes
    ----------
    file : PosteriorFile
    fingerprint : Fingerprint
        Of all rows.
    """

    file: PosteriorFile
    fingerprint: Fingerprint


@contextmanager
def score_rows(
    classifier: FairClassifier,
    large: LargeTable,
    sample: Sample,
    learned: LearnedPosteriors,
    scratch: Path | None,
    *,
    by: Callable[[Batch], NDArray[Any] | GroupedScores] | None = None,
) -> Iterator[Scored]:
    """Posteriors of all rows in temporary files: out of fold for the sample, by the model for the others.

    Parameters
    ----------
    classifier : FairClassifier
    large : LargeTable
    sample : Sample
    learned : LearnedPosteriors
        From the sample.
    scratch : Path or None
        Folder for the files, from which an interrupted run goes on; None is a temporary one.
    by : function, default=None
        Posteriors of a batch, where those of all rows are out of fold.

    Yields
    ------
    Scored
    """
    known = sample.data.access.knows(large.groups)
    weighted = large.weight is not None and classifier.weights != "fit"
    with opened(scratch, large.n_rows, len(large.groups), known=known, weighted=weighted) as file:
        note(
            f"Posteriors of {large.n_rows:,} rows take {readable_size(file.size)} in {file.folder}.",
            verbose=classifier.verbose,
        )
        task = {"fit": _task(classifier, large), "model": _digest(learned.out_of_fold)}
        done = _finished_batches(file, task, scratch)
        file.reserve()
        whole = FingerprintOfBatches()
        score = _Score(classifier, large.groups, sample, learned) if by is None else by
        chain: list[str] = []
        watched = track(
            large.batches(), what="scoring rows", total=large.n_batches, verbose=classifier.verbose
        )
        for k, batch in enumerate(watched):
            whole.add(batch.X, batch.positive, batch.codes, batch.weights)
            chain.append(whole.so_far())
            if k < len(done):
                if done[k] != chain[k]:
                    last = batch.first + len(batch.codes) - 1
                    raise InputError(
                        f"rows {batch.first:,} to {last:,} have changed since the fit that left its files in "
                        f"{scratch}: remove the folder, or choose another one."
                    )
                continue
            file.write(batch.first, score(batch), batch.weights if weighted else None)
            if scratch is not None:
                file.write_state({**task, "batches": chain})
        yield Scored(file, whole.whole())


@dataclass(frozen=True, eq=False)
class _Score:
    """Posteriors of a batch: out of fold for rows of the sample, by the model for the others."""

    classifier: FairClassifier
    groups: Groups
    sample: Sample
    learned: LearnedPosteriors

    def __call__(self, batch: Batch) -> NDArray[Any] | GroupedScores:
        access, groups, n = self.sample.data.access, self.groups, len(batch.codes)
        numbers = self.sample.rows[self.learned.rows]
        first, last = np.searchsorted(numbers, (batch.first, batch.first + n))
        places = numbers[first:last] - batch.first
        others = np.delete(np.arange(n), places)
        known = access.knows(groups)
        cells = np.zeros((n, 1 if known else len(groups), 2))
        if len(others):
            X = batch.X if len(others) == n else take_rows(batch.X, others)
            X = read_features(self.classifier, X, reset=False)
            visible = access.view(X, columns_of(X, list(groups.features)))
            cells[others] = self.learned.model.cells(visible.X, access.allowed(groups, visible.known))
        own = self.learned.out_of_fold
        if isinstance(own, GroupedScores):
            eta = own.eta[first:last]
            cells[places, 0] = np.column_stack([1 - eta, eta])
        else:
            cells[places] = own[first:last]
        return as_posteriors(cells, batch.codes, groups, known=known)


def _task(classifier: FairClassifier, large: LargeTable) -> str:
    """Digest of what determines posteriors: parameters, and the table as far as it was counted."""
    params = {name: repr(value) for name, value in clone(classifier).get_params().items()}
    for name in ("n_jobs", "verbose", "tol"):
        params.pop(name, None)
    counted = (large.table.names, large.target, large.weight, large.groups.keys, large.counts.tolist())
    return hashlib.sha256(repr((sorted(params.items()), counted)).encode()).hexdigest()


def _digest(posteriors: NDArray[Any] | GroupedScores) -> str:
    array = posteriors.eta if isinstance(posteriors, GroupedScores) else posteriors
    return hashlib.sha256(np.round(array, 6).tobytes()).hexdigest()


def _finished_batches(file: PosteriorFile, task: dict[str, str], scratch: Path | None) -> Sequence[str]:
    """Digests of the batches that an earlier run has scored."""
    state = None if scratch is None else file.read_state()
    if state is None:
        return ()
    if state.get("fit") != task["fit"]:
        raise InputError(
            f"{scratch} holds an unfinished fit of other data or with other parameters: remove the folder, "
            "or choose another one."
        )
    if state.get("model") != task["model"]:  # learned on another machine: its posteriors are another model's
        return ()
    batches = state.get("batches")
    return batches if isinstance(batches, list) else ()


def _sensitive_columns(
    classifier: FairClassifier, table: BatchedTable, sensitive_features: Any
) -> tuple[str, ...]:
    where = classifier.sensitive_features
    if where is None or sensitive_features is not None or callable(where):
        raise GroupError(
            "where X is a lazy table, name its sensitive columns in the constructor: "
            "sensitive_features=['sex', 'race']."
        )
    named = [where] if isinstance(where, str | int) else list(where)
    return tuple(table.require(name, "a sensitive feature") for name in named)


def _column(values: list[Any]) -> NDArray[Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _weights(column: nw.Series[Any], first: int) -> Floats:
    if not column.dtype.is_numeric() and column.dtype != nw.Boolean:
        raise InputError("sample_weight should be numbers without missing values.")
    weights = column.cast(nw.Float64).to_numpy().astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise InputError(
            f"sample_weight is negative, NaN or infinite in {len(bad):,} rows, the first of them row "
            f"{first + int(bad[0]):,} (counted from 0)."
        )
    return weights
