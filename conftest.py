"""Run the Python examples of the documentation; nothing of scikit-learn's checks is left out."""

import os
from collections.abc import Iterator

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # one of them asks for it, before SciPy is imported

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"]).pytest()

_SLOW = {"large_tables.md"}
"""Pages that start a cluster and fit to files."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark pages that take longest, and keep the examples of a page in order where tests are shuffled."""
    for item in items:
        if item.path.suffix == ".md" and item.path.name in _SLOW:
            item.add_marker(pytest.mark.slow)
    yield
    places = [k for k, item in enumerate(items) if item.path.suffix == ".md"]  # they build on each other
    ordered = sorted((items[k] for k in places), key=lambda item: (str(item.path), item.location[1] or 0))
    for k, item in zip(places, ordered, strict=True):
        items[k] = item
