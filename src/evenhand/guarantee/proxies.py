"""Groups that are known by probabilities only: their rates, and whether the probabilities are calibrated.

A rate has an estimate, and limits that hold in any case.

Among people with a probability b of belonging to a group, let a be the share that is selected. Probabilities
tell nothing of how the two overlap: between max(0, a + b - 1) and min(a, b) of these people are both
(Frechet's bounds). Summed over all b, this bounds the group's rate whatever the true groups are, as long as
the probabilities are calibrated.

For a rate among some rows, such as those with a positive label, rows are hits, misses, or neither. The rate
is highest if the group has as many hits and as few misses as possible, which can be had together: as many
of its people as possible are hits, the others neither, and only what is left over are misses.

People with similar b are taken together. The bounds are then wider, never narrower, since min is concave and
max is convex. The shares a are estimates, and the smaller of two estimates is too small on average, so which
of a and b is the smaller is decided on one half of the people and applied to the other. Either answer would
give a valid bound; the right one gives the tighter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.columns import factorize, named_columns
from evenhand.exceptions import GroupError, ProxyCalibrationWarning, warn_user
from evenhand.groups.proxy import Proxy, ProxyRows
from evenhand.guarantee.intervals import Estimate, critical_value, wilson

Floats = NDArray[np.float64]

_ROWS_PER_BIN = 50
"""Bounds are valid for bins of any size, but wide in small ones, where the wrong choice is often made."""
_MOST_BINS = 40
_CALIBRATION_BINS = 4
_LEVEL = 0.01
"""Probability with which calibrated proxies are warned of."""


@dataclass(frozen=True)
class ProxyRate:
    """A rate of one group.

    Attributes
    ----------
    value : float
        The probability-weighted estimate; right if hits do not depend on the group among people with the same
        probabilities. NaN if no row is a hit or a miss.
    low, high : float
        The bounds, as estimated.
    low_size, high_size : float
        Effective numbers of rows, for the sampling error of either bound.
    """

    value: float
    low: float
    high: float
    low_size: float
    high_size: float

    def lower(self, z: float) -> Estimate:
        """The lower bound, with the limits of its sampling error."""
        return wilson(self.low, self.low_size, z)

    def upper(self, z: float) -> Estimate:
        """The upper bound, with the limits of its sampling error."""
        return wilson(self.high, self.high_size, z)

    def estimate(self, z: float) -> Estimate:
        """The rate between the limits of both bounds; undefined where it is."""
        limits = (self.value, self.lower(z).low, self.upper(z).high)
        return Estimate(*(np.where(np.isnan(self.value), np.nan, part) for part in limits))


def proxy_rate(hit: Floats, miss: Floats, p: Floats, weights: Floats, seed: int = 0) -> ProxyRate:
    """A rate of a group that is known by probabilities.

    Parameters
    ----------
    hit, miss : array, shape (n,)
        Whether each row is a hit, or a miss; shares of both where decisions are randomised.
    p : array, shape (n,)
        Probability of each row to be in the group.
    weights : array, shape (n,)
    seed : int, default=0
        Of the split of the rows in halves.

    Returns
    -------
    ProxyRate

    Examples
    --------
    >>> import numpy as np
    >>> p, hit = np.full(4000, 0.3), np.repeat([1.0, 0.0], [800, 3200])
    >>> found = proxy_rate(hit, 1 - hit, p, np.ones(4000))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.2, 0.0, 0.667)
    """
    w = weights / weights.sum()
    hits, misses = float(w @ (p * hit)), float(w @ (p * miss))
    value = hits / (hits + misses) if hits + misses > 0 else float("nan")
    cells = _bins(p) * 2 + (np.random.default_rng(seed).permutation(len(p)) % 2)
    a_hit, a_miss, b = (_other_half(cells, w, part) for part in (hit, miss, p))
    most_hits = np.where(a_hit <= b, hit, p)
    fewest_misses = np.where(a_miss + b > 1, p + miss - 1, 0.0)
    most_misses = np.where(a_miss <= b, miss, p)
    fewest_hits = np.where(a_hit + b > 1, p + hit - 1, 0.0)
    own = w * p / max(float((w * p).max()), np.finfo(np.float64).tiny)  # squares would underflow
    size = float(own.sum() ** 2 / (own @ own)) if own.any() else 0.0
    high, high_size = _bound(most_hits, fewest_misses, w, size, unknown=1.0)
    low, low_size = _bound(fewest_hits, most_misses, w, size, unknown=0.0)
    # Halves disagree by chance on what is smaller; the estimate itself is always possible.
    return ProxyRate(value, min(low, value), max(high, value), low_size, high_size)


def _bound(hit: Floats, miss: Floats, w: Floats, size: float, *, unknown: float) -> tuple[float, float]:
    """Hits among hits and misses, from 0 to 1, and the effective number of rows by linearised variance."""
    hits, misses = max(0.0, float(w @ hit)), max(0.0, float(w @ miss))
    total = hits + misses
    if not total > 0:
        return unknown, size
    rate = hits / total
    influence = w * (hit - rate * (hit + miss)) / total
    variance = float(influence @ influence)
    spread = rate * (1 - rate)
    return rate, spread / variance if variance > 0 and spread > 0 else size


def _bins(p: Floats) -> NDArray[np.intp]:
    """Rows with the same or a similar probability; 0 and 1 are by themselves."""
    found = np.zeros(len(p), np.intp)
    between = np.flatnonzero((p > 0) & (p < 1))
    found[p >= 1] = 1
    if len(between):
        edges = np.unique(p[between])
        if len(edges) > _MOST_BINS:
            count = int(np.clip(len(between) // _ROWS_PER_BIN, 1, _MOST_BINS))
            edges = np.unique(np.quantile(p[between], np.linspace(0, 1, count + 1)[1:-1]))
        found[between] = 2 + np.searchsorted(edges, p[between], side="right")
    return found


def _other_half(cells: NDArray[np.intp], w: Floats, part: Floats) -> Floats:
    """Mean of the other half of each row's bin; of its own half if that is empty."""
    size = int(cells.max()) // 2 * 2 + 2
    mass, total = (np.bincount(cells, weights=x, minlength=size) for x in (w, w * part))
    means = np.divide(total, mass, out=np.full(size, np.nan), where=mass > 0)
    other = means.reshape(-1, 2)[:, ::-1].ravel()
    return np.asarray(np.where(np.isnan(other), means, other)[cells])


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
        edges = np.unique(np.quantile(p, np.linspace(0, 1, _CALIBRATION_BINS + 1)[1:-1]))
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
