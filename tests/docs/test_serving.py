"""The page on serving does what it says: its blocks are run, the handler behind a test client."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
if not os.environ.get("EVENHAND_REQUIRE_ALL"):
    for needed in ("fastapi", "httpx2", "mlflow", "onnxruntime", "skl2onnx", "sqlalchemy"):
        pytest.importorskip(needed, reason=f"{needed}, for the page on serving, is not there")
import mlflow
import onnxruntime
from fastapi.testclient import TestClient

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::mlflow", "ignore:::alembic")]
PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "serving.md").read_text("utf-8")
HANDLER, MLFLOW, ONNX, SKL2ONNX = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
COMPAS = eh.datasets.load_compas(backend="pandas")
X, Y, PEOPLE = COMPAS.features.select_dtypes("number"), COMPAS.label, COMPAS.sensitive


@pytest.fixture(scope="module")
def fair():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    parity = eh.DemographicParity(difference=0.1)
    return eh.FairPostprocessor(model, parity, posteriors=eh.CrossFit(2)).fit(X, Y, sensitive_features=PEOPLE)


def test_the_handler_decides_as_the_model_does(fair, tmp_path, monkeypatch):
    assert len(HANDLER.splitlines()) < 20
    eh.save(fair, tmp_path / "fair.evenhand")
    (tmp_path / "served_app.py").write_text(HANDLER)
    monkeypatch.setenv("MODEL", str(tmp_path / "fair.evenhand"))
    monkeypatch.syspath_prepend(tmp_path)
    import served_app  # type: ignore[import-not-found]

    client = TestClient(served_app.app)
    people = [{"id": f"person {k}", **row} for k, row in enumerate(X[:40].to_dict("records"))]
    answer = client.post("/decide", json=people)
    assert answer.status_code == 200
    decisions = [one["decision"] for one in answer.json()]
    assert decisions == fair.predict(X[:40], ids=[one["id"] for one in people]).tolist()
    assert {0, 1} == set(decisions)
    assert all(one["reason"].startswith("The decision is") for one in answer.json())
    assert not any("race" in one["reason"] for one in answer.json())
    wrong = client.post("/decide", json=[{"id": 1, "age": 30}])
    assert wrong.status_code == 422
    assert "is a feature of the model" in wrong.json()["detail"]
    assert client.post("/decide", json=[{"age": 30}]).status_code == 422
    assert client.post("/decide", json=[{**people[0], X.columns[0]: None}]).status_code == 422
    sys.modules.pop("served_app")


def test_the_examples_of_mlflow_and_onnx_run(fair, tmp_path):
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.create_experiment("page", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("page")
    names = {"eh": eh, "fair": fair, "X": X, "y": Y, "people": PEOPLE}
    exec(MLFLOW, names)  # noqa: S102
    np.testing.assert_array_equal(names["decisions"], fair.predict(X))
    np.testing.assert_array_equal(names["chances"], fair.predict_proba(X))
    assert names["again"].certificate_.gap == fair.certificate_.gap
    exec(ONNX, names)  # noqa: S102
    assert names["decision"].tolist() == fair.predict(X).tolist()


def test_a_classifier_trained_fairly_is_converted_or_refused(fair):
    trained = eh.FairInprocessor(fair.estimator, eh.DemographicParity(difference=0.3), max_fits=6)
    matrix = X.to_numpy(np.float64)
    trained.fit(matrix, Y, sensitive_features=PEOPLE)
    names = {"trained": trained, "matrix": matrix}
    exec(SKL2ONNX, names)  # noqa: S102
    session = onnxruntime.InferenceSession(names["graph"].SerializeToString())
    [decided] = session.run(["label"], {session.get_inputs()[0].name: matrix})
    assert (decided == (trained.predict(matrix) == trained.pos_label_)).all()
    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(matrix, Y)
    names["converted"](forest, matrix)
    rows = (1e7 + X.to_numpy()[:, :2]).astype(np.float32)  # sums of large terms, in single precision
    unlucky = LogisticRegression().fit(matrix[:, :2], Y)
    unlucky.coef_[:] = [[1e-3, -1e-3]]
    with pytest.raises(ValueError, match=r"probabilities differ by up to .*: do not ship it"):
        names["converted"](unlucky, rows)
