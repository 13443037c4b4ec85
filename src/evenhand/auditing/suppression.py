"""An audit for publication, without what would reveal small counts.

Small counts are hidden. That is not enough, because they can be recovered from totals by subtraction. So
further counts are hidden until no small count, and no small remainder, is a sum or difference of what is
shown. Both are called "left out": if it were known which are small and which are not, two of them that sum to
10 would be 0 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import Comparison, judged
from evenhand.auditing.group_rates import Finding, reported_groups
from evenhand.auditing.tally import Tally
from evenhand.groups.groups import GroupName
from evenhand.requirements.statistic import SELECTION

_EXACT = 1e-8


@dataclass(frozen=True)
class Shown:
    """The groups that are shown: with their selection rate, and with everything that depends on the label."""

    selection: set[GroupName]
    labels: set[GroupName]

    def includes(self, group: GroupName | None, statistic: str | None) -> bool:
        """Whether a statistic of a group is shown."""
        return group is None or group in (self.selection if statistic == SELECTION.name else self.labels)


def published(found: Comparison, shown: Shown) -> Comparison:
    """A comparison without the groups that are not shown; figures that depend on them are rounded."""
    kept = tuple(part for part in found.distances if shown.includes(part.group, part.statistic))
    group_shown, reference_shown = (
        shown.includes(group, found.statistic) for group in (found.group, found.reference)
    )
    value, low, high = found.value, found.low, found.high
    if not (group_shown and reference_shown):
        value = round(value, 2)
    if len(kept) < len(found.distances):
        low, high = math.floor(100 * low) / 100, math.ceil(100 * high) / 100
        if found.against != "population":  # each involves the highest or the named rate, which may be hidden
            kept = ()
    return replace(
        found,
        value=value,
        low=low,
        high=high,
        verdict=judged(found.measure, found.tolerance, low, high),
        group=found.group if group_shown else None,
        side=found.side if group_shown else None,
        reference=found.reference if reference_shown else None,
        undefined=(),
        distances=kept,
    )


def hide_small(
    counted: Tally, findings: tuple[Finding, ...], min_count: float
) -> tuple[tuple[Finding, ...], Shown]:
    """Leave out small counts and everything that would reveal them.

    What is shown of a group depends on its counts, in steps: the rows, if there are enough; the selection
    rate, if enough are selected and enough are not; and everything that depends on the label, if there are
    enough true and false positives and negatives. At each step further groups are hidden until no small count
    can be computed by adding and subtracting what is shown.

    Returns
    -------
    findings : tuple of Finding
    shown : Shown
        Of which groups something is shown.
    """
    family = reported_groups(counted.groups)
    features = dict.fromkeys(name.features for name in family.names[1:])
    families = [np.flatnonzero([name.features == part for name in family.names]) for part in features]
    # Combinations that were pooled are not shown, and must not be revealed by subtraction either.
    single = family.matrix[family.matrix.sum(axis=1) == 1].any(axis=0)
    every = np.concatenate([family.matrix, np.eye(len(single), dtype=np.bool_)[~single]])
    shown = np.arange(len(every)) < len(family.names)
    steps = []
    for cells in _cells(counted):
        shown = shareable(every, families, cells, min_count, allowed=shown)
        steps.append(shown[: len(family.names)])
    found = tuple(_suppress(finding, *kept) for finding, *kept in zip(findings, *steps, strict=True))
    names = [{name for name, kept in zip(family.names, step, strict=True) if kept} for step in steps[1:]]
    return found, Shown(*names)


def _cells(counted: Tally) -> Iterator[NDArray[np.float64]]:
    """The counts that each step of `hide_small` would show, shape (M, kinds)."""
    rows, selected = counted.rows.sum(axis=1), counted.selected.sum(axis=1)
    yield rows[:, None]
    decided = np.stack([selected, rows - selected], axis=1)
    yield decided
    four = np.concatenate([counted.selected, counted.rows - counted.selected], axis=1)
    yield four if counted.labelled else decided


def _suppress(finding: Finding, rows: bool, selection: bool, labels: bool) -> Finding:
    shown = {name: selection if name == SELECTION.name else labels for name in finding.rates}
    return replace(
        finding,
        rows=finding.rows if rows else None,
        selected=finding.selected if selection else None,
        positives=finding.positives if labels else None,
        rates={name: rate for name, rate in finding.rates.items() if shown[name]},
    )


def shareable(
    members: NDArray[np.bool_],
    families: Sequence[NDArray[np.intp]],
    counts: NDArray[np.float64],
    min_count: float,
    *,
    allowed: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Groups whose counts can be shown.

    Parameters
    ----------
    members : array, shape (groups, cells)
        The cells of each group. The first group is all rows.
    families : sequence of arrays
        Sets of groups that partition all rows, such as the values of one feature.
    counts : array, shape (cells, kinds)
        Counts of each cell. For a group either all kinds are shown or none.
    min_count : float
        Counts below this are small.
    allowed : array of bool
        Groups that may be shown at all.

    Returns
    -------
    array of bool
        The group of all rows is hidden only if it is small itself or not allowed. Among the other groups,
        the smallest that prevents a disclosure is hidden first.

    Examples
    --------
    Of three groups with 3, 20 and 50 rows the second is hidden too, because the total is shown.

    >>> members = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], bool)
    >>> shareable(members, [np.arange(1, 4)], np.array([[3.0], [20], [50]]), 10, allowed=np.ones(4, bool))
    array([ True, False, False,  True])
    """
    totals = members @ counts
    small = np.asarray((totals < min_count).any(axis=1))
    shown = allowed & ~small
    while (helping := _exposing(members, families, counts, min_count, small=small, shown=shown)).size:
        others = helping[helping != 0]
        candidates = others if others.size else helping
        shown[candidates[np.argmin(totals[candidates].sum(axis=1))]] = False
    # Groups that turn out to be harmless are shown after all, the largest first.
    back = np.flatnonzero(allowed & ~small & ~shown)
    for k in back[np.argsort(-totals[back].sum(axis=1), kind="stable")]:
        shown[k] = True
        shown[k] = not _exposing(members, families, counts, min_count, small=small, shown=shown).size
    return shown


def _exposing(
    members: NDArray[np.bool_],
    families: Sequence[NDArray[np.intp]],
    counts: NDArray[np.float64],
    min_count: float,
    *,
    small: NDArray[np.bool_],
    shown: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """The shown groups that together reveal something small; empty if nothing is revealed."""
    single = members.sum(axis=1) == 1
    open_cells = members[shown & single].any(axis=0)
    hidden = ~open_cells
    sums = np.flatnonzero(shown & ~single & (members & hidden).any(axis=1))
    if not sums.size:
        return sums
    unions = [members[family[~shown[family]]].any(axis=0) for family in families]
    remainders = np.array([*members, *unions]) & hidden
    secret = remainders[((remainders @ counts) < min_count).any(axis=1) & remainders.any(axis=1)]
    secret = np.unique(np.concatenate([secret, members[small]]), axis=0)
    # A secret is revealed if it is a linear combination of shown sums, minus the cells that are shown.
    system = members[sums].astype(np.float64)
    goals = secret.astype(np.float64)
    weights = np.linalg.lstsq(system[:, hidden].T, goals[:, hidden].T, rcond=None)[0]
    missed = np.abs(system[:, hidden].T @ weights - goals[:, hidden].T).max(axis=0)
    exposed = np.flatnonzero(missed < _EXACT)
    if not exposed.size:
        return np.empty(0, np.intp)
    used = weights[:, exposed[0]]
    subtracted = np.abs(used @ system - goals[exposed[0]]) > _EXACT
    cells = np.flatnonzero(shown & single & (members & subtracted).any(axis=1))
    return np.concatenate([sums[np.abs(used) > _EXACT], cells])
