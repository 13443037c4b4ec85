"""Audits where a sensitive feature is known by probabilities."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, ProxyCalibrationWarning

N = 8_000
rng = np.random.default_rng(0)
P = rng.choice([0.02, 0.1, 0.5, 0.9, 0.98], N)
RACE = np.where(rng.random(N) < P, "Black", "White")
SEX = rng.choice(["F", "M"], N)
TABLE = pl.DataFrame({"White": 1 - P, "Black": P})
Y = (rng.random(N) < 0.4).astype(int)
DECISION = (rng.random(N) < np.where(RACE == "Black", 0.3, 0.5)).astype(int)
DP = eh.DemographicParity(difference=0.2)


def audited(**settings):
    given = {"constraint": DP, **settings}
    return eh.audit(Y, DECISION, eh.Proxy(race=TABLE, sex=SEX), **given)


def rates(found, name="selection rate"):
    return {str(group.group): group.rates[name] for group in found.groups}


@pytest.mark.parametrize(
    "name", ["selection rate", "error rate", "true-positive rate", "false-positive rate"]
)
def test_intervals_contain_the_rates_of_the_true_groups(name):
    truth = rates(eh.audit(Y, DECISION, {"race": RACE, "sex": SEX}), name)
    found = rates(audited(), name)
    assert set(found) == set(truth)
    for group, rate in found.items():
        assert rate.low <= truth[group].value <= rate.high
        assert rate.low <= rate.value <= rate.high
    # Sex is known, and its interval is that of a rate that is known.
    for group in ("sex=F", "sex=M", ""):
        assert found[group].value == pytest.approx(truth[group].value)
        assert found[group].high - found[group].low < 1.6 * (truth[group].high - truth[group].low)
    assert found["race=Black"].high - found["race=Black"].low > 0.1


def test_estimates_are_weighted_by_probability():
    found = rates(audited())
    assert found["race=Black"].value == pytest.approx(P @ DECISION / P.sum())
    men = SEX == "M"
    assert found["race=Black, sex=M"].value == pytest.approx(P[men] @ DECISION[men] / P[men].sum())
    rows = {str(group.group): group.rows for group in audited().groups}
    assert rows["race=Black"] == pytest.approx(P.sum())


def test_a_verdict_needs_an_interval_on_one_side():
    """Vague proxies cannot tell whether a difference of 0.1 is exceeded; nearly certain ones can."""
    vague = np.clip(P, 0.3, 0.7)

    def verdict(black, tolerance):
        proxy = eh.Proxy(race={"White": 1 - black, "Black": black})
        constraint = eh.DemographicParity(difference=tolerance)
        return eh.audit(None, DECISION, proxy, constraint=constraint)["demographic parity"].verdict

    assert verdict(vague, 0.1) == "insufficient evidence"
    sharp = np.where(RACE == "Black", 0.999, 0.001)
    assert verdict(sharp, 0.05) == "violated"
    assert verdict(sharp, 0.3) == "satisfied"


@pytest.mark.parametrize("against", ["population", "groups"])
@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.parametrize("groups", ["intersectional", "independent"])
@pytest.mark.parametrize("kind", [eh.DemographicParity, eh.EqualizedOdds], ids=["DP", "odds"])
def test_disparities_of_the_true_groups_are_within_the_interval(kind, measure, groups, against):
    notion = kind(**{measure: 0.5}, groups=groups, against=against)
    found = audited(constraint=notion).comparisons[0]
    truth = eh.audit(Y, DECISION, {"race": RACE, "sex": SEX}, constraint=notion).comparisons[0]
    assert found.low <= truth.value <= found.high
    assert found.low <= found.value <= found.high
    assert 0 <= found.low <= found.high <= 1
    by_group = {(part.statistic, str(part.group)): part for part in found.distances}
    for part in truth.distances:
        own = by_group[part.statistic, str(part.group)]
        assert own.low <= part.value <= own.high


def test_known_groups_and_nearly_certain_proxies_agree():
    """With probabilities of 0 and 1 and a single row in between, rates are those of the groups."""
    p = (RACE == "Black").astype(float)
    p[0] = 0.5
    proxy = eh.Proxy(race={"White": 1 - p, "Black": p})
    found, truth = eh.audit(Y, DECISION, proxy), eh.audit(Y, DECISION, {"race": RACE})
    for name in ("selection rate", "true-positive rate"):
        for group, rate in rates(truth, name).items():
            assert rates(found, name)[group].value == pytest.approx(rate.value, abs=2e-3)
            assert rates(found, name)[group].low == pytest.approx(rate.low, abs=4e-3)
            assert rates(found, name)[group].high == pytest.approx(rate.high, abs=4e-3)
    assert [one.notion for one in found.comparisons] == [one.notion for one in truth.comparisons]
    for own, other in zip(found.comparisons, truth.comparisons, strict=True):
        assert own.value == pytest.approx(other.value, abs=5e-3)


def test_the_result_prints_saves_and_becomes_a_table_and_a_page(tmp_path):
    found = audited()
    text = str(found)
    assert "race is known by probabilities" in text
    assert "insufficient evidence" in text or "violated" in text
    record = json.loads(json.dumps(found.to_dict()))
    assert record["proxy"] == "race"
    assert eh.audit(Y, DECISION, {"race": RACE}).to_dict()["proxy"] is None
    frame = found.to_frame(backend="pandas")
    assert "race=Black, sex=M" in set(frame["group"])
    page = eh.write_report(tmp_path / "page.html", found).read_text(encoding="utf-8")
    assert "intervals hold whatever the true groups are" in page


def test_weights_scores_and_randomised_decisions_are_taken():
    weights = rng.uniform(0.5, 2.0, N)
    found = audited(sample_weight=weights)
    assert rates(found)["race=Black"].value == pytest.approx((weights * P) @ DECISION / (weights @ P))
    scored = eh.audit(Y, DECISION * 0.6, eh.Proxy(race=TABLE), threshold=0.5)
    assert rates(scored)["race=Black"].value == pytest.approx(P @ DECISION / P.sum())
    drawn = eh.audit(Y, DECISION * 0.5, eh.Proxy(race=TABLE))
    assert rates(drawn)["race=Black"].value == pytest.approx(0.5 * P @ DECISION / P.sum())


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, dict], ids=["polars", "pandas", "dict"])
def test_any_table_is_taken(make):
    table = make({"White": 1 - P, "Black": P})
    assert rates(eh.audit(None, DECISION, eh.Proxy(race=table))) == rates(
        eh.audit(None, DECISION, eh.Proxy(race=TABLE))
    )


def test_columns_of_an_array_are_numbered():
    found = rates(eh.audit(None, DECISION, eh.Proxy(race=np.column_stack([1 - P, P]))))
    assert found["race=1"].value == pytest.approx(P @ DECISION / P.sum())


def changed(row, values):
    p = np.column_stack([1 - P, P])
    p[row] = values
    return {"White": p[:, 0], "Black": p[:, 1]}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            {"race": changed(3, [0.5, 0.4])},
            r"do not sum to 1 in 1 of 8,000 rows, the first at row 3: 0.5, 0.4",
        ),
        ({"race": changed(3, [np.nan, 0.4])}, "are missing or infinite in 1 of 8,000 rows"),
        ({"race": changed(3, [-0.2, 1.2])}, "are not from 0 to 1 in 1 of 8,000 rows"),
        ({"race": {"Black": np.ones(N)}}, "has a single column, 'Black'"),
        (
            {"race": {"a": RACE == "Black", "b": RACE != "Black"}},
            "every row of 'race' in this Proxy is certain",
        ),
        ({"race": {"a": RACE, "b": RACE}}, "must have probabilities"),
        ({"race": RACE}, "nothing is known by probabilities"),
        ({"race": TABLE, "age": TABLE}, "race, age are all known by probabilities"),
        ({"race": TABLE, "sex": np.where(SEX == "F", None, SEX)}, "'sex' is missing in"),
    ],
    ids=["sum", "NaN", "negative", "single", "certain", "text", "known", "two", "missing"],
)
def test_bad_probabilities_are_told(features, message):
    with pytest.raises(GroupError, match=message):
        eh.audit(None, DECISION, eh.Proxy(**features))


@pytest.mark.parametrize(
    "given", [eh.Proxy(race=TABLE[:10]), eh.Proxy(race=TABLE, sex=SEX[:10])], ids=["predictions", "features"]
)
def test_other_numbers_of_rows_are_told(given):
    with pytest.raises(InputError, match="differ in their number of rows"):
        eh.audit(None, DECISION, given)


def test_what_does_not_go_with_a_proxy_is_told():
    for settings in ({"before": DECISION}, {"min_count": 5}, {"min_size": 5}, {"missing": "category"}):
        with pytest.raises(InputError, match="an audit by proxies takes neither"):
            audited(**settings)
    with pytest.raises(InputError, match="cannot be judged by proxies"):
        audited(constraint=eh.RateBound("selection rate", at_most=0.5))
    with pytest.raises(InputError, match="y_true is None"):
        eh.audit(None, DECISION, eh.Proxy(race=TABLE), constraint=eh.EqualOpportunity(difference=0.1))
    with pytest.raises(GroupError, match="Proxy needs a feature"):
        eh.Proxy()
    with pytest.raises(InputError, match="a Proxy has probabilities"):
        eh.cell_rates(Y, DECISION, eh.Proxy(race=TABLE))


def test_impact_ratios_by_a_proxy_are_refused():
    with pytest.raises(InputError, match="need the group of every person"):
        audited().impact_ratios()


def test_rounded_probabilities_are_scaled():
    rounded = {"White": (1 - P).round(3), "Black": (P + 0.0004).round(4)}
    found = rates(eh.audit(None, DECISION, eh.Proxy(race=rounded)))
    assert found["race=Black"].value == pytest.approx(P @ DECISION / P.sum(), abs=1e-3)


def test_known_values_check_the_calibration():
    some = np.where(rng.random(N) < 0.2, RACE, None)
    audited_with = lambda table: eh.audit(None, DECISION, eh.Proxy(race=table, known={"race": some}))  # noqa: E731
    audited_with(TABLE)  # warnings are errors in tests
    off = np.clip(P + 0.15, 0, 0.99)
    with pytest.warns(ProxyCalibrationWarning, match="probabilities of 'race' are not calibrated: of"):
        audited_with({"White": 1 - off, "Black": off})
    # Right on average, but too sure of itself.
    sure = np.where(P > 0.5, 0.999, np.where(P < 0.5, 0.001, 0.5))
    with pytest.warns(ProxyCalibrationWarning):
        audited_with({"White": 1 - sure, "Black": sure})


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"sex": SEX}, "should have a column 'race', but has 'sex'"),
        ({"race": np.where(RACE == "Black", "black", None)}, "known of a Proxy has race='black'"),
        ({"race": np.full(N, None)}, "has no value of 'race'"),
    ],
    ids=["feature", "value", "nothing"],
)
def test_bad_known_values_are_told(known, message):
    with pytest.raises(GroupError, match=message):
        eh.audit(None, DECISION, eh.Proxy(race=TABLE, known=known))


def test_a_proxy_is_shown_by_its_columns():
    proxy = eh.Proxy(race=["p_white", "p_black"], sex="sex")
    assert repr(proxy) == "Proxy(race=['p_white', 'p_black'], sex='sex')"
    assert repr(eh.Proxy(race=TABLE)) == "Proxy(race=...)"
    assert eh.Proxy(race=TABLE, known=SEX).get_params().keys() == {"race", "known"}
