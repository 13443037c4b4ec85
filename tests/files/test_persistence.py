import copy
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lightgbm import LGBMClassifier
from scipy.sparse import csr_array, csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError, MissingExtraError, UntrustedFileError, VersionWarning
from evenhand.files import archive, parts, persistence

PARITY = eh.DemographicParity(difference=0.05)
PROBLEM = GaussianProblem.random(levels=(2, 2), seed=3)
TRAIN, TEST = PROBLEM.sample(600, seed=0), PROBLEM.sample(300, seed=1)


class Foreign(LogisticRegression):
    """A classifier that is on no list."""


def post(estimator=None, constraint=PARITY, drawn=TRAIN, **settings):
    model = LogisticRegression() if estimator is None else estimator
    fair = build(eh.FairPostprocessor, model, constraint, **{"cv": 2, **settings})
    return fair.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)


def same(before, after, X, **known):
    for method in ("predict", "predict_proba", "decision_function"):
        first, second = getattr(before, method)(X, **known), getattr(after, method)(X, **known)
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fair.evenhand"


@pytest.fixture(scope="module")
def model():
    return post()


@pytest.fixture
def saved(model, path):
    eh.save(model, path)
    return path


ESTIMATORS = {
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "columns": make_pipeline(
        make_column_transformer((StandardScaler(), [0]), remainder="passthrough"),
        FunctionTransformer(np.tanh),
        LogisticRegression(),
    ),
    "boosting": HistGradientBoostingClassifier(max_iter=3),
    "lightgbm": LGBMClassifier(n_estimators=3, num_leaves=7, n_jobs=1, verbose=-1),
    "xgboost": XGBClassifier(n_estimators=3, n_jobs=1),
    "forest": RandomForestClassifier(3, random_state=0),
    "trees": GradientBoostingClassifier(n_estimators=3),
    "calibrated": CalibratedClassifierCV(GaussianNB(), cv=2),
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_every_kind_of_classifier_is_restored_exactly(estimator, path):
    before = post(estimator)
    eh.save(before, path)
    same(before, eh.load(path), TEST.X)


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_training_rows_are_restored(kind, path):
    X = kind(np.where(np.abs(TRAIN.X) > 0.5, TRAIN.X, 0.0))
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    before = fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    eh.save(before, path)
    same(before, eh.load(path), X)


def test_bounds_on_rates_are_restored(path):
    missed = eh.Statistic("miss rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1))
    constraint = eh.RateBound(missed, at_most=0.9) & eh.RateBound("selection rate", at_most=0.8)
    before = post(constraint=constraint)
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, TEST.X)
    assert after.constraint == constraint
    assert after.multipliers_ == before.multipliers_


@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "mixed"])
@pytest.mark.parametrize("constraint", [PARITY, PARITY & eh.EqualOpportunity(ratio=0.8)], ids=["one", "two"])
def test_blind_and_aware_models_decide_the_same_after_loading(aware, constraint, path):
    before = post(constraint=constraint, aware=aware)
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, TEST.X, **({"sensitive_features": TEST.sensitive} if aware else {}))
    assert repr(after.constraint) == repr(constraint)
    assert after.multipliers_ == before.multipliers_
    assert after.certificate_ == before.certificate_
    assert after.groups_.keys == before.groups_.keys


@pytest.mark.parametrize(
    "settings",
    [
        {"posterior": "joint", "cost": [1.0, 2.0]},
        {"posterior": "label_then_group"},
        {"average": False},
        {"cv": 0.5},
        {"calibration": None, "cv": StratifiedKFold(2), "random_state": np.random.RandomState(1)},
        {"min_group_size": 200, "unseen": "pooled"},
    ],
    ids=", ".join,
)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_every_setting_is_restored(settings, path):
    before = post(**settings)
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, TEST.X)
    assert sorted(set(vars(after)) - {"_file", "_source"}) == sorted(vars(before))  # noted by load
    assert after.get_params().keys() == before.get_params().keys()
    assert repr(after.constraint) == repr(before.constraint)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_default_learner_takes_tables_after_loading(library, path):
    rng = np.random.default_rng(0)
    columns = {
        "x": TRAIN.X[:, 0],
        "town": rng.choice(["Ulm", "Bonn", "Aachen"], len(TRAIN.y)),
        "old": rng.random(len(TRAIN.y)) < 0.5,
        "sex": rng.choice(["F", "M"], len(TRAIN.y)),
    }
    table = library(columns)
    before = eh.FairPostprocessor(None, PARITY, sensitive_features=["sex"], posteriors=eh.CrossFit(0.2)).fit(
        table, TRAIN.y
    )
    eh.save(before, path)
    same(before, eh.load(path), table)


def test_boosted_trees_with_categories_are_restored(path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "x": TRAIN.X[:, 0],
            "town": pd.Categorical(rng.choice(["Ulm", "Bonn", "Aachen"], len(TRAIN.y))),
        }
    )
    boosting = HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype")
    fair = eh.FairPostprocessor(boosting, PARITY, posteriors=eh.CrossFit(2))
    before = fair.fit(table, TRAIN.y, sensitive_features=TRAIN.sensitive)
    eh.save(before, path)
    same(before, eh.load(path), table)


def test_a_frozen_model_stays_one_object(path):
    frozen = FrozenEstimator(LogisticRegression().fit(TEST.X, TEST.y))
    before = post(frozen, group_estimator=GaussianNB())
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, TRAIN.X)
    assert isinstance(after.estimator, FrozenEstimator)


def test_a_guarantee_is_kept_in_the_file(path):
    before = post(constraint=eh.DemographicParity(difference=0.6), confidence=0.9)
    eh.save(before, path)
    assert str(eh.load(path).guarantee_) == str(before.guarantee_) == eh.verify(path).guarantee


def test_randomised_decisions_are_the_same_after_loading(path):
    X = np.round(TRAIN.X[:, :1])
    fair = eh.FairPostprocessor(DecisionTreeClassifier(max_depth=2), PARITY, posteriors=eh.CrossFit(2))
    before = fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    assert ((before.predict_proba(X) > 0) & (before.predict_proba(X) < 1)).any()
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, X)
    ids = np.arange(len(X))
    np.testing.assert_array_equal(before.predict(X, ids=ids), after.predict(X, ids=ids))


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
@pytest.mark.parametrize("estimator", [LogisticRegression(), XGBClassifier(n_estimators=3)])
def test_a_trained_classifier_is_restored_exactly(estimator, path):
    before = eh.FairInprocessor(estimator, PARITY, posteriors=eh.CrossFit(2)).fit(
        TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive
    )
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, TEST.X)
    assert after.n_fits_ == before.n_fits_
    assert eh.verify(path).model == "FairInprocessor"


def test_labels_and_groups_of_any_type_are_restored(path):
    labels = np.where(TRAIN.y == 1, "yes", "no").astype(object)
    group = np.array([None, pd.Timestamp("2020-01-01").date()], dtype=object)[(TRAIN.X[:, 0] > 0).astype(int)]
    fair = eh.FairPostprocessor(
        LogisticRegression(), PARITY, posteriors=eh.CrossFit(2), groups=eh.GroupPolicy(missing="category")
    )
    before = fair.fit(TRAIN.X, labels, sensitive_features={"born": group})
    eh.save(before, path)
    after = eh.load(path)
    same(before, after, TEST.X)
    assert after.groups_.keys == before.groups_.keys


@pytest.mark.slow
def test_another_process_decides_the_same(saved, model, tmp_path):
    np.save(tmp_path / "X.npy", TEST.X)
    code = (
        "import sys, numpy as np, evenhand as eh; X = np.load(sys.argv[2]); "
        "print(eh.load(sys.argv[1]).decision_function(X).tobytes().hex())"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, str(saved), str(tmp_path / "X.npy")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == model.decision_function(TEST.X).tobytes().hex()


def test_saving_again_gives_the_same_decisions_and_a_report(saved, model, tmp_path):
    eh.save(eh.load(saved), tmp_path / "again")
    same(model, eh.load(tmp_path / "again"), TEST.X)
    report = eh.verify(saved)
    assert report.ok
    assert report.problem is None
    assert report.model == "FairPostprocessor"
    assert report.requirement == "DemographicParity(difference=0.05)"
    assert "xgboost" not in report.versions
    assert not report.differences


# Refused by save


def test_a_model_that_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "fair.evenhand"
    with pytest.raises(InputError, match="not fitted"):
        eh.save(eh.FairPostprocessor(LogisticRegression(), PARITY), path)
    with pytest.raises(InputError, match="this is a LogisticRegression"):
        eh.save(LogisticRegression(), path)
    with pytest.raises(InputError, match=r"Foreign \(as ObjectNode\), which is not on the list"):
        eh.save(post(Foreign()), path)
    with pytest.raises(InputError, match=r"SVC \(as ObjectNode\), which is not on the list"):
        eh.save(post(CalibratedClassifierCV(SVC(), cv=2)), path)
    reads = FunctionTransformer(inverse_func=np.loadtxt, check_inverse=False)
    with pytest.raises(InputError, match=r"numpy.loadtxt"):
        eh.save(post(make_pipeline(reads, LogisticRegression())), path)
    model = post()
    model.noted_ = (np.array([1 + 2j]), iter([1]))
    with pytest.raises(InputError, match="cannot be saved"):
        eh.save(model, path)
    assert not list(tmp_path.iterdir())


def test_a_function_for_the_groups_is_refused(path):
    fair = eh.FairPostprocessor(
        LogisticRegression(), PARITY, sensitive_features=lambda X: X[:, 0] > 0, posteriors=eh.CrossFit(2)
    )
    fair.fit(TRAIN.X, TRAIN.y)
    with pytest.raises(InputError, match="sensitive_features holds the function"):
        eh.save(fair, path)


def test_a_file_is_replaced_only_on_demand(saved, model):
    before = saved.read_bytes()
    with pytest.raises(InputError, match="overwrite=True"):
        eh.save(model, saved)
    assert saved.read_bytes() == before
    eh.save(model, saved, overwrite=True)
    assert eh.verify(saved).ok
    with pytest.raises(InputError, match="is not a file that can be written"):
        eh.save(model, saved.parent, overwrite=True)
    with pytest.raises(InputError, match="no folder"):
        eh.save(model, saved.parent / "absent" / "fair.evenhand")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(saved, model, monkeypatch, error):
    before = saved.read_bytes()

    def fail(number):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        eh.save(model, saved, overwrite=True)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.slow
def test_a_process_killed_while_writing_leaves_the_old_file(saved):
    code = (
        "import os, sys, evenhand as eh; model = eh.load(sys.argv[1]); os.fsync = lambda _: os._exit(9); "
        "eh.save(model, sys.argv[1], overwrite=True)"
    )
    before = saved.read_bytes()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(saved)], check=False, env=environment)  # noqa: S603
    assert done.returncode == 9
    assert saved.read_bytes() == before


def test_without_skops_the_extra_is_named(model, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtraError, match=r"evenhand\[files\]"):
        eh.save(model, path)
    assert not path.exists()


def test_load_refuses_a_missing_or_old_skops(saved, monkeypatch):
    monkeypatch.setattr(parts, "_OLDEST_SKOPS", (99, 0))
    with pytest.raises(MissingExtraError, match=r"skops>="):
        eh.load(saved)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtraError, match=r"evenhand\[files\]"):
        eh.load(saved)
    assert eh.verify(saved).ok


# Refused by load


def refused(path, match):
    with pytest.raises(UntrustedFileError, match=match):
        eh.load(path)
    report = eh.verify(path)
    assert not report.ok
    assert "\n" not in report.problem


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(path, change=None, **manifest):
    """Rewrite a file after a change as an attacker would: with a correct checksum."""
    members = members_of(path.read_bytes())
    noted = json.loads(members.pop("manifest.json"))
    if change is not None:
        change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {"manifest.json": json.dumps({**noted, **manifest}), **members}.items():
            archive.writestr(name, data)
        archive.comment = b"0" * 64
    packed = buffer.getvalue()[:-64]
    path.write_bytes(packed + hashlib.sha256(packed).hexdigest().encode())


def planted(path, change):
    """Change the schema of the parts."""

    def plant(members):
        inner = members_of(members["estimator.skops"])
        schema = json.loads(inner["schema.json"])
        schema = change(schema) or schema
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in {**inner, "schema.json": json.dumps(schema)}.items():
                archive.writestr(name, data)
        members["estimator.skops"] = buffer.getvalue()

    repacked(path, plant)


@pytest.mark.parametrize(
    "source",
    [
        "train.csv",
        {"file": "t.csv", "target": "y"},
        {"file": "t.csv", "target": "y", "test_share": "a"},
        {"file": "t.csv", "target": "y", "test_share": 2.0},
        {"file": 3, "target": "y", "test_share": None},
        {"file": "t.csv", "target": "y", "test_share": None, "more": 1},
    ],
    ids=str,
)
def test_an_invalid_source_is_refused(saved, source):
    repacked(saved, source=source)
    refused(saved, "manifest was not written by evenhand")


def test_repacking_alone_is_accepted(saved, model):
    repacked(saved)
    same(model, eh.load(saved), TEST.X)
    planted(saved, dict)
    same(model, eh.load(saved), TEST.X)


def test_any_changed_byte_is_noticed(saved):
    whole = saved.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        changed = bytearray(whole)
        changed[place] ^= 1
        saved.write_bytes(changed)
        refused(saved, "is refused")


def test_any_cut_is_noticed(saved):
    whole = saved.read_bytes()
    for length in (0, 1, 10, len(whole) // 2, len(whole) - 65, len(whole) - 1):
        saved.write_bytes(whole[:length])
        refused(saved, "not an evenhand model|cut off|checksum")
    saved.write_bytes(whole + b"x")
    refused(saved, "is refused")


def test_files_that_are_not_models_are_refused(path):
    path.write_text("hello")
    refused(path, "not an evenhand model")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
    refused(path, "and a model manifest.json, model.json, estimator.skops")
    path.unlink()
    with pytest.raises(InputError, match="no file"):
        eh.load(path)


@pytest.mark.parametrize(
    ("manifest", "match"),
    [
        ({"format": "other"}, "not an evenhand model"),
        ({"format_version": 2, "versions": {"evenhand": "9.0"}}, "needs evenhand 9.0 or newer"),
        ({"format_version": 2, "versions": None}, "format version 2"),
        ({"format_version": True}, "does not exist"),
        ({"model": "Popen"}, "not written by evenhand"),
        ({"versions": {"numpy": 1}}, "not written by evenhand"),
    ],
)
def test_an_invalid_manifest_is_refused(saved, manifest, match):
    repacked(saved, **manifest)
    refused(saved, match)


@pytest.mark.parametrize(
    "manifest",
    [
        {"requirement": "DemographicParity(difference=0.0)"},
        {"guarantee": "holds"},
        {"certificate": None},
    ],
    ids=str,
)
def test_a_manifest_that_guarantees_more_than_the_model_is_refused(saved, manifest):
    repacked(saved, **manifest)
    with pytest.raises(UntrustedFileError, match="not the one that the manifest describes"):
        eh.load(saved)
    given = {"data": (TRAIN.X, TRAIN.y), "sensitive_features": TRAIN.sensitive}
    assert "not the one that the manifest describes" in eh.verify(saved, **given).problem


def test_a_model_that_differs_from_its_manifest_is_refused(saved):
    repacked(saved, model="FairInprocessor")
    refused(saved, "manifest describes")


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "more.json", "estimator.pkl", "C:\\evil"])
def test_an_unknown_member_is_refused(saved, name):
    repacked(saved, lambda members: members.update({name: b"x"}))
    refused(saved, "and a model manifest.json")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(saved):
    repacked(saved, lambda members: members.update({"model.json": b" " * 50_000_000}))
    assert saved.stat().st_size < 10_000_000
    with pytest.raises(UntrustedFileError, match="would unpack to more"):
        eh.load(saved, max_bytes=10_000_000)
    with pytest.raises(UntrustedFileError, match="more than 10 bytes"):
        eh.load(saved, max_bytes=10)


@pytest.mark.parametrize(
    ("member", "content", "match"),
    [
        ("estimator.skops", b"PK", "damaged"),
    ],
)
def test_a_damaged_member_is_refused(saved, member, content, match):
    repacked(saved, lambda members: members.update({member: content}))
    refused(saved, match)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "manifest describes"),
        (b'{"model": "FairPostprocessor"}', "damaged"),
        (b'{"model": "FairPostprocessor", "state": {"_decide": 1}}', "unknown attribute"),
        (b'{"model": "FairPostprocessor", "state": {"predict": 1}}', "unknown attribute"),
        (b'{"model": "FairPostprocessor", "state": {"a_": {"object": "Popen", "fields": {}}}}', "damaged"),
        (b'{"model": "FairPostprocessor", "state": {"a_": {"part": 1000}}}', "damaged"),
        (b'{"model": "FairPostprocessor", "state": {"a_": {"strange": 1}}}', "damaged"),
    ],
)
def test_a_damaged_model_is_refused(saved, content, match):
    repacked(saved, lambda members: members.update({"model.json": content}))
    with pytest.raises(UntrustedFileError, match=match):
        eh.load(saved)


TEXT = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": '"touch evil"'}
STRINGS = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [TEXT]}
ARGUMENTS = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [TEXT]}
NOTHING = {
    "__class__": "dict",
    "__module__": "builtins",
    "__loader__": "DictNode",
    "content": {},
    "key_types": STRINGS,
}


def node(loader, name, **more):
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader, **more}


SYSTEM = node("FunctionNode", "os.system")
ATTACKS = {
    "function": SYSTEM,
    "type": node("TypeNode", "posix.system"),
    "builtin": node("TypeNode", "builtins.eval"),
    "constructor": node("ConstructorFromReduceNode", "subprocess.Popen", content=ARGUMENTS),
    "list": node("ListNode", "os.system", content=[TEXT]),
    "tuple": node("TupleNode", "subprocess.Popen", content=[TEXT]),
    "set": node("SetNode", "os.system", content=[TEXT]),
    "dict": node("DictNode", "os.getcwd", content={}, key_types=STRINGS),
    "keys": node(
        "DictNode",
        "builtins.dict",
        content={"touch evil": TEXT},
        key_types={**STRINGS, "content": [node("FunctionNode", "numpy.exp")]},
    ),
    "factory": node(
        "DefaultDictNode",
        "collections.defaultdict",
        content={"main": NOTHING, "default_factory": node("FunctionNode", "numpy.exp")},
    ),
    "partial": node(
        "PartialNode",
        "functools.partial",
        content={"func": SYSTEM, "args": ARGUMENTS, "kwds": NOTHING, "namespace": NOTHING},
    ),
    "partial of a class": node(
        "PartialNode",
        "functools.partial",
        content={"func": ARGUMENTS, "args": ARGUMENTS, "kwds": NOTHING, "namespace": NOTHING},
    ),
    "operator": node("OperatorFuncNode", "operator.methodcaller", attrs=ARGUMENTS),
    "method": node("MethodNode", "builtins.str", content={"func": "format", "obj": TEXT}),
    "loss": node("LossNode", "os.system", content=NOTHING, __reduce__={"args": ARGUMENTS}),
    "array": node("NdArrayNode", "numpy.fromfile", type="numpy", file="schema.json"),
    "load": node("FunctionNode", "numpy.load"),
    "memory": node("ObjectNode", "joblib.memory.Memory", content=NOTHING),
    "loader": node("FunctionNode", "sklearn.datasets._base.load_files"),
    "estimator": node("ObjectNode", "sklearn.utils._testing._Raises", content=NOTHING),
    "ours": node("ObjectNode", "evenhand.files.persistence.FileReport", content=NOTHING),
    "cached": node("CachedNode", "builtins.str"),
    "nested": node("ObjectNode", "sklearn.linear_model._logistic.LogisticRegression.fit", content=NOTHING),
    "unknown": node("NoSuchNode", "builtins.str"),
    "untyped": {"__loader__": "ListNode", "__module__": None, "content": []},
    "loaderless": {"__loader__": {"a": 1}},
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_planted_object_is_refused_and_does_not_run(saved, attack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planted(saved, lambda schema: schema["content"].append(attack))
    refused(saved, "not on the list|dictionary|no type|calls something")
    planted(saved, lambda schema: {**schema, **attack})
    refused(saved, "is refused")
    assert not (tmp_path / "evil").exists()


def test_a_random_generator_cannot_call_a_function(path):
    eh.save(post(HistGradientBoostingClassifier(max_iter=2)), path)

    def rename(schema):
        waiting = [schema]
        while waiting:
            found = waiting.pop()
            if isinstance(found, dict) and found.get("__loader__") == "RandomGeneratorNode":
                found["content"]["bit_generator"]["content"]["bit_generator"]["content"] = '"seed"'
            waiting.extend(
                found.values() if isinstance(found, dict) else found if isinstance(found, list) else []
            )

    planted(path, rename)
    with pytest.raises(UntrustedFileError, match=r"numpy.random.seed|bit generator"):
        eh.load(path)


class Evil:
    def __init__(self, where):
        self.where = where

    def __reduce__(self):
        return os.system, (f"touch {self.where}",)


def test_an_object_that_would_run_code_does_not(saved, tmp_path):
    evil = tmp_path / "evil"
    Evil(evil)
    import pickle

    payload = pickle.dumps(Evil(evil))
    pickle.loads(payload)  # noqa: S301  (the attack works where pickle is used)
    assert evil.exists()
    evil.unlink()
    repacked(saved, lambda members: members.update({"estimator.skops": payload}))
    refused(saved, "damaged")
    saved.write_bytes(payload)
    refused(saved, "not an evenhand model")
    import skops.io

    repacked(
        saved_again(saved), lambda members: members.update({"estimator.skops": skops.io.dumps([Evil(evil)])})
    )
    refused(saved, r"Evil \(as ObjectNode\), which is not on the list")
    pickled = io.BytesIO()
    np.save(pickled, np.array([Evil(evil)], dtype=object), allow_pickle=True)

    def swap(members):
        inner = members_of(members["estimator.skops"])
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in inner.items():
                archive.writestr(name, pickled.getvalue() if name.endswith(".npy") else data)
        members["estimator.skops"] = buffer.getvalue()

    repacked(saved_again(saved), swap)
    with pytest.raises(UntrustedFileError, match="allow_pickle=False"):
        eh.load(saved)
    assert not evil.exists()


def saved_again(path):
    eh.save(post(), path, overwrite=True)
    return path


def test_compressed_parts_are_refused(saved):
    def compress(members):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members_of(members["estimator.skops"]).items():
                archive.writestr(name, data)
        members["estimator.skops"] = buffer.getvalue()

    repacked(saved, compress)
    refused(saved, "not packed as evenhand")


def test_an_older_protocol_is_refused(saved):
    planted(saved, lambda schema: {**schema, "protocol": 0})
    refused(saved, "protocol 0")


def test_an_array_named_very_often_is_refused(path):
    large = post()
    large.noted_ = (np.zeros(100_000),)
    eh.save(large, path)

    def copies(schema):
        arrays = [found for found in schema["content"] if found.get("type") == "numpy"]
        again = [array for _ in range(300) for array in arrays]
        schema["content"] += [{**array, "__id__": -k} for k, array in enumerate(again, 1)]

    assert eh.verify(path).ok
    planted(path, copies)
    with pytest.raises(UntrustedFileError, match="arrays have more than 100,000,000 bytes"):
        eh.load(path, max_bytes=100_000_000)
    assert not eh.verify(path, max_bytes=100_000_000).ok


def with_part(members, name, data, **node):
    """Add a member to the parts, and a node that reads it; return its place."""
    inner = members_of(members["estimator.skops"])
    schema = json.loads(inner["schema.json"])
    schema["content"].append({"__module__": "numpy", "file": name, "__id__": -1, **node})
    members["estimator.skops"] = stored({**inner, name: data, "schema.json": json.dumps(schema)})
    return len(schema["content"]) - 1


def stored(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


LISTS = b'"x": [' + b",".join([b"[]"] * 2_000_000) + b"]}"


def many_lists_in(member):
    def change(members):
        members[member] = members[member].rstrip()[:-1] + b"," + LISTS

    return change


def many_lists_in_the_schema(members):
    inner = members_of(members["estimator.skops"])
    inner["schema.json"] = inner["schema.json"].rstrip()[:-1] + b"," + LISTS
    members["estimator.skops"] = stored(inner)


ARRAY = {"__class__": "ndarray", "__loader__": "NdArrayNode", "type": "numpy"}


def labels_without_bytes(members):
    """Labels of a type that takes no bytes, of which there can be any number."""
    buffer = io.BytesIO()
    header = {"descr": "|S0", "fortran_order": False, "shape": (3_000_000,)}
    np.lib.format.write_array_header_1_0(buffer, header)
    place = with_part(members, "s.npy", buffer.getvalue(), **ARRAY)
    model = json.loads(members["model.json"])
    model["state"]["classes_"] = {"part": place}
    members["model.json"] = json.dumps(model).encode()


def groups_with_long_names(members):
    buffer = io.BytesIO()
    np.save(buffer, np.array("a" * 100_000))
    place = with_part(members, "t.npy", buffer.getvalue(), **{**ARRAY, "__class__": "str_"})
    model = json.loads(members["model.json"])
    groups = model["state"]["groups_"]["fields"]
    groups["keys"] = {"tuple": [{"tuple": [k, {"part": place}]} for k in range(2000)]}
    members["model.json"] = json.dumps(model).encode()


def lists_that_hold_each_other(members):
    inner = members_of(members["estimator.skops"])
    schema = json.loads(inner["schema.json"])
    held = {**STRINGS, "content": [], "__id__": -1}
    for k in range(2, 22):
        held = {**STRINGS, "content": [held, {**STRINGS, "content": [], "__id__": 1 - k}], "__id__": -k}
    state = next(n for n in schema["content"] if n["__class__"] == "LogisticRegression")["content"]
    state["content"]["more_"] = held
    state["key_types"]["content"].append({**state["key_types"]["content"][0], "__id__": -100})
    inner["schema.json"] = json.dumps(schema)
    members["estimator.skops"] = stored(inner)


def a_hundred_thousand_members(members):
    data = members["estimator.skops"]
    end = data.rindex(b"PK\x05\x06")
    start = int.from_bytes(data[end + 16 : end + 20], "little")
    entry = data[start : start + 46 + int.from_bytes(data[start + 28 : start + 30], "little")]
    size = (end - start + 100_000 * len(entry)).to_bytes(4, "little")
    members["estimator.skops"] = data[:end] + 100_000 * entry + data[end : end + 12] + size + data[end + 16 :]


BOMBS = {
    "many lists in model.json": many_lists_in("model.json"),
    "many lists in schema.json": many_lists_in_the_schema,
    "labels without bytes": labels_without_bytes,
    "groups with long names": groups_with_long_names,
    "lists that hold each other": lists_that_hold_each_other,
    "many members": a_hundred_thousand_members,
}

PEAK = """
import resource, sys
import evenhand as eh
from evenhand.exceptions import UntrustedFileError
eh.load(sys.argv[1], max_bytes=20_000_000)
unit = 1 if sys.platform == "darwin" else 1024
for path in sys.argv[2:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    eh.verify(path, max_bytes=20_000_000)
    try:
        eh.load(path, max_bytes=20_000_000)
        said = "loaded"
    except UntrustedFileError as error:
        said = "refused"
    print(said, unit * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1_000_000)
"""


@pytest.mark.slow
def test_small_files_that_would_fill_the_memory_are_refused_before_they_do(model, tmp_path):
    """Each would take more than 100 MB, where 20 are allowed; a normal file is loaded first."""
    pytest.importorskip("resource")
    paths = [tmp_path / f"{k}.evenhand" for k in range(len(BOMBS) + 2)]
    eh.save(model, paths[0])
    for path in paths[1:]:
        path.write_bytes(paths[0].read_bytes())
    for path, bomb in zip(paths[1:], BOMBS.values(), strict=False):
        repacked(path, bomb)
    understate(paths[-1])
    assert max(path.stat().st_size for path in paths) < 150_000
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PEAK, *map(str, paths)], check=True, capture_output=True, text=True
    )
    told = dict(zip([*BOMBS, "an understated size"], map(str.split, run.stdout.splitlines()), strict=True))
    assert {name: said for name, (said, _) in told.items()} == dict.fromkeys(told, "refused")
    assert {name: more for name, (_, more) in told.items() if int(more) > 60} == {}


def understate(path):
    """Say that a member of 100 MB has 100 bytes."""
    members = {**members_of(path.read_bytes()), "model.json": b" " * 100_000_000}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.getinfo("model.json").file_size = 100
        archive.comment = b"0" * 64
    packed = buffer.getvalue()[:-64]
    path.write_bytes(packed + hashlib.sha256(packed).hexdigest().encode())


@pytest.mark.parametrize(
    ("package", "item"), [("xgboost", b"[]"), ("xgboost", b"i\x80"), ("xgboost", b"U\xff"), ("lightgbm", b"")]
)
def test_a_booster_that_takes_much_memory_to_parse_is_refused(package, item, path):
    if package == "xgboost":
        booster = XGBClassifier(n_estimators=2, n_jobs=1)
    else:
        booster = LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    eh.save(post(booster), path)

    def change(members):
        inner = members_of(members["estimator.skops"])
        for name in [name for name in inner if name.endswith(".bin")]:
            inner[name] = inner[name][:-1] + b"U\x01x[" + item * 200_000 + b"]}"
        schema = inner["schema.json"].replace(b"max_feature_idx=", b"a\\\\n" * 200_000 + b"max_feature_idx=")
        members["estimator.skops"] = stored({**inner, "schema.json": schema})

    assert eh.verify(path, max_bytes=20_000_000).ok
    repacked(path, change)
    assert "would unpack to more than 20,000,000" in eh.verify(path, max_bytes=20_000_000).problem


def test_trees_out_of_bounds_are_refused(path, monkeypatch):
    def save(model):
        with monkeypatch.context() as unchecked:
            unchecked.setattr(parts, "check_indices", lambda _: None)
            eh.save(model, path, overwrite=True)

    sound = post(HistGradientBoostingClassifier(max_iter=2), calibration=None, average=False)

    def boosted(field, value):
        model = copy.deepcopy(sound)
        [tree] = model.posterior_model_.label.label.model._predictors[0]
        tree.nodes[field][0] = value
        return model

    for field, value in {"left": 10**6, "right": 0, "feature_idx": 10**6}.items():
        save(boosted(field, value))
        with pytest.raises(UntrustedFileError, match="branches or features"):
            eh.load(path)
    X = np.column_stack([np.round(TRAIN.X), TRAIN.X])
    boosting = HistGradientBoostingClassifier(max_iter=2, categorical_features=[True, False])
    fair = eh.FairPostprocessor(boosting, PARITY, posteriors=eh.CrossFit(2, calibration=None, average=False))
    fair.fit(np.abs(X), TRAIN.y, sensitive_features=TRAIN.sensitive)
    save(fair)
    same(fair, eh.load(path), np.abs(X))
    changed = copy.deepcopy(fair)
    [tree] = changed.posterior_model_.label.label.model._predictors[0]
    tree.binned_left_cat_bitsets = np.zeros((len(tree.raw_left_cat_bitsets) + 1, 8), np.uint32)
    save(changed)
    with pytest.raises(UntrustedFileError, match="branches or features"):
        eh.load(path)
    fair.posterior_model_.label.label.model._preprocessor = FunctionTransformer().fit(X[:, :1])
    fair.posterior_model_.label.label.model._preprocessor.validate = True
    save(fair)
    with pytest.raises(UntrustedFileError, match="is refused"):
        eh.load(path)
    model = post(RandomForestClassifier(2), calibration=None, average=False)
    model.posterior_model_.label.label.model.n_features_in_ = 5
    save(model)
    with pytest.raises(UntrustedFileError, match="branches or features"):
        eh.load(path)


@pytest.mark.parametrize(
    "part", [SVC(), KNeighborsClassifier(), csr_array(np.eye(2))], ids=["vectors", "neighbours", "sparse"]
)
def test_what_hands_sizes_of_a_file_to_compiled_code_is_not_on_the_list(part):
    if hasattr(part, "fit"):
        part.fit(TRAIN.X, TRAIN.y)
    with pytest.raises(InputError, match="not on the list of allowed types"):
        parts.dump_parts([part])


def test_other_versions_are_warned_about(saved):
    versions = {**eh.verify(saved).versions, "numpy": "1.0", "xgboost": "0.1"}
    repacked(saved, versions=versions)
    with pytest.warns(VersionWarning, match=r"numpy 1.0 \(here"):
        report = eh.verify(saved)
    assert report.ok
    assert report.differences["numpy"] == ("1.0", np.__version__)
    with pytest.warns(VersionWarning, match="numpy 1.0"):
        eh.load(saved)


def test_reports_are_of_the_public_type(saved):
    assert isinstance(eh.verify(saved), persistence.FileReport)


@pytest.mark.parametrize(("other", "match"), [("deny", "manifest describes"), ("perhaps", "damaged")])
def test_the_positive_label_is_kept_and_cannot_be_changed(other, match, path):
    labels = np.where(TRAIN.y == 1, "approve", "deny")
    before = eh.FairPostprocessor(
        LogisticRegression(), PARITY, pos_label="approve", posteriors=eh.CrossFit(2)
    )
    eh.save(before.fit(TRAIN.X, labels, sensitive_features=TRAIN.sensitive), path)
    after = eh.load(path)
    assert (after.classes_.tolist(), after.pos_label_) == (["approve", "deny"], "approve")
    same(before, after, TEST.X)

    def relabelled(members):
        old, new = (f'"pos_label_": "{label}"'.encode() for label in ("approve", other))
        assert old in members["model.json"]
        members["model.json"] = members["model.json"].replace(old, new)

    repacked(path, relabelled)
    with pytest.raises(UntrustedFileError, match=match):
        eh.load(path)


def test_no_module_path_of_ours_is_in_a_file(tmp_path):
    """Otherwise moving a module would break the files of users."""
    compas = eh.datasets.load_compas()
    rows = slice(0, 400)
    fair = eh.FairPostprocessor(
        eh.TabularClassifier(max_iter=5),
        eh.DemographicParity(difference=0.3),
        aware=True,
        posteriors=eh.CrossFit(2),
    )
    fair.fit(compas.features[rows], compas.label[rows], sensitive_features=compas.sensitive[rows])
    eh.save(fair, tmp_path / "m.eh")
    members = members_of((tmp_path / "m.eh").read_bytes())
    inner = members_of(members[archive.PARTS])
    texts = [*members.values(), *inner.values()]
    assert {found for text in texts for found in re.findall(rb"evenhand\.[a-z_]+", text)} == set()
    assert b'"TabularClassifier"' in inner["schema.json"]
    again = eh.load(tmp_path / "m.eh")
    assert type(again.estimator) is eh.TabularClassifier
