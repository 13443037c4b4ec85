"""Arrays and classifiers of other packages in a model file, checked before any object is made.

skops stores them, and describes them in a schema: a tree of nodes, each with a loader, a module and a class.
Every node is inspected before skops makes the objects. Then the numbers that compiled code would trust are
checked.
"""

from __future__ import annotations

import io
import json
import sys
import warnings
import zipfile
from collections.abc import Collection
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

from evenhand.exceptions import InputError, MissingExtraError, UntrustedFileError, reason
from evenhand.files.hardening.allowlist import allowed_types
from evenhand.files.hardening.inspection import inspect_parts, nodes
from evenhand.files.hardening.trees import check_indices
from evenhand.posteriors.tabular import TabularClassifier

_OLDEST_SKOPS = (0, 15)
"""Older versions call whatever a file names as a bit generator."""

_STABLE_NAMES = {
    "_loss": "sklearn._loss._loss",
    "numpy._core._multiarray_umath": "numpy",
    TabularClassifier.__module__: "evenhand",
}


def dump_parts(parts: list[Any], trusted: Collection[str] = ()) -> tuple[bytes, set[str], set[str]]:
    """Arrays and classifiers as bytes; others are refused.

    Parameters
    ----------
    parts : list
    trusted : collection of str, default=()
        Full names of classes and functions of the user.

    Returns
    -------
    data, packages, needed
        The packages, and the trusted names, that loading needs.
    """
    skops = _skops()
    try:
        data: bytes = _with_stable_names(skops.dumps(parts))
        packages, needed = inspect_parts(data, trusted=trusted)
        check_indices(parts)
    except UntrustedFileError as error:
        raise InputError(
            f"this model cannot be saved: {error} Otherwise change it or choose another classifier, and fit "
            "again; or save only the rule with rule_.to_json()."
        ) from None
    except Exception as error:
        raise InputError(f"this model cannot be saved: {reason(error)}") from error
    for name in sorted(needed):
        module, _, kind = name.rpartition(".")
        if module == "__main__" or not hasattr(sys.modules.get(module), kind):
            raise InputError(
                f"this model cannot be saved: {name!r} cannot be imported elsewhere. Move it to "
                "the top level of a module."
            )
    return data, packages, needed


def _with_stable_names(data: bytes) -> bytes:
    """The same bytes, with module names that other versions can import too.

    TabularClassifier gets its public name. Before scikit-learn 1.9, losses of boosted trees name a module
    ``_loss`` that no package has: any file of that name would be imported. Before NumPy 2.2, functions name a
    private module.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(member, archive.read(member)) for member in archive.infolist()]
    schema = next(content for member, content in members if member.filename == "schema.json")
    described = json.loads(schema)
    renamed = [node for node in nodes(described) if node.get("__module__") in _STABLE_NAMES]
    if not renamed:
        return data
    for node in renamed:
        node["__module__"] = _STABLE_NAMES[node["__module__"]]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for member, content in members:
            archive.writestr(member, json.dumps(described) if member.filename == "schema.json" else content)
    return buffer.getvalue()


def load_parts(data: bytes, max_bytes: int = sys.maxsize, trusted: Collection[str] = ()) -> list[Any]:
    """Arrays and classifiers made from bytes, after all checks.

    Parameters
    ----------
    data : bytes
        As written by :func:`dump_parts`.
    max_bytes : int, default=sys.maxsize
    trusted : collection of str, default=()
        See :func:`inspect_parts`.

    Returns
    -------
    list
    """
    skops = _skops()
    inspect_parts(data, max_bytes, trusted)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `load` warns of other versions
            parts = skops.loads(data, trusted=sorted(set(trusted).union(*allowed_types().values())))
        if not isinstance(parts, list) or any(type(part) in (dict, list, set, str, tuple) for part in parts):
            raise UntrustedFileError("the parts of the model are not a list of arrays and classifiers.")
        check_indices(parts)
    except UntrustedFileError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(f"this model needs the package {error.name!r}, which is not installed.") from None
    except Exception as error:
        raise UntrustedFileError(
            f"the parts of the model cannot be read with the installed packages: {reason(error)}"
        ) from error
    return parts


def _skops() -> ModuleType:
    try:
        module = import_module("skops.io")
        version = tuple(int(number) for number in metadata.version("skops").split(".")[:2])
    except ImportError:
        raise MissingExtraError("skops", "files") from None
    if version < _OLDEST_SKOPS:
        raise MissingExtraError("skops>=0.15", "files")
    return module
