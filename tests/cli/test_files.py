"""Tables in files, and paths of outputs."""

import csv
import gzip
import random
import re
import weakref

import polars as pl
import pytest

from evenhand.cli.bands import GroupColumns
from evenhand.cli.output import check_output, check_paths
from evenhand.cli.table_files import (
    check_csv,
    columns_in,
    read_pieces,
    reading,
    scan,
    write_pieces,
)
from evenhand.cli.table_rows import groups_of_files, scan_rows
from evenhand.exceptions import InputError


def read_table(path):
    return scan(path).collect()


TABLE = pl.DataFrame(
    {"id": range(10), "name": ["=1+1", "+2b", "-x", "@x", "\ty", "-3.5", "a=b", None, "", "é"]}
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pieces_of_a_file_are_the_whole_file(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    assert write_pieces(path, [TABLE.head(4), TABLE.tail(6)], safe=False) == 10
    parsed, written = zip(*read_pieces(path, 3), strict=True)
    assert [len(piece) for piece in parsed] == [3, 3, 3, 1]
    assert pl.concat(parsed).equals(read_table(path))
    assert pl.concat(written).select(pl.all().cast(pl.String)).equals(TABLE.select(pl.all().cast(pl.String)))
    assert columns_in(path) == ["id", "name"]
    assert scan(path).select("name").collect().equals(TABLE.select("name"))


def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(tmp_path):
    path = tmp_path / "t.csv"
    write_pieces(path, [TABLE])
    names = read_table(path).get_column("name").to_list()
    assert names[:5] == ["'=1+1", "'+2b", "'-x", "'@x", "'\ty"]
    assert names[5:7] == ["-3.5", "a=b"]
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
    for read in (read_table, columns_in, lambda path: list(read_pieces(path, 10))):
        with pytest.raises(InputError, match=r"line 3 of t.csv has more fields than there are columns \(2\)"):
            read(path)
    with pytest.raises(InputError, match=r"line 3 of t.csv"):
        scan_rows(path, ["a"], GroupColumns())


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


def test_the_first_row_with_too_many_fields_is_found_wherever_it_is(tmp_path):
    """Compared with Python's reader, for rows that begin and end anywhere in a block."""
    rng = random.Random(0)  # noqa: S311
    path, cells = tmp_path / "t.csv", ["x", "1", 'q"q', "a,b", "l\nl\nm", "", ",,"]
    long = 0
    for _ in range(150):
        rows = [rng.choices(cells, k=rng.choice([3, 3, 3, 3, 2, 4, 5])) for _ in range(rng.randrange(6))]
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator=rng.choice(["\n", "\r\n"])).writerows([["a", "b", "c"], *rows])
        if rng.random() < 0.5:
            path.write_bytes(path.read_bytes().rstrip(b"\r\n"))  # the last line may not end
        with path.open(newline="") as file:
            reader, before, expected = csv.reader(file), 0, None
            for row in reader:
                expected = expected or (before + 1 if len(row) > 3 else None)
                before = reader.line_num
        if expected is None:
            check_csv(path)
        else:
            long += 1
            with pytest.raises(InputError, match=rf"^line {expected} of t.csv has more fields"):
                check_csv(path)
    assert 30 < long < 120


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,a\n1,2,3\n", "t.csv has 2 columns named 'a'"),
        ("a,,b,\n1,2,3,4\n", "t.csv has 2 columns without a name"),
        ("a;b\n1;2\n", "t.csv seems to be separated by semicolons: save it with commas"),
        ("a;b, net;c\n1;2;3\n", "separated by semicolons"),
        ("a\tb\n1\t2\n", "separated by tabs"),
        ("a,b\n1,2\n".encode("utf-16"), "t.csv is UTF-16 or no text at all: save it as CSV in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "UTF-16"),
        ("a,b\n1,é\n".encode("latin-1"), "Save it as CSV in UTF-8"),
        (b"a,b\n" + b"1,x\n" * 300_000 + "1,é\n".encode("latin-1"), "save it as UTF-8"),
        (gzip.compress(b"a,b\n1,2,3\n"), "line 2 of t.csv has more fields"),
    ],
    ids=range(10),
)
def test_a_file_that_is_no_csv_is_refused_with_a_hint(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=re.escape(message)):
        read_table(path)


def test_a_byte_order_mark_and_a_changed_file_are_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n1,x\r\n")
    assert read_table(path).rows() == [(1, "x")]
    assert columns_in(path) == ["a", "b"]
    path.write_text("a,b\n1,2,3\n")
    with pytest.raises(InputError, match="line 2"):
        columns_in(path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["01", "1", "2"], ["01", "1", "2"]),
        (["01", "02", "02"], ["01", "02", "02"]),
        (["1", "1.0", "2"], ["1", "1.0", "2"]),
        (["9223372036854775808", "1", "2"], ["9223372036854775808", "1", "2"]),
        (["1", "", "-2"], [1, None, -2]),
        (["0.5", "1", "0"], [0.5, 1.0, 0.0]),
        (["a", "01", "1"], ["a", "01", "1"]),
    ],
    ids=str,
)
def test_codes_are_not_numbers(tmp_path, values, expected):
    """Only where they are asked for: a measurement may be written in two ways."""
    path = tmp_path / "t.csv"
    path.write_text("g,x\n" + "".join(f"{value},01\n" for value in values))
    found = scan_rows(path, ["g", "x"], groups_of_files([path], ["g"], ["g"], {})).collect()
    assert found["g"].to_list() == expected
    assert found["x"].to_list() == [1, 1, 1]


@pytest.mark.parametrize("name", ["parsed x", "parsed"])
def test_a_column_may_have_any_name_beside_another(tmp_path, name):
    (tmp_path / "t.csv").write_text(f"x,{name}\n01,2\n")
    [(parsed, written)] = read_pieces(tmp_path / "t.csv", 10)
    assert parsed.rows(named=True) == [{"x": 1, name: 2}]
    assert written.rows(named=True) == [{"x": "01", name: "2"}]
