"""Monitoring: false alarms, rows until an alarm, betting against mixtures, and the time of an update.

Run: ``python -m benchmarks.monitoring`` (some five minutes). Streams are at the border of the tolerance:
groups are compared with a named one, so that the requirement holds whatever the mix of people, and half of
the groups are exactly as far from it as is allowed. In most settings evidence is computed at the true rates
first, which are among those that it is the least over; only where that reaches the alarm is the evidence
itself computed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import norm

import evenhand as eh
from benchmarks.record import write
from evenhand.groups.groups import Groups
from evenhand.monitoring.comparisons import find_comparisons
from evenhand.monitoring.counts import Batch, History
from evenhand.monitoring.evidence import find_blocks, log_above, log_below, log_evidence, log_total, weights

ALPHA, DELTA, BASE = 0.05, 0.05, 0.3
ALARM = -np.log(ALPHA)
LOOKS = 10_000
STREAMS = {2: 40, 10: 10, 50: 4}
DEPENDENT_STREAMS, DEPENDENT_LOOKS = 15, 1000
POWER = 0.8
POWER_STREAMS, EVERY, PLANNED_LOOKS = 80, 100, 1000

Floats = NDArray[np.float64]


class Setting:
    """Groups compared with the first, and their evidence."""

    def __init__(self, rates: Floats) -> None:
        self.rates = rates
        self.groups = Groups.product({"group": [f"{m:02}" for m in range(len(rates))]})
        self.constraint = eh.DemographicParity(difference=DELTA, against={"group": "00"})
        self.comparisons = find_comparisons(self.constraint, self.groups)
        self.own = np.array([one.inside.argmax() for one in self.comparisons])
        self.other = np.array([one.outside.argmax() for one in self.comparisons])
        self.low = np.array([one.low for one in self.comparisons])

    def draw(self, sizes: Any, shares: Floats, streams: int, rng: np.random.Generator) -> Floats:
        """Rows and selected rows of each group in a batch of each stream."""
        rows = rng.multinomial(sizes, shares, streams)
        return np.stack([rows, rng.binomial(rows, self.rates)], axis=-1).astype(np.float64)

    def batch(self, counts: Floats) -> Batch:
        """A batch of one stream, as a monitor reads it."""
        sums = np.zeros((len(counts), 3, 2))
        sums[:, 0] = counts
        return Batch(("group",), 0, self.groups.keys, sums, int(counts[:, 0].sum()))

    def total(self, since: Floats, starts: NDArray[np.intp], *, exact: bool) -> Floats:
        """Log of the evidence from counts since each start, shape (..., W, M, 2), or a bound of it."""
        shares = weights(self.comparisons, np.zeros(len(self.rates), np.intp), starts)
        if exact:
            sums = np.zeros((*since.shape[:-1], 3, 2))
            sums[..., 0, :] = since
            evidence = log_evidence(self.comparisons, find_blocks(self.comparisons, sums))
        else:
            n, selected = since[..., 0], since[..., 1]
            up, down = log_above(self.rates, n, selected), log_below(self.rates, n, selected)
            lower = down[..., self.own] + up[..., self.other]
            evidence = np.where(self.low, lower, up[..., self.own] + down[..., self.other])
        return log_total(self.comparisons, evidence, shares, starts)


def at_the_border(groups: int) -> Floats:
    """Half of the groups, but the first, at the tolerance."""
    return np.where(np.arange(groups) % 2 == 1, BASE - DELTA, BASE)


def kinds_of_shares(groups: int, look: int) -> dict[str, Floats]:
    rare = np.full(groups, 0.1 / (groups - 1))
    rare[0] = 0.9
    moved = np.linspace(1, 3, groups) ** (3 * look / LOOKS - 1.5)
    return {"equal": np.full(groups, 1 / groups), "rare": rare, "changing": moved / moved.sum()}


def looks(setting: Setting, sizes: Any, shares: Any, streams: int, rng: Any) -> Iterator[tuple[Any, Any]]:
    """Counts since each start after each batch, and the starts; sizes are the same in all streams."""
    history, ends = History(), {0: np.zeros((streams, len(setting.rates), 2))}
    now = ends[0]
    for look, size in enumerate(sizes):
        drawn = setting.draw(size, shares(look), streams, rng)
        history = history.added(setting.batch(drawn[0]), "")
        now = now + drawn
        kept = [one.batch for one in history.starts]
        ends = {batch: ends[batch] for batch in kept}
        since = np.stack([now - ends[batch] for batch in kept], axis=1)
        ends[look + 1] = now
        yield since, np.array([one.start for one in history.starts])


def false_alarms(groups: int, kind: str, rng: np.random.Generator) -> float:
    setting, streams = Setting(at_the_border(groups)), STREAMS[groups]
    sizes = np.exp(rng.uniform(0, np.log(1e5), LOOKS)).astype(int)
    ever = np.zeros(streams, np.bool_)
    for since, starts in looks(setting, sizes, lambda k: kinds_of_shares(groups, k)[kind], streams, rng):
        doubtful = ~ever & (setting.total(since, starts, exact=False) >= ALARM)
        if doubtful.any():
            ever[doubtful] = setting.total(since[doubtful], starts, exact=True) >= ALARM
    return float(ever.mean())


def looking_when_it_looks_bad(rng: np.random.Generator) -> float:
    """A few rows at a time while the evidence is high, many when it is low."""
    setting, alarms = Setting(at_the_border(2)), 0
    for _ in range(DEPENDENT_STREAMS):
        history, evidence = History(), 0.0
        for _ in range(DEPENDENT_LOOKS):
            size = int(np.exp(rng.uniform(0, np.log(10 if evidence > 0 else 1e4))))
            history = history.added(setting.batch(setting.draw(size, np.array([0.5, 0.5]), 1, rng)[0]), "")
            since = np.stack([history.last.sums[:, 0] - one.sums[:, 0] for one in history.starts])
            starts = np.array([one.start for one in history.starts])
            evidence = float(setting.total(since, starts, exact=False))
            if evidence >= ALARM and float(setting.total(since, starts, exact=True)) >= ALARM:
                alarms += 1
                break
    return alarms / DEPENDENT_STREAMS


def rows_until_an_alarm(times: float, rng: np.random.Generator) -> dict[str, float]:
    """Rows by which 80 % of streams have an alarm: two equal groups, looked at every 100 rows.

    The fixed-sample test of both sides knows when to look, and has a power of 80 % there. Repeated tests
    share alpha among a thousand planned looks and both sides.
    """
    setting = Setting(np.array([BASE, BASE - times * DELTA]))
    gap, variance = (times - 1) * DELTA, 2 * (setting.rates * (1 - setting.rates)).sum()
    fixed = variance * ((norm.ppf(1 - ALPHA / 2) + norm.ppf(POWER)) / gap) ** 2  # of both sides
    most = int(6 * fixed / EVERY) + 20
    first = {name: np.full(POWER_STREAMS, np.inf) for name in ("mixtures", "repeated tests", "betting")}
    level = norm.ppf(1 - ALPHA / (PLANNED_LOOKS * len(setting.comparisons)))
    wealth, sums, squares = np.zeros((3, 2, POWER_STREAMS))
    p_first, p_second = setting.rates
    chances = [p_first * (1 - p_second), (1 - p_first) * p_second]
    chances.append(1 - sum(chances))
    equal = np.array([0.5, 0.5])
    for look, (since, starts) in enumerate(
        looks(setting, [EVERY] * most, lambda _: equal, POWER_STREAMS, rng)
    ):
        rows = (look + 1) * EVERY
        p = since[:, 0, :, 1] / since[:, 0, :, 0]
        error = np.sqrt((p * (1 - p) / since[:, 0, :, 0]).sum(axis=1))
        # Betting on pairs, one row of each group: who of them is selected, in both directions.
        pairs = rng.multinomial(EVERY // 2, chances, POWER_STREAMS)
        for side, order in enumerate(((0, 1, 2), (1, 0, 2))):
            counts, gains = pairs[:, order], np.array([1, -1, 0]) - DELTA
            bet = np.clip(sums[side] / (squares[side] + 10), 0, 0.9 / (1 + DELTA))
            wealth[side] += (counts * np.log1p(bet[:, None] * gains)).sum(axis=1)
            sums[side] += counts @ gains
            squares[side] += counts @ gains**2
        found = {
            "mixtures": setting.total(since, starts, exact=True) >= ALARM,
            "repeated tests": (p[:, 0] - p[:, 1] - DELTA) / error >= level,
            "betting": np.logaddexp(*wealth) - np.log(2) >= ALARM,
        }
        for name, told in found.items():
            first[name] = np.where(told & np.isinf(first[name]), rows, first[name])
        if all(np.isfinite(one).mean() > 0.85 for one in first.values()):
            break
    figures = {name: float(np.quantile(one, POWER, method="inverted_cdf")) for name, one in first.items()}
    return {
        "fixed": float(fixed),
        **figures,
        **{f"{k} / fixed": float(v / fixed) for k, v in figures.items()},
    }


def update_against_a_group_by(rng: np.random.Generator) -> dict[str, float]:
    """Times of a million rows, the median of five, relative to a group-by of the same columns."""
    n = 1_000_000
    table = pl.DataFrame(
        {"sex": rng.choice(["F", "M"], n), "race": rng.choice(list("ABCD"), n), "d": rng.integers(0, 2, n)}
    )

    def timed(action: Any) -> float:
        found = []
        for _ in range(5):
            began = time.perf_counter()
            action()
            found.append(time.perf_counter() - began)
        return float(np.median(found))

    def update() -> None:
        eh.Monitor(eh.DemographicParity(difference=0.05)).update("d", ["sex", "race"], data=table)

    group_by = timed(lambda: table.group_by(["sex", "race", "d"]).len())
    audit = timed(lambda: eh.audit(None, "d", ["sex", "race"], data=table))
    own = timed(update)
    return {"seconds": own, "of a group-by": own / group_by, "of an audit": own / audit}


def main() -> None:
    """Run all, print and store."""
    rng = np.random.default_rng(0)
    rows = {f"{times} times": rows_until_an_alarm(times, rng) for times in (4, 2, 1.5)}
    for name, one in rows.items():
        print(name, {key: round(float(value), 2) for key, value in one.items()}, flush=True)
    update = update_against_a_group_by(rng)
    print(update, flush=True)
    alarms: dict[str, Any] = {}
    for groups, kind in ((2, "equal"), (2, "bad"), (10, "rare"), (10, "changing"), (50, "equal")):
        if kind == "bad":
            name, streams = "2 groups, looking when it looks bad", DEPENDENT_STREAMS
            share, looked = looking_when_it_looks_bad(rng), DEPENDENT_LOOKS
        else:
            name, streams = f"{groups} groups, {kind} shares", STREAMS[groups]
            share, looked = false_alarms(groups, kind, rng), LOOKS
        alarms[name] = {"streams": streams, "looks": looked, "alarms": share}
        print(f"{name}: {share:.3f} of {streams} streams have a false alarm in {looked} looks", flush=True)
        results = {"rows_until_alarm": rows, "update": update, "false_alarms": alarms}
        write("monitoring", results, ["evenhand", "numpy", "polars", "scipy"])


if __name__ == "__main__":
    main()
