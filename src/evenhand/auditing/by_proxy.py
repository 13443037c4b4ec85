"""An audit where a sensitive feature is known by probabilities only.

Each rate has its probability-weighted estimate, and an interval that holds whatever the true groups are
within the probabilities, widened for sampling; see :mod:`evenhand.inference.proxy_bounds`. Disparities are
made from these, and so are verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison, Distance, concluded
from evenhand.auditing.group_rates import RATES, Finding, Kind, Rate, Terms
from evenhand.auditing.result import Audit
from evenhand.exceptions import InputError
from evenhand.fairness.groups import GroupName, Groups, Members, Mode
from evenhand.fairness.measurement import Measurement
from evenhand.fairness.notions import NOTIONS, DemographicParity, Notion
from evenhand.fairness.proxy import Proxy, ProxyRows, read_proxy
from evenhand.fairness.rates import read_rows
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.statistic import Statistic
from evenhand.inference.intervals import Estimate, critical_value, difference, quotient, wilson
from evenhand.inference.proxy_bounds import ProxyRate, proxy_rate
from evenhand.inference.proxy_calibration import check_calibration
from evenhand.inputs.checks import check_rows
from evenhand.inputs.tables import library_of

__all__ = ["audit_by_proxy"]

Floats = NDArray[np.float64]
_RULE = DemographicParity(ratio=0.8, against="groups")


@dataclass(frozen=True, eq=False)
class _Counted:
    """Rows of an audit: decisions, labels, weights, and probabilities of the groups."""

    rows: ProxyRows
    probabilities: Floats
    selection: Floats
    positive: NDArray[np.bool_] | None
    weights: Floats
    weighted: bool
    randomised: bool
    _found: dict[tuple[Statistic, bytes], ProxyRate] = field(default_factory=dict)

    def parts(self, statistic: Statistic) -> tuple[Floats, Floats]:
        """Whether each row counts as a hit and as a miss of a rate, after scaling it to [0, 1]."""
        labels = (
            np.zeros(len(self.selection), np.intp) if self.positive is None else self.positive.astype(int)
        )
        mask, slope, intercept = (
            np.array(part, np.float64)[labels]
            for part in (statistic.mask, statistic.slope, statistic.intercept)
        )
        start, width = statistic.range
        hit = (intercept + slope * self.selection - start) / width
        return mask * hit, mask * (1 - hit)

    def overall(self, statistic: Statistic, z: float) -> Estimate:
        """The rate of all rows, which does not depend on groups."""
        hit, miss = self.parts(statistic)
        own = self.weights * (hit + miss)
        size = own.sum() ** 2 / max((own**2).sum(), np.finfo(float).tiny)
        return wilson(self.weights @ hit / own.sum() if own.sum() > 0 else np.nan, size, z)

    def rates(self, statistic: Statistic, members: NDArray[np.bool_]) -> list[ProxyRate]:
        """The rate of each group."""
        found, parts = [], None
        for own in members:
            key = (statistic, own.tobytes())  # several notions and measures ask for the same rates
            if key not in self._found:
                parts = parts or self.parts(statistic)
                p = np.minimum(1.0, self.probabilities @ own.astype(np.float64))
                self._found[key] = proxy_rate(*parts, p, self.weights)
            found.append(self._found[key])
        return found


def audit_by_proxy(
    y_true: Any,
    y_pred: Any,
    proxy: Proxy,
    *,
    constraint: Constraint | None = None,
    sample_weight: Any = None,
    confidence: float = 0.95,
    pos_label: Any = None,
    threshold: float | None = None,
) -> Audit:
    """Audit of decisions about groups that are known by probabilities; see :func:`evenhand.audit`.

    Parameters
    ----------
    y_true, y_pred, constraint, sample_weight, confidence, pos_label, threshold
        As for :func:`evenhand.audit`. The constraint is about notions of fairness; bounds on rates are not
        judged.
    proxy : Proxy

    Returns
    -------
    Audit
    """
    notions = _notions(constraint)
    rows = read_proxy(proxy)
    check_calibration(proxy, rows)
    check_rows({"y_pred": y_pred, "Proxy": rows.values[rows.proxy]})
    decisions = read_rows(
        y_true,
        y_pred,
        {"everyone": np.zeros(len(rows), np.int64)},
        sample_weight=sample_weight,
        pos_label=pos_label,
        threshold=threshold,
    )
    counted = _Counted(
        rows,
        rows.probabilities,
        decisions.selection.astype(np.float64),
        decisions.positive,
        np.ones(len(rows)) if decisions.weights is None else decisions.weights,
        weighted=decisions.weights is not None,
        randomised=decisions.randomised,
    )
    labelled = decisions.positive is not None
    if not labelled and any(part.needs_labels for notion in notions for part in notion.statistics):
        raise InputError("this requirement needs labels, and y_true is None.")
    judge = constraint is not None
    if not judge:
        notions = list(_all_notions(rows.groups, labelled=labelled))
    comparisons = [_compare(notion, counted, confidence, judge=judge) for notion in notions]
    for what, family in _families(rows.groups):
        found = _compare(_RULE, counted, confidence, family=family)
        comparisons.append(replace(found, notion=FOUR_FIFTHS, groups=what))
    terms = Terms(
        features=rows.groups.features,
        confidence=confidence,
        labelled=labelled,
        weighted=counted.weighted,
        compared=False,
        min_count=0,
        absent_not_listed=0,
        randomised=counted.randomised,
        threshold=threshold,
        proxy=rows.proxy,
    )
    return Audit(terms, tuple(_findings(counted, confidence)), tuple(comparisons), library_of(y_pred, y_true))


def _notions(constraint: Constraint | None) -> list[Notion]:
    if constraint is None:
        return []
    found = list(constraint.requirements)
    for part in found:
        if not isinstance(part, Notion):
            raise InputError(
                f"{part!r} cannot be judged by proxies: an audit by proxies compares groups by notions "
                "such as DemographicParity(difference=0.05)."
            )
        if any(set(one.mask) - {0, 1} or one.range != (0.0, 1.0) for one in part.statistics):
            raise InputError(f"{part!r} is not about shares of rows, which an audit by proxies needs.")
    return found  # type: ignore[return-value]  # all are notions


def _all_notions(groups: Groups, *, labelled: bool) -> Iterator[Notion]:
    modes: tuple[Mode, ...] = ("intersectional", "independent")
    for mode in modes if len(groups.features) > 1 else modes[:1]:
        for kind in NOTIONS:
            if labelled or not any(part.needs_labels for part in kind.statistics):
                yield kind(difference=0.0, groups=mode)
                yield kind(ratio=1.0, groups=mode)


def _families(groups: Groups) -> Iterator[tuple[str, Members]]:
    if len(groups.features) > 1:
        yield "intersectional", groups.members("intersectional")
    single = groups.members("independent")
    for feature in groups.features:
        places = [k for k, name in enumerate(single.names) if name.features == (feature,)]
        yield feature, Members(tuple(single.names[k] for k in places), single.matrix[places])


def _findings(counted: _Counted, confidence: float) -> Iterator[Finding]:
    z, groups = critical_value(confidence), counted.rows.groups
    parts: list[tuple[Kind, GroupName, NDArray[np.bool_]]] = [
        ("everyone", GroupName((), ()), np.ones(len(groups), np.bool_))
    ]
    if len(groups.features) > 1:
        single = groups.members("independent")
        parts += [("independent", name, own) for name, own in zip(single.names, single.matrix, strict=True)]
    cells = groups.members("intersectional")
    parts += [("intersectional", name, own) for name, own in zip(cells.names, cells.matrix, strict=True)]
    statistics = [part for part in RATES if counted.positive is not None or not part.needs_labels]
    members = np.array([own for _, _, own in parts])
    rates = {part.name: counted.rates(part, members) for part in statistics}
    for k, (kind, name, own) in enumerate(parts):
        p = counted.probabilities @ own.astype(np.float64)
        yield Finding(
            kind=kind,
            group=name,
            rows=_rounded(p.sum()),
            positives=None if counted.positive is None else _rounded(p @ counted.positive),
            selected=_rounded(p @ counted.selection),
            rates={rate: _rate(found[k], z) for rate, found in rates.items()},
        )


def _rounded(number: Any) -> float:
    """An expected number of rows, without rounding errors of a sum of probabilities."""
    return round(float(number), 6)


def _rate(found: ProxyRate, z: float) -> Rate:
    if math.isnan(found.value):
        return Rate(math.nan, math.nan, math.nan)
    return Rate(found.value, float(found.lower(z).low), float(found.upper(z).high))


def _compare(
    notion: Notion, counted: _Counted, confidence: float, *, judge: bool = True, family: Members | None = None
) -> Comparison:
    """Disparity of a notion: estimate, limits for all groups together, verdict."""
    own = counted.rows.groups.members(notion.groups) if family is None else family
    number = len(own.names) * len(notion.statistics)
    if notion.against == "groups":
        number = math.comb(len(own.names), 2) * len(notion.statistics)
    z = critical_value(confidence, number)
    measured, distances, limits = [], [], []
    for statistic in notion.statistics:
        rates = counted.rates(statistic, own.matrix)
        everyone = counted.overall(statistic, z)
        values = np.array([rate.value for rate in rates])
        found = Measurement(
            notion.label,
            statistic.name,
            own.names,
            float(everyone.value),
            values,
            notion.compares_by,
            notion.tolerance,
            notion.against,
        )
        measured.append(found)
        make = _from_others if notion.against == "groups" else _from_everyone
        estimate = make(found, rates, everyone, z)
        limits.append(estimate)
        distances += [
            Distance(statistic.name, name, float(value), float(low), float(high))
            for name, value, low, high in zip(
                own.names, estimate.value, estimate.low, estimate.high, strict=True
            )
        ]
    low, high = _limits(notion, limits, blind=any(part.undefined for part in measured))
    compared = concluded(notion, measured, low, high, tuple(distances))
    return compared if judge else replace(compared, tolerance=None, verdict=None)


def _limits(notion: Notion, limits: Sequence[Estimate], *, blind: bool) -> tuple[float, float]:
    """The largest difference or the smallest ratio, from the limits of every group."""
    if notion.compares_by == "difference":
        low = max(float(np.nanmax(np.fmax(part.low, -part.high), initial=0.0)) for part in limits)
        high = max(float(np.nanmax(np.fmax(-part.low, part.high), initial=0.0)) for part in limits)
        return max(0.0, low), 1.0 if blind else min(1.0, high)
    low = 0.0 if blind else min(float(np.nanmin(part.low, initial=1.0)) for part in limits)
    return max(0.0, low), min(float(np.nanmin(part.high, initial=1.0)) for part in limits)


def _stacked(found: Sequence[Estimate]) -> Estimate:
    return Estimate(*(np.array([getattr(one, part) for one in found]) for part in ("value", "low", "high")))


def _from_everyone(found: Measurement, rates: Sequence[ProxyRate], everyone: Estimate, z: float) -> Estimate:
    """Distance of each group from all rows."""
    lower = _stacked([rate.lower(z) for rate in rates])
    upper = _stacked([rate.upper(z) for rate in rates])
    lost = np.isnan(found.values)
    if found.measure == "difference":
        low, high = difference(lower, everyone).low, difference(upper, everyone).high
        value = found.values - found.overall
    else:
        low = np.minimum(quotient(lower, everyone).low, quotient(upper.complement, everyone.complement).low)
        high = np.minimum(
            quotient(upper, everyone).high, quotient(lower.complement, everyone.complement).high
        )
        value, high = found.ratios, np.minimum(high, 1.0)
    return Estimate(value, np.where(lost, np.nan, low), np.where(lost, np.nan, high))


def _from_others(found: Measurement, rates: Sequence[ProxyRate], everyone: Estimate, z: float) -> Estimate:  # noqa: ARG001
    """Distance of each group from the highest: the smallest of those from the others, and from itself."""
    lower = _stacked([rate.lower(z) for rate in rates])
    upper = _stacked([rate.upper(z) for rate in rates])
    by_difference = found.measure == "difference"
    itself, combine = (0.0, difference) if by_difference else (1.0, quotient)
    features = [name.features for name in found.names]
    known = ~np.isnan(found.values)
    low = np.where(known, itself, np.nan)
    high = low.copy()
    for k in np.flatnonzero(known):
        others = [j for j in np.flatnonzero(known) if j != k and features[j] == features[k]]
        for j in others:
            own_low, own_high = _at(lower, k), _at(upper, k)
            low[k] = min(low[k], float(combine(own_low, _at(upper, j)).low))
            high[k] = min(high[k], float(combine(own_high, _at(lower, j)).high))
    value = -found.differences if by_difference else found.ratios
    return Estimate(value, low, high)


def _at(found: Estimate, k: Any) -> Estimate:
    return Estimate(found.value[k], found.low[k], found.high[k])
