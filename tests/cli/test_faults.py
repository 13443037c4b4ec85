"""Damaged and hostile files, names with control characters, full disks, closed streams, missing packages."""

import hashlib
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from tests.cli.helpers import COMMAND, process, refused, run

import evenhand as eh
from evenhand.cli.exit_codes import FAILED
from evenhand.exceptions import InputError, UntrustedFileError

UGLY = "\x1b[31mF\u202e[bold]</script><script>alert(1)</script>"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table and a model fitted to it."""
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    n = 400
    table = pl.DataFrame(
        {"x": rng.normal(size=n), "s": rng.choice(["F", "M"], n), "y": rng.integers(0, 2, n)}
    )
    table.write_csv(folder / "t.csv")
    model = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.3),
        sensitive_features="s",
        posteriors=eh.CrossFit(2),
    )
    eh.save(model.fit(table.select("x", "s"), table["y"]), folder / "m.eh")
    return folder


# Model files that are hostile, too new or cut off; tests/files/test_persistence.py has more


def write_archive(path, entries, comment=b"0" * 64):
    """Write an archive with a correct checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for entry, data in entries:
            archive.writestr(entry, data)
        archive.comment = comment
    packed = buffer.getvalue()[:-64]
    path.write_bytes(packed + hashlib.sha256(packed).hexdigest().encode())


def entries_of(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def assert_untrusted(path, match):
    report = eh.verify(path)
    assert not report.ok
    assert re.search(match, report.problem)
    with pytest.raises(UntrustedFileError, match=match):
        eh.load(path)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_duplicate_member_is_refused(place, tmp_path):
    """Two programs may read different ones."""
    entries = entries_of(place / "m.eh")
    write_archive(tmp_path / "m.eh", [*entries, entries[1]])
    assert_untrusted(tmp_path / "m.eh", "and a model manifest.json, model.json")


def test_a_link_is_never_followed(place, tmp_path):
    """Members are read in memory, by their own bytes."""
    link = zipfile.ZipInfo("model.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    entries = [entry for entry in entries_of(place / "m.eh") if entry[0] != "model.json"]
    write_archive(tmp_path / "m.eh", [*entries, (link, b"/etc/passwd")])
    assert_untrusted(tmp_path / "m.eh", "its model.json cannot be read")


def test_a_wrong_size_is_refused(place, tmp_path):
    """The directory states fewer bytes than there are."""
    entries = dict(entries_of(place / "m.eh"))
    entries["model.json"] = b" " * 1_000_000
    path = tmp_path / "m.eh"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.comment = b"0" * 64
        archive.getinfo("model.json").file_size = 10
    packed = buffer.getvalue()[:-64]
    path.write_bytes(packed + hashlib.sha256(packed).hexdigest().encode())
    assert_untrusted(path, "cut off or damaged")


def test_deep_nesting_is_refused(place, tmp_path):
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    for name in ("manifest.json", "model.json"):
        write_archive(tmp_path / "m.eh", list({**dict(entries_of(place / "m.eh")), name: deep}.items()))
        assert_untrusted(tmp_path / "m.eh", "cannot be read")


@pytest.mark.parametrize(
    "content", [b"\x80\x04cos\nsystem\n(S'touch hacked'\ntR.", b"PK\x05\x06" + bytes(18), b""]
)
def test_no_other_format_is_tried(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("m.eh", "m.pkl", "m.joblib"):
        (tmp_path / name).write_bytes(content)
        assert_untrusted(tmp_path / name, "not an evenhand model|and a model manifest")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("command", [["predict", "{}", "t.csv", "--out", "d.csv"], ["verify", "{}"]], ids=str)
def test_the_command_line_refuses_a_newer_and_a_cut_off_file(command, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes((place / "t.csv").read_bytes())
    data = (place / "m.eh").read_bytes()
    (tmp_path / "cut.eh").write_bytes(data[: len(data) // 2])
    entries = dict(entries_of(place / "m.eh"))
    entries["manifest.json"] = json.dumps({**json.loads(entries["manifest.json"]), "format_version": 99})
    write_archive(tmp_path / "new.eh", list(entries.items()))
    for name, match in (("cut.eh", "cut off or damaged"), ("new.eh", "format version 99")):
        code, out, err = run(capsys, *[part.format(name) for part in command])
        assert code == FAILED
        assert match in out + err
    assert not (tmp_path / "d.csv").exists()


# Names with control characters, markup and formulas


@pytest.fixture(scope="module")
def ugly(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ugly")
    rng = np.random.default_rng(0)
    n = 300
    columns = {
        f"y{UGLY}".replace("/", ""): rng.integers(0, 2, n),
        "p\x1b[2J": rng.integers(0, 2, n),
        "s\u202e\x1b]0;x\x07": rng.choice([UGLY, "[/]M\x9b31m"], n),
        "x": rng.normal(size=n),
    }
    path = folder / "t\x1b[31m\u202e[a].csv"
    pl.DataFrame(columns).write_csv(path)
    return path, list(columns)


def assert_clean(text):
    found = CONTROL.search(text)
    assert found is None, text[max(found.start() - 80, 0) : found.start() + 80]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_no_control_characters_are_printed(ugly, capsys, tmp_path):
    path, (y, p, s, _) = ugly
    model, page, out = (tmp_path / f"\x1b[31m\u202e{name}" for name in ("m.eh", "r.html", "d.csv"))
    audit = ["audit", path, "--prediction", p, "--sensitive", s, "--label", y, "--difference", "0.01"]
    learning = ["--target", y, "--sensitive", s, "--estimator", "logistic"]
    calls = [
        [*audit, "--report", page],
        [*audit, "--report", page],  # exists already
        [*audit, "--json"],
        [*audit[:5], "no\x1b[31m", *audit[6:]],
        [*audit[:-1], "\x1b[31m"],
        ["frontier", path, *learning, "--tolerances", "3"],
        ["fit", path, *learning, "--difference", "0.3", "--out", model],
        ["verify", model, "--data", path],
        ["predict", model, path, "--out", out],
        ["predict", model, path, "--out", path, "--force"],
        ["predict", path, path, "--out", tmp_path / "e.csv"],
        ["audit", tmp_path / "\x1b[31mnone.csv", "--prediction", p, "--sensitive", s],
        ["audit", path, "--prediction", "\x1b[31m", "--sensitive", s],
        ["\x1b[31mbold"],
    ]
    for call in calls:
        _, text, err = run(capsys, *call)
        assert text + err
        assert_clean(text + err)
    assert model.exists()
    assert out.exists()


def test_names_are_escaped_in_a_report(ugly, capsys, tmp_path):
    path, (y, p, s, _) = ugly
    call = ["audit", path, "--prediction", p, "--sensitive", s, "--label", y]
    run(capsys, *call, "--report", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert_clean(page)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_cells_and_names_of_columns_are_not_formulas(kind, place, capsys, tmp_path):
    risky = ["=1+1", "+1a", "-a", "@a", "\ta", "\ra", "\na", "'a", "-1", "+4.5e-3"]
    table = pl.DataFrame({"x": np.arange(10.0), "=x": pl.Series(risky, dtype=kind), "-n": np.arange(10) - 5})
    table.write_parquet(tmp_path / "new.parquet")
    out = tmp_path / "d.csv"
    assert run(capsys, "predict", place / "m.eh", tmp_path / "new.parquet", "--out", out)[0] == 0
    decided = pl.read_csv(out)
    assert decided.columns == ["x", "'=x", "'-n", "decision", "label_probability", "decision_probability"]
    assert decided["'=x"].to_list() == ["'" + text for text in risky[:7]] + risky[7:]
    assert decided["'-n"].to_list() == list(range(-5, 5))
    run(capsys, "predict", place / "m.eh", tmp_path / "new.parquet", "--out", out, "--formulas", "--force")
    assert pl.read_csv(out).columns[1] == "=x"


def test_a_table_that_csv_cannot_hold_is_refused(place, capsys, tmp_path):
    pl.DataFrame({"x": [1.0, 2.0], "l": [[1], [2]]}).write_parquet(tmp_path / "new.parquet")
    call = ["predict", place / "m.eh", tmp_path / "new.parquet", "--out", tmp_path / "d.csv"]
    assert refused(capsys, *call).startswith("evenhand: d.csv cannot be written")
    assert [path.name for path in tmp_path.iterdir()] == ["new.parquet"]


# Small counts


def test_small_counts_stay_out_of_text_json_and_page(capsys, tmp_path):
    sex = ["F"] * 40 + ["M"] * 57 + ["X"] * 3
    pl.DataFrame({"p": [0, 1] * 50, "s": sex}).write_csv(tmp_path / "t.csv")
    call = ["audit", tmp_path / "t.csv", "--prediction", "p", "--sensitive", "s"]
    page = tmp_path / "r.html"
    _, text, _ = run(capsys, *call, "--min-count", "5", "--report", page)
    assert re.search(r"s=X +left out +left out", text)
    assert re.search(r"s=X</th><td[^>]*>left out", page.read_text("utf-8"))
    _, suppressed, _ = run(capsys, *call, "--min-count", "5", "--json")
    _, complete, _ = run(capsys, *call, "--json")
    assert [group["rows"] for group in json.loads(complete)["groups"]] == [100, 40, 57, 3]
    assert 3 not in [group["rows"] for group in json.loads(suppressed)["groups"]]


# Outputs that exist, are inputs, or are not regular files


def test_an_input_is_never_overwritten(place, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t.csv", "m.eh"):
        Path(name).write_bytes((place / name).read_bytes())
    Path("link.csv").symlink_to("t.csv")
    os.link("t.csv", "hard.csv")
    before = Path("t.csv").read_bytes(), Path("m.eh").read_bytes()
    fit = ["fit", "t.csv", "--target", "y", "--sensitive", "s", "--difference", "0.3", "--force"]
    audit = ["audit", "t.csv", "--prediction", "y", "--sensitive", "s", "--force"]
    calls = [
        ["predict", "m.eh", "t.csv", "--force", "--out", "t.csv"],
        ["predict", "m.eh", "t.csv", "--force", "--out", "../" + tmp_path.name + "/t.csv"],
        ["predict", "m.eh", "t.csv", "--force", "--out", "link.csv"],
        ["predict", "m.eh", "t.csv", "--force", "--out", "hard.csv"],
        ["predict", "m.eh", "t.csv", "--force", "--out", "m.eh"],
        [*fit, "--out", "t.csv"],
        [*fit, "--out", "new.eh", "--report", "t.csv"],
        [*fit, "--out", "new.eh", "--report", "new.eh"],
        [*audit, "--report", "t.csv"],
        ["frontier", "t.csv", "--target", "y", "--sensitive", "s", "--force", "--out", "t.csv"],
    ]
    for call in calls:
        err = refused(capsys, *call)
        assert "is also an input, which is never overwritten" in err or "is named for two outputs" in err
    assert (Path("t.csv").read_bytes(), Path("m.eh").read_bytes()) == before


def test_a_device_or_a_folder_is_not_replaced(place, capsys, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for out in (pipe, tmp_path):
        err = refused(capsys, "predict", place / "m.eh", place / "t.csv", "--out", out, "--force")
        assert "is a folder or no regular file" in err
    with pytest.raises(InputError, match="is not a file"):
        eh.save(eh.load(place / "m.eh"), pipe, overwrite=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_that_is_not_writable_is_refused_before_any_work(place, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    call = ["predict", tmp_path / "none.eh", place / "t.csv", "--out", tmp_path / "d.csv"]
    assert "is not writable" in refused(capsys, *call)


# Processes that are killed while writing, and full disks


@pytest.mark.slow
def test_a_prediction_that_is_killed_leaves_the_old_file(place, tmp_path, capsys):
    out = tmp_path / "d.csv"
    out.write_text("old")
    code = (
        "import os, signal, evenhand.cli.table_files as files\n"
        "read = files.read_pieces\n"
        "def pieces(path, rows, codes):\n"
        "    yield next(read(path, rows, codes))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"files.read_pieces = pieces\n{COMMAND}"
    )
    call = ["predict", place / "m.eh", place / "t.csv", "--out", out, "--rows", "50", "--force"]
    assert process(code, *call).returncode == -signal.SIGKILL
    assert out.read_text() == "old"
    [left] = [path for path in tmp_path.iterdir() if path != out]
    assert left.name.startswith(".d.csv.")
    assert run(capsys, *call)[0] == 0
    assert left.exists()  # another process may still be writing it


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_decisions_that_do_not_fit_on_the_disk_are_an_error(suffix, place, tmp_path):
    out = tmp_path / f"d.{suffix}"
    out.write_text("old")
    done = process(LIMITED + COMMAND, "predict", place / "m.eh", place / "t.csv", "--out", out, "--force")
    assert done.returncode == FAILED
    assert re.fullmatch(r"evenhand: .*(File too large|cannot be written).*\n", done.stderr)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_a_model_and_a_report_that_do_not_fit_on_the_disk_are_an_error(place, tmp_path):
    fit = ["fit", place / "t.csv", "--target", "y", "--sensitive", "s", "--difference", "0.4"]
    fit += ["--estimator", "logistic"]
    audit = ["audit", place / "t.csv", "--prediction", "y", "--sensitive", "s"]
    audit += ["--report", tmp_path / "r.html"]
    for call in ([*fit, "--out", tmp_path / "m.eh"], audit):
        done = process(LIMITED + COMMAND, *call)
        assert done.returncode == FAILED
        assert done.stderr.splitlines()[-1].endswith("File too large")
        assert "Traceback" not in done.stderr
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_printed_is_an_error(place):
    done = process(COMMAND, "verify", place / "m.eh", redirection=">/dev/full")
    assert done.returncode == FAILED
    assert done.stderr == "evenhand: [Errno 28] No space left on device\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">&-", None, ""),  # closed: no output is wanted, and the exit code counts
        (">&- 2>&- <&-", None, ""),
        ("2>/dev/full", None, ""),
        ("2>&-", None, ""),
        (">/dev/full", FAILED, "evenhand: [Errno 28] No space left on device\n"),
        (">/dev/full 2>/dev/full", FAILED, ""),
    ],
)
def test_streams_that_are_closed_or_full_change_no_verdict(redirection, code, message, place, tmp_path):
    """A full standard output is an error; standard error never changes the exit code."""
    page = tmp_path / "page.html"
    call = ["audit", place / "t.csv", "--prediction", "y", "--sensitive", "s", "--difference", "0.3"]
    done = process(COMMAND, *call, "--report", page, redirection=redirection)
    assert done.returncode == (0 if code is None else code)
    assert page.exists() == (code is None)
    if "2>" not in redirection:
        assert done.stderr == (message or f"Report: {page}\n")
    if ">" not in redirection.replace("2>", ""):
        assert "Audit of 400 rows" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_a_wrong_call_has_its_exit_code_even_without_a_message(redirection):
    call = ["audit", "nowhere.csv", "--prediction", "y", "--sensitive", "s"]
    done = process(COMMAND, *call, redirection=redirection)
    assert (done.returncode, done.stdout) == (FAILED, "")


def test_a_manifest_may_lack_optional_keys(place, tmp_path):
    entries = dict(entries_of(place / "m.eh"))
    manifest = json.loads(entries["manifest.json"])
    del manifest["guarantee"]
    write_archive(tmp_path / "m.eh", list({**entries, "manifest.json": json.dumps(manifest)}.items()))
    assert eh.verify(tmp_path / "m.eh").guarantee is None


def test_a_pipe_is_not_a_model(tmp_path):
    """Reading from it would block for ever."""
    os.mkfifo(tmp_path / "m.eh")
    with pytest.raises(InputError, match="not a file that can be read"):
        eh.load(tmp_path / "m.eh")


def test_a_damaged_member_is_one_sentence(place, tmp_path):
    """zlib raises its own errors even if the checksum of the file is correct."""
    data = (place / "m.eh").read_bytes()
    problems = []
    for at in range(60, len(data) - 64, max(1, len(data) // 40)):
        changed = bytearray(data[:-64])
        changed[at : at + 8] = bytes(8)  # harmless in some places of a header
        (tmp_path / "m.eh").write_bytes(changed + hashlib.sha256(changed).hexdigest().encode())
        problems.append(eh.verify(tmp_path / "m.eh").problem)
    assert sum("cut off or damaged" in str(problem) for problem in problems) > len(problems) // 2
    assert not any("\n" in str(problem) for problem in problems)


# Optional packages


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder of packages with evenhand and its required dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    waiting, seen = ["numpy", "scipy", "scikit-learn", "narwhals", "highspy"], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        found = metadata.distribution(name)
        waiting += [re.split(r"[^\w.-]", need)[0] for need in found.requires or () if "extra ==" not in need]
        for top in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(found.locate_file(top))
    (folder / "evenhand").symlink_to(Path(eh.__file__).parent)
    return folder


HINTS = {
    "import evenhand.__main__ as m; m.main()": ("cyclopts", "cli"),
    "eh.datasets.load_adult()": ("polars", "datasets"),
    "eh.save(fair, 'm.eh')": ("skops", "files"),
    "eh.audit(y, y, {'s': s}).to_frame()": ("polars", "datasets"),
    "eh.write_report('a.html', eh.audit(y, y, {'s': s}))": ("altair|jinja2", "report"),
    "eh.frontier(fair, X, y, sensitive_features=s, tolerances=3).plot()": ("altair", "report"),
    "import evenhand.charts as c; c.rates_chart([])": ("altair", "report"),
}


CALLS = """
import json, os, sys
sys.path.append(sys.argv[1])
import numpy as np, evenhand as eh
from sklearn.linear_model import LogisticRegression
rng = np.random.default_rng(0)
X, y, s = rng.normal(size=(200, 2)), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
parity, folds = eh.DemographicParity(difference=0.5), eh.CrossFit(2)
fair = eh.FairPostprocessor(LogisticRegression(), parity, posteriors=folds)
fair.fit(X, y, sensitive_features=s)
results = {"audit": str(eh.audit(y, fair.predict(X), s))}
for call in sys.argv[2:]:
    try:
        exec(call)
    except (eh.exceptions.MissingExtraError, SystemExit) as error:
        results[call] = str(error)
    if os.listdir():
        results[call] = f"left {os.listdir()}"
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results_without_extras(bare, tmp_path_factory):
    """What each call raises where no optional package is installed."""
    command = [sys.executable, "-I", "-S", "-c", CALLS, bare, *HINTS]  # without site-packages
    folder = tmp_path_factory.mktemp("calls")
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_extras_models_are_fitted_and_audited(results_without_extras):
    assert "Audit of 200 rows" in results_without_extras["audit"]


@pytest.mark.parametrize("call", HINTS)
def test_without_an_extra_one_line_says_what_to_install(call, results_without_extras):
    package, extra = HINTS[call]
    assert re.search(
        rf"this needs the package '({package})'; install it with: pip install 'evenhand\[({extra})\]'$",
        results_without_extras[call],
    ), results_without_extras[call]
