"""Bayes-optimal fair classification with one or many sensitive features.

Public names are loaded on first use, so ``import evenhand`` itself is fast. ``__init__.pyi`` lists them, for
type checkers too.
"""

import ast
import pkgutil
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    imported.name: line.module
    for line in ast.parse(pkgutil.get_data(__name__, "__init__.pyi")).body
    if isinstance(line, ast.ImportFrom)
    for imported in line.names
}
"""The module of each public name, or the package of one that is a module itself."""
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
