"""How much memory a file would take, and how much there is."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenhand.cli import memory
from evenhand.cli.memory import available_memory, memory_of

TABLE = pl.DataFrame({"x": np.random.default_rng(0).random(20_000), "s": ["a long text"] * 20_000})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_memory_of_a_file_is_estimated(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_SMALL", 1000)
    path = tmp_path / f"t.{kind}"
    getattr(TABLE, f"write_{kind}")(path)
    assert memory_of(path) == pytest.approx(TABLE.estimated_size(), rel=0.5)


def test_a_small_text_file_is_not_read(tmp_path, monkeypatch):
    TABLE.write_csv(tmp_path / "t.csv")
    monkeypatch.setattr("evenhand.cli.table_files.scan", None)
    assert TABLE.estimated_size() < memory_of(tmp_path / "t.csv") < 100_000_000


def test_an_empty_file_takes_nothing(tmp_path):
    TABLE.head(0).write_parquet(tmp_path / "t.parquet")
    assert memory_of(tmp_path / "t.parquet") == 0


FILES = {
    "/proc/meminfo": "MemTotal: 2000 kB\nMemAvailable:   1000 kB\n",
    "/sys/fs/cgroup/memory.max": "700000\n",
    "/sys/fs/cgroup/memory.current": "200000\n",
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 500_000),
        ({"/sys/fs/cgroup/memory.max": "max\n"}, 1_024_000),
        ({"/sys/fs/cgroup/memory.max": None}, 1_024_000),
        ({"/proc/meminfo": None}, 500_000),
        ({"/proc/meminfo": "nonsense"}, 500_000),
        ({"/sys/fs/cgroup/memory.current": "900000"}, 0),
        ({"/proc/meminfo": None, "/sys/fs/cgroup/memory.max": None}, 4096 * 1000),
    ],
    ids=str,
)
def test_the_smallest_limit_counts(change, expected, monkeypatch):
    found = {**FILES, **change}

    def read(self):
        if found.get(str(self)) is None:
            raise OSError
        return found[str(self)]

    monkeypatch.setattr(Path, "read_text", read)
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__, raising=False)
    assert available_memory() == expected


def test_a_system_that_tells_nothing(monkeypatch):
    def read(_):
        raise OSError

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.delattr("os.sysconf", raising=False)
    assert available_memory() is None
