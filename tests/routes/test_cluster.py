"""A classifier fitted on a cluster is that of the same rows in memory, whatever the partitions."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from tests.flat import build
from tests.routes.data import FAIR, SENSITIVE, in_partitions, table

import evenhand as eh
from evenhand.cluster import dask_rows as cluster_rows
from evenhand.exceptions import InputError

FEATURES = ["x", "z", *SENSITIVE]
METHODS = ("predict", "predict_proba", "decision_function", "predict_label_proba")


def make(estimator=None, constraint=FAIR, **params):
    params = {"sensitive_features": SENSITIVE, "cv": 3, **params}
    return build(eh.FairPostprocessor, estimator or LogisticRegression(), constraint, **params)


def assert_same(found, expected, method):
    """Equal; but the last bits of H may depend on the number of rows in a batch."""
    if method == "decision_function":
        assert np.asarray(found) == pytest.approx(expected, abs=1e-12)
    else:
        assert np.array_equal(np.asarray(found), expected), method


@pytest.fixture(scope="module")
def rows():
    return table()


@pytest.fixture(scope="module")
def fitted(cluster, rows):
    """Fitted to a sample of the rows, with its Dask table."""
    with Client(cluster):
        ddf = dd.from_pandas(rows, npartitions=4)
        return make(max_samples=600).fit(ddf[[*FEATURES, "y"]], "y"), ddf


@pytest.mark.parametrize(
    ("aware", "weight"),
    [
        (False, "weight"),
        pytest.param(True, None, marks=pytest.mark.slow),
        pytest.param(False, None, marks=pytest.mark.slow),
        pytest.param(True, "weight", marks=pytest.mark.slow),
    ],
)
def test_sample_and_rule_do_not_depend_on_the_partitions(client, rows, monkeypatch, aware, weight):
    monkeypatch.setattr(cluster_rows, "_BLOCK", 16 * 6 * 300)  # several of them
    found = []
    for sizes in ([2000], [0, 100, 900, 500, 0, 499, 1]):
        frame = rows if weight else rows.drop(columns="weight")
        fair = make(aware=aware, max_samples=500).fit(in_partitions(frame, sizes), "y", sample_weight=weight)
        found.append(fair)
        assert fair.certificate_.gap < 1e-6
        assert fair.fitted_to_.rows == 2000
    first = found[0]
    for fair in found[1:]:
        assert fair.rule_.to_json() == first.rule_.to_json()
        assert fair.certificate_ == first.certificate_
        assert np.array_equal(
            fair.predict_label_proba(rows[FEATURES]), first.predict_label_proba(rows[FEATURES])
        )


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("max_samples", [500, 2000])
def test_rows_with_bad_values_are_told(client, rows, max_samples, as_array):
    frame = rows[[*FEATURES, "y"]].assign(sex=(rows["sex"] == "F").astype(float))
    frame.loc[[700, 1500], "z"] = np.inf
    ddf = dd.from_pandas(frame, npartitions=4)
    X = ddf[["x", "z", "sex", "race"]].to_dask_array(lengths=True) if as_array else ddf
    y = da.from_array((frame["y"] == "yes").to_numpy(), chunks=X.chunks[0]) if as_array else "y"
    columns = [2, 3] if as_array else SENSITIVE
    with pytest.raises(InputError, match=r"infinite in [12] rows of X, the first of them row (700|1,500) "):
        make(max_samples=max_samples, sensitive_features=columns).fit(X, y)


@pytest.mark.parametrize("aware", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_arrays_with_sensitive_features_beside_them_or_in_them(client, rows, aware):
    X, S, y = rows[["x", "z"]].to_numpy(), rows[["race"]].to_numpy(), (rows["y"] == "yes").to_numpy()
    known = eh.FairPostprocessor(LogisticRegression(), FAIR, aware=aware, posteriors=eh.CrossFit(3))
    known.fit(X, y, sensitive_features=S)
    lazy = {name: da.from_array(array, chunks=300) for name, array in {"X": X, "S": S, "y": y}.items()}
    beside = make(LogisticRegression(), sensitive_features=None, aware=aware)
    beside.fit(lazy["X"], lazy["y"].rechunk(450), sensitive_features=lazy["S"])
    given = {"sensitive_features": lazy["S"]} if aware else {}
    answer = beside.predict(lazy["X"], **given)
    assert isinstance(answer, da.Array)
    assert answer.chunks == (lazy["X"].chunks[0],)
    expected = known.predict(X, **({"sensitive_features": S} if aware else {}))
    assert np.array_equal(answer.compute(), expected)
    assert answer.dtype == expected.dtype

    both = da.concatenate([lazy["X"], lazy["S"]], axis=1)
    inside = make(LogisticRegression(), sensitive_features=[2], aware=aware).fit(both, lazy["y"])
    unknown_sizes = both[da.ones(len(X), chunks=300) > 0]
    for method in METHODS:
        answer = getattr(inside, method)(unknown_sizes)
        assert isinstance(answer, da.Array)
        assert_same(answer.compute(), getattr(inside, method)(both.compute()), method)
    assert inside.certificate_.objective == pytest.approx(known.certificate_.objective, abs=1e-12)


@pytest.mark.parametrize("max_samples", [500, 2000])
def test_several_actions(client, rows, max_samples):
    costs = eh.Costs({"pay": {"no": 2, "yes": 0}, "ask": {"no": 0.3, "yes": 0.3}, "not": {"no": 0, "yes": 1}})
    parity = eh.DemographicParity(difference=0.05, groups="independent")
    model = make(constraint=parity, cost=costs, max_samples=max_samples, cv=2)
    frame, cuts = rows[[*FEATURES, "y"]], ([2000], [0, 100, 900, 500, 0, 499, 1])
    found = [clone(model).fit(in_partitions(frame, sizes), "y") for sizes in cuts]
    assert found[0].rule_.to_json() == found[1].rule_.to_json()
    assert found[0].certificate_.violation < 1e-6
    assert found[0].rates_.masses.sum() == pytest.approx(1)
    new = frame[FEATURES]
    assert (found[0].predict(in_partitions(new, [1500, 500])).compute() == found[0].predict(new)).all()


def test_tables_with_labels_groups_and_weights_beside_them(client, rows):
    ddf = dd.from_pandas(rows, npartitions=3)
    inside = make(aware=True).fit(ddf[[*FEATURES, "y", "weight"]], "y", sample_weight="weight")
    beside = make(aware=True, sensitive_features=None)
    given = ddf[SENSITIVE]
    beside.fit(ddf[["x", "z"]], ddf["y"], sensitive_features=given, sample_weight=ddf["weight"])
    first = beside.predict(ddf[["x", "z"]], sensitive_features=given)
    assert np.array_equal(first.compute(), inside.predict(ddf).compute())
    assert first.divisions == ddf.divisions
    assert np.array_equal(
        first.compute(), beside.predict(rows[["x", "z"]], sensitive_features=rows[SENSITIVE])
    )


def test_answers_are_lazy_with_the_types_that_they_announce(client, fitted):
    fair, ddf = fitted

    def never(part):
        raise AssertionError("computed")

    untouched = ddf[FEATURES].map_partitions(never, meta=ddf[FEATURES]._meta)
    for method in METHODS:
        getattr(fair, method)(untouched)
    ddf = ddf.set_index("x", drop=False, sorted=False)
    for method in ("predict", "decision_function", "predict_label_proba"):
        lazy = getattr(fair, method)(ddf)
        assert isinstance(lazy, dd.Series)
        assert lazy.divisions == ddf.divisions
        assert lazy.known_divisions
        done = lazy.compute()
        assert done.dtype == lazy.dtype
        assert done.index.equals(ddf.compute().index)
    proba = fair.predict_proba(ddf)
    assert isinstance(proba, da.Array)
    assert proba.shape[1] == 2
    assert proba.dtype == proba.compute().dtype == np.float64


def test_answers_about_empty_partitions_and_none_at_all(client, fitted):
    fair, ddf = fitted
    some = ddf[ddf["x"] > ddf["x"].max().compute() - 0.1]
    assert 0 in some.map_partitions(len).compute().tolist()
    none = ddf[ddf["x"] > 1e9]
    for method in METHODS:
        lazy = getattr(fair, method)(some)
        expected = getattr(fair, method)(some.compute()[FEATURES])
        assert_same(lazy.compute(), expected, method)
        empty = getattr(fair, method)(none).compute()
        assert len(empty) == 0
        assert empty.dtype == lazy.dtype


def test_ids_decide_where_decisions_are_randomised(client):
    """Three values of x, so that many share a score."""
    frame = table().assign(z=0.0)
    frame["x"] = frame["x"].round().clip(-1, 1)
    frame["id"] = [f"person {k}" for k in range(len(frame))]
    ddf = dd.from_pandas(frame.drop(columns="weight"), npartitions=3)
    fair = make().fit(ddf.drop(columns="id"), "y")
    assert ((fair.predict_proba(frame[FEATURES])[:, 1] % 1) > 0).any()
    expected = fair.predict(frame[FEATURES], ids=frame["id"])
    assert np.array_equal(fair.predict(ddf, ids="id").compute(), expected)
    assert np.array_equal(fair.predict(ddf, ids=ddf["id"]).compute(), expected)
    assert not np.array_equal(fair.predict(ddf).compute(), expected)


def test_without_a_client_there_is_a_sentence():
    with pytest.raises(InputError, match="there is no Dask client; make one"):
        make().fit(dd.from_pandas(table(20), npartitions=2), "y")


def test_what_is_not_fitted_answers_nothing(client):
    with pytest.raises(NotFittedError):
        make().predict(dd.from_pandas(table(20), npartitions=2))


def test_accuracy_is_computed_on_the_cluster(client, rows, fitted):
    fair, ddf = fitted
    assert fair.score(ddf, ddf["y"]) == pytest.approx(fair.score(rows[FEATURES], rows["y"]))
    weighted = fair.score(ddf, ddf["y"], sample_weight=ddf["weight"])
    assert weighted == pytest.approx(fair.score(rows[FEATURES], rows["y"], sample_weight=rows["weight"]))


def test_categories_that_dask_does_not_know_are_found(client, rows):
    """Of a feature that only trees take as it is, and of a sensitive one with an order of its own."""
    frame = rows[["x", "y"]].assign(
        town=pd.Categorical(np.where(rows["z"] > 0.3, "hill", np.where(rows["z"] > -0.5, "coast", "plain"))),
        race=pd.Categorical(rows["race"].map({0: "b", 1: "a", 2: "c"}), ["c", "a", "b"], ordered=True),
    )
    known = dd.from_pandas(frame.sort_values("town", ignore_index=True), npartitions=3)

    def forget(part):
        return part.assign(town=part["town"].cat.remove_unused_categories())

    unknown = known.map_partitions(forget, meta=known._meta)
    unknown["town"] = unknown["town"].cat.as_unknown()
    assert not unknown["town"].cat.known
    trees = eh.TabularClassifier(max_iter=5)
    settings = {"estimator": trees, "sensitive_features": ["race"], "cv": 2}
    first, second = (make(**settings).fit(ddf, "y") for ddf in (known, unknown))
    assert np.array_equal(first.predict(known).compute(), second.predict(unknown).compute())
    assert [*first.groups_.levels("race")] == [*second.groups_.levels("race")] == ["a", "b", "c"]


def test_a_group_that_lives_in_one_partition_only(client, rows):
    frame = rows.sort_values(["race", "sex"], ignore_index=True)
    ddf = dd.from_pandas(frame[[*FEATURES, "y"]], npartitions=6)
    fair = make(aware=True, max_samples=900).fit(ddf, "y")
    assert len(fair.groups_) == 6
    assert fair.groups_.counts.sum() == len(rows)
    assert set(fair.predict(ddf).compute()) == {"no", "yes"}


BAD = {
    "an unknown label": ({}, {"y": "yy"}, r"no column 'yy', which should hold the label. Did you mean 'y'\?"),
    "an unknown weight": (
        {},
        {"sample_weight": "wait"},
        "no column 'wait', which should hold sample weights",
    ),
    "an unknown group": ({"sensitive_features": ["sx"]}, {}, r"no column 'sx', .* Did you mean 'sex'"),
    "groups twice": ({}, {"sensitive_features": "beside"}, "both named in the constructor and passed to fit"),
    "no groups": ({"sensitive_features": None}, {}, "no sensitive features"),
    "two roles": ({"sensitive_features": ["sex", "y"]}, {}, "column 'y' has two roles"),
    "a label in memory": (
        {},
        {"y": np.zeros(2000)},
        "y must be a Dask Series or DataFrame, or a column of X, as X is a DataFrame, got ndarray",
    ),
    "no label": ({}, {"y": None}, "requires y to be passed"),
    "too few rows": ({"max_samples": 5}, {}, "max_samples=5 is too few for 12 combinations"),
    "a bad setting": ({"max_samples": 0}, {}, "max_samples must be a positive integer"),
    "words as weights": ({}, {"sample_weight": "race_name"}, "sample_weight must be numbers"),
    "negative weights": (
        {},
        {"sample_weight": "x"},
        r"sample_weight is negative, .* row 0 \(counted from 0\)",
    ),
    "a label of numbers": ({}, {"y": "x"}, "y has more than 100 distinct values. A label needs exactly two"),
}


@pytest.mark.parametrize(("params", "given", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_a_sentence(client, rows, params, given, message):
    frame = rows.assign(x=np.where(np.arange(len(rows)) == 0, -9.0, rows["x"]), race_name="a")
    ddf = dd.from_pandas(frame, npartitions=3)
    given = {"y": "y", **given}
    if isinstance(given.get("sensitive_features"), str):
        given["sensitive_features"] = ddf[SENSITIVE]
    with pytest.raises((InputError, eh.exceptions.GroupError), match=message):
        make(**params).fit(ddf, given.pop("y"), **given)


def test_bad_rows_are_a_sentence(client, rows):
    ddf = dd.from_pandas(rows, npartitions=3)
    with pytest.raises(InputError, match=r"y \('y'\) is missing in 10 of 2,000 rows"):
        make().fit(dd.from_pandas(rows.assign(y=rows["y"].where(rows.index >= 10)), npartitions=3), "y")
    with pytest.raises(InputError, match="X has no rows: all its partitions are empty"):
        make().fit(ddf[ddf["x"] > 1e9], "y")
    with pytest.raises(InputError, match=r"y has 5 partitions, where X has 3 partitions: repartition one"):
        make().fit(ddf, ddf["y"].repartition(npartitions=5))
    with pytest.raises(InputError, match=r"y has other divisions"):
        make().fit(ddf, ddf["y"].repartition(divisions=(0, 5, 10, 1999)))
    shorter = ddf["y"].clear_divisions().map_partitions(lambda part: part.iloc[1:], meta=ddf["y"]._meta)
    with pytest.raises(InputError, match=r"y has 666 rows in partition 0, where X has 667"):
        make().fit(ddf, shorter)
    array = da.zeros((10, 2), chunks=5)
    with pytest.raises(InputError, match="y has 9 rows instead of 10"):
        make(sensitive_features=[0]).fit(array, da.zeros(9, chunks=5))
    with pytest.raises(InputError, match=r"X must have two dimensions, got shape \(10,\)"):
        make(sensitive_features=[0]).fit(array[:, 0], array[:, 0])
    with pytest.raises(eh.exceptions.GroupError, match="X has 2 columns, so none at position 7"):
        make(sensitive_features=[7]).fit(array, array[:, 0])


def test_answers_need_the_columns_of_fit(client, fitted):
    fair, ddf = fitted
    with pytest.raises(InputError, match=r"no column 'z', which should hold a feature of the model"):
        fair.predict(ddf[["x", "sex", "race"]])
    assert np.array_equal(fair.predict(ddf[["z", "x"]]).compute(), fair.predict(ddf).compute())
