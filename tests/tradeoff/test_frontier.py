import itertools
import json
import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from benchmarks.exact import GaussianProblem
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.auditing.comparison import compare
from evenhand.exceptions import InfeasibleError, InputError
from evenhand.tradeoff import held_out

PROBLEM = GaussianProblem.random(levels=(2, 2), seed=3)
TRAIN, TEST = PROBLEM.sample(4000, seed=0), PROBLEM.sample(3000, seed=1)
PARITY = eh.DemographicParity(difference=0.1)
HELD = (TEST.X, TEST.y, TEST.sensitive)


def post(constraint=PARITY, **settings):
    return build(eh.FairPostprocessor, LogisticRegression(), constraint, **{"cv": 2, **settings})


def drawn(classifiers=None, **settings):
    given = {"sensitive_features": TRAIN.sensitive, "test": HELD, **settings}
    return eh.frontier(classifiers or post(), TRAIN.X, TRAIN.y, **given)


BLIND = drawn()


def test_the_curve_goes_from_parity_to_the_plain_optimum():
    first, last = BLIND.points[0], BLIND.points[-1]
    assert len(BLIND.points) == 25
    assert {point.origin for point in BLIND.points} == {"solved"}
    assert first.tolerance == 0
    assert last.price == pytest.approx(0, abs=1e-6)
    assert first.accuracy.value < last.accuracy.value
    assert first.comparison.value < last.comparison.value
    assert BLIND.n_rows == 3000


def test_risk_is_convex_in_the_tolerance_and_never_below_its_bound():
    risk = np.array([point.risk for point in BLIND.points])
    assert (np.diff(risk) <= 1e-9).all()
    assert (np.diff(risk, 2) >= -1e-9).all()
    gaps = np.array([point.risk - point.bound for point in BLIND.points])
    assert (gaps >= -1e-12).all()
    assert gaps.max() < 1e-6


def test_expected_accuracy_and_disparity_grow_with_the_tolerance():
    for point in BLIND.points:
        assert point.expected_accuracy == pytest.approx(1 - 2 * point.risk, abs=1e-9)
        assert point.expected_disparity <= point.tolerance + 1e-12
    expected = np.array([(p.expected_disparity, p.expected_accuracy) for p in BLIND.points])
    assert (np.diff(expected, axis=0) >= -1e-9).all()
    chart = BLIND.plot()
    [line] = [layer.data.values for layer in chart.layer if layer.mark.type == "line"]
    assert [row["disparity"] for row in line] == expected[:, 0].tolist()
    words = " ".join(chart.title.subtitle)
    assert "Curves: optimum by the posteriors. Points: test rows, 95 % intervals." in words


def test_test_points_on_the_chart_have_intervals_and_stand_apart():
    chart = drawn({"blind": post(), "aware": post(aware=True)}, tolerances=50).plot()
    dots, bars = (
        [(row["curve"], row["tolerance"]) for layer in chart.layer for row in rows_with(layer, kind)]
        for kind in ("point", "rule")
    )
    assert {name for name, _ in dots} == {"blind", "aware"}
    assert len(dots) <= 14
    assert Counter(bars) == dict.fromkeys(dots, 2)  # of accuracy and of disparity


def rows_with(layer, kind):
    return layer.data.values if layer.mark.type == kind else []


def test_a_trained_curve_has_points_and_no_line():
    trained = eh.FairInprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    chart = drawn({"ours": post(), "trained": trained}, tolerances=[0.02, 0.1, 0.2]).plot()
    lines, dots = (
        [row["curve"] for one in chart.layer for row in rows_with(one, k)] for k in ("line", "point")
    )
    assert lines == ["ours"] * 3
    assert dots.count("trained") == 3


def test_nothing_is_expected_if_the_measures_differ():
    both = post(PARITY & eh.EqualOpportunity(ratio=0.8), aware=True)
    assert math.isnan(drawn(both, tolerances=2).points[0].expected_accuracy)
    ratio = drawn(post(eh.DemographicParity(ratio=0.8), aware=True), tolerances=[0.7, 1.0])
    found = [point.expected_disparity for point in ratio.points]
    assert found == pytest.approx([1.0, 0.7], abs=1e-6)


def test_representations_are_short():
    assert len(repr(BLIND)) < 200
    assert len(repr(BLIND.points[0])) < 200
    assert "25 points" in repr(BLIND)


def same_as_a_fit(point, fair, X=TEST.X, **used):
    """Assert that a point has the rule, certificate, prices and test accuracy of a fit, bit for bit."""
    assert point.origin == "solved"
    rule = point.rule
    assert np.array_equal(rule.table, fair.rule_.table)
    assert np.array_equal(rule.atoms, fair.rule_.atoms)
    assert np.array_equal(rule.chances, fair.rule_.chances)
    assert (point.risk, point.bound) == (fair.certificate_.objective, fair.certificate_.bound)
    assert dict(point.prices) == {name: abs(price) for name, price in fair.shadow_prices_.items()}
    chances = fair.predict_proba(X, **used)[:, 1]
    rates = eh.cell_rates(TEST.y, chances, TEST.sensitive)
    assert point.accuracy.value == pytest.approx(1 - 2 * rates.risk(), abs=1e-12)
    assert np.allclose(point.counted.rates.rates, rates.rates, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "aware"),
    [
        ({}, False),
        ({"random_state": 7, "cv": 0.4}, False),
        ({"aware": True, "constraint": eh.EqualizedOdds(difference=0.1)}, True),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_a_listed_tolerance_is_solved_as_by_fit(settings, aware):
    chosen = [0.0, 0.013, 0.02, 0.05, 0.05, 0.2]
    found = drawn(post(**settings), tolerances=chosen)
    assert [point.tolerance for point in found.points] == chosen
    used = {"sensitive_features": TEST.sensitive} if aware else {}
    for k in (1, 4):
        kind = type(settings.get("constraint", PARITY))
        fair = post(**{**settings, "constraint": kind(difference=chosen[k])})
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
        same_as_a_fit(found.points[k], fair, **used)


def test_every_point_of_a_dense_curve_is_what_fit_finds():
    many = drawn(tolerances=31)
    fair = post(eh.DemographicParity(difference=many.points[20].tolerance))
    same_as_a_fit(many.points[20], fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive))


def test_trained_points_are_beside_solved_ones():
    trained = eh.FairInprocessor(LogisticRegression(), PARITY, max_fits=6)
    few = PROBLEM.sample(600, seed=2)
    found = eh.frontier(
        {"ours": post(), "trained": trained}, few.X, few.y, sensitive_features=few.sensitive, tolerances=3
    )
    assert [point.origin for point in found.points] == ["solved"] * 3 + ["trained"] * 3


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_the_callers_classifiers_are_not_changed():
    trained = eh.FairInprocessor(LogisticRegression(), eh.DemographicParity(difference=0.01), max_fits=8)
    ready = post(eh.DemographicParity(difference=0.01))
    ready.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    mine = {"trained": trained, "ready": ready, "seeded": post(random_state=np.random.RandomState(3))}
    before = {name: dict(vars(one)) for name, one in mine.items()}
    states = [pickle.dumps(one) for one in mine.values()]
    drawn(mine, tolerances=[0.05, 0.9])
    for name, one in mine.items():
        assert vars(one).keys() == before[name].keys()
        assert all(value is before[name][key] for key, value in vars(one).items())
    assert [pickle.dumps(one) for one in mine.values()] == states
    assert not hasattr(trained, "learner_")
    assert not hasattr(trained, "n_features_in_")
    assert trained.constraint == eh.DemographicParity(difference=0.01)


def test_intervals_and_verdicts_are_those_of_an_audit():
    point = BLIND.points[10]
    again = compare(eh.DemographicParity(difference=point.tolerance), point.counted, 0.95)
    assert (point.comparison.low, point.comparison.high) == (again.low, again.high)
    assert point.comparison.verdict == again.verdict
    groups = point.groups()
    assert groups[0].rows == 3000
    assert 1 - groups[0].rates["error rate"].value == pytest.approx(point.accuracy.value)


def test_shadow_prices_are_the_slope_of_the_curve():
    a, b = BLIND.points[10], BLIND.points[15]
    slope = (a.risk - b.risk) / (b.tolerance - a.tolerance)
    assert sum(b.prices.values()) - 1e-9 <= slope <= sum(a.prices.values()) + 1e-9
    assert a.price == pytest.approx(0.02 * sum(a.prices.values()))
    assert max(a.prices.values()) > 0
    prices = BLIND.price_records()
    assert {row["group"] for row in prices} == {f"A1={i}, A2={j}" for i in (0, 1) for j in (0, 1)}
    assert all(row["price"] >= 0 for row in prices)
    total = sum(row["price"] for row in prices if row["tolerance"] == a.tolerance)
    assert total == pytest.approx(a.price)


def test_blind_aware_and_others_are_on_one_chart():
    plain = LogisticRegression().fit(TRAIN.X, TRAIN.y)
    both = drawn(
        {"blind": post(), "aware": post(aware=True)},
        tolerances=5,
        others={"plain": plain, "nobody": np.zeros(3000, int), "random": np.full(3000, 0.5)},
    )
    assert [point.curve for point in both.points] == ["blind"] * 5 + ["aware"] * 5
    assert both.curve("aware")[0].accuracy.value > both.curve("blind")[0].accuracy.value - 0.02
    named = {point.curve: point for point in both.others}
    assert named["nobody"].comparison.value == 0
    assert named["nobody"].tolerance is None
    assert named["nobody"].comparison.verdict is None
    assert named["random"].accuracy.value == pytest.approx(0.5)
    assert named["plain"].accuracy.value == pytest.approx(plain.score(TEST.X, TEST.y))
    table = both.to_frame(backend="pandas")
    assert table["kind"].tolist() == ["curve"] * 10 + ["point"] * 3
    assert table["tolerance"].isna().sum() == 3
    assert "plain" in str(both)


@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(ratio=0.8),
        eh.EqualizedOdds(difference=0.1),
        eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9),
        eh.AccuracyParity(difference=0.1, groups="independent"),
    ],
    ids=str,
)
def test_any_requirement_has_a_curve(constraint):
    found = drawn(post(constraint), tolerances=6)
    assert len(found.points) == 6
    by_ratio = constraint.notions[0].compares_by == "ratio"
    assert found.points[0].tolerance == (1 if by_ratio else 0)
    assert found.points[0].risk >= found.points[-1].risk
    assert all(point.risk - point.bound > -1e-9 for point in found.points)


def test_chosen_tolerances_are_taken():
    found = drawn(post(eh.DemographicParity(ratio=0.8)), tolerances=[0.7, 0.9])
    assert [point.tolerance for point in found.points] == pytest.approx([0.9, 0.7])


def test_training_has_a_curve():
    trained = eh.FairInprocessor(LogisticRegression(), PARITY, aware=True)
    found = drawn({"trained": trained}, tolerances=3)
    assert [point.curve for point in found.points] == ["trained"] * 3
    assert found.points[0].accuracy.value < found.points[-1].accuracy.value
    assert math.isnan(found.points[0].risk)
    assert found.records()[0]["risk"] is None


@pytest.mark.parametrize("library", [pd, pl])
def test_rows_of_any_table_are_held_out(library):
    table = library.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive})
    fair = post(sensitive_features=["A1", "A2"])
    label = np.where(TRAIN.y == 1, "yes", "no").tolist()
    found = eh.frontier(fair, table, label, tolerances=3, test=0.25)
    assert found.n_rows == 1000
    assert isinstance(found.to_frame(), library.DataFrame)
    assert found.to_dict()["points"][0]["curve"] == "fair"


def test_aware_with_sensitive_columns_in_the_table():
    table = pd.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive})
    found = eh.frontier(post(sensitive_features=["A1", "A2"], aware=True), table, TRAIN.y, tolerances=3)
    assert len(found.points) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classifiers": LogisticRegression()}, "'fair' must be a FairPostprocessor or a FairInprocessor"),
        ({"classifiers": {"a": post(None)}}, "'a' has no constraint"),
        ({"classifiers": post(confidence=0.9)}, "makes a guarantee, which is for one tolerance"),
        (
            {"classifiers": {"a": post(), "b": post(eh.EqualOpportunity(difference=0.1))}},
            "the classifiers have different requirements: DemographicParity.* and EqualOpportunity",
        ),
        ({"tolerances": 1}, "tolerances must be at least 2"),
        ({"tolerances": [0.1, 2]}, "tolerances must be at least 2, or numbers from 0 to 1"),
        ({"tolerances": "all"}, "tolerances must be at least 2"),
        ({"confidence": 1}, "confidence must be strictly between 0 and 1"),
        ({"test": (TEST.X,)}, r"test must be \(X, y\)"),
        ({"test": 2}, "test must be strictly between 0 and 1"),
        ({"test": (TEST.X, TEST.y[:-1], TEST.sensitive)}, "X has 3,000, y has 2,999"),
        ({"others": {"other": np.zeros(7)}}, "predictions of 'other' has 7"),
        ({"test": 0.3, "others": {"other": np.zeros(3000)}}, "predictions in others= are for test rows"),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        drawn(**settings)


def test_the_chart_names_the_notion_and_the_measure():
    chart = BLIND.plot()
    assert "demographic parity" in str(chart.to_dict())
    ratio = drawn(post(eh.DemographicParity(ratio=0.8)), tolerances=3)
    assert "← fairer  |  mean ratio, demographic parity" in str(ratio.plot().to_dict())
    assert "reverse" in str(ratio.plot().to_dict())  # 1 is on the left, as a difference of 0 is


def test_the_split_does_not_depend_on_labels():
    X = np.arange(100.0)[:, None]
    given = [held_out.Rows(X, np.array(labels)) for labels in ([0, 1] * 50, [0] * 80 + [1] * 20)]
    first, second = (held_out.split_rows(data, 0.3, 0)[1].X for data in given)
    assert (first == second).all()


def over(constraint, bound, tolerances=5, **settings):
    few = PROBLEM.sample(1000, seed=0)
    given = {"sensitive_features": few.sensitive, "test": HELD, "over": bound, "tolerances": tolerances}
    return eh.frontier(post(constraint, **settings), few.X, few.y, **given)


def test_a_capacity_is_traced_with_its_price():
    found = over(eh.RateBound("selection rate", at_most=0.2), "capacity")
    points = found.points
    assert found.over == "selection rate, at most"
    assert points[0].tolerance == 0
    assert math.isnan(points[0].price)  # nobody is selected, and no price is the right one
    for one, two in itertools.pairwise(points):
        assert two.risk <= one.risk + 1e-9
        assert one.expected_rate <= one.tolerance + 1e-9
    for one, two in itertools.pairwise(points[1:]):
        fall = (one.risk - two.risk) / (two.tolerance - one.tolerance)
        assert 50 * two.price - 1e-6 <= fall <= 50 * one.price + 1e-6  # convex: between the prices of both
    assert points[-1].price == pytest.approx(0, abs=1e-6)  # the rate without a capacity


def test_a_frontier_over_a_bound_says_what_is_on_the_axis():
    found = over(
        eh.DemographicParity(difference=0.2) & eh.RateBound("selection rate", at_most=0.2), "selection rate"
    )
    assert "over selection rate, at most" in repr(found)
    assert "What varies is the bound: selection rate, at most." in str(found)
    assert "selection rate, at most" in found._repr_html_()
    assert "at bound 0" in repr(found.points[0])
    assert found.to_dict()["over"] == "selection rate, at most"
    assert found.to_dict()["measure"] == "bound"
    table = found.to_frame(backend="pandas")
    assert {"over", "rate", "rate_low", "rate_high", "expected_rate"} <= set(table)
    chart = found.plot().to_dict()
    assert "selection rate, at most" in json.dumps(chart)
    assert "fairer" not in json.dumps(chart["title"])
    assert drawn(tolerances=2).to_dict()["over"] == "tolerance"


def test_tolerances_and_other_bounds_stay_as_they_are():
    constraint = eh.DemographicParity(difference=0.1) & eh.RateBound("selection rate", at_most=0.3)
    for point in over(constraint, "capacity").points:
        assert max(m.difference for m in constraint.notions[0].measure(rates_of(point))) < 0.35
        assert all(name.notion == "selection rate" for name in point.prices)
    for point in drawn(post(constraint), tolerances=3).points:
        assert all(name.notion == "demographic parity" for name in point.prices)
        assert point.counted.rates.selected.sum() / point.counted.rates.mass.sum() < 0.4


def rates_of(point):
    return point.counted.rates


def test_a_floor_is_traced_from_the_highest_that_is_possible():
    constraint = eh.RateBound("selection rate", at_most=0.2) & eh.RateBound(
        "true-positive rate", at_least=0.1, groups="intersectional"
    )
    found = over(constraint, "true-positive rate", aware=True)
    assert found.over == "true-positive rate of every group, at least"
    floors = [point.tolerance for point in found.points]
    assert floors == sorted(floors, reverse=True)
    assert 0.1 < floors[0] < 1
    with pytest.raises(InfeasibleError):
        over(constraint, "true-positive rate", [floors[0] + 0.05], aware=True)
    assert found.points[0].expected_rate == pytest.approx(floors[0], abs=1e-4)


def test_a_precision_is_traced():
    constraint = eh.RateBound("precision", at_least=0.6) & eh.RateBound("selection rate", at_least=0.2)
    found = over(constraint, "precision", tolerances=[0.5, 0.7, 0.75])
    assert [point.tolerance for point in found.points] == pytest.approx([0.75, 0.7, 0.5])


def test_a_bound_that_binds_nowhere_is_traced_to_its_end():
    constraint = eh.RateBound("selection rate", at_most=0.1) & eh.RateBound(
        "true-positive rate", at_least=0.01
    )
    floors = [point.tolerance for point in over(constraint, "true-positive rate", 3).points]
    assert floors[-1] == 0
    assert floors[0] > 0.1


@pytest.mark.parametrize(
    ("constraint", "bound", "message"),
    [
        (eh.DemographicParity(difference=0.1), "capacity", "has no such bound"),
        (
            eh.RateBound("selection rate", at_least=0.1),
            "capacity",
            "has no such bound; over can be 'selection rate'",
        ),
        (
            eh.RateBound("selection rate", at_least=0.1, at_most=0.2),
            "selection rate",
            "has several bounds of that name",
        ),
        (
            eh.RateBound("selection rate", at_most=0.1) & eh.RateBound("selection rate", at_most=0.2),
            "capacity",
            "has several bounds",
        ),
        (
            eh.RateBound("selection rate", at_most=0.1),
            None,
            "no tolerance to vary: name a bound by over='capacity' or 'selection rate'",
        ),
        (eh.NoWorse("selection rate"), None, "has no tolerance to vary"),
        (eh.RateBound("selection rate", at_most=0.1), 0.1, "over=0.1: .* has no such bound"),
    ],
    ids=str,
)
def test_what_cannot_be_traced_is_refused(constraint, bound, message):
    with pytest.raises(InputError, match=message):
        over(constraint, bound)


def test_a_bound_with_two_numbers_is_traced_from_where_they_meet():
    found = over(eh.RateBound("selection rate", at_least=0.1, at_most=0.5), "capacity", 3)
    assert found.points[0].tolerance == pytest.approx(0.1)


def test_trained_classifiers_trace_a_capacity_too():
    trained = eh.FairInprocessor(
        LogisticRegression(), eh.RateBound("selection rate", at_most=0.3), posteriors=eh.CrossFit(2)
    )
    found = drawn(trained, over="capacity", tolerances=[0.2, 0.4])
    assert [point.origin for point in found.points] == ["trained"] * 2
    assert found.points[0].rate.value < found.points[1].rate.value


def test_no_group_is_worse_off_at_any_tolerance():
    """The reference is the best rule without a requirement, which only the rows of each problem tell."""
    constraint = PARITY & eh.NoWorse("selection rate")
    found = drawn({"raised": post(constraint)}, tolerances=[0.0, 0.1])
    plain = drawn(post(eh.DemographicParity(difference=1.0)), tolerances=[1.0]).points[0]

    def selection(point):
        return rates_of(point).selected.sum(axis=1) / rates_of(point).mass.sum(axis=1)

    for point in found.points:
        assert (selection(point) > selection(plain) - 0.06).all()
        assert {name.notion for name in point.prices} == {"demographic parity"}
    assert (
        len(over(constraint & eh.RateBound("selection rate", at_most=0.9), "capacity", [0.8, 0.9]).points)
        == 2
    )


@pytest.mark.parametrize(
    ("measure", "tolerances"), [("ratio", [1.0, 0.9, 0.5]), ("difference", [0, 0.05, 0.2])]
)
def test_a_frontier_against_a_named_group(measure, tolerances):
    """Each tolerance is kept under the posteriors, and a looser one never has a larger risk."""
    data = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3).sample(2000)
    reference = {name: np.asarray(column)[0] for name, column in data.sensitive.items()}
    notion = eh.DemographicParity(**{measure: 0.5}, against=reference)
    fair = eh.FairPostprocessor(LogisticRegression(), notion)
    curve = eh.frontier(fair, data.X, data.y, sensitive_features=data.sensitive, tolerances=tolerances)
    assert [point.expected_disparity for point in curve.points] == pytest.approx(tolerances, abs=1e-4)
    risks = [point.risk for point in curve.points]
    assert all(after < before for before, after in itertools.pairwise(risks))
