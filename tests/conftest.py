"""What several tests share."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings

import evenhand as eh
from evenhand.requirements.notions import NOTIONS

ROOT = Path(__file__).parents[1]

# The same examples every time, so that a change is judged by what it does. EVENHAND_EXPLORE=1 finds new ones.
# No deadline, because a busy machine would decide. Few examples by default, more before a change lands.
EXPLORING = bool(os.environ.get("EVENHAND_EXPLORE"))


def examples(count: int) -> int:
    """How many of so many examples are tried here: all of them under CI and when new ones are looked for."""
    return count if EXPLORING or os.environ.get("EVENHAND_REQUIRE_ALL") else count // 4


def often(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters of a test: so many of them always, and the others where slow tests run."""
    return [pytest.param(one, marks=[] if k < count else pytest.mark.slow) for k, one in enumerate(values)]


settings.register_profile("steady", derandomize=True, deadline=None, max_examples=examples(100))
settings.register_profile("exploring", deadline=None)
settings.load_profile("exploring" if EXPLORING else "steady")


def absent(what: str) -> None:
    """Skip in one line what needs something that is not there; under CI it is required."""
    if os.environ.get("EVENHAND_REQUIRE_ALL"):
        pytest.fail(f"{what} is required here and not there")
    pytest.skip(f"{what} is not there")


@pytest.fixture(autouse=True)
def no_scheduler_of_a_closed_client() -> None:
    """Dask's settings may keep the scheduler of a client that an earlier test closed."""
    dask = sys.modules.get("dask")
    if dask is not None and dask.config.get("scheduler", None) == "dask.distributed":
        from distributed import Client

        try:
            Client.current()
        except ValueError:
            dask.config.config.pop("scheduler")


@pytest.fixture
def acs_folder() -> Path:
    folder = Path(os.environ.get("EVENHAND_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "acs_income_14states_2018.parquet").exists():
        absent(f"the ACS data in {folder.name}/")
    return folder


@pytest.fixture(scope="module")
def browser():
    """Chromium, through playwright."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        absent("Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module", autouse=True)
def few_trees(request: pytest.FixtureRequest):
    """Fewer trees and folds by default, which take a moment; theory and the gallery have those of users."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name not in ("docs", "theory"):
            patch.setitem(eh.TabularClassifier.__init__.__kwdefaults__, "max_iter", 20)
            patch.setattr(eh.CrossFit.__init__, "__defaults__", (2,))
        yield


@pytest.fixture(params=NOTIONS, ids=lambda kind: kind.__name__)
def notion(request: pytest.FixtureRequest) -> type[eh.Notion]:
    return request.param


@pytest.fixture(params=["list", "numpy", "object", "pandas", "polars", "pyarrow"])
def column(request: pytest.FixtureRequest):
    """A function that turns a list into a column of each supported kind."""
    return {
        "list": list,
        "numpy": np.array,
        "object": lambda values: np.array(values, dtype=object),
        "pandas": pd.Series,
        "polars": pl.Series,
        "pyarrow": lambda values: pa.chunked_array([values]),
    }[request.param]


@pytest.fixture(params=["dict", "pandas", "polars", "pyarrow"])
def table(request: pytest.FixtureRequest):
    """A function that turns a dict of lists into a table of each supported kind."""
    return {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[request.param]
