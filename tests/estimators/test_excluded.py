"""``missing="exclude"`` in fit: no group and no part in the requirement, but a label to learn from."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import GroupError, InputError

N = 800
DATA = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3).sample(N, seed=1)
RNG = np.random.default_rng(5)
X, Y = DATA.X, DATA.y
GROUPS = pd.DataFrame(DATA.sensitive).astype(object)
FIRST, SECOND = GROUPS.columns
LACKING = {name: RNG.random(N) < 0.2 for name in GROUPS}
PARTLY = GROUPS.assign(**{name: GROUPS[name].where(~lacking, None) for name, lacking in LACKING.items()})
WHOLE = ~PARTLY.isna().any(axis=1).to_numpy()
PARITY = eh.DemographicParity(difference=0.2)
PLAIN = {"cv": 2, "average": False, "calibration": None}


def fair(kind=eh.FairPostprocessor, constraint=PARITY, **settings):
    return build(kind, LogisticRegression(), constraint, missing="exclude", **{**PLAIN, **settings})


def label_model(model):
    found = model.posterior_model_.label
    return getattr(found, "label", found).model


@pytest.mark.parametrize("posterior", ["separate", "label_then_group"])
@pytest.mark.parametrize("kind", ["array", "sparse", "pandas", "polars"])
def test_excluded_rows_teach_the_label_and_nothing_else(posterior, kind):
    names = [f"x{k}" for k in range(X.shape[1])]
    given = {
        "array": lambda: X,
        "sparse": lambda: csr_array(X),
        "pandas": lambda: pd.DataFrame(X, columns=names),
        "polars": lambda: pl.DataFrame(X, schema=names),
    }[kind]()
    found = fair(posterior=posterior).fit(given, Y, sensitive_features=PARTLY)
    assert np.allclose(label_model(found).coef_, LogisticRegression().fit(X, Y).coef_, atol=1e-3)
    assert not np.allclose(label_model(found).coef_, LogisticRegression().fit(X[WHOLE], Y[WHOLE]).coef_)
    assert found.groups_.counts.sum() == WHOLE.sum()
    assert found.groups_.excluded_rows == (~WHOLE).sum()
    assert found.groups_.excluded_by_feature == {name: int(part.sum()) for name, part in LACKING.items()}
    [own] = np.unique(found.rates_.mass.sum().round(9))
    assert own == pytest.approx(1.0)
    assert len(found.predict(given)) == N  # every row is decided


def test_masses_are_those_of_the_rows_that_have_groups():
    found = fair(aware=True).fit(X, Y, sensitive_features=PARTLY)
    expected = eh.cell_rates(Y[WHOLE], Y[WHOLE], GROUPS[WHOLE])
    assert np.allclose(found.rates_.masses.sum(axis=1), expected.masses.sum(axis=1))


@pytest.mark.parametrize(
    "settings",
    [{"posterior": "joint"}, {"aware": True}],
    ids=["joint", "aware"],
)
def test_models_that_need_the_group_learn_from_the_others_only(settings):
    found = fair(**settings).fit(X, Y, sensitive_features=PARTLY)
    expected = fair(**settings).fit(X[WHOLE], Y[WHOLE], sensitive_features=GROUPS[WHOLE])
    assert np.allclose(found.rule_.table, expected.rule_.table)
    given = GROUPS if settings.get("aware") else None
    assert np.array_equal(
        found.predict(X, sensitive_features=given), expected.predict(X, sensitive_features=given)
    )


def test_a_classifier_that_uses_the_group_refuses_rows_without_it():
    found = fair(aware=True).fit(X, Y, sensitive_features=PARTLY)
    message = rf"'{FIRST}' is missing in 1 of 2 rows, and decisions use it: missing='exclude'"
    one = pd.DataFrame({FIRST: [GROUPS[FIRST][0], None], SECOND: GROUPS[SECOND][:2]}, dtype=object)
    for method in (found.predict, found.predict_proba, found.decision_function, found.predict_label_proba):
        with pytest.raises(GroupError, match=message):
            method(X[:2], sensitive_features=one)


def test_a_row_that_has_what_decisions_use_teaches_the_label():
    found = fair(aware=[FIRST], posterior="label_then_group").fit(X, Y, sensitive_features=PARTLY)
    there = ~LACKING[FIRST]
    seen = np.column_stack([X, *(GROUPS[FIRST] == value for value in sorted(GROUPS[FIRST].unique()))])
    expected = LogisticRegression().fit(seen[there].astype(float), Y[there])
    assert np.allclose(label_model(found).coef_, expected.coef_, atol=1e-3)
    assert len(found.predict(X[there], sensitive_features=PARTLY[there])) == there.sum()


def test_columns_of_x_and_weights():
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]).join(PARTLY)
    weights = RNG.random(N) + 0.5
    blind = fair(sensitive_features=list(PARTLY), posterior="label_then_group")
    blind.fit(table, Y, sample_weight=weights)
    expected = LogisticRegression().fit(X, Y, sample_weight=weights)
    assert np.allclose(label_model(blind).coef_, expected.coef_, atol=1e-3)
    by = eh.cell_rates(Y[WHOLE], Y[WHOLE], GROUPS[WHOLE], sample_weight=weights[WHOLE])
    aware = fair(sensitive_features=list(PARTLY), aware=True).fit(table, Y, sample_weight=weights)
    assert np.allclose(aware.rates_.masses.sum(axis=1), by.masses.sum(axis=1))
    assert len(blind.predict(table)) == N


def test_the_default_trees_calibrated_and_saved(tmp_path):
    model = eh.FairPostprocessor(
        None, PARITY, n_jobs=1, posteriors=eh.CrossFit(2), groups=eh.GroupPolicy(missing="exclude")
    )
    model.fit(X, Y, sensitive_features=PARTLY)
    path = tmp_path / "model.eh"
    eh.save(model, path)
    loaded = eh.load(path)
    assert loaded.groups_.excluded == model.groups_.excluded
    assert np.array_equal(loaded.predict(X), model.predict(X))
    proven = eh.verify(path, data=(X, Y), sensitive_features=PARTLY)
    assert proven.proof.confirmed, proven.proof.verdict
    other = eh.verify(path, data=(X, Y), sensitive_features=GROUPS)
    assert not other.proof.confirmed


def test_a_guarantee_is_about_the_rows_that_have_groups():
    loose = eh.DemographicParity(difference=0.4)
    found = fair(constraint=loose, confidence=0.5).fit(X, Y, sensitive_features=PARTLY)
    assert found.guarantee_.holds
    assert found.guarantee_.n_rows == WHOLE.sum() / 2  # half of them is held out
    assert len(found.predict(X)) == N


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_in_processing_leaves_excluded_rows_out():
    found = eh.FairInprocessor(
        LogisticRegression(), PARITY, posteriors=eh.CrossFit(2), groups=eh.GroupPolicy(missing="exclude")
    )
    found.fit(X, Y, sensitive_features=PARTLY)
    expected = eh.FairInprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    expected.fit(X[WHOLE], Y[WHOLE], sensitive_features=GROUPS[WHOLE])
    assert np.array_equal(found.predict(X), expected.predict(X))
    assert found.groups_.excluded_rows == (~WHOLE).sum()


def test_a_frontier_measures_the_rows_that_have_groups():
    half = slice(0, N // 2), slice(N // 2, N)
    curve = eh.frontier(
        fair(),
        X[half[0]],
        Y[half[0]],
        sensitive_features=PARTLY.iloc[half[0]],
        test=(X[half[1]], Y[half[1]], PARTLY.iloc[half[1]]),
        tolerances=[0.05, 0.2],
    )
    assert curve.points[0].counted.rows.sum() == WHOLE[half[1]].sum() == curve.n_rows


def test_what_cannot_be_excluded_is_refused():
    with pytest.raises(InputError, match=r"cv must be a number or a splitter where missing='exclude'"):
        fair(cv=[(np.arange(400), np.arange(400, N))]).fit(X, Y, sensitive_features=PARTLY)
    one_class = PARTLY.copy()
    one_class.loc[Y == 0, FIRST] = None
    with pytest.raises(InputError, match=r"y has only one class in the [\d,]+ of 800 rows that have all"):
        fair().fit(X, Y, sensitive_features=one_class)
    with pytest.raises(InputError, match="missing"):
        eh.FairPostprocessor(LogisticRegression(), PARITY, groups=eh.GroupPolicy(missing="drop")).fit(
            X, Y, sensitive_features=GROUPS
        )
