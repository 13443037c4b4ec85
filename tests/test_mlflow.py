"""Models and audits in a real tracking store of MLflow, and served in another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.mlflow import load_model, log_audit, log_model

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
if not os.environ.get("EVENHAND_REQUIRE_ALL"):
    pytest.importorskip("mlflow", reason="MLflow is not there")
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy, for a store of MLflow, is not there")
import mlflow

pytestmark = [
    pytest.mark.slow,  # MLflow makes its store anew
    pytest.mark.filterwarnings("ignore:::mlflow", "ignore:::alembic", "ignore:::sqlalchemy"),
]
COMPAS = eh.datasets.load_compas(backend="pandas")
X, Y, S = COMPAS.features.select_dtypes("number"), COMPAS.label, COMPAS.sensitive
MODEL = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.create_experiment("fair", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("fair")
    return mlflow.get_tracking_uri()


def fitted(**settings):
    fair = eh.FairPostprocessor(
        MODEL, eh.DemographicParity(difference=0.1), posteriors=eh.CrossFit(2), **settings
    )
    return fair.fit(X[:2000], Y[:2000], sensitive_features=S[:2000])


def columns(info):
    return info.signature.inputs.input_names()


def test_a_blind_model_is_served_without_sensitive_columns(store):
    fair = fitted()
    with mlflow.start_run():
        info = log_model(fair, X[:5], sensitive_features=S[:5])
    assert columns(info) == list(X.columns)
    back = load_model(info.model_uri)
    np.testing.assert_array_equal(back.predict(X), fair.predict(X))
    assert repr(back.certificate_) == repr(fair.certificate_)
    served = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(served.predict(X[::-1].assign(more=1)), fair.predict(X[::-1]))
    found = served.predict(X, params={"method": "predict_proba"})
    np.testing.assert_array_equal(found, fair.predict_proba(X))
    with pytest.raises(InputError, match="method must be one of"):
        served.predict(X, params={"method": "fit"})


def test_an_aware_model_is_served_with_them(store):
    fair = fitted(aware=True)
    with mlflow.start_run():
        info = log_model(fair, X[:5], sensitive_features=S[:5])
        with pytest.raises(InputError, match="needs the sensitive feature"):
            log_model(fair, X[:5], sensitive_features=S[["sex"]][:5])
    assert set(columns(info)) == {*X.columns, "sex", "race"}
    served = mlflow.pyfunc.load_model(info.model_uri)
    table = X.assign(sex=S["sex"], race=S["race"])
    np.testing.assert_array_equal(served.predict(table), fair.predict(X, sensitive_features=S))


def test_columns_that_are_only_hidden_are_left_out(store):
    table = X.assign(sex=S["sex"])
    fair = eh.FairPostprocessor(
        MODEL, eh.DemographicParity(difference=0.1), sensitive_features=["sex"], posteriors=eh.CrossFit(2)
    ).fit(table[:2000], Y[:2000])
    with mlflow.start_run():
        info = log_model(fair, table[:5])
    assert columns(info) == list(X.columns)
    np.testing.assert_array_equal(mlflow.pyfunc.load_model(info.model_uri).predict(X), fair.predict(table))


def test_mlflow_models_predict_decides_as_the_model_does(store, tmp_path):
    fair = fitted()
    with mlflow.start_run():
        info = log_model(fair, X[:5])
    rows = {"dataframe_split": X[:50].to_dict("split")}
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    given = ["--model-uri", info.model_uri, "--input-path", tmp_path / "rows.json"]
    where = ["--output-path", tmp_path / "out.json", "--env-manager", "local", "--content-type", "json"]
    command = [Path(sys.executable).with_name("mlflow"), "models", "predict", *given, *where]
    settings = os.environ | {"MLFLOW_TRACKING_URI": store}
    subprocess.run(command, check=True, capture_output=True, env=settings)  # noqa: S603
    found = json.loads((tmp_path / "out.json").read_text())["predictions"]
    assert found == fair.predict(X[:50]).tolist()


def test_an_audit_is_metrics_tags_tables_and_a_page(store):
    decisions = fitted().predict(X)
    audit = eh.audit(Y, decisions, S, constraint=eh.DemographicParity(difference=0.1))
    with mlflow.start_run() as run:
        log_audit(audit, prefix="test", title="Release 4")
    client = mlflow.MlflowClient()
    logged = client.get_run(run.info.run_id).data
    women = (S["sex"] == "Female") & (S["race"] == "Caucasian")
    name = "test/selection rate/sex:Female race:Caucasian"
    assert logged.metrics[name] == pytest.approx(decisions[women].mean())
    parity = audit["demographic parity"]
    name = f"test/demographic parity {parity.measure} {parity.groups}"
    assert logged.metrics[name] == pytest.approx(parity.value)
    assert logged.metrics[f"{name}/high"] == pytest.approx(parity.high)
    assert logged.tags[name] == parity.verdict
    found = {artifact.path for artifact in client.list_artifacts(run.info.run_id, "test")}
    assert found == {
        f"test/{part}" for part in ("report.html", "groups.csv", "comparisons.csv", "audit.json")
    }
    page = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/test/report.html")
    assert "Release 4" in page
    assert json.loads(mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/test/audit.json")) == json.loads(
        json.dumps(audit.to_dict())
    )
    table = pd.read_csv(mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/test/groups.csv"))
    assert len(table) == len(audit.to_frame())


def test_names_that_look_like_formulas_are_escaped_in_the_tables(store):
    with mlflow.start_run() as run:
        log_audit(eh.audit(None, [1, 0, 1, 1], {"=1+1": ["a", "a", "b", "b"]}), prefix="cells")
    text = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/cells/groups.csv")
    assert "'=1+1" in text
    assert ",=1+1" not in text


def test_other_models_are_not_taken_for_ours(store):
    with mlflow.start_run():
        info = mlflow.pyfunc.log_model(
            name="other", python_model=lambda model_input: model_input, pip_requirements=[]
        )
    with pytest.raises(InputError, match="was not logged by"):
        load_model(info.model_uri)
