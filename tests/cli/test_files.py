"""Tables in files, and paths of outputs."""

import weakref

import polars as pl
import pytest

from evenhand.cli.files import columns_in, read_pieces, read_table, reading, scan_table, write_pieces
from evenhand.cli.paths import check_output, check_paths
from evenhand.exceptions import InputError

TABLE = pl.DataFrame(
    {"id": range(10), "name": ["=1+1", "+2", "-3", "@x", "\ty", "plain", "a=b", None, "", "é"]}
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pieces_of_a_file_are_the_whole_file(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    assert write_pieces(path, [TABLE.head(4), TABLE.tail(6)], safe=False) == 10
    pieces = list(read_pieces(path, 3))
    assert pl.concat(pieces).equals(read_table(path))
    assert columns_in(path) == ["id", "name"]
    assert scan_table(path, ["name"]).collect().equals(TABLE.select("name"))


def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(tmp_path):
    path = tmp_path / "t.csv"
    write_pieces(path, [TABLE])
    names = read_table(path).get_column("name").to_list()
    assert names[:5] == ["'=1+1", "'+2", "'-3", "'@x", "'\ty"]
    assert names[5:7] == ["plain", "a=b"]
    write_pieces(path, [pl.DataFrame({"number": [-1.5]})])
    assert path.read_text() == "number\n-1.5\n"


def test_a_failure_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def pieces():
        yield TABLE
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pieces(path, pieces())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_outputs_are_refused_before_any_work(tmp_path):
    existing = tmp_path / "existing"
    existing.write_text("")
    check_paths([None], [None, tmp_path / "new"], force=False)
    check_output(existing, force=True)
    with pytest.raises(InputError, match="use --force"):
        check_output(existing, force=False)
    with pytest.raises(InputError, match="there is no folder"):
        check_output(tmp_path / "no" / "new", force=False)


def test_a_malformed_file_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4,5,6\n")
    with pytest.raises(InputError, match=r"t.csv cannot be read as a table"):
        read_table(path)
    with pytest.raises(InputError, match=r"t.csv cannot be read as a table"):
        list(read_pieces(path, 10))
    with pytest.raises(InputError, match=r"t.csv cannot be read as a table"), reading(path):
        scan_table(path, ["a", "b"]).collect()


def test_a_panic_of_polars_is_an_error_too(tmp_path):
    """Some damaged files make it panic, which is not an Exception."""
    path = tmp_path / "t.csv"
    with pytest.raises(InputError, match=r"t.csv cannot be read as a table: range"), reading(path):
        raise pl.exceptions.PanicException("range")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_few_pieces_are_held_at_a_time(tmp_path, suffix):
    """A file may be larger than memory."""
    alive, most = set(), 0

    class Counted(pl.DataFrame):
        pass

    def pieces():
        nonlocal most
        for k in range(60):
            piece = Counted({"x": [float(k)] * 1000})
            alive.add(k)
            weakref.finalize(piece, alive.discard, k)
            most = max(most, len(alive))
            yield piece
            del piece

    assert write_pieces(tmp_path / f"t{suffix}", pieces()) == 60_000
    assert most <= 30
    assert read_table(tmp_path / f"t{suffix}").get_column("x").sum() == 1000 * sum(range(60))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_error_in_a_piece_is_raised_unchanged(tmp_path, suffix):
    def pieces():
        yield TABLE
        raise InputError("the second piece is wrong.")

    with pytest.raises(InputError, match=r"^the second piece is wrong\.$"):
        write_pieces(tmp_path / f"t{suffix}", pieces())
    assert list(tmp_path.iterdir()) == []
