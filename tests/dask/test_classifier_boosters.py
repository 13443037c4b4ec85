"""Distributed classifiers of xgboost and lightgbm learn from all rows."""

import subprocess
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tests.dask.data import FAIR, SENSITIVE, in_partitions, table, wait_until

import evenhand as eh
from evenhand.dask import DaskFairPostprocessor, distributed_posteriors
from evenhand.dask.boosters import fit_distributed
from evenhand.exceptions import InputError
from evenhand.posteriors.crossfit_batches import folds_of

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
pytest.importorskip("xgboost.dask")

FEATURES = ["x", "z", *SENSITIVE]
LEARNERS = {
    "xgboost": lambda: xgboost.dask.DaskXGBClassifier(n_estimators=8, max_depth=2),
    "lightgbm": lambda: lightgbm.DaskLGBMClassifier(n_estimators=8, num_leaves=4, verbose=-1),
}
LOCAL = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=2),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=8, num_leaves=4, verbose=-1),
}
# lightgbm looks for a free port by binding one, and leaves closing it to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,  # clusters that start and fail take long
]


def make(learner, **params):
    return DaskFairPostprocessor(
        learner, params.pop("constraint", FAIR), **{"sensitive_features": SENSITIVE, "cv": 2, **params}
    )


@pytest.mark.parametrize("package", LEARNERS)
def test_they_learn_from_all_rows_and_ship_as_local_models(client, package, tmp_path):
    rows = table(3000)
    ddf = in_partitions(rows.drop(columns="weight"), [0, 1200, 800, 1000])
    fair = make(LEARNERS[package](), learn_rows=800).fit(ddf, "y")
    assert fair.certificate_.gap < 1e-6
    decided = fair.predict(ddf)
    local = fair.to_local()
    assert type(local.estimator) is type(LOCAL[package]())
    assert repr(local.estimator.get_params()) == repr(LOCAL[package]().get_params())
    assert np.array_equal(decided.compute(), local.predict(rows[FEATURES]))
    eh.save(local, tmp_path / "model.eh")
    loaded = eh.load(tmp_path / "model.eh")
    for method in ("predict", "predict_proba", "predict_risk"):
        assert np.array_equal(
            getattr(fair, method)(ddf).compute(), getattr(loaded, method)(rows[FEATURES])
        ), method

    # Hardly other than in memory, where folds are others.
    known = eh.FairPostprocessor(LOCAL[package](), FAIR, sensitive_features=SENSITIVE, cv=2)
    known.fit(rows[FEATURES], rows["y"])
    assert fair.certificate_.objective == pytest.approx(known.certificate_.objective, abs=0.01)
    risks = np.corrcoef(local.predict_risk(rows[FEATURES]), known.predict_risk(rows[FEATURES]))[0, 1]
    assert risks > 0.97
    wait_until(lambda: not any(client.has_what().values()))  # nothing stays on the cluster


@pytest.mark.slow
@pytest.mark.parametrize("package", LEARNERS)
@pytest.mark.parametrize("form", ["separate", "label_then_group", "joint", "aware"])
def test_every_form_of_posteriors(client, package, form):
    rows = table(2000)
    ddf = dd.from_pandas(rows, npartitions=4)
    how = {"aware": True} if form == "aware" else {"posterior": form}
    fair = make(LEARNERS[package](), learn_rows=700, average=form == "joint", **how)
    fair.fit(ddf, "y", sample_weight="weight")
    assert fair.certificate_.gap < 1e-6
    assert set(fair.predict(ddf).compute()) == {"no", "yes"}
    known = fair.to_local().fit(rows[FEATURES], rows["y"], sample_weight=rows["weight"])
    assert fair.certificate_.objective == pytest.approx(known.certificate_.objective, abs=0.015)
    risks = np.corrcoef(fair.predict_risk(ddf).compute(), known.predict_risk(rows[FEATURES]))[0, 1]
    assert risks > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("average", [False, True])
def test_the_group_alone_has_at_most_three_folds(client, average, monkeypatch):
    """As in memory: four models of the label and three of the group, and one of each for all rows."""
    fits = []

    def counted(*given, **named):
        fits.append(1)
        return fit_distributed(*given, **named)

    monkeypatch.setattr(distributed_posteriors, "fit_distributed", counted)
    ddf = dd.from_pandas(table(1000), npartitions=2)
    make(LEARNERS["xgboost"](), posterior="separate", average=average, cv=4).fit(ddf, "y")
    assert len(fits) == 4 + 3 + (0 if average else 2)


@pytest.mark.slow
@pytest.mark.parametrize("package", LEARNERS)
def test_arrays_and_all_rows_at_the_client(client, package):
    rows = table(2000)
    X, race = (da.from_array(rows[name].to_numpy(), chunks=450) for name in (["x", "z"], "race"))
    y = da.from_array((rows["y"] == "yes").to_numpy(), chunks=450)
    fair = make(LEARNERS[package](), sensitive_features=None).fit(X, y, sensitive_features=race)
    assert fair.certificate_.gap < 1e-6
    assert not hasattr(fair, "fitted_to_")  # verify would repeat the fit with other folds
    answer = fair.predict(X)
    assert np.array_equal(answer.compute(), fair.to_local().predict(rows[["x", "z"]].to_numpy()))


@pytest.mark.slow
@pytest.mark.parametrize("package", LEARNERS)
def test_a_group_that_one_worker_alone_has(client, package):
    """Classes must have the same numbers on all workers; categories are a feature."""
    rows = table(1500).sort_values("race", ignore_index=True)
    rows["town"] = pd.Categorical(np.where(rows["z"] > 0, "hill", "coast"))
    ddf = in_partitions(rows[["x", "town", "race", "y"]], [300, 500, 0, 700])
    learner = LEARNERS[package]()
    if package == "xgboost":
        learner.set_params(enable_categorical=True)
    fair = make(learner, sensitive_features=["race"], posterior="joint", learn_rows=600).fit(ddf, "y")
    posteriors = fair.to_local().posterior_model_.cells(rows[["x", "town"]], None)
    masses = posteriors.mean(axis=0).sum(axis=1)
    assert masses == pytest.approx(
        rows["race"].value_counts(normalize=True, sort=False).sort_index(), abs=0.03
    )


def test_folds_are_drawn_apart_from_the_sample_and_by_number_alone():
    from evenhand.inputs.batched_table import row_uniforms

    numbers = np.arange(30_000)
    folds = folds_of(numbers, 3, 7)
    assert np.array_equal(folds[500:700], folds_of(numbers[500:700], 3, 7))
    drawn = row_uniforms(numbers, 7) < 0.1
    assert np.bincount(folds[drawn]) / drawn.sum() == pytest.approx([1 / 3] * 3, abs=0.03)


@pytest.mark.parametrize("package", LEARNERS)
def test_clients_survive_copies(client, package):
    learner = LEARNERS[package]()
    learner.client = client
    fair = clone(make(learner, client=client, cv=3))
    assert fair.client is client
    assert fair.estimator is not learner
    assert fair.estimator.client is client
    assert fair.estimator.get_params()["n_estimators"] == 8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"group_estimator": LogisticRegression()}, "should both be Dask classifiers, or none of them"),
        ({"cv": [([0], [1])]}, "cv should be a number from 2 on for Dask classifiers"),
        ({"cv": 0.3}, "cv should be a number from 2 on for Dask classifiers"),
    ],
)
def test_what_they_cannot_do_is_a_sentence(client, params, message):
    with pytest.raises(InputError, match=message):
        make(LEARNERS["xgboost"](), **params).fit(dd.from_pandas(table(100), npartitions=2), "y")


@pytest.mark.slow
def test_neither_package_is_needed():
    code = (
        "import sys; sys.modules['xgboost'] = sys.modules['lightgbm'] = None\n"
        "from evenhand.dask import DaskFairPostprocessor\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "import evenhand as eh\n"
        "fair = DaskFairPostprocessor(LogisticRegression(), eh.DemographicParity(ratio=0.8))\n"
        "fair.to_local(); fair.check_settings()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
