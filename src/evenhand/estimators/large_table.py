"""Stages of a fit to a table that is read in batches: count, draw, learn, score.

Models learn from a sample of the rows. Every row is then scored, and the rule is found on all of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.display.progress import note, track
from evenhand.estimators.access import usable_features
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors
from evenhand.estimators.training_data import TrainingData, read_training_data
from evenhand.exceptions import GroupError, InputError
from evenhand.fairness.groups import Groups
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs import batched_table
from evenhand.inputs.batched_table import BatchedTable, row_uniforms
from evenhand.inputs.columns import factorize
from evenhand.inputs.features import columns_of, naming_bad_rows, read_features, take_rows
from evenhand.inputs.fingerprint import Fingerprint, FingerprintOfBatches
from evenhand.inputs.labels import read_labels
from evenhand.optimum.posterior_file import PosteriorFile, opened, readable_size
from evenhand.posteriors.learner import takes_weights
from evenhand.posteriors.sampling import candidate_rates, drawn_rows, sample_sizes

__all__ = [
    "SAMPLE_ROWS",
    "Batch",
    "LargeTable",
    "Sample",
    "Score",
    "draw_sample",
    "file_for_posteriors",
    "read_large_table",
    "score_rows",
]

Floats = NDArray[np.float64]

SAMPLE_ROWS = 1_000_000
"""Rows that are drawn where models learn from all: they are calibrated on, which needs no more of them."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a large table.

    Attributes
    ----------
    numbers : array of int
        Of the rows in the whole table.
    X : table
        The features, with the sensitive columns.
    y : narwhals.Series
    positive, codes : arrays
        Label and group of each row.
    weights : array or None
    """

    numbers: NDArray[np.intp]
    X: Any
    y: nw.Series[Any]
    positive: NDArray[np.bool_]
    codes: NDArray[np.int32]
    weights: Floats | None

    def take(self, rows: NDArray[np.intp]) -> Batch:
        """Some of its rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Batch(
            self.numbers[rows],
            take_rows(self.X, rows),
            self.y[rows],
            self.positive[rows],
            self.codes[rows],
            weights,
        )


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
    known : Groups or None
        Where some of the sensitive features may be used, their combinations.
    """

    table: BatchedTable
    target: str
    weight: str | None
    sensitive: tuple[str, ...]
    groups: Groups
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    known: Groups | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def n_batches(self) -> int:
        """About how many batches there are, for a progress bar."""
        return -(-self.n_rows // batched_table.BATCH_ROWS)

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
            numbers = np.arange(first, first + len(positive))
            yield Batch(numbers, X, frame.get_column(self.target), positive, groups, weights)
            first += len(positive)
        if first != self.n_rows:
            raise InputError(f"X had {self.n_rows:,} rows when they were counted, and now has {first:,}.")

    def fingerprint(self) -> Fingerprint:
        """Digests of all rows."""
        whole = FingerprintOfBatches()
        for batch in self.batches():
            whole.add(batch.X, batch.positive, batch.codes, batch.weights)
        return whole.whole()


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
    labels = read_labels(values[target], pos_label=classifier.pos_label, what=f"y ({target!r})", counts=rows)
    policies: dict[str, Any] = {"missing": classifier.missing, "unseen": classifier.unseen}
    groups, codes = Groups.fit(
        {name: values[name] for name in sensitive},
        **policies,
        min_size=classifier.min_group_size,
        single_features=any(notion.groups == "independent" for notion in classifier.constraint.notions),
        row_counts=rows,
    )
    classifier.constraint.check(groups)
    counts = np.zeros((len(groups), 2), np.int64)
    np.add.at(counts, (codes, labels.positive.astype(np.intp)), rows)
    usable = usable_features(classifier.aware, groups.features)
    known = None
    if usable and usable != groups.features:  # a sample need not have all of their values
        known, _ = Groups.fit({name: values[name] for name in usable}, **policies, row_counts=rows)
    return LargeTable(table, target, weight, sensitive, groups, labels.classes, counts, known)


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


def draw_sample(classifier: FairClassifier, large: LargeTable, seed: int) -> Sample:
    """Draw the rows to learn from; small cells are kept whole.

    Parameters
    ----------
    classifier : FairClassifier
        Its `learn_rows` is the largest number of rows.
    large : LargeTable
    seed : int

    Returns
    -------
    Sample
    """
    equal = not all(takes_weights(learner) for learner in classifier.posterior_learners)
    most = SAMPLE_ROWS if classifier.learn_rows is None else classifier.learn_rows
    sizes = sample_sizes(large.counts, most, equal=equal)
    cv, holdout = classifier.cv, classifier.posterior_holdout
    number = cv is None or isinstance(cv, Integral)
    if (sizes < large.counts).any() and holdout is None and not (number or hasattr(cv, "split")):
        raise InputError(
            f"cv should be a number or a splitter where models learn from {sizes.sum():,} of "
            f"{large.n_rows:,} rows: given splits are about all rows."
        )
    rates = candidate_rates(large.counts, sizes)
    candidates = []
    watched = track(
        large.batches(), what="drawing rows to learn from", total=large.n_batches, verbose=classifier.verbose
    )
    for batch in watched:
        own = rates[batch.codes, batch.positive.astype(np.intp)]
        chosen = np.flatnonzero(row_uniforms(batch.numbers, seed) < own)
        if len(chosen):
            candidates.append(batch.take(chosen))
    numbers = np.concatenate([part.numbers for part in candidates])
    cells = np.concatenate([2 * part.codes + part.positive for part in candidates]).astype(np.intp)
    drawn = drawn_rows(row_uniforms(numbers, seed), cells, sizes)
    X = nw.concat([nw.from_native(part.X, eager_only=True) for part in candidates])[drawn, :].to_native()
    y = nw.concat([part.y.to_frame() for part in candidates]).get_column(large.target)[drawn].to_native()
    given = None
    if large.weight is not None:
        given = np.concatenate([part.weights for part in candidates if part.weights is not None])[drawn]
    data = read_training_data(classifier, X, y, None, given, groups=large.groups, known=large.known)
    if not equal and (sizes < large.counts).any():
        examples = data.examples
        stands_for = (large.counts / np.maximum(sizes, 1)).ravel()[cells[drawn]]
        own = stands_for if examples.weights is None else stands_for * examples.weights
        data = replace(data, examples=replace(examples, weights=own / own.mean()))
    return Sample(data, numbers[drawn])


@contextmanager
def file_for_posteriors(
    classifier: FairClassifier, large: LargeTable, sample: Sample, scratch: Path | None
) -> Iterator[PosteriorFile]:
    """Temporary files for the posteriors of all rows, whose space is taken before anything is learned.

    Parameters
    ----------
    classifier : FairClassifier
    large : LargeTable
    sample : Sample
    scratch : Path or None
        Folder for the files, from which an interrupted run goes on; None is a temporary one.

    Yields
    ------
    PosteriorFile
    """
    known = sample.data.access.knows(large.groups)
    counted = large.weight is not None and classifier.weights != "fit"
    weighted = counted or classifier.posterior_holdout is not None
    with opened(scratch, large.n_rows, len(large.groups), known=known, weighted=weighted) as file:
        note(
            f"Posteriors of {large.n_rows:,} rows take {readable_size(file.size)} in {file.folder}.",
            verbose=classifier.verbose,
        )
        state = file.read_state()
        if state is not None and state.get("fit") != _task(classifier, large):
            raise InputError(
                f"{scratch} holds an unfinished fit of other data or with other parameters: remove the "
                "folder, or choose another one."
            )
        file.reserve()
        yield file


def score_rows(
    classifier: FairClassifier,
    large: LargeTable,
    sample: Sample,
    learned: LearnedPosteriors,
    file: PosteriorFile,
    *,
    score: Score | None = None,
) -> Fingerprint:
    """Write posteriors of all rows: out of fold for the sample, by the model for the others.

    Parameters
    ----------
    classifier : FairClassifier
    large : LargeTable
    sample : Sample
    learned : LearnedPosteriors
        From the sample.
    file : PosteriorFile
    score : Score, default=None
        Another way to score a batch.

    Returns
    -------
    Fingerprint
        Of all rows.
    """
    task = {"fit": _task(classifier, large), "model": _digest(learned.out_of_fold)}
    state = file.read_state() or {}
    done: list[str] = state.get("batches", [])
    if state.get("model") != task["model"]:  # from changed rows, or on another machine
        _refuse_changes(large, done, file.folder)
        done = []
    score = _Score(classifier, large, sample, learned) if score is None else score
    whole = FingerprintOfBatches()
    chain: list[str] = []
    watched = track(large.batches(), what="scoring rows", total=large.n_batches, verbose=classifier.verbose)
    for k, batch in enumerate(watched):
        whole.add(batch.X, batch.positive, batch.codes, batch.weights)
        chain.append(whole.so_far())
        if k < len(done):
            _refuse_change(batch, done[k], chain[k], file.folder)
            continue
        file.write(int(batch.numbers[0]), score(batch), score.weights(batch) if file.weighted else None)
        if file.lasting:
            file.write_state({**task, "batches": chain})
    return whole.whole()


def _refuse_changes(large: LargeTable, done: Sequence[str], folder: Path) -> None:
    """Refuse to write over the work of an earlier run if it was about other rows."""
    whole = FingerprintOfBatches()
    for batch, then in zip(large.batches(), done, strict=False):
        whole.add(batch.X, batch.positive, batch.codes, batch.weights)
        _refuse_change(batch, then, whole.so_far(), folder)


def _refuse_change(batch: Batch, then: str, now: str, folder: Path) -> None:
    if then != now:
        raise InputError(
            f"rows {batch.numbers[0]:,} to {batch.numbers[-1]:,} have changed since the fit that left its "
            f"files in {folder}: remove the folder, or choose another one."
        )


class Score(Protocol):
    """Scores a batch."""

    def __call__(self, batch: Batch) -> NDArray[Any] | GroupedScores:
        """Posteriors of the rows."""
        ...

    def weights(self, batch: Batch) -> Floats:
        """How much each row counts in risk and requirement."""
        ...


@dataclass(frozen=True, eq=False)
class _Score:
    """Posteriors of a batch: out of fold for rows of the sample, by the model for the others."""

    classifier: FairClassifier
    large: LargeTable
    sample: Sample
    learned: LearnedPosteriors

    def __call__(self, batch: Batch) -> NDArray[Any] | GroupedScores:
        access, groups, n = self.sample.data.access, self.large.groups, len(batch.codes)
        numbers = self.sample.rows[self.learned.rows]
        first, last = np.searchsorted(numbers, (batch.numbers[0], batch.numbers[-1] + 1))
        places = numbers[first:last] - batch.numbers[0]
        others = np.delete(np.arange(n), places)
        known = access.knows(groups)
        cells = np.zeros((n, 1 if known else len(groups), 2))
        if len(others):
            X = batch.X if len(others) == n else take_rows(batch.X, others)
            X = read_features(self.classifier, X, reset=False)
            visible = access.view(X, columns_of(X, list(groups.features)))
            with naming_bad_rows(visible.X, batch.numbers[others]):
                cells[others] = self.learned.model.cells(visible.X, access.allowed(groups, visible.known))
        own = self.learned.out_of_fold
        if isinstance(own, GroupedScores):
            eta = own.eta[first:last]
            cells[places, 0] = np.column_stack([1 - eta, eta])
        else:
            cells[places] = own[first:last]
        return as_posteriors(cells, batch.codes, groups, known=known)

    def weights(self, batch: Batch) -> Floats:
        """How much each row counts: nothing if models have seen it, because only a part was held out."""
        counted = batch.weights is not None and self.classifier.weights != "fit"
        weights = batch.weights.copy() if counted and batch.weights is not None else np.ones(len(batch.codes))
        seen = np.delete(self.sample.rows, self.learned.rows)
        weights[np.isin(batch.numbers, seen)] = 0.0
        return weights


def _task(classifier: FairClassifier, large: LargeTable) -> str:
    """Digest of what determines posteriors: parameters, and the table as far as it was counted."""
    params = {
        name: re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # where an object is in memory
        for name, value in classifier.get_params().items()
        if name not in ("n_jobs", "verbose", "tol")
    }
    counted = (large.table.names, large.target, large.weight, large.groups.keys, large.counts.tolist())
    return hashlib.sha256(repr((sorted(params.items()), counted)).encode()).hexdigest()


def _digest(posteriors: NDArray[Any] | GroupedScores) -> str:
    array = posteriors.eta if isinstance(posteriors, GroupedScores) else posteriors
    return hashlib.sha256(np.round(array, 6).tobytes()).hexdigest()


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
