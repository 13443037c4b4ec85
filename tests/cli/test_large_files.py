"""``evenhand fit``, ``predict`` and ``verify`` on files that are read in batches."""

import json
import re

import polars as pl
import pytest
from tests.cli.helpers import refused, run
from tests.conftest import often

import evenhand as eh
from evenhand.cli.exit_codes import VIOLATED
from evenhand.data import batched_table

FIT = [
    "--target",
    "paid",
    "--sensitive",
    "sex",
    "--estimator",
    "logistic",
    "--difference",
    "0.2",
    "--drop",
    "id",
]
BATCHES = ["--max-samples", "300"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 300)


@pytest.fixture
def table(request, loans, tmp_path):
    """A Parquet file, or one of the kind that a test names."""
    kind = getattr(request, "param", "parquet")
    rows = pl.read_csv(loans / "train.csv").fill_null("none")
    getattr(rows, f"write_{kind}")(tmp_path / f"t.{kind}")
    return tmp_path / f"t.{kind}"


EITHER = pytest.mark.parametrize("table", often(["csv", "parquet"], 1), indirect=True)


@EITHER
def test_a_fit_in_batches_from_the_file_to_the_proof(table, capsys, tmp_path):
    model, page = tmp_path / "m.eh", tmp_path / "r.html"
    call = ["fit", table, *FIT, *BATCHES, "--out", model]
    code, out, err = run(capsys, *call, "--report", page)
    assert code in (0, 4)
    assert err.splitlines() == [  # nothing else, because nobody watches
        f"evenhand: {table.name} has 1,000 rows, and models learned from at most 300 of them; --max-samples "
        "sets that number.",
        f"Report: {page}",
    ]
    fitted = eh.load(model)
    assert fitted.posteriors.max_samples == 300
    tested = 1000 - fitted.fitted_to_.rows
    assert 200 < tested < 300
    assert out.startswith(f"Audit of {tested} rows in 2 groups by sex")
    assert "No guarantee for new data; pass --confidence 0.95" in out
    assert f"Model of {table.name}" in page.read_text("utf-8")
    code, out, _ = run(capsys, "verify", model, "--data", table)
    assert code == 0
    assert f"proof         proven on {fitted.fitted_to_.rows} rows: no classifier" in out
    code, out, _ = run(capsys, "predict", model, table, "--out", tmp_path / "d.parquet", "--rows", "128")
    decided = pl.read_parquet(tmp_path / "d.parquet")
    assert len(decided) == 1000
    lazy = pl.scan_csv(table) if table.suffix == ".csv" else pl.scan_parquet(table)
    assert decided["decision"].to_list() == [one for batch in fitted.predict(lazy) for one in batch]


@EITHER
def test_the_audit_is_of_the_rows_that_were_not_learned_from(table, capsys, tmp_path):
    call = ["fit", table, *FIT, *BATCHES, "--out", tmp_path / "m.eh", "--json"]
    _, out, _ = run(capsys, *call)
    audit = json.loads(out)["audit"]
    rows = pl.read_csv(table) if table.suffix == ".csv" else pl.read_parquet(table)
    _, test = batched_table.BatchedTable.of(rows.lazy()).split(0.25, 0)
    held_out = pl.concat(test.batches())
    model = eh.load(tmp_path / "m.eh")
    expected = eh.audit(
        held_out["paid"],
        model.predict(held_out.drop("paid", "id")),
        held_out.select("sex"),
        constraint=model.constraint,
    )
    assert audit == json.loads(json.dumps(expected.to_dict()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--given", "job"], "demographic parity, difference given job"),
        (["--no-worse", "selection rate"], "selection rate"),
        (["--missing", "impute"], "left out"),
    ],
    ids=["control feature", "no worse", "imputed"],
)
def test_the_audit_has_what_one_in_memory_has(options, words, table, capsys, tmp_path):
    rows = pl.read_parquet(table)
    if "impute" in options:
        rows = rows.with_columns(pl.when(pl.int_range(len(rows)) % 9 > 0).then("sex").alias("sex"))
    rows.write_parquet(table)
    call = ["fit", table, *FIT, *options, "--test", table, "--out", tmp_path / "m.eh", "--force"]
    heads = []
    for reading in (BATCHES, []):
        code, out, _ = run(capsys, *call, *reading)
        assert code in (0, VIOLATED, 4)
        assert words in out
        text = re.sub(r"forecast for .*", "", out.partition("proof:")[0])
        heads.append([line.split("  ")[0] for line in text.splitlines()])
    assert heads[0] == heads[1]


def test_other_files_are_told_by_verify(table, capsys, tmp_path):
    model, other = tmp_path / "m.eh", tmp_path / "other.parquet"
    run(capsys, "fit", table, *FIT, *BATCHES, "--out", model)
    rows = pl.read_csv(table) if table.suffix == ".csv" else pl.read_parquet(table)
    for changed, words in (
        (rows[:-1], "of them and not"),
        (rows.with_columns(pl.col("income") + 1), "their features differ"),
        (rows.drop("job"), "there is no column 'job'"),
    ):
        changed.write_parquet(other)
        code, out, _ = run(capsys, "verify", model, "--data", other)
        assert code == VIOLATED
        assert words in out


def test_a_test_file_leaves_all_rows_to_learn_from(table, loans, capsys, tmp_path):
    pl.read_csv(loans / "train.csv").fill_null("none").tail(400).write_csv(tmp_path / "test.csv")
    call = ["fit", table, *FIT, *BATCHES, "--test", tmp_path / "test.csv", "--out", tmp_path / "m.eh"]
    assert run(capsys, *call)[1].startswith("Audit of 400 rows")
    assert "proven on 1,000 rows" in run(capsys, "verify", tmp_path / "m.eh", "--data", table)[1]
    pl.read_csv(tmp_path / "test.csv").with_columns(pl.col("paid").str.to_uppercase()).write_csv(
        tmp_path / "test.csv"
    )
    assert "use the same labels in both" in refused(capsys, *call, "--force")


def test_ids_are_the_key_of_randomised_decisions(table, capsys, tmp_path):
    call = ["fit", table, *FIT[:-2], "--id", "id", *BATCHES, "--out", tmp_path / "m.eh"]
    assert run(capsys, *call)[0] in (0, 4)
    model = eh.load(tmp_path / "m.eh")
    assert "id" not in model.feature_names_in_
    assert model._source.id == "id"
    assert run(capsys, "verify", tmp_path / "m.eh", "--data", table)[0] == 0


@EITHER
@pytest.mark.parametrize("most", [999, 1000])
def test_a_file_with_more_rows_than_models_learn_from_is_read_in_batches(most, table, capsys, tmp_path):
    call = ["fit", table, *FIT, "--max-samples", most, "--out", tmp_path / "m.eh"]
    code, _, err = run(capsys, *call)
    assert code in (0, 4)
    assert ("models learned from at most 999 of them" in err) == (most < 1000)


def test_options_can_be_in_a_file(table, capsys, tmp_path):
    (tmp_path / "c.toml").write_text("[fit]\nmax-samples = 250\n")
    call = ["fit", table, *FIT, "--config", tmp_path / "c.toml", "--out", tmp_path / "m.eh"]
    assert run(capsys, *call)[0] in (0, 4)
    assert eh.load(tmp_path / "m.eh").posteriors.max_samples == 250


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-samples", "3"], "--max-samples 3 is too few for 4 combinations of group and label"),
        (["--max-samples", "0"], "--max-samples must be a positive integer"),
        (["--positive", "maybe"], "--positive 'maybe' is not a value of"),
        (["--target", "job", "--drop", "paid"], "3 classes"),
    ],
    ids=str,
)
def test_what_cannot_be_done_in_batches_is_one_sentence(arguments, message, table, capsys, tmp_path):
    call = ["fit", table, *FIT, "--out", tmp_path / "m.eh"]
    if "--target" in arguments:
        call = [*call[:2], *call[4:]]
    reading = [] if "--max-samples" in arguments else BATCHES
    assert message in refused(capsys, *call, *reading, *arguments)
    assert not (tmp_path / "m.eh").exists()


def test_a_full_disk_is_one_sentence(table, capsys, tmp_path, monkeypatch):
    class Usage:
        free = 10

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    call = ["fit", table, *FIT, *BATCHES, "--out", tmp_path / "m.eh"]
    assert "pass another folder as the environment variable TMPDIR to fit" in refused(capsys, *call)
