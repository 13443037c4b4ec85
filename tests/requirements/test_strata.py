"""Control features: which groups are compared in which strata."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, UnseenGroupWarning, VacuousConstraintWarning
from evenhand.groups.strata import encode_strata, find_strata, read_strata

SEX = {"sex": ["F", "F", "F", "M", "M", "M"]}
LEVEL = {"level": ["1", "1", "2", "1", "2", "2"]}
DECIDED = [1, 0, 0, 1, 1, 0]


def test_groups_are_compared_with_their_stratum():
    counted = eh.cell_rates(None, DECIDED, SEX, control_features=LEVEL)
    one, two = eh.DemographicParity(difference=0.1, given=["level"]).measure(counted)
    assert (str(one.stratum), str(two.stratum)) == ("level=1", "level=2")
    assert one.overall == pytest.approx(2 / 3)
    assert one.values == pytest.approx([1 / 2, 1.0])
    assert two.overall == pytest.approx(1 / 3)
    assert two.values == pytest.approx([0.0, 1 / 2])
    assert one.difference == pytest.approx(1 / 3)


def test_without_given_strata_change_nothing():
    counted = eh.cell_rates(None, DECIDED, SEX, control_features=LEVEL)
    plain = eh.cell_rates(None, DECIDED, SEX)
    for notion in (eh.DemographicParity(ratio=0.8), eh.DemographicParity(difference=0.1, against="groups")):
        [one], [other] = notion.measure(counted), notion.measure(plain)
        assert one.values == pytest.approx(other.values)
        assert one.overall == pytest.approx(other.overall)
        assert one.names == other.names


def test_constraints_are_those_of_each_stratum_by_itself():
    rng = np.random.default_rng(0)
    groups = eh.Groups.product({"sex": ["F", "M"], "race": ["a", "b"]})
    strata = eh.Groups.product({"level": ["1", "2", "3"]})
    masses, rho = rng.dirichlet(np.ones(24)).reshape(3, 4, 2), rng.random((3, 4, 2))
    for mode in ("intersectional", "independent"):
        for against in ("population", "groups"):
            notion = eh.EqualizedOdds(difference=0.1, groups=mode, against=against)
            given = eh.EqualizedOdds(difference=0.1, groups=mode, against=against, given=["level"])
            found = given.linear(masses.reshape(-1, 2), groups.within(strata))
            values = found.values(rho.reshape(-1, 2))
            for k in range(3):
                alone = notion.linear(masses[k] / masses[k].sum(), groups)
                own = [j for j, name in enumerate(found.names) if name.stratum.values == (str(k + 1),)]
                assert values[own] == pytest.approx(alone.values(rho[k]), abs=1e-9)
                assert [found.names[j].group for j in own] == [name.group for name in alone.names]
            assert str(found.names[0]).endswith("given level=1")


def test_some_of_several_control_features():
    levels = {"level": ["1", "1", "2", "2"] * 2, "site": ["x", "y"] * 4}
    counted = eh.cell_rates(
        None, [1, 0, 1, 1, 0, 1, 0, 0], {"sex": list("FFFFMMMM")}, control_features=levels
    )
    [one, two] = eh.DemographicParity(difference=0.1, given=["level"]).measure(counted)
    assert one.values == pytest.approx([1 / 2, 1 / 2])
    assert two.values == pytest.approx([1.0, 0.0])
    both = eh.DemographicParity(difference=0.1, given=["site", "level"]).measure(counted)
    assert [str(found.stratum) for found in both] == [
        "site=x, level=1",
        "site=x, level=2",
        "site=y, level=1",
        "site=y, level=2",
    ]


def test_a_sensitive_feature_can_be_given():
    features = {"sex": list("FFMMFFMM"), "race": list("aabbbbaa")}
    counted = eh.cell_rates(None, [1, 0, 1, 1, 0, 0, 1, 0], features)
    for mode in ("intersectional", "independent"):
        [a, b] = eh.DemographicParity(difference=0.1, given=["race"], groups=mode).measure(counted)
        assert [str(name) for name in a.names] == ["sex=F", "sex=M"]
        assert a.values == pytest.approx([1 / 2, 1 / 2])
        assert b.values == pytest.approx([0.0, 1.0])


def test_empty_combinations_are_reported_and_have_no_rate():
    counted = eh.cell_rates(
        None, [1, 0, 1, 0], {"sex": list("FMFM")}, control_features={"level": list("1122")}
    )
    lacking = eh.cell_rates(
        None, [1, 0, 1, 1], {"sex": list("FMFF")}, control_features={"level": list("1122")}
    )
    full, part = find_strata(lacking.groups, ["level"], "intersectional")
    assert not full.empty
    assert [str(name) for name in part.empty] == ["sex=M"]
    assert [str(name) for name in part.family.names] == ["sex=F"]
    with pytest.warns(VacuousConstraintWarning, match=r"compare in 1 of 2 strata \(level=2\)"):
        _, vacuous = eh.DemographicParity(difference=0.1, given=["level"]).measure(lacking)
    assert [str(name) for name in vacuous.names] == ["sex=F"]
    assert len(eh.DemographicParity(difference=0.1, given=["level"]).measure(counted)) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("level", "given must be a list of names of control features, got 'level'"),
        ([], "given must be a list of names of control features, got \\[\\]"),
        ([3], "given must be a list of names"),
        (["level", "level"], "given names a control feature twice"),
    ],
)
def test_names_are_checked(given, said):
    with pytest.raises(InputError, match=said):
        eh.DemographicParity(difference=0.1, given=given)


def test_an_unknown_control_feature_is_named():
    counted = eh.cell_rates(None, DECIDED, SEX, control_features=LEVEL)
    with pytest.raises(GroupError, match=r"given names 'grade', .* \(there are 'level'\) nor a sensitive"):
        eh.DemographicParity(difference=0.1, given=["grade"]).measure(counted)
    with pytest.raises(GroupError, match="there are none"):
        eh.DemographicParity(difference=0.1, given=["level"]).measure(eh.cell_rates(None, DECIDED, SEX))


def test_bad_control_features_are_refused():
    with pytest.raises(GroupError, match=r"'level' is missing in 1 of 6 rows\. Drop these rows, or fill in"):
        eh.cell_rates(None, DECIDED, SEX, control_features={"level": ["1", None, "2", "1", "2", "2"]})
    pay = np.random.default_rng(0).normal(size=200)
    with pytest.raises(GroupError, match=r"'pay' has 200 different numbers, .* Band them first"):
        read_strata({"pay": pay})
    with pytest.raises(GroupError, match="'sex' is already a sensitive feature: name it in given="):
        eh.cell_rates(None, DECIDED, SEX, control_features=SEX)
    with pytest.raises(InputError, match="control_features"):
        eh.cell_rates(None, DECIDED, SEX, control_features={"level": ["1"]})
    with pytest.raises(GroupError, match="control_features has no columns"):
        read_strata({})


def test_ten_thousand_strata_are_told_before_memory_is_taken():
    groups = eh.Groups.product({"sex": ["F", "M"], "old": [0, 1]})
    strata = eh.Groups.product({"code": [f"{k}" for k in range(10_000)]})
    with pytest.raises(InputError, match=r"40,000 constraints on 40,000 groups in strata need 71.5 GiB. Put"):
        eh.DemographicParity(difference=0.1, given=["code"]).check(groups.within(strata))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_new_rows_are_put_into_the_strata_of_fit(library):
    strata, _ = read_strata(library({"level": ["1", "2"], "site": ["x", "y"]}))
    codes = encode_strata(strata, library({"site": ["y", "x"], "level": ["2", "1"]}))
    assert codes.tolist() == [1, 0]
    with pytest.raises(GroupError, match=r"1 of 2 rows belong to strata not seen in fit: level=1, site=y"):
        encode_strata(strata, library({"level": ["1", "2"], "site": ["y", "y"]}))
    with pytest.raises(GroupError, match="missing in 1 of 2 rows"):
        encode_strata(strata, library({"level": ["1", None], "site": ["x", "y"]}))


def test_unseen_strata_can_be_decided_by_costs_alone():
    strata = replace(read_strata({"level": ["1", "2"]})[0], unseen="pooled")
    with pytest.warns(UnseenGroupWarning, match="No requirement was fitted for them"):
        assert encode_strata(strata, {"level": ["2", "3"]}).tolist() == [1, -1]


def test_a_grid_search_can_set_it():
    notion = eh.DemographicParity(difference=0.1).set_params(given=["level"])
    assert notion.controls == ("level",)
    assert repr(notion) == "DemographicParity(difference=0.1, given=['level'])"
    joined = (
        notion
        & eh.RateBound("selection rate", at_most=0.2)
        & eh.EqualOpportunity(ratio=0.9, given=["site", "level"])
    )
    assert joined.controls == ("level", "site")


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.VacuousConstraintWarning")
def test_a_stratum_in_which_no_group_has_the_rate_does_no_harm():
    posteriors = np.random.default_rng(0).dirichlet(np.ones(4), 40).reshape(-1, 2, 2)
    weights = np.repeat([1.0, 0.0], 20)
    for notion in (eh.DemographicParity, eh.EqualOpportunity):
        found = eh.solve(
            posteriors,
            notion(difference=0.1, against="groups", given=["level"]),
            control_features={"level": np.repeat(["1", "2"], 20)},
            sample_weight=weights,
        )
        alone = eh.solve(posteriors[:20], notion(difference=0.1, against="groups"))
        assert found.certificate.objective == pytest.approx(alone.certificate.objective, abs=1e-9)
        assert {str(name.stratum) for name in found.linear_constraints.undefined} == {"level=2"}


def test_single_features_need_two_values_in_a_stratum():
    counted = eh.cell_rates(
        None,
        [1, 0, 1, 0, 1],
        {"sex": list("FMFMF"), "race": list("aabba")},
        control_features={"level": list("11112")},
    )
    notion = eh.DemographicParity(difference=0.1, given=["level"], groups="independent")
    with pytest.warns(VacuousConstraintWarning, match=r"1 of 2 strata \(level=2\)"):
        notion.measure(counted)
