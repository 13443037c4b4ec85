"""Requirements that no classifier satisfies: which constraints are in conflict, and what would work.

Every built-in notion is satisfied by deciding 1 with probability one half for everyone, so a conflict needs
a bound on a rate, or a notion of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InfeasibleError
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.requirement import LOOSEST, Constraint, Requirement
from evenhand.solver.conflict import Conflict
from evenhand.solver.oracle import Problem, Vector

if TYPE_CHECKING:
    from evenhand.optimum.problem import FairnessProblem

_SHOWN = 6  # of the constraints in conflict: a message that can be read
_TRIALS = 24  # constraints that are left out to see whether the others still conflict: each is a program,
_TRIAL_ROWS = 5_000  # of a second or less
_EDGE = 1e-5  # of the way on from what is just possible, where rounding would decide
_DIGITS = 6
_SHOWN_DIGITS = 3
_STEPS, _FLAT = 60, 1e-13
_NOTHING = 1e-4  # from the value that requires nothing: next to that, rounding would decide


def refuse_infeasible(task: FairnessProblem, *, advise: bool = True) -> None:
    """Raise an InfeasibleError if it is proven that no selection meets the bounds.

    Parameters
    ----------
    task : FairnessProblem
    advise : bool, default=True
        Whether the error names a smallest set of constraints in conflict, and what would work.
    """
    found = task.conflict(task.program)
    if not found.proven:
        return
    constraint = task.constraint
    if not advise:
        raise InfeasibleError(f"no classifier satisfies {constraint}.")
    weights = _irreducible(task, found.multipliers)
    rows = np.flatnonzero(weights)
    conflict = tuple(task.linear_constraints.names[row] for row in rows)
    search = _Search(task, found)
    changes = _changes(constraint, constraint.owners(task.masses, task.groups)[rows], weights[rows])
    nearest = [(change, value) for change in changes if (value := search.nearest(change)) is not None]
    works = search.widened(constraint)
    raise InfeasibleError(
        _message(constraint, conflict, works, nearest),
        conflict=conflict,
        works=works,
        nearest={change.parameter: value for change, value in nearest},
    )


def _message(
    constraint: Constraint,
    conflict: tuple[ConstraintName, ...],
    works: Constraint | None,
    nearest: list[tuple[_Change, float]],
) -> str:
    listed = "; ".join(str(name) for name in conflict[:_SHOWN])
    more = f" and {len(conflict) - _SHOWN} more" if len(conflict) > _SHOWN else ""
    single = [repr(change.part_at(shown(change.name, value))) for change, value in nearest]
    said = [f"no classifier satisfies {constraint}: these cannot hold together: {listed}{more}."]
    if single and len(constraint.requirements) > 1:
        said.append(f"With the others as they are, {' or '.join(single)} would work.")
    if works is not None:
        said.append(f"It becomes feasible at {_rounded(works)}.")
    elif not single:
        said.append("No tolerance makes it possible.")
    return " ".join(said)


def shown(parameter: str, value: float) -> float:
    """A tolerance, bound or margin with few digits, rounded to the side that is less strict.

    Examples
    --------
    >>> shown("at_least", 0.62782248), shown("at_most", 0.44193557)
    (0.627, 0.442)
    """
    looser = ROUND_CEILING if LOOSEST[parameter] == 1 else ROUND_FLOOR
    rounding = Context(prec=_SHOWN_DIGITS, rounding=looser)
    return float(rounding.create_decimal(repr(float(value))))


def _rounded(constraint: Constraint) -> Constraint:
    """The requirement with numbers that are short, and not stricter."""
    changed = deepcopy(constraint)
    for part in changed.requirements:
        vars(part).update({name: shown(name, value) for name, value in part.numbers.items()})
    return changed


def _irreducible(task: FairnessProblem, multipliers: Vector) -> Vector:
    """Multipliers of a smallest conflict: no constraint can be left out, as far as the trials go."""
    problem, kept = task.program, multipliers.copy()
    order = sorted(np.flatnonzero(kept), key=lambda row: abs(kept[row]) * np.abs(problem.A[row]).max())
    for row in order[:_TRIALS]:
        rest = np.flatnonzero(kept)
        rest = rest[rest != row]
        if not kept[row] or not len(rest):
            continue
        fewer = replace(problem, A=problem.A[rest], lo=problem.lo[rest], hi=problem.hi[rest])
        found = task.conflict(fewer, rows=_TRIAL_ROWS)
        if found.proven:
            kept = np.zeros_like(kept)
            kept[rest] = found.multipliers
    return kept


@dataclass(frozen=True, eq=False)
class _Change:
    """One parameter of one requirement, from its value to the one that requires nothing."""

    constraint: Constraint
    part: int
    name: str

    @property
    def parameter(self) -> str:
        """Its name for ``set_params`` of the whole requirement."""
        names = list(self.constraint._named_parts())
        return f"{names[self.part]}__{self.name}" if names else self.name

    def value(self, share: float) -> float:
        now = float(getattr(self.constraint.requirements[self.part], self.name))
        return now + share * (LOOSEST[self.name] - now)

    def at(self, share: float) -> Constraint:
        """The whole requirement with this parameter moved by a share of the way."""
        changed = deepcopy(self.constraint)
        setattr(changed.requirements[self.part], self.name, self.value(share))
        return changed

    def part_at(self, value: float) -> Requirement:
        """The requirement of this parameter with another value."""
        changed = copy(self.constraint.requirements[self.part])
        setattr(changed, self.name, value)
        return changed


def _changes(constraint: Constraint, owners: NDArray[np.intp], weights: Vector) -> Iterator[_Change]:
    """The bounds and tolerances in conflict."""
    for number, part in enumerate(constraint.requirements):
        own = weights[owners == number]
        for name in part.numbers:
            used = {"at_least": own > 0, "at_most": own < 0}.get(name, own != 0)
            if used.any():
                yield _Change(constraint, number, name)


@dataclass(frozen=True, eq=False)
class _Search:
    """Less strict requirements on the same rows, and the strictest of them that is possible.

    Multipliers that prove a requirement impossible prove the same of less strict ones, up to where their
    value is no longer negative. What is strictest lies beyond that, and the next proof starts from there. One
    or two proofs usually suffice; halving the rest each time limits their number.
    """

    task: FairnessProblem
    conflict: Conflict

    def widened(self, constraint: Constraint) -> Constraint | None:
        """Widen all tolerances and bounds together, just as far as needed; None if that is not enough."""
        share = self._smallest_share(constraint.relaxed)
        return None if share is None else constraint.relaxed(share)

    def nearest(self, change: _Change) -> float | None:
        """The value of a single parameter that is just loose enough; None if none is."""
        share = self._smallest_share(change.at)
        if share is None:
            return None
        value, unit = change.value(share), 10.0**_DIGITS
        loosest = LOOSEST[change.name]
        if abs(value - loosest) < _NOTHING:
            return loosest
        loosened = math.ceil if loosest > change.value(0.0) else math.floor
        return loosened(value * unit) / unit

    def _smallest_share(self, loosened: Callable[[float], Constraint]) -> float | None:
        if not self._conflict(loosened(1.0)).possible:
            return None
        low, high, found = 0.0, 1.0, self.conflict
        while high - low > _EDGE:
            low = self._disproven_up_to(found.multipliers, loosened, low, high)
            found = self._conflict(loosened(low))
            if found.possible:
                high = low
                break
            middle = (low + high) / 2
            halfway = self._conflict(loosened(middle))
            low, high, found = (low, middle, found) if halfway.possible else (middle, high, halfway)
        return min(1.0, high + _EDGE)

    def _disproven_up_to(
        self, multipliers: Vector, loosened: Callable[[float], Constraint], low: float, high: float
    ) -> float:
        """The share up to which multipliers prove that a requirement is impossible, as they do at `low`."""

        def value(share: float) -> float:
            problem = self._problem(loosened(share))
            return self.task.oracle.totals(multipliers @ problem.A).positive_part + problem.penalty(
                multipliers
            )

        return root(value, low, high)

    def _problem(self, constraint: Constraint) -> Problem:
        task = self.task
        A, lo, hi = constraint.linear(task.masses, task.groups).in_sums(task.masses)
        return Problem(task.program.gain, A, lo, hi, scalars=task.program.scalars)

    def _conflict(self, constraint: Constraint) -> Conflict:
        return self.task.conflict(self._problem(constraint))


def root(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a function turns from negative to positive, by false position; `low` if it does not.

    The function is mostly a straight line, which takes one step. (scipy.optimize would load a second HiGHS.)
    """
    below, above = value(low), value(high)
    if not below < 0 < above:
        return low
    for _ in range(_STEPS):
        middle = low - below * (high - low) / (above - below)
        found = value(middle)
        if abs(found) <= _FLAT or high - low <= _FLAT:
            return middle
        if found < 0:
            low, below, above = middle, found, above / 2  # halved: the other end then moves too
        else:
            high, above, below = middle, found, below / 2
    return high
