"""Ways to choose multipliers that need no solver: the paper's grid, and its dual ascent.

Both only ask what a classifier does at given multipliers: its risk, and the values of the requirement's rows.
For post-processing that is a pass over posteriors, for in-processing a refit.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from evenhand.exceptions import InputError, ToleranceWarning
from evenhand.fairness.parameters import Parameters
from evenhand.optimum.problem import FairnessProblem

__all__ = ["DualAscent", "GridSearch", "PlugIn", "Trial", "best_trial", "read_search", "warn_if_missed"]

Vector = NDArray[np.float64]

Watch = Callable[[Iterator[Any], int], Iterator[Any]]
"""Goes through steps, of which there are so many, and shows progress."""

_FEASIBLE = 1e-9
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class Trial:
    """What a classifier did at some multipliers.

    Attributes
    ----------
    multipliers : array, shape (J,)
        One per row of the requirement.
    risk : float
    values : array, shape (J,)
        The values of the rows; NaN where undefined.
    violation : float
        By how much the worst row is out of bounds; 0 if none is.
    """

    multipliers: Vector
    risk: float
    values: Vector
    violation: float

    @property
    def excess(self) -> float:
        """How far the requirement is missed."""
        return self.violation


T = TypeVar("T", bound=Trial)
T_co = TypeVar("T_co", bound=Trial, covariant=True)


class Evaluator(Protocol[T_co]):
    """Tells what a classifier does at given multipliers."""

    @property
    def problem(self) -> FairnessProblem:
        """The requirement on the rows that multipliers are chosen on."""
        ...

    def many(self, points: NDArray[np.float64]) -> Sequence[T_co]:
        """Try several multipliers, shape (k, J)."""
        ...


def best_trial(trials: Sequence[T]) -> T:
    """Give the trial of least risk among those that satisfy the requirement, else the one nearest to it."""
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
        """Try several multipliers, all passes over the rows at once, chunks side by side."""
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
    """Try all multipliers in a box, and keep the best that satisfies the requirement.

    Parameters
    ----------
    box : float
        Multipliers go from minus this to plus this.
    step : float
        Distance between them.
    budget : int
        More points than this are refused.

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

    def count(self, n_constraints: int) -> int:
        """Number of points of the grid, given the number of constraints."""
        return int(len(self.axis()) ** n_constraints)

    def run(self, evaluator: Evaluator[T], *, watch: Watch) -> list[T]:
        """Try every point.

        Parameters
        ----------
        evaluator : Evaluator
        watch : function
            Goes through steps, of which there are so many, and shows progress.

        Returns
        -------
        list of Trial
        """
        axis, n_constraints = self.axis(), len(evaluator.problem.linear_constraints)
        count = self.count(n_constraints)
        if count > self.budget:
            raise InputError(
                f"a grid of {len(axis)} values for each of {n_constraints} multipliers has {count:,} points, "
                f"and the budget is {self.budget:,}: take a larger step or a smaller box, raise budget, or "
                "use search='exact'."
            )
        points = itertools.product(axis.tolist(), repeat=n_constraints)
        chunks = iter(lambda: list(itertools.islice(points, 16 * _CHUNK)), [])
        total = math.ceil(count / (16 * _CHUNK))
        trials: list[T] = []
        for chunk in watch(chunks, total):
            tried = evaluator.many(np.array(chunk).reshape(-1, n_constraints))
            trials = [best_trial([*trials, *tried])]  # a grid is large, and only the best is asked for
        return trials


class DualAscent(Parameters):
    """Projected subgradient ascent of the dual: multipliers grow where the requirement is violated.

    Parameters
    ----------
    rate : float
        Length of the first step; step t is shorter by the root of t.
    radius : float
        Multipliers are kept within minus this and plus this.
    max_iter : int
        Largest number of steps.
    patience : int
        Stop when in so many steps neither the risk nor the violation moved by more than `settled`.
    settled : float

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
        """Climb, and give every step.

        Parameters
        ----------
        evaluator : Evaluator
        watch : function
            Goes through steps, of which there are so many, and shows progress.

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
    """One step up the dual from a trial's multipliers.

    The dual is smooth but for a kink at 0, where the slope jumps from the lower to the upper bound of a row;
    a multiplier whose row is within its bounds is drawn to 0 and stays there.
    """
    linear = evaluator.problem.linear_constraints
    lo, hi = linear.lo, linear.hi
    values = np.where(np.isnan(trial.values), np.clip(0.0, lo, hi), trial.values)
    moved = trial.multipliers - step * values
    low, high = moved + step * lo, moved + step * hi
    return np.where(low > 0, low, np.where(high < 0, high, 0.0))


def warn_if_missed(best: Trial, *, allowed: float = _FEASIBLE) -> None:
    """Say so if even the best trial violates the requirement by more than is allowed."""
    if best.violation > allowed:
        warnings.warn(
            "no multipliers that were tried satisfy the requirement, as far as the rows of the fit tell: the "
            f"nearest are out by {best.violation:.4f}.",
            ToleranceWarning,
            stacklevel=3,
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
    max_iter, budget : int
        Of a dual ascent and of a grid that are asked for by name.

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
