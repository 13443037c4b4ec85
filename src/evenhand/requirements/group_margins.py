"""A requirement with a margin of its own for each group and statistic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.requirements.constraints import ByConstraint, ConstraintName, LinearConstraints
from evenhand.requirements.requirement import Constraint, Requirement


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
        self.lower, self.upper = ByConstraint(self.lower), ByConstraint(self.upper)
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
