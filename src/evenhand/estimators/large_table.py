"""Stages of a fit to a table that is read in batches: count, draw, learn, score.

Models learn from a sample of the rows. Every row is then scored, and the rule is found on all of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.display.progress import note, track
from evenhand.estimators.access import AttributeAccess, ModelInput, usable_features
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors
from evenhand.estimators.training_data import TrainingData, control_columns, read_training_data
from evenhand.exceptions import GroupError, InputError
from evenhand.fairness.groups import Groups
from evenhand.fairness.scores import AnyPosteriors, GroupedScores
from evenhand.inputs import batched_table
from evenhand.inputs.batched_table import BatchedTable, row_uniforms
from evenhand.inputs.columns import factorize
from evenhand.inputs.features import columns_of, concat_rows, naming_bad_rows, read_features, take_rows
from evenhand.inputs.fingerprint import Fingerprint, FingerprintOfBatches
from evenhand.inputs.labels import read_labels
from evenhand.optimum.posterior_file import PosteriorFile, opened, readable_size
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import takes_weights
from evenhand.posteriors.models import PosteriorModel
from evenhand.posteriors.sampling import candidate_rates, drawn_rows, sample_sizes

__all__ = [
    "SAMPLE_ROWS",
    "Batch",
    "Counted",
    "Draw",
    "LargeTable",
    "Sample",
    "SamplePosteriors",
    "SampleScore",
    "Score",
    "View",
    "check_large_settings",
    "check_roles",
    "count_cells",
    "draw_candidates",
    "draw_sample",
    "file_for_posteriors",
    "join_sample",
    "plan_draw",
    "read_large_table",
    "score_rows",
    "weight_column",
    "weights_of_sample",
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
    def counts(self) -> NDArray[np.int64]:
        """Rows of each cell, shape (M, 2)."""
        return self.counted.counts

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counted.n_rows

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
    check_large_settings(classifier)
    table = BatchedTable.of(X)
    target = table.require(y, "the label")
    weight = None if sample_weight is None else table.require(sample_weight, "sample weights")
    sensitive = _sensitive_columns(classifier, table, sensitive_features)
    check_roles(target, weight, sensitive)
    values, rows = table.combinations([*sensitive, target])
    columns = {name: values[name] for name in sensitive}
    counted = count_cells(classifier, columns, values[target], rows, what=f"y ({target!r})")
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
    if classifier.missing == "exclude":
        raise InputError(
            "missing='exclude' is for tables in memory. Drop the rows that lack a sensitive value from this "
            "table first, or pass missing='own_group'."
        )
    found = read_labels(labels, pos_label=classifier.pos_label, what=what, counts=rows)
    policies: dict[str, Any] = {"missing": classifier.missing, "unseen": classifier.unseen}
    groups, codes = Groups.fit(
        sensitive,
        **policies,
        min_size=classifier.min_group_size,
        single_features=classifier.constraint.single_features,
        row_counts=rows,
    )
    controls = control_columns(classifier, groups)
    if controls:
        raise InputError(
            f"given names the column {controls[0]!r}: control features need a table in memory, so collect X."
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
    most = SAMPLE_ROWS if classifier.learn_rows is None else classifier.learn_rows
    draw = plan_draw(classifier, large.counted, most, seed)
    watched = track(
        large.batches(), what="drawing rows to learn from", total=large.n_batches, verbose=classifier.verbose
    )
    candidates = [draw_candidates(batch, draw) for batch in watched]
    return join_sample(classifier, large.counted, draw, candidates)


@dataclass(frozen=True, eq=False)
class Draw:
    """Which rows are drawn: those with the smallest hashes of their cell, in whatever batch they are.

    Attributes
    ----------
    sizes : array of int, shape (M, 2)
        How many rows of each cell.
    rates : array, shape (M, 2)
        Share of the rows of each cell that may be among them.
    weighted : bool
        Whether drawn rows get weights that make up for different rates.
    seed : int
    """

    sizes: NDArray[np.int64]
    rates: Floats
    weighted: bool
    seed: int


def plan_draw(classifier: FairClassifier, counted: Counted, most: int | None, seed: int) -> Draw:
    """How many rows of each cell to draw.

    Parameters
    ----------
    classifier : FairClassifier
    counted : Counted
    most : int or None
        Largest number of rows; None is all.
    seed : int

    Returns
    -------
    Draw
    """
    weighted = all(takes_weights(learner) for learner in classifier.posterior_learners)
    sizes = sample_sizes(counted.counts, most, equal=not weighted)
    cv = classifier.cv
    number = cv is None or isinstance(cv, Integral | float)
    if (sizes < counted.counts).any() and not (number or hasattr(cv, "split")):
        raise InputError(
            f"cv should be a number or a splitter where models learn from {sizes.sum():,} of "
            f"{counted.n_rows:,} rows: given splits are about all rows."
        )
    return Draw(sizes, candidate_rates(counted.counts, sizes), weighted, seed)


def draw_candidates(batch: Batch, draw: Draw) -> Batch:
    """The rows of a batch that may be drawn: few more than will be."""
    rates = draw.rates[batch.codes, batch.positive.astype(np.intp)]
    return batch.take(np.flatnonzero(row_uniforms(batch.numbers, draw.seed) < rates))


def join_sample(
    classifier: FairClassifier, counted: Counted, draw: Draw, candidates: Sequence[Batch]
) -> Sample:
    """The drawn rows of all batches as training data.

    Parameters
    ----------
    classifier : FairClassifier
        ``n_features_in_`` and ``feature_names_in_`` are recorded on it.
    counted : Counted
    draw : Draw
    candidates : sequence of Batch
        In the order of the rows; some may be empty.

    Returns
    -------
    Sample
    """
    parts = _drawn(draw, candidates)
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
    if draw.weighted and (draw.sizes < counted.counts).any():
        examples = data.examples
        factor = _stands_for(counted, examples)
        own = factor if examples.weights is None else factor * examples.weights
        data = replace(data, examples=replace(examples, weights=own / own.mean()))
    return Sample(data, np.concatenate([part.numbers for part in parts]))


def _drawn(draw: Draw, candidates: Sequence[Batch]) -> list[Batch]:
    """The drawn rows among the candidates, without empty batches."""
    parts = [part for part in candidates if len(part.codes)]
    numbers = np.concatenate([part.numbers for part in parts])
    cells = np.concatenate([2 * part.codes + part.positive for part in parts]).astype(np.intp)
    drawn = drawn_rows(row_uniforms(numbers, draw.seed), cells, draw.sizes)
    firsts = np.cumsum([0, *(len(part.codes) for part in parts)])
    cuts = np.searchsorted(drawn, firsts)
    own = [drawn[a:b] - first for a, b, first in zip(cuts, cuts[1:], firsts, strict=False)]
    return [part.take(rows) for part, rows in zip(parts, own, strict=True) if len(rows)]


def _stands_for(counted: Counted, drawn: Examples) -> Floats:
    """For how many rows of its cell each drawn row stands."""
    sizes = np.bincount(drawn.cells, minlength=counted.counts.size)
    return np.asarray((counted.counts.ravel() / np.maximum(sizes, 1))[drawn.cells])


def weights_of_sample(counted: Counted, sample: Sample) -> Floats | None:
    """Weights in risk and requirement with which the sample stands for all rows."""
    own = sample.data.weights
    if len(sample.rows) == counted.n_rows:
        return own
    factor = _stands_for(counted, sample.data.examples)
    return factor if own is None else factor * own


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
    counted = large.weight is not None
    # Models have seen rows of the sample that were not held out, or that a splitter puts into no test fold.
    some = not isinstance(classifier.cv, Integral | None)
    weighted = counted or some
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
    if score is None:
        view = View(classifier, large.groups, sample.data.access)
        score = SampleScore(view, learned.model, SamplePosteriors.of(sample, learned))
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

    def examples(self, batch: Batch) -> Examples:
        """The rows of a batch as models learn from them."""
        visible = self.visible(batch)
        return Examples(
            visible.X,
            batch.codes.astype(np.intp),
            batch.positive,
            len(self.groups),
            self.access.allowed(self.groups, visible.known),
            batch.weights,
        )

    def cells(self, batch: Batch, model: PosteriorModel) -> Floats:
        """Posteriors of a batch by a model."""
        visible = self.visible(batch)
        with naming_bad_rows(visible.X, batch.numbers):
            return model.cells(visible.X, self.access.allowed(self.groups, visible.known))

    def empty_cells(self, n: int) -> Floats:
        """An array for the posteriors of n rows."""
        return np.zeros((n, 1 if self.known else len(self.groups), 2))

    def posteriors(self, cells: Floats, batch: Batch) -> NDArray[Any] | GroupedScores:
        """Posteriors of a batch as the solver takes them."""
        return as_posteriors(cells, batch.codes, self.groups, known=self.known)

    def weights(self, batch: Batch) -> Floats:
        """How much each row of a batch counts in risk and requirement."""
        if batch.weights is None:
            return np.ones(len(batch.codes))
        return batch.weights.copy()


@dataclass(frozen=True, eq=False)
class SamplePosteriors:
    """Posteriors of the sample by models that have not seen the rows.

    Attributes
    ----------
    numbers : array of int
        Numbers of the rows in the whole table, in order.
    posteriors : array, shape (k, M, 2), or (k, 1, 2) where groups are known
    seen : array of int
        Numbers of the rows that have none, because models have seen them and others were held out.
    """

    numbers: NDArray[np.intp]
    posteriors: Floats
    seen: NDArray[np.intp]

    @classmethod
    def of(cls, sample: Sample, learned: LearnedPosteriors) -> SamplePosteriors:
        """Those that were learned."""
        own: Any = learned.out_of_fold
        if isinstance(own, GroupedScores):
            own = np.column_stack([1 - own.eta, own.eta])[:, None]
        return cls(sample.rows[learned.rows], own, np.delete(sample.rows, learned.rows))

    def between(self, first: int, count: int) -> SamplePosteriors:
        """Those of the rows from number `first` on."""
        bounds = (first, first + count)
        rows = slice(*np.searchsorted(self.numbers, bounds))
        seen = self.seen[slice(*np.searchsorted(self.seen, bounds))]
        return SamplePosteriors(self.numbers[rows], self.posteriors[rows], seen)


@dataclass(frozen=True, eq=False)
class SampleScore:
    """Posteriors of consecutive rows: out of fold for rows of the sample, by the model for the others.

    Attributes
    ----------
    view : View
    model : PosteriorModel
    sample : SamplePosteriors
    """

    view: View
    model: PosteriorModel
    sample: SamplePosteriors

    def __call__(self, batch: Batch) -> NDArray[Any] | GroupedScores:
        """Posteriors of a batch."""
        n, own = len(batch.codes), self._own(batch)
        places = own.numbers - batch.numbers[:1]
        others = np.delete(np.arange(n), places)
        cells = self.view.empty_cells(n)
        cells[places] = own.posteriors
        if len(others):
            cells[others] = self.view.cells(batch if len(others) == n else batch.take(others), self.model)
        return self.view.posteriors(cells, batch)

    def weights(self, batch: Batch) -> Floats:
        """How much each row counts: nothing if models have seen it, because only a part was held out."""
        weights = self.view.weights(batch)
        weights[self._own(batch).seen - batch.numbers[:1]] = 0.0
        return weights

    def _own(self, batch: Batch) -> SamplePosteriors:
        n = len(batch.numbers)
        return self.sample.between(int(batch.numbers[0]) if n else 0, n)


def _task(classifier: FairClassifier, large: LargeTable) -> str:
    """Digest of what determines posteriors: parameters, and the table as far as it was counted."""
    params = {
        name: re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # where an object is in memory
        for name, value in classifier.get_params().items()
        if name not in ("n_jobs", "verbose")
    }
    counted = (large.table.names, large.target, large.weight, large.groups.keys, large.counts.tolist())
    return hashlib.sha256(repr((sorted(params.items()), counted)).encode()).hexdigest()


def _digest(posteriors: AnyPosteriors) -> str:
    array: Any = posteriors.eta if isinstance(posteriors, GroupedScores) else posteriors
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
