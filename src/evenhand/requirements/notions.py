"""Notions of fairness: parity of a statistic, each defined once for both constraining and measuring.

A *statistic* of a group is a rate that is linear in the selection rates rho of its cells,

    q_g = sum over cells (m, y) in g of mask_y pi[m,y] (intercept_y + slope_y rho[m,y])
          / sum over cells in g of mask_y pi[m,y],

with pi the cell masses. A *notion* requires that its statistics in each group are close to those in the
population as a whole, within a tolerance delta, by

* difference:  -delta <= q - q_g <= delta            (mean difference, MD <= delta)
* ratio:       delta - 1 <= delta q - q_g <= 0       (mean ratio, MR >= delta)

or, against the other groups instead of the population, by

* difference:  l <= q_g <= l + delta for some l      (largest minus smallest rate at most delta)
* ratio:       delta u <= q_g <= u for some u        (smallest over largest rate at least delta)

or, against a named group with rate q_r, by

* difference:  -delta <= q_r - q_g <= delta
* ratio:       delta q_r - q_g <= 0                  (adverse impact ratio at least delta)

Either way the requirement is a set of linear constraints ``lo <= C rho + B t + k <= hi``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_choice, check_number, near_names
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName, Groups, Members, Mode
from evenhand.groups.strata import check_controls, count_strata, find_strata
from evenhand.requirements.constraints import LinearConstraints, named
from evenhand.requirements.measurement import Against, Measure, Measurement
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Requirement, refuse_large
from evenhand.requirements.statistic import ERROR, FALSE_POSITIVE, SELECTION, TRUE_POSITIVE, Statistic

Floats = NDArray[np.float64]

_OF_FAIRLEARN = {
    "DemographicParity": "DemographicParity",
    "EqualizedOdds": "EqualizedOdds",
    "ErrorRateParity": "AccuracyParity",
    "FalsePositiveRateParity": "PredictiveEquality",
    "TruePositiveRateParity": "EqualOpportunity",
}
"""Our names of the constraints of fairlearn's reductions."""


@dataclass(kw_only=True, repr=False)
class Notion(Requirement):
    """A notion of fairness with a tolerance; subclasses define its label and statistics.

    Parameters
    ----------
    difference : float in [0, 1], default=None
        Largest absolute difference allowed between a group and the population: with 0.05 and a rate of 0.30
        in the population, groups are from 0.25 to 0.35. Against groups, the largest one between two groups.
    ratio : float in [0, 1], default=None
        Smallest ratio allowed of a group's rate to the population's, and of one minus these: with 0.8 and a
        rate of 0.30, groups are from 0.24 to 0.44. Against groups, the smallest ratio of the lowest to the
        highest rate: with 0.8, the four-fifths rule. Pass exactly one of `difference` and `ratio`.
    groups : {"intersectional", "independent"}, default="intersectional"
        Whether to compare all combinations of sensitive values, or the values of each feature separately.
    against : {"population", "groups"} or mapping, default="population"
        Whether a group is compared with the population; with the other groups, the values of a feature with
        each other; or with a named group, such as ``{"race": "White", "sex": "Male"}``. A ratio to a named
        group is one-sided: rates above it satisfy the requirement. With ``groups="independent"`` the values
        of each named feature are compared with its named one, and other features not at all.
    given : list of str, default=None
        Control features: groups are compared among the people with the same values of these, and
        differences that these features explain do not count. They are columns of X, or sensitive features
        that decisions may use. With ``given=["job_level"]``, women of a level are compared with everyone of
        that level.
    action : str, list or mapping, default=None
        With several actions, the one whose rate is compared; or several of them together, such as a tier and
        all better ones; or the value of each action from 0 to 1, whose mean is compared. By default every
        action. Names are those of :class:`Costs`, or labels.

    Examples
    --------
    A notion of your own needs a label and the rates that should be alike:

    >>> from evenhand import Statistic
    >>> class MissParity(Notion):
    ...     label = "miss parity"
    ...     statistics = (Statistic("false-negative rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1)),)
    >>> MissParity(difference=0.05)
    MissParity(difference=0.05)
    """

    label: ClassVar[str]
    statistics: ClassVar[tuple[Statistic, ...]]

    difference: float | None = None
    ratio: float | None = None
    groups: Mode = "intersectional"
    against: Against = "population"
    given: Sequence[str] | None = None
    action: Any = None

    def __init_subclass__(cls) -> None:
        statistics = getattr(cls, "statistics", None)
        proper = isinstance(statistics, tuple) and all(isinstance(part, Statistic) for part in statistics)
        if not statistics or not proper or not isinstance(getattr(cls, "label", None), str):
            raise InputError(
                f"{cls.__name__} must define its name as `label = '...'` and its statistics as a tuple, "
                "`statistics = (Statistic(...),)`."
            )

    def __repr__(self) -> str:
        own = self.get_params(deep=False)
        given = {k: v for k, v in own.items() if v not in (None, "intersectional", "population")}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @staticmethod
    def from_fairlearn(constraint: Any, **settings: Any) -> Notion:
        """The notion that a constraint of ``fairlearn.reductions`` asks for.

        Parameters
        ----------
        constraint : moment of fairlearn
            With a ``difference_bound``. There is no exact counterpart of a ``ratio_bound``.
        **settings
            Passed on, such as ``groups="independent"``.

        Returns
        -------
        Notion

        Examples
        --------
        ``Notion.from_fairlearn(fairlearn.reductions.DemographicParity(difference_bound=0.05))`` is
        ``DemographicParity(difference=0.05)``.
        """
        kind = type(constraint)
        if not kind.__module__.startswith("fairlearn.") or kind.__name__ not in _OF_FAIRLEARN:
            raise InputError(
                f"{kind.__name__} has no counterpart here; fairlearn's constraints that have one are "
                f"{', '.join(_OF_FAIRLEARN)}."
            )
        if constraint.ratio != 1.0:
            raise InputError(
                "a ratio_bound of fairlearn has no exact counterpart: choose difference= or ratio=."
            )
        [own] = [notion for notion in NOTIONS if notion.__name__ == _OF_FAIRLEARN[kind.__name__]]
        return own(difference=constraint.eps, **settings)

    @property
    def tolerance(self) -> float:
        """The bound on the difference or on the ratio."""
        return float(self.difference if self.difference is not None else self.ratio)  # type: ignore[arg-type]

    @property
    def controls(self) -> tuple[str, ...]:
        """The names of the control features; empty if there are none."""
        return () if self.given is None else tuple(self.given)

    @property
    def one_sided(self) -> bool:
        """Whether only rates that are too low violate it: by a ratio to a named group."""
        return isinstance(self.against, Mapping) and self.ratio is not None

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
                f"{name} takes exactly one of difference and ratio, got difference={self.difference!r} and "
                f"ratio={self.ratio!r}. Set the other one to None."
            )
        check_number(f"{name}: {self.compares_by}", getattr(self, self.compares_by))
        check_choice(f"{name}: groups", self.groups, ("intersectional", "independent"))
        if not isinstance(self.against, Mapping):
            check_choice(f"{name}: against", self.against, ("population", "groups"))
        elif not self.against:
            raise InputError(f"{name}: against names no group; use {{'race': 'White'}}, for example.")
        if self.given is not None:
            check_controls(name, self.given)
        if isinstance(self.action, Mapping):
            for one, value in self.action.items():
                check_number(f"{name}: the value of the action {one!r}", value)

    def _check_written(self) -> None:
        if self.action is not None and "statistics" not in vars(self):
            raise InputError(
                f"{self!r}: action= is for decisions among several actions; leave it out for two decisions."
            )

    def _size(self, groups: Groups) -> int:
        each = groups.size(self.groups) * len(self.statistics) * (2 if self.against == "groups" else 1)
        return each * (count_strata(groups, self.controls) if self.controls else 1)

    def _move(self, share: float) -> None:
        strictest, loosest = (0.0, 1.0) if self.difference is not None else (1.0, 0.0)
        end = strictest if share >= 0 else loosest
        moved = self.tolerance + abs(share) * (end - self.tolerance)
        self.set_params(**{self.compares_by: round(moved, 12)})

    def _linear(self, masses: Floats, groups: Groups) -> LinearConstraints:
        refuse_large(self._size(groups), len(groups), stratified=bool(self.controls))
        self.check_reference(groups)
        write = self._against_groups if self.against == "groups" else self._against_one
        found = []
        for stratum, cells, everyone in self.comparisons(groups):
            inside = np.flatnonzero(cells)
            family = Members(everyone.names, everyone.matrix[:, inside])
            for part in self.statistics:
                own = write(part, masses[inside], family)
                if stratum is not None:
                    C = np.zeros((len(own), len(masses), *own.C.shape[2:]))
                    C[:, inside] = own.C
                    own = replace(own, C=C).given(stratum)
                found.append(own)
        return LinearConstraints.stack(found)

    def _against_one(self, statistic: Statistic, masses: Floats, family: Members) -> LinearConstraints:
        """Against the population or a named group, which is not compared with itself."""
        A, k = statistic.linear(masses, family.matrix)
        places = list(self.places(family))
        A_ref, k_ref = statistic.linear(masses, np.ones((1, len(masses))))
        if places:
            A_ref, k_ref = A[places], k[places]
        delta, by_difference = self.tolerance, self.difference is not None
        factor = 1.0 if by_difference else delta
        defined = ~np.isnan(k + 0 * k_ref)
        keep = defined & (np.arange(len(k)) != places) if places else defined
        count = int(keep.sum())
        return LinearConstraints(
            named(self.label, statistic.name, family.names, keep),
            C=(factor * A_ref - A)[keep],
            k=(factor * k_ref - k)[keep],
            lo=np.full(count, -np.inf if self.one_sided else -delta if by_difference else delta - 1),
            hi=np.full(count, delta if by_difference else 0.0),
            undefined=named(self.label, statistic.name, family.names, ~defined),
        )

    def places(self, family: Members) -> tuple[int, ...]:
        """The place of the named group that each group is compared with; empty if none is named.

        A group is compared with itself if its feature has no named value, or if the named group is not in its
        stratum.

        Parameters
        ----------
        family : Members

        Returns
        -------
        tuple of int
        """
        if not isinstance(self.against, Mapping):
            return ()
        places = {name: place for place, name in enumerate(family.names)}
        return tuple(
            places.get(GroupName(name.features, tuple(map(self.against.get, name.features))), own)
            for own, name in enumerate(family.names)
        )

    def check_reference(self, groups: Groups) -> None:
        """Raise an InputError if the named group does not occur.

        Parameters
        ----------
        groups : Groups
        """
        if not isinstance(self.against, Mapping):
            return
        name, wanted = type(self).__name__, tuple(self.against)
        unknown = [feature for feature in wanted if feature not in groups.features]
        if unknown:
            near = near_names(unknown[0], groups.features, "They are")
            raise InputError(f"{name}: against names {unknown[0]!r}, which is no sensitive feature. {near}")
        single, unnamed = self.groups == "independent", [one for one in groups.features if one not in wanted]
        if unnamed and not single:
            raise InputError(
                f"{name}: against={dict(self.against)!r} names no group: name a value of {unnamed[0]!r} too, "
                "or use groups='independent'."
            )
        names = groups.members(self.groups).names
        for features in [(feature,) for feature in wanted] if single else [groups.features]:
            reference = GroupName(features, tuple(map(self.against.get, features)))
            if reference not in names:
                near = near_names(str(reference), [str(one) for one in names], "The groups are")
                raise InputError(f"{name}: no row is in the reference group {reference}. {near}")

    def _against_groups(self, statistic: Statistic, masses: Floats, family: Members) -> LinearConstraints:
        """With l or u as scalars, t = (l - start) / width for a statistic from start to start + width."""
        A, k = statistic.linear(masses, family.matrix)
        keep = ~np.isnan(k)
        names, undefined = (named(self.label, statistic.name, family.names, which) for which in (keep, ~keep))
        A, k = A[keep], k[keep]
        start, width = statistic.range
        features = [name.group.features for name in names]
        kinds = list(dict.fromkeys(features))
        one = np.array([[own == kind for kind in kinds] for own in features], np.float64)
        one = one.reshape(len(features), len(kinds))
        if self.difference is not None:  # 0 <= q_g - l <= delta
            lo, hi = np.zeros(len(names)), np.full(len(names), self.difference)
            return LinearConstraints(names, A, k - start, lo, hi, undefined, -width * one)
        delta, J = self.tolerance, len(names)  # q_g - u <= 0 and q_g - delta u >= 0
        return LinearConstraints(
            tuple(replace(name, side=side) for side in ("highest", "lowest") for name in names),
            C=np.concatenate([A, A]),
            k=np.concatenate([k - start, k - delta * start]),
            lo=np.repeat([-np.inf, 0.0], J),
            hi=np.repeat([0.0, np.inf], J),
            undefined=undefined,
            B=np.vstack([-width * one, -delta * width * one]),
        )

    def _slopes(self, linear: LinearConstraints, rates: CellRates, scalars: Floats) -> Floats:
        """A constraint is linear in the tolerance, so the slope is what it differs by between 1 and 0."""
        slacks = (1.0, 0.0) if self.difference is not None else (0.0, 1.0)
        one, zero = (self.with_slack(slack)._linear(rates.masses, rates.groups) for slack in slacks)
        values = [side.values(rates.rates, scalars) for side in (one, zero)]
        lo, hi = (
            np.subtract(after, before, out=np.zeros(len(linear)), where=np.isfinite(after))
            for after, before in ((one.lo, zero.lo), (one.hi, zero.hi))
        )
        return np.array([values[0] - values[1], lo, hi])

    def measure(self, rates: CellRates) -> tuple[Measurement, ...]:
        """Measurements of counted decisions, one per statistic, in each stratum if there are strata.

        Parameters
        ----------
        rates : CellRates
            From :func:`evenhand.cell_rates`.

        Returns
        -------
        tuple of Measurement
        """
        self._prepare(rates.groups)
        return self._measure(rates)

    def _measure(self, rates: CellRates) -> tuple[Measurement, ...]:
        self.check_reference(rates.groups)
        return tuple(
            replace(found, stratum=stratum)
            for stratum, cells, family in self.comparisons(rates.groups)
            for found in self.measure_in(family, rates.among(cells))
        )

    def comparisons(self, groups: Groups) -> Iterator[tuple[GroupName | None, NDArray[np.bool_], Members]]:
        """The groups that are compared with each other: all of them, or those of each stratum.

        Parameters
        ----------
        groups : Groups

        Yields
        ------
        stratum : GroupName or None
        cells : array of bool, shape (M,)
            Which of `groups` are in it.
        family : Members
        """
        if not self.controls:
            yield None, np.ones(len(groups), np.bool_), groups.members(self.groups)
            return
        for stratum in find_strata(groups, self.controls, self.groups):
            yield stratum.name, stratum.cells, stratum.family

    def measure_in(self, family: Members, rates: CellRates) -> tuple[Measurement, ...]:
        """Measurements of counted decisions in given groups, such as those of one feature.

        Parameters
        ----------
        family : Members
        rates : CellRates

        Returns
        -------
        tuple of Measurement
        """
        everyone = np.ones((1, len(rates.groups)))
        found = []
        for statistic in self.statistics:
            if statistic.needs_labels and not rates.labelled:
                raise InputError(f"{self.label} needs labels: pass y_true.")
            overall = statistic.values(rates, everyone)
            found.append(
                Measurement(
                    self.label,
                    statistic.name,
                    family.names,
                    float(overall[0]) if overall.ndim == 1 else overall,
                    statistic.values(rates, family.matrix),
                    self.compares_by,
                    self.tolerance,
                    self.against,
                    references=self.places(family),
                )
            )
        return tuple(found)


class DemographicParity(Notion):
    """Equal selection rates: P(Yhat=1 | S=m) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups, against, given, action
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
    statistics = (SELECTION,)


class EqualOpportunity(Notion):
    """Equal true-positive rates: P(Yhat=1 | S=m, Y=1) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups, against, given, action
        See :class:`Notion`.

    Examples
    --------
    >>> EqualOpportunity(difference=0.02, groups="independent")
    EqualOpportunity(difference=0.02, groups='independent')
    """

    label = "equal opportunity"
    statistics = (TRUE_POSITIVE,)


class PredictiveEquality(Notion):
    """Equal false-positive rates: P(Yhat=1 | S=m, Y=0) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups, against, given, action
        See :class:`Notion`.

    Examples
    --------
    >>> PredictiveEquality(ratio=0.9).tolerance
    0.9
    """

    label = "predictive equality"
    statistics = (FALSE_POSITIVE,)


class AccuracyParity(Notion):
    """Equal error rates: P(Yhat != Y | S=m) is the same in every group.

    Parameters
    ----------
    difference, ratio, groups, against, given, action
        See :class:`Notion`.

    Examples
    --------
    >>> AccuracyParity(difference=0.05).compares_by
    'difference'
    """

    label = "accuracy parity"
    statistics = (ERROR,)


class EqualizedOdds(Notion):
    """Equal true- and false-positive rates: equal opportunity and predictive equality together.

    Parameters
    ----------
    difference, ratio, groups, against, given, action
        See :class:`Notion`.

    Examples
    --------
    >>> [statistic.name for statistic in EqualizedOdds(difference=0.05).statistics]
    ['true-positive rate', 'false-positive rate']
    """

    label = "equalized odds"
    statistics = (TRUE_POSITIVE, FALSE_POSITIVE)


NOTIONS: tuple[type[Notion], ...] = (
    *(DemographicParity, EqualOpportunity, PredictiveEquality, AccuracyParity, EqualizedOdds),
)
"""The notions that come with the package."""
