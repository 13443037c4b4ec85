"""Rates of actions: how often each is taken in the cells of group and label, and what is made of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.display.notebook import ShownAsTable
from evenhand.groups.groups import Groups
from evenhand.requirements.rates import quotient

if TYPE_CHECKING:
    from evenhand.requirements.actions import Actions

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ActionStatistic:
    """A rate of a group, by the value of each action for each label.

    Attributes
    ----------
    name : str
    mask : array, shape (L,)
        Which labels count.
    table : array, shape (L, K)
    """

    name: str
    mask: Floats
    table: Floats

    @property
    def needs_labels(self) -> bool:
        """Whether the statistic depends on the label."""
        return bool((self.mask != self.mask[0]).any() or (self.table != self.table[0]).any())

    @property
    def range(self) -> tuple[float, float]:
        """The smallest possible value of the rate, and the width up to the largest."""
        values = self.table[self.mask > 0]
        return float(values.min()), float(np.ptp(values)) or 1.0

    def linear(self, masses: Floats, members: NDArray[Any]) -> tuple[Floats, Floats]:
        """Coefficients A, shape (G, M, L, K), and constants k = 0 with q = A rho + k; NaN if undefined."""
        inside = members[:, :, None] * (self.mask * masses)
        shares = quotient(inside, inside.sum(axis=(1, 2), keepdims=True))
        return shares[..., None] * self.table, 0.0 * shares.sum(axis=(1, 2))

    def values(self, rates: ActionRates, members: NDArray[Any]) -> Floats:
        """The statistic of each group, shape (..., G); NaN where it is undefined."""
        part = (self.mask[:, None] * self.table * rates.selected).sum(axis=(-1, -2)) @ members.T
        total = (self.mask * rates.mass).sum(axis=-1) @ members.T
        return quotient(part, total)


@dataclass(frozen=True, eq=False, repr=False)
class ActionRates(ShownAsTable):
    """Masses of the cells, and how often each action is taken in them.

    Attributes
    ----------
    groups : Groups
    actions : Actions
    mass : array, shape (M, L)
    selected : array, shape (M, L, K)
        The part of `mass` with each action.
    labelled : bool
        Whether labels are known. If not, all rows are in column 0.
    """

    groups: Groups
    actions: Actions
    mass: Floats
    selected: Floats
    labelled: bool = True

    @property
    def masses(self) -> Floats:
        """P(S=m, Y=y), shape (M, L)."""
        total: float = self.mass.sum()
        return np.asarray(self.mass / total)

    @property
    def rates(self) -> Floats:
        """P(action a | S=m, Y=y), shape (M, L, K); NaN in cells without mass."""
        return quotient(self.selected, self.mass[..., None])

    @property
    def by_group(self) -> Floats:
        """P(action a | S=m), shape (M, K)."""
        return quotient(self.selected.sum(axis=1), self.mass.sum(axis=1)[:, None])

    def among(self, cells: NDArray[np.bool_]) -> ActionRates:
        """Rates of the people in some of the groups; the others are empty."""
        inside = cells[:, None]
        return replace(self, mass=self.mass * inside, selected=self.selected * inside[..., None])

    def _table(self) -> tuple[str, Sequence[str], list[tuple[str, ...]]]:
        share = self.mass.sum(axis=1) / self.mass.sum()
        rows = [
            (str(name), f"{part:.4f}", *("-" if np.isnan(rate) else f"{rate:.4f}" for rate in rates))
            for name, part, rates in zip(self.groups.cell_names, share, self.by_group, strict=True)
        ]
        return "", ["group", "share of people", *map(str, self.actions.names)], rows
