"""The number that a frontier varies: the tolerances of a requirement, or one of its bounds.

Both are a *slack*: 0 is the strictest value, exact parity or nobody selected, and a larger one is easier.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from evenhand.auditing.group_rates import Rate
from evenhand.auditing.tally import Tally
from evenhand.exceptions import InputError
from evenhand.guarantee.intervals import critical_value
from evenhand.optimum.problem import FairnessProblem
from evenhand.requirements.bounds import RateBound, bounded_groups
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import SELECTION

Side = Literal["at_least", "at_most"]


@dataclass(frozen=True, eq=False)
class Axis:
    """A requirement with one number that varies.

    Attributes
    ----------
    constraint : Constraint
    part : int, default=None
        Which of its requirements is the bound that varies; None if the tolerances do.
    side : {"at_least", "at_most"}, default=None
        Which of its numbers.
    """

    constraint: Constraint
    part: int | None = None
    side: Side | None = None

    @classmethod
    def of(cls, constraint: Constraint, over: str | None) -> Axis:
        """The tolerances of a requirement, or the bound that `over` names."""
        named = [one for n, part in enumerate(constraint.requirements) for one in _named_sides(n, part)]
        names = " or ".join(dict.fromkeys(repr(name) for name, *_ in named))
        if over is None:
            if constraint.notions:
                return cls(constraint)
            advice = f": name a bound by over={names}" if named else ""
            raise InputError(f"{constraint!r} has no tolerance to vary{advice}.")
        found = [(n, side) for name, n, side in named if name == over]
        if len(found) != 1:
            several = "several bounds of that name" if found else "no such bound"
            raise InputError(f"over={over!r}: {constraint!r} has {several}; over can be {names or None}.")
        return cls(constraint, *found[0])

    @property
    def bound(self) -> RateBound | None:
        """The bound that varies; None if the tolerances do."""
        part = None if self.part is None else self.constraint.requirements[self.part]
        return part if isinstance(part, RateBound) else None

    @property
    def label(self) -> str:
        """The name of the number that varies."""
        if self.bound is None:
            return "tolerance"
        where = "" if self.bound.groups == "population" else " of every group"
        return f"{self.bound.label}{where}, {'at most' if self.side == 'at_most' else 'at least'}"

    @property
    def parameter(self) -> str:
        """The name of the bound for ``set_params`` of the requirement; empty if the tolerances vary."""
        if self.part is None or self.side is None:
            return ""
        parts = list(self.constraint._named_parts())
        return f"{parts[self.part]}__{self.side}" if parts else self.side

    @property
    def reversed(self) -> bool:
        """Whether a larger number is stricter."""
        if self.bound is None:
            return self.constraint.notions[0].compares_by == "ratio"
        return self.side == "at_least"

    def number(self, slack: float) -> float:
        """The tolerance or bound of a slack, and the slack of a number."""
        return 1 - slack if self.reversed else slack

    def at(self, slack: float) -> Constraint:
        """The requirement with this slack; everything that does not vary stays as it is."""
        if self.part is None or self.side is None:
            return self.constraint.with_slack(slack)
        changed = deepcopy(self.constraint)
        setattr(changed.requirements[self.part], self.side, self.number(slack))
        return changed

    def varying(self, problem: FairnessProblem) -> set[ConstraintName]:
        """The linear constraints whose number varies."""
        constraint = problem.constraint  # with the rates that groups should not be worse than
        owners = constraint.owners(problem.masses, problem.groups)
        moves = [
            isinstance(part, Notion) if self.part is None else number == self.part
            for number, part in enumerate(constraint.requirements)
        ]
        names = problem.linear_constraints.names
        return {name for name, owner in zip(names, owners, strict=True) if moves[owner]}

    def rate(self, counted: Tally, confidence: float) -> Rate | None:
        """The bounded rate of counted decisions, of the group that has most or least of it."""
        bound = self.bound
        if bound is None:
            return None
        members = bounded_groups(counted.groups, bound.groups).matrix
        found = counted.share(bound.rate_statistic, members).estimate(critical_value(confidence))
        if np.isnan(found.value).all():
            return Rate(np.nan, np.nan, np.nan)
        worst = int(np.nanargmax(found.value) if self.side == "at_most" else np.nanargmin(found.value))
        return Rate(*(float(limit[worst]) for limit in (found.value, found.low, found.high)))

    def expected(self, rates: CellRates) -> float:
        """The same according to the posteriors; NaN where nobody has such a rate."""
        bound: Any = self.bound
        values = bound.rate_statistic.values(rates, bounded_groups(rates.groups, bound.groups).matrix)
        known = values[~np.isnan(values)]
        return float(known.max() if self.side == "at_most" else known.min()) if len(known) else np.nan


def _named_sides(number: int, part: Any) -> Iterator[tuple[str, int, Side]]:
    """The numbers of a bound that can vary: the names of each, the place of the bound, and its side."""
    for side in get_args(Side) if isinstance(part, RateBound) else ():
        if getattr(part, side) is not None:
            if part.rate_statistic == SELECTION and side == "at_most":
                yield "capacity", number, side
            yield part.label, number, side
