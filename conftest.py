"""Run the Python examples of the documentation; nothing of scikit-learn's checks is left out."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # one of them asks for it, before SciPy is imported

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"]).pytest()
