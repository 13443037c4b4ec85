"""Audits within strata, with the aggregate beside them."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, VacuousConstraintWarning


@pytest.fixture
def berkeley():
    """Admission by sex and department: women are admitted less often overall, in no department much less.

    Figures of Bickel, Hammel and O'Connell (1975), as in R's UCBAdmissions.
    """
    counts = {  # department: (men admitted, men rejected, women admitted, women rejected)
        "A": (512, 313, 89, 19),
        "B": (353, 207, 17, 8),
        "C": (120, 205, 202, 391),
        "D": (138, 279, 131, 244),
        "E": (53, 138, 94, 299),
        "F": (22, 351, 24, 317),
    }
    rows = [
        (sex, department, admitted)
        for department, (ma, mr, wa, wr) in counts.items()
        for sex, admitted, count in (("M", 1, ma), ("M", 0, mr), ("F", 1, wa), ("F", 0, wr))
        for _ in range(count)
    ]
    return pd.DataFrame(rows, columns=["sex", "department", "admitted"])


def test_simpsons_paradox_is_shown_beside_the_strata(berkeley):
    parity = eh.DemographicParity(difference=0.15, given=["department"])
    found = eh.audit(
        None,
        berkeley["admitted"],
        berkeley[["sex"]],
        control_features=berkeley[["department"]],
        constraint=parity,
    )
    compared = found["demographic parity"]
    # All together: 1198 of 2691 men and 557 of 1835 women, against 1755 of 4526.
    assert compared.aggregate.value == pytest.approx(1755 / 4526 - 557 / 1835)
    assert compared.aggregate.verdict is None
    by = {str(part.stratum): part for part in compared.strata}
    assert list(by) == [f"department={name}" for name in "ABCDEF"]
    # Department A: 601 of 933, of the women 89 of 108.
    assert by["department=A"].value == pytest.approx(89 / 108 - 601 / 933)
    assert compared.value == max(part.value for part in compared.strata)
    assert str(compared.stratum) == "department=A"
    assert str(compared.group) == "sex=F"
    assert compared.verdict == "insufficient evidence"
    assert len(compared.distances) == 12
    assert {str(part.stratum) for part in compared.distances} == set(by)
    text = str(found)
    assert "demographic parity, difference given department" in text
    assert "all together" in text
    assert "worst: department=A" in text
    shown = json.loads(json.dumps(found.to_dict()))["comparisons"][0]
    assert shown["given"] == ["department"]
    assert shown["stratum"] == {"department": "A"}
    assert len(shown["strata"]) == 6
    assert shown["aggregate"]["value"] == pytest.approx(compared.aggregate.value)


def test_a_stratum_is_an_audit_of_its_rows_alone(berkeley):
    found = eh.audit(None, berkeley["admitted"], berkeley[["sex"]], control_features=berkeley[["department"]])
    assert list(found.strata) == [f"department={name}" for name in "ABCDEF"]
    part = berkeley[berkeley["department"] == "C"]
    alone = eh.audit(None, part["admitted"], part[["sex"]])
    inside = found.strata["department=C"]
    assert inside.to_dict() == alone.to_dict()


def test_intervals_of_strata_hold_together(berkeley):
    found = eh.audit(None, berkeley["admitted"], berkeley[["sex"]], control_features=berkeley[["department"]])
    compared = next(one for one in found.comparisons if one.strata)
    part = berkeley[berkeley["department"] == "C"]
    alone = eh.audit(None, part["admitted"], part[["sex"]], confidence=1 - 0.05 / 6).comparisons[0]
    inside = compared.strata[2]
    assert (inside.low, inside.high) == pytest.approx((alone.low, alone.high))
    assert compared.low == max(one.low for one in compared.strata)
    assert compared.high == max(one.high for one in compared.strata)


def test_tables_have_a_row_for_each_stratum(berkeley):
    found = eh.audit(None, berkeley["admitted"], berkeley[["sex"]], control_features=berkeley[["department"]])
    table = found.to_frame("strata")
    difference = table[table["measure"] == "difference"]
    assert difference["stratum"].tolist() == [
        "all together",
        *(f"department={name}" for name in "ABCDEF"),
    ]
    assert found.to_frame("comparisons")["given"].tolist().count("department") == 2
    assert "stratum" in found.to_frame("distances").columns
    assert "groups compared within strata, the worst of them" in str(found)
    plain = eh.audit(None, berkeley["admitted"], berkeley[["sex"]])
    assert plain.strata is None
    assert plain.to_frame("strata").shape[0] == 0


def test_a_requirement_without_given_keeps_its_verdict_and_shows_strata(berkeley):
    asked = eh.DemographicParity(difference=0.05)
    kept = eh.audit(None, berkeley["admitted"], berkeley[["sex"]], constraint=asked)
    found = eh.audit(
        None,
        berkeley["admitted"],
        berkeley[["sex"]],
        control_features=berkeley[["department"]],
        constraint=asked,
    )
    first, within, *_ = found.comparisons
    assert (first.verdict, first.value) == (kept.comparisons[0].verdict, kept.comparisons[0].value)
    assert within.given == ("department",)
    assert within.verdict is None


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.VacuousConstraintWarning")
def test_empty_combinations_and_strata_with_one_group_are_listed():
    rng = np.random.default_rng(0)
    sex, level = rng.choice(["F", "M"], 400), rng.choice(["1", "2", "3"], 400)
    level[sex == "F"] = np.where(level[sex == "F"] == "3", "1", level[sex == "F"])
    found = eh.audit(
        None,
        rng.integers(0, 2, 400),
        {"sex": sex},
        control_features={"level": level},
        constraint=eh.DemographicParity(difference=0.2, given=["level"]),
    )
    compared = found["demographic parity"]
    assert [str(part.stratum) for part in compared.strata] == ["level=1", "level=2"]
    assert [str(name) for name in compared.vacuous] == ["level=3"]
    assert [str(name) for name in compared.empty] == ["level=3, sex=F"]
    assert compared.undefined == ()
    assert compared.verdict == "satisfied"
    assert "strata without two groups to compare: level=3" in str(found)
    assert "without any row: level=3, sex=F" in str(found)


def test_if_all_strata_have_one_group_nothing_is_known():
    found = eh.cell_rates(None, [1, 0], {"sex": ["F", "M"]}, control_features={"level": ["1", "2"]})
    with pytest.warns(VacuousConstraintWarning, match="2 of 2 strata"):
        eh.DemographicParity(difference=0.1, given=["level"]).measure(found)
    audited = eh.audit(
        None,
        [1, 0],
        {"sex": ["F", "M"]},
        control_features={"level": ["1", "2"]},
        constraint=eh.DemographicParity(difference=0.1, given=["level"]),
    )
    assert audited["demographic parity"].verdict == "insufficient evidence"


def test_a_sensitive_feature_can_be_given():
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["F", "M"], 600), rng.choice(["a", "b"], 600)
    decided = rng.random(600) < np.where(race == "a", 0.7, 0.3)
    for mode in ("intersectional", "independent"):
        found = eh.audit(
            None,
            decided.astype(int),
            {"sex": sex, "race": race},
            constraint=eh.DemographicParity(difference=0.15, given=["race"], groups=mode),
        )["demographic parity"]
        assert found.verdict == "satisfied"
        assert found.aggregate.value > 0.15
        assert {str(part.group) for part in found.distances} == {"sex=F", "sex=M"}


def test_weights_and_earlier_decisions_are_those_of_the_stratum():
    rng = np.random.default_rng(1)
    n = 500
    table = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "level": rng.choice(["1", "2"], n)})
    y, now, then, w = (rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, 2, n), rng.random(n))
    found = eh.audit(y, now, table[["sex"]], control_features=table[["level"]], before=then, sample_weight=w)
    own = (table["level"] == "2").to_numpy()
    alone = eh.audit(y[own], now[own], table.loc[own, ["sex"]], before=then[own], sample_weight=w[own])
    one, other = found.strata["level=2"], alone
    for mine, theirs in zip(one.groups, other.groups, strict=True):
        assert mine.rows == theirs.rows
        for rate in mine.rates:
            assert mine.rates[rate].value == pytest.approx(theirs.rates[rate].value)
            assert mine.rates[rate].low == pytest.approx(theirs.rates[rate].low)
            assert mine.change.rates[rate].high == pytest.approx(theirs.change.rates[rate].high)


def test_a_table_is_audited_where_it_is(berkeley):
    table = pl.from_pandas(berkeley).lazy()
    parity = eh.DemographicParity(difference=0.15, given=["department"])
    found = eh.audit(None, "admitted", "sex", data=table, control_features=["department"], constraint=parity)
    expected = eh.audit(
        None,
        berkeley["admitted"],
        berkeley[["sex"]],
        control_features=berkeley[["department"]],
        constraint=parity,
    )
    assert found.to_dict() == expected.to_dict()
    lacking = table.with_columns(
        d=pl.when(pl.col("department") == "F").then(None).otherwise(pl.col("department"))
    )
    with pytest.raises(GroupError, match=r"missing in 714 of 4,526 rows"):
        eh.audit(None, "admitted", "sex", data=lacking, control_features="d")
    with pytest.raises(InputError, match="small counts of strata"):
        eh.audit(None, "admitted", "sex", data=table, control_features="department", min_count=5)


def test_excluded_rows_are_in_no_stratum():
    rng = np.random.default_rng(0)
    n = 300
    sex = rng.choice(["F", "M"], n).astype(object)
    level, decided = rng.choice(["1", "2"], n), rng.integers(0, 2, n)
    sex[:30] = None
    constraint = eh.DemographicParity(difference=0.2, given=["level"]) & eh.DemographicParity(difference=0.2)
    found = eh.audit(
        None,
        decided,
        {"sex": sex},
        control_features={"level": level},
        constraint=constraint,
        missing="exclude",
    )
    assert found.excluded.rows == 30
    assert sum(part.groups[0].rows for part in found.strata.values()) == n - 30
    within = found.comparisons[0]
    kept = eh.audit(
        None,
        decided[30:],
        {"sex": sex[30:]},
        control_features={"level": level[30:]},
        constraint=constraint,
    ).comparisons[0]
    assert (within.value, within.low, within.high) == (kept.value, kept.low, kept.high)


def test_bad_inputs():
    rows = {"y_true": None, "y_pred": [1, 0], "sensitive_features": {"sex": ["F", "M"]}}
    with pytest.raises(GroupError, match="given names 'level'"):
        eh.audit(**rows, constraint=eh.DemographicParity(difference=0.1, given=["level"]))


def test_the_report_shows_strata_and_the_aggregate(berkeley, tmp_path):
    pytest.importorskip("jinja2")
    found = eh.audit(
        None,
        berkeley["admitted"],
        berkeley[["sex"]],
        control_features=berkeley[["department"]],
        constraint=eh.DemographicParity(difference=0.15, given=["department"]),
    )
    page = eh.write_report(tmp_path / "audit.html", found).read_text("utf-8")
    assert "Within strata" in page
    assert "all together" in page
    assert "department=F" in page
    assert "differs from everyone with the same department by more than 0.15" in page


def test_many_strata_are_cut_to_the_worst():
    rng = np.random.default_rng(0)
    level = np.arange(6000) % 60
    found = eh.audit(
        None,
        rng.integers(0, 2, 6000),
        {"sex": rng.choice(["F", "M"], 6000)},
        control_features={"level": [f"{k:02}" for k in level]},
        constraint=eh.DemographicParity(difference=0.1, given=["level"]),
    )
    assert "and 20 more strata: see to_frame('strata')" in str(found)


def test_a_stratum_of_excluded_rows_only_is_no_stratum():
    found = eh.audit(
        None,
        [1, 0, 1, 0, 1],
        {"sex": ["F", "M", "F", "M", None]},
        control_features={"level": ["1", "1", "2", "2", "3"]},
        missing="exclude",
        constraint=eh.DemographicParity(difference=0.1, given=["level"]),
    )
    assert list(found.strata) == ["level=1", "level=2"]
    assert [str(part.stratum) for part in found["demographic parity"].strata] == ["level=1", "level=2"]


def test_rates_that_are_undefined_in_a_stratum_are_named():
    y, decided = [1, 0, 1, 0, 0, 0] * 20, [1, 0, 0, 1, 0, 0] * 20
    found = eh.audit(
        y,
        decided,
        {"sex": ["F", "F", "M", "M", "F", "M"] * 20},
        control_features={"level": ["1", "1", "1", "1", "2", "2"] * 20},
        constraint=eh.EqualOpportunity(difference=0.1, given=["level"]),
    )
    assert "equal opportunity: undefined for level=2, sex=F; level=2, sex=M" in str(found)


def test_strata_of_the_same_text_are_two():
    level = [1, "1", 2, 2] * 10
    found = eh.audit(
        None, [0, 1, 1, 0] * 10, {"sex": ["F", "F", "M", "M"] * 10}, control_features={"level": level}
    )
    assert sorted(found.strata) == ["level=1", "level=1 (2)", "level=2"]
    one, other = found.strata["level=1"], found.strata["level=1 (2)"]
    assert (one.groups[0].selected, other.groups[0].selected) == (0.0, 10.0)
