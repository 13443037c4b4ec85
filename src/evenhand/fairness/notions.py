"""Notions of fairness, each defined once for both constraining and measuring.

A *statistic* of a group is a rate that is linear in the selection rates rho of its cells,

    q_g = sum over cells (m, y) in g of mask_y pi[m,y] (intercept_y + slope_y rho[m,y])
          / sum over cells in g of mask_y pi[m,y],

with pi the cell masses. A *notion* requires that its statistics in each group are close to those in the
population as a whole, within a tolerance delta, by

* difference:  -delta <= q - q_g <= delta            (mean difference, MD <= delta)
* ratio:       delta - 1 <= delta q - q_g <= 0       (mean ratio, MR >= delta)

Either way the requirement is a set of linear constraints ``lo <= C rho + k <= hi``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.exceptions import InputError, VacuousConstraintWarning, warn_user
from evenhand.fairness.constraints import ConstraintName, LinearConstraints
from evenhand.fairness.groups import Groups, Members, Mode
from evenhand.fairness.measurement import Measure, Measurement
from evenhand.fairness.parameters import Parameters
from evenhand.fairness.rates import CellRates
from evenhand.fairness.statistic import Statistic

__all__ = [
    "NOTIONS",
    "AccuracyParity",
    "AllOf",
    "Constraint",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "Notion",
    "PredictiveEquality",
]

_MAX_BYTES = 2 << 30
"""Of memory for the constraints of a notion."""


class Constraint(Parameters):
    """A fairness requirement: a single notion, or several joined by ``&``.

    It has scikit-learn's ``get_params`` and ``set_params``, so a grid search can set its tolerances.
    """

    def linear(self, masses: ArrayLike, groups: Groups) -> LinearConstraints:
        """The requirement as linear constraints on the selection rates.

        Parameters
        ----------
        masses : array, shape (M, 2)
            P(S=m, Y=y).
        groups : Groups
            The groups, in the order of the first axis of `masses`.

        Returns
        -------
        LinearConstraints
        """
        self._prepare(groups)
        array = np.asarray(masses, dtype=float)
        if array.shape != (len(groups), 2):
            raise InputError(f"masses should have shape {(len(groups), 2)}, but have {array.shape}.")
        if not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise InputError("masses should be finite, not negative, and not all zero.")
        return LinearConstraints.stack(notion._linear(array, groups) for notion in self.notions)

    def measure(self, rates: CellRates) -> tuple[Measurement, ...]:
        """Measurements of counted decisions, one per statistic.

        Parameters
        ----------
        rates : CellRates
            From :func:`evenhand.cell_rates`.

        Returns
        -------
        tuple of Measurement
        """
        self._prepare(rates.groups)
        return tuple(found for notion in self.notions for found in notion._measure(rates))

    def with_tolerance(self, tolerance: float) -> Self:
        """A copy whose notions all have this tolerance, on the difference or on the ratio."""
        changed = deepcopy(self)
        for notion in changed.notions:
            notion.set_params(**{notion.compares_by: tolerance})
        return changed

    def with_slack(self, slack: float) -> Self:
        """A copy whose notions all allow the same distance from parity: a difference, or 1 minus a ratio."""
        changed = deepcopy(self)
        for notion in changed.notions:
            by_difference = notion.compares_by == "difference"
            notion.set_params(**{notion.compares_by: slack if by_difference else 1 - slack})
        return changed

    def tightened(self, share: float) -> Self:
        """A copy with tolerances moved towards parity: a share of 0 keeps them, 1 is exact parity."""
        changed = deepcopy(self)
        for notion in changed.notions:
            parity = 0.0 if notion.compares_by == "difference" else 1.0
            tolerance = getattr(notion, notion.compares_by)
            notion.set_params(**{notion.compares_by: round(tolerance + share * (parity - tolerance), 12)})
        return changed

    def check(self, groups: Groups | None) -> None:
        """Raise an InputError if parameters are invalid or there are too many groups to compare."""
        for notion in self.notions:
            notion._check()
            if groups is not None:
                _refuse_large(groups.size(notion.groups) * len(notion.statistics), len(groups))

    def _prepare(self, groups: Groups) -> None:
        """Check the parameters again, as they can be assigned, and warn if there is only one group."""
        for notion in self.notions:
            notion._check()
        if any(groups.is_one_group(notion.groups) for notion in self.notions):
            warn_user(
                "there is only one group, so every classifier satisfies the constraint.",
                VacuousConstraintWarning,
            )

    @property
    def notions(self) -> tuple[Notion, ...]:
        """The single notions of the requirement."""
        raise NotImplementedError

    def __and__(self, other: Constraint) -> AllOf:
        if not isinstance(other, Constraint):
            return NotImplemented
        return AllOf([copy(notion) for notion in (*self.notions, *other.notions)])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Notion(Constraint):
    """A notion of fairness with a tolerance; subclasses define its label and statistics.

    Parameters
    ----------
    difference : float in [0, 1], default=None
        Largest absolute difference allowed between a group and the population.
    ratio : float in [0, 1], default=None
        Smallest ratio allowed. Pass exactly one of `difference` and `ratio`.
    groups : {"intersectional", "independent"}, default="intersectional"
        Whether to compare all combinations of sensitive values, or the values of each feature separately.
    """

    label: ClassVar[str]
    statistics: ClassVar[tuple[Statistic, ...]]

    def __init_subclass__(cls) -> None:
        statistics = getattr(cls, "statistics", None)
        proper = isinstance(statistics, tuple) and all(isinstance(part, Statistic) for part in statistics)
        if not statistics or not proper or not isinstance(getattr(cls, "label", None), str):
            raise InputError(
                f"{cls.__name__} should define its name as `label = '...'` and its statistics as a tuple, "
                "`statistics = (Statistic(...),)`."
            )

    def __init__(
        self, *, difference: float | None = None, ratio: float | None = None, groups: Mode = "intersectional"
    ) -> None:
        self.difference = difference
        self.ratio = ratio
        self.groups = groups
        self._check()

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value not in (None, "intersectional")}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def notions(self) -> tuple[Notion, ...]:
        """The notion itself."""
        return (self,)

    @property
    def tolerance(self) -> float:
        """The bound on the difference or on the ratio."""
        return float(self.difference if self.difference is not None else self.ratio)  # type: ignore[arg-type]

    @property
    def compares_by(self) -> Measure:
        """Whether the difference or the ratio is bounded."""
        return "difference" if self.difference is not None else "ratio"

    def _check(self) -> None:
        name = type(self).__name__
        if type(self) is Notion:
            raise InputError("Notion is a base class: use one of its subclasses, or write your own.")
        if (self.difference is None) == (self.ratio is None):
            raise InputError(
                f"{name} takes exactly one of difference and ratio, but difference={self.difference!r} "
                f"and ratio={self.ratio!r}. Set the other one to None."
            )
        value = self.difference if self.difference is not None else self.ratio
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value <= 1:
            raise InputError(f"{name}: {self.compares_by} should be a number from 0 to 1, but is {value!r}.")
        if self.groups not in ("intersectional", "independent"):
            raise InputError(
                f"{name}: groups should be 'intersectional' or 'independent', but is {self.groups!r}."
            )

    def _linear(self, masses: NDArray[np.float64], groups: Groups) -> LinearConstraints:
        family = groups.members(self.groups)
        _refuse_large(len(family.names) * len(self.statistics), len(groups))
        return LinearConstraints.stack(
            self._statistic_linear(statistic, masses, family) for statistic in self.statistics
        )

    def _statistic_linear(
        self, statistic: Statistic, masses: NDArray[np.float64], family: Members
    ) -> LinearConstraints:
        A, k = statistic.linear(masses, family.matrix)
        A_all, k_all = statistic.linear(masses, np.ones((1, len(masses))))
        delta, by_difference = self.tolerance, self.difference is not None
        factor = 1.0 if by_difference else delta
        names = [ConstraintName(self.label, statistic.name, group) for group in family.names]
        keep = ~np.isnan(k)
        count = int(keep.sum())
        return LinearConstraints(
            tuple(name for name, kept in zip(names, keep, strict=True) if kept),
            C=(factor * A_all - A)[keep],
            k=(factor * k_all - k)[keep],
            lo=np.full(count, -delta if by_difference else delta - 1),
            hi=np.full(count, delta if by_difference else 0.0),
            undefined=tuple(name for name, kept in zip(names, keep, strict=True) if not kept),
        )

    def _measure(self, rates: CellRates) -> list[Measurement]:
        family = rates.groups.members(self.groups)
        everyone = np.ones((1, len(rates.groups)))
        found = []
        for statistic in self.statistics:
            if statistic.needs_labels and not rates.labelled:
                raise InputError(f"{self.label} needs labels: pass y_true.")
            found.append(
                Measurement(
                    self.label,
                    statistic.name,
                    family.names,
                    float(statistic.values(rates, everyone)[0]),
                    statistic.values(rates, family.matrix),
                    self.compares_by,
                    self.tolerance,
                )
            )
        return found


class AllOf(Constraint):
    """Several notions at once; made by ``&``.

    Parameters
    ----------
    parts : list of Notion
        The notions that must all hold.

    Examples
    --------
    >>> both = DemographicParity(difference=0.05) & EqualOpportunity(ratio=0.9)
    >>> both.set_params(demographicparity__difference=0.1)
    DemographicParity(difference=0.1) & EqualOpportunity(ratio=0.9)
    """

    def __init__(self, parts: Sequence[Notion]) -> None:
        self.parts = parts
        self._check()

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts))

    @property
    def notions(self) -> tuple[Notion, ...]:
        """The notions that must all hold."""
        return tuple(self.parts)

    def _check(self) -> None:
        several = isinstance(self.parts, Sequence) and len(self.parts) > 0
        if not several or not all(isinstance(part, Notion) for part in self.parts):
            raise InputError(f"AllOf takes a list of notions, but got {self.parts!r}.")

    def _named_parts(self) -> dict[str, Notion]:
        kinds = [type(part).__name__.lower() for part in self.parts]
        return {
            kind if kinds.count(kind) == 1 else f"{kind}-{kinds[: k + 1].count(kind)}": self.parts[k]
            for k, kind in enumerate(kinds)
        }

    def _replace_part(self, name: str, part: Any) -> None:
        place = list(self._named_parts()).index(name)
        self.parts = [*self.parts[:place], part, *self.parts[place + 1 :]]


def _refuse_large(n_constraints: int, n_groups: int) -> None:
    needed = 3 * n_constraints * n_groups * 2 * 8  # C and two temporaries of its size
    if needed > _MAX_BYTES:
        raise InputError(
            f"{n_constraints:,} constraints on {n_groups:,} groups need {needed / 2**30:.1f} GiB. "
            "Pool rare groups with min_group_size, or use groups='independent'."
        )


_SELECTION = Statistic("selection rate")
_TRUE_POSITIVE = Statistic("true-positive rate", mask=(0, 1), slope=(0, 1))
_FALSE_POSITIVE = Statistic("false-positive rate", mask=(1, 0), slope=(1, 0))
_ERROR = Statistic("error rate", slope=(1, -1), intercept=(0, 1))


class DemographicParity(Notion):
    """Equal selection rates: P(Yhat=1 | S=m) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups
        See :class:`Notion`.

    Examples
    --------
    >>> from evenhand import cell_rates
    >>> counted = cell_rates(None, [1, 1, 0, 1], {"sex": ["F", "F", "M", "M"]})
    >>> [found] = DemographicParity(ratio=0.8).measure(counted)
    >>> found.difference, round(found.ratio, 3), str(found.worst)
    (0.25, 0.0, 'sex=F')
    """

    label = "demographic parity"
    statistics = (_SELECTION,)


class EqualOpportunity(Notion):
    """Equal true-positive rates: P(Yhat=1 | S=m, Y=1) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups
        See :class:`Notion`.

    Examples
    --------
    >>> EqualOpportunity(difference=0.02, groups="independent")
    EqualOpportunity(difference=0.02, groups='independent')
    """

    label = "equal opportunity"
    statistics = (_TRUE_POSITIVE,)


class PredictiveEquality(Notion):
    """Equal false-positive rates: P(Yhat=1 | S=m, Y=0) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups
        See :class:`Notion`.

    Examples
    --------
    >>> PredictiveEquality(ratio=0.9).tolerance
    0.9
    """

    label = "predictive equality"
    statistics = (_FALSE_POSITIVE,)


class AccuracyParity(Notion):
    """Equal error rates: P(Yhat != Y | S=m) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups
        See :class:`Notion`.

    Examples
    --------
    >>> AccuracyParity(difference=0.05).compares_by
    'difference'
    """

    label = "accuracy parity"
    statistics = (_ERROR,)


class EqualizedOdds(Notion):
    """Equal true- and false-positive rates: equal opportunity and predictive equality together.

    Parameters
    ----------
    difference, ratio, groups
        See :class:`Notion`.

    Examples
    --------
    >>> [statistic.name for statistic in EqualizedOdds(difference=0.05).statistics]
    ['true-positive rate', 'false-positive rate']
    """

    label = "equalized odds"
    statistics = (_TRUE_POSITIVE, _FALSE_POSITIVE)


NOTIONS: tuple[type[Notion], ...] = (
    DemographicParity,
    EqualOpportunity,
    PredictiveEquality,
    AccuracyParity,
    EqualizedOdds,
)
"""The notions that come with the package."""
