"""What is shipped is what was proven: the rule on new rows, loaded from its file."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from tests.conftest import often
from xgboost import XGBClassifier

import evenhand as eh

COLUMNS = ["sex", "race"]


def people(n, *, seed, population):
    """Rows of four groups with four normal features."""
    fixed = np.random.default_rng(1000 + population)
    shift = fixed.normal(0, 0.5, (2, 2, 2, 4))
    shares = fixed.dirichlet(np.full(8, 5.0))
    rng = np.random.default_rng(seed)
    sex, race, y = np.unravel_index(rng.choice(8, size=n, p=shares), (2, 2, 2))
    X = rng.normal(size=(n, 4)) + shift[sex, race, y] + 0.7 * (y[:, None] - 0.5)
    return X, y, {"sex": np.array(["F", "M"])[sex], "race": np.array(["B", "W"])[race]}


LEARNERS = {
    "logistic": LogisticRegression(),
    "lightgbm": LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1),
    "xgboost": XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1),
}
REQUIREMENTS = {
    "exact odds": eh.EqualizedOdds(difference=0.0),
    "odds between groups": eh.EqualizedOdds(difference=0.02, against="groups"),
    "parity and opportunity": eh.DemographicParity(difference=0.0) & eh.EqualOpportunity(difference=0.0),
    "odds and minimax": eh.EqualizedOdds(difference=0.0),
}


@pytest.mark.parametrize("population", often([0, 2], 1))
@pytest.mark.parametrize(
    ("name", "learner"),
    [*((name, "logistic") for name in REQUIREMENTS), ("exact odds", "lightgbm"), ("exact odds", "xgboost")],
)
def test_no_known_value_is_decided_by_a_coin(name, learner, population, tmp_path):
    """Where both rates of a known sex are fixed, H is 0 for all of its rows, and a second score decides."""
    X, y, S = people(1500, seed=1, population=population)
    new, labels, groups = people(4000, seed=2, population=population)
    objective = "minimax" if "minimax" in name else "risk"
    model = eh.FairPostprocessor(
        LEARNERS[learner], REQUIREMENTS[name], aware=["sex"], objective=objective, posteriors=eh.CrossFit(3)
    ).fit(X, y, sensitive_features=S)
    path = tmp_path / "model.evenhand"
    eh.save(model, path)
    shipped = eh.load(path)

    chance = shipped.predict_proba(new, sensitive_features=groups)[:, 1]
    assert ((chance > 0) & (chance < 1)).mean() < 0.002
    for sex in ("F", "M"):
        assert 0.05 < chance[groups["sex"] == sex].mean() < 0.95
    assert len(shipped.rule_.atoms) <= len(shipped.linear_constraints_.names)
    assert shipped.rule_.ties is not None

    scores = shipped.decision_function(new, sensitive_features=groups)
    assert np.array_equal(
        scores[(chance == 0) | (chance == 1)] > 0, chance[(chance == 0) | (chance == 1)] == 1
    )

    certificate = shipped.certificate_
    assert certificate.shipped_objective == pytest.approx(certificate.objective, abs=1e-8)
    assert certificate.shipped_violation < 1e-8
    if objective == "risk":  # half the error rate
        accuracy = np.where(labels == 1, chance, 1 - chance).mean()
        assert (
            accuracy > 1 - 2 * certificate.objective - 0.06
        )  # with one coin for a sex, it is 0.1 or more below


def test_verify_recomputes_what_the_shipped_rule_attains(tmp_path):
    X, y, S = people(600, seed=1, population=0)
    model = eh.FairPostprocessor(
        LogisticRegression(), eh.EqualizedOdds(difference=0.0), aware=["sex"], posteriors=eh.CrossFit(3)
    ).fit(X, y, sensitive_features=S)
    path = tmp_path / "model.evenhand"
    eh.save(model, path)
    assert eh.verify(path, data=(X, y), sensitive_features=S).proof.confirmed

    object.__setattr__(model.certificate_, "shipped_violation", 0.01)
    eh.save(model, path, overwrite=True)
    verdict = eh.verify(path, data=(X, y), sensitive_features=S).proof.verdict
    assert "violation of the shipped rule" in verdict


@pytest.mark.parametrize("notion", [eh.DemographicParity, eh.EqualOpportunity, eh.PredictiveEquality])
def test_one_rate_of_known_groups_needs_no_lottery(notion):
    """The optimum randomises single scores, and new rows beside them are above or below a threshold."""
    rng = np.random.default_rng(0)
    eta, codes = rng.beta(2, 3, 120), rng.integers(0, 3, 120)
    rule = eh.solve(eh.GroupedScores(eta, codes, 3), notion(difference=0.01)).rule
    new = eh.GroupedScores(rng.uniform(size=30_000), rng.integers(0, 3, 30_000), 3)
    chosen = rule.selection(new)
    assert set(np.unique(chosen)) <= {0.0, 1.0}


def test_a_lottery_that_odds_need_is_as_short_as_can_be():
    """Both rates of a group fixed off its ROC curve: monotone decisions must be randomised over a range."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, 900)
    eta = 1 / (1 + np.exp(-rng.normal(size=900) * (0.5 + codes)))
    solution = eh.solve(eh.GroupedScores(eta, codes, 3), eh.EqualizedOdds(difference=0.0))
    assert solution.certificate.violation < 1e-9
    for m, chances in enumerate(solution.rule.steps.chances):
        assert (np.diff(chances) >= 0).all()  # a higher score never has a lower chance
        assert (chances[0], chances[-1]) == (0.0, 1.0)
        inside = (chances > 0) & (chances < 1)
        assert inside.sum() <= 2  # a range, and a single score at its lower end
        own = eta[codes == m]
        shortest = np.count_nonzero(
            (solution.selection[codes == m] > 0) & (solution.selection[codes == m] < 1)
        )
        assert shortest <= _shortest(own, solution.selection[codes == m]) + 0.02 * len(own)


def _shortest(eta, chosen):
    """Fewest rows of any two thresholds with the same sums, by trying all upper ones."""
    order = np.argsort(-eta)
    sums = np.vstack([np.zeros(2), np.cumsum(np.column_stack([1 - eta, eta])[order], axis=0)])
    target = chosen @ np.column_stack([1 - eta, eta])
    best = len(eta)
    for upper in range(len(eta)):
        ray = target - sums[upper]
        if (ray < -1e-12).any():
            break
        ahead = sums - sums[upper]
        crossed = np.flatnonzero(ray[0] * ahead[:, 1] <= ray[1] * ahead[:, 0])
        crossed = crossed[crossed > upper]
        if len(crossed):
            best = min(best, crossed[0] - upper)
    return best
