import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.estimators.column_generation import ColumnPool
from evenhand.estimators.cost_sensitive import CostSensitiveTrainer
from evenhand.estimators.learned_posteriors import learn_posteriors
from evenhand.estimators.training_data import read_training_data
from evenhand.exceptions import ConstantClassifierWarning, GroupError, InputError, ToleranceWarning
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.tabular import TabularClassifier

PARITY = eh.DemographicParity(difference=0.05)
PROBLEM = GaussianProblem.random(levels=(2, 2), seed=3)
TRAIN, TEST = PROBLEM.sample(4000, seed=0), PROBLEM.sample(4000, seed=1)
UNCONSTRAINED = eh.DemographicParity(difference=0.9)

pytestmark = [
    pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning"),
    # With few refits training often reaches nothing better than a constant.
    pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning"),
]


def fitted(estimator=None, constraint=PARITY, **settings):
    fair = build(eh.FairInprocessor, estimator or LogisticRegression(), constraint, **settings)
    return fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


def trainer_of(fair, X, y, sensitive, weights):
    data = read_training_data(fair.settings(), X, y, sensitive, weights)
    posteriors = learn_posteriors(fair.settings(), data, seed=0)
    problem = posteriors.problem(fair.constraint, 0.5, data.groups)
    return problem, CostSensitiveTrainer(
        problem,
        data.examples,
        LogisticRegression(),
        weights=posteriors.weights,
        cost=0.5,
        seed=0,
    )


def disparity(fair, constraint=PARITY):
    return disparity_of(fair, constraint, TEST.X, TEST.y, TEST.sensitive)


def disparity_of(fair, constraint, X, y, sensitive):
    rates = eh.cell_rates(y, fair.predict(X, sensitive_features=sensitive), sensitive)
    return max(found.difference for found in constraint.measure(rates))


@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "mixed"])
def test_training_with_costs_reduces_the_disparity(aware):
    plain = disparity(fitted(constraint=UNCONSTRAINED, aware=aware))
    assert disparity(fitted(aware=aware)) < plain - 0.08


def unequal_groups(n, seed):
    """Groups that differ in their share of positives, and so in every rate and in accuracy.

    Each cell is normal with the same covariance, so logistic regression finds the posteriors. Two features
    are proxies of the group, so attribute-blind models can satisfy every notion too.
    """
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 2, (2, n))
    y = (rng.random(n) < np.array([[0.1, 0.2], [0.4, 0.5]])[first, second]).astype(int)
    X = rng.normal(np.column_stack([1.5 * y, first, second]), [1.0, 0.3, 0.3])
    return X, y, {"A1": first, "A2": second}


UNEQUAL, UNEQUAL_TEST = unequal_groups(6000, seed=0), unequal_groups(6000, seed=1)


def fitted_to_unequal(constraint, estimator=None, **settings):
    X, y, sensitive = UNEQUAL
    fair = build(eh.FairInprocessor, estimator or LogisticRegression(), constraint, **settings)
    return fair.fit(X, y, sensitive_features=sensitive)


@pytest.fixture(scope="module")
def unconstrained():
    return {aware: fitted_to_unequal(UNCONSTRAINED, aware=aware) for aware in (False, True)}


@pytest.mark.parametrize(
    ("groups", "aware"),
    [("intersectional", False), ("independent", True)],
    ids=["blind-intersectional", "aware-independent"],
)
@pytest.mark.parametrize(
    "kind", [eh.EqualOpportunity, eh.PredictiveEquality, eh.AccuracyParity, eh.EqualizedOdds]
)
def test_training_for_a_notion_reduces_the_disparity_by_that_notion(kind, groups, aware, unconstrained):
    constraint = kind(difference=0.02, groups=groups)
    fair = fitted_to_unequal(constraint, aware=aware, max_refits=5)
    # Without the costs of the multipliers it would stay the same; the tolerance is at most half of it.
    assert disparity_of(fair, constraint, *UNEQUAL_TEST) < 0.75 * disparity_of(
        unconstrained[aware], constraint, *UNEQUAL_TEST
    )
    assert len(fair.achieved_) == (2 if kind is eh.EqualizedOdds else 1)
    assert len(fair.multipliers_) == 4 * len(fair.achieved_)


def test_ratios_and_several_notions_can_be_trained_for(unconstrained):
    both = eh.DemographicParity(ratio=0.8) & eh.EqualOpportunity(difference=0.1)
    fair = fitted_to_unequal(both)
    (before, _), (ratio, difference) = (
        both.measure(eh.cell_rates(UNEQUAL_TEST[1], one.predict(UNEQUAL_TEST[0]), UNEQUAL_TEST[2]))
        for one in (unconstrained[False], fair)
    )
    assert before.ratio < 0.5
    assert ratio.ratio > 0.65
    assert difference.difference < 0.15
    assert len(fair.achieved_) == 2


@pytest.mark.parametrize(
    "learner",
    [
        XGBClassifier(n_estimators=10, n_jobs=1),
        LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1),
        LinearSVC(),
        TabularClassifier(max_iter=10),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_any_classifier_that_takes_weights_can_be_trained(learner, unconstrained):
    X, y, _ = UNEQUAL_TEST
    fair = fitted_to_unequal(PARITY, learner, max_refits=3)
    plain = unconstrained[False]
    assert disparity_of(fair, PARITY, *UNEQUAL_TEST) < 0.5 * disparity_of(plain, PARITY, *UNEQUAL_TEST)
    assert fair.score(X, y) > 1 - y.mean() + 0.02  # better than selecting nobody
    assert ((fair.decision_function(X) > 0) == (fair.predict(X) == 1)).mean() > 0.999


def test_by_default_boosted_trees_are_trained():
    fair = eh.FairInprocessor(None, PARITY, max_fits=6)
    X, y, sensitive = (take_first(part, 1000) for part in UNEQUAL)
    fair.fit(X, y, sensitive_features=sensitive)
    assert isinstance(fair.model_, TabularClassifier)
    assert fair.score(*UNEQUAL_TEST[:2]) > 1 - UNEQUAL_TEST[1].mean()


def take_first(part, n):
    return {name: values[:n] for name, values in part.items()} if isinstance(part, dict) else part[:n]


def test_the_trained_model_decides_without_the_wrapper():
    table = pd.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive})
    fair = eh.FairInprocessor(LogisticRegression(), PARITY, sensitive_features=["A1", "A2"])
    fair.fit(table, np.where(TRAIN.y, "yes", "no"))
    alone = fair.model_.predict(table[["x"]])
    assert (np.where(alone == 1, "yes", "no") == fair.predict(table[["x"]])).all()
    assert set(fair.predict_proba(table)[:, 1]) <= {0, 1}


def test_without_a_binding_constraint_the_plain_classifier_is_trained():
    fair = fitted(constraint=UNCONSTRAINED)
    plain = LogisticRegression().fit(TRAIN.X, TRAIN.y)
    assert (fair.predict(TEST.X) == plain.predict(TEST.X)).mean() > 0.999
    assert fair.n_fits_ == 2 + 1  # the plain classifier on halves, and on all rows


def rare(n, seed, share):
    """Ten groups, and labels that are hard to predict, of which few or most are positive."""
    rng = np.random.default_rng([seed, n])
    X, group = rng.normal(size=(n, 6)), rng.integers(0, 10, n)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * group + rng.normal(size=n)
    return X, (score > np.quantile(score, 1 - share)).astype(int), {"group": group}


@pytest.mark.parametrize("share", [0.06, 0.89], ids=["few positives", "most positive"])
@pytest.mark.parametrize(
    "learner",
    [
        RandomForestClassifier(10, random_state=0),
        DecisionTreeClassifier(random_state=0),
        HistGradientBoostingClassifier(max_iter=5, random_state=0),
        LogisticRegression(),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_a_requirement_that_requires_nothing_gives_the_plain_classifier(learner, share, tmp_path):
    X, y, groups = rare(600, 0, share)
    new = rare(2000, 1, share)[0]
    plain = clone(learner).fit(X, y).predict(new)
    for randomize in (False, True):
        fair = eh.FairInprocessor(learner, eh.DemographicParity(difference=1.0), randomize=randomize)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantClassifierWarning)  # as the plain classifier may be
            fair.fit(X, y, sensitive_features=groups)
        eh.save(fair, tmp_path / "fair.evenhand", overwrite=True)
        assert (eh.load(tmp_path / "fair.evenhand").predict(new) == plain).all()
        assert fair.n_fits_ == 2 + 1


def test_a_classifier_that_memorises_is_judged_by_rows_that_it_has_not_seen():
    """Its decisions on its own rows say nothing: neither their labels nor probabilities of these."""
    X, y, groups = rare(1500, 0, 0.3)
    new, labels, _ = rare(6000, 1, 0.3)
    forest = RandomForestClassifier(30, random_state=0)
    fair = eh.FairInprocessor(forest, eh.DemographicParity(difference=1.0))
    fair.fit(X, y, sensitive_features=groups)
    _, trainer = trainer_of(fair, X, y, groups, None)
    plain = ColumnPool.start(replace(trainer, estimator=forest)).rates[2]
    error = (fair.predict(new) != labels).mean()
    assert (fair.predict(X) != y).mean() < 0.02
    assert 2 * plain.risk() == pytest.approx(error, abs=0.03)
    share = plain.selected.sum() / plain.mass.sum()
    assert share == pytest.approx(fair.predict(new).mean(), abs=0.05)


def test_no_rows_are_held_out_that_nobody_reads():
    """All rows are learned from, and all are judged on: each half by what the other half has learned."""
    with mock.patch.object(Examples, "split", autospec=True, side_effect=Examples.split) as split:
        fitted(max_refits=2)
    assert [call.args[1] for call in split.call_args_list] == [0.5]


@pytest.mark.parametrize("randomize", [False, True])
def test_an_estimate_beyond_the_tolerance_is_warned_of_even_if_it_may_be_chance(randomize):
    fair = eh.FairInprocessor(LogisticRegression(), eh.DemographicParity(difference=0.02))
    fair.set_params(max_fits=8, randomize=randomize)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    over = fair.achieved_[0].difference - 0.02
    told = [str(one.message) for one in caught if one.category is ToleranceWarning]
    if over > 1e-4:
        assert len(told) == 1
        assert f"misses the requirement by an estimated {over:.4f}" in told[0]
        assert ("randomize=True" in told[0]) == (not randomize)
    else:
        assert not told
    assert randomize or over > 1e-4


def test_a_violated_tolerance_is_warned_of_and_what_was_achieved_is_recorded():
    exact = eh.DemographicParity(difference=0.0)
    fair = eh.FairInprocessor(LogisticRegression(), exact, max_fits=6)
    with pytest.warns(ToleranceWarning, match="the trained classifier misses the requirement") as caught:
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    [found] = fair.achieved_
    assert found.difference > 0.1
    text = str(caught[0].message)
    assert f"by an estimated {found.difference:.4f}, more than chance explains" in text
    assert "randomize=True, aware=True, another estimator or a wider tolerance may reach it." in text


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_decisions_of_the_optimum_are_expected_to_have_its_rates(aware, weighted):
    fair = eh.FairInprocessor(LogisticRegression(), PARITY, aware=aware)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(TRAIN.y)) if weighted else None
    problem, trainer = trainer_of(fair, TRAIN.X, TRAIN.y, TRAIN.sensitive, weights)
    optimum = problem.solve()
    expected = trainer.rate_estimator.by_posteriors(optimum.selection)
    assert np.allclose(expected, optimum.rates.selected)


def test_refits_are_limited():
    fair = fitted(constraint=eh.DemographicParity(difference=0.01), max_refits=4)
    assert fair.n_fits_ <= 2 * 4 + 1


def test_group_specific_costs_reach_the_training():
    cheap = np.array([[1.0, 1.0]] * 4)
    dear = cheap.copy()
    dear[:2, 0] = 5.0  # false positives among A1 = 0
    first = fitted(constraint=UNCONSTRAINED, cost=cheap, aware=True)
    second = fitted(constraint=UNCONSTRAINED, cost=dear, aware=True)
    low = TEST.sensitive["A1"] == 0
    shares = [fair.predict(TEST.X, sensitive_features=TEST.sensitive)[low].mean() for fair in (first, second)]
    assert shares[1] < shares[0] - 0.02


def test_weights_count():
    weights = np.where(TRAIN.y == 1, 5.0, 1.0)
    fair = eh.FairInprocessor(LogisticRegression(), UNCONSTRAINED)
    plain = fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive).predict(TEST.X).mean()
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive, sample_weight=weights)
    assert fair.predict(TEST.X).mean() > plain + 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": KNeighborsClassifier()}, "KNeighborsClassifier does not take sample_weight"),
        ({"estimator": FrozenEstimator(LogisticRegression())}, "frozen classifier cannot be trained"),
        ({"max_fits": 0}, "max_fits must be a positive integer, got 0"),
        ({"group_estimator": LogisticRegression()}, "group_estimator would not be used: leave it out"),
        ({"cv": 0.5}, "cv=0.5 holds rows out, and training needs posteriors of all: set folds"),
        ({"randomize": "yes"}, "randomize must be True or False"),
        ({"constraint": None}, "constraint must be a notion of fairness"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, message):
    fair = build(eh.FairInprocessor, **{"constraint": PARITY, "estimator": LogisticRegression()} | settings)
    with pytest.raises(InputError, match=message):
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


def test_aware_decisions_need_groups():
    with pytest.raises(GroupError, match="aware of A1, A2"):
        fitted(aware=True).predict(TEST.X)


def test_a_classifier_may_turn_out_constant():
    fair = eh.FairInprocessor(LogisticRegression(), PARITY, cost=1.0, max_fits=6)
    with pytest.warns(ConstantClassifierWarning, match="it selects none of the training rows"):
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    assert fair.model_ is None
    assert (fair.predict(TEST.X) == 0).all()
    assert (fair.decision_function(TEST.X) < 0).all()


GROUPS = {name: values.astype(float) for name, values in TRAIN.sensitive.items()}


def changed(values, row, new):
    values = values.astype(object)
    values[row] = new
    return values


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": np.zeros(4000)}, "only one class"),
        ({"y": np.linspace(0, 1, 4000)}, "Unknown label type: continuous"),
        ({"y": changed(TRAIN.y, 5, None)}, "y is missing in 1 of 4,000 rows"),
        ({"y": TRAIN.y[1:]}, "differ in their number of rows: X has 4,000, y has 3,999"),
        ({"sensitive_features": None}, "no sensitive features"),
        ({"sensitive_features": {"A1": changed(GROUPS["A1"], 3, np.nan)}}, "'A1' is missing in 1 of 4,000"),
        ({"sensitive_features": {"x": TRAIN.X[:, 0]}}, "more than 200 distinct values.*bins"),
        ({"sample_weight": np.zeros(4000)}, "sample_weight is zero in every row"),
        ({"sample_weight": np.full(4000, -1.0)}, "negative, NaN or infinite in 4,000 of 4,000"),
        ({"X": np.empty((0, 1)), "y": []}, "0 sample"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_inputs_are_refused_as_by_the_postprocessor(given, message):
    rows = {"X": TRAIN.X, "y": TRAIN.y, "sensitive_features": TRAIN.sensitive} | given
    for kind in (eh.FairInprocessor, eh.FairPostprocessor):
        with pytest.raises(ValueError, match=message):
            kind(LogisticRegression(), PARITY).fit(**rows)


def test_more_than_two_labels_are_refused():
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*3 classes"):
        eh.FairInprocessor(LogisticRegression(), PARITY).fit(
            TRAIN.X, np.arange(4000) % 3, sensitive_features=TRAIN.sensitive
        )


def test_an_unseen_known_group_is_refused():
    with pytest.raises(GroupError, match="not seen in fit: A1=7, A2=0"):
        fitted(aware=True, max_refits=1).predict(
            TEST.X[:1], sensitive_features={"A1": np.array([7]), "A2": np.array([0])}
        )


def test_counted_groups_show_a_violation_that_the_posteriors_do_not():
    """Group and label depend on |x|, which linear posteriors cannot represent."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 1))
    group = (np.abs(x[:, 0]) + 0.3 * rng.normal(size=4000) > 0.7).astype(int)
    y = (np.abs(x[:, 0]) + 0.5 * rng.normal(size=4000) > 0.7).astype(int)
    tree = DecisionTreeClassifier(max_depth=5)
    fair = eh.FairInprocessor(tree, PARITY, max_fits=6)
    linear = mock.patch.object(eh.FairInprocessor, "_label_estimator", return_value=LogisticRegression())
    with linear, pytest.warns(ToleranceWarning, match="misses the requirement by an estimated 0.[2-9]"):
        fair.fit(x, y, sensitive_features={"group": group})
    [found] = fair.achieved_
    rates = eh.cell_rates(y, fair.predict(x), {"group": group})
    [true] = PARITY.measure(rates)
    assert 0.2 < found.difference <= true.difference + 0.03
