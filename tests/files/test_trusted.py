"""Files of models with the user's own classes and functions: refused, unless they are named."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import FAILED
from evenhand.exceptions import InputError, UntrustedFileError

MODULE = '''
"""What a bank has of its own."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

import evenhand as eh


class Ratios(TransformerMixin, BaseEstimator):
    """Adds the ratio of the first two columns, at most `most`."""

    def __init__(self, most=5.0, combine=np.divide):
        self.most = most
        self.combine = combine

    def fit(self, X, y=None):
        self.middle_ = float(np.median(np.asarray(X)[:, 1]))
        return self

    def transform(self, X):
        X = np.asarray(X, dtype=float)
        ratio = self.combine(X[:, 0], np.abs(X[:, 1] - self.middle_) + 1)
        return np.column_stack([X, np.clip(ratio, -self.most, self.most)])


def doubled(X):
    return np.asarray(X, dtype=float) * 2


def side(X):
    return {"side": np.where(np.asarray(X)[:, 0] > 0, "right", "left")}


class MissParity(eh.Notion):
    """Positives of every group are missed equally often."""

    label = "miss parity"
    statistics = (eh.Statistic("false-negative rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1)),)
'''
RATIOS, DOUBLED, SIDE = "mybank.features.Ratios", "mybank.features.doubled", "mybank.features.side"
DRAWN = eh.datasets.GaussianProblem.random(seed=3).sample(600, seed=0)
X = np.hstack([DRAWN.X, np.random.default_rng(0).normal(size=(600, 1))])


@pytest.fixture
def mybank(tmp_path, monkeypatch):
    package = tmp_path / "code" / "mybank"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "features.py").write_text(MODULE)
    monkeypatch.syspath_prepend(package.parent)
    import mybank.features  # type: ignore[import-not-found]

    yield mybank.features
    for name in ("mybank.features", "mybank"):
        sys.modules.pop(name)


def fitted(*steps, **settings):
    model = make_pipeline(*steps, StandardScaler(), LogisticRegression())
    fair = eh.FairPostprocessor(
        model, eh.DemographicParity(difference=0.1), posteriors=eh.CrossFit(2), **settings
    )
    groups = None if settings else DRAWN.sensitive
    return fair.fit(X, DRAWN.y, sensitive_features=groups)


def test_a_class_of_the_user_is_refused_with_its_name_and_the_way_out(mybank, tmp_path):
    with pytest.raises(InputError, match=r"trusted=\['mybank.features.Ratios'\] to save and to load"):
        eh.save(fitted(mybank.Ratios(combine=np.subtract)), tmp_path / "m.eh")
    assert not (tmp_path / "m.eh").exists()


def test_a_trusted_class_is_saved_by_name_and_loads_only_if_trusted(mybank, tmp_path):
    path = tmp_path / "m.eh"
    fair = fitted(mybank.Ratios(), FunctionTransformer(mybank.doubled))
    names = [RATIOS, DOUBLED, "numpy.divide"]
    eh.save(fair, path, trusted=names)
    assert json.loads(zipfile.ZipFile(path).read("manifest.json"))["trusted"] == sorted(names)
    assert b"def transform" not in path.read_bytes()
    back = eh.load(path, trusted=names)
    np.testing.assert_array_equal(back.predict(X), fair.predict(X))
    assert eh.verify(path, trusted=names).ok
    proof = eh.verify(path, data=(X, DRAWN.y), sensitive_features=DRAWN.sensitive, trusted=names).proof
    assert proof.confirmed
    for fewer in ([], names[:1], [RATIOS.rpartition(".")[0]], ["mybank.*", "numpy.divide", DOUBLED]):
        with pytest.raises(UntrustedFileError, match="not on the list of allowed types"):
            eh.load(path, trusted=fewer)
        assert not eh.verify(path, trusted=fewer).ok


def test_one_text_is_no_list_of_names(mybank, tmp_path):
    """A name would be looked for within it."""
    fair = fitted(FunctionTransformer(mybank.doubled))
    with pytest.raises(InputError, match="must be a list of full names"):
        eh.save(fair, tmp_path / "m.eh", trusted=DOUBLED)
    eh.save(fair, tmp_path / "m.eh", trusted=[DOUBLED])
    with pytest.raises(InputError, match="must be a list of full names"):
        eh.load(tmp_path / "m.eh", trusted=DOUBLED)


def test_a_trusted_model_loads_in_another_process(mybank, tmp_path):
    fair = fitted(FunctionTransformer(mybank.doubled))
    eh.save(fair, tmp_path / "m.eh", trusted=[DOUBLED])
    np.save(tmp_path / "X.npy", X)
    code = (
        "import numpy as np, evenhand as eh; "
        f"fair = eh.load('m.eh', trusted=['{DOUBLED}']); print(int(fair.predict(np.load('X.npy')).sum()))"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, 'code'); {code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603
    assert int(done.stdout) == fair.predict(X).sum()


def test_the_command_line_trusts_only_what_it_is_told(mybank, capsys, tmp_path):
    pytest.importorskip("cyclopts", reason="the command line's packages are not there")
    table = pl.DataFrame(X, schema=[f"x{k}" for k in range(X.shape[1])])
    table = table.with_columns(sex=np.where(DRAWN.X[:, 0] > 0, "F", "M"))
    model = make_pipeline(FunctionTransformer(mybank.doubled), LogisticRegression())
    fair = eh.FairPostprocessor(
        model, eh.DemographicParity(difference=0.1), sensitive_features="sex", posteriors=eh.CrossFit(2)
    )
    path, rows = tmp_path / "m.eh", tmp_path / "t.csv"
    eh.save(fair.fit(table, DRAWN.y), path, trusted=[DOUBLED])
    table.with_columns(d=0).write_csv(rows)
    predict = ["predict", path, rows, "--out", tmp_path / "d.csv"]
    monitor = ["monitor", tmp_path / "s.json", rows, "--model", path, "--prediction", "d"]
    for call in (predict, monitor):
        assert f"pass --trusted {DOUBLED}." in refused(capsys, *call)
        assert f"pass --trusted {DOUBLED}." in refused(capsys, *call, "--trusted", RATIOS)
        assert run(capsys, *call, "--trusted", RATIOS, "--trusted", DOUBLED)[0] == 0
    code, out, _ = run(capsys, "verify", path)
    assert code == FAILED
    assert f"pass --trusted {DOUBLED}." in out
    assert run(capsys, "verify", path, "--trusted", DOUBLED)[0] == 0


def test_a_function_that_finds_the_groups_can_be_trusted_too(mybank, tmp_path):
    fair = fitted(sensitive_features=mybank.side, aware=True)
    with pytest.raises(InputError, match=rf"pass trusted=\['{SIDE}'\]"):
        eh.save(fair, tmp_path / "m.eh")
    eh.save(fair, tmp_path / "m.eh", trusted=[SIDE])
    with pytest.raises(UntrustedFileError, match=r"mybank\.features\.side"):
        eh.load(tmp_path / "m.eh")
    back = eh.load(tmp_path / "m.eh", trusted=[SIDE])
    np.testing.assert_array_equal(back.predict(X), fair.predict(X))


def test_what_cannot_be_imported_elsewhere_is_refused(mybank, tmp_path):
    fair = fitted(FunctionTransformer(mybank.doubled))
    name = f"{__name__}.gone"
    mybank.doubled.__module__ = __name__
    mybank.doubled.__name__ = mybank.doubled.__qualname__ = "gone"
    with pytest.raises(InputError, match="gone"):
        eh.save(fair, tmp_path / "m.eh", trusted=[name])
    with pytest.raises(InputError, match="not on the list of allowed types"):
        eh.save(fitted(FunctionTransformer(lambda X: X)), tmp_path / "m.eh")


def test_trust_does_not_reach_what_special_loaders_make(mybank, tmp_path):
    """A name is trusted as a class or function, not as a method, a generator or a reduced object."""
    path = tmp_path / "m.eh"
    eh.save(fitted(FunctionTransformer(mybank.doubled)), path, trusted=[DOUBLED])
    from tests.files.test_parameters import altered

    def as_method(schema):
        for node in _nodes(schema):
            if node.get("__class__") == "doubled":
                node["__loader__"] = "MethodNode"

    altered(path, as_method)
    with pytest.raises(UntrustedFileError, match=r"doubled \(as MethodNode\)"):
        eh.load(path, trusted=[DOUBLED])


def _nodes(schema):
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)
