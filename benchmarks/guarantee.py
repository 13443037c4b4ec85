"""Does the guarantee hold: how often is the tolerance broken in the population, and what does that cost.

Run: ``python -m benchmarks.guarantee`` (about an hour on one core; ``--draws 20`` for a first look,
``--only guaranteed`` or ``--only division`` for a part). An interrupted run goes on where it was; ``--fresh``
starts anew.
Problems with one normal feature, whose population rates are known for any classifier, with 2, 4 and 16 groups
down to 1 % of the rows. Each draw is a data set of its own; without the guarantee and in fairlearn's
ThresholdOptimizer the same learner is fitted to all of its rows. ThresholdOptimizer bounds the difference of
any two groups, which is stricter than the mean difference, and is given the same number.
Next to them settings without models that are made to break a guarantee, with rows divided in two ways; see
``benchmarks/division.py``.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.parallel import Parallel, delayed

import evenhand as eh
from benchmarks import division
from benchmarks.exact import GaussianProblem
from benchmarks.record import RESULTS, write

SHARES = {2: [0.8, 0.2], 4: [0.5, 0.3, 0.15, 0.05], 16: [0.15] * 4 + [0.06] * 4 + [0.03] * 4 + [0.01] * 4}
ROWS = {2: 4_000, 4: 8_000, 16: 30_000}
TOLERANCE = {2: 0.1, 4: 0.15, 16: 0.2}
NOTIONS = {"DP": eh.DemographicParity, "EO": eh.EqualOpportunity, "odds": eh.EqualizedOdds}
THEIRS = {"DP": "demographic_parity", "EO": "true_positive_rate_parity", "odds": "equalized_odds"}
LEVEL = 0.05
SETTINGS = [
    (2, False, False),
    (2, True, False),
    (2, True, True),
    (4, False, False),
    (4, True, False),
    (4, True, True),
    (16, False, False),
    (16, True, False),
]
"""Groups, whether they are uneven, and whether decisions are blind to them."""
KEPT = RESULTS / "guarantee-settings.json"
PARTS = ("guaranteed", "not guaranteed", "ThresholdOptimizer", "division")
"""Methods with models, and last the settings without any."""
PEER_EVERY = {2: 5, 4: 5, 16: 25}
"""ThresholdOptimizer takes most of the time, and is fitted to every so many draws."""


@dataclass(frozen=True)
class Outcome:
    """What one classifier does in the population."""

    broken: bool
    accuracy: float
    guaranteed: bool = True


def problem(n_groups: int, *, uneven: bool) -> GaussianProblem:
    """Groups of given shares, with base rates that differ.

    If uneven, features differ too and tell more of the label in some groups than in others, so that the
    learner is wrong about all of them.
    """
    rng = np.random.default_rng(n_groups)
    share, rate = np.array(SHARES[n_groups]), rng.permutation(np.linspace(0.25, 0.7, n_groups))
    shift, apart = np.zeros((n_groups, 1)), np.full((n_groups, 1), 0.8)
    if uneven:
        shift = 0.6 * rng.normal(size=(n_groups, 1))
        apart = rng.permutation(np.linspace(0.4, 1.2, n_groups))[:, None]
    means = shift + apart * np.array([-1.0, 1.0])
    groups = eh.Groups.product({"group": range(n_groups)})
    return GaussianProblem(share[:, None] * np.column_stack([1 - rate, rate]), means, groups)


def learner(*, blind: bool) -> Any:
    """Well specified where the group is known, flexible where it is not."""
    model = LogisticRegression(C=10, max_iter=500)
    return make_pipeline(PolynomialFeatures(2, include_bias=False), model) if blind else model


def judge(setting: GaussianProblem, notion: str, tolerance: float, decide: Any, **more: bool) -> Outcome:
    """Look at the population."""
    rates = setting.rates_of(decide)
    found = NOTIONS[notion](difference=tolerance).measure(rates)
    return Outcome(max(one.difference for one in found) > tolerance, 1 - 2 * rates.risk(), **more)


def draw(n_groups: int, seed: int, part: str, *, uneven: bool, blind: bool) -> dict[str, Outcome]:
    """Draw data, and fit one method to them for every notion."""
    setting, tolerance = problem(n_groups, uneven=uneven), TOLERANCE[n_groups]
    data = setting.sample(ROWS[n_groups], seed=seed)
    outcomes = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if part == "ThresholdOptimizer":
            return {notion: threshold(setting, data, notion, tolerance) for notion in NOTIONS}
        fair = eh.FairPostprocessor(
            learner(blind=blind),
            eh.DemographicParity(difference=tolerance),
            aware=not blind,
            random_state=seed,
            posteriors=eh.CrossFit(2, form="joint"),
            guarantee=1 - LEVEL if part == "guaranteed" else None,
        )

        def decide(X: Any, codes: Any) -> Any:
            return fair.predict(X, sensitive_features=None if blind else {"group": codes})

        for notion, kind in NOTIONS.items():
            fair.set_params(constraint=kind(difference=tolerance))
            fair.fit(data.X, data.y, sensitive_features=data.sensitive)
            kept = fair.guarantee_ is None or fair.guarantee_.holds
            outcomes[notion] = judge(setting, notion, tolerance, decide, guaranteed=kept)
    return outcomes


def threshold(setting: GaussianProblem, data: Any, notion: str, tolerance: float) -> Outcome:
    """Fairlearn's post-processing of the same learner."""
    marks = np.eye(len(setting.groups))
    peer = ThresholdOptimizer(
        estimator=learner(blind=False),
        constraints=THEIRS[notion],
        predict_method="predict_proba",
        tol=None if notion == "odds" else tolerance,
    )
    peer.fit(np.hstack([data.X, marks[data.codes]]), data.y, sensitive_features=data.codes)

    def decide(X: Any, codes: Any) -> Any:
        return peer._pmf_predict(np.hstack([X, marks[codes]]), sensitive_features=codes)[:, 1]

    return judge(setting, notion, tolerance, decide)


def summary(
    guaranteed: list[bool], broken: list[bool], accuracy: list[float] | None = None
) -> dict[str, Any]:
    """Counts, and the share of draws with a broken guarantee, with a 95 % interval (Clopper and Pearson)."""
    n, wrong = len(guaranteed), sum(both[0] and both[1] for both in zip(guaranteed, broken, strict=True))
    low = float(beta.ppf(0.025, wrong, n - wrong + 1)) if wrong else 0.0
    high = float(beta.ppf(0.975, wrong + 1, n - wrong)) if wrong < n else 1.0
    told = {"draws": n, "guaranteed": sum(guaranteed), "broken": wrong}
    told |= {"share broken": round(wrong / n, 4), "95 %": [round(low, 4), round(high, 4)]}
    return told if accuracy is None else told | {"accuracy": round(float(np.mean(accuracy)), 4)}


def fitted(setting: tuple[int, bool, bool], part: str, draws: int, jobs: int) -> dict[str, Any]:
    """Measure one method in a setting with models."""
    n_groups, uneven, blind = setting
    seeds = range(0, draws, PEER_EVERY[n_groups] if part == "ThresholdOptimizer" else 1)
    done = Parallel(n_jobs=jobs)(
        delayed(draw)(n_groups, seed, part, uneven=uneven, blind=blind) for seed in seeds
    )
    told = {}
    for notion in NOTIONS:
        found = [outcomes[notion] for outcomes in done]
        columns = ([getattr(one, key) for one in found] for key in ("guaranteed", "broken", "accuracy"))
        told[f"{notion} within {TOLERANCE[n_groups]}"] = summary(*columns)
    return told


def divided(setting: division.Setting, draws: int, jobs: int) -> dict[str, Any]:
    """Measure a setting without models, with rows divided in both ways."""
    told = {}
    for way, divide in division.WAYS.items():
        done = Parallel(n_jobs=jobs)(delayed(division.draw)(setting, divide, seed) for seed in range(draws))
        told[f"divided {way}"] = summary(*(list(column) for column in zip(*done, strict=True)))
    return told


def work(parts: Sequence[str], draws: int, jobs: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Everything that is to be measured, by its name."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    if "division" in parts:
        found |= {str(made): partial(divided, made, draws, jobs) for made in division.SETTINGS}
    for part in PARTS[:-1]:
        for setting in SETTINGS if part in parts else ():
            n_groups, uneven, blind = setting
            if not (blind and part == "ThresholdOptimizer"):
                name = f"{n_groups} groups, {'uneven, ' * uneven}{'blind' if blind else 'aware'}, {part}"
                found[name] = partial(fitted, setting, part, draws, jobs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--fresh", action="store_true", help="measure everything of these parts anew")
    chosen = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    for name, measure in work(chosen.only, chosen.draws, chosen.jobs).items():
        if name not in kept or chosen.fresh:
            kept[name] = measure()
            KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(name, *(f"  {what}: {found}" for what, found in kept[name].items()), sep="\n", flush=True)
    write("guarantee", {"level": LEVEL} | kept, ["evenhand", "scikit-learn", "fairlearn", "numpy"])


if __name__ == "__main__":
    main()
