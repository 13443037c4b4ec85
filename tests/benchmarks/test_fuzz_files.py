"""Altered model files, a hundred of the thousands that the benchmark tries."""

import random
import warnings
from io import BytesIO
from zipfile import ZipFile

import pytest
from benchmarks import fuzz_files
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.exceptions import InputError, UntrustedFileError
from evenhand.files.hardening.inspection import inspect_parts
from evenhand.files.hardening.trees import check_lightgbm, check_xgboost
from evenhand.files.parts import dump_parts

PARITY = eh.DemographicParity(difference=0.1)
DRAWN = fuzz_files.DRAWN
ESTIMATORS = {
    "logistic": LogisticRegression(),
    "boosting": HistGradientBoostingClassifier(max_iter=2),
    "lightgbm": LGBMClassifier(n_estimators=2, verbose=-1),
    "xgboost": XGBClassifier(n_estimators=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_altered_file_is_refused_in_a_sentence_or_decides(name, tmp_path):
    """Most of them have checksums that are right again."""
    path = tmp_path / "m.eh"
    fair = eh.FairPostprocessor(ESTIMATORS[name], PARITY, posteriors=eh.CrossFit(2))
    eh.save(fair.fit(DRAWN.X, DRAWN.y, sensitive_features=DRAWN.sensitive), path)
    whole = path.read_bytes()
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fuzz_files.outcome(path) == "decides"
        for k in range(25):
            kind, data = fuzz_files.altered(whole, random.Random(f"{name} {k}"))  # noqa: S311
            path.write_bytes(data)
            outcomes.append(f"{k}, {kind}: {fuzz_files.outcome(path)}")
    assert [found for found in outcomes if "fault" in found] == []
    assert any("refused at verify" in found or "refused at load" in found for found in outcomes)


def test_a_loaded_model_that_cannot_decide_says_so_and_names_its_file(tmp_path):
    """Errors of other packages say nothing of the file; those of a model that was fitted here stay."""
    path = tmp_path / "m.eh"
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    fair.fit(DRAWN.X, DRAWN.y, sensitive_features=DRAWN.sensitive)
    eh.save(fair, path)
    loaded = eh.load(path)
    for model in (fair, loaded):
        model.posterior_model_ = "none"
    with pytest.raises(AttributeError):
        fair.predict(DRAWN.X)
    for method in (loaded.predict, loaded.predict_proba, loaded.decision_function):
        with pytest.raises(InputError, match=r"the model of 'm.eh' cannot decide about these rows: Attrib"):
            method(DRAWN.X)


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


def test_trees_of_lightgbm_that_lead_out_of_bounds_are_refused():
    text = LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1).fit(DRAWN.X, DRAWN.y)
    text = text.booster_.model_to_string()
    check_lightgbm(text)
    lines = dict(line.split("=", 1) for line in text.split("\n")[:20] if "=" in line)
    child = lines["left_child"].split(" ")
    width = len(child[-1])
    for old, new in (
        (f"left_child={lines['left_child']}", f"left_child={' '.join([*child[:-1], '9' * width])}"),
        (f"split_feature={lines['split_feature'][0]}", "split_feature=9"),
        ("num_leaves=4", "num_leaves=9"),
        ("tree_sizes=", "tree_sizes=9"),
        ("max_feature_idx=", "max_feature_idx=1"),
        ("num_class=1", "num_class=9"),
        ("end of trees", "end of forest"),
        ("num_cat=0", "num_cat=1"),
    ):
        with pytest.raises(UntrustedFileError, match="branches or features"):
            check_lightgbm(replaced(text, old, new))
    for other in (None, 3, "", "tree\n"):
        with pytest.raises(UntrustedFileError):
            check_lightgbm(other)


def test_trees_of_boosters_are_checked_before_anything_is_made():
    """Whatever else is right in the file."""
    text, binary = (
        dump_parts([model.fit(DRAWN.X, DRAWN.y)])[0]
        for model in (LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1), XGBClassifier(n_estimators=2))
    )
    changes = ((text, b"num_leaves=4", b"num_leaves=9"), (binary, b"left_children", b"left_childrem"))
    for data, old, new in changes:
        with ZipFile(BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        assert any(old in content for content in members.values())
        with ZipFile(altered := BytesIO(), "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content.replace(old, new, 1))
        with pytest.raises(UntrustedFileError, match="branches or features"):
            inspect_parts(altered.getvalue())


def test_trees_of_xgboost_that_lead_out_of_bounds_are_refused():
    model = XGBClassifier(n_estimators=2, max_depth=2).fit(DRAWN.X, DRAWN.y)
    data = bytes(model.get_booster().__getstate__()["handle"])
    check_xgboost(data)
    for name in (b"left_children", b"right_children", b"split_indices", b"tree_info", b"iteration_indptr"):
        at = data.index(name, data.index(b"Model")) + len(name)
        start = data.index(b"#L", at) + 10
        width = 8 if data[start - 11 : start - 10] == b"L" else 4
        changed = data[: start + width - 1] + b"\x7f" + data[start + width :]
        with pytest.raises(UntrustedFileError, match="branches or features"):
            check_xgboost(changed)
    for cut in (0, 1, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(UntrustedFileError):
            check_xgboost(data[:cut])
