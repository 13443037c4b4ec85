"""Probabilities of groups, compared with rows whose group is known."""

from __future__ import annotations

import numpy as np

from evenhand.data.checks import check_rows
from evenhand.data.columns import factorize, named_columns
from evenhand.exceptions import GroupError, ProxyCalibrationWarning, warn_user
from evenhand.groups.proxy import Proxy, ProxyRows
from evenhand.guarantee.intervals import critical_value, wilson

_BINS = 4
_LEVEL = 0.01
"""Probability with which calibrated proxies are warned of."""


def check_calibration(proxy: Proxy, rows: ProxyRows) -> None:
    """Compare probabilities with the values that are known of some rows, and warn where they disagree.

    Each value is compared on all of these rows, and on those with a low to a high probability.

    Parameters
    ----------
    proxy : Proxy
    rows : ProxyRows
    """
    if proxy.known is None:
        return
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
    wrong = []
    for level, p, hit in compared:
        limits, share = wilson(hit.mean(), len(hit), z), float(hit.mean())
        if not limits.low <= p.mean() <= limits.high:
            wrong.append((level, p, share))
    if wrong:
        level, p, share = max(wrong, key=lambda one: abs(one[1].mean() - one[2]))
        warn_user(
            f"probabilities of {name!r} are not calibrated: of {len(p):,} rows whose value is known, and "
            f"whose probabilities of {level!r} are {p.min():.2f} to {p.max():.2f}, {p.mean():.3f} on "
            f"average, {share:.3f} have it. Neither estimates nor intervals are right then.",
            ProxyCalibrationWarning,
        )
