"""Bounds on rates, as requirements besides parity.

A capacity, a floor for the rate at which the sick are found, a ceiling for false alarms, and "no group worse
off" are linear in the selection rates of the cells, like parity, and join with it by ``&``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_choice, check_number, near_names
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups, Members
from evenhand.groups.names import GroupName
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.constraints import LinearConstraints, named
from evenhand.requirements.measurement import BoundMeasurement
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import AllOf, Comparison, Constraint, Requirement, WithMargins
from evenhand.requirements.statistic import (
    ACCURACY,
    ERROR,
    FALSE_POSITIVE,
    PRECISION,
    SELECTION,
    TRUE_POSITIVE,
    SelectedShare,
    Statistic,
)

Floats = NDArray[np.float64]
Scope = Literal["population", "intersectional", "independent"]
EVERYBODY = GroupName((), ())
"""The name of the population."""
_MOVED = 0.5
"""How far bounds move towards 0 or 1, where tolerances move to exact parity."""
_MARGIN = 0.2
"""How far a rate then has to be above its reference: a rate of every group has less room than a bound."""

_BOUNDED = {part.name: part for part in (SELECTION, TRUE_POSITIVE, FALSE_POSITIVE, PRECISION, ACCURACY)}
BOUNDED_RATES = tuple(_BOUNDED)
"""The names of the rates of `RateBound`."""
_COMPARED = {part.name: part for part in (SELECTION, TRUE_POSITIVE, FALSE_POSITIVE, ERROR, ACCURACY)}


def bounded_groups(groups: Groups, scope: Scope) -> Members:
    """The population, or the groups of a requirement."""
    if scope == "population":
        return Members((EVERYBODY,), np.ones((1, len(groups)), np.bool_))
    return groups.members(scope)


class Bound(Requirement):
    """A bound on a rate, in the population or in each group."""

    rate: Any
    _statistic: Any = None
    """The rate of actions, where the bound is written for these."""
    _known: ClassVar[Mapping[str, Any]]
    """The rates of two decisions, by name."""

    @property
    def rate_statistic(self) -> Any:
        """The rate that is bounded: a Statistic, a SelectedShare, or an ActionStatistic."""
        return self._named() if self._statistic is None else self._statistic

    def _named(self) -> Any:
        """The rate that a name stands for, or an error with the names that may have been meant."""
        if not isinstance(self.rate, str) or self.rate not in self._known:
            near = near_names(self.rate, tuple(self._known), "The rates are")
            raise InputError(f"{type(self).__name__}: unknown rate {self.rate!r}. {near}")
        return self._known[self.rate]

    @property
    def label(self) -> str:
        """The name of the rate."""
        return str(self.rate_statistic.name)

    def _check_name(self) -> None:
        """Raise an InputError for a misspelt rate; other names are those of actions."""
        rate, names = self.rate, (*self._known, *BOUNDED_RATES)
        meant = isinstance(rate, str) and (rate in names or near_names(rate, names, "").startswith("Did"))
        if meant or rate is None:
            self._named()

    def limits(self, groups: Groups) -> tuple[Floats, Floats]:
        """At least and at most, for each group; NaN where there is no bound."""
        raise NotImplementedError

    def rooms(self, groups: Groups) -> tuple[Floats, Floats]:
        """How far at least and at most move to where they are strictest; NaN where there is no bound."""
        (least, most), (high, low) = self.limits(groups), self.tightened(1.0).limits(groups)
        return high - least, most - low

    def comparisons(self, groups: Groups) -> Iterator[Comparison]:
        """The groups whose rates are bounded."""
        yield None, np.ones(len(groups), np.bool_), bounded_groups(groups, self.groups)

    def _size(self, groups: Groups) -> int:
        return 2 if self.groups == "population" else 2 * groups.size(self.groups)

    def _linear(self, masses: Floats, groups: Groups) -> LinearConstraints:
        family = bounded_groups(groups, self.groups)
        at_least, at_most = self.limits(groups)
        A, k = self.rate_statistic.linear(masses, family.matrix)
        keep = ~np.isnan(k) & ~(np.isnan(at_least) & np.isnan(at_most))
        return LinearConstraints(
            named(self.label, self.label, family.names, keep),
            C=A[keep],
            k=k[keep],
            lo=np.where(np.isnan(at_least), -np.inf, at_least)[keep],
            hi=np.where(np.isnan(at_most), np.inf, at_most)[keep],
            undefined=named(self.label, self.label, family.names, np.isnan(k)),
        )

    def _slopes(self, linear: LinearConstraints, rates: CellRates, scalars: Floats) -> Floats:  # noqa: ARG002
        one = np.ones(len(linear))
        return np.array([0.0 * one, one, one])

    def measure(self, rates: CellRates) -> tuple[BoundMeasurement]:
        """The rate of counted decisions, from :func:`evenhand.cell_rates`, and its bounds."""
        self._prepare(rates.groups)
        return self._measure(rates)

    def _measure(self, rates: CellRates) -> tuple[BoundMeasurement]:
        if self.rate_statistic.needs_labels and not rates.labelled:
            raise InputError(f"a bound on the {self.label} needs labels: pass y_true.")
        family = bounded_groups(rates.groups, self.groups)
        values = self.rate_statistic.values(rates, family.matrix)
        return (BoundMeasurement(self.label, self.label, family.names, values, *self.limits(rates.groups)),)


@dataclass(repr=False)
class RateBound(Bound):
    """A bound on a rate, such as a capacity, a floor for the recall or a ceiling for false alarms.

    Parameters
    ----------
    rate : str, Statistic, list or mapping
        "selection rate", "true-positive rate", "false-positive rate", "precision" or "accuracy"; or a
        :class:`Statistic`, which defines a rate of your own. With several actions, "accuracy", the name of
        an action, a list of names, or a mapping from each to its value, as ``action`` of a notion. A bound on
        precision, the share of positives among the selected, also holds where nobody is selected.
    at_least, at_most : float in [0, 1], default=None
        The bounds; at least one of the two.
    groups : {"population", "intersectional", "independent"}, default="population"
        Whether the rate of the population is bounded, or that of every combination of sensitive values, or of
        every value of each feature.

    Examples
    --------
    >>> RateBound("selection rate", at_most=0.2)
    RateBound('selection rate', at_most=0.2)
    >>> from evenhand import cell_rates
    >>> counted = cell_rates([1, 0, 1, 0], [1, 1, 1, 0], {"sex": ["F", "F", "M", "M"]})
    >>> [found] = RateBound("precision", at_least=0.8, groups="intersectional").measure(counted)
    >>> found.values.tolist(), str(found.worst), round(found.excess, 3)
    ([0.5, 1.0], 'sex=F', 0.3)

    A rate of your own:

    >>> from evenhand import Statistic
    >>> missed = Statistic("false-negative rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1))
    >>> RateBound(missed, at_most=0.3).label
    'false-negative rate'
    """

    rate: Any
    _: KW_ONLY
    at_least: float | None = None
    at_most: float | None = None
    groups: Scope = "population"
    _known = _BOUNDED

    @property
    def rate_statistic(self) -> Any:
        """The rate that is bounded."""
        return self.rate if isinstance(self.rate, Statistic) else super().rate_statistic

    @property
    def label(self) -> str:
        """The name of the rate, or of the action."""
        named = self._statistic is None and not isinstance(self.rate, Statistic)
        return str(self.rate if named else self.rate_statistic.name)

    def __repr__(self) -> str:
        shown = [repr(self.rate)]
        shown += [
            f"{name}={value!r}"
            for name in ("at_least", "at_most", "groups")
            if (value := getattr(self, name)) not in (None, "population")
        ]
        return f"RateBound({', '.join(shown)})"

    @property
    def _parameter_name(self) -> str:
        return re.sub(r"\W+", "_", self.label)

    def _check(self) -> None:
        self._check_name()
        name = f"RateBound({self.label!r})"
        if self.at_least is None and self.at_most is None:
            raise InputError(f"{name} takes at_least, at_most, or both.")
        for which in ("at_least", "at_most"):
            if getattr(self, which) is not None:
                check_number(f"{name}: {which}", getattr(self, which))
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise InputError(
                f"{name}: at_least={self.at_least:g} is above at_most={self.at_most:g}, so nothing satisfies "
                "both."
            )
        check_choice(f"{name}: groups", self.groups, get_args(Scope))

    def limits(self, groups: Groups) -> tuple[Floats, Floats]:
        """At least and at most, for each group; NaN where there is no bound."""
        count = len(bounded_groups(groups, self.groups).names)
        least, most = (np.nan if value is None else float(value) for value in (self.at_least, self.at_most))
        return np.full(count, least), np.full(count, most)

    def _move(self, share: float) -> None:
        step = _MOVED * share if share >= 0 else -share
        for name, strictest in (("at_least", 1), ("at_most", 0)):
            now, end = getattr(self, name), strictest if share >= 0 else 1 - strictest
            if now is not None:
                setattr(self, name, round(now + step * (end - now), 12))
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            self.at_least = self.at_most = (self.at_least + self.at_most) / 2

    def _linear(self, masses: Floats, groups: Groups) -> LinearConstraints:
        statistic = self.rate_statistic
        if not isinstance(statistic, SelectedShare):
            return super()._linear(masses, groups)
        family, parts = bounded_groups(groups, self.groups), []
        both = self.at_least is not None and self.at_most is not None
        for side, bound in (("at least", self.at_least), ("at most", self.at_most)):
            if bound is None:
                continue
            C, known = statistic.linear(masses, family.matrix, float(bound))
            names, undefined = (
                named(self.label, self.label, family.names, which, side if both else "")
                for which in (known, ~known)
            )
            zero, free = np.zeros(len(names)), np.full(len(names), np.inf)
            lo, hi = (zero, free) if side == "at least" else (-free, zero)
            parts.append(LinearConstraints(names, C[known], zero, lo, hi, undefined))
        return LinearConstraints.stack(parts)

    def _slopes(self, linear: LinearConstraints, rates: CellRates, scalars: Floats) -> Floats:
        if not isinstance(self.rate_statistic, SelectedShare):
            return super()._slopes(linear, rates, scalars)
        # In t, the value hits - t * selected falls by the share of the group that is selected.
        family = bounded_groups(rates.groups, self.groups)
        selected = SELECTION.values(rates, family.matrix)
        share = dict(zip(family.names, selected.tolist(), strict=True))
        value = -np.array([share[name.group] for name in linear.names])
        return np.array([value, 0.0 * value, 0.0 * value])


@dataclass(repr=False)
class NoWorse(Bound):
    """No group has a worse rate than under a reference.

    Parameters
    ----------
    rate : str, list or mapping, default="selection rate"
        "selection rate", "true-positive rate", "false-positive rate", "error rate" or "accuracy"; of a
        false-positive or an error rate, more is worse. With several actions, "accuracy", the name of an
        action, a list of names, or a mapping from each to its value: of these, more is better.
    than : "unconstrained", CellRates or ActionRates, default="unconstrained"
        The reference: the best rule without any requirement on the same rows; or counted decisions, such as
        today's, with the same groups, from :func:`evenhand.cell_rates`.
    groups : {"intersectional", "independent", "population"}, default="intersectional"
    margin : float in [-1, 1], default=0.0
        By how much a rate has to be better than the reference; if negative, by how much it may be worse.

    Examples
    --------
    >>> NoWorse("selection rate")
    NoWorse('selection rate')
    """

    rate: Any = "selection rate"
    _: KW_ONLY
    than: Any = "unconstrained"
    groups: Scope = "intersectional"
    margin: float = 0.0
    _asked: str | None = field(default=None, init=False)
    _known = _COMPARED

    def __repr__(self) -> str:
        asked = self._asked or self.than
        than = "" if isinstance(asked, str) else f", than=<{type(asked).__name__}>"
        groups = "" if self.groups == "intersectional" else f", groups={self.groups!r}"
        margin = f", margin={self.margin:g}" if self.margin else ""
        return f"NoWorse({self.rate!r}{than}{groups}{margin})"

    @property
    def more_is_better(self) -> bool:
        """Whether more of the rate is better: of a false-positive or an error rate, it is not."""
        return self.rate_statistic not in (FALSE_POSITIVE, ERROR)

    @property
    def label(self) -> str:
        """The name of the requirement."""
        return f"{self.rate_statistic.name} no worse"

    def _check(self) -> None:
        self._check_name()
        if not isinstance(self.than, CellRates | ActionRates) and self.than != "unconstrained":
            raise InputError(
                "NoWorse: than must be 'unconstrained' or the CellRates of evenhand.cell_rates, got "
                f"{self.than!r}."
            )
        check_choice("NoWorse: groups", self.groups, get_args(Scope))
        check_number("NoWorse: margin", self.margin, -1)

    def _check_written(self) -> None:
        if isinstance(self.than, ActionRates) and self._statistic is None:
            raise InputError(f"{self!r}: the reference is about several actions, and decisions are two.")

    def against(self, rates: CellRates | ActionRates) -> NoWorse:
        """The same requirement with the rates of the unconstrained optimum, if it is about these."""
        if not isinstance(self.than, str):
            return self
        resolved = copy(self)
        resolved.than, resolved._asked = rates, self.than  # for messages
        return resolved

    def limits(self, groups: Groups) -> tuple[Floats, Floats]:
        """At least and at most, for each group; NaN where there is no bound."""
        if isinstance(self.than, str):
            raise InputError(
                f"{self!r} compares with the best rule without a requirement, which is known only where rows "
                "are solved for: pass than=evenhand.cell_rates(...) of the decisions to compare with or, to "
                "an audit, those decisions as before=."
            )
        if self.than.groups.combinations != groups.combinations:
            raise InputError(f"{self!r}: the reference was counted for other groups than these.")
        family = bounded_groups(self.than.groups, self.groups)
        reference = self.rate_statistic.values(self.than, family.matrix)
        nothing = np.full(len(family.names), np.nan)
        if self.more_is_better:
            return np.clip(reference + self.margin, 0.0, 1.0), nothing
        return nothing, np.clip(reference - self.margin, 0.0, 1.0)

    def _move(self, share: float) -> None:
        """Move the margin: the reference is fixed, but a rate can be better or worse than it."""
        step = _MARGIN * share * (1 - self.margin) if share >= 0 else share * (1 + self.margin)
        self.margin = round(self.margin + step, 12)


def needs_reference(constraint: Constraint) -> bool:
    """Whether a requirement compares with the best rule without it.

    Parameters
    ----------
    constraint : Constraint

    Returns
    -------
    bool
    """
    return any(isinstance(part, NoWorse) and isinstance(part.than, str) for part in constraint.bounds)


def with_reference(constraint: Constraint, unconstrained: CellRates | ActionRates) -> Constraint:
    """A requirement with the rates of the best rule without it, where these are its reference.

    Parameters
    ----------
    constraint : Constraint
    unconstrained : CellRates or ActionRates

    Returns
    -------
    Constraint
    """
    if isinstance(constraint, WithMargins):
        return constraint.of(with_reference(constraint.constraint, unconstrained))
    parts = [
        part.against(unconstrained) if isinstance(part, NoWorse) else part for part in constraint.requirements
    ]
    return parts[0] if len(parts) == 1 else AllOf(parts)
