"""Posteriors of all rows in temporary files."""

import errno
import os
import shutil
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import DensePosteriors
from evenhand.sources import posterior_file
from evenhand.sources.layout import Layout
from evenhand.sources.posterior_file import PosteriorFile, readable_size

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(6), 1000).reshape(-1, 3, 2)
ETA, CODES, WEIGHTS = RNG.random(1000), RNG.integers(0, 3, 1000), RNG.random(1000)

SHORT = Layout(3, kind=np.float32)


def read(file):
    parts = list(file.blocks())
    return [file.layout.posteriors(part) for part in parts], [part.get("weights") for part in parts]


@pytest.mark.parametrize("weighted", [False, True])
def test_posteriors_come_back_in_parts(weighted, tmp_path, monkeypatch):
    monkeypatch.setattr(posterior_file, "_PART_BYTES", 12_000)
    layout = Layout(3, weighted=weighted, kind=np.float32)
    file = PosteriorFile(tmp_path, 1000, layout)
    assert file.size == 1000 * (24 + 8 * weighted)
    file.reserve()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == file.size
    for first in (600, 0, 300):  # in any order
        rows = slice(first, first + (400 if first == 600 else 300))
        file.write(first, layout.columns(DensePosteriors(P[rows]), WEIGHTS[rows]))
    posteriors, weights = read(file)
    assert len(posteriors) == file.n_parts == file.partitions().count > 1
    np.testing.assert_array_equal(np.concatenate([part.values for part in posteriors]), P.astype(np.float32))
    if weighted:
        np.testing.assert_array_equal(np.concatenate(weights), WEIGHTS)
    assert sum(file.partitions().map(lambda part: part.n_rows)) == 1000


def test_scores_keep_all_digits(tmp_path):
    file = PosteriorFile(tmp_path, 1000, Layout(3, known=True))
    assert file.size == 12_000
    file.reserve()
    file.write(0, file.layout.columns(eh.GroupedScores(ETA, CODES, 3), None))
    [scores], _ = read(file)
    np.testing.assert_array_equal(scores.eta, ETA)
    np.testing.assert_array_equal(scores.codes, CODES)
    [totals] = file.partitions().map(lambda part: part.masses())
    np.testing.assert_allclose(totals[1::2], np.bincount(CODES, ETA) / 1000)


FULL = r"posteriors of 1,000 rows take 24\.0 kB, and .* has .* free: set the environment variable TMPDIR"


def test_too_little_space_is_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=20_000))
    file = PosteriorFile(tmp_path, 1000, SHORT)
    with pytest.raises(InputError, match=FULL):
        file.reserve()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_nevertheless_is_one_sentence(number, tmp_path, monkeypatch):
    """Another process may take the space, and a quota is not seen before."""

    def full(*_):
        raise OSError(number, "no")

    file = PosteriorFile(tmp_path, 1000, SHORT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full, raising=False)
        with pytest.raises(InputError, match=FULL):
            file.reserve()


def test_a_disk_that_fills_up_while_writing_is_one_sentence(tmp_path, monkeypatch):
    file = PosteriorFile(tmp_path, 1000, SHORT)
    file.reserve()

    def full(*_):
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(type(tmp_path), "open", full)
    with pytest.raises(InputError, match=FULL):
        file.write(0, SHORT.columns(DensePosteriors(P), None))


def test_other_errors_stay_as_they_are(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "posix_fallocate", broken, raising=False)
    with pytest.raises(OSError, match="input/output error"):
        PosteriorFile(tmp_path, 1000, SHORT).reserve()


def test_systems_without_allocation_have_files_of_the_size(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    file = PosteriorFile(tmp_path, 1000, SHORT)
    file.reserve()
    file.write(0, SHORT.columns(DensePosteriors(P), None))
    [posteriors], _ = read(file)
    np.testing.assert_array_equal(posteriors.values, P.astype(np.float32))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == file.size


def test_a_fit_on_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    table = pl.DataFrame({"x": ETA, "s": CODES, "y": (ETA + WEIGHTS > 1).astype(int)})
    model = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.1),
        sensitive_features=["s"],
        posteriors=eh.CrossFit(max_samples=500),
    )
    with pytest.raises(InputError, match=FULL.replace("24", "48")):
        model.fit(table.lazy(), "y")
    assert list(tmp_path.iterdir()) == []


def test_sizes_for_a_person():
    assert [readable_size(n) for n in (0, 999, 1000, 2_500_000, 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "2.5 MB",
        "1000.0 GB",
    ]
