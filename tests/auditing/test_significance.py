"""Groups beside a named reference: every figure by a second computation, and what is refused."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import evenhand as eh
from evenhand.auditing.association_tests import (
    breslow_day,
    cochran_mantel_haenszel,
    common_odds_ratio,
    fisher,
    holm,
    standard_deviations,
)
from evenhand.exceptions import EvenhandError, GroupError, InputError, PooledGroupsWarning


def people(counts):
    """Decisions and groups from {group: (selected, rows)}."""
    decisions = []
    groups = []
    for name, (selected, rows) in counts.items():
        decisions += [1] * selected + [0] * (rows - selected)
        groups += [name] * rows
    return decisions, groups


def compared(counts, **settings):
    decisions, groups = people(counts)
    found = eh.audit(None, decisions, {"g": groups}, reference={"g": "A"})
    return {one.group.values[0]: one for one in found.significance(**settings).tests}


tables = st.tuples(*[st.integers(1, 60)] * 2).flatmap(
    lambda n: st.tuples(st.integers(0, n[0]), st.just(n[0]), st.integers(0, n[1]), st.just(n[1]))
)


@given(tables)
def test_fisher_is_scipys_and_mid_p_counts_equally_likely_tables_half(table):
    x1, n1, x2, n2 = table
    p_value, mid_p = fisher(*table)
    assert p_value == pytest.approx(stats.fisher_exact([[x1, n1 - x1], [x2, n2 - x2]]).pvalue, rel=1e-9)
    chances = stats.hypergeom(n1 + n2, x1 + x2, n1).pmf(np.arange(n1 + 1))
    same = np.isclose(chances, chances[x1], rtol=1e-7, atol=0)
    by_hand = chances[~same & (chances < chances[x1])].sum() + chances[same].sum() / 2
    assert mid_p == pytest.approx(by_hand, rel=1e-9)


def test_mid_p_has_mean_one_half_under_the_null_and_fisher_more():
    for total, chosen, n1 in ((20, 8, 10), (31, 7, 12), (40, 20, 20)):
        possible = range(max(0, chosen - (total - n1)), min(n1, chosen) + 1)
        chances = stats.hypergeom(total, chosen, n1).pmf(possible)
        found = np.array([fisher(k, n1, chosen - k, total - n1) for k in possible])
        assert chances @ found[:, 1] == pytest.approx(0.5)
        assert chances @ found[:, 0] > 0.5


def test_large_tables_are_exact_too():
    n = 10**8
    p_value, mid_p = fisher(30_000_000, n, 30_020_000, n)
    expected = stats.fisher_exact([[30_000_000, n - 30_000_000], [30_020_000, n - 30_020_000]]).pvalue
    assert p_value == pytest.approx(expected, rel=1e-6)
    assert mid_p < p_value


@given(tables)
def test_swapping_group_and_reference_turns_signs_and_inverts_odds(table):
    x1, n1, x2, n2 = table
    z, back = standard_deviations(*table), standard_deviations(x2, n2, x1, n1)
    assert z == -back or (math.isnan(z) and x1 + x2 in (0, n1 + n2))
    odds, inverse = common_odds_ratio(*table), common_odds_ratio(x2, n2, x1, n1)
    if 0 < odds < math.inf:
        assert odds * inverse == pytest.approx(1)
        assert odds == pytest.approx(x1 * (n2 - x2) / ((n1 - x1) * x2))
    else:
        assert {odds, inverse} == {0.0, math.inf} or (math.isnan(odds) and math.isnan(inverse))
    assert fisher(*table) == pytest.approx(fisher(x2, n2, x1, n1))


def test_strata_agree_with_statsmodels():
    """Figures of statsmodels 0.15, `StratifiedTable`: `test_null_odds`, `test_equal_odds(adjust=True)`."""
    strata = [12, 5, 30], [40, 20, 50], [60, 9, 44], [100, 18, 60]
    assert cochran_mantel_haenszel(*strata) == pytest.approx(0.00021480591025913043, rel=1e-10)
    assert common_odds_ratio(*strata) == pytest.approx(0.38112167162446486, rel=1e-10)
    assert breslow_day(*strata) == pytest.approx(0.5168488695148249, rel=1e-10)


def test_one_stratum_is_the_test_of_its_table():
    """CMH of one stratum is Z squared, but for the factor (N - 1) / N."""
    z = standard_deviations(48, 80, 72, 96)
    assert cochran_mantel_haenszel([48], [80], [72], [96]) == pytest.approx(
        stats.chi2.sf(z**2 * 175 / 176, 1)
    )
    assert math.isnan(breslow_day([48], [80], [72], [96]))
    assert math.isnan(cochran_mantel_haenszel([3], [3], [5], [5]))


def test_holm_ignores_undefined_values():
    assert holm([0.01, math.nan, 0.04, 0.03]) == pytest.approx([0.03, math.nan, 0.06, 0.06], nan_ok=True)


def test_figures_of_a_group_in_closed_form():
    one = compared({"A": (72, 96), "B": (40, 80), "C": (30, 40)})["B"]
    assert (one.rows, one.selected, one.rate, one.reference_rate) == (80, 40, 0.5, 0.75)
    assert one.difference == -0.25
    assert one.impact_ratio == pytest.approx(2 / 3)
    pooled = 112 / 176
    assert one.z == pytest.approx(-0.25 / math.sqrt(pooled * (1 - pooled) * (1 / 80 + 1 / 96)))
    assert one.shortfall == 20
    assert one.odds_ratio == pytest.approx(40 * 24 / (40 * 72))
    assert one.adjusted_p_value == pytest.approx(2 * one.p_value)
    assert one.low < one.impact_ratio < one.high < 1


def test_practical_and_statistical_flags_are_independent():
    small = compared({"A": (30, 60), "B": (1, 4)})["B"]
    assert (small.practical, small.statistical) == (True, False)
    large = compared({"A": (50_000, 100_000), "B": (46_000, 100_000)})["B"]
    assert (large.practical, large.statistical, large.large) == (False, True, None)
    strict = compared({"A": (50_000, 100_000), "B": (46_000, 100_000)}, ratio=0.95, difference=0.05)["B"]
    assert (strict.practical, strict.large) == (True, False)


@pytest.mark.parametrize("everyone", [True, False])
def test_all_or_nobody_selected_leaves_figures_undefined(everyone):
    one = compared({"A": (40 * everyone, 40), "B": (20 * everyone, 20)})["B"]
    assert (one.p_value, one.mid_p, one.statistical) == (1.0, 0.5, False)
    assert math.isnan(one.z)
    assert math.isnan(one.odds_ratio)
    if everyone:
        assert (one.impact_ratio, one.practical) == (1.0, False)
    else:
        assert math.isnan(one.impact_ratio)
        assert one.practical is None


def test_undefined_flags_survive_in_tables_text_and_json():
    decisions, groups = people({"A": (0, 40), "B": (1, 20), "C": (0, 1)})
    found = eh.audit(None, decisions, {"g": groups}, reference={"g": "A"}).significance()
    for backend in ("pandas", "polars", "pyarrow"):
        frame = found.to_frame(backend=backend)
        assert list(pl.DataFrame(frame)["practical"]) == [None, None]
    assert "undefined" in str(found)
    assert found.to_dict()["groups"][0]["impact_ratio"] is None
    assert found.to_dict()["groups"][0]["odds_ratio"] is None  # infinite
    assert "<table>" in found._repr_html_()


def test_one_person_is_compared_and_not_significant():
    one = compared({"A": (20, 40), "B": (0, 1)})["B"]
    assert one.rows == 1
    assert one.p_value == pytest.approx(stats.fisher_exact([[0, 1], [20, 20]]).pvalue)
    assert one.low == 0
    assert one.high > 1


@pytest.fixture(scope="module")
def applicants():
    rng = np.random.default_rng(7)
    n = 2_000
    table = pl.DataFrame(
        {
            "race": rng.choice(["White", "Black", "Asian"], n, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["Male", "Female"], n),
            "level": rng.choice([1, 2, 3], n),
        }
    )
    rate = 0.5 - 0.15 * (table["race"] == "Black").to_numpy() + 0.1 * (table["level"] == 1).to_numpy()
    return table.with_columns(hired=pl.Series((rng.random(n) < rate).astype(int)))


def test_named_features_are_compared_by_themselves_and_together(applicants):
    features = applicants.select("race", "sex")
    one = eh.audit(None, applicants["hired"], features, reference={"race": "White"}).significance()
    assert [str(test.group) for test in one.tests] == ["race=Asian", "race=Black"]
    both = eh.audit(
        None, applicants["hired"], features, reference={"sex": "Male", "race": "White"}
    ).significance()
    assert [len(test.group.features) for test in both.tests] == [1, 1, 1, 2, 2, 2, 2, 2]
    assert {str(name) for name in both.references} == {"race=White", "sex=Male", "race=White, sex=Male"}
    assert both.tests[0] == one.tests[0]


def test_lazy_tables_give_the_same_figures(applicants):
    settings = {"reference": {"race": "White", "sex": "Male"}}
    features, controls = applicants.select("race", "sex"), applicants.select("level")
    eager = eh.audit(None, applicants["hired"], features, control_features=controls, **settings)
    lazy = eh.audit(
        None, "hired", ["race", "sex"], data=applicants.lazy(), control_features="level", **settings
    )
    assert eager.significance().to_frame().equals(lazy.significance().to_frame())


def test_strata_come_from_the_control_features(applicants):
    found = eh.audit(
        None,
        applicants["hired"],
        applicants.select("race"),
        control_features=applicants.select("level"),
        reference={"race": "White"},
    ).significance()
    [asian, black] = found.tests
    tables = []
    disparity = 0.0
    for _, part in applicants.group_by("level"):
        groups = [part.filter(pl.col("race") == race)["hired"] for race in ("Black", "White")]
        tables.append([groups[0].sum(), len(groups[0]), groups[1].sum(), len(groups[1])])
        rejected, selected = (part.filter(pl.col("hired") == d)["race"] for d in (0, 1))
        shares = (rejected == "Black").mean() - (selected == "Black").mean()
        disparity += shares * len(part) / len(applicants)
    columns = np.array(tables).T
    assert black.strata == 3
    assert black.cmh_p_value == pytest.approx(cochran_mantel_haenszel(*columns))
    assert black.common_odds_ratio == pytest.approx(common_odds_ratio(*columns))
    assert black.breslow_day_p_value == pytest.approx(breslow_day(*columns))
    assert black.conditional_disparity == pytest.approx(disparity)
    assert asian.cmh_p_value > 0.01
    assert "Given level" in str(found)


def test_strata_that_explain_everything_leave_no_association():
    """Simpson's paradox: a large gap overall, the same rates within strata."""
    decisions = [1] * 80 + [0] * 20 + [1] * 16 + [0] * 4 + [1] * 4 + [0] * 16 + [1] * 20 + [0] * 80
    race = ["A"] * 100 + ["B"] * 20 + ["A"] * 20 + ["B"] * 100
    level = ["high"] * 120 + ["low"] * 120
    found = eh.audit(None, decisions, {"g": race}, control_features={"l": level}, reference={"g": "A"})
    [one] = found.significance().tests
    assert one.p_value < 1e-6
    assert one.cmh_p_value == 1
    assert one.common_odds_ratio == pytest.approx(1)
    assert one.conditional_disparity == pytest.approx(0)


def test_excluded_rows_are_counted_and_in_no_test():
    decisions, groups = people({"A": (30, 40), "B": (10, 20)})
    found = eh.audit(
        None, [*decisions, 1, 1], {"g": [*groups, None, None]}, missing="exclude", reference={"g": "A"}
    ).significance()
    assert found.excluded == 2
    assert "2 rows lack a sensitive value" in str(found)
    assert found.tests == tuple(compared({"A": (30, 40), "B": (10, 20)}).values())


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"g": "a"}, "no group has g='a'. Did you mean 'A'?"),
        ({"G": "A"}, "'G' is not a sensitive feature. Did you mean 'g'?"),
        ({"g": ["A"]}, "no group has g=['A']"),
        ({"g": "B"}, "g=B has 20 rows; a reference must have at least 30."),
        ("A", "reference must map sensitive features to values"),
        ({}, "reference must map sensitive features to values"),
    ],
)
def test_a_reference_that_cannot_serve_is_an_error(reference, message):
    decisions, groups = people({"A": (30, 40), "B": (10, 20)})
    with pytest.raises(EvenhandError, match="reference") as caught:
        eh.audit(None, decisions, {"g": groups}, reference=reference)
    assert message in str(caught.value)


def test_a_combination_that_does_not_occur_is_an_error():
    table = {"g": ["A"] * 40 + ["B"] * 40, "s": ["F"] * 40 + ["M"] * 40}
    with pytest.raises(GroupError, match="no group is g=A, s=M"):
        eh.audit(None, [0, 1] * 40, table, reference={"g": "A", "s": "M"})


def test_a_pooled_value_is_no_reference():
    decisions, groups = people({"A": (30, 60), "B": (15, 31), "C": (15, 31)})
    with pytest.warns(PooledGroupsWarning), pytest.raises(GroupError, match="no group has g='B'"):
        eh.audit(None, decisions, {"g": groups}, min_size=40, reference={"g": "B"})
    with pytest.warns(PooledGroupsWarning):
        found = eh.audit(None, decisions, {"g": groups}, min_size=40, reference={"g": "A"})
    [one] = found.significance().tests
    assert (one.rows, one.selected) == (62, 30)


def test_dask_counts_the_same(applicants):
    frame = pytest.importorskip("dask.dataframe").from_pandas(applicants.to_pandas(), npartitions=3)
    settings = {"reference": {"race": "White"}, "control_features": "level"}
    lazy = eh.audit(None, "hired", ["race"], data=frame, **settings).significance()
    eager = eh.audit(None, "hired", ["race"], data=applicants, **settings).significance()
    assert lazy.tests == eager.tests


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reference": None}, "significance needs a named reference"),
        ({"sample_weight": [1.0, 2.0] * 40}, "weights do not count people: audit without sample_weight"),
        ({"y_pred": [0.2, 0.7] * 40}, "pass decisions or, for scores, a threshold"),
        ({"min_count": 5}, "audit without it"),
    ],
)
def test_what_does_not_count_people_is_refused(changed, message):
    given = {"y_pred": [0, 1] * 40, "reference": {"g": "A"}} | changed
    found = eh.audit(None, sensitive_features={"g": ["A"] * 40 + ["B"] * 40}, **given)
    with pytest.raises(InputError, match=message):
        found.significance()


def test_proxies_are_refused():
    proxy = eh.Proxy(race=np.full((4, 2), 0.5))
    with pytest.raises(InputError, match="takes neither data, reference"):
        eh.audit(None, [0, 1, 0, 1], proxy, reference={"race": "White"})


@pytest.mark.parametrize("settings", [{"ratio": 2}, {"level": 0}, {"level": True}, {"difference": -1}])
def test_thresholds_are_checked(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        compared({"A": (30, 40), "B": (10, 20)}, **settings)


def test_csv_is_the_table_and_hides_formulas(tmp_path):
    decisions, groups = people({"A": (30, 40), "=B": (10, 20)})
    found = eh.audit(None, decisions, {"=g": groups}, reference={"=g": "A"}).significance()
    text = found.to_csv(tmp_path / "tests.csv")
    assert (tmp_path / "tests.csv").read_text() == text
    assert "\n'=g==B," in text
    assert text.split("\n")[0] == ",".join(found.to_frame().columns)


@pytest.mark.slow
def test_levels_hold_under_the_null():
    """Fisher is conservative, mid-P near the level; Holm and the intervals hold for all groups at once."""
    rng = np.random.default_rng(3)
    rejected = np.zeros(3)
    runs, sizes = 1_000, (60, 40, 150)
    for _ in range(runs):
        counts = {name: (int(rng.binomial(n, 0.3)), n) for name, n in zip("ABCD", (200, *sizes), strict=True)}
        found = compared(counts).values()
        rejected += [
            sum(one.p_value < 0.05 for one in found) / 3,
            sum(one.mid_p < 0.05 for one in found) / 3,
            any(one.adjusted_p_value < 0.05 or not one.low <= 1 <= one.high for one in found),
        ]
    exact, mid, family = rejected / runs
    assert exact < 0.05
    assert exact < mid < 0.06
    assert family < 0.06


@pytest.mark.slow
def test_p_values_over_strata_are_uniform_under_the_null():
    rng = np.random.default_rng(4)
    n1, n2 = np.array([80, 120, 60]), np.array([150, 90, 200])
    common, equal = [], []
    for _ in range(2_000):
        x2 = rng.binomial(n2, [0.3, 0.5, 0.6])
        x1 = rng.binomial(n1, [0.3, 0.5, 0.6])
        common.append(cochran_mantel_haenszel(x1, n1, x2, n2))
        equal.append(breslow_day(x1, n1, x2, n2))
    assert stats.kstest(common, "uniform").statistic < 0.035
    assert stats.kstest(equal, "uniform").statistic < 0.035
