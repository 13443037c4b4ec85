"""A fairness requirement as linear constraints on the selection rates of the cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.display.notebook import MOST_ROWS, html_table
from evenhand.groups.groups import GroupName

Floats = NDArray[np.float64]

_TERNARY = 90
"""Steps of a ternary search: the interval is then a few units in the last place."""

Name = TypeVar("Name")


@dataclass(frozen=True)
class ConstraintName:
    """The notion, statistic and group of one linear constraint."""

    notion: str
    statistic: str
    group: GroupName
    side: str = ""
    """Which of two constraints on the same statistic of the same group, if there are two."""
    stratum: GroupName | None = None
    """The stratum that the group is compared in."""

    @property
    def who(self) -> str:
        """The group, and the stratum that it is compared in."""
        group = str(self.group) or "everybody"
        return group if self.stratum is None else f"{group} given {self.stratum}"

    def __str__(self) -> str:
        what = self.statistic if self.notion == self.statistic else f"{self.notion}, {self.statistic}"
        return f"{what}: {self.who}{f', {self.side}' if self.side else ''}"


def named(
    notion: str, statistic: str, groups: Sequence[GroupName], keep: NDArray[np.bool_], side: str = ""
) -> tuple[ConstraintName, ...]:
    """The names of the constraints of some of the groups."""
    kept = zip(groups, keep, strict=True)
    return tuple(ConstraintName(notion, statistic, group, side) for group, wanted in kept if wanted)


class ByName(dict[Name, float]):
    """A number for each linear constraint or group, such as its multiplier, its shadow price or its weight.

    A dict whose repr lists the largest numbers first and cuts the list short.

    Examples
    --------
    >>> name = ConstraintName("demographic parity", "selection rate", GroupName(("sex",), ("F",)))
    >>> ByName({name: -0.25})
    demographic parity, selection rate: sex=F  -0.25
    """

    def _largest(self) -> list[tuple[str, str]]:
        ordered = sorted(self.items(), key=lambda item: -abs(item[1]))
        return [(str(name), f"{number + 0.0:.6g}") for name, number in ordered]

    def __repr__(self) -> str:
        largest = self._largest()
        lines = [f"{name}  {number}" for name, number in largest[:MOST_ROWS]]
        more = len(largest) - len(lines)
        return "\n".join([*lines, *([f"and {more:,} more"] if more else [])]) or "{}"

    def _repr_html_(self) -> str:
        return html_table(["", "value"], self._largest())


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """A requirement as J linear constraints, ``lo <= C rho + B t + k <= hi`` for some t in [0, 1]^K.

    Attributes
    ----------
    names : tuple of ConstraintName
    C : array, shape (J, M, 2), or (J, M, L, K) with L labels and K actions
    k, lo, hi : arrays, shape (J,)
        `lo` is -inf and `hi` inf where a constraint has no such end.
    undefined : tuple of ConstraintName
        Constraints left out because their statistic is undefined: its cells have no mass.
    B : array, shape (J, K), or None
        Coefficients of free scalars, at most one in each constraint, such as the rate of the lowest group;
        None if there are none.
    """

    names: tuple[ConstraintName, ...]
    C: NDArray[np.float64]
    k: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    undefined: tuple[ConstraintName, ...] = ()
    B: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_scalars(self) -> int:
        """K, the number of free scalars."""
        return 0 if self.B is None else self.B.shape[1]

    def values(self, rho: ArrayLike, scalars: ArrayLike | None = None) -> NDArray[np.float64]:
        """``C rho + B t + k`` at selection rates of shape (M, 2); by default with the scalars that fit best.

        A constraint is NaN if the rate of a cell with a non-zero coefficient is.
        """
        rates = np.asarray(rho, dtype=np.float64)
        unknown = np.isnan(rates)
        values = np.tensordot(self.C, np.where(unknown, 0.0, rates), axes=self.C.ndim - 1) + self.k
        if self.B is not None:
            values = values + self.B @ (
                self._best_scalars(values) if scalars is None else np.asarray(scalars)
            )
        return np.where((self.C[:, unknown] != 0).any(axis=1), np.nan, values)

    def _best_scalars(self, values: Floats) -> Floats:
        """Scalars with the smallest violation, by ternary search: it is convex in each."""
        B = np.empty((len(self), 0)) if self.B is None else self.B
        low, high = np.zeros(B.shape[1]), np.ones(B.shape[1])

        def violations(t: Floats) -> Floats:
            each = values[:, None] + B * t
            over = np.maximum(self.lo[:, None] - each, each - self.hi[:, None])
            return np.asarray(np.where(B != 0, over, -np.inf).max(axis=0, initial=-np.inf))

        for _ in range(_TERNARY):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            better = violations(left) <= violations(right)
            low, high = np.where(better, low, left), np.where(better, right, high)
        return (low + high) / 2

    def in_sums(self, masses: NDArray[np.float64]) -> tuple[Floats, Floats, Floats]:
        """The constraints in s = (masses * rho, t): A of shape (J, 2M + K), with ``lo <= A s <= hi``."""
        masses = masses.reshape(masses.shape + (1,) * (self.C.ndim - 1 - masses.ndim))
        per_mass = np.divide(self.C, masses, out=np.zeros_like(self.C), where=masses > 0)
        A = per_mass.reshape(len(self), math.prod(self.C.shape[1:]))
        return A if self.B is None else np.hstack([A, self.B]), self.lo - self.k, self.hi - self.k

    def violation(self, rho: ArrayLike) -> float:
        """The largest violation of a constraint; 0 if all hold."""
        values = self.values(rho)
        return float(np.maximum(self.lo - values, values - self.hi).max(initial=0.0))

    def given(self, stratum: GroupName) -> LinearConstraints:
        """The same with names that say in which stratum groups are compared."""
        return replace(
            self,
            names=tuple(replace(name, stratum=stratum) for name in self.names),
            undefined=tuple(replace(name, stratum=stratum) for name in self.undefined),
        )

    def numbered(self) -> LinearConstraints:
        """The same with names that tell constraints apart, where a statistic is constrained twice."""
        seen: Counter[ConstraintName] = Counter()
        names = []
        for name in self.names:
            seen[name] += 1
            again = f"{name.side}{' ' if name.side else ''}({seen[name]})"
            names.append(name if seen[name] == 1 else replace(name, side=again))
        return replace(self, names=tuple(names))

    @classmethod
    def stack(cls, parts: Iterable[LinearConstraints]) -> LinearConstraints:
        """The constraints of several requirements together."""
        parts = list(parts)
        B = None
        if any(part.n_scalars for part in parts):
            from scipy.linalg import block_diag  # noqa: PLC0415  (importing notions need not import scipy)

            B = block_diag(*(np.empty((len(part), 0)) if part.B is None else part.B for part in parts))
        return cls(
            names=tuple(name for part in parts for name in part.names),
            C=np.concatenate([part.C for part in parts]),
            k=np.concatenate([part.k for part in parts]),
            lo=np.concatenate([part.lo for part in parts]),
            hi=np.concatenate([part.hi for part in parts]),
            undefined=tuple(name for part in parts for name in part.undefined),
            B=B,
        )
