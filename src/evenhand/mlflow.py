"""MLflow: fair models that it serves, and audits with their metrics and reports."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import narwhals.stable.v2 as nw

from evenhand.auditing.result import Audit
from evenhand.data.features import has_names, sensitive_columns
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import InputError, MissingExtraError
from evenhand.files.persistence import load, save, verify
from evenhand.report.page import write_report

_COUNTS = ("rows", "positives", "selected")
_FILE = "model.evenhand"
_METHODS = ("predict", "predict_proba", "predict_label_proba", "decision_function")


def log_model(
    model: FairClassifier,
    X: Any,
    *,
    sensitive_features: Any = None,
    name: str = "model",
    **options: Any,
) -> Any:
    """Log a fitted model to the active run, as a file without code that MLflow can serve.

    The signature has the columns that decisions need: sensitive features are among them only if the model is
    aware of them, or if they are features. Served, it decides as ``predict`` does; with
    ``params={"method": "predict_proba"}`` it answers as another method.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    X : table or array
        Rows as ``predict`` takes them; only names and types of columns are kept.
    sensitive_features : table or mapping, default=None
        As passed to ``predict``. Their columns then belong to the signature.
    name : str, default="model"
    **options
        Passed on to ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Examples
    --------
    See the page on serving.
    """
    mlflow = _mlflow()
    with TemporaryDirectory() as folder:
        path = Path(folder) / _FILE
        save(model, path)
        rows = _inputs(model, X, sensitive_features)
        answers = _Served(model).predict(rows)
        return mlflow.pyfunc.log_model(
            name=name,
            loader_module=__name__,
            data_path=str(path),
            signature=mlflow.models.infer_signature(rows, answers, params={"method": "predict"}),
            pip_requirements=[
                f"{'evenhand[files,mlflow]' if key == 'evenhand' else key}=={found}"
                for key, found in verify(path).versions.items()
                if key != "python"
            ],
            **options,
        )


def load_model(model_uri: str, *, trusted: Collection[str] = ()) -> Any:
    """The classifier that ``log_model`` logged, with all its methods and its certificate.

    Parameters
    ----------
    model_uri : str
        Such as ``"runs:/.../model"`` or ``"models:/credit/3"``.
    trusted : collection of str, default=()
        As in :func:`evenhand.load`.

    Returns
    -------
    FairPostprocessor or FairInprocessor
    """
    mlflow = _mlflow()
    folder = Path(mlflow.artifacts.download_artifacts(model_uri))
    flavor = mlflow.models.Model.load(folder).flavors["python_function"]
    if flavor.get("loader_module") != __name__:
        raise InputError(f"the model at {model_uri!r} was not logged by {__name__}.log_model.")
    return load(folder / flavor["data"], trusted=trusted)


def log_audit(audit: Audit, *, prefix: str = "fairness", **report: Any) -> None:
    """Log an audit to the active run: metrics by group, verdicts as tags, tables and the HTML report.

    Metrics are named ``prefix/rate/group``, such as ``fairness/selection rate/sex:F``, and disparities
    ``prefix/notion, measure, groups``, with their intervals under ``low`` and ``high``. What is undefined or
    hidden is not logged.

    Parameters
    ----------
    audit : Audit
    prefix : str, default="fairness"
        Begins all names; one for each audit of a run.
    **report
        Passed on to :func:`evenhand.write_report`, such as ``model`` and ``frontier``.
    """
    mlflow = _mlflow()
    metrics: dict[str, float] = {}
    verdicts = {}
    for row in audit.records("groups"):
        if row["quantity"] not in _COUNTS:
            metrics[f"{prefix}/{row['quantity']}/{row['group']}"] = row["value"]
    for row in audit.records("comparisons"):
        name = f"{prefix}/{row['notion']}, {row['measure']}, {row['groups']}"
        metrics |= {name: row["value"], f"{name}/low": row["low"], f"{name}/high": row["high"]}
        if row["verdict"]:
            verdicts[_allowed(name)] = row["verdict"]
    known = {_allowed(name): float(value) for name, value in metrics.items() if value is not None}
    if len(known) < sum(value is not None for value in metrics.values()):
        raise InputError("names of two groups differ only by characters that MLflow does not allow.")
    mlflow.log_metrics({name: value for name, value in known.items() if math.isfinite(value)})
    mlflow.set_tags(verdicts)
    with TemporaryDirectory() as folder:
        write_report(Path(folder) / "report.html", audit, **report)
        for what in ("groups", "comparisons"):
            audit.to_csv(Path(folder) / f"{what}.csv", what)
        mlflow.log_artifacts(folder, prefix)
    mlflow.log_dict(audit.to_dict(), f"{prefix}/audit.json")


def _mlflow() -> Any:
    try:
        return import_module("mlflow")
    except ImportError:
        raise MissingExtraError("mlflow", "mlflow") from None


def _allowed(name: str) -> str:
    """A name with the characters that MLflow allows."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("=", ":").replace(", ", " "), flags=re.ASCII)


def _inputs(model: FairClassifier, X: Any, sensitive_features: Any) -> Any:
    """Rows as they are served: the columns that decisions need, in one table of pandas."""
    needed = _passed(model)
    if not has_names(X):
        if needed:
            raise InputError("to serve a model that is passed sensitive features, fit it to a table.")
        return X
    frame = nw.from_native(X, eager_only=True)
    rows = frame.select([name for name in frame.columns if name not in model.access_.unused]).to_pandas()
    columns = sensitive_columns(None, None, sensitive_features) if needed else {}
    for name in needed:
        if name in rows.columns or name not in columns:
            raise InputError(f"the model needs the sensitive feature {name!r}, beside the columns of X.")
        rows[name] = list(columns[name])
    return rows


def _passed(model: FairClassifier) -> tuple[str, ...]:
    """Sensitive features that decisions need and that are not columns of X."""
    access = model.access_
    return tuple(access.known.features) if access.known is not None and access.where is None else ()


class _Served:
    """A model as MLflow calls it: one table in, answers out."""

    def __init__(self, model: FairClassifier) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Answers for a table or array of rows."""
        method = (params or {}).get("method", "predict")
        if method not in _METHODS:
            raise InputError(f"method must be one of {', '.join(_METHODS)}, got {method!r}.")
        needed = _passed(self._model)
        if not needed:
            return getattr(self._model, method)(model_input)
        rest = model_input.drop(columns=list(needed))
        return getattr(self._model, method)(rest, sensitive_features=model_input[list(needed)])


def _load_pyfunc(path: str) -> _Served:
    """What MLflow calls to load a model."""
    return _Served(load(path))
