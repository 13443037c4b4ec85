"""Run the Python examples of the documentation; nothing of scikit-learn's checks is left out."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # one of them asks for it, before SciPy is imported

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"]).pytest()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the examples of a page in their order, also where tests are shuffled: they build on each other."""
    places = [k for k, item in enumerate(items) if item.path.suffix == ".md"]
    ordered = sorted((items[k] for k in places), key=lambda item: (str(item.path), item.location[1] or 0))
    for k, item in zip(places, ordered, strict=True):
        items[k] = item
