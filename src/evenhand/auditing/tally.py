"""What an audit has to know about the rows: sums over the cells, all from one pass.

Next to the masses and selection rates of the cells these are the rows themselves, without weights, for
counts; the squared weights, of all and of selected rows, for how much the rows tell; and what an earlier rule
decided, for changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairness.rates import CellRates, Decisions, sum_cells
from evenhand.fairness.statistic import Statistic
from evenhand.inference.intervals import Estimate, wilson

__all__ = ["Share", "Tally", "Turned", "effective_size", "tally"]

Cells = NDArray[np.float64]
_CONSTANT = 1e-12  # a share that is 0 or 1 but for rounding has no spread to speak of
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Turned:
    """How decisions changed, by cell: sums of shape (M, 2).

    Attributes
    ----------
    before, after : array
        Rows that were and are selected.
    up, down : array
        Rows that are selected now and were not, and the reverse. Of a row with probabilities p before and
        q now, the part q - p or p - q has changed.
    """

    before: Cells
    after: Cells
    up: Cells

    @property
    def down(self) -> Cells:  # noqa: D102  (described with the others)
        return np.maximum(self.before + self.up - self.after, 0.0)


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over the cells, each of shape (M, 2).

    Attributes
    ----------
    rates : CellRates
        Weighted, if there are weights, with the largest weight as 1.
    squares : array
        Sum of the squares of these weights.
    rows, selected : array
        Rows, and selected rows, without weights.
    weighted : bool
    turned, turned_rows : Turned or None
        Changes since an earlier rule, with and without weights.
    squares_selected : array or None
        The part of `squares` that is selected, where there are weights.
    turned_squares : Turned or None
        Changes in squared weights, where there are weights.
    randomised : bool
        Whether some decision is a probability that is neither 0 nor 1.
    """

    rates: CellRates
    squares: Cells
    rows: Cells
    selected: Cells
    weighted: bool
    turned: Turned | None = None
    turned_rows: Turned | None = None
    squares_selected: Cells | None = None
    turned_squares: Turned | None = None
    randomised: bool = False

    def share(self, statistic: Statistic, members: NDArray[Any]) -> Share:
        """Sum what a statistic looks at over each of several groups."""
        mask = np.array(statistic.mask, np.float64)
        start, end = np.array([statistic.intercept, np.add(statistic.intercept, statistic.slope)], np.float64)
        ends = np.stack([start, end])[:, mask > 0] if mask.any() else np.stack([start, end])
        value, spread = statistic.values(self.rates, members), None
        if self.squares_selected is not None:
            # A row is `end` if it is selected and `start` if not; a probability is a decision to be drawn.
            rest = np.maximum(self.squares - self.squares_selected, 0.0)
            known = np.nan_to_num(value)[:, None]
            apart = (members @ (mask**2 * rest)) * (start - known) ** 2
            apart += (members @ (mask**2 * self.squares_selected)) * (end - known) ** 2
            spread = apart.sum(axis=1)
        return Share(
            members @ (mask * self.rates.mass).sum(axis=1),
            members @ (mask**2 * self.squares).sum(axis=1),
            value,
            float(ends.min()),
            float(np.ptp(ends)),
            spread,
        )


@dataclass(frozen=True, eq=False)
class Share:
    """A statistic of several groups, and how much is known about it.

    Attributes
    ----------
    mass, squares : array
        Sums of the weights, and of the squared weights, of the rows that the statistic looks at.
    value : array
        The statistic; NaN where there are no such rows.
    start, width : float
        A row adds a number from `start` to `start + width`: 0 to 1 for everything that is a rate.
    spread : array or None
        Sum of squared weights times squared distances from `value`, where there are weights.
    """

    mass: NDArray[np.float64]
    squares: NDArray[np.float64]
    value: NDArray[np.float64]
    start: float = 0.0
    width: float = 1.0
    spread: NDArray[np.float64] | None = None

    @property
    def size(self) -> NDArray[np.float64]:
        """The effective number of rows; the rows themselves without weights."""
        share = (self.value - self.start) / (self.width or 1.0)
        spread = None if self.spread is None else self.spread / (self.width or 1.0) ** 2
        return effective_size(self.mass, self.squares, share * (1 - share), spread)

    def estimate(self, z: float, interval: Callable[..., Estimate] = wilson) -> Estimate:
        """Give the statistic with its interval, by default Wilson's."""
        width = self.width or 1.0
        return interval((self.value - self.start) / width, self.size, z).moved(self.start, width)


def effective_size(
    mass: NDArray[np.float64],
    squares: NDArray[np.float64],
    variance: NDArray[np.float64],
    spread: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Give the number of rows of weight 1 that would tell as much about a weighted mean.

    The mean is a quotient of two sums, and its linearised variance is sum of w^2 (v - mean)^2 / (sum of w)^2.
    The effective number of rows is what this variance is that of one row divided by. Kish's number,
    (sum of w)^2 / sum of w^2, is the same if weights have nothing to do with values, and it is too large if
    the rows that differ are heavy. Where few rows differ the linearised variance is itself uncertain and can
    be far too small, so the smaller number counts; it is Kish's where all values are the same.

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
    # Equal weights give the rows themselves, to the last digit.
    return np.where(linearised < kish * (1 - _ROUNDING), linearised, kish)


def tally(decisions: Decisions) -> Tally:
    """Count in one pass."""
    selection, before, weights = decisions.selection, decisions.before, decisions.weights
    # Squares of quotients with the largest weight neither vanish nor overflow.
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

    sums = sum_cells(decisions.codes, len(decisions.groups), decisions.positive, columns)
    # Each of these is all rows, selected rows and, with an earlier rule, selected by it and newly selected.
    plain, weighted, squared = (sums, sums, sums) if weights is None else np.split(sums, 3)

    def turned(part: NDArray[np.float64]) -> Turned | None:
        return None if before is None else Turned(part[2], part[1], part[3])

    labelled = decisions.positive is not None
    return Tally(
        CellRates(decisions.groups, weighted[0], weighted[1], labelled, decisions.classes),
        squares=squared[0],
        rows=plain[0],
        selected=plain[1],
        weighted=weights is not None,
        turned=turned(weighted),
        turned_rows=turned(plain),
        squares_selected=None if weights is None else squared[1],
        turned_squares=None if weights is None else turned(squared),
        randomised=decisions.randomised,
    )


def _rise(earlier: NDArray[Any], now: NDArray[Any]) -> NDArray[Any]:
    if now.dtype == earlier.dtype == np.bool_:
        return now > earlier
    rise: NDArray[Any] = np.maximum(now.astype(np.float64) - earlier, 0.0)
    return rise
