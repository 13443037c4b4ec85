"""The benchmarks of large tables, on small ones."""

import sys

import pytest
from benchmarks.record import process_cost
from benchmarks.scale import __main__ as command
from benchmarks.scale import audit, solve


def test_an_audit_is_compared_with_polars_by_hand():
    found = audit.measure(rows=5000, repeats=1)
    assert found["rows"] == 5000
    for kind in ("labels", "labels and weights"):
        for way in ("fresh process", "call"):
            assert found[f"{kind}: audit over group_by, {way} (goal: at most 1.2)"] > 0


def test_solving_from_a_file_is_measured_in_readings_of_it(monkeypatch):
    monkeypatch.setattr(solve, "CASES", ((3000, 2), (10**9, 2)))
    found = solve.measure(most_rows=10**8)
    assert found["n=3,000, M=2: solve in readings"] > 0
    assert found["n=3,000, M=2: certified gap"] < 1e-6
    assert not any("1,000,000,000" in name for name in found)


def test_the_command_keeps_the_figures_of_the_parts_it_is_asked_for(monkeypatch):
    kept = []
    monkeypatch.setattr(audit, "measure", lambda rows: {"rows": rows})
    monkeypatch.setattr(command, "write", lambda *given: kept.append(given))
    command.main(["--only", "audit", "--audit-rows", "7"])
    [(name, figures, packages)] = kept
    assert (name, figures["rows"]) == ("scale-audit", 7)
    assert "polars" in packages


def test_an_unknown_part_is_refused_before_any_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(audit, "measure", lambda _: pytest.fail("measured"))
    with pytest.raises(SystemExit):
        command.main(["--only", "audit,adit"])
    assert "there is no part 'adit'" in capsys.readouterr().err


def test_the_cost_of_a_process_is_its_own():
    """Not that of the process that measures it, which may be large."""
    held = bytearray(200_000_000)
    small = process_cost([sys.executable, "-I", "-S", "-c", "pass"])
    large = process_cost([sys.executable, "-I", "-S", "-c", "x = b'1' * 100_000_000"])
    assert small.peak_bytes < 50_000_000 < large.peak_bytes
    assert len(held) > large.peak_bytes
    with pytest.raises(RuntimeError, match="exit code 3"):
        process_cost([sys.executable, "-c", "raise SystemExit(3)"])
