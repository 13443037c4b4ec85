"""Run the Python examples of the documentation; nothing of scikit-learn's checks is left out."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # one of them asks for it, before SciPy is imported

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection

DOCS = Path(__file__).parent / "docs"
SLOW = [DOCS / "guide" / "large_tables.md", DOCS / "index.md", DOCS / "start" / "five_minutes.md"]

# What script/docs makes, and what it runs by itself.
collect_ignore_glob = [
    "docs/_build/*",
    "docs/conf.py",
    "docs/gallery/*",
    "docs/gallery_src/*",
    "docs/reference/generated/*",
]

pytest_collect_file = SybilCollection(
    [
        Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"]),
        Sybil(parsers=[DocTestParser()], patterns=["*.rst"]),
    ]
).pytest()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark pages that fit models as slow, and keep examples of a page in order where tests are shuffled."""
    for item in items:
        if item.path in SLOW:
            item.add_marker(pytest.mark.slow)
    yield
    # Examples of a page build on each other.
    places = [k for k, item in enumerate(items) if item.path.suffix in (".md", ".rst")]
    ordered = sorted((items[k] for k in places), key=lambda item: (str(item.path), item.location[1] or 0))
    for k, item in zip(places, ordered, strict=True):
        items[k] = item
