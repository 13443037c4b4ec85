"""Requirements on decisions: single ones, several joined by ``&``, and those with margins for each group.

A requirement is written out as linear constraints on the selection rates of the cells, and the same object
measures decisions, so an audit cannot disagree with what was enforced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.exceptions import InputError, VacuousConstraintWarning, warn_user
from evenhand.groups.groups import GroupName, Groups, Members
from evenhand.groups.strata import vacuous_strata
from evenhand.requirements.constraints import ByName, ConstraintName, LinearConstraints
from evenhand.requirements.measurement import AnyMeasurement
from evenhand.requirements.parameters import Parameters
from evenhand.requirements.rates import CellRates

if TYPE_CHECKING:
    from evenhand.requirements.bounds import Bound
    from evenhand.requirements.notions import Notion

Comparison = tuple[GroupName | None, NDArray[np.bool_], Members]
_MAX_BYTES = 2 << 30
"""The most memory for the linear constraints of a requirement."""


LOOSEST = {"difference": 1.0, "ratio": 0.0, "at_least": 0.0, "at_most": 1.0, "margin": -1.0}
"""Of each parameter, where it requires nothing."""


class Constraint(Parameters):
    """One requirement, or several joined by ``&``.

    It has scikit-learn's ``get_params`` and ``set_params``, so a grid search can set its tolerances.
    """

    def linear(self, masses: ArrayLike, groups: Groups) -> LinearConstraints:
        """The requirement as linear constraints on the selection rates.

        Parameters
        ----------
        masses : array, shape (M, 2), or (M, L) with L labels
            P(S=m, Y=y).
        groups : Groups
            The groups, in the order of the first axis of `masses`.

        Returns
        -------
        LinearConstraints
        """
        self._prepare(groups)
        array = np.asarray(masses, dtype=float)
        if array.ndim != 2 or len(array) != len(groups) or array.shape[1] < 2:
            raise InputError(f"masses must have shape {(len(groups), 2)}, got {array.shape}.")
        if not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise InputError("masses must be finite, not negative, and not all zero.")
        return LinearConstraints.stack(part._linear(array, groups) for part in self.requirements).numbered()

    def owners(self, masses: NDArray[np.float64], groups: Groups) -> NDArray[np.intp]:
        """Which of the requirements each linear constraint belongs to, by its number.

        Parameters
        ----------
        masses : array, shape (M, 2)
        groups : Groups

        Returns
        -------
        array of int, shape (J,)
        """
        sizes = [len(part._linear(masses, groups)) for part in self.requirements]
        return np.repeat(np.arange(len(sizes)), sizes)

    def slopes(self, rates: CellRates, scalars: NDArray[np.float64]) -> NDArray[np.float64]:
        """How the linear constraints change with the tolerance or the bound of each.

        Parameters
        ----------
        rates : CellRates
            Masses and selection rates at which values are taken.
        scalars : array
            The scalars of the linear constraints.

        Returns
        -------
        array, shape (3, J)
            Derivatives, in the tolerance or bound that each is about, of the value and of both ends: an
            infinite end has slope 0.
        """
        linear = [part._linear(rates.masses, rates.groups) for part in self.requirements]
        own = np.split(scalars, np.cumsum([one.n_scalars for one in linear]))  # and what is behind them
        each = zip(self.requirements, linear, own, strict=False)
        return np.hstack([part._slopes(one, rates, some) for part, one, some in each])

    def measure(self, rates: CellRates) -> tuple[AnyMeasurement, ...]:
        """Measurements of counted decisions, one per statistic.

        Parameters
        ----------
        rates : CellRates
            From :func:`evenhand.cell_rates`.

        Returns
        -------
        tuple of Measurement and BoundMeasurement
        """
        self._prepare(rates.groups)
        return tuple(found for part in self.requirements for found in part._measure(rates))

    def within(self, given: Sequence[str] | None) -> Self:
        """A copy whose notions have these control features; None compares all people."""
        changed = deepcopy(self)
        for notion in changed.notions:
            notion.given = given
        return changed

    def with_slack(self, slack: float) -> Self:
        """A copy whose notions all allow the same distance from parity: a difference, or 1 minus a ratio."""
        changed = deepcopy(self)
        for notion in changed.notions:
            by_difference = notion.compares_by == "difference"
            notion.set_params(**{notion.compares_by: slack if by_difference else 1 - slack})
        return changed

    def tightened(self, share: float) -> Self:
        """A copy that is stricter by a share: 0 keeps tolerances and bounds, 1 is exact parity.

        Bounds move half as far towards 0 or 1, because they can contradict each other there.
        """
        changed = deepcopy(self)
        for part in changed.requirements:
            part._move(share)
        return changed

    def relaxed(self, share: float) -> Self:
        """A copy that is less strict by a share: 0 keeps tolerances and bounds, 1 requires nothing."""
        return self.tightened(-share)

    def check(self, groups: Groups | None, *, actions: bool = False) -> None:
        """Raise an InputError for invalid parameters, too many groups to compare, or unexpected actions."""
        for part in self.requirements:
            part._check()
            if not actions:
                part._check_written()
            if groups is not None:
                refuse_large(part._size(groups), len(groups), stratified=bool(part.controls))

    def _prepare(self, groups: Groups) -> None:
        """Check the parameters again, as they can be assigned, and warn if there is only one group."""
        self.check(None)
        if any(groups.is_one_group(notion.groups) for notion in self.notions):
            warn_user(
                "there is only one group, so every classifier satisfies the constraint.",
                VacuousConstraintWarning,
            )
            return
        for controls, mode in dict.fromkeys((part.controls, part.groups) for part in self.notions):
            text = vacuous_strata(groups, controls, mode) if controls else ""
            if text:
                warn_user(text, VacuousConstraintWarning)

    @property
    def controls(self) -> tuple[str, ...]:
        """The names of all control features."""
        return tuple(dict.fromkeys(name for part in self.requirements for name in part.controls))

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The single requirements."""
        raise NotImplementedError

    @property
    def notions(self) -> tuple[Notion, ...]:
        """The requirements that compare groups."""
        from evenhand.requirements.notions import Notion  # noqa: PLC0415  (a notion is a constraint)

        return tuple(part for part in self.requirements if isinstance(part, Notion))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The requirements that bound a rate."""
        from evenhand.requirements.bounds import Bound  # noqa: PLC0415  (a bound is a constraint)

        return tuple(part for part in self.requirements if isinstance(part, Bound))

    @property
    def single_features(self) -> bool:
        """Whether one of them is about the groups of single features."""
        return any(part.groups == "independent" for part in self.requirements)

    def __and__(self, other: Constraint) -> AllOf:
        if not isinstance(other, Constraint):
            return NotImplemented
        return AllOf([copy(part) for part in (*self.requirements, *other.requirements)])


def check_constraint(constraint: Any, *, actions: bool = False) -> None:
    """Raise an InputError for what is no requirement, and for one with invalid parameters."""
    if not isinstance(constraint, Constraint):
        raise InputError(
            "constraint must be a requirement such as DemographicParity(difference=0.05), got "
            f"{type(constraint).__name__}."
        )
    constraint.check(None, actions=actions)


class Requirement(Constraint):
    """A single requirement: a notion of fairness, or a bound on a rate."""

    groups: Any

    def comparisons(self, groups: Groups) -> Iterator[Comparison]:
        """The stratum of groups that are compared with each other, which groups are in it, and these."""
        raise NotImplementedError

    @property
    def numbers(self) -> dict[str, float]:
        """Its tolerance, bounds or margin, by name."""
        return {name: value for name in LOOSEST if (value := getattr(self, name, None)) is not None}

    @property
    def _parameter_name(self) -> str:
        """The name of the requirement among the parameters of several."""
        return type(self).__name__.lower()

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirement itself."""
        return (self,)

    def _linear(self, masses: NDArray[np.float64], groups: Groups) -> LinearConstraints:
        raise NotImplementedError

    def _slopes(
        self, linear: LinearConstraints, rates: CellRates, scalars: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        raise NotImplementedError

    def _measure(self, rates: CellRates) -> Sequence[AnyMeasurement]:
        raise NotImplementedError

    @property
    def controls(self) -> tuple[str, ...]:
        """The names of the control features; empty if there are none."""
        return ()

    def _check_written(self) -> None:
        """Raise an InputError if a requirement about several actions meets two decisions."""

    def _size(self, groups: Groups) -> int:
        """Number of linear constraints, at most."""
        raise NotImplementedError

    def _move(self, share: float) -> None:
        """Become stricter by a share of the way to the strictest; less strict if it is negative."""
        raise NotImplementedError


@dataclass(repr=False)
class AllOf(Constraint):
    """Several requirements at once; made by ``&``.

    Parameters
    ----------
    parts : list of notions and bounds
        The requirements that must all hold.

    Examples
    --------
    >>> from evenhand import DemographicParity, EqualOpportunity
    >>> both = DemographicParity(difference=0.05) & EqualOpportunity(ratio=0.9)
    >>> both.set_params(demographicparity__difference=0.1)
    DemographicParity(difference=0.1) & EqualOpportunity(ratio=0.9)
    """

    parts: Sequence[Requirement]

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts))

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements that must all hold."""
        return tuple(self.parts)

    def _check(self) -> None:
        several = isinstance(self.parts, Sequence) and len(self.parts) > 0
        if not several or not all(isinstance(part, Requirement) for part in self.parts):
            raise InputError(f"AllOf takes a list of notions and bounds, but got {self.parts!r}.")

    def _named_parts(self) -> dict[str, Requirement]:
        kinds = [part._parameter_name for part in self.parts]
        return {
            kind if kinds.count(kind) == 1 else f"{kind}-{kinds[: k + 1].count(kind)}": self.parts[k]
            for k, kind in enumerate(kinds)
        }


def refuse_large(n_constraints: int, n_groups: int, *, stratified: bool = False) -> None:
    """Raise an InputError if linear constraints would need too much memory."""
    needed = 3 * n_constraints * n_groups * 2 * 8  # C and two temporaries of its size
    if needed > _MAX_BYTES:
        what, remedy = "groups", "Pool rare groups with min_size, or use groups='independent'."
        if stratified:
            what, remedy = "groups in strata", "Put the values of control features into fewer bands."
        raise InputError(
            f"{n_constraints:,} constraints on {n_groups:,} {what} need {needed / 2**30:.1f} GiB. {remedy}"
        )


@dataclass(repr=False)
class WithMargins(Constraint):
    """A requirement that every group satisfies with a margin, which can differ from group to group.

    The linear constraints of the requirement, ``lo <= C rho + B t + k <= hi``, become
    ``lo + lower <= C rho + B t + k <= hi - upper``. Decisions are measured by the requirement itself.

    Parameters
    ----------
    constraint : Constraint
    lower, upper : mapping of ConstraintName to float
        Margins at the lower and at the upper end of each linear constraint; 0 where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand import DemographicParity, Groups
    >>> parity, groups = DemographicParity(difference=0.1), Groups.product({"sex": ["F", "M"]})
    >>> masses = np.full((2, 2), 0.25)
    >>> first, _ = parity.linear(masses, groups).names
    >>> careful = WithMargins(parity, lower={first: 0.02}, upper={first: 0.04})
    >>> linear = careful.linear(masses, groups)
    >>> linear.lo.round(3).tolist(), linear.hi.round(3).tolist()
    ([-0.08, -0.1], [0.06, 0.1])
    """

    constraint: Constraint
    _: KW_ONLY
    lower: Mapping[ConstraintName, float]
    upper: Mapping[ConstraintName, float]

    def __post_init__(self) -> None:
        self.lower, self.upper = ByName(self.lower), ByName(self.upper)
        super().__post_init__()

    def __repr__(self) -> str:
        margins = [*self.lower.values(), *self.upper.values()]
        ends = dict.fromkeys(f"{size:.2g}" for size in (min(margins), max(margins)))
        return f"{self.constraint!r} with margins of {' to '.join(ends)}"

    def _check(self) -> None:
        if not isinstance(self.constraint, Constraint):
            raise InputError(f"constraint must be a requirement, got {self.constraint!r}.")
        margins = np.array([*self.lower.values(), *self.upper.values()], dtype=np.float64)
        if not len(margins) or not np.isfinite(margins).all():
            raise InputError("margins must be finite numbers, at least one of them.")

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The single requirements, without the margins."""
        return self.constraint.requirements

    def linear(self, masses: ArrayLike, groups: Groups) -> LinearConstraints:
        """The requirement with its margins as linear constraints; see :meth:`Constraint.linear`."""
        linear = self.constraint.linear(masses, groups)
        lower, upper = (
            np.array([margins.get(name, 0.0) for name in linear.names])
            for margins in (self.lower, self.upper)
        )
        return replace(linear, lo=linear.lo + lower, hi=linear.hi - upper)

    def of(self, constraint: Constraint) -> WithMargins:
        """The same margins for another requirement, such as this one with the rates of its references."""
        return WithMargins(constraint, lower=self.lower, upper=self.upper)
