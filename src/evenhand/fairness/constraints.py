"""A fairness requirement as linear constraints on the selection rates of the cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.display.notebook import MOST_ROWS, html_table
from evenhand.fairness.groups import GroupName

Floats = NDArray[np.float64]

__all__ = ["ByConstraint", "ConstraintName", "LinearConstraints"]


@dataclass(frozen=True)
class ConstraintName:
    """The notion, statistic and group of one linear constraint."""

    notion: str
    statistic: str
    group: GroupName

    def __str__(self) -> str:
        return f"{self.notion}, {self.statistic}: {self.group}"


class ByConstraint(dict[ConstraintName, float]):
    """A number for each linear constraint, such as its multiplier or its shadow price.

    A dict whose repr lists the largest numbers first and cuts the list short.

    Examples
    --------
    >>> name = ConstraintName("demographic parity", "selection rate", GroupName(("sex",), ("F",)))
    >>> ByConstraint({name: -0.25})
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
        return html_table(["requirement", "value"], self._largest())


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """A requirement as J linear constraints, ``lo <= C rho + k <= hi``.

    Attributes
    ----------
    names : tuple of ConstraintName
    C : array, shape (J, M, 2)
    k, lo, hi : arrays, shape (J,)
    undefined : tuple of ConstraintName
        Constraints left out because their statistic is undefined: its cells have no mass.
    """

    names: tuple[ConstraintName, ...]
    C: NDArray[np.float64]
    k: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    undefined: tuple[ConstraintName, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def values(self, rho: ArrayLike) -> NDArray[np.float64]:
        """``C rho + k`` at selection rates of shape (M, 2).

        A constraint is NaN if the rate of a cell with a non-zero coefficient is.
        """
        rates = np.asarray(rho, dtype=np.float64)
        unknown = np.isnan(rates)
        values = np.tensordot(self.C, np.where(unknown, 0.0, rates), axes=2) + self.k
        return np.where((self.C[:, unknown] != 0).any(axis=1), np.nan, values)

    def in_sums(self, masses: NDArray[np.float64]) -> tuple[Floats, Floats, Floats]:
        """The constraints in s = masses * rho: A of shape (J, 2M), lo and hi with ``lo <= A s <= hi``."""
        per_mass = np.divide(self.C, masses, out=np.zeros_like(self.C), where=masses > 0)
        return per_mass.reshape(len(self), masses.size), self.lo - self.k, self.hi - self.k

    def violation(self, rho: ArrayLike) -> float:
        """The largest violation of a constraint; 0 if all hold."""
        values = self.values(rho)
        return float(np.maximum(self.lo - values, values - self.hi).max(initial=0.0))

    @classmethod
    def stack(cls, parts: Iterable[LinearConstraints]) -> LinearConstraints:
        """The constraints of several requirements together."""
        parts = list(parts)
        return cls(
            names=tuple(name for part in parts for name in part.names),
            C=np.concatenate([part.C for part in parts]),
            k=np.concatenate([part.k for part in parts]),
            lo=np.concatenate([part.lo for part in parts]),
            hi=np.concatenate([part.hi for part in parts]),
            undefined=tuple(name for part in parts for name in part.undefined),
        )
