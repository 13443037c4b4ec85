"""Stages of a fit to a table that is read in batches: count, draw, learn, score.

Models learn from a sample of the rows. Every row is then scored, and the rule is found on all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from evenhand.display.progress import note, track
from evenhand.estimators.access import AttributeAccess, ModelInput, usable_features
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors
from evenhand.estimators.training_data import TrainingData, read_training_data
from evenhand.exceptions import GroupError, InputError
from evenhand.fairness.groups import Groups
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.batched_table import BATCH_ROWS, BatchedTable, row_uniforms
from evenhand.inputs.columns import factorize
from evenhand.inputs.features import columns_of, concat_rows, read_features, take_rows
from evenhand.inputs.fingerprint import Fingerprint, FingerprintOfBatches
from evenhand.inputs.labels import read_labels
from evenhand.optimum.posterior_file import PosteriorFile, opened, readable_size
from evenhand.posteriors.learner import takes_weights
from evenhand.posteriors.models import PosteriorModel
from evenhand.posteriors.sampling import sampling_rates

__all__ = [
    "Batch",
    "Counted",
    "LargeTable",
    "OutOfFold",
    "Sample",
    "Score",
    "Scored",
    "View",
    "check_large_settings",
    "check_roles",
    "count_cells",
    "draw_rates",
    "draw_rows",
    "draw_sample",
    "join_sample",
    "object_column",
    "read_large_table",
    "score_rows",
    "weight_column",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a large table.

    Attributes
    ----------
    numbers : array of int
        Of the rows in the whole table.
    X : table or matrix
        The features, with the sensitive columns.
    y : narwhals.Series or array
    positive, codes : arrays
        Label and group of each row.
    weights : array or None
    sensitive : dict
        Sensitive features by name.
    """

    numbers: NDArray[np.intp]
    X: Any
    y: Any
    positive: NDArray[np.bool_]
    codes: NDArray[np.int32]
    weights: Floats | None
    sensitive: Mapping[str, Any]

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
            {name: column[rows] for name, column in self.sensitive.items()},
        )


@dataclass(frozen=True, eq=False)
class Counted:
    """Labels and groups of all rows of a large table.

    Attributes
    ----------
    groups : Groups
    classes : array of two values
        ``[negative, positive]``.
    counts : array of int, shape (M, 2)
        Rows of each cell.
    known : Groups or None
        Where some of the sensitive features may be used, their combinations.
    """

    groups: Groups
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    known: Groups | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def positive(self, y: Any, what: str) -> NDArray[np.bool_]:
        """Which of some labels are positive."""
        levels, codes = factorize(y, what=what)
        return np.array([*(level == self.classes[1] for level in levels), False], np.bool_)[codes]


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
    counted : Counted
    """

    table: BatchedTable
    target: str
    weight: str | None
    sensitive: tuple[str, ...]
    counted: Counted

    @property
    def groups(self) -> Groups:
        """The groups of all rows."""
        return self.counted.groups

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counted.n_rows

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
            y = frame.get_column(self.target)
            positive = self.counted.positive(y, f"y ({self.target!r})")
            X = frame.select(features).to_native()
            sensitive = columns_of(X, list(self.sensitive))
            groups = self.groups.encode(sensitive)
            weights = None if self.weight is None else weight_column(frame.get_column(self.weight), first)
            numbers = np.arange(first, first + len(positive))
            yield Batch(numbers, X, y, positive, groups, weights, sensitive)
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
    check_large_settings(classifier)
    table = BatchedTable.of(X)
    target = table.require(y, "the label")
    weight = None if sample_weight is None else table.require(sample_weight, "sample weights")
    sensitive = _sensitive_columns(classifier, table, sensitive_features)
    check_roles(target, weight, sensitive)
    values, rows = table.combinations([*sensitive, target])
    columns = {name: object_column(values[name]) for name in sensitive}
    counted = count_cells(classifier, columns, object_column(values[target]), rows, what=f"y ({target!r})")
    return LargeTable(table, target, weight, sensitive, counted)


def check_large_settings(classifier: FairClassifier) -> None:
    """Raise an InputError if the parameters cannot be used for a table that is not in memory."""
    classifier.check_settings()
    if classifier.confidence is not None:
        raise InputError(
            "confidence= needs a table in memory, of which rows are reserved: leave it out, or collect the "
            "table."
        )


def check_roles(target: Any, weight: Any, sensitive: Sequence[Any]) -> None:
    """Raise an InputError if a column has two roles; None stands for no column."""
    for name in (target, weight):
        if name is not None and (name in sensitive or target == weight):
            raise InputError(f"column {name!r} has two roles: it is the label, a weight or sensitive.")


def count_cells(
    classifier: FairClassifier,
    sensitive: Mapping[str, Any],
    labels: Any,
    rows: NDArray[np.int64],
    *,
    what: str,
) -> Counted:
    """Labels and groups of a table of which the combinations of values have been counted.

    Parameters
    ----------
    classifier : FairClassifier
    sensitive : mapping
        Sensitive features by name, with one entry per combination.
    labels : array
    rows : array of int
        Rows that have each combination.
    what : str
        Name of the label, for messages.

    Returns
    -------
    Counted
    """
    found = read_labels(labels, pos_label=classifier.pos_label, what=what, counts=rows)
    policies: dict[str, Any] = {"missing": classifier.missing, "unseen": classifier.unseen}
    groups, codes = Groups.fit(
        sensitive,
        **policies,
        min_size=classifier.min_group_size,
        single_features=any(notion.groups == "independent" for notion in classifier.constraint.notions),
        row_counts=rows,
    )
    classifier.constraint.check(groups)
    counts = np.zeros((len(groups), 2), np.int64)
    np.add.at(counts, (codes, found.positive.astype(np.intp)), rows)
    usable = usable_features(classifier.aware, groups.features)
    known = None
    if usable and usable != groups.features:  # a sample need not have all of their values
        known, _ = Groups.fit({name: sensitive[name] for name in usable}, **policies, row_counts=rows)
    return Counted(groups, found.classes, counts, known)


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
    rates = draw_rates(classifier, large.counted)
    watched = track(
        large.batches(), what="drawing rows to learn from", total=large.n_batches, verbose=classifier.verbose
    )
    return join_sample(classifier, large.counted, [draw_rows(batch, rates, seed) for batch in watched])


def draw_rates(classifier: FairClassifier, counted: Counted) -> Floats:
    """Share of the rows of each cell to draw, shape (M, 2)."""
    return sampling_rates(counted.counts, classifier.learn_rows, equal=not _weighable(classifier))


def draw_rows(batch: Batch, rates: Floats, seed: int) -> Batch:
    """The rows of a batch that are drawn, by a hash of their number: in whatever batch they are."""
    own = rates[batch.codes, batch.positive.astype(np.intp)]
    return batch.take(np.flatnonzero(row_uniforms(batch.numbers, seed) < own))


def join_sample(classifier: FairClassifier, counted: Counted, parts: Sequence[Batch]) -> Sample:
    """The drawn rows of all batches as training data.

    Parameters
    ----------
    classifier : FairClassifier
        ``n_features_in_`` and ``feature_names_in_`` are recorded on it.
    counted : Counted
    parts : sequence of Batch
        In the order of the rows; some may be empty.

    Returns
    -------
    Sample
    """
    parts = [part for part in parts if len(part.codes)]
    X, y = concat_rows([part.X for part in parts]), concat_rows([part.y for part in parts])
    given = [part.weights for part in parts if part.weights is not None]
    separate = None  # columns of X, if the constructor names them
    if classifier.sensitive_features is None:
        names = counted.groups.features
        separate = {name: concat_rows([part.sensitive[name] for part in parts]) for name in names}
    data = read_training_data(
        classifier,
        X,
        y,
        separate,
        np.concatenate(given) if given else None,
        groups=counted.groups,
        known=counted.known,
    )
    cells = np.concatenate([2 * part.codes + part.positive for part in parts])
    kept = np.bincount(cells, minlength=counted.counts.size)
    factor = (counted.counts.ravel() / np.maximum(kept, 1))[cells]
    if np.ptp(factor) > 1e-9 * factor.max() and _weighable(classifier):
        examples = data.examples
        own = factor if examples.weights is None else factor * examples.weights
        data = replace(data, examples=replace(examples, weights=own / own.mean()))
    return Sample(data, np.concatenate([part.numbers for part in parts]))


def _weighable(classifier: FairClassifier) -> bool:
    """Whether drawn rows can be weighted, so that cells may be drawn at different rates."""
    return all(takes_weights(learner) for learner in classifier.posterior_learners)


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
        score = Score(View(classifier, large.groups, sample.data.access), learned.model)
        own = OutOfFold.of(sample, learned)
        chain: list[str] = []
        watched = track(
            large.batches(), what="scoring rows", total=large.n_batches, verbose=classifier.verbose
        )
        for k, batch in enumerate(watched):
            whole.add(batch.X, batch.positive, batch.codes, batch.weights)
            chain.append(whole.so_far())
            if k < len(done):
                if done[k] != chain[k]:
                    raise InputError(
                        f"rows {batch.numbers[0]:,} to {batch.numbers[-1]:,} have changed since the fit "
                        f"that left its files in {scratch}: remove the folder, or choose another one."
                    )
                continue
            first, n = int(batch.numbers[0]), len(batch.numbers)
            file.write(first, score(batch, own.between(first, n)), batch.weights if weighted else None)
            if scratch is not None:
                file.write_state({**task, "batches": chain})
        yield Scored(file, whole.whole())


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Posteriors of rows by models that have not seen them.

    Attributes
    ----------
    numbers : array of int
        Numbers of the rows in the whole table, in order.
    posteriors : array, shape (k, M, 2), or (k, 1, 2) where groups are known
    """

    numbers: NDArray[np.intp]
    posteriors: Floats

    @classmethod
    def of(cls, sample: Sample, learned: LearnedPosteriors) -> OutOfFold:
        """Those of the sample."""
        own = learned.out_of_fold
        if isinstance(own, GroupedScores):
            own = np.column_stack([1 - own.eta, own.eta])[:, None]
        return cls(sample.rows[learned.rows], own)

    def between(self, first: int, count: int) -> OutOfFold:
        """Those of the rows from number `first` on."""
        rows = slice(*np.searchsorted(self.numbers, (first, first + count)))
        return OutOfFold(self.numbers[rows], self.posteriors[rows])


@dataclass(frozen=True, eq=False)
class View:
    """What models see of a batch.

    Attributes
    ----------
    classifier : FairClassifier
        Whose features the batch should have.
    groups : Groups
    access : AttributeAccess
    """

    classifier: FairClassifier
    groups: Groups
    access: AttributeAccess

    @property
    def known(self) -> bool:
        """Whether the group of each row is known."""
        return self.access.knows(self.groups)

    def visible(self, batch: Batch) -> ModelInput:
        """The rows of a batch as models see them."""
        return self.access.view(read_features(self.classifier, batch.X, reset=False), batch.sensitive)

    def cells(self, batch: Batch, model: PosteriorModel) -> Floats:
        """Posteriors of a batch by a model."""
        visible = self.visible(batch)
        return model.cells(visible.X, self.access.allowed(self.groups, visible.known))

    def empty_cells(self, n: int) -> Floats:
        """An array for the posteriors of n rows."""
        return np.zeros((n, 1 if self.known else len(self.groups), 2))

    def posteriors(self, cells: Floats, batch: Batch) -> NDArray[Any] | GroupedScores:
        """Posteriors of a batch as the solver takes them."""
        return as_posteriors(cells, batch.codes, self.groups, known=self.known)


@dataclass(frozen=True, eq=False)
class Score:
    """Posteriors of a batch: out of fold for rows of the sample, by the model for the others.

    Attributes
    ----------
    view : View
    model : PosteriorModel
    """

    view: View
    model: PosteriorModel

    def __call__(self, batch: Batch, own: OutOfFold) -> NDArray[Any] | GroupedScores:
        """Posteriors of consecutive rows, of which some have posteriors of their own."""
        n = len(batch.codes)
        places = own.numbers - batch.numbers[:1]
        others = np.delete(np.arange(n), places)
        cells = self.view.empty_cells(n)
        cells[places] = own.posteriors
        if len(others):
            cells[others] = self.view.cells(batch if len(others) == n else batch.take(others), self.model)
        return self.view.posteriors(cells, batch)


def _task(classifier: FairClassifier, large: LargeTable) -> str:
    """Digest of what determines posteriors: parameters, and the table as far as it was counted."""
    params = {name: repr(value) for name, value in clone(classifier).get_params().items()}
    for name in ("n_jobs", "verbose", "tol"):
        params.pop(name, None)
    counts = large.counted.counts.tolist()
    counted = (large.table.names, large.target, large.weight, large.groups.keys, counts)
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


def object_column(values: Sequence[Any]) -> NDArray[Any]:
    """Values as a column of objects, which keeps 1 and "1" apart."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def weight_column(column: nw.Series[Any], first: int) -> Floats:
    """Weights of the rows from number `first` on, which messages name."""
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
