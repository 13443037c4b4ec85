"""Tables and columns that FairPostprocessor takes or refuses."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from tests.estimators.small_fits import (
    FULL,
    SEX,
    TABLE,
    N,
    X,
    Y,
    fair,
    fit,
)

from evenhand.exceptions import (
    GroupError,
    InputError,
)

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
    with pytest.raises(ValueError, match="in the order of fit"):
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
    with pytest.raises(InputError, match=f"{what} must be a column, an array or a table, got csr"):
        fit(**{name: sparse.csr_array(Y[:, None])})


@pytest.mark.parametrize("name", ["X", "y", "sex", "weights"])
def test_masked_values_are_refused_and_counted(name):
    values = {"X": X, "y": Y, "sex": SEX, "weights": np.ones(N)}[name]
    mask = np.zeros(values.shape, dtype=bool)
    mask[:3] = True
    with pytest.raises(InputError, match=rf"has {mask.sum()} masked values. Fill them in or drop them"):
        fit(**{name: np.ma.array(values, mask=mask)})
