"""An audit where a sensitive feature is known by probabilities only.

Each rate has its probability-weighted estimate, and an interval that holds whatever the true groups are
within the probabilities, widened for sampling; see :mod:`evenhand.guarantee.proxy_bounds`. Disparities are
made from these, and so are verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import (
    FOUR_FIFTHS,
    FOUR_FIFTHS_RULE,
    Comparison,
    all_notions,
    concluded,
    rule_families,
)
from evenhand.auditing.distances import smallest_of_pairs
from evenhand.auditing.group_rates import Finding, Rate, Terms, reported_groups
from evenhand.auditing.result import Audit
from evenhand.auditing.tally import REPORTED
from evenhand.data.checks import check_rows
from evenhand.data.tables import library_of
from evenhand.exceptions import InputError
from evenhand.groups.groups import Members
from evenhand.groups.proxy import Proxy, ProxyRows, read_proxy
from evenhand.guarantee.intervals import Estimate, critical_value, difference, quotient, wilson
from evenhand.guarantee.proxy_bounds import ProxyRate, proxy_rate
from evenhand.guarantee.proxy_calibration import check_calibration
from evenhand.requirements.measurement import Measurement
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import read_rows
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import Statistic

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Counted:
    """Rows of an audit: decisions, labels, weights, and probabilities of the groups."""

    rows: ProxyRows
    probabilities: Floats
    selection: Floats
    positive: NDArray[np.bool_] | None
    weights: Floats
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

    def rates(self, statistic: Statistic, members: NDArray[np.bool_]) -> ProxyRate:
        """The rates of several groups, as arrays."""
        found, parts = [], None
        for own in members:
            key = (statistic, own.tobytes())  # several notions and measures ask for the same rates
            if key not in self._found:
                parts = parts or self.parts(statistic)
                p = np.minimum(1.0, self.probabilities @ own.astype(np.float64))
                self._found[key] = proxy_rate(*parts, p, self.weights)
            found.append(astuple(self._found[key]))
        return ProxyRate(*np.array(found).T)


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
    )
    labelled = decisions.positive is not None
    if not labelled and any(part.needs_labels for notion in notions for part in notion.statistics):
        raise InputError("this requirement needs labels, and y_true is None.")
    judge = constraint is not None
    if not judge:
        notions = list(all_notions(rows.groups, labelled=labelled))
    compared = [
        _compare(part, counted, rows.groups.members(part.groups), confidence, judge=judge) for part in notions
    ]
    for what, family in rule_families(rows.groups):
        found = _compare(FOUR_FIFTHS_RULE, counted, family, confidence)
        compared.append(replace(found, notion=FOUR_FIFTHS, groups=what))
    terms = Terms(
        features=rows.groups.features,
        confidence=confidence,
        labelled=labelled,
        weighted=decisions.weights is not None,
        randomised=decisions.randomised,
        threshold=threshold,
        proxy=rows.proxy,
    )
    return Audit(terms, tuple(_findings(counted, confidence)), tuple(compared), library_of(y_pred, y_true))


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


def _findings(counted: _Counted, confidence: float) -> Iterator[Finding]:
    z, family = critical_value(confidence), reported_groups(counted.rows.groups)
    rates = {}
    for part in REPORTED:
        if counted.positive is not None or not part.needs_labels:
            found = counted.rates(part, family.members)
            limits = np.stack([found.value, found.lower(z).low, found.upper(z).high])
            rates[part.name] = np.where(np.isnan(found.value), np.nan, limits).T.tolist()
    for k, (kind, name, own) in enumerate(zip(family.kinds, family.names, family.members, strict=True)):
        p = counted.probabilities @ own.astype(np.float64)
        yield Finding(
            kind=kind,
            group=name,
            rows=_rounded(p.sum()),
            positives=None if counted.positive is None else _rounded(p @ counted.positive),
            selected=_rounded(p @ counted.selection),
            rates={rate: Rate(*limits[k]) for rate, limits in rates.items()},
        )


def _rounded(number: Any) -> float:
    """An expected number of rows, without rounding errors of a sum of probabilities."""
    return round(float(number), 6)


def _compare(
    notion: Notion, counted: _Counted, family: Members, confidence: float, *, judge: bool = True
) -> Comparison:
    """Disparity of a notion: estimate, limits for all groups together, verdict."""
    if not isinstance(notion.against, str):
        raise InputError("an audit by a Proxy cannot compare with a named group: use against='groups'.")
    number = len(family.names) if notion.against == "population" else math.comb(len(family.names), 2)
    z = critical_value(confidence, number * len(notion.statistics))
    measured, distances = [], []
    for statistic in notion.statistics:
        rates, everyone = counted.rates(statistic, family.matrix), counted.overall(statistic, z)
        found = Measurement(
            notion.label,
            statistic.name,
            family.names,
            float(everyone.value),
            np.asarray(rates.value),
            notion.compares_by,
            notion.tolerance,
            notion.against,
        )
        measured.append(found)
        distances.append(_distances(found, rates, everyone, z))
    return concluded(notion, measured, distances, judge=judge)


def _distances(found: Measurement, rates: ProxyRate, everyone: Estimate, z: float) -> Estimate:
    """Distance of each group from all rows, or from the highest: with the limits of what is possible."""
    lost, by_difference = np.isnan(found.values), found.measure == "difference"
    lower, upper = (
        Estimate(*(np.where(lost, np.nan, part) for part in (one.value, one.low, one.high)))
        for one in (rates.lower(z), rates.upper(z))
    )
    if found.against == "groups":
        limits = smallest_of_pairs(found.names, lower, upper, found.measure)
        return Estimate(-found.differences if by_difference else found.ratios, limits.low, limits.high)
    if by_difference:
        low, high = difference(lower, everyone).low, difference(upper, everyone).high
        return Estimate(found.values - found.overall, low, high)
    low = np.minimum(quotient(lower, everyone).low, quotient(upper.complement, everyone.complement).low)
    high = np.minimum(quotient(upper, everyone).high, quotient(lower.complement, everyone.complement).high)
    return Estimate(found.ratios, low, np.minimum(high, 1.0))
