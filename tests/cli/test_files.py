import weakref

import polars as pl
import pytest

from evenhand.cli.files import columns_in, read_pieces, read_table, refuse_existing, write_pieces
from evenhand.exceptions import InputError

TABLE = pl.DataFrame(
    {"id": range(10), "name": ["=1+1", "+2", "-3", "@x", "\ty", "plain", "a=b", None, "", "é"]}
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_is_read_in_pieces_as_it_is_as_a_whole(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    assert write_pieces(path, [TABLE.head(4), TABLE.tail(6)], safe=False) == 10
    pieces = list(read_pieces(path, 3))
    assert pl.concat(pieces).equals(read_table(path))
    assert columns_in(path) == ["id", "name"]
    assert read_table(path, ["name"]).columns == ["name"]


def test_text_that_a_spreadsheet_would_run_is_made_harmless(tmp_path):
    path = tmp_path / "t.csv"
    write_pieces(path, [TABLE])
    names = read_table(path, ["name"]).get_column("name").to_list()
    assert names[:5] == ["'=1+1", "'+2", "'-3", "'@x", "'\ty"]
    assert names[5:7] == ["plain", "a=b"]
    write_pieces(path, [pl.DataFrame({"number": [-1.5]})])
    assert path.read_text() == "number\n-1.5\n"


def test_what_fails_half_way_leaves_the_old_file(tmp_path):
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
    there = tmp_path / "there"
    there.write_text("")
    refuse_existing(None, force=False)
    refuse_existing(there, force=True)
    refuse_existing(tmp_path / "new", force=False)
    with pytest.raises(InputError, match="use --force"):
        refuse_existing(there, force=False)
    with pytest.raises(InputError, match="there is no folder"):
        refuse_existing(tmp_path / "no" / "new", force=False)


def test_a_file_that_breaks_off_is_told_of(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4,5,6\n")
    with pytest.raises(InputError, match=r"t.csv cannot be read as a table"):
        read_table(path)
    with pytest.raises(InputError, match=r"t.csv cannot be read as a table"):
        list(read_pieces(path, 10))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_few_pieces_are_held_at_a_time(tmp_path, suffix):
    """Who writes a large file must not hold it."""
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
def test_what_a_piece_fails_with_is_told_as_it_is(tmp_path, suffix):
    def pieces():
        yield TABLE
        raise InputError("the second piece is strange.")

    with pytest.raises(InputError, match=r"^the second piece is strange\.$"):
        write_pieces(tmp_path / f"t{suffix}", pieces())
    assert list(tmp_path.iterdir()) == []
