"""Inputs that cannot be used, or only just, as a user of FairPostprocessor meets them. Numbers: the list."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.exceptions import (
    ConstantScoreWarning,
    EvenhandWarning,
    GroupError,
    InputError,
    PooledGroupsWarning,
    TrainingRowsWarning,
    UnseenGroupWarning,
    VacuousConstraintWarning,
    VisibleFeatureWarning,
)
from evenhand.fairness import notions
from evenhand.fairness.groups import POOLED

N = 200
FAIR = eh.DemographicParity(difference=0.05)
EXACT = eh.DemographicParity(difference=0.0)
PLAIN = {"average": False, "calibration": None}
MISSING = [None, float("nan"), pd.NA, pd.NaT]


def people(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    sex = np.where(rng.random(N) < 0.5, "F", "M")
    return X, sex, (X[:, 0] + 0.8 * (sex == "M") + rng.normal(size=N) > 0.4).astype(int)


X, SEX, Y = people(0)
OTHER_X, OTHER_SEX, OTHER_Y = people(1)
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
FULL = TABLE.assign(sex=SEX)
ATOMS = (X[:, :2] > 0).astype(float)
FROZEN = FrozenEstimator(LogisticRegression().fit(OTHER_X, OTHER_Y))
FROZEN_GROUP = FrozenEstimator(LogisticRegression().fit(OTHER_X, (OTHER_SEX == "M").astype(int)))


def fair(**settings):
    return eh.FairPostprocessor(
        **{"estimator": LogisticRegression(), "constraint": FAIR, "cv": 2, "group_estimator": None} | settings
    )


def fit(X=X, y=Y, sex=SEX, weights=None, **settings):
    # these are sample weights; the parameter of the same name is given to `fair`
    return fair(**settings).fit(X, y, sensitive_features=sex, sample_weight=weights)


def difference(constraint, y, decisions, sex=SEX):
    return max(found.difference for found in constraint.measure(eh.cell_rates(y, decisions, sex)))


def some(values, bad, count=3):
    """The values as objects, the first few replaced."""
    changed = np.array(values, dtype=object)
    changed[:count] = bad
    return changed


class Unfittable(LogisticRegression):
    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        raise AssertionError("work has started")


class Scores(ClassifierMixin, BaseEstimator):
    """Gives one score to the first three rows and one half to the others."""

    def __init__(self, value=0.5):
        self.value = value

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.full((len(X), 2), 0.5)
        p[:3] = 1 - self.value, self.value
        return p


class Sure(ClassifierMixin, BaseEstimator):
    """Is always sure."""

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        yes = np.asarray(X)[:, 0] > 0
        return np.column_stack([~yes, yes]).astype(float)


# 1


@pytest.mark.parametrize("classes", [("no", "yes"), (-1, 1), (False, True), (1, 2)])
def test_any_two_labels_are_learned_and_given_back(column, classes):
    y = column([classes[label] for label in Y])
    found = fit(y=y)
    assert found.classes_.tolist() == list(classes)
    assert np.array_equal(found.predict(X) == classes[1], fit().predict(X) == 1)


def test_the_positive_label_can_be_stated():
    y = np.where(Y, "approve", "deny")
    found = fit(y=y, pos_label="approve")
    assert found.classes_.tolist() == ["approve", "deny"]
    assert found.pos_label_ == "approve"
    assert np.array_equal(found.predict(X) == "approve", fit().predict(X) == 1)
    with pytest.raises(InputError, match=r"pos_label='aprove' is not a value of y, which has \('approve', "):
        fit(y=y, pos_label="aprove")


def test_labels_of_two_types_need_a_positive_one():
    y = [1 if label else "1" for label in Y]
    with pytest.raises(InputError, match=r"y has values of two types.*say which is positive with pos_label"):
        fit(y=y)
    found = fit(y=y, pos_label=1)
    assert found.classes_.tolist() == [1, "1"]
    assert found.pos_label_ == 1


# 2


def test_one_class_is_refused_and_named():
    with pytest.raises(InputError, match=r"y has only one class \('yes'\), and two are needed"):
        fit(y=["yes"] * N)


def test_one_class_among_the_rows_that_count_is_refused():
    with pytest.raises(InputError, match="y has only one class where sample_weight is not 0"):
        fit(weights=Y)


# 3


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.arange(N) % 3, r"multiclass. y has 3 classes \(0, 1, 2\)"),
        (X[:, 0], "y has more than 100 distinct values. A label needs exactly two.*continuous"),
        (X[:, 0].round(1), r"continuous\. y holds numbers such as -\d"),
        (np.column_stack([Y, Y]), r"y should be one column, but has shape \(200, 2\)"),
    ],
)
def test_labels_that_are_not_binary_are_refused_by_type(y, message):
    with pytest.raises(InputError, match=message):
        fit(y=y)


# 4


@pytest.mark.parametrize("value", MISSING[:3])
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_missing_labels_are_refused_and_counted(kind, value):
    with pytest.raises(InputError, match=r"y is missing in 3 of 200 rows. Fill in or drop them"):
        fit(y=kind(some(Y, value)))


def test_a_classifier_needs_labels():
    with pytest.raises(InputError, match="requires y to be passed"):
        fit(y=None)


# 5


def test_unequal_lengths_are_all_listed():
    with pytest.raises(
        InputError, match="X has 200, y has 199, sensitive_features has 198, sample_weight has 197"
    ):
        fit(y=Y[1:], sex=SEX[2:], weights=np.ones(N - 3))


def test_a_sensitive_column_that_is_too_short_is_named():
    with pytest.raises(InputError, match=r"X has 200, y has 200, sensitive_features\['sex'\] has 199"):
        fit(sex={"sex": SEX[1:]})


def test_unequal_lengths_are_listed_at_prediction():
    found = fit(sex={"sex": SEX}, aware=True)
    with pytest.raises(InputError, match=r"X has 200, sensitive_features\['sex'\] has 199"):
        found.predict(X, sensitive_features={"sex": SEX[1:]})


def test_a_function_that_gives_too_few_groups_is_refused():
    with pytest.raises(InputError, match=r"differ in their number of rows: X has 200.*has 199"):
        fair(sensitive_features=lambda _: {"sex": SEX[1:]}).fit(X, Y)


def test_unequal_lengths_are_listed_when_scoring():
    with pytest.raises(InputError, match="X has 200, y has 199"):
        fit().score(X, Y[1:])


# 6


@pytest.mark.parametrize(
    "kind", [np.asarray, sparse.csr_array, pd.DataFrame, pl.DataFrame, lambda x: pa.table(pd.DataFrame(x))]
)
def test_a_table_without_rows_is_refused(kind):
    with pytest.raises(ValueError, match=r"X has no rows|Found array with 0 sample\(s\)"):
        fit(X=kind(X[:0]), y=Y[:0], sex=SEX[:0])


@pytest.mark.parametrize("table", [TABLE[:0], FULL[:0]])
def test_a_table_without_rows_is_refused_at_prediction(table):
    found = fair(sensitive_features="sex").fit(FULL, Y)
    with pytest.raises(InputError, match="X has no rows"):
        found.predict(table)


@pytest.mark.parametrize("table", [X[:, :0], TABLE[[]]])
def test_a_table_without_columns_is_refused(table):
    with pytest.raises(ValueError, match=r"X has no columns|0 feature\(s\)"):
        fit(X=table)


def test_a_table_of_nothing_but_sensitive_columns_is_refused():
    with pytest.raises(InputError, match="no columns beside the sensitive ones"):
        fair(sensitive_features="sex").fit(FULL[["sex"]], Y)


# 7


@pytest.mark.parametrize("name", ["y", "sex", "weights"])
def test_pandas_indexes_that_disagree_are_refused(name):
    column = {"y": Y, "sex": SEX, "weights": np.ones(N)}[name]
    with pytest.raises(InputError, match=r"X and .* have different pandas indexes.*call .reset_index"):
        fit(**{"X": TABLE, name: pd.Series(column)[::-1]})


def test_rows_in_any_order_are_fine_if_their_indexes_agree():
    found = fit(X=TABLE[::-1], y=pd.Series(Y)[::-1], sex=pd.Series(SEX)[::-1])
    assert found.predict(TABLE[::-1]).shape == (N,)


def test_pandas_indexes_that_disagree_are_refused_at_prediction():
    found = fit(X=TABLE, aware=True)
    with pytest.raises(InputError, match="different pandas indexes"):
        found.predict(TABLE, sensitive_features=pd.Series(SEX)[::-1])


def test_the_index_of_what_a_function_gives_must_agree():
    with pytest.raises(InputError, match="different pandas indexes"):
        fair(sensitive_features=lambda _: pd.Series(SEX)[::-1]).fit(TABLE, Y)


def test_pandas_indexes_that_disagree_are_refused_when_scoring():
    with pytest.raises(InputError, match="X and y have different pandas indexes"):
        fit(X=TABLE).score(TABLE, pd.Series(Y)[::-1])


# 8

TWICE = TABLE.set_axis(["a", "a", "c"], axis=1)


@pytest.mark.parametrize("table", [TWICE, pa.table([X[:, 0], X[:, 1]], names=["a", "a"])])
def test_columns_of_the_same_name_are_refused(table):
    with pytest.raises(InputError, match=r"X has columns of the same name: a. Rename them"):
        fit(X=table)


def test_columns_of_the_same_name_are_refused_at_prediction():
    with pytest.raises(InputError, match=r"X has columns of the same name: a. Rename them"):
        fit(X=TABLE).predict(TWICE)


def test_sensitive_columns_of_the_same_name_are_refused():
    sex = pd.DataFrame(np.column_stack([SEX, SEX]), columns=["sex", "sex"])
    with pytest.raises(
        InputError, match=r"sensitive_features has columns of the same name: sex. Rename them"
    ):
        fit(sex=sex)


@pytest.mark.parametrize(("table", "where"), [(FULL, ["sex", "sex"]), (X.round(), [0, -3])])
def test_a_sensitive_column_named_twice_is_refused(table, where):
    with pytest.raises(GroupError, match="twice"):
        fair(sensitive_features=where).fit(table, Y)


def test_a_column_named_like_an_added_one_is_another_column():
    renamed = TABLE.rename(columns={"a": "known_group_0"})
    decisions = [
        fit(X=table, sex={"sex": SEX}, aware=True).predict(table, sensitive_features=SEX)
        for table in (TABLE, renamed)
    ]
    assert np.array_equal(*decisions)


# 9


@pytest.mark.parametrize("kind", [lambda table: table, pl.from_pandas, pa.table])
def test_another_order_of_columns_is_refused_at_prediction(kind):
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        fit(X=kind(TABLE)).predict(kind(TABLE[["b", "a", "c"]]))


def test_other_columns_are_refused_at_prediction():
    with pytest.raises(ValueError, match="unseen at fit time:\n- z\nFeature names seen at fit time, yet now"):
        fit(X=TABLE).predict(TABLE.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="X has 2 features, but FairPostprocessor is expecting 3"):
        fit().predict(X[:, :2])


def test_a_column_that_may_not_be_used_need_not_be_there_at_prediction():
    found = fair(sensitive_features="sex").fit(FULL, Y)
    assert np.array_equal(found.predict(TABLE), found.predict(FULL))


def test_another_order_is_named_even_if_a_hidden_column_is_not_there():
    found = fair(sensitive_features="sex").fit(FULL, Y)
    with pytest.raises(ValueError, match="in the same order as they were in fit"):
        found.predict(TABLE[["b", "a", "c"]])


def test_a_sensitive_column_that_is_not_in_the_table_is_named():
    with pytest.raises(GroupError, match=r"X has no column 'sx'.* Did you mean 'sex'\?"):
        fair(sensitive_features="sx").fit(FULL, Y)


# 10


def read_only(values):
    values = np.array(values)
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    "kind",
    [
        read_only,
        np.asfortranarray,
        np.ndarray.tolist,
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
        lambda x: pd.DataFrame(x, columns=["a", "b", "c"]),
        lambda x: pl.DataFrame(x, schema=["a", "b", "c"]),
        lambda x: pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}),
    ],
)
@pytest.mark.parametrize("aware", [False, True])
def test_every_kind_of_table_gives_the_same_decisions(kind, aware):
    expected = fit(aware=aware).predict(X, sensitive_features=SEX)
    found = fit(X=kind(X), aware=aware).predict(kind(X), sensitive_features=SEX)
    assert np.array_equal(found, expected)


def test_read_only_columns_are_supported():
    fit(y=read_only(Y), sex=read_only(SEX), weights=read_only(np.ones(N)))


def test_sensitive_features_of_every_kind_give_the_same_decisions(table):
    assert np.array_equal(fit(sex=table({"sex": SEX.tolist()})).predict(X), fit().predict(X))


@pytest.mark.parametrize("name", ["X", "sex"])
def test_a_lazy_table_is_refused_with_a_hint(name):
    with pytest.raises(InputError, match=r"is a lazy table; call .collect"):
        fit(**{name: pl.DataFrame({"sex": SEX}).lazy()})


@pytest.mark.parametrize("name", ["y", "sex", "weights"])
def test_sparse_columns_are_refused(name):
    what = {"sex": "sensitive_features", "weights": "sample_weight"}.get(name, name)
    with pytest.raises(
        InputError, match=f"{what} should be a column, an array or a table, but is of type csr"
    ):
        fit(**{name: sparse.csr_array(Y[:, None])})


@pytest.mark.parametrize("name", ["X", "y", "sex", "weights"])
def test_masked_values_are_refused_and_counted(name):
    values = {"X": X, "y": Y, "sex": SEX, "weights": np.ones(N)}[name]
    mask = np.zeros(values.shape, dtype=bool)
    mask[:3] = True
    with pytest.raises(InputError, match=rf"has {mask.sum()} masked values. Fill them in or drop them"):
        fit(**{name: np.ma.array(values, mask=mask)})


# 11


@pytest.mark.parametrize("aware", [False, True])
def test_a_row_twice_is_the_same_as_weight_two(aware):
    times = np.random.default_rng(0).integers(1, 4, N)
    rows = np.repeat(np.arange(N), times)
    settings = {"estimator": FROZEN, "group_estimator": FROZEN_GROUP, "aware": aware}
    weighted = fit(weights=times, **settings)
    repeated = fit(X[rows], Y[rows], SEX[rows], **settings)
    assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, abs=1e-7)
    assert np.allclose(weighted.rates_.masses, repeated.rates_.masses)


# 12


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (some(np.ones(N), -1.0), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (some(np.ones(N), np.nan), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (some(np.ones(N), np.inf), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (np.zeros(N), "sample_weight is zero in every row"),
        (some(np.ones(N), None), "sample_weight should be numbers, none of them missing"),
        (["1"] * N, "sample_weight should be numbers"),
        (np.ones((N, 2)), r"sample_weight should be one column, but has shape \(200, 2\)"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        fit(weights=weights)


@pytest.mark.parametrize(("where", "inner", "outer"), [("both", 1, 1), ("fit", 1, 0), ("constraint", 0, 1)])
def test_weights_reach_the_inner_fit_and_the_optimiser(where, inner, outer):
    heavy = np.where(X[:, 1] > 0, 9.0, 1.0)
    model = fair(weights=where, aware=True, **PLAIN).fit(
        TABLE, Y, sensitive_features=SEX, sample_weight=heavy
    )
    marked = np.column_stack([X, SEX == "F", SEX == "M"])
    expected = LogisticRegression().fit(marked, Y, sample_weight=heavy**inner)
    assert np.allclose(model.posterior_model_.label.model.coef_, expected.coef_, atol=1e-3)
    share = np.average(SEX == "F", weights=heavy**outer)
    assert model.rates_.masses[0].sum() == pytest.approx(share)


# 13


@pytest.mark.parametrize("value", MISSING)
def test_a_missing_group_is_refused_and_counted(value):
    with pytest.raises(GroupError, match=r"'sex' is missing in 3 of 200 rows.*missing='own_group'"):
        fit(sex={"sex": some(SEX, value)})
    with pytest.raises(GroupError, match=r"'sex' is missing in 3 of 200 rows"):
        fair(sensitive_features="sex").fit(FULL.assign(sex=some(SEX, value)), Y)


@pytest.mark.parametrize("value", MISSING)
def test_a_missing_group_is_a_group_of_its_own_on_request(value):
    sex = some(SEX, value, 40)
    found = fit(sex=sex, aware=True, missing="own_group")
    assert found.groups_.keys == (("F",), ("M",), (None,))
    assert np.array_equal(
        found.predict(X, sensitive_features=sex), found.predict(X, sensitive_features=some(SEX, None, 40))
    )


@pytest.mark.parametrize("value", MISSING)
def test_a_group_first_missing_at_prediction_is_refused(value):
    with pytest.raises(GroupError, match="is missing in 3 of 200 rows"):
        fit(aware=True).predict(X, sensitive_features=some(SEX, value))
    with pytest.raises(GroupError, match=r"3 rows were not there at fit: .*=\(missing\) \(3 rows\)"):
        fit(aware=True, missing="own_group").predict(X, sensitive_features=some(SEX, value))


# 14


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "decision_function"])
def test_a_group_that_was_not_there_at_fit_is_refused(ask):
    found = fit(sex={"sex": SEX}, aware=True)
    with pytest.raises(GroupError, match=r"3 rows were not there at fit: sex=X \(3 rows\).*unseen='pooled'"):
        getattr(found, ask)(X, sensitive_features={"sex": some(SEX, "X")})


def test_a_group_in_the_table_that_was_not_there_at_fit_is_refused():
    found = fair(sensitive_features="sex", aware=True, estimator=None).fit(FULL, Y)
    with pytest.raises(GroupError, match=r"sex=X \(200 rows\)"):
        found.predict(FULL.assign(sex="X"))


def test_unseen_groups_without_a_pooled_group_are_told():
    found = fit(aware=True, unseen="pooled")
    with pytest.warns(UnseenGroupWarning, match="2 of 3 rows belong to groups that were not seen in fit"):
        found.predict(X[:3], sensitive_features=["X", "F", "Y"])


@pytest.mark.filterwarnings("ignore:200 of 200 rows belong to groups that were not seen")
def test_a_group_that_was_not_there_is_decided_by_the_costs_on_request():
    found = fit(aware=True, unseen="pooled")
    strangers = np.full(N, "X")
    H = found.decision_function(X, sensitive_features=strangers)
    assert 0 < np.mean(H > 0) < 1
    assert np.array_equal(found.predict(X, sensitive_features=strangers), (H > 0).astype(int))
    assert np.array_equal(found.predict_proba(X, sensitive_features=strangers)[:, 1], H > 0)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
def test_a_group_that_was_not_there_is_decided_like_the_pooled_one():
    race = np.concatenate([["C"] * 4, ["D"] * 6, SEX[10:]])
    found = fit(sex=race, aware=True, unseen="pooled", min_group_size=10)
    proba = [found.predict_proba(X, sensitive_features=[name] * N) for name in ("C", "Z")]
    assert np.array_equal(*proba)


def test_a_blind_classifier_does_not_look_at_new_groups():
    assert np.array_equal(fit().predict(X, sensitive_features=["X"] * N), fit().predict(X))


def test_an_aware_classifier_asks_for_the_group():
    with pytest.raises(GroupError, match=r"is aware of sex: pass sensitive_features= here, or name columns"):
        fit(sex={"sex": SEX}, aware=True).predict(X)


# 15

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
def test_a_change_of_type_is_told_even_if_new_groups_are_pooled():
    found = fit(sex={"sex": CODES}, aware=True, unseen="pooled")
    with pytest.warns(EvenhandWarning, match="'sex' was 0 of type int and is now '0' of type str: convert"):
        found.predict(X, sensitive_features={"sex": CODES.astype(str)})


# 16


@pytest.mark.parametrize("aware", [False, True])
def test_one_group_alone_is_vacuous_and_decided_by_the_plain_rule(aware):
    with pytest.warns(VacuousConstraintWarning, match="only one group, so every classifier satisfies"):
        found = fit(sex=["F"] * N, aware=aware, **PLAIN)
    decisions = found.predict(X, sensitive_features=["F"] * N)
    assert np.array_equal(decisions, LogisticRegression().fit(X, Y).predict(X))


# 17


def test_a_combination_without_rows_is_listed_and_has_no_rate():
    side = np.where(SEX == "F", "x", np.where(X[:, 1] > 0, "x", "z"))
    found = fit(sex={"sex": SEX, "side": side}, aware=True)
    assert found.groups_.keys == (("F", "x"), ("M", "x"), ("M", "z"))
    assert list(found.groups_.absent()) == [("F", "z")]
    assert found.rates_.rates.shape == (3, 2)
    assert len(found.multipliers_) == 3
    with pytest.raises(GroupError, match=r"not there at fit: sex=F, side=z \(1 rows\)"):
        found.predict(X[:1], sensitive_features={"sex": ["F"], "side": ["z"]})


# 18


@pytest.mark.parametrize("size", [1, 2, 29])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aware": True},
        {"holdout": 0.3},
        {"posterior": "group_then_label"},
        {"posterior": "joint"},
    ],
)
def test_a_small_group_is_kept(size, settings):
    sex = some(SEX, "tiny", size)
    found = fit(sex=sex, **settings)
    assert found.groups_.counts[-1] == size
    assert found.predict(X, sensitive_features=sex).shape == (N,)


def test_small_groups_are_pooled_on_request_and_reported():
    race = np.concatenate([["C"] * 4, ["D"] * 6, SEX[10:]])
    with pytest.warns(PooledGroupsWarning, match=r"race=C \(4 rows\); race=D \(6 rows\)"):
        found = fit(sex={"race": race}, min_group_size=10)
    assert found.groups_.keys == (("F",), ("M",), (POOLED,))
    assert found.groups_.pooled == {("C",): 4, ("D",): 6}


@pytest.mark.parametrize("size", ["ten", None, -1])
def test_a_smallest_size_that_is_no_number_is_refused(size):
    with pytest.raises(InputError, match=f"min_group_size should be .*, but is {size!r}"):
        fit(min_group_size=size)


# 19

NO_POSITIVES = np.where(SEX == "F", 0, Y)
OPPORTUNITY = eh.EqualOpportunity(difference=0.02)


def test_a_rate_of_nobody_is_undefined_and_not_zero():
    [found] = OPPORTUNITY.measure(eh.cell_rates(NO_POSITIVES, Y, {"sex": SEX}))
    assert np.isnan(found.values[0])
    assert [str(name) for name in found.undefined] == ["sex=F"]
    assert found.difference == 0


def test_a_group_without_positives_is_left_out_of_the_requirement():
    found = fit(y=NO_POSITIVES, sex={"sex": SEX}, constraint=OPPORTUNITY)
    assert np.isnan(found.rates_.rates[0, 1])
    assert [str(name.group) for name in found.multipliers_] == ["sex=M"]


def test_what_is_left_out_of_the_requirement_is_said():
    found = fit(y=NO_POSITIVES, sex={"sex": SEX}, constraint=OPPORTUNITY)
    undefined = [str(name) for name in found.linear_constraints_.undefined]
    assert undefined == ["equal opportunity, true-positive rate: sex=F"]


@pytest.mark.parametrize("aware", [False, True])
def test_a_group_without_positives_is_no_matter_to_demographic_parity(aware):
    found = fit(y=NO_POSITIVES, aware=aware)
    assert len(found.multipliers_) == 2
    assert found.certificate_.violation < 1e-9


# 20, 21


def test_names_that_would_collide_when_joined_stay_apart():
    women = SEX == "F"
    groups = {"x": np.where(women, "a, y=b", "a"), "y": np.where(women, "c", "b, y=c")}
    found = fit(X=TABLE, sex=groups, aware=True)
    assert found.groups_.keys == (("a", "b, y=c"), ("a, y=b", "c"))
    assert found.groups_.counts.tolist() == [np.sum(~women), np.sum(women)]
    assert found.predict(TABLE, sensitive_features=groups).shape == (N,)


def test_long_names_are_not_cut():
    short = fit(aware=True)
    with pytest.raises(GroupError, match=r"=Female \(\d+ rows\)"):
        short.predict(X, sensitive_features=np.where(SEX == "F", "Female", "M"))
    long = np.where(SEX == "F", "x" * 40 + "F", "x" * 40 + "M")
    found = fit(sex=long.tolist(), aware=True)
    assert np.array_equal(found.predict(X, sensitive_features=long), short.predict(X, sensitive_features=SEX))


def test_long_labels_are_given_back_whole():
    labels = fit(y=np.where(Y, "approved after review", "no").astype(object)).predict(X)
    assert set(labels) == {"approved after review", "no"}


# 22


@pytest.mark.parametrize("settings", [{}, {"aware": True}])
def test_a_continuous_feature_is_refused_with_a_hint_that_can_be_followed(settings):
    income = np.random.default_rng(0).normal(size=100_000)
    model = fair(sensitive_features="income", estimator=Unfittable(), **settings)
    with pytest.raises(
        GroupError, match=r"'income' has more than 200 distinct values. Put the values into a few bins"
    ) as refused:
        model.fit(pd.DataFrame({"a": income, "income": income}), np.arange(100_000) % 2)
    assert "max_levels" not in str(refused.value)  # the classifier has no such parameter


# 23


def test_only_combinations_that_occur_are_groups():
    rng = np.random.default_rng(0)
    features = {f"f{k}": rng.integers(0, 2, N) for k in range(40)}
    each = eh.DemographicParity(difference=0.1, groups="independent")
    found = fit(sex=features, aware=True, constraint=each)
    assert len(found.groups_) == N
    assert len(found.multipliers_) == 80


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ManyGroupsWarning")
def test_too_many_groups_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(notions, "_MOST_BYTES", 1 << 20)
    with pytest.raises(
        InputError, match=r"200 constraints on 200 groups need .* GiB. Pool rare groups .*min_group_size"
    ):
        fit(sex=np.arange(N), estimator=Unfittable(), aware=True)


# 24


def test_overlapping_groups_and_their_intersections_are_held_together():
    both = FAIR & eh.DemographicParity(difference=0.05, groups="independent")
    groups = {"sex": SEX, "side": X[:, 1] > 0}
    found = fit(sex=groups, constraint=both)
    alone = fit(sex=groups)
    assert found.certificate_.violation < 1e-9
    assert found.certificate_.objective >= alone.certificate_.objective - 1e-9
    assert len(found.multipliers_) == 8


# 25


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("aware", [False, True])
def test_scores_that_are_no_probabilities_are_refused_and_counted(score, aware):
    with pytest.raises(InputError, match=r"probabilities of Scores are NaN, outside \[0, 1\] .* in 3 of 100"):
        fit(estimator=Scores(score), group_estimator=LogisticRegression(), aware=aware)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_scores_that_are_no_probabilities_are_refused_at_prediction():
    found = fit(estimator=FrozenEstimator(Scores(0.6).fit(X, Y)), aware=True, **PLAIN)
    found.posterior_model_.label.model.estimator.value = float("nan")
    with pytest.raises(InputError, match=r"probabilities of Scores are NaN.* in 3 of 200 rows"):
        found.predict(X, sensitive_features=SEX)


def test_predictions_that_are_no_probabilities_are_refused_and_counted():
    with pytest.raises(InputError, match=r"y_pred has 3 of 200 probabilities that are NaN or outside \[0, 1"):
        eh.cell_rates(Y, some(np.full(N, 0.5), 1.2).astype(float), SEX)


# 26

CONSTANT = DummyClassifier(strategy="prior")


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.TrainingRowsWarning")
@pytest.mark.parametrize("estimator", [CONSTANT, FrozenEstimator(CONSTANT.fit(OTHER_X, OTHER_Y))])
@pytest.mark.parametrize("aware", [False, True])
def test_constant_scores_are_warned_of(estimator, aware):
    with pytest.warns(ConstantScoreWarning, match="decisions can only be randomised"):
        found = fit(estimator=estimator, group_estimator=CONSTANT, aware=aware)
    assert found.certificate_.violation < 1e-9


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantScoreWarning")
@pytest.mark.parametrize("aware", [False, True])
def test_features_that_tell_nothing_get_a_feasible_answer_by_lot(aware):
    alike, constraint = np.ones((N, 1)), eh.AccuracyParity(difference=0.0)
    found = fit(X=alike, constraint=constraint, aware=aware)
    chances = found.predict_proba(alike, sensitive_features=SEX)[:, 1]
    assert ((chances > 0) & (chances < 1)).any()
    assert difference(constraint, Y, chances) < 0.02


# 27

TIED = np.column_stack([ATOMS, np.arange(N)])  # four scores, but no two people alike
FROZEN_TIES = FrozenEstimator(
    LogisticRegression().fit(np.column_stack([OTHER_X[:, :2] > 0, 0 * OTHER_Y]), OTHER_Y)
)


def test_ties_are_one_cell_with_one_chance():
    found = fit(X=TIED, estimator=FROZEN_TIES, constraint=EXACT, aware=True)
    chances = found.predict_proba(TIED, sensitive_features=SEX)[:, 1]
    mixed = (chances > 1e-9) & (chances < 1 - 1e-9)
    assert len(np.unique(chances[mixed])) == 1
    assert len(np.unique(TIED[mixed, :2], axis=0)) == 1
    assert difference(EXACT, Y, chances) < 1e-9


def test_ties_of_cross_fitted_scores_are_one_cell_with_one_chance():
    found = fit(X=ATOMS, constraint=EXACT, aware=True)
    chances = found.predict_proba(ATOMS, sensitive_features=SEX)[:, 1]
    assert difference(EXACT, Y, chances) < 0.01


@pytest.mark.parametrize("seed", [0, None])
def test_a_person_always_gets_the_same_answer(seed):
    found = fit(X=TIED, estimator=FROZEN_TIES, constraint=EXACT, aware=True, random_state=seed)
    first = found.predict(TIED, sensitive_features=SEX)
    chances = found.predict_proba(TIED, sensitive_features=SEX)[:, 1]
    mixed = (chances > 1e-9) & (chances < 1 - 1e-9)
    assert mixed.any()
    if seed is not None:  # otherwise one draw in a hundred or so gives everyone the same
        assert 0 < first[mixed].mean() < 1
    turned = np.random.default_rng(0).permutation(N)
    assert np.array_equal(found.predict(TIED, sensitive_features=SEX), first)
    assert np.array_equal(found.predict(TIED[turned], sensitive_features=SEX[turned]), first[turned])
    alone = [found.predict(TIED[[k]], sensitive_features=SEX[[k]])[0] for k in np.flatnonzero(mixed)]
    assert alone == first[mixed].tolist()


def test_the_same_seed_draws_the_same_lots():
    one, two = (fit(X=ATOMS, constraint=EXACT, aware=True, random_state=3) for _ in range(2))
    assert np.array_equal(
        one.predict(ATOMS, sensitive_features=SEX), two.predict(ATOMS, sensitive_features=SEX)
    )


# 28


@pytest.mark.parametrize("aware", [False, True])
def test_scores_of_exactly_zero_and_one_are_solved(notion, aware):
    found = fit(
        estimator=Sure(),
        group_estimator=LogisticRegression(),
        constraint=notion(difference=0.02),
        aware=aware,
    )
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("positives", [1, 2])
def test_a_label_that_hardly_occurs_is_solved(positives, aware):
    y = (np.arange(N) < positives).astype(int)
    found = fit(y=y, constraint=eh.EqualizedOdds(difference=0.02), aware=aware)
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9


@pytest.mark.parametrize("share", [1e-3, 1e-6])
def test_a_group_of_little_weight_is_held_to_its_bound(share):
    strict = eh.DemographicParity(difference=0.01)
    found = fit(estimator=FROZEN, weights=np.where(SEX == "F", share, 1.0), constraint=strict, aware=True)
    [measured] = strict.measure(found.rates_)
    assert measured.difference <= 0.01 + 1e-9


# 29


@pytest.mark.parametrize("aware", [False, True])
def test_the_certificate_is_about_the_scores_and_calibration_brings_them_to_the_data(aware):
    sure = {"estimator": FrozenEstimator(Sure().fit(X, Y)), "group_estimator": FROZEN_GROUP, "aware": aware}
    loose = eh.DemographicParity(difference=0.5)
    believed, calibrated = (fit(**sure, constraint=loose, calibration=how) for how in (None, "sigmoid"))
    errors = [1 - model.score(X, Y, sensitive_features=SEX) for model in (believed, calibrated)]
    assert believed.certificate_.objective == pytest.approx(believed.rates_.risk(), abs=1e-9)
    assert 2 * believed.certificate_.objective < 0.01
    assert errors[0] > 0.2
    assert 2 * calibrated.certificate_.objective == pytest.approx(errors[1], abs=0.02)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic", "binning"])
@pytest.mark.parametrize("aware", [False, True, ["sex"]])
def test_scores_can_be_calibrated_whatever_is_known_of_the_group(calibration, aware):
    groups = {"sex": SEX, "side": X[:, 1] > 0}
    found = fit(sex=groups, calibration=calibration, aware=aware)
    assert found.predict(X, sensitive_features=groups).shape == (N,)


# 30


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        DecisionTreeClassifier(random_state=0),
        KNeighborsClassifier(1),
        RandomForestClassifier(20, random_state=0),
    ],
)
@pytest.mark.parametrize("aware", [False, True])
def test_a_frozen_model_that_was_fitted_to_the_same_rows_is_warned_of(model, aware):
    with pytest.warns(TrainingRowsWarning, match="fitted to these rows.*fit with rows that it has not seen"):
        fit(estimator=FrozenEstimator(model.fit(X, Y)), group_estimator=LogisticRegression(), aware=aware)


@pytest.mark.parametrize("aware", [False, True])
def test_a_frozen_model_of_other_rows_stays_as_it_is(aware):
    before = FROZEN.coef_.copy()
    fit(estimator=FROZEN, group_estimator=LogisticRegression(), aware=aware)
    assert np.array_equal(FROZEN.coef_, before)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic", "binning"])
@pytest.mark.parametrize("aware", [False, True])
def test_calibration_does_not_make_a_frozen_model_look_as_if_it_had_seen_the_rows(calibration, aware):
    fit(estimator=FROZEN, group_estimator=FROZEN_GROUP, calibration=calibration, aware=aware)


def test_a_frozen_model_that_was_fitted_to_sensitive_columns_is_told_what_to_do():
    other = pd.DataFrame(OTHER_X, columns=["a", "b", "c"]).assign(male=1.0 * (OTHER_SEX == "M"))
    model = FrozenEstimator(LogisticRegression().fit(other, OTHER_Y))
    table = TABLE.assign(male=1.0 * (SEX == "M"))
    with pytest.raises(InputError, match=r"fitted to all columns of X, 'male' included.*pass the sensitive"):
        fair(estimator=model, sensitive_features=["male"]).fit(table, Y)
    fair(estimator=model, sensitive_features=["male"], aware=True).fit(table, Y)
    with pytest.warns(VisibleFeatureWarning, match="A frozen model cannot be fitted again without it"):
        fair(estimator=model).fit(table, Y, sensitive_features=table[["male"]])


class NoEstimator:
    """Has all methods of a classifier, and none of scikit-learn's own."""

    classes_ = np.array([0, 1])

    def fit(self, *_):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("estimator", [NoEstimator(), FrozenEstimator(NoEstimator())])
def test_an_object_that_is_no_estimator_of_scikit_learn_is_one_sentence(estimator):
    with pytest.raises(InputError, match=r"NoEstimator, which is no scikit-learn classifier: derive it from"):
        fit(estimator=estimator)


def test_a_frozen_model_must_be_fitted():
    with pytest.raises(NotFittedError, match="LogisticRegression instance is not fitted yet"):
        fit(estimator=FrozenEstimator(LogisticRegression()))


def test_a_frozen_model_of_other_labels_is_refused():
    other = FrozenEstimator(LogisticRegression().fit(OTHER_X, np.where(OTHER_Y, "a", "b")))
    with pytest.raises(
        InputError,
        match=r"frozen LogisticRegression has the classes \['a', 'b'\], where \['no', 'yes'\] were expected",
    ):
        fit(y=np.where(Y, "yes", "no"), estimator=other, aware=True)


def test_a_frozen_model_of_the_label_is_no_model_of_group_and_label():
    with pytest.raises(InputError, match=r"has the classes \[0, 1\], where \[0, 1, 2, 3\] were expected"):
        fit(estimator=FROZEN, posterior="joint")


def test_a_frozen_model_of_too_few_groups_is_refused():
    three = np.array(["a", "b", "c"])[np.arange(N) % 3]
    with pytest.raises(InputError, match=r"has the classes \[0, 1\], where \[0, 1, 2\] were expected"):
        fit(sex=three, group_estimator=FROZEN_GROUP)


# 31


@pytest.mark.parametrize(
    "model",
    [LinearSVC(), make_pipeline(StandardScaler(), LinearSVC()), FrozenEstimator(LinearSVC().fit(X, Y))],
)
def test_a_model_without_probabilities_is_refused(model):
    with pytest.raises(InputError, match=r"estimator \w+ has no predict_proba.*CalibratedClassifierCV"):
        fit(estimator=model)


def test_a_group_model_without_probabilities_is_refused_before_any_work():
    with pytest.raises(InputError, match="group_estimator LinearSVC has no predict_proba"):
        fit(estimator=Unfittable(), group_estimator=LinearSVC())


@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())]
)
@pytest.mark.parametrize("role", ["estimator", "group_estimator"])
def test_a_model_that_takes_no_weights_is_refused_before_any_work(model, role):
    models = {"estimator": Unfittable(), "group_estimator": Unfittable()} | {role: model}
    with pytest.raises(InputError, match=rf"^{role} \w+ does not take sample_weight.*weights='constraint'"):
        fit(weights=np.ones(N), **models)


def test_a_model_that_takes_no_weights_serves_where_none_reach_it():
    model = fair(estimator=KNeighborsClassifier(), weights="constraint")
    model.fit(X, Y, sensitive_features=SEX, sample_weight=np.ones(N))
    fit(estimator=KNeighborsClassifier())


def test_balance_by_weights_needs_a_model_that_takes_them():
    with pytest.raises(InputError, match=r"does not take sample_weight in fit.*balance='upsample'"):
        fit(estimator=KNeighborsClassifier(), balance="weight")


@pytest.mark.parametrize("model", [LogisticRegression, "logistic", 3])
@pytest.mark.parametrize("role", ["estimator", "group_estimator"])
def test_what_is_no_model_is_refused(model, role):
    with pytest.raises(InputError, match=f"^{role} should be a scikit-learn classifier, but is "):
        fit(**{role: model})


# 32


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), 1.5, float("inf"), "0.1", True])
@pytest.mark.parametrize("measure", ["difference", "ratio"])
def test_a_tolerance_outside_zero_and_one_is_refused(measure, tolerance):
    message = f"DemographicParity: {measure} should be a number from 0 to 1, but is {tolerance!r}"
    with pytest.raises(InputError, match=message):
        eh.DemographicParity(**{measure: tolerance})
    with pytest.raises(InputError, match=message):
        fair(constraint=eh.DemographicParity(**{measure: 0.5})).set_params(
            **{f"constraint__{measure}": tolerance}
        )


def test_a_tolerance_assigned_later_is_refused_before_any_work():
    constraint = eh.DemographicParity(difference=0.1)
    constraint.difference = float("nan")
    with pytest.raises(InputError, match="difference should be a number from 0 to 1, but is nan"):
        fit(constraint=constraint, estimator=Unfittable())


@pytest.mark.parametrize("constraint", [None, "parity", eh.DemographicParity])
def test_what_is_no_constraint_is_refused(constraint):
    with pytest.raises(InputError, match=r"constraint should be a notion of fairness, such as Demographic"):
        fit(constraint=constraint)


# 33


@pytest.mark.parametrize("tolerance", [0, 1e-12])
@pytest.mark.parametrize("aware", [False, True])
def test_a_tolerance_of_nothing_is_solved_as_an_equality(notion, tolerance, aware):
    constraint = notion(difference=tolerance)
    found = fit(constraint=constraint, aware=aware)
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9
    assert max(measured.difference for measured in constraint.measure(found.rates_)) < 1e-9


def test_a_ratio_of_one_is_the_same_as_a_difference_of_nothing():
    ratio = fit(constraint=eh.DemographicParity(ratio=1.0))
    assert ratio.certificate_.objective == pytest.approx(
        fit(constraint=EXACT).certificate_.objective, abs=1e-9
    )
