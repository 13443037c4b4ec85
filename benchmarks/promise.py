"""Does the promise hold: how often is the tolerance broken in the population, and what does that cost.

Run: ``python -m benchmarks.promise`` (about 40 minutes on two cores; ``--draws 20`` for a first look). An
interrupted run goes on where it was, by setting; ``--fresh`` starts anew.
Problems with one normal feature, whose population rates are known for any classifier, with 2, 4 and 16 groups
down to 1 % of the rows. Each draw is a data set of its own; without the promise and in fairlearn's
ThresholdOptimizer the same learner is fitted to all of its rows. ThresholdOptimizer bounds the difference of
any two groups, which is stricter than the mean difference, and is given the same number.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.parallel import Parallel, delayed

import evenhand as eh
from benchmarks.record import RESULTS, write
from evenhand.datasets import GaussianProblem

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
KEPT = RESULTS / "promise-settings.json"
PEER_EVERY = {2: 5, 4: 5, 16: 25}
"""ThresholdOptimizer takes most of the time, and is fitted to every so many draws."""


@dataclass(frozen=True)
class Outcome:
    """What one classifier does in the population."""

    broken: bool
    accuracy: float
    promised: bool = True


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


def draw(n_groups: int, seed: int, *, uneven: bool, blind: bool) -> dict[tuple[str, str], Outcome]:
    """Draw data, and fit every method to them."""
    setting, tolerance = problem(n_groups, uneven=uneven), TOLERANCE[n_groups]
    data = setting.sample(ROWS[n_groups], seed=seed)
    outcomes = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, confidence in (("promised", 1 - LEVEL), ("not promised", None)):
            fair = eh.FairPostprocessor(
                learner(blind=blind),
                eh.DemographicParity(difference=tolerance),
                aware=not blind,
                posterior="joint",
                cv=2,
                confidence=confidence,
                random_state=seed,
            )
            evidence = fair._estimate(data.X, data.y, data.sensitive, None)

            def decide(X: Any, codes: Any, fair: Any = fair) -> Any:
                return fair.predict(X, sensitive_features=None if blind else {"group": codes})

            for notion, kind in NOTIONS.items():
                fair.set_params(constraint=kind(difference=tolerance))._settle(evidence)
                kept = fair.promise_ is None or fair.promise_.holds
                outcomes[notion, name] = judge(setting, notion, tolerance, decide, promised=kept)
        for notion in () if blind or seed % PEER_EVERY[n_groups] else NOTIONS:
            outcomes[notion, "ThresholdOptimizer"] = threshold(setting, data, notion, tolerance)
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


def summary(outcomes: list[Outcome]) -> str:
    """Share of draws in which the tolerance is broken, with two standard errors, and mean accuracy."""
    kept = [one for one in outcomes if one.promised]
    broken = sum(one.broken for one in kept) / len(outcomes)
    error = 2 * np.sqrt(max(broken * (1 - broken), 1 / len(outcomes)) / len(outcomes))
    text = f"broken in {broken:.3f} ± {error:.3f}, accuracy {np.mean([o.accuracy for o in outcomes]):.4f}"
    return text if len(kept) == len(outcomes) else f"{text}, promised in {len(kept) / len(outcomes):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    chosen = parser.parse_args()
    resumes = KEPT.exists() and not chosen.fresh
    kept: dict[str, dict[str, str]] = json.loads(KEPT.read_text("utf-8")) if resumes else {}
    results: dict[str, Any] = {"level": LEVEL}
    for n_groups, uneven, blind in SETTINGS:
        where = f"{n_groups} groups, {'uneven, ' * uneven}{'blind' if blind else 'aware'}"
        setting = f"{where}, {chosen.draws} draws"
        if setting not in kept:
            done = Parallel(n_jobs=chosen.jobs)(
                delayed(draw)(n_groups, seed, uneven=uneven, blind=blind) for seed in range(chosen.draws)
            )
            kept[setting] = {
                f"{setting}, {notion} within {TOLERANCE[n_groups]}, {name}": summary(
                    [outcomes[notion, name] for outcomes in done if (notion, name) in outcomes]
                )
                for notion, name in done[0]
            }
            KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print("\n".join(f"{label}: {text}" for label, text in kept[setting].items()), flush=True)
        results |= kept[setting]
    write("promise", results, ["evenhand", "scikit-learn", "fairlearn", "numpy"])


if __name__ == "__main__":
    main()
