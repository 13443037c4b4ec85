"""Guarantees beside peers: how often they are kept, at what accuracy, and from how many rows on.

Run: ``python -m benchmarks.guarantee_peers`` (about 20 minutes on one core; ``--draws 20`` for a first look).
FaiREE (Li, Zou and Zhang, 2023) is written here from its formulas. It guarantees equal opportunity of two
known groups, abs(TPR_1 - TPR_0) <= tolerance, with a given confidence. Scores are learned from a part of the
rows. In the other, with n_a positives of group a, thresholds are their scores in order, and the
false-negative rate at the k-th of them has a Beta(k, n_a - k + 1) distribution whatever the population is.
Pairs of thresholds with P(abs(B_1 - B_0) > tolerance) <= 1 - confidence are candidates, and the one with the
smallest estimated error is returned.

Hou and Zhang (arXiv 2410.16477) choose the one multiplier of two groups: the smallest at which the disparity
on rows of its own is below the tolerance by a margin that holds for all multipliers at once. Their constants
were not at hand. The margin here is that of Dvoretzky, Kiefer, Wolfowitz and Massart for the true-positive
rates of both groups, so this stands for the idea and not for their procedure in every detail.

All methods have the same rows, the same learner and the same share of rows to test on, and are judged in a
Gaussian population whose rates are known for any classifier.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv
from sklearn.utils.parallel import Parallel, delayed

import evenhand as eh
from benchmarks.exact import GaussianProblem
from benchmarks.guarantee import learner, problem, summary
from benchmarks.record import write
from evenhand.data.features import random_split

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]

TOLERANCE, CONFIDENCE, RESERVE = 0.1, 0.95, 0.5
ROWS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
POINTS = 200
"""Quantiles of one Beta distribution over which the other is averaged."""
ENOUGH = 0.8
"""Share of draws with a guarantee at which rows are called enough."""


@dataclass(frozen=True)
class Outcome:
    """What a method guarantees, and what its classifier does in the population."""

    guaranteed: bool
    broken: bool
    accuracy: float


def quantiles(k: Counts, n: int) -> Floats:
    """Quantiles of Beta(k, n - k + 1), shape (len(k), POINTS)."""
    return np.asarray(betaincinv(k[:, None], n - k[:, None] + 1, (np.arange(POINTS) + 0.5) / POINTS))


def violation(of_other: Floats, k: Counts, n: int, tolerance: float) -> Floats:
    """P(abs(B - B_0) > tolerance) for B of a Beta(k, n - k + 1) distribution and B_0 with given quantiles."""
    below, above = (
        betainc(k[:, None], n - k[:, None] + 1, np.clip(of_other + step, 0.0, 1.0))
        for step in (-tolerance, tolerance)
    )
    return np.asarray(1 - (above - below).mean(axis=1))


def candidates(n: tuple[int, int], tolerance: float, level: float) -> tuple[Counts, Counts]:
    """Smallest and largest k_1 of the candidates with each k_0 from 1 on; where there are none, they cross.

    For a given k_0 the probability falls and then rises in k_1, and is about smallest at the same quantile.
    """
    n0, n1 = n
    k0 = np.arange(1, n0 + 1)
    of_other = quantiles(k0, n0)
    middle = np.clip(np.rint(k0 * (n1 + 1) / (n0 + 1)).astype(np.intp), 1, n1)
    possible = violation(of_other, middle, n1, tolerance) <= level
    ends = []
    for outermost in (1, n1):
        inside, outside = middle.copy(), np.full(n0, outermost)
        all_of_them = violation(of_other, outside, n1, tolerance) <= level
        while (np.abs(outside - inside) > 1).any():
            half = (inside + outside) // 2
            fits = violation(of_other, half, n1, tolerance) <= level
            inside, outside = np.where(fits, half, inside), np.where(fits, outside, half)
        ends.append(np.where(all_of_them, outermost, inside))
    return np.where(possible, ends[0], n1 + 1), np.where(possible, ends[1], 0)


def choose(
    scores: dict[tuple[int, int], Floats], tolerance: float, level: float
) -> tuple[float, float] | None:
    """Thresholds of group 0 and 1 with the smallest estimated error among the candidates; None without any.

    Parameters
    ----------
    scores : dict
        Sorted scores of the rows to test on, by label and group.
    tolerance, level : float

    Returns
    -------
    pair of float or None
    """
    n = len(scores[1, 0]), len(scores[1, 1])
    if not min(n):
        return None
    lowest, highest = candidates(n, tolerance, level)
    errors = [_error(scores, group) for group in (0, 1)]
    best, pair = np.inf, None
    for k0 in range(n[0]):
        if lowest[k0] > highest[k0]:
            continue
        k1 = lowest[k0] - 1 + int(errors[1][lowest[k0] - 1 : highest[k0]].argmin())
        if errors[0][k0] + errors[1][k1] < best:
            best = errors[0][k0] + errors[1][k1]
            pair = float(scores[1, 0][k0]), float(scores[1, 1][k1])
    return pair


def _error(scores: dict[tuple[int, int], Floats], group: int) -> Floats:
    """Estimated part of the error rate that is made in a group, at each of its thresholds."""
    total = sum(map(len, scores.values()))
    positive, negative = scores[1, group], scores[0, group]
    missed = np.arange(1, len(positive) + 1) / (len(positive) + 1)
    passed = np.searchsorted(negative, positive, side="right")
    false = (len(negative) + 0.5 - passed) / (len(negative) + 1)
    return (len(positive) * missed + len(negative) * false) / total


def judge(setting: GaussianProblem, decide: Any, *, guaranteed: bool) -> Outcome:
    """Look at the population."""
    rates = setting.rates_of(decide)
    [found] = eh.EqualOpportunity(difference=TOLERANCE, against="groups").measure(rates)
    return Outcome(guaranteed, found.excess > 0, 1 - 2 * rates.risk())


def held_out(data: Any, seed: int) -> tuple[Any, dict[tuple[int, int], Floats], Counts]:
    """A fitted score, its sorted values on the rows to test on, by label and group, and the other rows."""
    marks = np.eye(2)
    rows, tested = random_split(len(data.y), RESERVE, seed)
    model = learner(blind=False).fit(np.hstack([data.X, marks[data.codes]])[rows], data.y[rows])

    def score(X: Any, codes: Any) -> Floats:
        return np.asarray(model.predict_proba(np.hstack([X, marks[codes]]))[:, 1])

    found, y, codes = score(data.X[tested], data.codes[tested]), data.y[tested], data.codes[tested]
    return score, {(a, b): np.sort(found[(y == a) & (codes == b)]) for a in (0, 1) for b in (0, 1)}, rows


def fairee(setting: GaussianProblem, data: Any, seed: int) -> Outcome:
    """FaiREE; without a candidate, decisions are those of the learner and nothing is guaranteed."""
    score, scores, _ = held_out(data, seed)
    thresholds = choose(scores, TOLERANCE, 1 - CONFIDENCE)
    at = np.array(thresholds or (0.5, 0.5))
    return judge(setting, lambda X, codes: score(X, codes) > at[codes], guaranteed=thresholds is not None)


def choose_multiplier(
    scores: dict[tuple[int, int], Floats], shares: Floats, tolerance: float, level: float
) -> tuple[float, float] | None:
    """Thresholds of group 0 and 1 at the smallest multiplier that keeps the tolerance by a uniform margin.

    A row of group a is selected if ``2 eta - 1 > multiplier * sign * eta / P(Y=1, A=a)``, with sign 1 for
    group 0 and -1 for group 1: a threshold on eta.

    Parameters
    ----------
    scores : dict
        Sorted scores of the rows to test on, by label and group.
    shares : array of two numbers
        P(Y=1, A=a).
    tolerance, level : float

    Returns
    -------
    pair of float or None
    """
    n = np.array([len(scores[1, 0]), len(scores[1, 1])])
    room = tolerance - np.sqrt(np.log(4 / level) / (2 * np.maximum(n, 1))).sum()
    if not n.all() or room <= 0:
        return None

    def thresholds(multiplier: float) -> Floats:
        return np.asarray(1 / np.maximum(2 - multiplier * np.array([1, -1]) / shares, 0.5))

    def gap(multiplier: float) -> float:
        at = thresholds(multiplier)
        return float(np.subtract(*(np.mean(scores[1, a] > at[a]) for a in (1, 0))))

    sign = -float(np.sign(gap(0.0)))
    inside, outside = (0.0, 0.0) if abs(gap(0.0)) <= room else (2 * sign * float(shares.min()), 0.0)
    for _ in range(60 if inside else 0):
        middle = (inside + outside) / 2
        reached = -sign * gap(middle) <= room
        inside, outside = (middle, outside) if reached else (inside, middle)
    first, second = thresholds(inside).tolist()
    return (first, second) if abs(gap(inside)) <= room else None


def by_multiplier(setting: GaussianProblem, data: Any, seed: int) -> Outcome:
    """One multiplier with a uniform margin; without one, decisions are those of the learner."""
    score, scores, learned = held_out(data, seed)
    y, codes = data.y[learned], data.codes[learned]
    shares = np.array([np.mean((y == 1) & (codes == a)) for a in (0, 1)])
    thresholds = choose_multiplier(scores, shares, TOLERANCE, 1 - CONFIDENCE)
    at = np.array(thresholds or (0.5, 0.5))
    return judge(setting, lambda X, codes: score(X, codes) > at[codes], guaranteed=thresholds is not None)


def ours(setting: GaussianProblem, data: Any, seed: int, *, confidence: float | None) -> Outcome:
    """FairPostprocessor, with or without a guarantee."""
    fair = eh.FairPostprocessor(
        learner(blind=False),
        eh.EqualOpportunity(difference=TOLERANCE, against="groups"),
        aware=True,
        random_state=seed,
        posteriors=eh.CrossFit(2, form="joint"),
        guarantee=None if confidence is None else eh.Guarantee(confidence, RESERVE),
    )
    fair.fit(data.X, data.y, sensitive_features=data.sensitive)
    return judge(
        setting,
        lambda X, codes: fair.predict(X, sensitive_features={"group": codes}),
        guaranteed=fair.guarantee_ is None or fair.guarantee_.holds,
    )


def draw(n: int, seed: int, *, uneven: bool) -> dict[str, Outcome]:
    """Draw data, and fit all methods to them."""
    setting = problem(2, uneven=uneven)
    data = setting.sample(n, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "evenhand": ours(setting, data, seed, confidence=CONFIDENCE),
            "FaiREE": fairee(setting, data, seed),
            "uniform margin": by_multiplier(setting, data, seed),
            "not guaranteed": ours(setting, data, seed, confidence=None),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    told: dict[str, Any] = {}
    for uneven in (False, True):
        enough: dict[str, int] = {}
        for n in ROWS:
            done = Parallel(n_jobs=chosen.jobs)(
                delayed(draw)(n, seed, uneven=uneven) for seed in range(chosen.draws)
            )
            name = f"{'uneven' if uneven else 'even'}, {n} rows"
            told[name] = {}
            for method in done[0]:
                found = [outcomes[method] for outcomes in done]
                columns = [
                    [getattr(one, key) for one in found] for key in ("guaranteed", "broken", "accuracy")
                ]
                told[name][method] = summary(*columns)
                if method != "not guaranteed" and method not in enough and np.mean(columns[0]) >= ENOUGH:
                    enough[method] = n
            print(name, *(f"  {what}: {found}" for what, found in told[name].items()), sep="\n", flush=True)
        told[f"{'uneven' if uneven else 'even'}, rows at which {ENOUGH:.0%} are guaranteed"] = enough
    settings = {"tolerance": TOLERANCE, "confidence": CONFIDENCE, "reserve": RESERVE}
    write("guarantee_peers", settings | told, ["evenhand", "scikit-learn", "numpy", "scipy"])


if __name__ == "__main__":
    main()
