"""The search for alternatives: what it reports, and what it refuses."""

import json
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.auditing.association_tests import fisher
from evenhand.exceptions import GroupError, InputError
from evenhand.less_discriminatory import candidates
from evenhand.less_discriminatory.paired_comparison import judged

REFERENCE = {"sex": "M"}
WEIGHTS = np.array([1.0, 0.8, 0.5])


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = rng.normal(size=(n, 3)) + np.outer(sex == "M", [0.2, 0.7, 0.9])
    return X, (rng.random(n) < expit(X @ WEIGHTS - 1.6)).astype(int), sex


class Linear:
    """A fixed score, which is no estimator of scikit-learn."""

    classes_ = np.array([0, 1])

    def __init__(self, weights):
        self.weights = np.asarray(weights)

    def predict_proba(self, X):
        p = expit(np.asarray(X) @ self.weights - 1.6)
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


CANDIDATES = {
    "fair": Linear([1.0, 0.4, 0.1]),
    "worse": Linear([1.0, 1.0, 0.7]),
    "poor": Linear([1.0, -1.0, 0.0]),
}


@pytest.fixture(scope="module")
def rows():
    return drawn(3_000, 0)


@pytest.fixture(scope="module")
def found(rows):
    X, y, sex = rows
    return eh.alternatives(
        Linear(WEIGHTS),
        X,
        y,
        sensitive_features={"sex": sex},
        reference=REFERENCE,
        candidates=CANDIDATES,
        margin=0.03,
    )


def test_figures_are_those_of_the_rows_that_have_no_part_in_the_choice(found):
    assert found.rows == {"trained on": 1500, "chosen on": 750, "reported on": 750}
    assert [one.name for one in found.candidates] == ["incumbent", *CANDIDATES]
    incumbent, fair, worse, poor = found.candidates
    assert found.chosen == "fair"
    assert [one.verdict for one in (incumbent, worse)] == ["in use", "impact ratio is not higher"]
    assert poor.verdict == "less accurate by more than the margin"
    assert poor.comparable is False
    assert fair.impact_ratio > incumbent.impact_ratio
    assert incumbent.accuracy_difference == 0 == incumbent.ratio_difference
    assert fair.accuracy_low < fair.accuracy_difference < fair.accuracy_high
    assert fair.ratio_low < fair.impact_ratio < fair.ratio_high
    group, men = (one for one in found.groups if one.candidate == "fair")
    assert group.rate / men.rate == pytest.approx(group.impact_ratio) == fair.impact_ratio
    assert group.shortfall == pytest.approx(group.rows * (men.rate - group.rate))
    counts = [round(one.rate * one.rows) for one in (group, men)]
    assert group.p_value == pytest.approx(fisher(counts[0], group.rows, counts[1], men.rows)[0])
    # At the same approval rate as many are newly selected as declined.
    swaps = [one for one in found.groups if one.candidate == "fair"]
    assert sum(one.newly_selected for one in swaps) == pytest.approx(sum(one.newly_declined for one in swaps))
    assert 0 <= group.good_selected <= 1


def test_the_bound_is_proven_and_no_candidate_within_the_margin_is_above_it(found):
    assert 0 <= found.gap < 3e-6
    assert found.bound_low < found.bound_estimate < found.bound_high
    curve = [one.impact_ratio for one in found.points]
    assert curve == sorted(curve)
    assert found.bound == pytest.approx(found.points[2].impact_ratio)
    assert found.points[2].margin == found.margin
    assert all(one.ratio_low <= found.bound_high for one in found.candidates[:3])
    fair = found.candidates[1]
    way = (fair.impact_ratio - found.candidates[0].impact_ratio) / (
        found.bound_estimate - found.candidates[0].impact_ratio
    )
    assert fair.closed == pytest.approx(way)


def test_text_table_chart_page_and_record(found, tmp_path):
    text = str(found)
    assert "Chosen: fair. Its lowest impact ratio is" in text
    assert "check with counsel" in text
    assert "if the learned probabilities are right, no rule on them" in " ".join(text.split())
    assert "They are no confidence interval of the most that any rule can reach" in " ".join(text.split())
    frame = found.to_frame(backend="polars")
    assert frame["name"].to_list() == ["incumbent", *CANDIDATES]
    assert found.to_frame("groups", backend="polars").height == 8
    assert found.to_frame("bound", backend="polars").columns == ["margin", "impact_ratio"]
    chart = found.plot().to_dict()
    assert "incumbent" in chart["description"]
    json.dumps(chart, allow_nan=False)  # browsers read no NaN, which a figure of the incumbent is
    page = found.to_html(tmp_path / "page.html", title="<Loans>").read_text()
    assert "<title>&lt;Loans&gt;</title>" in page
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    record = json.loads(found.to_json(tmp_path / "record.json").read_text())
    assert record["chosen"] == "fair"
    assert set(record["record"]) == {"date", "data", "python", "evenhand", "scikit-learn", "numpy"}
    assert "<table" in found._repr_html_()
    assert repr(found) == "<Alternatives: 3 models beside the incumbent, chosen: fair>"


def test_a_margin_that_the_rows_cannot_resolve_is_told(found, rows):
    assert "cannot be resolved" not in str(found)
    X, y, sex = rows
    narrow = eh.alternatives(
        Linear(WEIGHTS),
        X,
        y,
        sensitive_features={"sex": sex},
        reference=REFERENCE,
        candidates=CANDIDATES,
        margin=0.002,
    )
    assert "A margin of 0.002 cannot be resolved" in str(narrow)
    assert not any(one.comparable for one in narrow.candidates)


def test_models_are_trained_without_sensitive_columns_and_the_search_goes_on(rows, tmp_path, monkeypatch):
    X, y, sex = rows
    table = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(sex=pl.Series((sex == "M").astype(int)))
    learner = make_pipeline(StandardScaler(), lgb.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1))
    old, really, trained = learner.fit(table, y), candidates.Training.fitted, []

    def fitted(self, one):
        trained.append(one.name)
        model = really(self, one)
        assert "sex" not in getattr(model, "feature_names_in_", ["sex"]) or one.kind == "bound"
        return model

    monkeypatch.setattr(candidates.Training, "fitted", fitted)
    call = {"sensitive_features": "sex", "reference": {"sex": 1}, "folder": tmp_path / "kept", "margin": 0.03}
    first, again = (eh.alternatives(old, table, y, search=("seeds", "features"), **call) for _ in range(2))
    names = [one.name for one in first.candidates]
    assert names[0] == "incumbent"
    assert {"the same learner", "without a", "without b", "without c"} <= set(names)
    assert [one.protected for one in first.candidates] == ["yes", *["no"] * (len(names) - 1)]
    assert "with the same scores as another model:" in " ".join(str(first).split())
    assert trained.count("without a") == 1  # the second time, scores were read
    assert str(again) == str(first)
    for kept in (tmp_path / "kept").iterdir():
        kept.write_bytes(b"")
    broken = eh.alternatives(old, table, y, search=("seeds", "features"), **call)
    assert trained.count("without a") == 2  # what cannot be read is trained again
    assert str(broken) == str(first)


def test_fair_training_and_settings_are_tried(rows):
    X, y, sex = rows
    old = LogisticRegression(C=0.5).fit(*drawn(500, 9)[:2])
    found = eh.alternatives(
        old,
        X,
        y,
        sensitive_features={"sex": sex},
        reference=REFERENCE,
        search=("settings", "fair"),
        margin=0.03,
    )
    names = [one.name for one in found.candidates]
    assert {"C=0.25", "C=1"} <= set(names)
    fair = [one for one in found.candidates if one.kind == "fair"]
    assert fair
    assert all(one.protected == "no" for one in fair)
    assert max(one.impact_ratio for one in fair) > found.candidates[0].impact_ratio


def test_decisions_alone_have_rates_and_no_ranks(rows):
    X, y, sex = rows
    decisions = Linear(WEIGHTS).predict(X)
    found = eh.alternatives(
        decisions, X, y, sensitive_features={"sex": sex}, reference=REFERENCE, candidates=CANDIDATES
    )
    assert np.isnan(found.candidates[0].auc)
    assert np.isnan(found.candidates[1].auc_difference)
    assert np.isfinite(found.candidates[1].accuracy_difference)
    assert found.candidates[0].protected == "unknown"


def test_scores_with_ties_and_a_rate(rows):
    X, y, sex = rows
    scores = np.round(X @ WEIGHTS)
    found = eh.alternatives(
        scores, X, y, sensitive_features={"sex": sex}, approval_rate=0.2, candidates=CANDIDATES
    )
    assert found.rate == pytest.approx(0.2)
    assert all(
        sum(g.rate * g.rows for g in found.groups if g.candidate == one.name) == pytest.approx(0.2 * 750)
        for one in found.candidates
    )


def test_rules_that_infer_groups_are_never_chosen(rows):
    X, y, sex = rows
    blind = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(ratio=0.9))
    found = eh.alternatives(
        Linear(WEIGHTS),
        *(X, y),
        sensitive_features={"sex": sex},
        reference=REFERENCE,
        candidates={"post": blind},
        margin=0.2,
    )
    assert found.candidates[1].protected == "infers them"
    assert found.candidates[1].verdict == "infers sensitive features"
    assert found.chosen is None
    assert "None is chosen." in str(found)


@pytest.mark.parametrize(
    ("incumbent", "more", "message"),
    [
        (np.zeros(3000, int), {}, "selects nobody"),
        (np.ones(3000, int), {}, "selects everyone"),
        (np.array(["low", "mid", "high"] * 1000), {}, "neither a classifier nor"),
        (np.linspace(0, 1, 3000), {}, "has scores but no decisions: pass approval_rate"),
        (np.linspace(0, 1, 3000), {"approval_rate": 1.0}, "approval_rate must be strictly between 0 and 1"),
        (np.linspace(0, 1, 300), {"approval_rate": 0.5}, "differ in their number of rows"),
        (np.arange(3000) % 2, {"approval_rate": 0.5}, "no scores to cut at approval_rate"),
        (np.array([None, *[0, 1] * 1500][:3000], object), {}, "'incumbent' is missing in 1 of 3,000 rows"),
        (Linear(WEIGHTS), {"y": [None, *[0, 1] * 1500][:3000]}, "y is missing in 1 of 3,000 rows"),
        (Linear(WEIGHTS), {"X": np.ones((9, 3))}, "differ in their number of rows"),
        (Linear(WEIGHTS), {"candidates": {"incumbent": Linear(WEIGHTS)}}, "has the name 'incumbent'"),
        (Linear(WEIGHTS), {"folder": __file__}, "is not a folder"),
        (Linear(WEIGHTS), {"candidates": None}, "pass `estimator`, to train, or `candidates`"),
        (Linear(WEIGHTS), {"margin": 0.0}, "margin must be strictly between 0 and 1"),
        (Linear(WEIGHTS), {"search": ["magic"]}, "search must be one of"),
        (Linear(WEIGHTS), {"reference": {"sex": "X"}}, "no group has sex='X'"),
        (Linear(WEIGHTS), {"X": pl.LazyFrame({"a": [1]})}, "collect it first"),
    ],
)
def test_what_has_no_answer_is_refused(rows, incumbent, more, message):
    X, y, sex = rows
    given = {"sensitive_features": {"sex": sex}, "reference": REFERENCE, "candidates": CANDIDATES} | more
    with pytest.raises((InputError, GroupError), match=message):
        eh.alternatives(incumbent, given.pop("X", X), given.pop("y", y), **given)


def test_small_groups_are_refused(rows):
    X, y, sex = rows
    rare = np.where(np.arange(len(sex)) < 60, "other", sex)
    with pytest.raises(GroupError, match=r"sex=other has \d+ rows in a half of the held-out rows"):
        eh.alternatives(Linear(WEIGHTS), X, y, sensitive_features={"sex": rare}, candidates=CANDIDATES)


@pytest.mark.parametrize("named", [True, False])
def test_a_pipeline_that_names_its_columns_learns_without_some_of_them(rows, named):
    X, y, sex = rows
    X = np.column_stack([X, sex == "M"])
    table = pl.DataFrame(X, schema=["a", "b", "c", "sex"]) if named else X[:, :3]
    left = [
        ("scaled", StandardScaler(), ["a", "sex"] if named else [0, -1]),
        ("b", "passthrough", ["b"] if named else [1]),
    ]
    old = make_pipeline(ColumnTransformer(left), LogisticRegression()).fit(table, y)
    found = eh.alternatives(
        old, table, y, sensitive_features={"sex": sex}, reference=REFERENCE, search=["features"], margin=0.03
    )
    assert not [one for one in found.missing if "could not be tried" in one]
    protected = {one.name: one.protected for one in found.candidates}
    others = ["without a", "without b", "without c"] if named else ["without 0", "without 1", "without 2"]
    assert protected == {"incumbent": "yes" if named else "no"} | dict.fromkeys(others, "no")


def test_columns_of_a_transformer_that_are_left():
    asked = [
        ("n", "drop", ["a", "b"]),
        ("w", "drop", "b"),
        ("i", "drop", [0, -1]),
        ("m", "drop", [False, True, True]),
    ]
    rest = [("s", "drop", slice(1, None)), ("none", "drop", []), ("f", "drop", len)]
    found = candidates.without_columns(ColumnTransformer(asked + rest), ["a", "b", "c"], ["b"]).transformers
    assert found == [
        ("n", "drop", ["a"]),
        ("i", "drop", [0, 1]),
        ("m", "drop", [1]),
        ("s", "drop", [1]),
        rest[-1],
    ]


def test_a_candidate_that_is_still_to_be_fitted_sees_the_columns_that_it_is_given(rows):
    X, y, sex = rows
    table = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(sex=pl.Series((sex == "M").astype(int)))
    found = eh.alternatives(
        X @ WEIGHTS,
        *(table, y),
        sensitive_features={"sex": sex},
        approval_rate=0.2,
        candidates={"own": LogisticRegression(), "decisions": (X[:, 0] > 0).astype(int)},
        margin=0.03,
    )
    own, decisions = found.candidates[1:]
    assert (own.protected, own.verdict) == ("yes", "uses sensitive features")
    assert decisions.verdict == "has no scores to cut at the approval rate"
    assert "2 models beside the incumbent, those with scores selecting 20.0%" in str(found)


def test_an_incumbent_that_selects_nobody_of_the_reference_has_no_ratio(rows):
    X, y, sex = rows
    decisions = ((sex == "F") & (X[:, 0] > 0)).astype(int)
    learner = LogisticRegression()
    found = eh.alternatives(
        decisions,
        X,
        y,
        sensitive_features={"sex": sex},
        reference=REFERENCE,
        estimator=learner,
        search=["fair"],
    )
    assert np.isnan(found.candidates[0].impact_ratio)
    assert [one.name for one in found.candidates[1:]] == ["trained for a ratio of 1"]
    assert found.candidates[1].verdict == "impact ratios cannot be compared"
    assert found.chosen is None


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")])
def test_decisions_of_0_and_1_and_a_model_that_predicts_scores(rows, labels):
    X, y, sex = rows
    given = {
        "sensitive_features": {"sex": sex},
        "reference": REFERENCE,
        "candidates": CANDIDATES,
        "margin": 0.03,
    }
    outcomes = np.array(labels)[y]
    if labels == (0, 1):
        booster = lgb.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y).booster_
        with pytest.raises(InputError, match="scores but no decisions: pass approval_rate"):
            eh.alternatives(booster, X, outcomes, **given)
    scores = {name: X @ one.weights for name, one in CANDIDATES.items()}
    decisions = Linear(WEIGHTS).predict(X)
    found = eh.alternatives(decisions, X, outcomes, **given | {"candidates": scores})
    assert found.rate == pytest.approx(decisions.mean(), abs=0.05)
    assert found.chosen == "fair"


def test_an_impact_ratio_above_1_is_not_better_than_1(found):
    incumbent, fair, worse, _ = found.candidates
    even = replace(fair, name="even", impact_ratio=1.0, accuracy=0.9)
    above = replace(worse, name="above", impact_ratio=1.2, ratio_difference=0.5, accuracy=0.8)
    assert judged([incumbent, even, above], 0.1)[0] == "even"
    assert judged([replace(incumbent, impact_ratio=1.05), even, above], 0.1)[0] is None
