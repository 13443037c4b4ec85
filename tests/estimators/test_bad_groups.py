"""Groups that are missing, unseen, small, empty, many or overlap."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from tests.estimators.small_fits import (
    FAIR,
    FULL,
    MISSING,
    PLAIN,
    SEX,
    TABLE,
    N,
    Unfittable,
    X,
    Y,
    fair,
    fit,
    some,
)

import evenhand as eh
from evenhand.exceptions import (
    EvenhandWarning,
    GroupError,
    InputError,
    PooledGroupsWarning,
    UnseenGroupWarning,
    VacuousConstraintWarning,
)
from evenhand.groups.groups import POOLED
from evenhand.requirements import requirement

# Missing groups


@pytest.mark.parametrize("value", MISSING)
def test_a_missing_group_is_refused_and_counted(value):
    with pytest.raises(GroupError, match=r"'sex' is missing in 3 of 200 rows.*missing='category'"):
        fit(sex={"sex": some(SEX, value)})
    with pytest.raises(GroupError, match=r"'sex' is missing in 3 of 200 rows"):
        fair(sensitive_features="sex").fit(FULL.assign(sex=some(SEX, value)), Y)


@pytest.mark.parametrize("value", MISSING)
def test_missing_values_can_be_a_group_of_their_own(value):
    sex = some(SEX, value, 40)
    found = fit(sex=sex, aware=True, missing="category")
    assert found.groups_.keys == (("F",), ("M",), (None,))
    assert np.array_equal(
        found.predict(X, sensitive_features=sex), found.predict(X, sensitive_features=some(SEX, None, 40))
    )


@pytest.mark.parametrize("value", MISSING)
def test_a_group_that_is_missing_only_at_prediction_is_refused(value):
    with pytest.raises(GroupError, match="is missing in 3 of 200 rows"):
        fit(aware=True).predict(X, sensitive_features=some(SEX, value))
    with pytest.raises(GroupError, match=r"rows belong to groups not seen in fit: .*=\(missing\) \(3 rows\)"):
        fit(aware=True, missing="category").predict(X, sensitive_features=some(SEX, value))


# Unseen groups


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "decision_function"])
def test_an_unseen_group_is_refused(ask):
    found = fit(sex={"sex": SEX}, aware=True)
    with pytest.raises(
        GroupError, match=r"rows belong to groups not seen in fit: sex=X \(3 rows\).*unseen='pooled'"
    ):
        getattr(found, ask)(X, sensitive_features={"sex": some(SEX, "X")})


def test_an_unseen_group_in_a_column_of_x_is_refused():
    found = fair(sensitive_features="sex", aware=True, estimator=None).fit(FULL, Y)
    with pytest.raises(GroupError, match=r"sex=X \(200 rows\)"):
        found.predict(FULL.assign(sex="X"))


def test_unseen_groups_without_a_pooled_group_are_warned_of():
    found = fit(aware=True, unseen="pooled")
    with pytest.warns(UnseenGroupWarning, match="2 of 3 rows belong to groups that were not seen in fit"):
        found.predict(X[:3], sensitive_features=["X", "F", "Y"])


@pytest.mark.filterwarnings("ignore:200 of 200 rows belong to groups that were not seen")
def test_an_unseen_group_can_be_decided_by_the_costs_alone():
    found = fit(aware=True, unseen="pooled")
    unseen = np.full(N, "X")
    H = found.decision_function(X, sensitive_features=unseen)
    assert 0 < np.mean(H > 0) < 1
    assert np.array_equal(found.predict(X, sensitive_features=unseen), (H > 0).astype(int))
    assert np.array_equal(found.predict_proba(X, sensitive_features=unseen)[:, 1], H > 0)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
def test_an_unseen_group_is_decided_like_the_pooled_one():
    race = np.concatenate([["C"] * 4, ["D"] * 6, SEX[10:]])
    found = fit(sex=race, aware=True, unseen="pooled", min_group_size=10)
    proba = [found.predict_proba(X, sensitive_features=[name] * N) for name in ("C", "Z")]
    assert np.array_equal(*proba)


def test_a_blind_classifier_ignores_unseen_groups():
    assert np.array_equal(fit().predict(X, sensitive_features=["X"] * N), fit().predict(X))


def test_an_aware_classifier_needs_the_group():
    with pytest.raises(GroupError, match=r"is aware of sex: pass sensitive_features= here, or name columns"):
        fit(sex={"sex": SEX}, aware=True).predict(X)


# Group values of another type

CODES = (SEX == "F").astype(int)


@pytest.mark.parametrize(("old", "new"), [("int", "str"), ("str", "int"), ("bool", "str"), ("str", "bytes")])
def test_the_same_codes_of_another_type_are_refused_with_a_hint(old, new):
    found = fit(sex={"sex": CODES.astype(old)}, aware=True)
    with pytest.raises(
        GroupError, match=rf"'sex' was .* type {old} and is now .* type {new}: convert the col"
    ):
        found.predict(X, sensitive_features={"sex": CODES.astype(old).astype(new)})


def test_whole_numbers_are_the_same_as_floats():
    found = fit(sex=CODES, aware=True)
    assert np.array_equal(
        found.predict(X, sensitive_features=CODES.astype(float)), found.predict(X, sensitive_features=CODES)
    )


@pytest.mark.filterwarnings("ignore:200 of 200 rows belong to groups that were not seen")
def test_a_change_of_type_is_warned_of_even_if_unseen_groups_are_pooled():
    found = fit(sex={"sex": CODES}, aware=True, unseen="pooled")
    with pytest.warns(EvenhandWarning, match="'sex' was 0 of type int and is now '0' of type str: convert"):
        found.predict(X, sensitive_features={"sex": CODES.astype(str)})


# A single group


@pytest.mark.parametrize("aware", [False, True])
def test_a_single_group_makes_the_requirement_vacuous(aware):
    with pytest.warns(VacuousConstraintWarning, match="only one group, so every classifier satisfies"):
        found = fit(sex=["F"] * N, aware=aware, **PLAIN)
    decisions = found.predict(X, sensitive_features=["F"] * N)
    assert np.array_equal(decisions, LogisticRegression().fit(X, Y).predict(X))


# Combinations without rows


def test_a_combination_without_rows_is_listed_and_has_no_rate():
    side = np.where(SEX == "F", "x", np.where(X[:, 1] > 0, "x", "z"))
    found = fit(sex={"sex": SEX, "side": side}, aware=True)
    assert found.groups_.keys == (("F", "x"), ("M", "x"), ("M", "z"))
    assert list(found.groups_.absent()) == [("F", "z")]
    assert found.rates_.rates.shape == (3, 2)
    assert len(found.multipliers_) == 3
    with pytest.raises(GroupError, match=r"not seen in fit: sex=F, side=z \(1 row\)"):
        found.predict(X[:1], sensitive_features={"sex": ["F"], "side": ["z"]})


# Small groups


@pytest.mark.parametrize("size", [1, 2, 29])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aware": True},
        {"cv": 0.3},
        {"posterior": "joint"},
    ],
)
def test_a_small_group_is_kept(size, settings):
    sex = some(SEX, "tiny", size)
    found = fit(sex=sex, **settings)
    assert found.groups_.counts[-1] == size
    assert found.certificate_.violation < 1e-9
    assert set(found.predict(X, sensitive_features=sex)) == {0, 1}


def test_small_groups_can_be_pooled_and_are_reported():
    race = np.concatenate([["C"] * 4, ["D"] * 6, SEX[10:]])
    with pytest.warns(PooledGroupsWarning, match=r"race=C \(4 rows\); race=D \(6 rows\)"):
        found = fit(sex={"race": race}, min_group_size=10)
    assert found.groups_.keys == (("F",), ("M",), (POOLED,))
    assert found.groups_.pooled == {("C",): 4, ("D",): 6}


@pytest.mark.parametrize("size", ["ten", None, -1])
def test_a_smallest_size_that_is_not_a_number_is_refused(size):
    with pytest.raises(InputError, match=f"min_size must be a non-negative integer, got {size!r}"):
        fit(min_group_size=size)


# Groups without positives

NO_POSITIVES = np.where(SEX == "F", 0, Y)
OPPORTUNITY = eh.EqualOpportunity(difference=0.02)


def test_a_rate_of_no_rows_is_undefined_and_not_zero():
    [found] = OPPORTUNITY.measure(eh.cell_rates(NO_POSITIVES, Y, {"sex": SEX}))
    assert np.isnan(found.values[0])
    assert [str(name) for name in found.undefined] == ["sex=F"]
    assert found.difference == 0


def test_a_group_without_positives_is_left_out_of_the_requirement():
    found = fit(y=NO_POSITIVES, sex={"sex": SEX}, constraint=OPPORTUNITY)
    assert np.isnan(found.rates_.rates[0, 1])
    assert [str(name.group) for name in found.multipliers_] == ["sex=M"]


def test_groups_left_out_of_the_requirement_are_listed():
    found = fit(y=NO_POSITIVES, sex={"sex": SEX}, constraint=OPPORTUNITY)
    undefined = [str(name) for name in found.linear_constraints_.undefined]
    assert undefined == ["equal opportunity, true-positive rate: sex=F"]


@pytest.mark.parametrize("aware", [False, True])
def test_a_group_without_positives_does_not_affect_demographic_parity(aware):
    found = fit(y=NO_POSITIVES, aware=aware)
    assert len(found.multipliers_) == 2
    assert found.certificate_.violation < 1e-9


# Group names and labels that are long or collide when joined


def test_names_that_would_collide_when_joined_stay_apart():
    women = SEX == "F"
    groups = {"x": np.where(women, "a, y=b", "a"), "y": np.where(women, "c", "b, y=c")}
    found = fit(X=TABLE, sex=groups, aware=True)
    assert found.groups_.keys == (("a", "b, y=c"), ("a, y=b", "c"))
    assert found.groups_.counts.tolist() == [np.sum(~women), np.sum(women)]
    assert set(found.predict(TABLE, sensitive_features=groups)) == {0, 1}


def test_long_names_are_not_cut():
    short = fit(aware=True)
    with pytest.raises(GroupError, match=r"=Female \(\d+ rows\)"):
        short.predict(X, sensitive_features=np.where(SEX == "F", "Female", "M"))
    long = np.where(SEX == "F", "x" * 40 + "F", "x" * 40 + "M")
    found = fit(sex=long.tolist(), aware=True)
    assert np.array_equal(found.predict(X, sensitive_features=long), short.predict(X, sensitive_features=SEX))


def test_long_labels_are_predicted_in_full():
    labels = fit(y=np.where(Y, "approved after review", "no").astype(object)).predict(X)
    assert set(labels) == {"approved after review", "no"}


# Continuous sensitive features


@pytest.mark.parametrize("settings", [{}, {"aware": True}])
def test_a_continuous_feature_is_refused_with_a_usable_hint(settings):
    income = np.random.default_rng(0).normal(size=100_000)
    model = fair(sensitive_features="income", estimator=Unfittable(), **settings)
    with pytest.raises(
        GroupError, match=r"'income' has more than 200 distinct values. Put the values into a few bins"
    ) as refused:
        model.fit(pd.DataFrame({"a": income, "income": income}), np.arange(100_000) % 2)
    assert "max_levels" not in str(refused.value)  # the classifier has no such parameter


# Very many groups


def test_only_combinations_that_occur_are_groups():
    rng = np.random.default_rng(0)
    features = {f"f{k}": rng.integers(0, 2, N) for k in range(40)}
    each = eh.DemographicParity(difference=0.1, groups="independent")
    found = fit(sex=features, aware=True, constraint=each)
    assert len(found.groups_) == N
    assert len(found.multipliers_) == 80


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ManyGroupsWarning")
def test_too_many_groups_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(requirement, "_MAX_BYTES", 1 << 20)
    with pytest.raises(
        InputError, match=r"200 constraints on 200 groups need .* GiB. Pool rare groups .*min_size"
    ):
        fit(sex=np.arange(N), estimator=Unfittable(), aware=True)


# Overlapping groups


def test_overlapping_groups_and_their_intersections_can_be_required_together():
    both = FAIR & eh.DemographicParity(difference=0.05, groups="independent")
    groups = {"sex": SEX, "side": X[:, 1] > 0}
    found = fit(sex=groups, constraint=both)
    alone = fit(sex=groups)
    assert found.certificate_.violation < 1e-9
    assert found.certificate_.objective >= alone.certificate_.objective - 1e-9
    assert len(found.multipliers_) == 8
