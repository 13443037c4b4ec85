"""What an audit has to know about the rows: sums over the cells, all from one pass.

Next to the masses and selection rates of the cells these are the rows themselves, without weights, for
counts; the squared weights, for how much the rows tell; and what an earlier rule decided, for changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.intervals import Estimate, wilson
from evenhand.rates import CellRates, Decisions, sum_cells
from evenhand.statistic import Statistic

__all__ = ["Share", "Tally", "Turned", "tally"]

Cells = NDArray[np.float64]


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
    """

    rates: CellRates
    squares: Cells
    rows: Cells
    selected: Cells
    weighted: bool
    turned: Turned | None = None
    turned_rows: Turned | None = None

    def share(self, statistic: Statistic, members: NDArray[Any]) -> Share:
        """Sum what a statistic looks at over each of several groups."""
        mask = np.array(statistic.mask, np.float64)
        ends = np.array([statistic.intercept, np.add(statistic.intercept, statistic.slope)], np.float64)
        ends = ends[:, mask > 0] if mask.any() else ends
        size = (mask * self.rates.mass).sum(axis=1)
        return Share(
            members @ size,
            members @ (mask**2 * self.squares).sum(axis=1),
            statistic.values(self.rates, members),
            float(ends.min()),
            float(np.ptp(ends)),
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
    """

    mass: NDArray[np.float64]
    squares: NDArray[np.float64]
    value: NDArray[np.float64]
    start: float = 0.0
    width: float = 1.0

    @property
    def size(self) -> NDArray[np.float64]:
        """Kish's effective number of rows: (sum of w)^2 / sum of w^2, the rows themselves without weights."""
        return np.where(self.mass > 0, self.mass**2 / np.where(self.mass > 0, self.squares, 1.0), 0.0)

    def estimate(self, z: float, interval: Callable[..., Estimate] = wilson) -> Estimate:
        """Give the statistic with its interval, by default Wilson's."""
        width = self.width or 1.0
        return interval((self.value - self.start) / width, self.size, z).moved(self.start, width)


def tally(decisions: Decisions) -> Tally:
    """Count in one pass."""
    selection, before, weights = decisions.selection, decisions.before, decisions.weights
    largest = (
        1.0 if weights is None else weights.max()
    )  # squares of the quotients neither vanish nor overflow

    def columns(rows: slice) -> Sequence[NDArray[Any] | None]:
        now = selection[rows]
        plain: list[NDArray[Any] | None] = [None, now]
        if before is not None:
            earlier = before[rows]
            plain += [earlier, _rise(earlier, now)]
        if weights is None:
            return plain
        w = weights[rows] / largest
        return [*plain, *(w if column is None else w * column for column in plain), w * w]

    sums = sum_cells(decisions.codes, len(decisions.groups), decisions.positive, columns)
    labelled = decisions.positive is not None
    n_plain = 2 if before is None else 4
    plain = sums[:n_plain]
    weighted = sums[n_plain : 2 * n_plain] if weights is not None else plain
    return Tally(
        CellRates(decisions.groups, weighted[0], weighted[1], labelled, decisions.classes),
        squares=sums[-1] if weights is not None else plain[0],
        rows=plain[0],
        selected=plain[1],
        weighted=weights is not None,
        turned=None if before is None else Turned(weighted[2], weighted[1], weighted[3]),
        turned_rows=None if before is None else Turned(plain[2], plain[1], plain[3]),
    )


def _rise(earlier: NDArray[Any], now: NDArray[Any]) -> NDArray[Any]:
    if now.dtype == earlier.dtype == np.bool_:
        return now > earlier
    rise: NDArray[Any] = np.maximum(now.astype(np.float64) - earlier, 0.0)
    return rise
