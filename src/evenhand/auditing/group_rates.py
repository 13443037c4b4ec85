"""Results for each group: counts, rates with intervals, and changes; and the rows that are in no group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import REPORTED, Tally, cross_tabulate, rate_change
from evenhand.display.text import show
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName, Groups, Members
from evenhand.groups.pooling import Pooled
from evenhand.guarantee.intervals import Estimate, critical_value
from evenhand.requirements.bounds import bounded_groups

Kind = Literal["everyone", "independent", "intersectional"]

_MOST_ABSENT = 1000


@dataclass(frozen=True)
class Rate:
    """A rate and its interval; NaN if it is undefined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """How the decisions about a group changed.

    Attributes
    ----------
    up, down, unchanged : float
        Rows that are newly selected, no longer selected, and unchanged.
    rates : dict
        Each rate minus the earlier one.
    """

    up: float
    down: float
    unchanged: float
    rates: Mapping[str, Rate]


@dataclass(frozen=True)
class Finding:
    """Results for one group. Counts are unweighted.

    Attributes
    ----------
    kind : {"everyone", "independent", "intersectional"}
        All rows, one value of one feature, or one combination of values.
    group : GroupName
        Empty for all rows.
    rows, positives, selected : float or None
        Numbers of rows; None if labels are not known or the number is suppressed.
    rates : dict
        By name; suppressed ones are left out.
    change : Change or None
    """

    kind: Kind
    group: GroupName
    rows: float | None
    positives: float | None
    selected: float | None
    rates: Mapping[str, Rate] = field(default_factory=dict)
    change: Change | None = None


@dataclass(frozen=True)
class Terms:
    """The settings of an audit.

    Attributes
    ----------
    features : tuple of str
        The sensitive features.
    confidence : float
        Of the intervals.
    labelled, weighted, compared : bool
        Whether labels, weights and earlier predictions were given.
    min_count : int
        Smaller counts are left out; 0 leaves out nothing.
    pooled : tuple of Pooled
        Pooled groups and their members.
    merged : bool
        Whether pooled combinations were merged: nothing is then known about single features.
    randomised : bool
        Whether predictions between 0 and 1 were read as probabilities of a randomised decision.
    threshold : float or None
        Smallest score that is selected, if predictions are scores.
    above_median : bool
        Whether `threshold` is the median of the scores, and only rows above it count as selected.
    proxy : str or None
        The feature that is known by probabilities only, if there is one.
    actions : tuple of str
        What was decided between, if that is more than positive or not; rates are those of actions.
    """

    features: tuple[str, ...]
    confidence: float
    labelled: bool
    weighted: bool
    compared: bool = False
    min_count: int = 0
    pooled: tuple[Pooled, ...] = ()
    merged: bool = False
    randomised: bool = False
    threshold: float | None = None
    above_median: bool = False
    proxy: str | None = None
    actions: tuple[str, ...] = ()

    @classmethod
    def of(cls, counted: Tally, confidence: float, **settings: Any) -> Terms:
        """Those of decisions that are counted."""
        groups = counted.groups
        known: dict[str, Any] = {"pooled": tuple(groups.pooled_groups), "merged": groups.merged}
        for name in ("labelled", "weighted", "compared", "randomised", "proxy"):
            known[name] = getattr(counted, name)
        return cls(groups.features, confidence, **known | settings)

    @property
    def by_proxy(self) -> str | None:
        """How to read rates and intervals if a feature is known by probabilities; None if none is."""
        if self.proxy is None:
            return None
        return (
            f"{self.proxy} is known by probabilities: numbers of rows are expected ones, rates are weighted "
            "by probabilities, and intervals hold whatever the true groups are, if the probabilities are "
            "calibrated."
        )

    @property
    def rates(self) -> tuple[str, ...]:
        """Names of the rates that are reported."""
        own = tuple(part.name for part in REPORTED if self.labelled or not part.needs_labels)
        return self.actions or own

    @property
    def reading(self) -> str | None:
        """How predictions were read if they are not decisions."""
        if self.above_median:
            return (
                "Predictions are scores: a row counts as selected if its score is above the median of all "
                f"rows, {self.threshold:g}."
            )
        if self.threshold is not None:
            return f"Predictions are scores: a row is selected if its score is at least {self.threshold:g}."
        if self.randomised:
            return (
                "Predictions between 0 and 1 are read as probabilities of a randomised decision. "
                "If they are scores, set a threshold."
            )
        return None


def reported_groups(groups: Groups) -> Members:
    """All rows, each value of each feature, and each combination; of a single feature, its values once."""
    parts = [bounded_groups(groups, "population")]
    if len(groups.features) > 1 and not groups.merged:
        parts.append(groups.members("independent"))
    parts.append(groups.members("intersectional"))
    names = tuple(name for part in parts for name in part.names)
    return Members(names, np.concatenate([part.matrix for part in parts]))


def find(counted: Tally, confidence: float) -> tuple[Finding, ...]:
    """Results for all rows, each value of each feature, and each combination.

    Parameters
    ----------
    counted : Tally
    confidence : float
        Of each interval on its own.

    Returns
    -------
    tuple of Finding
        With a single feature, its values are the combinations and are listed once.
    """
    z = critical_value(confidence)
    family = reported_groups(counted.groups)
    members, features = family.matrix, len(counted.groups.features)
    kinds: dict[int, Kind] = {0: "everyone", features: "intersectional"}
    rates = {part.name: _listed(counted.share(part, members).estimate(z)) for part in counted.reported}
    rows = (members @ counted.rows).round(6)  # without rounding errors of sums of probabilities
    selected = (members @ counted.selected).sum(axis=1).round(6)
    changes = _changes(counted, members, z) if counted.compared else None
    return tuple(
        Finding(
            kind=kinds.get(len(name.features), "independent"),
            group=name,
            rows=round(float(rows[k].sum()), 6),
            positives=float(rows[k, 1]) if counted.labelled else None,
            selected=float(selected[k]),
            rates={rate: values[k] for rate, values in rates.items()},
            change=changes[k] if changes else None,
        )
        for k, name in enumerate(family.names)
    )


def _changes(counted: Tally, members: NDArray[np.bool_], z: float) -> list[Change]:
    rows = (members @ counted.rows).sum(axis=1)
    _, down, up, _ = ((members @ part).sum(axis=1) for part in cross_tabulate(counted.sums[0]))
    rates = {part.name: _listed(rate_change(counted, part, members, z)) for part in counted.reported}
    return [
        Change(
            up=float(up[k]),
            down=float(down[k]),
            unchanged=float(rows[k] - up[k] - down[k]),
            rates={name: values[k] for name, values in rates.items()},
        )
        for k in range(len(members))
    ]


def _listed(found: Estimate) -> list[Rate]:
    columns = zip(found.value.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    return [Rate(*limits) for limits in columns]


def absent_groups(counted: Tally, like: Finding) -> tuple[Finding, ...]:
    """Combinations of occurring values that no row has, at most a thousand, with undefined rates."""
    undefined, change = Rate(math.nan, math.nan, math.nan), None
    if like.change is not None:
        change = Change(0.0, 0.0, 0.0, dict.fromkeys(like.change.rates, undefined))
    features, rates = counted.groups.features, dict.fromkeys(like.rates, undefined)
    positives = 0.0 if counted.labelled else None
    return tuple(
        Finding("intersectional", GroupName(features, key), 0.0, positives, 0.0, rates, change)
        for key in itertools.islice(counted.groups.absent(), _MOST_ABSENT)
    )


@dataclass(frozen=True)
class Excluded:
    """Rows that lack a sensitive value, under ``missing="exclude"``.

    Attributes
    ----------
    rows : int or None
        How many there are; None if the number is suppressed.
    of_rows : int or None
        Number of all rows, these included.
    by_feature : dict or None
        How many of them lack each feature; a row that lacks several counts in each. None if suppressed.
    selection_rate : float or None
        Among these rows; None if it is suppressed, or if there are no decisions, as in a fit.
    """

    rows: int | None
    of_rows: int | None
    by_feature: Mapping[str, int] | None
    selection_rate: float | None = None

    @classmethod
    def of_groups(cls, groups: Groups) -> Excluded | None:
        """The rows that groups were made without, such as those of a fitted classifier; None if none.

        Examples
        --------
        >>> groups, _ = Groups.fit({"sex": ["F", None, "M"]}, missing="exclude")
        >>> print(Excluded.of_groups(groups))
        1 of 3 rows lacks a sensitive value and is left out: 1 lacks sex.
        """
        if not groups.excluded:
            return None
        of_rows = groups.excluded_rows + int(groups.counts.sum())
        return cls(groups.excluded_rows, of_rows, groups.excluded_by_feature)

    def __str__(self) -> str:
        """How many rows are left out, what they lack, and how many of them were selected."""
        if self.rows is None or self.of_rows is None:
            return "Some rows lack a sensitive value and are left out; their number is small and not shown."
        lack, are = ("lacks", "is") if self.rows == 1 else ("lack", "are")
        text = f"{self.rows:,} of {self.of_rows:,} rows {lack} a sensitive value and {are} left out"
        lacking = [(n, name) for name, n in (self.by_feature or {}).items() if n]
        listed = ", ".join(f"{n:,} {'lacks' if n == 1 else 'lack'} {show(name)}" for n, name in lacking)
        rate = "" if self.selection_rate is None else f" Their selection rate is {self.selection_rate:.3f}."
        return f"{text}{': ' if listed else ''}{listed}.{rate}"


def find_excluded(counted: Tally, *, min_count: int = 0) -> Excluded | None:
    """The excluded rows of an audit; None if there are none.

    Parameters
    ----------
    counted : Tally
    min_count : int, default=0
        Numbers of excluded and of other rows are suppressed if one of them is smaller, and what rows lack and
        their selection rate in any case.

    Returns
    -------
    Excluded or None
    """
    groups = counted.groups
    if not groups.excluded:
        return None
    rows, mass = groups.excluded_rows, counted.excluded[1, :2].sum(axis=(1, 2))
    others = round(float(counted.rows.sum()))
    if min_count:
        shown = min(rows, others) >= min_count
        return Excluded(rows, rows + others, None) if shown else Excluded(None, None, None)
    return Excluded(rows, rows + others, groups.excluded_by_feature, float(mass[1] / mass[0]))


def refuse_uncounted(terms: Terms, what: str) -> None:
    """Raise an InputError about audits that do not say how many people of each group are selected."""
    refused = {
        "min_count hides small numbers: audit without it.": terms.min_count,
        "weights do not count people: audit without sample_weight.": terms.weighted,
        "predictions between 0 and 1 are not decisions: pass decisions or, for scores, a threshold "
        "(threshold='median' for scoring rates).": terms.randomised,
        "several actions have no single decision to count: audit one of them.": bool(terms.actions),
    }
    for why, there in refused.items():
        if there:
            raise InputError(f"{what} need the number of people in every group, and {why}")
