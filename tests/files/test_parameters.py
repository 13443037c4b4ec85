"""Parameters of other packages that would run code or read files in a refit."""

import functools
import hashlib
import inspect
import io
import json
import pickle
import re
import zipfile
from importlib import import_module
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError, UntrustedFileError
from evenhand.files import parts
from evenhand.files.hardening import inspection
from evenhand.files.hardening.allowlist import allowed_types
from evenhand.files.hardening.estimator_parameters import _RULES, CALLABLE, CLASS, refused_attribute

PARITY = eh.DemographicParity(difference=0.1)
TRAIN = GaussianProblem.random(levels=(2,), seed=3).sample(300, seed=0)


def fitted(estimator):
    fair = eh.FairPostprocessor(estimator, PARITY, posteriors=eh.CrossFit(2))
    return fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, *, method=zipfile.ZIP_STORED, comment=b""):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment
    return buffer.getvalue()


def altered(path, change):
    """Change the description of the parts in a file, with a checksum that is right."""
    members = members_of(path.read_bytes())
    inner = members_of(members["estimator.skops"])
    schema = json.loads(inner["schema.json"])
    change(schema)
    members["estimator.skops"] = packed({**inner, "schema.json": json.dumps(schema).encode()})
    whole = packed(members, comment=b"0" * 64)[:-64]
    path.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())


def nodes_of(schema, kind):
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            if found.get("__class__") == kind and "content" in found:
                yield found["content"]["content"]
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


class Harm:
    """Leaves a file behind when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("hacked"),)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a joblib cache in which every result does harm."""
    monkeypatch.chdir(tmp_path)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(), memory="cache")
    pipeline.set_params(memory=joblib.Memory("cache", verbose=0))
    fitted(pipeline)
    results = list(tmp_path.rglob("output.pkl"))
    assert results
    for result in results:
        result.write_bytes(pickle.dumps(Harm()))
    return tmp_path


def test_a_cache_folder_is_not_unpickled(folder, monkeypatch):
    """A file that names a cache folder is refused, so that nothing in the folder runs."""
    plain = fitted(make_pipeline(StandardScaler(), LogisticRegression()))
    eh.save(plain, "m.eh")

    def plant(schema):
        for state in nodes_of(schema, "Pipeline"):
            state["memory"] = {**state["memory"], "content": '"cache"', "__id__": -1}

    altered(Path("m.eh"), plant)
    with pytest.raises(UntrustedFileError, match="Pipeline has memory='cache'"):
        eh.load("m.eh")
    given = {"data": (TRAIN.X, TRAIN.y), "sensitive_features": TRAIN.sensitive}
    for report in (eh.verify("m.eh"), eh.verify("m.eh", **given)):
        assert not report.ok
        assert "memory='cache'" in report.problem
    assert not Path("hacked").exists()

    # The attack is real: without the check, verify runs it.
    monkeypatch.setattr(inspection, "refused_node", lambda _: None)
    with pytest.raises(Exception, match=r"."):
        eh.verify("m.eh", **given)
    assert Path("hacked").exists()


def test_one_object_cannot_hide_behind_another(tmp_path):
    """skops makes one object per id: a None could stand for a folder."""
    path = tmp_path / "m.eh"
    eh.save(fitted(make_pipeline(StandardScaler(), LogisticRegression())), path)

    def plant(schema):
        for state in nodes_of(schema, "Pipeline"):
            folder = {**state["memory"], "content": '"cache"', "__id__": 77}
            rest = {name: state.pop(name) for name in list(state)}
            state.update({"steps": rest["steps"], "other": folder, **rest})
            state["memory"]["__id__"] = 77

    altered(path, plant)
    assert "two different objects under the same id" in eh.verify(path).problem
    with pytest.raises(UntrustedFileError, match="two different objects"):
        eh.load(path)


REFUSED = {
    "memory": (Pipeline([("a", StandardScaler()), ("b", LogisticRegression())], memory="cache"), "memory"),
    "memory of a step": (
        make_pipeline(FeatureAgglomeration(2, memory="cache"), LogisticRegression()),
        "FeatureAgglomeration has memory",
    ),
    "a function": (
        make_pipeline(FunctionTransformer(sorted), LogisticRegression()),
        "as func|not on the list",
    ),
    "a loss": (SGDClassifier(loss=np.exp), "a function or class as loss"),
    "a kernel": (
        make_pipeline(SelectFromModel(LogisticRegression(), max_features=np.abs), PCA()),
        "max_features",
    ),
    "files in rows": (
        make_pipeline(CountVectorizer(input="filename"), LogisticRegression()),
        "input='filename'",
    ),
    "a search": (
        GridSearchCV(make_pipeline(PCA(), LogisticRegression()), {"memory": ["cache"]}),
        "GridSearchCV .as ObjectNode., which is not on the list",
    ),
    "attributes": (
        SelectFromModel(LogisticRegression(), importance_getter="__class__.mro"),
        "importance_getter",
    ),
    "a device": (XGBClassifier(device="cuda"), "device='cuda'"),
    "an objective": (XGBClassifier(objective=np.exp), "a function or class as objective"),
    "a metric of trees": (XGBClassifier(eval_metric=[np.exp]), "a function or class as eval_metric"),
    "callbacks": (XGBClassifier(callbacks=[np.exp]), "callbacks"),
    "further": (XGBClassifier(plugin="x"), "kwargs"),
    "splits": (LGBMClassifier(forcedsplits_filename="/etc/passwd"), "_other_params|forcedsplits"),
    "machines": (LGBMClassifier(machines="10.0.0.1:80", num_machines=2), "machines"),
    "words": (LGBMClassifier(boosting_type="gbdt machines=10.0.0.1:80"), "boosting_type"),
    "device of lightgbm": (LGBMClassifier(device_type="gpu"), "device_type"),
    "jobs": (SGDClassifier(n_jobs="dask"), "n_jobs"),
}


@pytest.mark.parametrize(("estimator", "match"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_name_paths_functions_or_backends_are_refused(estimator, match):
    """When saving, when inspecting a file, and when loading it."""
    with pytest.raises(InputError, match=match) as error:
        parts.dump_parts([estimator])
    assert re.search("change it or choose another classifier", str(error.value))
    try:
        data = parts._skops().dumps([estimator])
    except Exception:  # skops itself cannot write it
        return
    with pytest.raises(UntrustedFileError, match=f"{match.split(', ')[-1]}|not on the list"):
        inspection.inspect_parts(data)


ALLOWED = {
    "boosting": LGBMClassifier(metric="auc", bagging_seed=3, device="cpu", verbose=-1),
    "xgboost": XGBClassifier(device="cpu", rate_drop=0.1, interaction_constraints="[[0, 1]]"),
    "function": make_pipeline(FunctionTransformer(np.tanh, inverse_func=np.log1p), LogisticRegression()),
    "partial": FunctionTransformer(functools.partial(np.log1p, dtype="float32")),
    "trees": HistGradientBoostingClassifier(max_iter=2).fit(TRAIN.X, TRAIN.y),
}


@pytest.mark.parametrize("estimator", ALLOWED.values(), ids=ALLOWED)
def test_harmless_parameters_are_kept(estimator):
    [back] = parts.load_parts(parts.dump_parts([estimator])[0])
    assert repr(back) == repr(estimator)


def test_a_column_selector_is_kept(tmp_path):
    """Usual in a ColumnTransformer; it may hold only a pattern and types."""
    table = pd.DataFrame({f"a{k}": column for k, column in enumerate(TRAIN.X.T)}).assign(b="text")
    numbers = make_column_selector("^a", dtype_include=np.number, dtype_exclude=["category", np.int8])
    model = make_pipeline(make_column_transformer((StandardScaler(), numbers)), LogisticRegression())
    fair = eh.FairPostprocessor(model, PARITY, posteriors=eh.CrossFit(2)).fit(
        table, TRAIN.y, sensitive_features=TRAIN.sensitive
    )
    eh.save(fair, tmp_path / "m.eh")
    assert eh.verify(
        tmp_path / "m.eh", data=(table, TRAIN.y), sensitive_features=TRAIN.sensitive
    ).proof.confirmed
    np.testing.assert_array_equal(eh.load(tmp_path / "m.eh").predict(table), fair.predict(table))
    with pytest.raises(InputError, match="make_column_selector has a function or class as pattern"):
        parts.dump_parts([make_column_transformer((StandardScaler(), make_column_selector(np.exp)))])


# Every class on the list, so that a new one is noticed


def classes():
    for name in sorted(allowed_types()["ObjectNode"]):
        module, _, kind = name.rpartition(".")
        found = getattr(import_module(module), kind, None)  # some are of newer or older versions only
        if found is not None:
            yield found


def parameters(kind):
    names = {
        parameter.name
        for base in (kind.__mro__ if kind.__module__.startswith("xgboost") else (kind,))
        if base is not object
        for parameter in list(inspect.signature(base.__init__).parameters.values())[1:]
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return sorted(names | set(getattr(kind, "_parameter_constraints", {})))


def test_no_class_on_the_list_can_be_called():
    """A callable object could stand in for a function.

    Losses only add numbers, and a column selector only compares names and types.
    """
    called = [kind for kind in classes() if any("__call__" in vars(base) for base in kind.__mro__)]
    assert {kind.__module__ for kind in called} == {
        "sklearn._loss.loss",
        "sklearn.compose._column_transformer",
    }
    assert make_column_selector in called


TYPES = {"dtype", "dtype_exclude", "dtype_include"}


def test_a_function_or_class_is_refused_as_any_parameter_of_any_class():
    """Except two parameters that take listed functions, and those that take types of numbers."""
    seen = 0
    for kind in classes():
        for name in parameters(kind):
            for value, fine in ((CALLABLE, {"func", "inverse_func"}), (CLASS, TYPES)):
                refused = refused_attribute(kind.__name__, name, [value])
                assert (refused is None) == (name in fine), (kind, name)
                seen += 1
    assert seen > 3_000


def test_parameters_that_take_any_text_are_known():
    """A new one has to be reviewed: it may be a path, or be evaluated."""
    found = set()
    for kind in classes():
        for name, constraints in getattr(kind, "_parameter_constraints", {}).items():
            for one in constraints if isinstance(constraints, list) else [constraints]:
                if one in (str, "no_validation") or re.search("instance of 'str'|cache", str(one)):
                    found.add(name)
    harmless = {
        *("constant", "fill_value", "missing_values", "outlier_label", "pos_label"),  # values of columns
        *("separator", "threshold", "token_pattern"),  # parts of names, "1.5*mean", and a regular expression
        *("dtype", "refit", "scoring", "metric"),  # a type of numbers, and names looked up in a table
    }
    assert found - harmless == found & set(_RULES)
    assert found >= {"memory", "encoding", "importance_getter"}


def test_every_parameter_on_the_list_is_known():
    """The file holds reviewed names; a new one is reviewed before it is added."""
    known = set((Path(__file__).parent / "parameters.txt").read_text().split())
    found = {name for kind in classes() for name in parameters(kind)}
    assert sorted(found - known) == []


def test_losses_are_stored_with_their_real_module():
    """Older scikit-learn names a module that no package has."""
    model = HistGradientBoostingClassifier(max_iter=2).fit(TRAIN.X, TRAIN.y)
    members = members_of(parts._skops().dumps([model]))
    members["schema.json"] = members["schema.json"].replace(b'"sklearn._loss._loss"', b'"_loss"')
    old = packed(members)
    with pytest.raises(UntrustedFileError, match=r"_loss.CyHalfBinomialLoss.*not on the list"):
        inspection.inspect_parts(old)
    [back] = parts.load_parts(parts._with_stable_names(old))
    np.testing.assert_array_equal(back.predict_proba(TRAIN.X), model.predict_proba(TRAIN.X))
