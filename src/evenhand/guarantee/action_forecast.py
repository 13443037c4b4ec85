"""What to expect of several actions on new rows: rates drawn with the errors of their estimates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from evenhand.guarantee.forecast import Forecast
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import on_actions
from evenhand.requirements.requirement import Requirement

Floats = NDArray[np.float64]

_LEAST = 1e-6
_WIDEST = 2.0
"""Largest standard error of the log-odds of a label's share, as for two decisions."""


@dataclass(frozen=True, eq=False, repr=False)
class ActionForecast(Forecast):
    """What to expect of several actions on new rows, for each notion and bound of a requirement.

    The attributes are those of :class:`~evenhand.guarantee.forecast.Forecast`. These differ:

    Attributes
    ----------
    rates : ActionRates
    rows : array, shape (M, L)
    errors : array, shape (M, L, K)
        Standard errors of posteriors that are wrong, in the logarithm of each action's rate.
    moves : array, shape (draws, M, L, K)
        Draws of the error of rates because other people come.
    known : bool, default=False
        Whether the group is known: posteriors are then wrong about the label alone.
    """

    rates: ActionRates  # type: ignore[assignment]
    moves: Floats | None = None
    known: bool = False
    _remedies: ClassVar[str] = " or a wider tolerance"

    @property
    def _requirements(self) -> tuple[Requirement, ...]:
        return tuple(on_actions(self.constraint, self.rates.actions).requirements)

    def _draw(self) -> Any:
        """Draws of masses and rates, shapes (draws, M, L) and (draws, M, L, K)."""
        random, moves, mass = np.random.default_rng(0), np.asarray(self.moves), self.rates.masses
        n, L = len(moves), mass.shape[1]
        # A row of the population is added to each cell, so that no rate is certainly 0 or 1.
        overall = self.rates.selected.sum(axis=(0, 1)) / self.rates.mass.sum()
        rows = self.rows[..., None]
        rho = (rows * np.nan_to_num(self.rates.rates) + overall) / (rows + 1)
        z = random.standard_normal((n, len(mass), L if self.known else 1, rho.shape[2]))
        if self.known:
            z = (z - z.mean(axis=2, keepdims=True)) * np.sqrt(L / (L - 1))
        off = self.errors * z
        off = rho * (off - (rho * off).sum(axis=-1, keepdims=True))
        rate = np.clip(rho + moves + off, 0.0, None)
        rate /= rate.sum(axis=-1, keepdims=True)
        groups = mass.sum(axis=1, keepdims=True)
        share = np.clip(mass / np.where(groups > 0, groups, 1.0), _LEAST, 1 - _LEAST)
        width = 1 / np.sqrt(
            np.maximum(self.rows.sum(axis=1, keepdims=True) * share * (1 - share), _WIDEST**-2)
        )
        share = expit(logit(share) + width * random.standard_normal((n, *share.shape))) * (mass > 0)
        mass = groups * share / np.maximum(share.sum(axis=-1, keepdims=True), _LEAST)
        if self.sample is not None:
            counted = random.poisson(self.sample * mass)
            selected = random.multinomial(counted, rate).astype(np.float64)
            return replace(self.rates, mass=counted.astype(np.float64), selected=selected)
        return replace(self.rates, mass=mass, selected=mass[..., None] * rate)
