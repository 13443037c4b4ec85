"""Fits to tables that are read in batches."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from tests.conftest import often
from tests.flat import build

import evenhand as eh
from evenhand.data import batched_table
from evenhand.estimators.fit_rows import Score
from evenhand.estimators.limits import LIMITS
from evenhand.estimators.row_sample import count_table, draw_sample
from evenhand.exceptions import EvenhandError, InputError
from evenhand.sources.lazy_files import InFiles

N = 3000
PARITY = eh.DemographicParity(difference=0.05)


def people(n=N, seed=0, *, discrete=False):
    """Four groups of different sizes; with discrete features few rows differ."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    race = rng.choice(["a", "b"], n, p=[0.8, 0.2])
    apart = 0.8 * (sex == "M") - 0.6 * (race == "b")
    x = rng.normal(apart[:, None], 1.0, (n, 2))
    if discrete:
        x = np.clip(np.round(x), -1, 1)
    label = rng.random(n) < 1 / (1 + np.exp(-1.5 * x.sum(axis=1)))
    return pl.DataFrame(
        {
            "x0": x[:, 0],
            "x1": x[:, 1],
            "sex": sex,
            "race": race,
            "paid": np.where(label, "yes", "no"),
            "weight": rng.random(n) + 0.1,
        }
    )


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 700)


def classifier(**settings):
    return build(
        eh.FairPostprocessor,
        **{
            "estimator": LogisticRegression(),
            "constraint": PARITY,
            "sensitive_features": ["sex", "race"],
            "cv": 3,
            **settings,
        },
    )


def in_memory(model, table, weight=None):
    X = table.drop("paid", *([] if weight is None else [weight]))
    return clone(model).fit(X, table["paid"], sample_weight=None if weight is None else table[weight])


def of(model, table, method="predict"):
    return getattr(model, method)(table.select(model.feature_names_in_.tolist()))


# Files


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
@pytest.mark.parametrize("aware", [False, True, ["sex"]], ids=["blind", "aware", "partly"])
@pytest.mark.parametrize("max_samples", [10_000, 600])
def test_rare_groups_are_pooled(aware, max_samples):
    rare = pl.when(pl.int_range(pl.len()) % 60 < 4).then(pl.format("z{}", pl.int_range(pl.len()) % 60))
    table = people().drop("weight").with_columns(sex=rare.otherwise("sex"))
    model = classifier(min_group_size=200, aware=aware, unseen="pooled", max_samples=max_samples)
    outside = clone(model).fit(table.lazy(), "paid")
    inside = in_memory(model, table)
    assert outside.groups_.pooled == inside.groups_.pooled
    assert outside.groups_.keys == inside.groups_.keys
    if max_samples > N:
        assert (of(inside, table) == of(outside, table)).mean() > 0.99


@pytest.mark.parametrize("kind", ["parquet", "csv", "dataset"])
def test_files_of_any_kind(kind, tmp_path):
    table = people().drop("weight")
    for k in range(3):
        part = table[1000 * k : 1000 * k + 1000]
        part.write_csv(tmp_path / f"{k}.csv") if kind == "csv" else part.write_parquet(
            tmp_path / f"{k}.parquet"
        )
    lazy = {
        "parquet": lambda: pl.scan_parquet(tmp_path / "*.parquet"),
        "csv": lambda: pl.scan_csv(tmp_path / "*.csv"),
        "dataset": lambda: ds.dataset(tmp_path),
    }[kind]()
    outside = classifier().fit(lazy, "paid")
    inside = in_memory(classifier(), table)
    assert outside.certificate_.objective == pytest.approx(inside.certificate_.objective, abs=1e-6)
    decided = np.concatenate(list(outside.predict(lazy)))
    assert (decided == of(inside, table)).all()


def test_a_group_in_one_file_only(tmp_path):
    table = people().drop("weight").sort("race", maintain_order=True)
    table[:1500].write_parquet(tmp_path / "0.parquet")
    table[1500:].write_parquet(tmp_path / "1.parquet")
    outside = classifier(max_samples=500).fit(pl.scan_parquet(tmp_path / "*.parquet"), "paid")
    assert len(outside.groups_) == 4
    assert outside.certificate_.gap < 1e-6


# Randomised decisions


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("max_samples", often([1500, 20_000], 1), ids=["a sample", "all rows"])
@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["trees", "logistic"])
def test_planned_rates_hold_where_rows_repeat(aware, max_samples, estimator, monkeypatch):
    """With nine distinct rows a requirement needs randomised decisions, which further rows share."""
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 5000)
    table = people(12_000, discrete=True).drop("weight")
    constraint = eh.DemographicParity(difference=0.01)
    model = classifier(aware=aware, max_samples=max_samples, constraint=constraint, estimator=estimator)
    outside = clone(model).fit(table.lazy(), "paid")
    chance = of(outside, table, "predict_proba")[:, 1]
    assert ((chance > 0) & (chance < 1)).mean() > 0.02
    decided = outside.predict(table.select(outside.feature_names_in_.tolist()), ids=np.arange(len(table)))
    assert (decided == "yes").mean() == pytest.approx(chance.mean(), abs=0.01)
    # What the posteriors say of the rates of these rows, against what was planned.
    planned = outside.rates_
    p = cells_of(outside, table)
    masses = p.mean(axis=0)
    selected = (p * chance[:, None, None]).mean(axis=0) / masses
    np.testing.assert_allclose(masses, planned.masses, atol=0.01)
    np.testing.assert_allclose(selected, planned.rates, atol=0.03)
    if max_samples > len(table):
        inside = in_memory(model, table)
        np.testing.assert_allclose(of(inside, table, "predict_proba")[:, 1], chance, atol=2e-3)
        assert outside.certificate_.objective == pytest.approx(inside.certificate_.objective, abs=1e-6)


def cells_of(model, table):
    """Posteriors of the cells by the model for new rows."""
    return model._read(table.select(model.feature_names_in_.tolist()), None)[1].dense()


def test_a_frozen_model_with_atoms_is_decided_as_in_memory():
    table = people(discrete=True).drop("weight")
    others = people(seed=7, discrete=True)
    frozen = LogisticRegression().fit(others.select("x0", "x1"), others["paid"])
    model = classifier(estimator=FrozenEstimator(frozen), group_estimator=GaussianNB())
    outside, inside = clone(model).fit(table.lazy(), "paid"), in_memory(model, table)
    np.testing.assert_allclose(
        of(inside, table, "predict_proba"), of(outside, table, "predict_proba"), atol=1e-6
    )


# Samples


def sample_of(model, table, **columns):
    source = InFiles(table.lazy(), "paid", model.sensitive_features, columns.get("weight"))
    settings = model.settings()
    counted = count_table(settings, source)
    return counted.cells[:-1], draw_sample(settings, source, counted, seed=3)


@pytest.mark.parametrize("max_samples", [40, 300, 1000, 2999])
def test_at_most_max_samples_are_learned_from_and_every_cell_is_among_them(max_samples):
    table = (
        people()
        .drop("weight")
        .with_columns(race=pl.when(pl.int_range(pl.len()) % 600 == 0).then(pl.lit("rare")).otherwise("race"))
    )
    large, sample = sample_of(classifier(max_samples=max_samples), table)
    examples = sample.data.examples
    assert max_samples - large.size <= len(examples) == len(sample.rows) <= max_samples
    drawn = np.bincount(examples.cells, minlength=large.size).reshape(-1, 2)
    assert ((drawn > 0) == (large > 0)).all()
    small = large <= max_samples // (2 * np.count_nonzero(large))
    assert (drawn[small] == large[small]).all()
    weighted = np.bincount(examples.cells, examples.weights, minlength=drawn.size).reshape(-1, 2)
    np.testing.assert_allclose(weighted / weighted.sum(), large / N, rtol=1e-9)
    # The rows are those of the table.
    X, y = table[sample.rows].drop("paid", "sex", "race"), table["paid"].to_numpy()[sample.rows]
    assert X.equals(examples.X)
    assert ((y == "yes") == examples.positive).all()


def test_rows_are_drawn_alike_for_a_learner_without_weights():
    large, sample = sample_of(classifier(estimator=KNeighborsClassifier(), max_samples=600), people())
    assert sample.data.examples.weights is None
    drawn = np.bincount(sample.data.examples.cells, minlength=8).reshape(-1, 2)
    np.testing.assert_allclose(drawn / drawn.sum(), large / N, atol=0.01)


def test_weights_of_a_column_and_of_the_draw_are_multiplied():
    table = people()
    _, sample = sample_of(classifier(max_samples=600), table, weight="weight")
    large, plain = sample_of(classifier(max_samples=600), table.drop("weight"))
    del large
    own = table["weight"].to_numpy()[sample.rows]
    expected = own * plain.data.examples.weights
    np.testing.assert_allclose(sample.data.examples.weights, expected / expected.mean())
    np.testing.assert_array_equal(sample.data.weights, own)


def test_a_sampled_fit_keeps_the_requirement_on_all_rows(monkeypatch):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 8000)
    table = people(20_000).drop("weight")
    outside = classifier(max_samples=2000).fit(table.lazy(), "paid")
    assert outside.certificate_.violation < 1e-9
    assert outside.certificate_.gap < 1e-6
    assert outside.fitted_to_.rows == 20_000
    rates = eh.cell_rates(table["paid"], of(outside, table), table.select("sex", "race"))
    [parity] = PARITY.measure(rates)
    assert parity.difference < 0.05 + 0.03
    inside = in_memory(classifier(), table)
    accuracy = [(of(model, table) == table["paid"].to_numpy()).mean() for model in (inside, outside)]
    assert accuracy[1] > accuracy[0] - 0.01


def test_the_same_seed_draws_the_same_rows():
    table = people().drop("weight")
    first, again = (classifier(max_samples=500).fit(table.lazy(), "paid") for _ in range(2))
    other = classifier(max_samples=500, random_state=1).fit(table.lazy(), "paid")
    assert first.rule_.to_json() == again.rule_.to_json()
    assert first.rule_.to_json() != other.rule_.to_json()


@pytest.mark.parametrize("max_samples", [0, -5, 2.5, "all", True])
def test_max_samples_should_be_a_positive_integer(max_samples):
    with pytest.raises(InputError, match="max_samples must be a positive integer"):
        classifier(max_samples=max_samples).fit(people().lazy(), "paid")


def test_fewer_max_samples_than_cells_are_refused():
    with pytest.raises(InputError, match="max_samples=9 is too few for 8 combinations of group and label"):
        classifier(max_samples=9).fit(people().lazy(), "paid")


# After the fit


@pytest.mark.parametrize("aware", [False, True, ["race"]], ids=["blind", "aware", "partly"])
def test_a_saved_model_decides_the_same(aware, tmp_path):
    table = people(discrete=True).drop("weight")
    outside = classifier(aware=aware, max_samples=900).fit(table.lazy(), "paid")
    eh.save(outside, tmp_path / "m.eh")
    assert eh.verify(tmp_path / "m.eh").ok
    again = eh.load(tmp_path / "m.eh")
    np.testing.assert_array_equal(of(again, table, "predict_proba"), of(outside, table, "predict_proba"))
    np.testing.assert_array_equal(
        np.concatenate(list(again.predict(table.lazy()))), np.concatenate(list(outside.predict(table.lazy())))
    )


def test_answers_come_in_batches(tmp_path):
    table = people().with_columns(id=pl.int_range(pl.len()))
    outside = classifier().fit(table.drop("weight", "id").lazy(), "paid")
    lazy = table.select("id", "weight", "race", "x1", "sex", "x0").lazy()  # another order, and more columns
    for method in ("predict", "predict_proba", "predict_label_proba", "decision_function"):
        batches = list(getattr(outside, method)(lazy))
        assert [len(batch) for batch in batches] == [700, 700, 700, 700, 200]
        np.testing.assert_array_equal(np.concatenate(batches), of(outside, table, method))
    by_id = np.concatenate(list(outside.predict(lazy, ids="id")))
    X = table.select(outside.feature_names_in_.tolist())
    assert (by_id == outside.predict(X, ids=table["id"])).all()
    blind = lazy.drop("sex", "race")  # columns that are hidden from the model
    assert (np.concatenate(list(outside.predict(blind))) == of(outside, table)).all()


def test_answers_that_cannot_be_given_are_refused_at_once():
    table = people().drop("weight")
    outside = classifier(aware=True).fit(table.lazy(), "paid")
    with pytest.raises(InputError, match="X has no column 'x1', which should hold a feature of the model"):
        outside.predict(table.lazy().drop("x1"))
    with pytest.raises(InputError, match="'race'"):
        outside.predict(table.lazy().drop("race"))
    with pytest.raises(InputError, match="'number', which should hold ids"):
        outside.predict(table.lazy(), ids="number")
    with pytest.raises(InputError, match="sensitive features are columns of it"):
        outside.predict(table.lazy(), sensitive_features=table.select("sex"))
    array = table.select("x0", "x1").to_numpy()
    plain = eh.FairPostprocessor(LogisticRegression(), PARITY).fit(
        array, table["paid"], sensitive_features=table["sex"]
    )
    with pytest.raises(InputError, match="fitted to columns without names"):
        plain.predict(table.lazy())


def test_an_answer_that_is_left_half_way_does_no_harm():
    table = people().drop("weight")
    outside = classifier().fit(table.lazy(), "paid")
    answers = outside.predict(table.lazy())
    assert len(next(answers)) == 700
    answers.close()
    assert sum(map(len, outside.predict(table.lazy()))) == N


# Bad inputs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": "payd"}, "X has no column 'payd', which should hold the label. Did you mean 'paid'?"),
        ({"sample_weight": "weigth"}, "'weigth', which should hold sample weights. Did you mean 'weight'?"),
        ({"y": "sex"}, "column 'sex' has two roles"),
        ({"sample_weight": "paid"}, "column 'paid' has two roles"),
        ({"y": people()["paid"]}, "X is a lazy table; call .collect"),
        ({"sample_weight": np.ones(N)}, "X is a lazy table; call .collect"),
        ({"sensitive_features": people().select("sex")}, "name columns of the table in the constructor"),
        ({"y": "x0"}, "label"),
        ({"sample_weight": "race"}, "column 'race' has two roles"),
        ({"sample_weight": "name"}, "sample_weight must be numbers"),
    ],
    ids=str,
)
def test_a_wrong_call_is_one_sentence(arguments, message):
    model = classifier()
    with pytest.raises(EvenhandError) as refused:
        model.fit(people().with_columns(name=pl.lit("Ada")).lazy(), **{"y": "paid", **arguments})
    assert message in str(refused.value)
    assert not hasattr(model, "rule_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sensitive_features": ["sexe"]}, "no column 'sexe', which should hold a sensitive feature"),
        ({"sensitive_features": None}, "name its sensitive columns in the constructor"),
        ({"sensitive_features": len}, "name its sensitive columns in the constructor"),
        ({"sensitive_features": [2]}, "name the column of X that holds a sensitive feature"),
        ({"aware": ["age"]}, "aware names 'age'"),
        ({"pos_label": "maybe"}, "pos_label='maybe' is not a value of y"),
        ({"constraint": None}, "constraint must be a notion"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_one_sentence(settings, message):
    with pytest.raises(EvenhandError) as refused:
        classifier(**settings).fit(people().lazy(), "paid")
    assert message in str(refused.value)


def with_cell(row, column, value):
    at_row = pl.int_range(pl.len()) == row
    return people().with_columns(pl.when(at_row).then(pl.lit(value)).otherwise(column).alias(column))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), None])
def test_a_bad_weight_is_told_with_its_row(value):
    table = with_cell(2345, "weight", value)
    with pytest.raises(InputError, match=r"in 1 rows, the first of them row 2,345 \(counted from 0\)"):
        classifier().fit(table.lazy(), "paid", sample_weight="weight")


@pytest.mark.parametrize("max_samples", [10_000, 100])
@pytest.mark.parametrize("value", [float("nan"), None, float("inf")])
def test_a_bad_feature_is_told_with_its_row(value, max_samples):
    """Whether the row is learned from or only scored."""
    table = with_cell(2345, "x1", value).drop("weight")
    with pytest.raises(InputError, match=r"row 2,345 \(counted from 0\)"):
        classifier(max_samples=max_samples).fit(table.lazy(), "paid")


def test_a_bad_feature_of_a_row_to_decide_is_told_with_its_row():
    model = classifier().fit(people().drop("weight").lazy(), "paid")
    answers = model.predict(with_cell(2345, "x1", None).lazy())
    assert [len(next(answers)) for _ in range(3)] == [700, 700, 700]
    with pytest.raises(InputError, match=r"row 2,345 \(counted from 0\)"):
        next(answers)


def test_given_splits_need_all_rows():
    splits = [(np.arange(1500), np.arange(1500, N)), (np.arange(1500, N), np.arange(1500))]
    table = people().drop("weight")
    assert classifier(cv=splits).fit(table.lazy(), "paid").certificate_.gap < 1e-6
    with pytest.raises(
        InputError, match="does not support cv as a list of splits, where models learn from a sample"
    ):
        classifier(cv=splits, max_samples=500).fit(table.lazy(), "paid")


def test_learners_that_take_missing_values_get_them():
    table = with_cell(2345, "x1", None).drop("weight")
    assert classifier(estimator=None, cv=2, max_samples=500).fit(table.lazy(), "paid").certificate_.gap < 1e-6


def test_labels_that_are_missing_or_of_one_class_are_refused():
    with pytest.raises(InputError, match=r"y \('paid'\) is missing in 1 of 3,000 rows"):
        classifier().fit(with_cell(17, "paid", None).lazy(), "paid")
    with pytest.raises(InputError, match=r"y \('paid'\) has only one class \('no'\)"):
        classifier().fit(people().filter(paid="no").lazy(), "paid")
    for most in (500, 5000):
        with pytest.raises(InputError, match=r"pos_label='yes' is for two labels, and y \('paid'\) has 3"):
            classifier(pos_label="yes", max_samples=most).fit(with_cell(17, "paid", "perhaps").lazy(), "paid")
    with pytest.raises(InputError, match=r"X has no rows\."):
        classifier().fit(people().head(0).lazy(), "paid")


def test_zero_weight_in_every_row_is_refused():
    with pytest.raises(InputError, match="sample_weight"):
        classifier().fit(people().with_columns(weight=0.0).lazy(), "paid", sample_weight="weight")


def test_a_table_that_grows_while_it_is_read_is_refused(monkeypatch):
    table = people().drop("weight")
    model = classifier()
    monkeypatch.setattr(InFiles, "n_rows", N - 1)
    with pytest.raises(InputError, match="X had 2,999 rows when they were counted, and now has 3,000"):
        model.fit(table.lazy(), "paid")


# Interruptions


@pytest.fixture
def scored(monkeypatch):
    """Numbers of the first rows of the batches that are scored; what is put into `fail` is raised at one."""
    seen, fail = [], {}
    score = Score.__call__

    def watched(self, batch, own):
        if int(batch.numbers[0]) in fail:
            raise fail.pop(int(batch.numbers[0]))
        seen.append(int(batch.numbers[0]))
        return score(self, batch, own)

    monkeypatch.setattr(Score, "__call__", watched)
    return seen, fail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["Ctrl-C", "no memory"])
def test_an_interrupted_fit_leaves_nothing(error, scored, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scored[1][1400] = error
    model = classifier(max_samples=800)
    with pytest.raises(type(error)):
        model.fit(people().drop("weight").lazy(), "paid")
    assert scored[0] == [0, 700]
    assert list(tmp_path.iterdir()) == []
    assert not hasattr(model, "rule_")


def test_batches_that_are_scored_side_by_side_change_nothing(small_batches):
    table = people().drop("weight")
    one, two = (classifier(max_samples=800, n_jobs=n).fit(table.lazy(), "paid") for n in (1, 2))
    assert one.rule_.to_json() == two.rule_.to_json()
    assert one.certificate_ == two.certificate_


# What is not supported


def test_the_page_lists_what_is_not_supported():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "large_tables.md").read_text("utf-8")
    assert [f"| {what} | {remedy} |" for what, remedy in LIMITS.values()] == [
        line
        for line in page.splitlines()
        if line.startswith("|") and "---" not in line and "instead" not in line
    ]
