"""The rows of a fit, wherever they are: read, learned from, scored.

A table in memory is learned from as a whole. One that is not is read into memory if it has no more rows than
models may learn from; otherwise a sample is, and the other rows are scored where they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.data.features import naming_bad_rows, read_features
from evenhand.estimators.access import AttributeAccess, check_one_source
from evenhand.estimators.learned_posteriors import LearnedPosteriors, learn_posteriors
from evenhand.estimators.limits import refuse_beyond_memory, refuse_large
from evenhand.estimators.row_sample import (
    CountedTable,
    Draw,
    Sample,
    count_table,
    draw_sample,
    joined_examples,
    read_parts,
)
from evenhand.estimators.settings import Settings
from evenhand.estimators.training_data import TrainingData, hold_out_rows, read_training_data
from evenhand.groups.groups import Groups
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.atoms import FurtherRows, randomise_action_atoms, randomise_atoms
from evenhand.optimum.objectives import read_problem
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.posteriors.crossfit import RunFolds
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.models import PosteriorModel
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.constraints import LinearConstraints
from evenhand.sources.layout import Columns, Kept, Layout
from evenhand.sources.lazy_files import InFiles
from evenhand.sources.row_source import Fill, Place, Rows, RowSource

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FitRows:
    """What a fit reads.

    Attributes
    ----------
    data : TrainingData
        Rows to learn from.
    held_out : Examples or None
        Rows that nothing is learned from, for a guarantee.
    run : function or None
        Fits folds elsewhere.
    source : RowSource or None
        All rows, if they are not in memory.
    sample : Sample or None
        How the rows to learn from were drawn, if they are not all rows.
    """

    data: TrainingData
    held_out: Examples | None
    run: RunFolds | None = None
    source: RowSource | None = None
    sample: Sample | None = None

    @property
    def standing_for_all(self) -> TrainingData:
        """Rows to learn from, with weights in risk and requirement by which they stand for all rows."""
        return self.data if self.sample is None else replace(self.data, weights=self.sample.weights)

    def learn(self, settings: Settings, data: TrainingData, seed: int) -> LearnedPosteriors:
        """Out-of-fold posteriors P(S, Y | x) of the rows to learn from, calibrated."""
        numbers = None if self.sample is None else self.sample.rows
        if self.source is not None and self.held_out is None and numbers is None:
            numbers = np.arange(len(data.examples))
        naming = nullcontext() if numbers is None else naming_bad_rows(data.examples.X, numbers)
        with naming:
            return learn_posteriors(settings, data, seed=seed, held_out=self.held_out, run=self.run)


def read_rows(
    settings: Settings,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    seed: int,
) -> FitRows:
    """Read the table, the labels, the groups, and what models may see.

    Parameters
    ----------
    settings : Settings
        On whose recorder ``n_features_in_`` and ``feature_names_in_`` are set.
    X, y, sensitive_features, sample_weight
        As passed to `fit`.
    seed : int

    Returns
    -------
    FitRows
    """
    refuse_beyond_memory(X, sensitive_features)
    source = _source(settings, X, y, sensitive_features, sample_weight)
    if source is None:
        data = read_training_data(settings, X, y, sensitive_features, sample_weight, seed=seed)
        return FitRows(*hold_out_rows(settings, data, seed))
    if source.n_rows <= settings.posteriors.max_samples:
        drawn = source.map(lambda rows: rows, what="reading rows")
        data = read_parts(settings, drawn, seed=seed, label=source.label)
        run = source.fold_runner(partial(_all_examples, _copied(settings), seed, source.label))
        return FitRows(*hold_out_rows(settings, data, seed), run, source)
    refuse_large(settings)
    sample = draw_sample(settings, source, count_table(settings, source), seed)
    if settings.confidence is not None:
        hold_out_rows(settings, sample.data, seed)  # refuses what cannot have a guarantee
    run = source.fold_runner(partial(joined_examples, _copied(settings), sample.table, sample.draw))
    rows = FitRows(sample.data, sample.held_out, run, source, sample)
    # Posteriors of other rows are kept for two labels only.
    return rows if sample.data.actions is None else replace(rows, data=rows.standing_for_all)


def _source(
    settings: Settings, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> RowSource | None:
    """All rows, if they are not in memory."""
    if not (is_lazy(X) or is_dask(X)):
        return None
    given, controls = settings.classifier, settings.constraint.controls
    where = given.sensitive_features
    if is_lazy(X):
        n_jobs, verbose = given.n_jobs, given.verbose
        return InFiles(X, y, where, sample_weight, controls=controls, n_jobs=n_jobs, verbose=verbose)
    from evenhand.cluster.dask_rows import OnCluster  # noqa: PLC0415  (Dask is an extra)

    check_one_source(sensitive_features, where)
    return OnCluster(X, y, where, sample_weight, sensitive_features=sensitive_features, controls=controls)


def _copied(settings: Settings) -> Settings:
    """The same with a recorder of its own, to be sent."""
    return replace(settings, classifier=copy.copy(settings.classifier))


def _all_examples(settings: Settings, seed: int, label: str, parts: Sequence[Rows]) -> Examples:
    data = read_parts(settings, parts, seed=seed, label=label)
    return hold_out_rows(settings, data, seed)[0].examples


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Posteriors of all rows that the rule is found on.

    Attributes
    ----------
    learned : LearnedPosteriors
        Of the rows that were learned from.
    kept : Kept or None
        Of all rows, if these are more.
    """

    learned: LearnedPosteriors
    kept: Kept | None = None

    def problem(self, settings: Settings, groups: Groups) -> FairnessProblem:
        """The fairness problem on these rows."""
        asked, given = settings.constraint, settings.classifier
        if self.kept is None:
            return self.learned.problem(asked, given.cost, groups, given.objective)
        rows = self.kept.partitions()
        return read_problem(given.objective, rows, asked, cost=given.cost, groups=groups)

    def parts(self) -> Iterator[tuple[Posteriors, Floats | None]]:
        """Posteriors and weights, a part of the rows at a time."""
        if self.kept is None:
            yield self.learned.out_of_fold, self.learned.weights
            return
        for columns in self.kept.blocks():
            yield self.kept.layout.posteriors(columns), columns.get("weights")

    def rule(self, solution: Solution, seed: int, problem: FairnessProblem | None = None) -> Rule:
        """The rule for new rows: the solution's table, with the atoms of the deployed model randomised."""
        if self.kept is None:
            selection = np.asarray(solution.selection)
        else:
            selection = solution.rule.selection(self.learned.out_of_fold)
        return self.deployed(solution.rule, selection, problem).with_key(f"{seed:08x}")

    def deployed(self, rule: Any, selection: Floats, problem: FairnessProblem | None = None) -> Rule:
        """A rule with the atoms of the deployed model randomised, by the selection of rows learned from."""
        learned = self.learned
        if isinstance(rule, ActionRule):
            made: Any = randomise_action_atoms(rule, learned.deployed, selection, learned.weights)
            return made  # type: ignore[no-any-return]
        return randomise_atoms(
            rule, learned.deployed, selection, learned.weights, further=self._further(problem)
        )

    def deterministic(
        self, rule: Rule, problem: FairnessProblem, linear: LinearConstraints | None = None
    ) -> Rule:
        """The nearest rule that never randomises; see :meth:`FairnessProblem.deterministic`."""
        # Rows that are kept elsewhere have posteriors by the model for new rows already.
        deployed = self.learned.deployed if self.kept is None else None
        return problem.deterministic(rule, deployed, linear=linear)

    def _further(self, problem: FairnessProblem | None) -> FurtherRows | None:
        """The rows that were not learned from, which have posteriors of the model for new rows already."""
        if self.kept is None or problem is None:
            return None
        oracle: Any = problem.ordinary_rows

        def weight(atoms: Floats) -> Floats:
            return np.asarray(oracle.weight_of(atoms.reshape(len(atoms), -1)) * oracle.sizes.weight)

        return FurtherRows(oracle.n_rows - len(self.learned.rows), weight)


@contextmanager
def space_for_posteriors(
    settings: Settings, rows: FitRows
) -> Iterator[Callable[[LearnedPosteriors], ScoredRows]]:
    """Space for the posteriors of all rows that the rule is found on, taken before anything is learned.

    Parameters
    ----------
    settings : Settings
    rows : FitRows

    Yields
    ------
    function
        Scores all rows, given what was learned from some or all of them.
    """
    if rows.source is None or rows.sample is None or rows.data.actions is not None:
        yield ScoredRows
        return
    layout = _layout(settings, rows.data)
    with rows.source.store(layout) as fill:
        yield partial(_scored, settings, rows.sample, layout, fill)


def _layout(settings: Settings, data: TrainingData) -> Layout:
    # Rows that models have seen, that are held out or that are in no group do not count.
    seen = not isinstance(settings.posteriors.cv, Integral | None)
    given = data.weights is not None
    weighted = given or seen or settings.confidence is not None or bool(data.groups.excluded)
    known, strata = data.access.knows(data.groups), data.access.strata
    n_strata = 1 if strata is None else len(strata)
    if known:
        return Layout(len(data.groups) * n_strata, known=True, weighted=weighted)
    return Layout(len(data.groups), weighted=weighted, n_strata=None if strata is None else n_strata)


def _scored(
    settings: Settings, sample: Sample, layout: Layout, fill: Fill, learned: LearnedPosteriors
) -> ScoredRows:
    own = OwnPosteriors.of(sample, learned, layout)
    data = sample.data
    score = Score(settings, data.groups, data.access, learned.model, sample.table, sample.draw, layout)
    return ScoredRows(learned, fill(score, own.at))


@dataclass(frozen=True, eq=False)
class OwnPosteriors:
    """Posteriors of rows that were learned from, by models that have not seen them.

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
    def of(cls, sample: Sample, learned: LearnedPosteriors, layout: Layout) -> OwnPosteriors:
        """Those that were learned."""
        columns = layout.columns(learned.out_of_fold, np.empty(len(learned.rows)))
        if layout.known:
            own = np.column_stack([1 - columns["eta"], columns["eta"]])[:, None]
        else:
            own = columns["posteriors"]
        return cls(sample.rows[learned.rows], own, np.delete(sample.rows, learned.rows))

    def at(self, place: Place) -> OwnPosteriors:
        """Those of the rows of a batch."""
        bounds = (place.first, place.first + place.size)
        rows = slice(*np.searchsorted(self.numbers, bounds))
        seen = self.seen[slice(*np.searchsorted(self.seen, bounds))]
        return OwnPosteriors(self.numbers[rows], self.posteriors[rows], seen)


@dataclass(frozen=True, eq=False)
class Score:
    """Posteriors of consecutive rows: out of fold for those learned from, by the model for the others.

    Attributes
    ----------
    settings : Settings
        Whose recorder has the features that rows should have.
    groups : Groups
    access : AttributeAccess
    model : PosteriorModel
    table : CountedTable
    draw : Draw
    layout : Layout
    """

    settings: Settings
    groups: Groups
    access: AttributeAccess
    model: PosteriorModel
    table: CountedTable
    draw: Draw
    layout: Layout

    def __call__(self, rows: Rows, own: OwnPosteriors) -> Columns:
        """Posteriors and weights of some rows, given those of the rows that were learned from."""
        n = len(rows)
        places, codes = own.numbers - rows.numbers[:1], self.table.codes(rows)
        others = np.delete(np.arange(n), places)
        cells = np.zeros((n, 1 if self.layout.known else len(self.groups), 2))
        cells[places] = own.posteriors
        if len(others):
            cells[others] = self._by_model(rows if len(others) == n else rows.take(others))
        weights = np.ones(n) if rows.weights is None else rows.weights.copy()
        weights[own.seen - rows.numbers[:1]] = 0.0
        weights[self.draw.is_held_out(rows.numbers)] = 0.0
        if self.groups.excluded:
            weights[codes < 0] = 0.0
            cells[codes < 0] = 1 / cells[0].size  # of no group, and without weight
        strata = None if self.access.strata is None else self.access.stratum_codes(rows.X)
        found = self.access.posteriors(self.groups, cells, np.maximum(codes, 0), strata)
        return self.layout.columns(found, weights)

    def _by_model(self, rows: Rows) -> Floats:
        X = read_features(self.settings.classifier, rows.X, reset=False)
        visible = self.access.view(X, rows.sensitive)
        with naming_bad_rows(visible.X, rows.numbers):
            return self.model.cells(visible.X, self.access.allowed(self.groups, visible.known))
