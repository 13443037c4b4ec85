"""Scores by group: every figure by a second computation, and inputs that have no answer."""

import itertools
import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

import evenhand as eh
from evenhand.auditing.score_audit import auc_of, kolmogorov_smirnov
from evenhand.exceptions import EvenhandError, GroupError, InputError


def auc_by_pairs(scores, positive):
    pairs = itertools.product(scores[positive], scores[~positive])
    return np.mean([(a > b) + (a == b) / 2 for a, b in pairs])


tied = arrays(np.float64, st.integers(4, 25), elements=st.integers(0, 6).map(float))


@given(tied, st.integers(0, 2**25 - 1))
def test_auc_counts_pairs_and_ties_count_half(scores, bits):
    positive = np.array([bits >> k & 1 for k in range(len(scores))], bool)
    auc, variance = auc_of(scores, positive)
    if positive.all() or not positive.any():
        assert math.isnan(auc)
        return
    assert auc == pytest.approx(auc_by_pairs(scores, positive))
    assert auc_of(-scores, positive)[0] == pytest.approx(1 - auc)
    if 1 < positive.sum() < len(scores) - 1:
        assert auc_of(-scores, positive)[1] == pytest.approx(variance)


def test_delongs_variance_is_near_the_jackknife():
    rng = np.random.default_rng(2)
    positive = rng.random(300) < 0.4
    scores = np.round(rng.normal(positive, 1.0), 1)
    _, variance = auc_of(scores, positive)
    left_out = [roc_auc_score(np.delete(positive, k), np.delete(scores, k)) for k in range(len(scores))]
    parts = [np.array(left_out)[positive], np.array(left_out)[~positive]]
    jackknife = sum((len(part) - 1) / len(part) * ((part - part.mean()) ** 2).sum() for part in parts)
    assert variance == pytest.approx(jackknife, rel=0.02)


@given(tied, tied)
def test_kolmogorov_smirnov_is_scipys(first, second):
    expected = stats.ks_2samp(first, second, method="asymp").statistic  # the exact p-value warns on ties
    assert kolmogorov_smirnov(first, second) == pytest.approx(expected)


def test_roc_points_are_those_of_scikit_learn_and_thinned_ones_lie_on_the_curve(monkeypatch):
    rng = np.random.default_rng(5)
    positive = rng.random(500) < 0.5
    scores = np.round(rng.normal(positive, 1.0), 1)
    false, true, _ = roc_curve(positive, scores, drop_intermediate=False)

    def points(most):
        monkeypatch.setattr("evenhand.auditing.score_audit._POINTS", most)
        found = eh.audit_scores(positive, scores, {"sex": ["F", "M"] * 250}).records("roc")
        names = ("false_positive_rate", "true_positive_rate")
        return np.array([[one[name] for name in names] for one in found if one["group"] == "everyone"])

    assert pytest.approx(np.array([false, true])) == points(10**6).T
    few = points(11)
    assert len(few) == 11
    assert few[0].tolist() == [0, 0]
    assert few[-1].tolist() == [1, 1]
    assert {tuple(point) for point in few.round(9)} <= set(zip(false.round(9), true.round(9), strict=True))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(11)
    race = rng.choice(["White", "Black", "Asian"], 3_000, p=[0.6, 0.3, 0.1])
    p = rng.beta(2, np.where(race == "Black", 3, 2))
    return pl.DataFrame({"race": race, "p": p, "y": (rng.random(3_000) < p).astype(int)})


@pytest.fixture(scope="module")
def audited(people):
    return eh.audit_scores(people["y"], people["p"], people.select("race"), reference={"race": "White"})


def test_figures_of_groups_by_a_second_computation(people, audited):
    frame = audited.to_frame()
    black, white = (people.filter(pl.col("race") == race) for race in ("Black", "White"))
    [row] = frame.filter(pl.col("group") == "race=Black").to_dicts()
    sd = people["p"].std(ddof=0)
    residual = people["y"] - people["p"]
    gap = (black["y"] - black["p"]).mean() - (white["y"] - white["p"]).mean()
    assert row["reference"] == "race=White"
    assert row["rows"] == len(black)
    assert row["mean"] == pytest.approx(black["p"].mean())
    assert row["smd"] == pytest.approx((black["p"].mean() - white["p"].mean()) / sd)
    assert row["residual_smd"] == pytest.approx(gap / residual.std(ddof=0))
    assert row["ks"] == pytest.approx(stats.ks_2samp(black["p"], white["p"]).statistic)
    aucs = [roc_auc_score(part["y"], part["p"]) for part in (black, white)]
    assert row["auc"] == pytest.approx(aucs[0])
    assert row["auc_difference"] == pytest.approx(aucs[0] - aucs[1])
    assert row["low"] < row["auc"] < row["high"]
    variances = [
        auc_of(part["p"].to_numpy(), part["y"].to_numpy().astype(bool))[1] for part in (black, white)
    ]
    half = stats.norm.ppf(1 - 0.05 / 4) * math.sqrt(sum(variances))  # two groups are compared
    assert row["difference_high"] - row["auc_difference"] == pytest.approx(half)
    assert list(frame.columns)[:9] == [
        *("group", "reference", "rows", "mean", "auc", "low", "high", "ks", "smd")
    ]


def test_ratios_by_cut_off_are_those_of_the_best_tenths(people, audited):
    found = audited.to_frame("cut-offs").filter(pl.col("group") == "race=Black")
    falling = people["p"].sort(descending=True)
    for row in found.to_dicts():
        cut_off = falling[round(row["share"] * 3_000) - 1]
        assert row["cut_off"] == cut_off
        decided = eh.audit(
            None, people["p"], people.select("race"), threshold=cut_off, reference={"race": "White"}
        )
        [test] = [one for one in decided.significance().tests if one.group.values == ("Black",)]
        assert row["impact_ratio"] == pytest.approx(test.impact_ratio)
        assert row["low"] < test.low  # these limits hold for nine cut-offs at once
    assert audited.groups[2].lowest_ratio == found["impact_ratio"].min()
    assert audited.groups[2].at_share == 0.1


def test_low_prices_are_favourable_if_asked(people):
    reference = {"race": "White"}
    high = eh.audit_scores(None, people["p"], people.select("race"), reference=reference)
    low = eh.audit_scores(
        None, 1_000 - 500 * people["p"], people.select("race"), reference=reference, favourable="low"
    )
    for one, other in zip(high.cut_offs, low.cut_offs, strict=True):
        assert one.impact_ratio == pytest.approx(other.impact_ratio)
        assert other.cut_off == pytest.approx(1_000 - 500 * one.cut_off)
    assert low.groups[1].smd == pytest.approx(-high.groups[1].smd)
    assert "low scores are favourable" in str(low)
    assert "AUC" not in str(low)
    assert math.isnan(low.groups[0].auc)


def test_calibration_bins_hold_all_rows_and_their_error_is_the_mean_distance(people, audited):
    bins = audited.to_frame("calibration").filter(pl.col("group") == "race=Black")
    black = people.filter(pl.col("race") == "Black")
    assert bins["rows"].sum() == len(black)
    assert (bins["predicted"] * bins["rows"]).sum() == pytest.approx(black["p"].sum())
    assert (bins["observed"] * bins["rows"]).sum() == pytest.approx(black["y"].sum())
    distance = ((bins["predicted"] - bins["observed"]).abs() * bins["rows"]).sum() / len(black)
    assert audited.groups[2].calibration_error == pytest.approx(distance)
    assert distance < 0.08
    shifted = eh.audit_scores(people["y"], people["p"] ** 2, people.select("race"))
    assert shifted.groups[0].calibration_error > 0.1


def test_without_a_reference_each_group_is_compared_with_everyone_else(people):
    found = eh.audit_scores(people["y"], people["p"], people.select("race"))
    black, rest = people.filter(pl.col("race") == "Black"), people.filter(pl.col("race") != "Black")
    one = found.groups[2]
    assert one.reference == "everyone else"
    assert one.ks == pytest.approx(stats.ks_2samp(black["p"], rest["p"]).statistic)


def test_combinations_are_compared_if_all_features_are_named():
    rng = np.random.default_rng(0)
    table = {"a": ["x", "y"] * 100, "b": ["u"] * 100 + ["v"] * 100}
    found = eh.audit_scores(None, rng.random(200), table, reference={"a": "x", "b": "u"})
    assert [str(one.group) for one in found.groups[1:]] == [
        *("a=x", "a=y", "b=u", "b=v"),
        *("a=x, b=u", "a=x, b=v", "a=y, b=u", "a=y, b=v"),
    ]


def test_scores_that_are_no_probabilities_have_ranks_only(people):
    found = eh.audit_scores(people["y"], 600 + 100 * people["p"], people.select("race"))
    assert found.groups[1].auc > 0.6
    assert math.isnan(found.groups[1].residual_smd)
    assert found.bins == ()
    assert "no residuals and no calibration" in str(found)
    with pytest.raises(InputError, match="needs labels, and probabilities"):
        found.plot("calibration")


def test_constant_scores_tell_nothing():
    groups = {"g": ["A", "B"] * 40}
    found = eh.audit_scores([0, 0, 1, 1] * 20, [0.1] * 80, groups, reference={"g": "A"})
    one = found.groups[2]
    assert (one.auc, one.ks) == (0.5, 0.0)
    assert math.isnan(one.smd)
    assert math.isnan(one.low)
    assert {part.impact_ratio for part in found.cut_offs} == {1.0}
    assert "0.500 [undefined]" in str(found)


def test_groups_with_one_label_or_one_person_have_no_auc():
    scores, labels = np.linspace(0, 1, 91), [0, 1] * 40 + [1] * 11
    found = eh.audit_scores(labels, scores, {"g": ["A"] * 80 + ["B"] * 10 + ["C"]}, reference={"g": "A"})
    for one in found.groups[2:]:
        assert math.isnan(one.auc)
        assert math.isnan(one.auc_difference)
        assert not math.isnan(one.smd)
    assert "undefined" in str(found)
    assert {one.group.values for one in found.curves} == {(), ("A",)}


def test_perfect_separation_has_no_interval():
    """DeLong's variance is 0, which is not certainty."""
    labels = [0, 0, 1, 1] * 20
    found = eh.audit_scores(labels, [0.1, 0.2, 0.8, 0.9] * 20, {"g": ["A", "B"] * 40}, reference={"g": "A"})
    assert found.groups[2].auc == 1
    assert math.isnan(found.groups[2].low)
    assert found.groups[2].auc_difference == 0
    assert math.isnan(found.groups[2].difference_low)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scores": [0.1, math.nan, 0.3] * 20}, "scores has 20 of 60 scores that are NaN or infinite"),
        ({"scores": [1.0, math.inf, 3.0] * 20}, "scores has 20 of 60 scores that are NaN or infinite"),
        ({"scores": [1.0, 1e200, 3.0] * 20}, "scores must be numbers from -1e"),
        ({"scores": ["low", "mid", "high"] * 20}, "scores must be numbers"),
        ({"y_true": [0, 1, None] * 20}, "y_true .*missing"),
        ({"y_true": [0, 1, 2] * 20}, "y_true"),
        ({"scores": [0.1] * 59}, "differ in their number of rows"),
        ({"reference": {"g": "C"}}, "no group has g='C'"),
        ({"favourable": "up"}, "favourable must be one of"),
        ({"confidence": 1}, "confidence must be strictly between 0 and 1"),
        ({"sensitive_features": {"g": ["A", "B", None] * 20}}, "missing"),
        ({"sensitive_features": eh.Proxy(g=np.full((60, 2), 0.5))}, "cannot be counted"),
    ],
)
def test_inputs_without_an_answer_are_refused(changed, message):
    given = {
        "y_true": [0, 1, 1] * 20,
        "scores": [0.1, 0.5, 0.3] * 20,
        "sensitive_features": {"g": ["A", "B", "A"] * 20},
        "reference": {"g": "A"},
    } | changed
    with pytest.raises(EvenhandError, match=message):
        eh.audit_scores(given.pop("y_true"), given.pop("scores"), given.pop("sensitive_features"), **given)


def test_a_small_reference_is_refused():
    with pytest.raises(GroupError, match="g=B has 20 rows; a reference must have at least 30"):
        eh.audit_scores(None, range(60), {"g": ["A", "A", "B"] * 20}, reference={"g": "B"})


def test_rows_without_a_group_are_left_out_and_counted():
    groups = {"g": ["A"] * 40 + ["B"] * 20 + [None] * 3}
    found = eh.audit_scores(None, range(63), groups, missing="exclude", reference={"g": "A"})
    assert found.excluded == 3
    assert found.groups[0].rows == 60
    assert found.groups[0].mean == pytest.approx(29.5)
    assert "3 rows lack a sensitive value" in str(found)


def test_one_group_has_nobody_to_be_compared_with():
    found = eh.audit_scores(None, range(40), {"g": ["A"] * 40})
    assert math.isnan(found.groups[1].smd)
    assert found.cut_offs == ()
    assert "undefined" in str(found)
    with pytest.raises(InputError, match="there is only one group"):
        found.plot()


def test_charts_tables_and_json(audited, tmp_path):
    assert audited.plot("roc").description.startswith("ROC curves. everyone: area 0.7")
    assert "lowest" in audited.plot("cut-offs").description
    assert "race=White" in json.dumps(audited.plot("calibration").to_dict())
    assert "<svg" in audited._repr_html_()
    assert json.loads(json.dumps(audited.to_dict()))["groups"][0]["smd"] is None
    assert audited.to_csv(tmp_path / "s.csv") == (tmp_path / "s.csv").read_text()
    assert audited.to_frame("roc", backend="pandas").columns[0] == "group"
    with pytest.raises(InputError, match="what must be one of"):
        audited.to_frame("scores")


@pytest.mark.slow
def test_intervals_of_auc_and_of_differences_cover():
    rng = np.random.default_rng(6)
    sizes, shift = {"A": 300, "B": 150, "C": 90}, 0.8
    groups = np.repeat(list(sizes), list(sizes.values()))
    truth = stats.norm.cdf(shift / math.sqrt(2))
    alone, together = [], []
    for _ in range(400):
        labels = rng.random(len(groups)) < 0.4
        found = eh.audit_scores(
            labels, rng.normal(shift * labels, 1.0), {"g": groups}, reference={"g": "A"}
        ).groups
        alone += [one.low <= truth <= one.high for one in found]
        together.append(all(one.difference_low <= 0 <= one.difference_high for one in found[2:]))
    assert 0.93 < np.mean(alone) < 0.97
    assert np.mean(together) > 0.92


@pytest.mark.parametrize(
    "make", [lambda t: t, pl.DataFrame.lazy, pl.DataFrame.to_arrow], ids=["eager", "lazy", "arrow"]
)
def test_a_table_is_audited_by_the_names_of_its_columns(people, audited, make):
    table = make(people.with_columns(unread=pl.lit(1)))
    found = eh.audit_scores("y", "p", "race", data=table, reference={"race": "White"})
    assert str(found) == str(audited)
    unlabelled = eh.audit_scores(None, "p", ["race"], data=table)
    assert not unlabelled.labelled
    with pytest.raises(InputError, match="data has no column 'q'"):
        eh.audit_scores("y", "q", "race", data=table)
    with pytest.raises(InputError, match="scores must be the name of a column of data, got Series"):
        eh.audit_scores("y", people["p"], "race", data=table)
