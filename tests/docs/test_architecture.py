"""docs/architecture.md agrees with the code: its tables are made from it, and files that it names exist."""

import runpy

from tests.conftest import ROOT

made = runpy.run_path(str(ROOT / "script" / "architecture"))
PAGE = made["PAGE"].read_text("utf-8")
MODULES = sorted(made["PACKAGE"].rglob("*.py"))


def test_the_tables_are_those_of_the_code():
    assert made["filled"](PAGE) == PAGE, "docs/architecture.md is stale: run script/architecture"


def test_every_module_says_what_it_is():
    assert [path for path in MODULES if not made["described"](path)] == []


def test_every_file_that_the_page_names_exists():
    names = made["named"](PAGE)
    assert names
    assert [name for name in names if not (made["PACKAGE"] / name).exists()] == []
