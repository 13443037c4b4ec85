"""Audits of tables: on every engine the same as an audit of the rows."""

import functools
import importlib.util
import shutil
import sys
import warnings
from datetime import datetime

import dask.dataframe as dd
import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.auditing.helpers import assert_same
from tests.conftest import absent, examples

import evenhand as eh
from evenhand.data import counted_rows
from evenhand.exceptions import GroupError, InputError, PooledGroupsWarning, VacuousConstraintWarning

ROLES = {"y_true": "y", "y_pred": "decided", "sensitive_features": ["sex"]}


def sample(n=600, seed=0):
    """Rows with labels, decisions, scores and weights of every kind."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    y = rng.random(n) < 0.4
    score = np.clip(rng.normal(0.4 + 0.2 * y + 0.1 * (sex == "M"), 0.2), 0, 1)
    decided, earlier = score > 0.55, rng.random(n) < 0.4
    return pl.DataFrame(
        {
            "sex": sex,
            "race": rng.choice(["A", "B", "C", "D"], n, p=[0.6, 0.36, 0.02, 0.02]),
            "band": pl.Series(rng.choice(["young", "old"], n), dtype=pl.Enum(["young", "old"])),
            "gaps": pl.Series(rng.choice(["a", "b", None], n), dtype=pl.String),
            "nan": rng.choice([1.0, 2.0, np.nan], n),
            "born": [datetime(1990, 1, 1 + int(k)) for k in rng.integers(3, size=n)],
            "y": y.astype(int),
            "y_bool": y,
            "y_text": np.where(y, "good", "bad"),
            "y_sign": np.where(y, 1.0, -1.0),
            "decided": decided.astype(int),
            "decided_bool": decided,
            "decided_text": np.where(decided, "good", "bad"),
            "decided_sign": np.where(decided, 1.0, -1.0),
            "decided_float": decided.astype(float),
            "coarse": rng.choice([0.25, 0.75], n),
            "score": score,
            "score_32": score.astype(np.float32),
            "points": (100 * score).astype(int),
            "earlier": earlier.astype(int),
            "earlier_text": np.where(earlier, "good", "bad"),
            "earlier_sign": np.where(earlier, 1.0, -1.0),
            "earlier_score": rng.random(n),
            "weight": rng.lognormal(0, 1, n),
            "size": rng.integers(0, 5, n),
        }
    )


ROWS = sample()


def partitioned(rows):
    """A Dask table of three partitions, the second of them empty."""
    whole = rows.to_pandas()
    parts = [whole.iloc[:200], whole.iloc[:0], whole.iloc[200:]]
    return dd.from_map(lambda k: parts[k], range(3), meta=whole.head(0))


@functools.cache
def spark():
    """A Spark of this process."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        absent("PySpark with Java")
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        # Compiling costs more than it saves where tables are small.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": sys.executable,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",  # as in the other tables, without a time zone
        "spark.ui.enabled": "false",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def on_spark(rows):
    """A Spark table of four partitions, of which at most two have rows."""
    plain = rows.with_columns(pl.col(pl.Enum).cast(pl.String)).to_arrow(compat_level=pl.CompatLevel.oldest())
    return spark().createDataFrame(plain).repartition(4, "y_bool")


ENGINES = ["polars", "polars lazy", "parquet", "pandas", "pyarrow", "duckdb", "dask", "spark"]


def on(engine, rows, folder):
    """A polars table as one of another engine."""
    if engine == "parquet":
        rows.write_parquet(folder / "rows.parquet")
        return pl.scan_parquet(folder / "*.parquet")
    convert = {
        "polars": lambda: rows,
        "polars lazy": rows.lazy,
        "pandas": rows.to_pandas,
        "pyarrow": rows.to_arrow,
        "duckdb": lambda: duckdb.from_arrow(rows.to_arrow()),
        "dask": lambda: partitioned(rows),
        "spark": lambda: on_spark(rows),
    }
    return convert[engine]()


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    """A function that turns a polars table into one of each engine."""
    return lambda rows: on(request.param, rows, tmp_path)


CASES = {
    "labels": {},
    "booleans": {"y_true": "y_bool", "y_pred": "decided_bool"},
    "text": {"y_true": "y_text", "y_pred": "decided_text", "pos_label": "bad"},
    "floats that are labels": {"y_true": "y_sign", "y_pred": "decided_sign", "before": "earlier_sign"},
    "floats that are decisions": {"y_pred": "decided_float", "before": "earlier"},
    "no labels": {"y_true": None, "y_pred": "decided_text", "pos_label": "good"},
    "no labels, floats": {"y_true": None, "y_pred": "decided_sign", "pos_label": -1.0},
    "no labels, scores": {"y_true": None, "y_pred": "score"},
    "probabilities": {"y_true": "y_text", "y_pred": "score"},
    "probabilities of 32 bits": {"y_pred": "score_32"},
    "two probabilities": {"y_pred": "coarse", "before": "coarse"},
    "threshold": {"y_pred": "score", "threshold": 0.5, "before": "earlier_score"},
    "threshold of 32 bits": {"y_pred": "score_32", "threshold": float(ROWS["score_32"][0])},
    "threshold of integers": {"y_pred": "points", "threshold": 50, "before": "decided_bool"},
    "threshold of decisions": {"y_pred": "decided_float", "threshold": 2.0, "before": "earlier"},
    "weights": {"sample_weight": "weight"},
    "whole weights": {"sample_weight": "size", "y_pred": "score"},
    "weights that are booleans": {"sample_weight": "y_bool", "y_true": None},
    "before": {"before": "earlier", "sample_weight": "weight"},
    "text before": {"y_true": "y_text", "y_pred": "score", "before": "earlier_text"},
    "probabilities before": {"y_pred": "decided", "before": "earlier_score", "sample_weight": "weight"},
    "both probabilities": {"y_pred": "score", "before": "earlier_score", "sample_weight": "weight"},
    "probabilities, then labels": {"y_true": "y_sign", "y_pred": "score", "before": "earlier_sign"},
    "missing": {"sensitive_features": ["sex", "gaps"], "missing": "category"},
    "missing numbers": {"sensitive_features": "nan", "missing": "category"},
    "dates": {"sensitive_features": "born"},
    "pooled": {"sensitive_features": ["sex", "race"], "min_size": 30},
    "two features": {"sensitive_features": ["sex", "race"], "min_count": 5},
    "one column twice": {"y_true": "y", "y_pred": "y", "sensitive_features": ["y_text", "sex"]},
    "requirement": {"constraint": eh.DemographicParity(difference=0.05), "confidence": 0.9},
}


def audit_rows(rows, *, y_true, y_pred, sensitive_features, before=None, sample_weight=None, **settings):
    """The audit of a polars table by `eh.audit`."""
    names = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
    return eh.audit(
        None if y_true is None else rows[y_true],
        rows[y_pred],
        rows.select(names),
        before=None if before is None else rows[before],
        sample_weight=None if sample_weight is None else rows[sample_weight],
        **settings,
    )


def grid():
    """Every case on two engines that differ most, and in turn on the others; the rest are slow."""
    for k, case in enumerate(CASES):
        for j, name in enumerate(ENGINES):
            often = name in ("polars lazy", "duckdb") or (k + j) % 4 == 0
            yield pytest.param(name, case, marks=[] if often else pytest.mark.slow)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
@pytest.mark.parametrize(("engine", "case"), [*grid()], indirect=["engine"])
def test_a_table_is_audited_as_its_rows_are(engine, case):
    asked = ROLES | CASES[case]
    found, expected = eh.audit(data=engine(ROWS), **asked), audit_rows(ROWS, **asked)
    assert_same(found.to_dict(), expected.to_dict())
    if not expected.terms.randomised:
        assert [group.rows for group in found.groups] == [group.rows for group in expected.groups]
        assert [group.selected for group in found.groups] == [group.selected for group in expected.groups]


def test_pooled_groups_are_listed_in_the_same_warning():
    asked = ROLES | CASES["pooled"]
    with pytest.warns(PooledGroupsWarning) as of_table:
        eh.audit(data=ROWS.lazy(), **asked)
    with pytest.warns(PooledGroupsWarning) as of_rows:
        audit_rows(ROWS, **asked)
    assert str(of_table[0].message) == str(of_rows[0].message)


def test_results_are_tables_of_the_library_that_was_audited():
    assert isinstance(eh.audit(data=ROWS.lazy(), **ROLES).to_frame(), pl.DataFrame)
    assert isinstance(eh.audit(data=ROWS.to_arrow(), **ROLES).to_frame(), pa.Table)
    assert isinstance(eh.audit(data=duckdb.from_arrow(ROWS.to_arrow()), **ROLES).to_frame(), pd.DataFrame)


def test_partitions_of_a_spark_table_may_be_empty():
    table = on_spark(ROWS)
    from pyspark.sql.functions import spark_partition_id

    assert table.select(spark_partition_id()).distinct().count() < table.rdd.getNumPartitions() == 4
    assert_same(eh.audit(data=table, **ROLES).to_dict(), audit_rows(ROWS, **ROLES).to_dict())


def test_decimals_are_probabilities():
    rows = "(VALUES (0, 0.5, 'a'), (1, 0.25, 'b'), (1, 1.0, 'a')) AS t(y, decided, sex)"
    table = duckdb.sql(f"FROM {rows}")
    assert eh.audit(data=table, **ROLES).groups[0].selected == 1.75


def test_weights_whose_squares_are_no_numbers_are_refused():
    for scale in (1e200, 1e-200):
        rows = ROWS.with_columns(weight=pl.col("weight") * scale)
        with pytest.raises(InputError, match="divide all weights by it"):
            eh.audit(data=rows, **ROLES | {"sample_weight": "weight"})


# Any small table


VALUES = {
    "sex": st.sampled_from(["F", "M", None]),
    "age": st.sampled_from([1, 2, None]),
    "y": st.sampled_from([0, 1]),
    # Multiples of powers of two, whose sums are exact in any order, so that ties are ties on both sides.
    "decided": st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.sampled_from([0.0, 1.0]),
    "earlier": st.sampled_from([0, 1]),
    "earlier_score": st.sampled_from([0.0, 0.125, 0.75, 1.0]),
    "weight": st.sampled_from([0.0, 0.5, 1.0, 4.0]),
}
TYPES = {"sex": pl.String, "age": pl.Int64, "decided": pl.Float64, "earlier_score": pl.Float64}
TABLES = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=25).map(
    lambda rows: pl.DataFrame(rows, schema_overrides=TYPES)
)


def outcome(audit, *args, **asked):
    """The audit, or the class and the last words of the error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return audit(*args, **asked).to_dict()
        except (InputError, GroupError) as error:
            return type(error), str(error)[-20:]


@settings(max_examples=examples(100))
@given(
    rows=TABLES,
    before=st.sampled_from([None, "earlier", "earlier_score"]),
    sample_weight=st.sampled_from([None, "weight"]),
    threshold=st.sampled_from([None, 0.5]),
    missing=st.sampled_from(["error", "category"]),
    y_true=st.sampled_from([None, "y"]),
    min_size=st.sampled_from([0, 3]),
    lazy=st.booleans(),
)
def test_any_small_table_is_audited_as_its_rows_are(rows, lazy, **asked):
    asked |= {"y_pred": "decided", "sensitive_features": ["sex", "age"]}
    found = outcome(eh.audit, data=rows.lazy() if lazy else rows, **asked)
    assert_same(found, outcome(audit_rows, rows, **asked))


# Errors


WRONG = {
    "no rows": (pl.col("y"), {}, 0),
    "missing label": (pl.when(pl.int_range(pl.len()) > 3).then("y").alias("y"), {}, None),
    "missing decision": (pl.when(pl.int_range(pl.len()) > 3).then("decided").alias("decided"), {}, None),
    "missing text": (
        pl.when(pl.int_range(pl.len()) > 3).then("decided_text").alias("decided"),
        {"y_true": "y_text"},
        None,
    ),
    "missing sensitive value": (pl.col("gaps").alias("sex"), {}, None),
    "one class": (pl.lit(1).alias("y"), {}, None),
    "three classes": (pl.col("size").alias("y"), {}, None),
    "continuous label": (pl.col("score").alias("y"), {}, None),
    "continuous sensitive feature": (pl.col("score").alias("sex"), {}, None),
    "unknown decisions": (pl.col("size").alias("decided"), {}, None),
    "scores as decisions": (pl.int_range(pl.len()).alias("decided"), {}, None),
    "NaN probability": (pl.col("nan").alias("decided"), {}, None),
    "probability out of range": ((3 * pl.col("score")).alias("decided"), {}, None),
    "probabilities of two values out of range": ((2 * pl.col("y_sign")).alias("decided"), {}, None),
    "infinite score": ((pl.col("score") / 0.0).alias("decided"), {"threshold": 0.5}, None),
    "missing score": (pl.lit(None, pl.Float64).alias("decided"), {"threshold": 0.5}, None),
    "text as score": (pl.col("decided_text").alias("decided"), {"threshold": 0.5}, None),
    "missing earlier decision": (pl.col("nan").alias("old"), {"before": "old"}, None),
    "negative weight": ((pl.col("weight") - 1).alias("w"), {"sample_weight": "w"}, None),
    "NaN weight": (pl.col("nan").alias("w"), {"sample_weight": "w"}, None),
    "missing weight": (pl.when(pl.col("y") == 1).then("weight").alias("w"), {"sample_weight": "w"}, None),
    "zero weights": (pl.lit(0.0).alias("w"), {"sample_weight": "w"}, None),
    "text as weight": (pl.col("sex").alias("w"), {"sample_weight": "w"}, None),
    "unknown positive label": (pl.col("y"), {"pos_label": 7}, None),
    "unknown positive decision": (
        pl.col("decided_text").alias("decided"),
        {"y_true": None, "pos_label": "x"},
        None,
    ),
    "lists": (pl.concat_list("sex").alias("sex"), {}, None),
    "no confidence": (pl.col("y"), {"confidence": 1.0}, None),
    "unknown policy": (pl.col("y"), {"missing": "drop"}, None),
}


def message_of(audit, *args, **asked):
    with pytest.raises((InputError, GroupError)) as caught:
        audit(*args, **asked)
    return caught.type, str(caught.value)


LISTS_ARE_TEXT = ("lists", "dask")  # Dask converts them, so they are groups like others


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        pytest.param(wrong, name, marks=[] if (k + j) % 3 == 0 else pytest.mark.slow)
        for k, wrong in enumerate(WRONG)
        for j, name in enumerate(("polars lazy", "pandas", "pyarrow", "duckdb", "dask", "spark"))
        if (wrong, name) != LISTS_ARE_TEXT
    ],
)
def test_bad_input_raises_the_error_of_an_audit(wrong, name, tmp_path):
    change, more, height = WRONG[wrong]
    rows = ROWS.with_columns(change).drop("band").head(len(ROWS) if height is None else height)
    asked = ROLES | more
    of_rows, said = message_of(audit_rows, rows, **asked)
    of_table, found = message_of(eh.audit, data=on(name, rows, tmp_path), **asked)
    assert issubclass(of_rows, of_table) or issubclass(of_table, of_rows), (said, found)


@pytest.mark.parametrize("wrong", ["missing label", "missing text", "probability out of range", "one class"])
def test_messages_differ_only_in_the_name_of_the_column(wrong):
    change, more, _ = WRONG[wrong]
    rows, asked = ROWS.with_columns(change), ROLES | more
    _, said = message_of(audit_rows, rows, **asked)
    _, found = message_of(eh.audit, data=rows.lazy(), **asked)
    for name, column in (("y_true", f"label {asked['y_true']!r}"), ("y_pred", "prediction 'decided'")):
        said = said.replace(name, column)
    assert found == said


@pytest.mark.parametrize("prediction", ["decided", "score"])
def test_a_table_without_rows_is_refused(engine, prediction):
    with pytest.raises(InputError, match="no rows: data is empty"):
        eh.audit(data=engine(ROWS.head(0)), **ROLES | {"y_pred": prediction})


def test_a_missing_column_is_named_with_its_neighbours(engine):
    with pytest.raises(InputError, match=r"data has no column 'decidet'. Did you mean 'decided'"):
        eh.audit(data=engine(ROWS), **ROLES | {"y_pred": "decidet"})
    with pytest.raises(InputError, match=r"data has no column 'xyzzy'. It has 'y', .* and 17 more\.$"):
        eh.audit(data=engine(ROWS), **ROLES | {"sensitive_features": "xyzzy"})


def test_what_is_not_a_table_is_refused():
    for frame in ({"y": [0, 1]}, [1, 2], ROWS["y"]):
        with pytest.raises(InputError, match="data must be a table, got"):
            eh.audit(data=frame, **ROLES)


def test_sensitive_features_are_some_and_different():
    with pytest.raises(GroupError, match="no columns"):
        eh.audit(data=ROWS, **ROLES | {"sensitive_features": []})
    with pytest.raises(InputError, match="same name"):
        eh.audit(data=ROWS, **ROLES | {"sensitive_features": ["sex", "sex"]})


@pytest.mark.parametrize("name", ["y_true", "y_pred", "sensitive_features", "before", "sample_weight"])
def test_columns_are_given_by_name(name):
    with pytest.raises(InputError, match=f"{name} must be the name of a column of data, got Ser"):
        eh.audit(data=ROWS, **ROLES | {name: ROWS["y"]})


def test_decisions_are_no_control_features():
    table = pl.DataFrame({"y": [0, 1] * 20, "p": [0, 0, 1, 1] * 10, "s": ["F", "M"] * 20, "old": [1, 0] * 20})
    roles = {"y_true": "y", "y_pred": "p", "before": "old", "sensitive_features": "s"}
    for name, what in (("p", "predictions"), ("old", "earlier predictions")):
        with pytest.raises(
            InputError, match=f"control_features has '{name}', which is the column of {what}:"
        ):
            eh.audit(data=table, **roles, control_features=[name])
    assert len(eh.audit(data=table, **roles, control_features=["y"]).strata) == 2  # the label may be one


def test_a_prediction_and_a_sensitive_feature_are_needed():
    for name in ("y_pred", "sensitive_features"):
        with pytest.raises(InputError, match=f"{name} must be the name of a column"):
            eh.audit(data=ROWS, **ROLES | {name: None})


def test_columns_of_the_same_name_are_refused():
    twice = pd.DataFrame([[0, 1, 1]], columns=["y", "decided", "decided"])
    with pytest.raises(InputError, match="same name"):
        eh.audit(data=twice, **ROLES)


def test_objects_that_cannot_be_grouped_are_refused():
    table = pd.DataFrame({"y": [0, 1], "decided": [0, 1], "sex": [["F"], ["M"]]})
    with pytest.raises(InputError, match="cannot be grouped"):
        eh.audit(data=table, **ROLES)


def test_one_group_is_nothing_to_compare():
    with pytest.warns(VacuousConstraintWarning, match="only one group"):
        eh.audit(data=ROWS.with_columns(sex=pl.lit("F")), **ROLES)


# What is collected


@pytest.fixture
def heights(monkeypatch):
    """The numbers of rows of all results that narwhals collects."""
    found = []
    collect = nw.LazyFrame.collect

    def recorded(self, *args, **kwargs):
        result = collect(self, *args, **kwargs)
        found.append(len(result))
        return result

    monkeypatch.setattr(nw.LazyFrame, "collect", recorded)
    return found


LAZY = ["parquet", "polars lazy", "duckdb", "dask", "spark"]


@pytest.mark.parametrize("name", LAZY)
def test_labels_and_weights_take_one_pass(name, tmp_path, heights):
    for more in ({}, {"sample_weight": "weight"}):
        eh.audit(data=on(name, ROWS, tmp_path), **ROLES | more)
    assert heights == [2 * 2 * 2] * 2  # sex, label, decision


@pytest.mark.parametrize("name", LAZY)
def test_numbers_take_two_passes_and_the_table_is_never_collected(name, tmp_path, heights):
    asked = ROLES | {"y_pred": "score", "before": "earlier", "sample_weight": "weight"}
    eh.audit(data=on(name, ROWS, tmp_path), **asked)
    ranges, combinations = heights
    assert ranges == 1
    assert combinations <= 2 * 2 * 2 * 3  # sex, label, earlier decision; lowest, highest or in between


@pytest.mark.parametrize("name", ENGINES)
def test_a_column_with_a_value_per_row_is_refused_and_not_collected(name, tmp_path, heights, monkeypatch):
    monkeypatch.setattr(counted_rows, "_MAX_COMBINATIONS", 250)
    rows = ROWS.with_columns(id=pl.int_range(pl.len()))
    for change, what in [
        ({"sensitive_features": ["sex", "id"]}, "sensitive feature"),
        ({"y_true": "id"}, "label"),
        ({"y_pred": "id"}, "prediction"),
    ]:
        with pytest.raises(GroupError, match=f"Most distinct values: {what} 'id', {rows.height:,}"):
            eh.audit(data=on(name, rows, tmp_path), **ROLES | change)
    assert max(heights, default=0) <= 251


def test_too_many_combinations_are_refused(monkeypatch):
    monkeypatch.setattr(counted_rows, "_MAX_COMBINATIONS", 20)
    with pytest.raises(GroupError, match="more than 20 combinations of sensitive values, label and decision"):
        eh.audit(data=ROWS, **ROLES | {"sensitive_features": ["sex", "race", "born"]})
