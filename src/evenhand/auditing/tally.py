"""The sums over cells that an audit needs, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import Groups
from evenhand.guarantee.intervals import Estimate, paired_difference, wilson
from evenhand.requirements.rates import CellRates, Decisions, sum_cells
from evenhand.requirements.statistic import (
    ERROR,
    FALSE_POSITIVE,
    SELECTION,
    TRUE_POSITIVE,
    SelectedShare,
    Statistic,
)

Floats = NDArray[np.float64]
REPORTED = (SELECTION, ERROR, TRUE_POSITIVE, FALSE_POSITIVE)
"""The rates that are reported of every group."""
_CONSTANT = 1e-12  # a share that is 0 or 1 up to rounding has no spread
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over the rows of each cell.

    Attributes
    ----------
    groups : Groups
    sums : array, shape (3, 2 or 4, M, 2)
        First axis: numbers of rows, weights (the largest is 1), and squared weights; without weights, numbers
        of rows three times. Second axis: all rows, selected rows and, with earlier decisions, rows that were
        selected and rows that are newly selected. A row whose probability rises from p to q counts as q - p.
    excluded : array, shape (3, 2 or 4, kinds, 2)
        The same sums over rows that lack a sensitive value, in the order of ``groups.excluded``.
    weighted, labelled : bool
        Whether there are weights, and labels.
    classes : array, default=None
        The negative and the positive label.
    randomised : bool, default=False
        Whether some decision is a probability strictly between 0 and 1.
    proxy : str, default=None
        The feature that is known by probabilities only, if there is one; sums are then expected ones.
    """

    groups: Groups
    sums: Floats
    excluded: Floats
    weighted: bool
    labelled: bool
    classes: NDArray[Any] | None = None
    randomised: bool = False
    proxy: str | None = None

    @cached_property
    def rates(self) -> CellRates:
        """Masses and selection rates of the cells."""
        mass, selected = self.sums[1, :2]
        return CellRates(self.groups, mass, selected, self.labelled, self.classes)

    @property
    def compared(self) -> bool:
        """Whether there are earlier decisions."""
        return bool(self.sums.shape[1] > 2)

    @property
    def reported(self) -> list[Statistic]:
        """The rates that are reported of every group: without labels, those that need none."""
        return [rate for rate in REPORTED if self.labelled or not rate.needs_labels]

    @property
    def earlier(self) -> CellRates | None:
        """Masses and selection rates of the earlier decisions, if there are any."""
        return replace(self.rates, selected=self.sums[1, 2]) if self.compared else None

    @property
    def rows(self) -> Floats:
        """Number of rows of each cell, without weights."""
        return np.asarray(self.sums[0, 0])

    @property
    def selected(self) -> Floats:
        """Number of selected rows of each cell, without weights."""
        return np.asarray(self.sums[0, 1])

    def share(self, statistic: Statistic | SelectedShare, members: NDArray[Any]) -> Share:
        """A statistic in each of several groups, with the sums for its interval."""
        among = 1 if isinstance(statistic, SelectedShare) else 0  # the selected rows, or all
        mass, squares = self.sums[1:, among]
        mask = np.array(statistic.mask, np.float64)
        value, spread = statistic.values(self.rates, members), None
        if self.weighted:
            # A probability is a decision to draw, so a row has one of two values.
            chosen = self.sums[2, 1]
            by_decision = np.maximum(squares - chosen, 0.0), chosen
            known = np.nan_to_num(value)[:, None]
            spread = sum(
                (members @ (mask**2 * part)) * (outcome - known) ** 2
                for part, outcome in zip(by_decision, statistic.outcomes, strict=True)
            ).sum(axis=1)
        return Share(
            members @ (mask * mass).sum(axis=1),
            members @ (mask**2 * squares).sum(axis=1),
            value,
            *statistic.range,
            spread,
        )


@dataclass(frozen=True, eq=False)
class Share:
    """A statistic of several groups, with the sums for its interval.

    Attributes
    ----------
    mass, squares : array
        Sums of the weights, and of the squared weights, of the rows that the statistic looks at.
    value : array
        The statistic; NaN where there are no such rows.
    start, width : float, default=0 and 1
        The value of a row is between `start` and `start + width`: 0 and 1 for a rate.
    spread : array, default=None
        Sum of squared weights times squared distances from `value`, if there are weights.
    """

    mass: Floats
    squares: Floats
    value: Floats
    start: float = 0.0
    width: float = 1.0
    spread: Floats | None = None

    @property
    def size(self) -> Floats:
        """The effective number of rows; without weights, the number of rows."""
        share = (self.value - self.start) / self.width
        spread = None if self.spread is None else self.spread / self.width**2
        return effective_size(self.mass, self.squares, share * (1 - share), spread)

    def estimate(self, z: float, interval: Callable[..., Estimate] = wilson) -> Estimate:
        """The statistic with its interval, by default Wilson's."""
        share = (self.value - self.start) / self.width
        return interval(share, self.size, z).moved(self.start, self.width)


def effective_size(
    mass: Floats,
    squares: Floats,
    variance: Floats,
    spread: Floats | None,
) -> Floats:
    """Effective number of rows: how many rows of weight 1 would give a mean of the same variance.

    The mean is a quotient of two sums, and its linearised variance is sum of w^2 (v - mean)^2 / (sum of w)^2.
    The effective number is the variance of one row divided by this. Kish's number, (sum of w)^2 / sum of w^2,
    is the same if weights and values are independent, and too large if rows with unusual values are heavy. If
    few rows differ, the linearised variance is itself uncertain and can be far too small, so the smaller of
    both numbers is used: Kish's if all values are the same.

    Parameters
    ----------
    mass, squares : array
        Sums of the weights and of the squared weights.
    variance : array
        Of the value of one row: q (1 - q) for a share q.
    spread : array or None
        Sum of w^2 (v - mean)^2; None for rows without weights.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> weights, values = np.array([1.0, 1.0, 1.0, 3.0]), np.array([0.0, 0.0, 0.0, 1.0])
    >>> mean = np.average(values, weights=weights)
    >>> spread = weights**2 @ (values - mean) ** 2
    >>> effective_size(weights.sum(), weights**2 @ np.ones(4), mean * (1 - mean), spread).round(3)
    np.float64(3.0)
    """
    kish = np.where(mass > 0, mass**2 / np.where(mass > 0, squares, 1.0), 0.0)
    if spread is None:
        return kish
    known = (variance > _CONSTANT) & (spread > 0)
    linearised = np.where(known, variance * mass**2 / np.where(known, spread, 1.0), np.inf)
    # With equal weights both agree up to rounding; the margin then selects the exact number of rows.
    return np.where(linearised < kish * (1 - _ROUNDING), linearised, kish)


def tally(decisions: Decisions) -> Tally:
    """All sums over cells, from one pass over the rows."""
    selection, before, weights = decisions.selection, decisions.before, decisions.weights
    # Divided by the largest weight, squares neither underflow nor overflow.
    largest = 1.0 if weights is None else weights.max()

    def columns(rows: slice) -> Sequence[NDArray[Any] | None]:
        now = selection[rows]
        plain: list[NDArray[Any] | None] = [None, now]
        if before is not None:
            earlier = before[rows]
            plain += [earlier, _rise(earlier, now)]
        if weights is None:
            return plain
        w = weights[rows] / largest
        return [
            *plain,
            *(w if column is None else w * column for column in plain),
            *(w * w if column is None else w * w * column for column in plain),
        ]

    return tally_of_sums(decisions, columns, weighted=weights is not None)


def _rise(earlier: NDArray[Any], now: NDArray[Any]) -> NDArray[Any]:
    if now.dtype == earlier.dtype == np.bool_:
        return now > earlier
    rise: NDArray[Any] = np.maximum(now.astype(np.float64) - earlier, 0.0)
    return rise


def tally_of_sums(
    decisions: Decisions, columns: Callable[[slice], Sequence[NDArray[Any] | None]], *, weighted: bool
) -> Tally:
    """All sums over cells, from columns to be summed.

    Parameters
    ----------
    decisions : Decisions
        The groups and labels of rows.
    columns : callable
        Returns the columns of a slice of rows: all rows, selected rows and, with earlier decisions, rows
        selected then and newly selected rows. With weights the same columns follow twice, multiplied by
        weights and by squared weights. None is a column of ones.
    weighted : bool

    Returns
    -------
    Tally
    """
    n_codes, groups, positive = decisions.n_codes, decisions.groups, decisions.positive
    found = sum_cells(decisions.codes, n_codes, positive, columns)
    by_unit = found.reshape(3 if weighted else 1, -1, n_codes, 2)
    sums, excluded = np.split(np.broadcast_to(by_unit, (3, *by_unit.shape[1:])), [len(groups)], axis=2)
    labelled = positive is not None
    return Tally(groups, sums, excluded, weighted, labelled, decisions.classes, decisions.randomised)


def cross_tabulate(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross-table of two sets of decisions: selected by both, before only, after only, neither.

    Parameters
    ----------
    sums : array, shape (4, M, 2)
        All rows, rows selected after, rows selected before, and newly selected rows; see
        :class:`~evenhand.auditing.tally.Tally`.

    Returns
    -------
    array, shape (4, M, 2)
    """
    every, after, before, up = sums
    down = np.maximum(before + up - after, 0.0)
    both = np.maximum(before - down, 0.0)
    neither = np.maximum(every - both - up - down, 0.0)
    return np.stack([both, down, up, neither])


def rate_change(
    counted: Tally,
    rate: Statistic,
    members: NDArray[Any],
    z: float,
    interval: Callable[..., Estimate] = wilson,
) -> Estimate:
    """Change of a rate in each group: the later one minus the earlier one.

    The intervals are Newcombe's for paired data; see :func:`evenhand.guarantee.intervals.paired_difference`.
    Both randomised decisions about a row are assumed to use the same random number.

    Parameters
    ----------
    counted : Tally
        With earlier decisions.
    rate : Statistic
    members : array, shape (G, M)
    z : float
        From :func:`evenhand.guarantee.intervals.critical_value`.
    interval : callable, default=wilson
        The interval of both shares.

    Returns
    -------
    Estimate
        Of shape (G,).
    """
    by_weight, by_square = (_of_rate(rate, cross_tabulate(unit)) for unit in counted.sums[1:])
    mass, total = (members @ every @ np.array(rate.mask) for every in counted.sums[1:, 0])
    both, down, up, neither = (members @ part for part in by_weight)
    known = np.where(mass > 0, mass, 1.0)
    change = (up - down) / known
    spread = None
    if counted.weighted:
        # A row contributes -1, 0 or 1 to the change.
        stayed, lost, won, out = (members @ part for part in by_square)
        spread = won * (1 - change) ** 2 + lost * (1 + change) ** 2 + (stayed + out) * change**2
    size = effective_size(mass, total, (up + down) / known - change**2, spread)
    return paired_difference(both, down, up, neither, size=size, z=z, interval=interval)


def _of_rate(rate: Statistic, table: Floats) -> Floats:
    """Cross-table of the rows that a rate looks at, shape (4, M).

    An error is a selected negative or an unselected positive, so the table of positives is reversed.
    """
    parts = [table[..., y] if slope > 0 else table[::-1, ..., y] for y, slope in enumerate(rate.slope)]
    return np.asarray(sum(part for part, looked in zip(parts, rate.mask, strict=True) if looked))
