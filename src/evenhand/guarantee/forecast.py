"""What to expect on new rows: how far apart groups are likely to be there.

The requirement holds for the rates that a fit claims. On new rows each rate differs from its claim, most
where few rows were seen, and a maximum over groups only gains by that: with errors e_g, the mean of
max |d_g + e_g| exceeds max |d_g|. The forecast is this mean, simulated: the share of positives in each group
and the selection rates of its cells are drawn about their claims, and every draw is measured by the
requirement itself.

Rates are off because other people were seen, and because posteriors are wrong; `evenhand.estimators.margin`
finds the variances of both.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from evenhand.data.checks import check_count
from evenhand.exceptions import ForecastWarning, VacuousConstraintWarning, warn_user
from evenhand.groups.groups import GroupName
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import on_actions
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.measurement import AnyMeasurement, BoundMeasurement, Measurement
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint, Requirement

Floats = NDArray[np.float64]

_DRAWS = 1000
_ENDS = (0.05, 0.95)
_LEAST = 1e-6
_WIDEST = 2.0
"""Largest standard error of log-odds: anything from 0.02 to 0.98 about a half."""
_EXCEEDED = 1.5
"""A forecast of so many times the tolerance is warned of."""


@dataclass(frozen=True)
class Expected:
    """What to expect of one requirement on new rows.

    Attributes
    ----------
    notion : str
        The notion or, for a bound, the rate.
    measure : {"difference", "ratio", "bound"}
    asked : float
        The tolerance; or the bound of the group that is most likely to miss its bound.
    value, low, high : float
        Mean of the largest difference, of the smallest ratio, or of the rate of that group; and the ends of
        an interval that holds it with a probability of 90 %.
    excess : float
        By how much the tolerance or the bound is missed on average; negative if it is not.
    who : str
        The group that is furthest off most often, and its stratum if it is compared in one; empty if nothing
        is defined.
    rows : int
        Number of its rows that the rates rest on: those with the labels that the notion counts.
    """

    notion: str
    measure: str
    asked: float
    value: float
    low: float
    high: float
    excess: float
    who: str
    rows: int

    @property
    def exceeded(self) -> bool:
        """Whether a tolerance is missed by more than half; never of a bound."""
        slack = {"difference": self.asked, "ratio": 1 - self.asked}.get(self.measure, math.inf)
        return self.excess > (_EXCEEDED - 1) * slack

    @property
    def asked_text(self) -> str:
        """What was asked for, in words unless it is a difference."""
        kind = {"ratio": "a ratio of ", "bound": "a bound of "}.get(self.measure, "")
        return f"{kind}{self.asked:.3f}"

    def __str__(self) -> str:
        text = f"{self.notion}: asked for {self.asked_text}; expect about {self.value:.3f} on new data"
        if self.exceeded:
            few = f"only {self.rows:,} rows of {self.who} were seen"
            text += f", mostly because {few if self.rows else f'no rows are known to be of {self.who}'}"
        return text


@dataclass(frozen=True, eq=False)
class Forecast:
    """What to expect on new rows, for each notion and bound of a requirement.

    Attributes
    ----------
    constraint : Constraint
        The requirement.
    rates : CellRates
        Masses and selection rates to expect.
    rows : array, shape (M, 2)
        Number of rows of each cell that they rest on.
    errors : array, shape (M, 2, 2)
        Covariance of the errors of the log-odds of each group's two rates.
    margin : float, default=0
        Standard errors of each group by which the requirement was tightened.
    cost : float, default=0
        Risk that the margin costs.
    internal : Constraint, default=None
        The tightened requirement; None if there is no margin.
    sample : int, default=None
        Number of new rows that are measured; None is the population.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand import DemographicParity, Groups
    >>> from evenhand.requirements.rates import CellRates
    >>> masses = np.array([[0.4, 0.5], [0.04, 0.06]])
    >>> rates = CellRates(Groups.product({"sex": ["F", "M"]}), masses, masses / 2)
    >>> counted = np.eye(2) / (1000 * masses * 0.25)[:, :, None]  # of rates counted on 1,000 rows
    >>> forecast = Forecast(DemographicParity(difference=0.02), rates, 1000 * masses, counted)
    >>> forecast
    demographic parity: asked for 0.020; expect about 0.036 on new data, mostly because only 100 rows of sex=M
    were seen
    >>> forecast.on(500).expected[0].value > forecast.expected[0].value  # with the error of 500 rows
    True
    """

    constraint: Constraint
    rates: CellRates
    rows: Floats
    errors: Floats
    margin: float = 0.0
    cost: float = 0.0
    internal: Constraint | None = None
    sample: int | None = None

    def __repr__(self) -> str:
        lines = [str(found) for found in self.expected]
        if self.margin:
            lines.append(
                f"with a margin of {self.margin:.2f} standard errors, which costs a risk of {self.cost:.4f}"
            )
        return "\n".join(lines)

    _remedies: ClassVar[str] = ", a wider tolerance or margin='forecast' of FairPostprocessor"

    def on(self, n_rows: int) -> Forecast:
        """What so many new rows are likely to show: as in an audit, their own sampling error is added.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        Forecast
        """
        check_count("`n_rows`", n_rows, 1)
        return replace(self, sample=int(n_rows))

    @cached_property
    def expected(self) -> tuple[Expected, ...]:
        """One for each notion and bound."""
        drawn = self._draw()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VacuousConstraintWarning)
            return tuple(self._expected(part, part.measure(drawn)) for part in self._requirements)

    @property
    def _requirements(self) -> tuple[Requirement, ...]:
        """The parts of the requirement, each of which is measured."""
        return tuple(self.constraint.requirements)

    @property
    def worth(self) -> Floats:
        """Rows on which a rate would have to be counted to have the same error, shape (M, 2)."""
        inside = self._rates[1] * (1 - self._rates[1])
        variance = np.maximum(np.diagonal(self.errors, axis1=1, axis2=2) * inside, _LEAST)
        return np.where(self.rates.mass > 0, 1 / variance, 0.0)

    @cached_property
    def _rates(self) -> tuple[Floats, Floats]:
        """Shares of positives (M,) and selection rates (M, 2), with one row of the population added.

        No share is certainly 0 or 1.
        """
        mass, rho = self.rates.masses, np.nan_to_num(self.rates.rates)
        groups, label = mass.sum(axis=1), mass.sum(axis=0)
        share = mass[:, 1] / np.where(groups > 0, groups, 1.0)
        overall = (mass * rho).sum(axis=0) / np.where(label > 0, label, 1.0)
        n = self.rows.sum(axis=1)
        found = (n * share + label[1]) / (n + 1), (self.rows * rho + overall) / (self.rows + 1)
        return np.clip(found[0], _LEAST, 1 - _LEAST), np.clip(found[1], _LEAST, 1 - _LEAST)

    def _draw(self) -> CellRates:
        """Draws of masses and selection rates, shape (draws, M, 2)."""
        random, (share, rho) = np.random.default_rng(0), self._rates
        z, errors = random.standard_normal((_DRAWS, len(share))), random.standard_normal((_DRAWS, *rho.shape))
        n = self.rows.sum(axis=1)
        label = expit(logit(share) + z / np.sqrt(np.maximum(n * share * (1 - share), _WIDEST**-2)))
        factors = np.linalg.cholesky(self.errors + _LEAST**2 * np.eye(2))
        rate = expit(logit(rho) + np.einsum("mij,nmj->nmi", factors, errors))
        share = np.stack([1 - label, label], axis=-1)
        mass = self.rates.masses.sum(axis=1)[:, None] * share * (self.rates.mass > 0)
        if self.sample is None:
            return replace(self.rates, mass=mass, selected=mass * rate)
        counted = random.poisson(self.sample * mass)
        selected = random.binomial(counted, rate).astype(np.float64)
        return replace(self.rates, mass=counted.astype(np.float64), selected=selected)

    def _expected(self, part: Requirement, drawn: Sequence[AnyMeasurement]) -> Expected:
        groups = [(found, place) for found in drawn for place in range(len(found.names))]
        missed, values = (np.concatenate(both, axis=1) for both in zip(*map(_missed, drawn), strict=True))
        defined = ~np.isnan(missed).all(axis=1)
        if not defined.any():
            notion, nan = drawn[0].notion, math.nan
            return Expected(notion, drawn[0].measure, nan, nan, nan, nan, nan, "", 0)
        missed, values = missed[defined], values[defined]
        furthest = np.nanargmax(missed, axis=1)
        shown = np.take_along_axis(values, furthest[:, None], axis=1)
        found, place = groups[int(np.bincount(furthest).argmax())]
        low, high = np.quantile(shown, _ENDS).tolist()
        return Expected(
            found.notion,
            found.measure,
            _asked(found, place),
            float(shown.mean()),
            low,
            high,
            float(np.nanmax(missed, axis=1).mean()),
            ConstraintName(found.notion, found.statistic, found.names[place], "", _stratum(found)).who,
            self._rows_of(part, found, place),
        )

    def _rows_of(self, part: Requirement, found: AnyMeasurement, place: int) -> int:
        """Rows of a group with the labels that the statistic counts."""
        statistics = part.statistics if isinstance(part, Notion) else ()
        mask = next((one.mask for one in statistics if one.name == found.statistic), 1.0)
        [who] = [
            family.matrix[place] & cells
            for stratum, cells, family in part.comparisons(self.rates.groups)
            if stratum == _stratum(found)
        ]
        return round(float(who @ (self.rows * mask).sum(axis=1)))


@dataclass(frozen=True, eq=False, repr=False)
class ActionForecast(Forecast):
    """What to expect of several actions on new rows, for each notion and bound of a requirement.

    Rates are drawn with the errors of their estimates. The attributes are those of :class:`Forecast`. These
    differ:

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


def _stratum(found: AnyMeasurement) -> GroupName | None:
    return found.stratum if isinstance(found, Measurement) else None


def _missed(found: AnyMeasurement) -> tuple[Floats, Floats]:
    """By how much each group misses what is asked, negative where it does not; and the number shown of it."""
    if isinstance(found, BoundMeasurement):
        return found.excesses, found.values
    if found.measure == "difference":
        return found.differences - found.tolerance, found.differences
    return found.tolerance - found.ratios, found.ratios


def _asked(found: AnyMeasurement, place: int) -> float:
    """The tolerance, or the bound that the group comes nearest to."""
    if isinstance(found, Measurement):
        return found.tolerance
    low, high, rate = found.at_least[place], found.at_most[place], float(np.nanmean(found.values[..., place]))
    return float(low if np.isnan(high) or abs(rate - low) < abs(high - rate) else high)


def warn_if_exceeded(forecast: Forecast) -> None:
    """Warn once if a tolerance is likely to be exceeded by more than half on new rows.

    Parameters
    ----------
    forecast : Forecast
    """
    exceeded = [str(found) for found in forecast.expected if found.exceeded]
    if exceeded:
        advice = f"More rows{forecast._remedies} would help."
        warn_user(f"{'; '.join(exceeded)}. {advice}", ForecastWarning)
