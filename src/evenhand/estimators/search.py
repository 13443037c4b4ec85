"""Searches for multipliers that need no solver: the paper's grid and its dual ascent.

Both need only the risk of a classifier at given multipliers and the values of the linear constraints. For
post-processing that takes a pass over the posteriors, for in-processing a refit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from evenhand.exceptions import InputError, ToleranceWarning, warn_user
from evenhand.fairness.parameters import Parameters
from evenhand.optimum.problem import FairnessProblem

__all__ = ["DualAscent", "GridSearch", "PlugIn", "Trial", "best_trial", "read_search", "warn_if_missed"]

Vector = NDArray[np.float64]

Watch = Callable[[Iterator[Any], int], Iterator[Any]]
"""Wraps an iterator of known length to show progress."""

_FEASIBLE = 1e-9
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class Trial:
    """Result of a classifier at given multipliers.

    Attributes
    ----------
    multipliers : array, shape (J,)
        One per linear constraint.
    risk : float
    values : array, shape (J,)
        The values of the constraints; NaN where undefined.
    violation : float
        How far the worst constraint is out of bounds; 0 if none is.
    """

    multipliers: Vector
    risk: float
    values: Vector
    violation: float

    @property
    def excess(self) -> float:
        """How far the requirement is violated; ranks trials that do not satisfy it."""
        return self.violation


T = TypeVar("T", bound=Trial)
T_co = TypeVar("T_co", bound=Trial, covariant=True)


class Evaluator(Protocol[T_co]):
    """Evaluates classifiers at given multipliers."""

    @property
    def problem(self) -> FairnessProblem:
        """The fairness problem that the multipliers belong to."""
        ...

    def many(self, points: NDArray[np.float64]) -> Sequence[T_co]:
        """Trials at several multipliers, shape (k, J)."""
        ...


def best_trial(trials: Sequence[T]) -> T:
    """The trial of least risk that satisfies the requirement; if none does, the one nearest to it."""
    fair = [trial for trial in trials if trial.violation <= _FEASIBLE]
    if fair:
        return min(fair, key=lambda trial: trial.risk)
    return min(trials, key=lambda trial: trial.excess)


@dataclass(frozen=True, eq=False)
class PlugIn:
    """Post-processing: the rule 1[H > 0] on rows with posteriors."""

    problem: FairnessProblem
    n_jobs: int | None = None

    def many(self, points: NDArray[np.float64]) -> list[Trial]:
        """Trials at several multipliers, evaluated in parallel chunks."""
        chunks = [points[start : start + _CHUNK] for start in range(0, len(points), _CHUNK)]
        work = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(itertools.chain.from_iterable(work(delayed(self._chunk)(chunk) for chunk in chunks)))

    def _chunk(self, points: NDArray[np.float64]) -> list[Trial]:
        program, unit = self.problem.program, self.problem.unit
        directions = program.gain + (points / unit) @ program.A
        sums = self.problem.oracle.sums(directions)
        values = sums @ program.A.T
        excess = np.maximum(program.lo - values, values - program.hi).max(axis=1, initial=0.0)
        risks = unit * (program.constant - sums @ program.gain)
        offset = self.problem.linear_constraints.k
        return [
            Trial(point, float(risk), value + offset, float(over))
            for point, risk, value, over in zip(points, risks, values, excess, strict=True)
        ]


class GridSearch(Parameters):
    """Try all multipliers on a grid and keep the best that satisfies the requirement.

    Parameters
    ----------
    box : float, default=1.0
        Multipliers range from minus this to plus this; those of one-sided bounds from or to 0.
    step : float, default=0.1
        Distance between neighbouring values.
    budget : int, default=200_000
        Largest number of grid points; a larger grid is an error.

    Examples
    --------
    >>> GridSearch(step=0.5).axis().tolist()
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    """

    def __init__(self, box: float = 1.0, step: float = 0.1, budget: int = 200_000) -> None:
        self.box = box
        self.step = step
        self.budget = budget

    def _check(self) -> None:
        _check_positive(self, "box", "step", "budget")

    def __repr__(self) -> str:
        return f"GridSearch(box={self.box!r}, step={self.step!r}, budget={self.budget!r})"

    def axis(self) -> Vector:
        """The values that each multiplier takes."""
        self._check()
        half = math.floor(self.box / self.step + 1e-9)
        return np.asarray(self.step * np.arange(-half, half + 1), dtype=np.float64)

    def run(self, evaluator: Evaluator[T], *, watch: Watch) -> list[T]:
        """Try every point of the grid, and return the best trial.

        Parameters
        ----------
        evaluator : Evaluator
        watch : function
            Wraps the iteration to show progress.

        Returns
        -------
        list of Trial
        """
        axis, linear = self.axis(), evaluator.problem.linear_constraints
        axes = [
            axis[(axis == 0) | np.isfinite(np.where(axis > 0, lo, hi))].tolist()
            for lo, hi in zip(linear.lo, linear.hi, strict=True)
        ]
        count = math.prod(map(len, axes))
        if count > self.budget:
            raise InputError(
                f"a grid of {max(map(len, axes))} values for each of {len(axes)} multipliers has {count:,} "
                f"points, but the budget is {self.budget:,}: use a larger step, a smaller box, a larger "
                "budget or search='exact'."
            )
        points = itertools.product(*axes)
        chunks = iter(lambda: list(itertools.islice(points, 16 * _CHUNK)), [])
        total = math.ceil(count / (16 * _CHUNK))
        trials: list[T] = []
        for chunk in watch(chunks, total):
            tried = evaluator.many(np.array(chunk).reshape(-1, len(axes)))
            trials = [best_trial([*trials, *tried])]  # a grid can be too large to keep all
        return trials


class DualAscent(Parameters):
    """Projected subgradient ascent of the dual: multipliers grow where the requirement is violated.

    Parameters
    ----------
    rate : float, default=1.0
        Length of the first step; step t is shorter by a factor of the square root of t.
    radius : float, default=10.0
        Multipliers are clipped to the range from minus this to plus this.
    max_iter : int, default=500
        Largest number of steps.
    patience : int, default=20
        Stop when neither the risk nor the violation has moved by more than `settled` in this many steps.
    settled : float, default=1e-4
        See `patience`.

    Examples
    --------
    >>> DualAscent(rate=0.5)
    DualAscent(rate=0.5, radius=10.0, max_iter=500, patience=20, settled=0.0001)
    """

    def __init__(
        self,
        rate: float = 1.0,
        radius: float = 10.0,
        max_iter: int = 500,
        patience: int = 20,
        settled: float = 1e-4,
    ) -> None:
        self.rate = rate
        self.radius = radius
        self.max_iter = max_iter
        self.patience = patience
        self.settled = settled

    def _check(self) -> None:
        _check_positive(self, "rate", "radius", "max_iter", "patience")

    def __repr__(self) -> str:
        return (
            f"DualAscent(rate={self.rate!r}, radius={self.radius!r}, max_iter={self.max_iter!r}, "
            f"patience={self.patience!r}, settled={self.settled!r})"
        )

    def run(self, evaluator: Evaluator[T], *, watch: Watch) -> list[T]:
        """Run the ascent, and return the trial of every step.

        Parameters
        ----------
        evaluator : Evaluator
        watch : function
            Wraps the iteration to show progress.

        Returns
        -------
        list of Trial
        """
        self._check()
        point = np.zeros(len(evaluator.problem.linear_constraints))
        trials: list[T] = []
        for t in watch(iter(range(int(self.max_iter))), int(self.max_iter)):
            [trial] = evaluator.many(point[None])
            trials.append(trial)
            if self._has_settled(trials):
                break
            step = self.rate / math.sqrt(t + 1)
            point = np.clip(ascended(trial, evaluator, step), -self.radius, self.radius)
        return trials

    def _has_settled(self, trials: Sequence[Trial]) -> bool:
        last = trials[-int(self.patience) :]
        if len(last) < self.patience:
            return False
        moved = [np.ptp([getattr(trial, name) for trial in last]) for name in ("risk", "violation")]
        return bool(max(moved) <= self.settled)


def ascended(trial: Trial, evaluator: Evaluator[Any], step: float) -> Vector:
    """Multipliers after one step of dual ascent.

    The dual is smooth except for a kink at 0, where the slope jumps by the distance between the bounds of a
    constraint; the multiplier of a constraint within its bounds shrinks to 0 and stays there.
    """
    linear = evaluator.problem.linear_constraints
    lo, hi = linear.lo, linear.hi
    values = np.where(np.isnan(trial.values), np.clip(0.0, lo, hi), trial.values)
    moved = trial.multipliers - step * values
    low, high = moved + step * lo, moved + step * hi
    return np.where(low > 0, low, np.where(high < 0, high, 0.0))


def warn_if_missed(best: Trial) -> None:
    """Warn if even the best trial violates the requirement."""
    if best.violation > _FEASIBLE:
        warn_user(
            "none of the multipliers tried satisfies the requirement on the rows of fit: the nearest violate "
            f"it by {best.violation:.4f}.",
            ToleranceWarning,
        )


def _check_positive(parameters: Parameters, *names: str) -> None:
    for name in names:
        value = getattr(parameters, name)
        if not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InputError(f"{name} should be a positive number, but is {value!r}.")


def read_search(search: Any, *, max_iter: int = 500, budget: int = 200_000) -> GridSearch | DualAscent | None:
    """Read the parameter ``search``; None stands for the exact solver.

    Parameters
    ----------
    search : {"exact", "dual", "grid"}, DualAscent or GridSearch
    max_iter : int, default=500
        Of "dual".
    budget : int, default=200_000
        Of "grid".

    Returns
    -------
    GridSearch, DualAscent or None
    """
    named = {"exact": None, "dual": DualAscent(max_iter=max_iter), "grid": GridSearch(budget=budget)}
    if isinstance(search, str) and search in named:
        return named[search]
    if not isinstance(search, GridSearch | DualAscent):
        raise InputError(
            f"search should be 'exact', 'dual', 'grid', a DualAscent or a GridSearch, but is {search!r}."
        )
    search._check()
    return search
