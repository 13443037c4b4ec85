"""Invalid inputs and edge cases of FairPostprocessor, one section for each kind."""

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
from evenhand.fairness import requirement
from evenhand.fairness.groups import POOLED

N = 200
FAIR = eh.DemographicParity(difference=0.05)
EXACT = eh.DemographicParity(difference=0.0)
PLAIN = {"average": False, "calibration": None}
MISSING = [None, float("nan"), pd.NA, pd.NaT]


def sample(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    sex = np.where(rng.random(N) < 0.5, "F", "M")
    return X, sex, (X[:, 0] + 0.8 * (sex == "M") + rng.normal(size=N) > 0.4).astype(int)


X, SEX, Y = sample(0)
OTHER_X, OTHER_SEX, OTHER_Y = sample(1)
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
    # `weights` are sample weights here; for the parameter of that name use `fair`
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
    """Scores the first three rows with `value` and the others with one half."""

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
    """Predicts probabilities of 0 and 1 only."""

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        yes = np.asarray(X)[:, 0] > 0
        return np.column_stack([~yes, yes]).astype(float)


# Labels of any two values


@pytest.mark.parametrize("classes", [("no", "yes"), (-1, 1), (False, True), (1, 2)])
def test_any_two_labels_can_be_learned_and_predicted(column, classes):
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


# One class only


def test_one_class_is_refused_and_named():
    with pytest.raises(InputError, match=r"y has only one class \('yes'\), and two are needed"):
        fit(y=["yes"] * N)


def test_one_class_among_the_rows_that_count_is_refused():
    with pytest.raises(InputError, match="y has only one class where sample_weight is not 0"):
        fit(weights=Y)


# Labels that are not binary


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


# Missing labels


@pytest.mark.parametrize("value", MISSING[:3])
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_missing_labels_are_refused_and_counted(kind, value):
    with pytest.raises(InputError, match=r"y is missing in 3 of 200 rows. Fill them in or drop them"):
        fit(y=kind(some(Y, value)))


def test_a_classifier_needs_labels():
    with pytest.raises(InputError, match="requires y to be passed"):
        fit(y=None)


# Unequal numbers of rows


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


def test_a_function_that_returns_too_few_groups_is_refused():
    with pytest.raises(InputError, match=r"differ in their number of rows: X has 200.*has 199"):
        fair(sensitive_features=lambda _: {"sex": SEX[1:]}).fit(X, Y)


def test_unequal_lengths_are_listed_when_scoring():
    with pytest.raises(InputError, match="X has 200, y has 199"):
        fit().score(X, Y[1:])


# Empty tables


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
    with pytest.raises(InputError, match="no columns besides the sensitive ones"):
        fair(sensitive_features="sex").fit(FULL[["sex"]], Y)


# Pandas indexes


@pytest.mark.parametrize("name", ["y", "sex", "weights"])
def test_pandas_indexes_that_disagree_are_refused(name):
    column = {"y": Y, "sex": SEX, "weights": np.ones(N)}[name]
    with pytest.raises(InputError, match=r"X and .* have different pandas indexes.*call .reset_index"):
        fit(**{"X": TABLE, name: pd.Series(column)[::-1]})


def test_rows_may_have_any_order_if_their_indexes_agree():
    found = fit(X=TABLE[::-1], y=pd.Series(Y)[::-1], sex=pd.Series(SEX)[::-1])
    expected = fit(X=X[::-1], y=Y[::-1], sex=SEX[::-1])
    assert np.array_equal(found.predict(TABLE), expected.predict(X))


def test_pandas_indexes_that_disagree_are_refused_at_prediction():
    found = fit(X=TABLE, aware=True)
    with pytest.raises(InputError, match="different pandas indexes"):
        found.predict(TABLE, sensitive_features=pd.Series(SEX)[::-1])


def test_the_index_of_columns_from_a_function_must_agree():
    with pytest.raises(InputError, match="different pandas indexes"):
        fair(sensitive_features=lambda _: pd.Series(SEX)[::-1]).fit(TABLE, Y)


def test_pandas_indexes_that_disagree_are_refused_when_scoring():
    with pytest.raises(InputError, match="X and y have different pandas indexes"):
        fit(X=TABLE).score(TABLE, pd.Series(Y)[::-1])


# Column names that occur twice

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


def test_a_column_may_have_the_name_of_an_added_one():
    renamed = TABLE.rename(columns={"a": "known_group_0"})
    decisions = [
        fit(X=table, sex={"sex": SEX}, aware=True).predict(table, sensitive_features=SEX)
        for table in (TABLE, renamed)
    ]
    assert np.array_equal(*decisions)


# Order and names of columns


@pytest.mark.parametrize("kind", [lambda table: table, pl.from_pandas, pa.table])
def test_another_order_of_columns_is_refused_at_prediction(kind):
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        fit(X=kind(TABLE)).predict(kind(TABLE[["b", "a", "c"]]))


def test_other_columns_are_refused_at_prediction():
    with pytest.raises(ValueError, match="unseen at fit time:\n- z\nFeature names seen at fit time, yet now"):
        fit(X=TABLE).predict(TABLE.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="X has 2 features, but FairPostprocessor is expecting 3"):
        fit().predict(X[:, :2])


def test_a_column_that_may_not_be_used_may_be_missing_at_prediction():
    found = fair(sensitive_features="sex").fit(FULL, Y)
    assert np.array_equal(found.predict(TABLE), found.predict(FULL))


def test_another_order_is_refused_even_if_a_hidden_column_is_missing():
    found = fair(sensitive_features="sex").fit(FULL, Y)
    with pytest.raises(ValueError, match="in the same order as they were in fit"):
        found.predict(TABLE[["b", "a", "c"]])


def test_a_sensitive_column_that_is_not_in_the_table_is_named():
    with pytest.raises(GroupError, match=r"X has no column 'sx'.* Did you mean 'sex'\?"):
        fair(sensitive_features="sx").fit(FULL, Y)


# Kinds of tables and columns


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
def test_every_kind_of_table_leads_to_the_same_decisions(kind, aware):
    expected = fit(aware=aware).predict(X, sensitive_features=SEX)
    found = fit(X=kind(X), aware=aware).predict(kind(X), sensitive_features=SEX)
    assert np.array_equal(found, expected)


def test_read_only_columns_are_supported():
    found = fit(y=read_only(Y), sex=read_only(SEX), weights=read_only(np.ones(N)))
    assert np.array_equal(found.predict(X), fit(weights=np.ones(N)).predict(X))


def test_sensitive_features_of_every_kind_lead_to_the_same_decisions(table):
    assert np.array_equal(fit(sex=table({"sex": SEX.tolist()})).predict(X), fit().predict(X))


def test_a_lazy_table_of_sensitive_features_is_refused_with_a_hint():
    with pytest.raises(InputError, match=r"is a lazy table; call .collect"):
        fit(sex=pl.DataFrame({"sex": SEX}).lazy())


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


# Repeated rows


@pytest.mark.parametrize("aware", [False, True])
def test_a_row_twice_is_the_same_as_weight_two(aware):
    times = np.random.default_rng(0).integers(1, 4, N)
    rows = np.repeat(np.arange(N), times)
    settings = {"estimator": FROZEN, "group_estimator": FROZEN_GROUP, "aware": aware}
    weighted = fit(weights=times, **settings)
    repeated = fit(X[rows], Y[rows], SEX[rows], **settings)
    assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, abs=1e-7)
    assert np.allclose(weighted.rates_.masses, repeated.rates_.masses)


# Sample weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (some(np.ones(N), -1.0), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (some(np.ones(N), np.nan), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (some(np.ones(N), np.inf), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (np.zeros(N), "sample_weight is zero in every row"),
        (some(np.ones(N), None), "sample_weight should be numbers without missing values"),
        (["1"] * N, "sample_weight should be numbers"),
        (np.ones((N, 2)), r"sample_weight should be one column, but has shape \(200, 2\)"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        fit(weights=weights)


def test_weights_reach_the_models_and_the_requirement():
    heavy = np.where(X[:, 1] > 0, 9.0, 1.0)
    model = fair(aware=True, **PLAIN).fit(TABLE, Y, sensitive_features=SEX, sample_weight=heavy)
    with_group = np.column_stack([X, SEX == "F", SEX == "M"])
    expected = LogisticRegression().fit(with_group, Y, sample_weight=heavy)
    assert np.allclose(model.posterior_model_.label.model.coef_, expected.coef_, atol=1e-3)
    share = np.average(SEX == "F", weights=heavy)
    assert model.rates_.masses[0].sum() == pytest.approx(share)


# Missing groups


@pytest.mark.parametrize("value", MISSING)
def test_a_missing_group_is_refused_and_counted(value):
    with pytest.raises(GroupError, match=r"'sex' is missing in 3 of 200 rows.*missing='own_group'"):
        fit(sex={"sex": some(SEX, value)})
    with pytest.raises(GroupError, match=r"'sex' is missing in 3 of 200 rows"):
        fair(sensitive_features="sex").fit(FULL.assign(sex=some(SEX, value)), Y)


@pytest.mark.parametrize("value", MISSING)
def test_missing_values_can_be_a_group_of_their_own(value):
    sex = some(SEX, value, 40)
    found = fit(sex=sex, aware=True, missing="own_group")
    assert found.groups_.keys == (("F",), ("M",), (None,))
    assert np.array_equal(
        found.predict(X, sensitive_features=sex), found.predict(X, sensitive_features=some(SEX, None, 40))
    )


@pytest.mark.parametrize("value", MISSING)
def test_a_group_that_is_missing_only_at_prediction_is_refused(value):
    with pytest.raises(GroupError, match="is missing in 3 of 200 rows"):
        fit(aware=True).predict(X, sensitive_features=some(SEX, value))
    with pytest.raises(GroupError, match=r"rows belong to groups not seen in fit: .*=\(missing\) \(3 rows\)"):
        fit(aware=True, missing="own_group").predict(X, sensitive_features=some(SEX, value))


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
    with pytest.raises(InputError, match=f"min_group_size should be .*, but is {size!r}"):
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
        InputError, match=r"200 constraints on 200 groups need .* GiB. Pool rare groups .*min_group_size"
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


# Scores that are not probabilities


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("aware", [False, True])
def test_scores_that_are_not_probabilities_are_refused_and_counted(score, aware):
    with pytest.raises(InputError, match=r"probabilities of Scores are NaN, outside \[0, 1\] .* in 3 of 100"):
        fit(estimator=Scores(score), group_estimator=LogisticRegression(), aware=aware)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_scores_that_are_not_probabilities_are_refused_at_prediction():
    found = fit(estimator=FrozenEstimator(Scores(0.6).fit(X, Y)), aware=True, **PLAIN)
    found.posterior_model_.label.model.estimator.value = float("nan")
    with pytest.raises(InputError, match=r"probabilities of Scores are NaN.* in 3 of 200 rows"):
        found.predict(X, sensitive_features=SEX)


def test_predictions_that_are_not_probabilities_are_refused_and_counted():
    with pytest.raises(InputError, match=r"y_pred has 3 of 200 probabilities that are NaN or outside \[0, 1"):
        eh.cell_rates(Y, some(np.full(N, 0.5), 1.2).astype(float), SEX)


# Constant scores

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
def test_constant_features_lead_to_feasible_randomised_decisions(aware):
    alike, constraint = np.ones((N, 1)), eh.AccuracyParity(difference=0.0)
    found = fit(X=alike, constraint=constraint, aware=aware)
    chances = found.predict_proba(alike, sensitive_features=SEX)[:, 1]
    assert ((chances > 0) & (chances < 1)).any()
    assert difference(constraint, Y, chances) < 0.02


# Tied scores and randomised decisions

TIED = np.column_stack([ATOMS, np.arange(N)])  # four scores, but no two equal rows
FROZEN_TIES = FrozenEstimator(
    LogisticRegression().fit(np.column_stack([OTHER_X[:, :2] > 0, 0 * OTHER_Y]), OTHER_Y)
)


def test_tied_rows_have_the_same_probability():
    found = fit(X=TIED, estimator=FROZEN_TIES, constraint=EXACT, aware=True)
    chances = found.predict_proba(TIED, sensitive_features=SEX)[:, 1]
    mixed = (chances > 1e-9) & (chances < 1 - 1e-9)
    assert len(np.unique(chances[mixed])) == 1
    assert len(np.unique(TIED[mixed, :2], axis=0)) == 1
    assert difference(EXACT, Y, chances) < 1e-9


def test_ties_of_cross_fitted_scores_are_randomised_to_parity():
    found = fit(X=ATOMS, constraint=EXACT, aware=True)
    chances = found.predict_proba(ATOMS, sensitive_features=SEX)[:, 1]
    assert difference(EXACT, Y, chances) < 0.01


@pytest.mark.parametrize("seed", [0, None])
def test_a_row_always_gets_the_same_decision(seed):
    found = fit(X=TIED, estimator=FROZEN_TIES, constraint=EXACT, aware=True, random_state=seed)
    first = found.predict(TIED, sensitive_features=SEX)
    chances = found.predict_proba(TIED, sensitive_features=SEX)[:, 1]
    mixed = (chances > 1e-9) & (chances < 1 - 1e-9)
    assert mixed.any()
    if seed is not None:  # about one random seed in a hundred decides the same for all of them
        assert 0 < first[mixed].mean() < 1
    shuffled = np.random.default_rng(0).permutation(N)
    assert np.array_equal(found.predict(TIED, sensitive_features=SEX), first)
    assert np.array_equal(found.predict(TIED[shuffled], sensitive_features=SEX[shuffled]), first[shuffled])
    alone = [found.predict(TIED[[k]], sensitive_features=SEX[[k]])[0] for k in np.flatnonzero(mixed)]
    assert alone == first[mixed].tolist()


def test_the_same_seed_leads_to_the_same_randomised_decisions():
    one, two = (fit(X=ATOMS, constraint=EXACT, aware=True, random_state=3) for _ in range(2))
    assert np.array_equal(
        one.predict(ATOMS, sensitive_features=SEX), two.predict(ATOMS, sensitive_features=SEX)
    )


# Scores of 0 and 1, rare labels, groups of little weight


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
def test_a_rare_label_is_solved(positives, aware):
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


# Calibration


@pytest.mark.parametrize("aware", [False, True])
def test_the_certificate_refers_to_the_scores_and_calibration_fits_them_to_the_data(aware):
    sure = {"estimator": FrozenEstimator(Sure().fit(X, Y)), "group_estimator": FROZEN_GROUP, "aware": aware}
    loose = eh.DemographicParity(difference=0.5)
    believed, calibrated = (fit(**sure, constraint=loose, calibration=how) for how in (None, "dirichlet"))
    errors = [1 - model.score(X, Y, sensitive_features=SEX) for model in (believed, calibrated)]
    assert believed.certificate_.objective == pytest.approx(believed.rates_.risk(), abs=1e-9)
    assert 2 * believed.certificate_.objective < 0.01
    assert errors[0] > 0.2
    assert 2 * calibrated.certificate_.objective == pytest.approx(errors[1], abs=0.02)


@pytest.mark.parametrize("aware", [False, True, ["sex"]])
def test_scores_can_be_calibrated_with_any_knowledge_of_the_group(aware):
    groups = {"sex": SEX, "side": X[:, 1] > 0}
    settings = {"estimator": DecisionTreeClassifier(max_depth=6, random_state=0), "aware": aware}
    found, plain = (fit(sex=groups, calibration=how, **settings) for how in ("dirichlet", None))
    H, before = (model.decision_function(X, sensitive_features=groups) for model in (found, plain))
    assert not np.allclose(H, before)
    assert np.corrcoef(H, before)[0, 1] > 0.5


# Frozen models


@pytest.mark.parametrize(
    "model", [DecisionTreeClassifier(random_state=0), RandomForestClassifier(20, random_state=0)]
)
@pytest.mark.parametrize("aware", [False, True])
def test_a_frozen_model_fitted_to_the_same_rows_is_warned_of(model, aware):
    with pytest.warns(TrainingRowsWarning, match="fitted to these rows.*fit with rows that it has not seen"):
        fit(estimator=FrozenEstimator(model.fit(X, Y)), group_estimator=LogisticRegression(), aware=aware)


@pytest.mark.parametrize("aware", [False, True])
def test_a_frozen_model_fitted_to_other_rows_is_not_changed(aware):
    before = FROZEN.coef_.copy()
    fit(estimator=FROZEN, group_estimator=LogisticRegression(), aware=aware)
    assert np.array_equal(FROZEN.coef_, before)


@pytest.mark.parametrize("aware", [False, True])
def test_calibration_does_not_cause_a_warning_of_training_rows(aware):
    fit(estimator=FROZEN, group_estimator=FROZEN_GROUP, aware=aware)


def test_a_frozen_model_fitted_to_sensitive_columns_is_refused_with_a_remedy():
    other = pd.DataFrame(OTHER_X, columns=["a", "b", "c"]).assign(male=1.0 * (OTHER_SEX == "M"))
    model = FrozenEstimator(LogisticRegression().fit(other, OTHER_Y))
    table = TABLE.assign(male=1.0 * (SEX == "M"))
    with pytest.raises(InputError, match=r"fitted to all columns of X, including 'male'.*pass the sensitive"):
        fair(estimator=model, sensitive_features=["male"]).fit(table, Y)
    fair(estimator=model, sensitive_features=["male"], aware=True).fit(table, Y)
    with pytest.warns(VisibleFeatureWarning, match="A frozen model cannot be fitted again: use one that"):
        fair(estimator=model).fit(table, Y, sensitive_features=table[["male"]])


class NoEstimator:
    """Has the methods of a classifier but is not derived from scikit-learn's classes."""

    classes_ = np.array([0, 1])

    def fit(self, *_):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("estimator", [NoEstimator(), FrozenEstimator(NoEstimator())])
def test_an_object_that_is_not_a_scikit_learn_estimator_is_refused(estimator):
    with pytest.raises(InputError, match=r"NoEstimator, which is not a scikit-learn classifier: derive it"):
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


def test_a_frozen_model_of_the_label_is_refused_as_a_joint_model():
    with pytest.raises(InputError, match=r"has the classes \[0, 1\], where \[0, 1, 2, 3\] were expected"):
        fit(estimator=FROZEN, posterior="joint")


def test_a_frozen_model_of_too_few_groups_is_refused():
    three = np.array(["a", "b", "c"])[np.arange(N) % 3]
    with pytest.raises(InputError, match=r"has the classes \[0, 1\], where \[0, 1, 2\] were expected"):
        fit(sex=three, group_estimator=FROZEN_GROUP)


# Models that cannot be used


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
    with pytest.raises(InputError, match=rf"^{role} \w+ does not take sample_weight in fit. Choose another"):
        fit(weights=np.ones(N), **models)


@pytest.mark.parametrize("model", [LogisticRegression, "logistic", 3])
@pytest.mark.parametrize("role", ["estimator", "group_estimator"])
def test_an_object_that_is_not_a_model_is_refused(model, role):
    with pytest.raises(InputError, match=f"^{role} should be a scikit-learn classifier, but is "):
        fit(**{role: model})


# Tolerances and constraints


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), 1.5, float("inf"), "0.1", True])
@pytest.mark.parametrize("measure", ["difference", "ratio"])
def test_a_tolerance_outside_0_and_1_is_refused(measure, tolerance):
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
def test_an_object_that_is_not_a_constraint_is_refused(constraint):
    with pytest.raises(InputError, match=r"constraint should be a notion of fairness, such as Demographic"):
        fit(constraint=constraint)


# Exact parity


@pytest.mark.parametrize("tolerance", [0, 1e-12])
@pytest.mark.parametrize("aware", [False, True])
def test_a_tolerance_of_zero_is_solved_as_an_equality(notion, tolerance, aware):
    constraint = notion(difference=tolerance)
    found = fit(constraint=constraint, aware=aware)
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9
    assert max(measured.difference for measured in constraint.measure(found.rates_)) < 1e-9


def test_a_ratio_of_one_is_the_same_as_a_difference_of_zero():
    ratio = fit(constraint=eh.DemographicParity(ratio=1.0))
    assert ratio.certificate_.objective == pytest.approx(
        fit(constraint=EXACT).certificate_.objective, abs=1e-9
    )
