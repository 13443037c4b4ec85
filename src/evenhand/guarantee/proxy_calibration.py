"""Probabilities of groups, compared with rows whose group is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.data.checks import check_rows
from evenhand.data.columns import Level, factorize, named_columns
from evenhand.exceptions import GroupError, ProxyCalibrationWarning, warn_user
from evenhand.groups.proxy import Proxy, ProxyRows
from evenhand.guarantee.intervals import critical_value, wilson

_BINS = 4
_LEVEL = 0.01
"""Probability with which calibrated proxies are warned of."""


@dataclass(frozen=True)
class ProxyCalibration:
    """How the probabilities of one value compare with rows whose value is known.

    Attributes
    ----------
    feature : str
    value : object
    from_probability, to_probability : float
        The rows compared: those with a probability in this range.
    rows : int
        Of them, rows whose value is known.
    probability : float
        Their mean probability.
    share, low, high : float
        Share of them that have the value, with limits that hold for all comparisons together.
    """

    feature: str
    value: Level
    from_probability: float
    to_probability: float
    rows: int
    probability: float
    share: float
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether the mean probability is within the limits."""
        return self.low <= self.probability <= self.high


def check_calibration(proxy: Proxy, rows: ProxyRows) -> tuple[ProxyCalibration, ...]:
    """Compare probabilities with the values that are known of some rows, and warn where they disagree.

    Parameters
    ----------
    proxy : Proxy
    rows : ProxyRows

    Returns
    -------
    tuple of ProxyCalibration
        For each value all rows, and rows with a low to a high probability; empty if no values are known.
    """
    if proxy.known is None:
        return ()
    name = rows.proxy
    columns = named_columns(proxy.known, what="known", default_name=name)
    if set(columns) != {name}:
        raise GroupError(
            f"known of a Proxy should have a column {name!r}, but has {', '.join(map(repr, columns))}."
        )
    check_rows({f"Proxy({name})": rows.values[name], "known": columns})
    found, codes = factorize(columns[name], what=f"known[{name!r}]")
    levels = rows.groups.levels(name)
    strange = [value for value in found if value not in levels]
    if strange:
        raise GroupError(
            f"known of a Proxy has {name}={strange[0]!r}, and the columns of probabilities are "
            f"{', '.join(map(repr, levels))}."
        )
    there = np.flatnonzero(codes >= 0)
    if not len(there):
        raise GroupError(f"known of a Proxy has no value of {name!r}: leave it out.")
    own = np.array([levels.index(value) for value in found])[codes[there]]
    compared = []
    for k, level in enumerate(levels):
        p, hit = rows.values[name][there, k], own == k
        edges = np.unique(np.quantile(p, np.linspace(0, 1, _BINS + 1)[1:-1]))
        bins = np.searchsorted(edges, p, side="right")
        parts = [np.arange(len(p)), *(np.flatnonzero(bins == b) for b in np.unique(bins))]
        compared += [(level, p[part], hit[part]) for part in (parts if len(parts) > 2 else parts[:1])]
    z = critical_value(1 - _LEVEL, len(compared))
    results = []
    for level, p, hit in compared:
        limits = wilson(hit.mean(), len(hit), z)
        spread = (float(p.min()), float(p.max()), len(p), float(p.mean()))
        results.append(
            ProxyCalibration(name, level, *spread, float(hit.mean()), float(limits.low), float(limits.high))
        )
    wrong = [one for one in results if not one.agrees]
    if wrong:
        worst = max(wrong, key=lambda one: abs(one.probability - one.share))
        warn_user(
            f"probabilities of {name!r} are not calibrated: of {worst.rows:,} rows whose value is known, and "
            f"whose probabilities of {worst.value!r} are {worst.from_probability:.2f} to "
            f"{worst.to_probability:.2f}, {worst.probability:.3f} on average, {worst.share:.3f} have it. "
            "Neither estimates nor intervals are right then.",
            ProxyCalibrationWarning,
        )
    return tuple(results)
