"""Internal requirements for a guarantee: margins in standard errors of each group's test.

A group of many rows needs a small margin to pass its test, and a group of few rows a large one. A requirement
that is tighter by the same share for all groups makes the large groups pay for the small ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import VacuousConstraintWarning
from evenhand.groups.groups import GroupName, Members
from evenhand.requirements.bounds import Bound, bounded_groups
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint, Requirement, WithMargins
from evenhand.requirements.statistic import SelectedShare, Statistic

Floats = NDArray[np.float64]

_MULTIPLES = (5.0, *np.arange(4.0, 0.0, -0.125).tolist())
"""Margins in standard errors of the test. A test at level 0.05 fails if a rate is seen less than 1.6 of them
inside its limit. Test and fit have errors of about one each, so that most walks end between 4 and 1. Starting
at 4 loses guarantees, and starting at 8 costs accuracy where there is none (docs/guarantee.md)."""


def internal_requirements(
    constraint: Constraint, rates: CellRates, n_rows: int, *, resolved: Constraint | None = None
) -> Iterator[Constraint]:
    """Requirements to fit classifiers for, from the strictest on, of which the loosest is the given one.

    Each group has a margin of a number of standard errors of its test, at most up to parity, and this number
    falls from 5 to 0. Nothing depends on the rows that classifiers are tested on, so they can be tested in
    this order until the first fails (`guaranteed` of ``guarantee``). Not all of them need to be feasible.

    Parameters
    ----------
    constraint : Constraint
        The requirement to guarantee.
    rates : CellRates
        Rates about which standard errors are computed: those of the best classifier under the requirement.
    n_rows : int
        Number of held-out rows.
    resolved : Constraint, default=None
        The same requirement with the rates of its references, if it has any.

    Returns
    -------
    iterator of Constraint

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand import DemographicParity, Groups
    >>> from evenhand.requirements.rates import CellRates
    >>> masses = np.array([[0.4, 0.5], [0.04, 0.06]])
    >>> rates = CellRates(Groups.product({"sex": ["F", "M"]}), masses, masses / 2)
    >>> steps = list(internal_requirements(DemographicParity(difference=0.1), rates, 1000))
    >>> steps[-1]
    DemographicParity(difference=0.1)
    >>> steps[20]
    DemographicParity(difference=0.1) with margins of 0.0086 to 0.077
    """
    margins = _Margins.of(constraint if resolved is None else resolved, rates, n_rows)
    for multiple, looser in pairwise((*_MULTIPLES, 0.0)):
        # Of those that are all exact parity, one is enough.
        if constraint.bounds or not margins.exhausted(looser):
            yield margins.times(multiple, constraint)
    yield constraint


def with_margin(
    constraint: Constraint,
    rates: CellRates,
    n_rows: float,
    errors: float,
    *,
    resolved: Constraint | None = None,
) -> Constraint:
    """A requirement that is tighter by a number of standard errors of each group, at most up to parity.

    Parameters
    ----------
    constraint, rates, n_rows, resolved
        As of :func:`internal_requirements`.
    errors : float
        The number of standard errors.

    Returns
    -------
    Constraint
    """
    asked = constraint if resolved is None else resolved
    return _Margins.of(asked, rates, n_rows).times(errors, constraint)


@dataclass(frozen=True, eq=False)
class _Margins:
    """Standard errors of linear constraints, and how far the ends of each can move, shape (J,)."""

    names: tuple[ConstraintName, ...]
    error: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, constraint: Constraint, rates: CellRates, n_rows: float) -> _Margins:
        # The problem that was solved has warned already.
        with warnings.catch_warnings(action="ignore", category=VacuousConstraintWarning):
            names = constraint.linear(rates.masses, rates.groups).names
        owners = constraint.owners(rates.masses, rates.groups)
        per_mass = n_rows / float(rates.mass.sum())
        tables = [_of_requirement(part, rates, per_mass) for part in constraint.requirements]
        error, lower, upper = np.zeros((3, len(names)))
        for j, (name, owner) in enumerate(zip(names, owners.tolist(), strict=True)):
            error[j], lower[j], upper[j] = tables[owner][name.statistic, name.group, name.stratum]
            side = name.side.split(" (")[0]  # a repeated constraint is numbered
            if side in ("highest", "at most"):
                lower[j] = np.nan
            elif side in ("lowest", "at least"):
                upper[j] = np.nan
        return cls(names, error, np.nan_to_num(lower), np.nan_to_num(upper))

    def times(self, multiple: float, constraint: Constraint) -> WithMargins:
        """The requirement with margins of so many standard errors, as far as there is room."""
        lower, upper = (
            dict(zip(self.names, np.minimum(multiple * self.error, room).tolist(), strict=True))
            for room in (self.lower, self.upper)
        )
        return WithMargins(constraint, lower=lower, upper=upper)

    def exhausted(self, multiple: float) -> bool:
        """Whether margins of so many standard errors are exact parity."""
        return all(bool((multiple * self.error >= room).all()) for room in (self.lower, self.upper))


Table = dict[tuple[str, GroupName, GroupName | None], Floats]
"""By statistic, group and stratum: a standard error, and how far either end can move; NaN is no end."""


def _of_requirement(part: Requirement, rates: CellRates, per_mass: float) -> Table:
    found: Table = {}
    if isinstance(part, Bound):
        family = bounded_groups(rates.groups, part.groups)
        for group, margin in zip(family.names, _of_bound(part, rates, family, per_mass), strict=True):
            found[part.label, group, None] = margin
    elif isinstance(part, Notion):
        for stratum, cells, family in part.comparisons(rates.groups):
            for statistic in part.statistics:
                margins = _of_notion(part, statistic, rates.among(cells), family, per_mass)
                for group, margin in zip(family.names, margins, strict=True):
                    found[statistic.name, group, stratum] = margin
    return found


def _of_notion(
    notion: Notion, statistic: Statistic, rates: CellRates, family: Members, per_mass: float
) -> Floats:
    who = np.vstack([family.matrix, np.ones(len(rates.groups), np.bool_)])  # each group, and everybody
    sizes, shares = per_mass * statistic.counts(rates, who)[1], np.nan_to_num(statistic.values(rates, who))
    n, total, q, overall = sizes[:-1], sizes[-1], shares[:-1], shares[-1]
    by_difference, tolerance = notion.compares_by == "difference", notion.tolerance
    slack, factor = (tolerance, 1.0) if by_difference else (1 - tolerance, tolerance)
    places = list(notion.places(family))
    if places:
        reference = q[places]
        error = np.sqrt(_variance(q, n) + factor**2 * _variance(reference, n[places]))
        return _rows(error, slack, slack) if by_difference else _rows(error, np.nan, slack * reference)
    if notion.against == "groups":
        # Two groups share the room between them.
        room = slack / 2 if by_difference else slack * q.max(initial=0.0) / 2
        return _rows(np.sqrt(_variance(q, n)), room, room)
    part, others = n / max(total, 1.0), total - n
    rest = np.clip((total * overall - n * q) / np.maximum(others, 1.0), 0.0, 1.0)
    # factor q - q_g, in the shares of the group and of all others
    error = np.sqrt(
        (1 - factor * part) ** 2 * _variance(q, n) + (factor * (1 - part)) ** 2 * _variance(rest, others)
    )
    if by_difference:
        return _rows(error, slack, slack)
    return _rows(error, slack * (1 - overall), slack * overall)


def _of_bound(bound: Bound, rates: CellRates, family: Members, per_mass: float) -> Floats:
    statistic = bound.rate_statistic
    lower, upper = bound.rooms(rates.groups)
    q = np.nan_to_num(statistic.values(rates, family.matrix))
    if isinstance(statistic, SelectedShare):  # hits - t * selected, per row of the group
        mass, selected = (family.matrix @ sums.sum(axis=1) for sums in (rates.mass, rates.selected))
        share = np.divide(selected, mass, out=np.zeros_like(mass), where=mass > 0)
        return _rows(share * np.sqrt(_variance(q, per_mass * selected)), lower * share, upper * share)
    n = family.matrix @ (per_mass * (np.array(statistic.mask) * rates.mass).sum(axis=1))
    return _rows(np.sqrt(_variance(q, n)), lower, upper)


def _rows(error: Floats, lower: Floats | float, upper: Floats | float) -> Floats:
    """Standard error and rooms of each group, shape (G, 3)."""
    return np.column_stack(np.broadcast_arrays(error, lower, upper))


def _variance(share: Floats, n: Floats) -> Floats:
    """Variance of an observed share; shares of 0 and 1 are moved inwards by what n rows cannot exclude."""
    inside = (share * n + 1) / (n + 2)
    return np.asarray(inside * (1 - inside) / np.maximum(n, 1.0))
