"""Out-of-fold posteriors from classifiers that are fitted to all rows of a table, read in batches.

The counterpart of `crossfit` and `spec` where rows are not in memory. Each classifier of a posterior learns a
function of the cell of a row, so the mass of the cells in each fold tells which classes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.display.progress import track
from evenhand.exceptions import InputError
from evenhand.inputs.batched_table import row_uniforms
from evenhand.posteriors.calibration import Calibration, CellCalibrator, GroupCalibrator
from evenhand.posteriors.crossfit import GROUP_FOLDS, Estimated, calibrate
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.external import LabelledRows, fit_to_batches
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.models import (
    Calibrated,
    GroupByFeature,
    Joint,
    KnownGroup,
    LabelThenGroup,
    PosteriorModel,
    Product,
    averaged,
    calibrated,
)
from evenhand.posteriors.spec import PosteriorSpec

__all__ = [
    "OutOfFold",
    "Target",
    "cross_fit_batches",
    "estimate_sample",
    "folds_of",
    "model_of",
    "numbers_of_folds",
    "targets_of",
]

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
Reader = Callable[[], Iterator[tuple[Numbers, Examples]]]
"""Reads the numbers of rows and the rows, from the first one."""

_FOLDS = 1
"""Added to the seed, because the seed itself draws rows, and folds should not depend on the draw."""


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Posteriors of any row of the fit, by the models that have not seen it.

    Attributes
    ----------
    factors : tuple of tuple of PosteriorModel
        The models of the folds: of P(Y | x) and of P(S | x), or of the posteriors themselves.
    join : Product or None
        What joins two factors.
    seed : int
    calibrator : CellCalibrator or GroupCalibrator, default=None
    """

    factors: tuple[tuple[PosteriorModel, ...], ...]
    join: Product | None
    seed: int
    calibrator: CellCalibrator | GroupCalibrator | None = None

    @classmethod
    def of(
        cls, fitted: list[list[PosteriorModel]], *, average: bool, seen: NDArray[np.bool_], seed: int
    ) -> tuple[OutOfFold, PosteriorModel]:
        """Out-of-fold posteriors, and the model for new rows, from the models of each factor.

        Parameters
        ----------
        fitted : list of list of PosteriorModel
            For each factor the models of its folds, followed by that of all rows if there is no mean of them.
        average : bool
            Whether the model for new rows is that mean.
        seen : array of bool, shape (M, 2)
            Which cells have rows.
        seed : int

        Returns
        -------
        OutOfFold, PosteriorModel
        """
        final = [averaged(own) if average else own[-1] for own in fitted]
        join = None if len(final) == 1 else Product(final[0], final[1], seen)
        folds = tuple(tuple(own if average else own[:-1]) for own in fitted)
        return cls(folds, join, seed), final[0] if join is None else join

    def cells(self, numbers: Numbers, rows: Examples) -> Floats:
        """P(S=m, Y=y | x) of rows with given numbers, shape (n, M, 2) or (n, 1, 2)."""
        found = [self._factor(models, numbers, rows) for models in self.factors]
        p = found[0] if self.join is None else self.join.joined(found[0], found[1], rows.allowed)
        return p if self.calibrator is None else calibrated(self.calibrator, p, rows.allowed)

    def _factor(self, models: tuple[PosteriorModel, ...], numbers: Numbers, rows: Examples) -> Floats:
        fold = folds_of(numbers, len(models), self.seed)
        out = None
        for k in np.unique(fold):
            own = np.flatnonzero(fold == k)
            part = rows.take(own)
            cells = models[k].cells(part.X, part.allowed)
            out = np.zeros((len(rows), *cells.shape[1:])) if out is None else out
            out[own] = cells
        return np.asarray(out)


def folds_of(numbers: Numbers, count: int, seed: int) -> Numbers:
    """The fold of each row, by a hash of its number.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(folds_of(np.arange(9000), 3, seed=0)).round(-2)
    array([3000, 3000, 3000])
    """
    return (row_uniforms(numbers, seed + _FOLDS) * count).astype(np.intp)


def numbers_of_folds(spec: PosteriorSpec, cv: int) -> list[int]:
    """How many folds each factor of the posteriors has."""
    return [min(cv, GROUP_FOLDS) if factor.form == "group" else cv for factor in spec.factors]


def cross_fit_batches(
    spec: PosteriorSpec,
    read: Reader,
    sample: Examples,
    numbers: Numbers,
    *,
    cv: int = 5,
    average: bool = True,
    calibration: Calibration | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> tuple[Estimated, OutOfFold]:
    """Learn posteriors from all rows, such that no row's posterior comes from a model fitted to it.

    Parameters
    ----------
    spec : PosteriorSpec
    read : function
        Returns an iterator of the numbers of rows and the rows, from the first one.
    sample : Examples
        Rows that the calibration is fitted to.
    numbers : array of int
        Their numbers among all rows.
    cv : int, default=5
        Number of folds. Models of P(S | x) use at most three.
    average : bool, default=True
        Whether the model for new rows is the mean of the folds' models or one fitted to all rows.
    calibration : {"dirichlet"}, default=None
    seed : int, default=0
    verbose : bool, default=False
        Whether to show progress.

    Returns
    -------
    estimated : Estimated
        Posteriors of the sample, and the model for new rows.
    out_of_fold : OutOfFold
        Posteriors of all rows.
    """
    folds = numbers_of_folds(spec, cv)
    masses = _masses(read, sample.n_groups, sorted(set(folds)), seed)
    whole = next(iter(masses.values())).sum(axis=0)
    each, fits = [], 0
    for factor, count in zip(spec.factors, folds, strict=True):
        tasks = [
            _Fit(factor, read, count, seed, fold, _left_out(masses[count], fold))
            for fold in (*range(count), *([] if average else [None]))
        ]
        watched = track(tasks, what="fitting posteriors", total=len(tasks), verbose=verbose)
        each.append([task() for task in watched])
        fits += len(tasks) * factor.fits
    seen = whole.reshape(-1, 2) > 0
    out_of_fold, model = OutOfFold.of(each, average=average, seen=seen, seed=seed)
    return estimate_sample(out_of_fold, model, spec, sample, numbers, calibration=calibration, fits=fits)


def estimate_sample(
    out_of_fold: OutOfFold,
    model: PosteriorModel,
    spec: PosteriorSpec,
    sample: Examples,
    numbers: Numbers,
    *,
    calibration: Calibration | None,
    fits: int,
) -> tuple[Estimated, OutOfFold]:
    """Posteriors of a sample by models of all rows, and all of them calibrated on it.

    Parameters
    ----------
    out_of_fold : OutOfFold
        Not calibrated.
    model : PosteriorModel
        For new rows.
    spec : PosteriorSpec
    sample : Examples
    numbers : array of int
        Their numbers among all rows.
    calibration : {"dirichlet"} or None
    fits : int
        Number of classifiers fitted.

    Returns
    -------
    estimated : Estimated
    out_of_fold : OutOfFold
    """
    cells = out_of_fold.cells(numbers, sample)
    found = Estimated(
        np.arange(len(sample)),
        cells,
        model,
        final=model.cells(sample.X, sample.allowed),
        plain=cells,
        fits=fits,
    )
    if calibration is None:
        return found, out_of_fold
    found = calibrate(found, spec, sample)
    curves = found.model.calibrator if isinstance(found.model, Calibrated) else None
    return found, replace(out_of_fold, calibrator=curves)


def _masses(read: Reader, n_groups: int, counts: list[int], seed: int) -> dict[int, Floats]:
    """Total weight of the cells in each fold, for several numbers of folds: arrays of shape (folds, 2 M)."""
    masses = {count: np.zeros((count, 2 * n_groups)) for count in counts}
    for numbers, rows in read():
        for count in counts:
            place = folds_of(numbers, count, seed) * (2 * n_groups) + rows.cells
            own = np.bincount(place, weights=rows.weights, minlength=count * 2 * n_groups)
            masses[count] += own.reshape(count, -1)
    return masses


def _left_out(mass: Floats, fold: int | None) -> Floats:
    """Total weight of the cells without a fold."""
    left = np.asarray(mass.sum(axis=0) if fold is None else np.delete(mass, fold, axis=0).sum(axis=0))
    if not left.any():
        raise InputError(f"cv={len(mass)} leaves no rows to learn from: fit with more rows.")
    return left


@dataclass(frozen=True, eq=False)
class Target:
    """What one classifier learns: a class number of each cell, -1 where rows are not used."""

    estimator: Any
    classes: Numbers
    n_classes: int


def targets_of(spec: PosteriorSpec, mass: NDArray[Any]) -> list[Target]:
    """The classifiers of a form, in the order of its parts; see `PosteriorSpec.fit`."""
    cells, M = np.arange(len(mass)), len(mass) // 2
    label = Target(spec.label, cells % 2, 2)
    group = Target(spec.group, cells // 2, M)
    if spec.form == "known":
        return [label]
    if spec.form == "group":
        return [group]
    if spec.form == "joint":
        return [Target(spec.label, cells, 2 * M)]
    # Without a row of a label, the groups of all rows are learned.
    given = [(cells % 2 == y) if mass[y::2].any() else cells >= 0 for y in (0, 1)]
    return [label, *(replace(group, classes=np.where(used, group.classes, -1)) for used in given)]


def model_of(form: str, found: list[Learner]) -> PosteriorModel:
    """The posterior model of a form, from its classifiers."""
    if form == "known":
        return KnownGroup(found[0])
    if form == "group":
        return GroupByFeature((found[0],), np.arange(found[0].n_classes)[:, None])
    if form == "joint":
        return Joint(found[0])
    return LabelThenGroup(found[0], (found[1], found[2]))


@dataclass(frozen=True, eq=False)
class _Fit:
    """A posterior model to be fitted to all rows but those of one of `count` folds.

    `mass` is the total weight of the cells without this fold; `fold` is None where all rows are used.
    """

    spec: PosteriorSpec
    read: Reader
    count: int
    seed: int
    fold: int | None
    mass: Floats

    def __call__(self) -> PosteriorModel:
        return model_of(self.spec.form, [self._learner(one) for one in targets_of(self.spec, self.mass)])

    def _learner(self, target: Target) -> Learner:
        used = (target.classes >= 0) & (self.mass > 0)
        n = target.n_classes
        present = np.unique(target.classes[used])
        if len(present) == 1:
            return Learner(None, present, n)
        numbers = np.where(used, np.searchsorted(present, target.classes), -1)

        def batches() -> Iterator[LabelledRows]:
            for rows in self._rows(numbers):
                yield rows.X, numbers[rows.cells], rows.weights

        return Learner(fit_to_batches(target.estimator, batches, len(present)), present, n)

    def _rows(self, numbers: Numbers) -> Iterator[Examples]:
        """Rows of cells with a class number and outside the fold; a row of weight 0 is no example."""
        for which, rows in self.read():
            used = numbers[rows.cells] >= 0
            if self.fold is not None:
                used &= folds_of(which, self.count, self.seed) != self.fold
            if rows.weights is not None:
                used &= rows.weights > 0
            yield rows if used.all() else rows.take(np.flatnonzero(used))
