"""Out-of-fold or held-out posteriors of the training rows, and the model for new rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from evenhand.data.checks import check_fraction
from evenhand.display.progress import track
from evenhand.exceptions import EvenhandError, InputError, reason
from evenhand.posteriors.calibration import (
    CellCalibrator,
    GroupCalibrator,
    fit_calibrator,
    fit_group_calibrator,
)
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.models import (
    Averaged,
    Calibrated,
    Encoded,
    PosteriorModel,
    Product,
    Restricted,
    calibrated,
    within,
)
from evenhand.posteriors.spec import PosteriorSpec
from evenhand.posteriors.table_encoder import Encoder

Floats = NDArray[np.float64]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]

RunFolds = Callable[[Sequence["Fold"]], Iterable["Fitted"]]
"""Where folds are fitted: calls each of them with the examples, and returns what they return, in order."""

GROUP_FOLDS = 3
"""Of P(S | x): fewer folds cost little accuracy there, unlike for P(Y | x) and P(S | x, y)."""


@dataclass(frozen=True, eq=False)
class Estimated:
    """Posteriors of the rows that the fair rule is optimised on.

    Attributes
    ----------
    rows : array of int
        Row numbers in the examples.
    cells : array, shape (k, M, L) or (k, 1, L)
        Their posteriors, by models that were not fitted to them.
    model : PosteriorModel
        For new rows.
    final : array
        Posteriors of the same rows by `model`.
    """

    rows: NDArray[np.intp]
    cells: Floats
    model: PosteriorModel
    final: Floats


def cross_fit(
    spec: PosteriorSpec,
    examples: Examples,
    *,
    cv: Any = 5,
    average: bool = False,
    calibration: str | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    run: RunFolds | None = None,
) -> Estimated:
    """Posteriors of rows by models that were not fitted to them, and the model for new rows.

    Parameters
    ----------
    spec : PosteriorSpec
    examples : Examples
    cv : int, float, splitter or iterable of splits, default=5
        Each row's posterior is the mean over the models of the folds that left it out. Where
        this is an integer, models of P(S | x) use at most three folds. A float holds out this share of the
        rows, which are optimised on alone.
    average : bool, default=False
        Whether the model for new rows is the mean of the folds' models or one fitted to all rows.
    calibration : {"auto"}, default=None
        How to correct the posteriors, fitted to the rows that are optimised on.
    n_jobs : int, default=None
        Number of folds fitted in parallel.
    verbose : bool, default=False
        Whether to show progress.
    run : function, default=None
        Fits the folds elsewhere, to the same examples. By default they are fitted here, `n_jobs` at a time.

    Returns
    -------
    Estimated
    """
    allowed = None
    if examples.known is not None:  # what a row knows is applied to posteriors that are calibrated without it
        examples, allowed = replace(examples, allowed=None), examples.allowed
    # A splitter may keep rows apart, such as later years: then the steps of pipelines are fitted in folds.
    number = cv is None or isinstance(cv, int | float | np.integer)
    spec, encoder = spec.sharing(examples, steps=number)
    if encoder is not None:
        examples = examples.encoded(encoder)
    splits = [] if spec.frozen else _splits(cv, examples, spec.seed)
    average = average or isinstance(cv, float)
    factors = []
    for whole in spec.factors:
        factor, own = whole, None
        if encoder is None and len(spec.factors) > 1:  # each may have an encoding of its own
            factor, own = whole.sharing(examples, steps=number)
        rows = examples if own is None else examples.encoded(own)
        if factor.frozen:
            part = _as_it_is(factor, rows)
        else:
            fewer = factor.form == "group" and number and len(splits) > GROUP_FOLDS
            folds = _splits(GROUP_FOLDS, examples, spec.seed) if fewer else splits
            given = None if run is None else encoder or own  # elsewhere the examples are as they were
            tasks = [Fold(factor, train, test, given) for train, test in folds]
            where = _run_here(rows, n_jobs) if run is None else run
            part = _joined(tasks, rows, where, average=average, verbose=verbose)
        factors.append(part if own is None else replace(part, model=Encoded(own, part.model)))
    found = factors[0] if len(factors) == 1 else _product(examples, *factors)
    if calibration is not None:
        found = calibrate(found, spec, examples)
    if allowed is not None:
        cells, final = (within(p, allowed[found.rows, :, None]) for p in (found.cells, found.final))
        found = replace(found, cells=cells, final=final, model=Restricted(found.model))
    return found if encoder is None else replace(found, model=Encoded(encoder, found.model))


def _product(examples: Examples, label: Estimated, group: Estimated) -> Estimated:
    """Posteriors of the cells from P(Y | x) and P(S | x)."""
    # A frozen factor has all rows, the other those of its folds.
    rows = np.intersect1d(label.rows, group.rows)
    one, other = np.searchsorted(label.rows, rows), np.searchsorted(group.rows, rows)
    model = Product(label.model, group.model, examples.seen)
    allowed = None if examples.allowed is None else examples.allowed[rows]
    cells = model.joined(label.cells[one], group.cells[other], allowed)
    final = model.joined(label.final[one], group.final[other], allowed)
    return Estimated(rows, cells, model, final)


def _as_it_is(spec: PosteriorSpec, examples: Examples) -> Estimated:
    model = spec.fit(examples)
    cells = model.cells(examples.X, examples.allowed)
    return Estimated(np.arange(len(examples)), cells, model, cells)


def calibrate(found: Estimated, spec: PosteriorSpec, examples: Examples) -> Estimated:
    """Posteriors and model, corrected on the rows that posteriors were found for."""
    used = replace(examples, X=None).take(found.rows)
    p = found.cells.reshape(len(used), -1)
    curves: CellCalibrator | GroupCalibrator
    if spec.form == "known":
        curves = fit_group_calibrator(p, used)
    else:
        curves = fit_calibrator(p, used, levels=spec.levels, proxies=spec.form == "proxy")
    return replace(
        found,
        cells=calibrated(curves, found.cells, used.allowed),
        final=calibrated(curves, found.final, used.allowed),
        model=Calibrated(found.model, curves),
    )


Fitted = tuple[PosteriorModel, Any]
"""The model of a fold, and the posteriors of the rows that it left out."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold: a function of the examples that fits a model and gives the posteriors of the rows left out.

    Attributes
    ----------
    spec : PosteriorSpec
    train, test : array of int, or None
        None fits all rows, and gives no posteriors.
    encoder : TableEncoder, Preparation or None
        For the examples, if they are not encoded yet.
    """

    spec: PosteriorSpec
    train: NDArray[np.intp] | None
    test: NDArray[np.intp] | None
    encoder: Encoder | None

    def __call__(self, examples: Examples) -> Fitted:
        """Fit the model."""
        if examples.known is not None:  # as in `cross_fit`
            examples = replace(examples, allowed=None)
        if self.encoder is not None:
            examples = examples.encoded(self.encoder)
        if self.train is None or self.test is None:
            return self.spec.fit(examples), None
        model = self.spec.fit(examples.take(self.train))
        return model, _cells_left_out(model, examples.take(self.test))


def _cells_left_out(model: PosteriorModel, part: Examples) -> Floats:
    try:
        return model.cells(part.X, part.allowed)
    except (EvenhandError, MemoryError):
        raise
    except Exception as error:  # such as a category that is only among these rows
        raise InputError(
            f"a model fitted to other rows cannot score {len(part):,} rows that were left out of its fit: "
            f"{reason(error)}"
        ) from error


def _run_here(examples: Examples, n_jobs: int | None) -> RunFolds:
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    return lambda folds: parallel(delayed(fold)(examples) for fold in folds)


def _joined(
    folds: Sequence[Fold], examples: Examples, run: RunFolds, *, average: bool, verbose: bool
) -> Estimated:
    """Out-of-fold posteriors of all rows, and one model of all folds or of all rows."""
    tasks = [*folds] if average else [*folds, replace(folds[0], train=None, test=None)]
    done = list(track(run(tasks), what="fitting posteriors", total=len(tasks), verbose=verbose))
    sums = np.zeros((len(examples), *done[0][1].shape[1:]))
    times = np.zeros(len(examples))
    for (_, cells), fold in zip(done, folds, strict=False):
        sums[fold.test] += cells
        times[fold.test] += 1
    rows = np.flatnonzero(times)
    several = average and len(done) > 1
    model: PosteriorModel = Averaged(tuple(model for model, _ in done)) if several else done[-1][0]
    cells, part = sums[rows] / times[rows, None, None], examples.take(rows)
    final = model.cells(part.X, part.allowed)
    return Estimated(rows, cells, model, final)


def _splits(cv: Any, examples: Examples, seed: int) -> list[Split]:
    """Folds, stratified by cell; of a fraction one, which leaves out this share of the rows."""
    if isinstance(cv, float):
        check_fraction("cv", cv)
        return [examples.split(cv, seed)]
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        largest = int(np.bincount(examples.split_by).max())
        if cv < 2 or len(examples) < 2:
            raise InputError(f"cv must be at least 2 and at most the number of rows, got {cv}.")
        if largest >= 2:
            cv = StratifiedKFold(min(int(cv), largest), shuffle=True, random_state=seed)
        else:
            cv = KFold(min(int(cv), len(examples)), shuffle=True, random_state=seed)
    try:
        splitter = check_cv(cv, examples.split_by, classifier=True)
        with warnings.catch_warnings():  # cells with fewer rows than folds are expected
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            splits = list(splitter.split(np.zeros(len(examples)), examples.split_by))
    except (TypeError, ValueError) as error:
        raise InputError(f"cv={cv!r} does not split the rows: {error}") from error
    if not splits or any(not len(train) or not len(test) for train, test in splits):
        raise InputError(f"cv={cv!r} gives folds without rows.")
    return [(np.asarray(train), np.asarray(test)) for train, test in splits]
