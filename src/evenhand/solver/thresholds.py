"""Exact optimum when the group is known: mixtures of a few thresholds in each group.

In group m the sums over selected rows lie in a convex set in the plane, whose corners are the thresholds on
eta. The linear program over mixtures of corners is small, and solved by column generation: it starts from a
few corners, its multipliers say which further corner of each group would help most, found by bisection, and
it ends when none does. Where a group has to be off its ROC curve (true- and false-positive rates bounded
together) thresholds are mixed; where only one number of the group counts, another threshold has it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from evenhand.solver.counted_scores import WHOLE, CountedScores, Interval, edge_between, root_of
from evenhand.solver.linear import snapped
from evenhand.solver.master import Mixed, mix_columns
from evenhand.solver.oracle import ROUNDING, Direct, Problem, Totals, Vector

_MAX_COUNTS = 50  # a limit on time only: a count takes milliseconds, and the multipliers move between counts
_MAX_ROUNDS = 200  # a limit on time only: a round either adds a corner or is the last
_FIRST = 16  # thresholds at the start: a round costs more than a few columns that are not needed
_BETWEEN = 5  # on each side of a new corner: they narrow down the next one fourfold
_WORTH = 1e-15  # gains below the last digits of the objective are rounding errors
_FEW_EDGES = 12  # about as many comparisons of all rows as one bisection for each row
_UPPER = (
    257  # upper thresholds that are tried: the shortest range is then right to half a percent of the rows
)
_LAST_DIGITS = 1e-14
_SURE = 1e-9  # log-odds are those of scores at least this far from 0 and 1
_BROKEN = 1e-9  # more than rounding errors of the program
_PRICE = 1e3  # of breaking a bound; where the multipliers need more, Newton takes over

Corner = tuple[int, int]
"""A range of positions in a group's scores."""
Corners = dict[Corner, Vector]
"""The sums of each corner."""
Mixture: TypeAlias = "tuple[Vector, Steps, Vector]"
"""Multipliers, the selection, and scalars."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The selection as a step function of eta in each group.

    Attributes
    ----------
    edges : tuple of arrays
        For each group, increasing scores at which the selection changes.
    chances : tuple of arrays
        For each group, the selection below the first edge, between edges, and above the last.

    Examples
    --------
    >>> import numpy as np
    >>> steps = Steps((np.array([0.5]),), (np.array([0.0, 1.0]),))
    >>> steps.selection(np.array([0.4, 0.6]), np.array([0, 0]))
    array([0., 1.])
    """

    edges: tuple[Vector, ...]
    chances: tuple[Vector, ...]

    def selection(self, eta: NDArray[Any], codes: NDArray[Any]) -> Vector:
        """Selection of each row."""
        sizes = [len(edges) for edges in self.edges]
        starts = np.concatenate([[0], np.cumsum(np.array(sizes) + 1)[:-1]]).astype(np.intp)
        chances: Vector = np.concatenate(self.chances)
        place = starts[codes]
        if max(sizes, default=0) > _FEW_EDGES:
            for m, edges in enumerate(self.edges):
                own = np.flatnonzero(codes == m)
                place[own] += np.searchsorted(edges, eta[own])
            return np.asarray(chances[place])
        for step in range(max(sizes, default=0)):  # comparing with each of a few edges is fastest
            edge = np.array([edges[step] if step < len(edges) else np.inf for edges in self.edges])
            place += eta > edge[codes]
        return np.asarray(chances[place])


def solve_by_thresholds(
    problem: Problem,
    n_groups: int,
    count: Callable[[list[Interval]], list[Any]],
    by_steps: Callable[[Vector, Steps], Totals],
) -> Direct | None:
    """Solve over mixtures of thresholds, with scores counted as finely as the optimum needs it.

    Parameters
    ----------
    problem : Problem
    n_groups : int
    count : function
        For some intervals, the table of each (:class:`CountedScores`).
    by_steps : function
        Sums over all rows at a direction, with the selection by steps.

    Returns
    -------
    Direct or None
        None if the linear program failed or bounds had to be broken.
    """
    tables = [np.empty((0, 4)) for _ in range(n_groups)]
    asked: list[Interval] = [(m, *WHOLE) for m in range(n_groups)]
    for _ in range(_MAX_COUNTS):
        for (m, _, _), table in zip(asked, count(asked), strict=True):
            tables[m] = np.concatenate([tables[m], table])
        groups = [CountedScores(table) for table in tables]
        mixed = mix_thresholds(groups, problem)
        if mixed is None:
            return None
        multipliers, steps, scalars = mixed
        v, asked = problem.direction(multipliers), []
        for m, (group, *own) in enumerate(zip(groups, steps.edges, steps.chances, strict=True)):
            places = group.unclear(v[2 * m : 2 * m + 2], *own)
            asked += [(m, low, high) for low, high in group.table[places, :2].tolist()]
            tables[m] = np.delete(group.table, places, axis=0)
        if not asked:
            return Direct(multipliers, by_steps(v[: 2 * n_groups], steps), steps, scalars)
    return None


def mix_thresholds(groups: Sequence[CountedScores], problem: Problem) -> Mixture | None:
    """Solve over mixtures of thresholds on given scores and intervals; see :func:`solve_by_thresholds`."""
    corners: list[Corners] = [{} for _ in groups]
    for scores, known in zip(groups, corners, strict=True):
        end = len(scores)
        first = [end, *np.linspace(0, end, _FIRST + 1).astype(int).tolist()]  # no one, everyone, and between
        _add(scores, known, [(position, end) for position in first])
    for _ in range(_MAX_ROUNDS):
        mixed = _master(problem, corners)
        if mixed is None:
            return None
        v, improved = problem.direction(mixed.multipliers), False
        shares = np.split(mixed.weights, np.cumsum([len(each) for each in corners])[:-1])
        for m, (scores, known) in enumerate(zip(groups, corners, strict=True)):
            own = v[2 * m : 2 * m + 2]
            corner = scores.best_threshold(own)
            if corner not in known and own @ scores.sums_between(corner) > mixed.best[m] + _WORTH:
                improved, further = True, _around(scores, corner, known)
                corners[m] = _in_use(known, shares[m])
                _add(scores, corners[m], further)
        if not improved:
            if mixed.violation > _BROKEN:
                return None
            return mixed.multipliers, _steps(groups, corners, shares, problem, v), mixed.scalars
    return None


def _add(scores: CountedScores, known: Corners, corners: list[Corner]) -> None:
    known |= {corner: scores.sums_between(corner) for corner in corners if corner not in known}


def _in_use(known: Corners, shares: Vector) -> Corners:
    """Corners with a share, and their neighbours: the others only make the program larger."""
    order = sorted(zip(known, shares.tolist(), strict=True))
    used = [k for k, (_, share) in enumerate(order) if share > 0]
    return {order[k][0]: known[order[k][0]] for k in range(len(order)) if any(abs(k - u) <= 2 for u in used)}


def _around(scores: CountedScores, corner: Corner, known: Corners) -> list[Corner]:
    """A corner, and some between it and its neighbours, where the next one wanted will lie."""
    end = len(scores)
    if corner[1] != end:  # low scores are selected
        return [corner]
    lows = [low for low, high in known if high == end]
    low = max((other for other in lows if other < corner[0]), default=0)
    high = min((other for other in lows if other > corner[0]), default=end)
    between = [*np.linspace(low, corner[0], _BETWEEN), *np.linspace(corner[0], high, _BETWEEN)]
    return [corner, *((int(position), end) for position in between)]


def _master(problem: Problem, corners: list[Corners]) -> Mixed | None:
    """Best mixture of the given corners. If it breaks bounds, multipliers say which corners would help."""
    M = len(corners)
    owners = np.repeat(np.arange(M), [len(each) for each in corners])
    sums = np.zeros((len(owners), 2 * M))
    found = np.array([own for each in corners for own in each.values()])
    sums[np.arange(len(owners))[:, None], 2 * owners[:, None] + [0, 1]] = found
    bounds = np.vstack([sums @ problem.A[:, : 2 * M].T, problem.A[:, 2 * M :].T])
    size = np.abs(bounds).max(axis=0, initial=0.0)
    scale = 1.0 / np.where(size > 0, size, 1.0)
    unit = max(float(np.abs(sums @ problem.gain[: 2 * M]).max(initial=0.0)), np.finfo(float).tiny)
    scaled = replace(problem.scaled(scale), gain=problem.gain / unit)
    try:
        mixed = mix_columns(scaled, sums, _PRICE, owners)
    except ArithmeticError:
        return None
    return replace(mixed, multipliers=mixed.multipliers * scale * unit, best=mixed.best * unit)


def _steps(
    groups: Sequence[CountedScores],
    corners: list[Corners],
    shares: list[Vector],
    problem: Problem,
    v: Vector,
) -> Steps:
    """Add up the mixture: each corner is 1 on a range of the scores."""
    found = []
    for m, (scores, each) in enumerate(zip(groups, corners, strict=True)):
        mixed = dict(zip(each, shares[m].tolist(), strict=True))
        if sum(share > 0 for share in mixed.values()) > 1:
            target = np.array(list(each.values())).T @ shares[m]
            counts = np.vstack([problem.gain, problem.A])[:, 2 * m : 2 * m + 2]
            mixed = _one_threshold(scores, target, counts) or _least_random(scores, target) or mixed
        jumps = np.zeros(len(scores) + 1)
        for (low, high), share in mixed.items():
            jumps[low] += share
            jumps[high] -= share
        inner = np.flatnonzero(jumps[1:-1]) + 1
        levels = snapped(np.cumsum(jumps)[[0, *inner]])
        found.append(_edges(scores, inner.tolist(), levels, v[2 * m : 2 * m + 2]))
    return Steps(*zip(*found, strict=True))


def _one_threshold(
    scores: CountedScores, target: Vector, counts: NDArray[np.float64]
) -> dict[Corner, float] | None:
    """Shares of two neighbouring thresholds that are worth as much as given sums; None if there are none.

    Only where objective and bounds see one number of the group, such as its error. Of several thresholds with
    this number, the one with the largest sum of log-odds.
    """
    _, sizes, directions = np.linalg.svd(counts)
    if sizes[1] > ROUNDING * sizes[0]:
        return None
    over = (scores.above - target) @ directions[0]
    crossed = np.flatnonzero(over[:-1] * over[1:] <= 0)
    if not len(crossed):
        return None
    share = over[crossed] / np.where(over[crossed] == 0, 1.0, over[crossed] - over[crossed + 1])
    worth = scores.table[:, 2] * logit(np.clip(scores.mean, _SURE, 1 - _SURE))
    worth = np.append(worth[::-1].cumsum()[::-1], 0.0)  # of all scores from a position on
    best = int(((1 - share) * worth[crossed] + share * worth[crossed + 1]).argmax())
    place, end = int(crossed[best]), len(scores)
    return {(place, end): 1 - share[best], (place + 1, end): share[best]}


def _least_random(scores: CountedScores, target: Vector) -> dict[Corner, float] | None:
    """Shares of thresholds with given sums that randomise the fewest rows of a group; None if not found.

    Above a threshold everyone is selected, between it and a lower one a share of the rows, below no one. The
    sums of both thresholds and the target are on a line.
    """
    sums, weight = scores.above, scores.above.sum(axis=1)
    upper = np.unique(np.linspace(0, len(scores), _UPPER).astype(np.intp))
    upper = upper[(sums[upper] <= target).all(axis=1)]
    ray = target - sums[upper]

    def beyond(lower: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether the sums of lower thresholds are above the line."""
        ahead = sums[lower] - sums[upper]
        return np.asarray(ray[:, 0] * ahead[:, 1] > ray[:, 1] * ahead[:, 0])

    low, high = np.zeros_like(upper), upper.copy()
    while (high - low > 1).any():
        middle = (low + high) // 2
        above = beyond(middle)
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    size = np.where(beyond(np.zeros_like(upper)) | (upper == 0), np.inf, weight[low] - weight[upper])
    if not np.isfinite(size).any():
        return None
    best = int(size.argmin())
    three = [upper[best], high[best], low[best]]
    shares = np.linalg.lstsq(np.vstack([sums[three].T, np.ones(3)]), np.append(target, 1.0))[0]
    missed = np.abs(shares @ sums[three] - target).max()
    if shares.min() < -_LAST_DIGITS or missed > _LAST_DIGITS or abs(shares.sum() - 1) > _LAST_DIGITS:
        return None
    mixed: dict[Corner, float] = {}
    for place, share in zip(three, shares.tolist(), strict=True):
        corner = int(place), len(scores)
        mixed[corner] = mixed.get(corner, 0.0) + share
    return mixed


def _edges(scores: CountedScores, positions: list[int], levels: Vector, v: Vector) -> tuple[Vector, Vector]:
    """Scores at which the selection of a group changes, and the selection between them.

    Where a single score is randomised, edges are as near to it as can be: new rows beside it are decided by
    the sign of h, as it is the only one that the optimum randomises.
    """
    gaps = [scores.gap(position) for position in (0, *positions, len(scores))]
    near: list[float | None] = [None] * len(gaps)
    for k, level in enumerate(levels.tolist()):
        if 0.0 < level < 1.0 and gaps[k][1] == gaps[k + 1][0]:
            near[k] = near[k + 1] = gaps[k][1]
    # Beyond the lowest and the highest score there is nothing but the sign of h.
    root = root_of(v)
    beyond = np.array([0.0, 1.0]) if np.isnan(root) else (v > 0).astype(np.float64)
    below, above = near[0] is not None or root > ROUNDING, near[-1] is not None or root < 1 - ROUNDING
    first = 0 if below and levels[0] != beyond[0] else 1
    last = len(gaps) - (0 if above and levels[-1] != beyond[1] else 1)
    ends = [edge_between(*gaps[k], v, near[k]) for k in range(first, last)]
    outer = beyond[: 1 - first], beyond[len(gaps) - last + 1 :]
    return np.array(ends), np.concatenate([outer[0], levels, outer[1]])
