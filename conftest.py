"""Run and compare the examples of the documentation; nothing of scikit-learn's checks is left out."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # one of them asks for it, before SciPy is imported

import pytest
from sybil import Sybil
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection
from tests.docs.outputs import Pages

DOCS = Path(__file__).parent / "docs"
SLOW = [
    DOCS / f"{name}.md"
    for name in (
        "guide/alternatives",
        "guide/command_line",
        "guide/large_tables",
        "guide/monitoring",
        "index",
        "missing",
        "requirements",
        "start/five_minutes",
        "theory/excess",
    )
]
BENCHMARKS = Path(__file__).parent / "tests" / "benchmarks"
# Slow tests here run what others run as well, so that coverage is measured without them: tracing makes Python
# half as slow again.
UNTRACED = [DOCS, *(BENCHMARKS.with_name(name) for name in ("benchmarks", "docs", "properties", "theory"))]

# What script/docs makes, and what it runs by itself.
collect_ignore_glob = [
    "docs/_build/*",
    "docs/conf.py",
    "docs/gallery/*",
    "docs/gallery_src/*",
    "docs/reference/generated/*",
    "*/report/card.md",  # a template
]

PAGES = Pages()
pytest_collect_file = SybilCollection(
    [
        Sybil(PAGES.parsers, patterns=["*.md"], setup=PAGES.setup, teardown=PAGES.teardown),
        Sybil(parsers=[DocTestParser()], patterns=["*.rst"]),
    ]
).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let pages be brought up to date."""
    parser.addoption(
        "--update-outputs",
        action="store_true",
        help="rewrite the outputs in pages that differ from what runs",
    )
    parser.addoption("--any-outputs", action="store_true", help="run pages without comparing their outputs")


def pytest_configure(config: pytest.Config) -> None:
    """Compare, rewrite, or only run."""
    PAGES.update = config.getoption("--update-outputs")
    PAGES.compare = not config.getoption("--any-outputs")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark pages that fit models, the demo and benchmarks as slow; keep examples of a page in order."""
    for item in items:
        if item.path in SLOW or BENCHMARKS in item.path.parents or PAGES.runs_demo(item):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and any(folder in item.path.parents for folder in UNTRACED):
            item.add_marker(pytest.mark.no_cover)
    yield
    # Examples of a page build on each other.
    places = [k for k, item in enumerate(items) if item.path.suffix in (".md", ".rst")]
    ordered = sorted((items[k] for k in places), key=lambda item: (str(item.path), item.location[1] or 0))
    for k, item in zip(places, ordered, strict=True):
        items[k] = item
    # Files that take longest begin, because whole files go to a process; pages and doctests fill the end.
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)
