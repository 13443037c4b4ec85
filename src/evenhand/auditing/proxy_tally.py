"""Decisions about groups that are known by probabilities only: rates and disparities between limits.

Each rate has its probability-weighted estimate, and an interval that holds whatever the true groups are
within the probabilities, widened for sampling; see :mod:`evenhand.guarantee.proxies`. Disparities are
made from these, and so are verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.distances import smallest_of_pairs
from evenhand.auditing.tally import Tally
from evenhand.data.checks import check_rows
from evenhand.exceptions import InputError
from evenhand.groups.groups import Members
from evenhand.groups.proxy import Proxy, read_proxy
from evenhand.guarantee.intervals import Estimate, critical_value, difference, quotient, wilson
from evenhand.guarantee.proxies import ProxyRate, check_calibration, proxy_rate
from evenhand.requirements.measurement import Measurement
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import read_rows
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import Statistic

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class ProxyTally(Tally):
    """Rows of an audit, whose sums over cells are expected numbers.

    Attributes
    ----------
    probabilities : array, shape (n, M)
        Of the groups.
    selection, weights : array, shape (n,)
    labels : array of 0 and 1, shape (n,)
        Without labels, 0.
    """

    probabilities: Floats
    selection: Floats
    labels: NDArray[np.intp]
    weights: Floats
    _found: dict[tuple[Statistic, bytes], ProxyRate] = field(default_factory=dict)

    def share(self, statistic: Any, members: NDArray[Any]) -> Any:
        """The rates of several groups, as arrays."""
        found, parts = [], None
        for own in members:
            key = (statistic, own.tobytes())  # several notions and measures ask for the same rates
            if key not in self._found:
                parts = parts or self._parts(statistic)
                p = np.minimum(1.0, self.probabilities @ own.astype(np.float64))
                self._found[key] = proxy_rate(*parts, p, self.weights)
            found.append(astuple(self._found[key]))
        return ProxyRate(*np.array(found).T)

    def _parts(self, statistic: Statistic) -> tuple[Floats, Floats]:
        """Whether each row counts as a hit and as a miss of a rate."""
        mask, slope, intercept = (
            np.array(part, np.float64)[self.labels]
            for part in (statistic.mask, statistic.slope, statistic.intercept)
        )
        hit = intercept + slope * self.selection
        return mask * hit, mask * (1 - hit)

    def _overall(self, statistic: Statistic, z: float) -> Estimate:
        """The rate of all rows, which does not depend on groups."""
        hit, miss = self._parts(statistic)
        own = self.weights * (hit + miss)
        size = own.sum() ** 2 / max((own**2).sum(), np.finfo(float).tiny)
        return wilson(self.weights @ hit / own.sum() if own.sum() > 0 else np.nan, size, z)

    def measure(
        self, notion: Notion, family: Members, confidence: float
    ) -> tuple[list[Measurement], list[Estimate]]:
        """Disparity by each statistic of a notion, and the distances, with limits for all groups together."""
        if not isinstance(notion.against, str):
            raise InputError("an audit by a Proxy cannot compare with a named group: use against='groups'.")
        n_groups = len(family.names)
        number = n_groups if notion.against == "population" else math.comb(n_groups, 2)
        z = critical_value(confidence, number * len(notion.statistics))
        measured, distances = [], []
        for statistic in notion.statistics:
            rates: ProxyRate = self.share(statistic, family.matrix)
            everyone = self._overall(statistic, z)
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
        return measured, distances


def tally_by_proxy(
    columns: Mapping[str, Any], proxy: Proxy, *, constraint: Constraint | None, **settings: Any
) -> ProxyTally:
    """The rows of an audit of groups that are known by probabilities; see :func:`evenhand.audit`.

    Parameters
    ----------
    columns : mapping
        ``y_true``, ``y_pred``, ``sample_weight`` and ``before``, which is None.
    proxy : Proxy
    constraint : Constraint or None
        About notions of fairness; bounds on rates are not judged.
    **settings
        The positive label and the threshold.

    Returns
    -------
    ProxyTally
    """
    for part in () if constraint is None else constraint.requirements:
        if not isinstance(part, Notion):
            raise InputError(
                f"{part!r} cannot be judged by proxies: an audit by proxies compares groups by notions "
                "such as DemographicParity(difference=0.05)."
            )
        if any(set(one.mask) - {0, 1} or one.range != (0.0, 1.0) for one in part.statistics):
            raise InputError(f"{part!r} is not about shares of rows, which an audit by proxies needs.")
        if columns["y_true"] is None and any(one.needs_labels for one in part.statistics):
            raise InputError("this requirement needs labels, and y_true is None.")
    rows = read_proxy(proxy)
    check_calibration(proxy, rows)
    check_rows({"y_pred": columns["y_pred"], "Proxy": rows.values[rows.proxy]})
    decisions = read_rows(
        **columns, sensitive_features={"everyone": np.zeros(len(rows), np.int64)}, **settings
    )
    weights, labelled = decisions.weights, decisions.positive is not None
    positive = np.zeros(len(rows)) if decisions.positive is None else decisions.positive
    labels = positive.astype(np.intp)
    selection = decisions.selection.astype(np.float64)
    cells = np.eye(2)[labels]
    sums = [rows.probabilities.T @ part for part in (cells, selection[:, None] * cells)]
    return ProxyTally(
        rows.groups,
        np.stack([sums] * 3),
        np.zeros((3, 2, 0, 2)),
        weights is not None,
        labelled,
        randomised=decisions.randomised,
        proxy=rows.proxy,
        probabilities=rows.probabilities,
        selection=selection,
        labels=labels,
        weights=np.ones(len(rows)) if weights is None else weights,
    )


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
