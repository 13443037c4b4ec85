"""Algorithms 1 and 2 on problems whose probabilities, and whose fair optimum, are known."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import GroupError, InputError, ToleranceWarning
from evenhand.paper import Ascent, Grid, PaperInprocessor, PaperPostprocessor
from evenhand.paper.algorithms import Validation, corrections, plug_in, train
from evenhand.paper.probabilities import Bins, Rows, fit_cells

PROBLEM = GaussianProblem.random(levels=(2,), seed=3)
TRAIN, TEST = PROBLEM.sample(6000, seed=0), PROBLEM.sample(6000, seed=1)
FOUR = GaussianProblem.random(levels=(2, 2), seed=3)
FOUR_TRAIN, FOUR_TEST = FOUR.sample(8000, seed=0), FOUR.sample(8000, seed=1)
PARITY = eh.DemographicParity(difference=0.05)
STRICT = eh.DemographicParity(difference=0.01)
COARSE = Grid(stages=((0.4, 0.1), (0.1, 0.05)))


def measured(fair, constraint, sample):
    shown = {"sensitive_features": sample.sensitive} if fair.aware else {}
    return constraint.measure(eh.cell_rates(sample.y, fair.predict(sample.X, **shown), sample.sensitive))


def known_problem(problem, constraint, aware, n=3000):
    """True posteriors, the constraints, and the evaluation of lambda by these posteriors."""
    drawn = problem.sample(n, seed=7)
    p = problem.posteriors(drawn.X)
    if aware:
        codes, own = problem.groups.encode(drawn.sensitive), np.zeros_like(p)
        given = p[np.arange(n), codes]
        own[np.arange(n), codes] = given / given.sum(axis=1, keepdims=True)
        p = own
    masses = p.mean(axis=0)
    linear = constraint.linear(masses, problem.groups)
    eta, unit = p[:, :, 1].sum(axis=1), corrections(p, linear, masses)
    validation = Validation(p.reshape(n, -1), linear, 0.5)
    return p, linear, lambda points: validation(points, plug_in(eta, unit @ points.T, 0.5))


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [
        (eh.DemographicParity, {"difference": 0.05}),
        (eh.DemographicParity, {"ratio": 0.8}),
        (eh.EqualOpportunity, {"difference": 0.05}),
        (eh.PredictiveEquality, {"ratio": 0.8}),
        (eh.AccuracyParity, {"difference": 0.03}),
        (eh.AccuracyParity, {"ratio": 0.97}),
    ],
    ids=str,
)
def test_grid_and_ascent_reach_the_exact_optimum(kind, tolerance, aware):
    """No rule has less risk than the certificate's bound, and theirs has little more: steps of about 0.01."""
    constraint = kind(**tolerance)
    p, linear, evaluate = known_problem(PROBLEM, constraint, aware)
    exact = eh.solve(p, constraint, groups=PROBLEM.groups).certificate
    bounds = linear.lo, linear.hi
    for found in (Grid().run(evaluate, [bounds], linear.C), Ascent(settled=0).run(evaluate, bounds)):
        best = found.best(bounds)
        assert found.violations(bounds)[best] <= 0.01
        if found.violations(bounds)[best] <= 1e-9:
            assert found.risks[best] >= exact.bound - 1e-9
        assert found.risks[best] == pytest.approx(exact.objective, abs=3e-3)


def test_independent_groups_have_a_multiplier_for_each_value_of_each_feature():
    constraint = eh.DemographicParity(difference=0.02, groups="independent")
    p, linear, evaluate = known_problem(FOUR, constraint, aware=False)
    assert len(linear) == 4
    bounds = linear.lo, linear.hi
    found = Ascent(settled=0).run(evaluate, bounds)
    best = found.best(bounds)
    assert found.violations(bounds)[best] <= 0.01
    assert found.risks[best] == pytest.approx(
        eh.solve(p, constraint, groups=FOUR.groups).certificate.objective, abs=5e-3
    )


def test_the_correction_is_the_papers():
    """Q = sum b (lambda - delta' Lambda a) gamma, with a and b of the paper's table."""
    drawn = FOUR.sample(50, seed=2)
    p = FOUR.posteriors(drawn.X)
    masses = FOUR.posteriors(FOUR_TRAIN.X).mean(axis=0)
    lam = np.array([0.3, -0.1, 0.2, 0.05])
    group, label = masses.sum(axis=1), masses.sum(axis=0)
    given = masses / group[:, None]
    table = {
        eh.DemographicParity: (group, given),
        eh.EqualOpportunity: (masses[:, 1] / label[1], np.tile([0.0, 1.0], (4, 1))),
        eh.PredictiveEquality: (masses[:, 0] / label[0], np.tile([1.0, 0.0], (4, 1))),
        eh.AccuracyParity: (group, given * [1, -1]),
    }
    for kind, (a, b) in table.items():
        for tolerance, factor in (({"difference": 0.1}, 1.0), ({"ratio": 0.8}, 0.8)):
            linear = kind(**tolerance).linear(masses, FOUR.groups)
            gamma = p / masses
            expected = (b * (lam - factor * lam.sum() * a)[:, None] * gamma).sum(axis=(1, 2))
            found = corrections(p, linear, masses) @ lam
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_flipped_labels_have_the_fair_cost_sensitive_risk_but_for_a_constant():
    rng = np.random.default_rng(0)
    y, Q = rng.random(200) < 0.4, rng.normal(0, 0.8, 200)
    seen = {}

    class Recorder(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.update(y=y, w=sample_weight)
            return super().fit(X, y, sample_weight)

    X = rng.normal(size=(200, 2))
    train(Recorder(), Rows(X, y, np.zeros(200, int), Q, np.empty((200, 1, 2))), Q, 0.3)
    assert (seen["w"] >= 0).all()
    assert (seen["y"] != y).any()
    cost = np.where(y, 1 - (0.3 + Q), 0.3 + Q)
    apart = [
        (cost * (decided != y)).sum() - (seen["w"] * (decided != seen["y"])).sum()
        for decided in rng.integers(0, 2, (3, 200))
    ]
    assert np.ptp(apart) < 1e-9


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("multipliers", ["grid", "ascent"])
@pytest.mark.parametrize("tolerance", [{"difference": 0.01}, {"ratio": 0.9}], ids=str)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_post_processing_is_fair_on_new_rows(multipliers, aware, tolerance):
    constraint = eh.DemographicParity(**tolerance)
    fair = PaperPostprocessor(LogisticRegression(), constraint, aware=aware, multipliers=multipliers)
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    plain = clone(fair).set_params(multipliers=[0.0, 0.0])
    plain.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    [found], [before] = (measured(one, constraint, TEST) for one in (fair, plain))
    assert before.excess > 0.04
    assert found.excess < 0.5 * before.excess
    if aware:
        with pytest.raises(GroupError, match="pass sensitive_features"):
            fair.predict(TEST.X)


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("multipliers", [COARSE, Ascent(max_iter=15)], ids=["grid", "ascent"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_in_processing_is_fair_on_new_rows(multipliers, aware):
    fair = PaperInprocessor(LogisticRegression(), STRICT, aware=aware, multipliers=multipliers)
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    plain = clone(fair).set_params(multipliers=[0.0, 0.0])
    plain.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    [found], [before] = (measured(one, STRICT, TEST) for one in (fair, plain))
    assert found.difference < 0.5 * before.difference
    shown = {"sensitive_features": TEST.sensitive} if aware else {}
    assert ((fair.decision_function(TEST.X, **shown) > 0) == (fair.predict(TEST.X, **shown) == 1)).all()


def test_half_of_the_rows_teach_and_the_other_half_selects():
    fair = PaperPostprocessor(DecisionTreeClassifier(random_state=0), PARITY)
    halves = fair.learn(TRAIN.X, TRAIN.y == 1, PROBLEM.groups.encode(TRAIN.sensitive).astype(int))
    assert len(halves.fitted.eta) == len(halves.choosing.eta) == 3000
    certain = [((rows.eta > 0.5) == rows.positive).mean() for rows in (halves.fitted, halves.choosing)]
    assert certain[0] > 0.99 > certain[1] + 0.1  # a deep tree remembers the rows that it was fitted to


@pytest.mark.parametrize("kind", [PaperPostprocessor, PaperInprocessor])
def test_they_are_scikit_learn_classifiers(kind):
    fair = kind(LogisticRegression(), PARITY, multipliers=Ascent(max_iter=3), balance="weight")
    again = clone(fair)
    assert again.get_params(deep=False).keys() == fair.get_params(deep=False).keys()
    assert (again.multipliers, again.balance) == (Ascent(max_iter=3), "weight")
    again.set_params(constraint__difference=0.2, estimator__C=0.1, multipliers=[0.1, -0.1], balance=None)
    table, y = pd.DataFrame(TRAIN.X).add_prefix("x"), np.where(TRAIN.y, "yes", "no")
    again.fit(table, y, sensitive_features=pd.DataFrame(TRAIN.sensitive))
    assert again.classes_.tolist() == ["no", "yes"]
    assert list(again.multipliers_.values()) == [0.1, -0.1]
    assert set(again.predict(table)) == {"no", "yes"}
    assert again.score(table, y) > 0.5


@pytest.mark.parametrize("balance", ["weight", "upsample"])
def test_balancing_lets_a_small_cell_be_learned_and_keeps_its_share(balance):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 1))
    rare = ((x[:, 0] > 2.2) & (rng.random(20_000) < 0.3)).astype(np.intp)
    stump = DecisionTreeClassifier(max_depth=1, min_weight_fraction_leaf=0.1)
    at = {}
    for how in (None, balance):
        model, correction = fit_cells(stump, x, rare, 2, balance=how, rng=rng)
        p = model.proba(np.array([[2.5]])) * correction
        at[how] = (p / p.sum())[0, 1]
    assert at[None] < 0.1 < at[balance] < 0.5


@pytest.mark.parametrize(
    "settings", [{"balance": "weight"}, {"balance": "upsample"}, {"calibration": "binning"}]
)
@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_remedies_for_small_groups_and_poor_probabilities_can_be_used(settings, aware):
    fair = PaperPostprocessor(LogisticRegression(), PARITY, aware=aware, multipliers="ascent", **settings)
    fair.fit(FOUR_TRAIN.X, FOUR_TRAIN.y, sensitive_features=FOUR_TRAIN.sensitive)
    assert measured(fair, PARITY, FOUR_TEST)[0].difference < 0.12


def test_bins_shrink_towards_the_prediction():
    p, event = np.repeat([0.4, 0.5], [100, 400]), np.repeat([1.0, 0.0], [100, 400])
    found = Bins.fit(p, event)(np.array([0.4, 0.5]))
    assert found == pytest.approx([(100 + 0.4) / 101, 0.5 / 401])


def test_bins_correct_overconfident_cells():
    rng = np.random.default_rng(1)
    true = rng.uniform(0.05, 0.95, 20_000)
    sure = true**2 / (true**2 + (1 - true) ** 2)
    new = Bins.fit(sure, (rng.random(20_000) < true).astype(float))(sure)
    assert np.abs(new - true).mean() < 0.02 < np.abs(sure - true).mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constraint": None}, "constraint must be a notion without control features"),
        ({"constraint": eh.DemographicParity(difference=0.1, given=["x"])}, "without control features"),
        (
            {"constraint": eh.DemographicParity(difference=0.1, against="groups")},
            "compares groups with the population",
        ),
        ({"constraint": eh.RateBound("selection rate", at_most=0.2)}, "compares groups with the population"),
        ({"multipliers": "exact"}, "multipliers: expected 'grid', 'ascent' or 2 numbers, got 'exact'"),
        ({"multipliers": [0.1]}, "multipliers: expected 'grid', 'ascent' or 2 numbers"),
        ({"multipliers": Grid(stages=((1.0, 0.001),))}, r"has 4,004,001 points, and the budget is 250,000"),
        ({"cost": 2}, "cost must be a number from 0 to 1"),
        ({"calibration": "dirichlet"}, "calibration must be one of None, 'binning'"),
        ({"balance": True}, "balance must be one of None, 'weight', 'upsample'"),
    ],
    ids=str,
)
def test_what_is_not_the_papers_is_refused(settings, message):
    fair = PaperPostprocessor(**{"estimator": LogisticRegression(), "constraint": PARITY, **settings})
    with pytest.raises(InputError, match=message):
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


def test_training_needs_weights_and_few_trainings():
    with pytest.raises(InputError, match="KNeighborsClassifier does not take sample_weight"):
        PaperInprocessor(KNeighborsClassifier(), PARITY, multipliers=[0.0, 0.0]).fit(
            TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive
        )
    with pytest.raises(InputError, match="194,481 points, and the budget is 500"):
        PaperInprocessor(LogisticRegression(), PARITY).fit(
            FOUR_TRAIN.X, FOUR_TRAIN.y, sensitive_features=FOUR_TRAIN.sensitive
        )


def test_a_missed_tolerance_is_warned_of():
    fair = PaperPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.001))
    fair.set_params(multipliers=Ascent(max_iter=2))
    with pytest.warns(
        ToleranceWarning, match="no multipliers tried satisfy the requirement: the nearest miss it by 0"
    ):
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


def test_a_group_without_rows_in_one_half_is_refused():
    group = np.zeros(len(TRAIN.y), int)
    group[0] = 1
    with pytest.raises(InputError, match="no rows in one half"):
        PaperPostprocessor(LogisticRegression(), PARITY, multipliers="ascent").fit(
            TRAIN.X, TRAIN.y, sensitive_features={"group": group}
        )
