"""Tables in files, read in batches."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from evenhand.data import batched_table
from evenhand.data.batched_table import BatchedTable, is_lazy, row_uniforms
from evenhand.exceptions import InputError

TABLE = pl.DataFrame(
    {
        "x": np.arange(1000.0),
        "sex": ["F", "M", None, "F"] * 250,
        "age": pl.Series(["old", "young"] * 500, dtype=pl.Enum(["young", "old"])),
    }
)


def in_files(folder, pieces, name="part"):
    for k, piece in enumerate(pieces):
        piece.write_parquet(folder / f"{name}-{k}.parquet", row_group_size=70)
    return folder


@pytest.fixture(params=["polars", "several files", "csv", "pyarrow"])
def source(request, tmp_path):
    if request.param == "polars":
        return TABLE.lazy()
    if request.param == "csv":
        TABLE.write_csv(tmp_path / "t.csv")
        return pl.scan_csv(tmp_path / "t.csv")
    in_files(tmp_path, [TABLE[:333], TABLE[333:334], TABLE[334:]])
    return ds.dataset(tmp_path) if request.param == "pyarrow" else pl.scan_parquet(tmp_path / "*.parquet")


def numbers(batches):
    return pl.concat([pl.DataFrame(batch) for batch in batches])["x"].to_list()


@pytest.mark.parametrize("rows", [1, 64, 333, 999, 1000, 5000])
def test_batches_have_their_size_whatever_the_files(source, rows):
    """A fit that goes on after a kill has to find the same batches again."""
    found = list(BatchedTable.of(source).batches(rows=rows))
    assert [len(batch) for batch in found] == [rows] * (1000 // rows) + [1000 % rows] * (1000 % rows > 0)
    assert numbers(found) == TABLE["x"].to_list()


def test_the_size_of_batches_can_be_changed(source, monkeypatch):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 300)
    assert [len(batch) for batch in BatchedTable.of(source).batches(["x"])] == [300, 300, 300, 100]


def test_a_generator_that_is_left_can_be_started_again(source):
    table = BatchedTable.of(source)
    for _ in range(3):
        batches = table.batches(rows=10)
        assert len(next(batches)) == 10
        batches.close()
    assert sum(len(batch) for batch in table.batches(rows=10)) == 1000


def test_combinations_are_counted(source):
    found, rows = BatchedTable.of(source).combinations(["sex", "age"])
    counted = {(s, a): n for s, a, n in zip(found["sex"], found["age"], rows.tolist(), strict=True)}
    assert counted == {("F", "old"): 250, ("M", "young"): 250, (None, "old"): 250, ("F", "young"): 250}


def test_nan_and_null_are_one_missing_value():
    table = pl.LazyFrame({"s": [1.0, None, float("nan"), 1.0]})
    found, rows = BatchedTable.of(table).combinations(["s"])
    assert dict(zip(found["s"], rows.tolist(), strict=True)) == {1.0: 2, None: 2}


def test_a_continuous_column_is_named(monkeypatch):
    monkeypatch.setattr(batched_table, "_MOST_COMBINATIONS", 100)
    with pytest.raises(
        InputError, match="more than 100 combinations of values, and 'x' alone has 1,000: a label"
    ):
        BatchedTable.of(TABLE.lazy()).combinations(["sex", "x"])


def test_rows_are_split_by_their_number(source):
    table = BatchedTable.of(source)
    train, test = table.split(0.25, seed=3)
    parts = [numbers(part.batches(rows=rows)) for part in (train, test) for rows in (77, 1000)]
    assert parts[0] == parts[1]
    assert parts[2] == parts[3]
    assert sorted(parts[0] + parts[2]) == TABLE["x"].to_list()
    assert 200 < len(parts[2]) < 300
    with pytest.raises(InputError, match="split already"):
        train.split(0.5, seed=0)


def test_uniform_numbers_depend_on_seed_and_row_alone():
    u = row_uniforms(np.arange(100_000), 5)
    assert u.min() >= 0
    assert u.max() < 1
    assert np.abs(np.histogram(u, 20, (0, 1))[0] / 5000 - 1).max() < 0.06
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.01
    assert abs(np.corrcoef(u, row_uniforms(np.arange(100_000), 6))[0, 1]) < 0.01
    assert row_uniforms(np.array([70_000]), 5) == u[70_000]


def test_what_is_lazy():
    assert is_lazy(TABLE.lazy())
    assert is_lazy(ds.dataset(TABLE.to_arrow()))
    assert is_lazy(BatchedTable.of(TABLE.lazy()))
    assert not any(map(is_lazy, (TABLE, TABLE.to_arrow(), TABLE.to_pandas(), np.ones((2, 2)), None)))


def test_a_table_without_rows_or_columns_is_refused():
    with pytest.raises(InputError, match=r"X has no rows\."):
        BatchedTable.of(TABLE.head(0).lazy()).combinations(["sex"])
    with pytest.raises(InputError, match=r"X has no columns\."):
        BatchedTable.of(pl.LazyFrame())


def test_empty_partitions_are_skipped(tmp_path):
    in_files(tmp_path, [TABLE.head(0), TABLE[:5], TABLE.head(0), TABLE[5:9]])
    for table in (ds.dataset(tmp_path), pl.scan_parquet(tmp_path / "*.parquet")):
        assert [len(batch) for batch in BatchedTable.of(table).batches(rows=6)] == [6, 3]


def test_a_column_that_is_not_there_is_named_with_the_nearest():
    table = BatchedTable.of(TABLE.lazy())
    with pytest.raises(
        InputError, match=r"X has no column 'sexe', which should hold the label\. Did you mean 'sex'"
    ):
        table.require("sexe", "the label")
    with pytest.raises(InputError, match="It has 'sex', 'age', 'x'"):
        table.require("income", "the label")
    with pytest.raises(
        InputError, match=r"call .collect\(\) on it first, or name the column of X that holds the"
    ):
        table.require(pl.Series([1]), "the label")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_a_file_with_another_type_of_a_column_is_one_sentence(library, tmp_path):
    in_files(tmp_path, [TABLE[:500], TABLE[500:].with_columns(x=pl.lit("many"))])
    lazy = pl.scan_parquet(tmp_path / "*.parquet") if library == "polars" else ds.dataset(tmp_path)
    with pytest.raises(InputError, match=r"^X cannot be read: .*") as refused:
        list(BatchedTable.of(lazy).batches())
    assert "\n" not in str(refused.value)
    if library == "polars":
        assert "column x" in str(refused.value)
    else:
        assert "('x' is large_string in " in str(refused.value)
        assert "part-1.parquet, and double in others)" in str(refused.value)


def test_a_file_without_a_column_is_one_sentence(tmp_path):
    in_files(tmp_path, [TABLE[:500], TABLE[500:].drop("x")])
    with pytest.raises(InputError, match=r"^X cannot be read: [^\n]*x"):
        list(BatchedTable.of(pl.scan_parquet(tmp_path / "*.parquet")).batches())


def test_a_missing_or_broken_file_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="X cannot be read"):
        BatchedTable.of(pl.scan_parquet(tmp_path / "none.parquet"))
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    lazy = ds.dataset(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match=r"X cannot be read.*t\.parquet"):
        list(BatchedTable.of(lazy).batches())


def test_an_error_of_the_caller_stays_as_it_is():
    batches = BatchedTable.of(TABLE.lazy()).batches(rows=10)
    next(batches)
    with pytest.raises(MemoryError):
        batches.throw(MemoryError())
