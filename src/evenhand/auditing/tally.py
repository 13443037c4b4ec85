"""The sums over cells that an audit needs, from one pass over the rows.

Besides the masses and selection rates of the cells these are: numbers of rows, without weights, for counts;
squared weights, of all and of selected rows, for effective numbers of rows; and earlier decisions, for
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.names import Key
from evenhand.guarantee.intervals import Estimate, wilson
from evenhand.requirements.rates import CellRates, Decisions, sum_cells
from evenhand.requirements.statistic import SelectedShare, Statistic

__all__ = ["DecisionChanges", "ExcludedSums", "Share", "Tally", "effective_size", "tally", "tally_of_sums"]

Cells = NDArray[np.float64]
_CONSTANT = 1e-12  # a share that is 0 or 1 up to rounding has no spread
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class DecisionChanges:
    """How decisions changed, by cell: sums of shape (M, 2).

    Attributes
    ----------
    before, after : array
        Rows that were selected and rows that are.
    up, down : array
        Rows that are newly selected and rows that no longer are. A row whose probability changes from p to q
        counts as q - p or p - q.
    """

    before: Cells
    after: Cells
    up: Cells

    @property
    def down(self) -> Cells:  # noqa: D102  (described with the others)
        return np.maximum(self.before + self.up - self.after, 0.0)


@dataclass(frozen=True, eq=False)
class ExcludedSums:
    """Sums over rows that lack a sensitive value, each of shape (kinds of such rows, 2).

    Attributes
    ----------
    keys : tuple of tuples
        What is known of each kind of row: its sensitive values, None where one is missing.
    mass, mass_selected : array
        Sums of the weights of all and of selected rows, in the unit of ``Tally.rates``.
    rows, selected : array
        Numbers of rows and of selected rows, without weights.
    """

    keys: tuple[Key, ...]
    mass: Cells
    mass_selected: Cells
    rows: Cells
    selected: Cells


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over the cells, each of shape (M, 2).

    Attributes
    ----------
    rates : CellRates
        Weighted if there are weights, scaled such that the largest is 1.
    squares : array
        Sum of the squares of these weights.
    rows, selected : array
        Numbers of rows and of selected rows, without weights.
    weighted : bool
    changes, change_counts : DecisionChanges, default=None
        Changes since earlier decisions, with and without weights.
    squares_selected : array, default=None
        Sum of the squared weights of selected rows, if there are weights.
    change_squares : DecisionChanges, default=None
        Changes in squared weights, if there are weights.
    randomised : bool, default=False
        Whether some decision is a probability strictly between 0 and 1.
    excluded : ExcludedSums, default=None
        Of rows that lack a sensitive value and are in no group, if there are any.
    """

    rates: CellRates
    squares: Cells
    rows: Cells
    selected: Cells
    weighted: bool
    changes: DecisionChanges | None = None
    change_counts: DecisionChanges | None = None
    squares_selected: Cells | None = None
    change_squares: DecisionChanges | None = None
    randomised: bool = False
    excluded: ExcludedSums | None = None

    @property
    def earlier(self) -> CellRates | None:
        """Masses and selection rates of the earlier decisions, if there are any."""
        return None if self.changes is None else replace(self.rates, selected=self.changes.before)

    def share(self, statistic: Statistic | SelectedShare, members: NDArray[Any]) -> Share:
        """A statistic in each of several groups, with the sums for its interval."""
        if isinstance(statistic, SelectedShare):
            return self._among_selected(statistic, members)
        mask = np.array(statistic.mask, np.float64)
        start, end = np.array([statistic.intercept, np.add(statistic.intercept, statistic.slope)], np.float64)
        ends = np.stack([start, end])[:, mask > 0] if mask.any() else np.stack([start, end])
        value, spread = statistic.values(self.rates, members), None
        if self.squares_selected is not None:
            # A row has the value `end` if selected and `start` if not; a probability is a decision to draw.
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

    def _among_selected(self, statistic: SelectedShare, members: NDArray[Any]) -> Share:
        """A share of hits among the selected rows, of which there may be none."""
        hits, value = np.array(statistic.hits, np.float64), statistic.values(self.rates, members)
        squares, spread = self.rates.selected, None
        if self.squares_selected is not None:
            squares = self.squares_selected
            spread = ((members @ squares) * (hits - np.nan_to_num(value)[:, None]) ** 2).sum(axis=1)
        return Share(
            members @ self.rates.selected.sum(axis=1),
            members @ squares.sum(axis=1),
            value,
            float(hits.min()),
            float(np.ptp(hits)),
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

    mass: NDArray[np.float64]
    squares: NDArray[np.float64]
    value: NDArray[np.float64]
    start: float = 0.0
    width: float = 1.0
    spread: NDArray[np.float64] | None = None

    @property
    def size(self) -> NDArray[np.float64]:
        """The effective number of rows; without weights, the number of rows."""
        share = (self.value - self.start) / (self.width or 1.0)
        spread = None if self.spread is None else self.spread / (self.width or 1.0) ** 2
        return effective_size(self.mass, self.squares, share * (1 - share), spread)

    def estimate(self, z: float, interval: Callable[..., Estimate] = wilson) -> Estimate:
        """The statistic with its interval, by default Wilson's."""
        width = self.width or 1.0
        return interval((self.value - self.start) / width, self.size, z).moved(self.start, width)


def effective_size(
    mass: NDArray[np.float64],
    squares: NDArray[np.float64],
    variance: NDArray[np.float64],
    spread: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
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


def tally_of_sums(
    decisions: Decisions,
    columns: Callable[[slice], Sequence[NDArray[Any] | None]],
    *,
    weighted: bool,
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
    every = sum_cells(decisions.codes, decisions.n_codes, decisions.positive, columns)
    sums, others = np.split(every, [len(decisions.groups)], axis=1)
    plain, by_weight, by_square = np.split(sums, 3) if weighted else (sums, sums, sums)

    def changes(part: NDArray[np.float64]) -> DecisionChanges | None:
        return None if decisions.before is None else DecisionChanges(part[2], part[1], part[3])

    labelled = decisions.positive is not None
    return Tally(
        CellRates(decisions.groups, by_weight[0], by_weight[1], labelled, decisions.classes),
        squares=by_square[0],
        rows=plain[0],
        selected=plain[1],
        weighted=weighted,
        changes=changes(by_weight),
        change_counts=changes(plain),
        squares_selected=by_square[1] if weighted else None,
        change_squares=changes(by_square) if weighted else None,
        randomised=decisions.randomised,
        excluded=_excluded(decisions, others, weighted=weighted),
    )


def _excluded(decisions: Decisions, sums: NDArray[np.float64], *, weighted: bool) -> ExcludedSums | None:
    if not decisions.groups.excluded:
        return None
    plain, by_weight = np.split(sums, 3)[:2] if weighted else (sums, sums)
    return ExcludedSums(
        tuple(decisions.groups.excluded), by_weight[0], by_weight[1], rows=plain[0], selected=plain[1]
    )


def _rise(earlier: NDArray[Any], now: NDArray[Any]) -> NDArray[Any]:
    if now.dtype == earlier.dtype == np.bool_:
        return now > earlier
    rise: NDArray[Any] = np.maximum(now.astype(np.float64) - earlier, 0.0)
    return rise
