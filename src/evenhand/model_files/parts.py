"""Arrays and classifiers of other packages in a model file, checked before any object is made.

skops stores them, and describes them in a schema: a tree of nodes, each with a loader, a module and a class.
Every node is checked against `allowlist` before skops checks the same list again and makes the objects. Then
`bounds` checks the numbers that compiled code would trust.
"""

from __future__ import annotations

import io
import json
import math
import sys
import warnings
import zipfile
from collections.abc import Iterator
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

import numpy as np

from evenhand.exceptions import InputError, MissingExtraError, UntrustedFileError, reason
from evenhand.model_files.allowlist import allowed_types
from evenhand.model_files.archive import check_memory, opened
from evenhand.model_files.boosters import check_lightgbm, check_xgboost
from evenhand.model_files.bounds import check_bounds, reached, rebuild_trees, without_trees
from evenhand.model_files.settings import plain_node, refused_node, refused_object
from evenhand.posteriors.tabular import TabularClassifier

__all__ = ["dump_parts", "inspect_parts", "load_parts", "nodes"]

_OLDEST_PROTOCOL = 2
"""Of skops. Older files are read by code that was not checked."""

_OLDEST_SKOPS = (0, 15)
"""Older versions call whatever a file names as a bit generator."""

_STABLE_NAMES = {"_loss": "sklearn._loss._loss", TabularClassifier.__module__: "evenhand"}


def dump_parts(parts: list[Any]) -> tuple[bytes, set[str]]:
    """Arrays and classifiers as bytes, and the packages that loading needs; others are refused.

    Parameters
    ----------
    parts : list

    Returns
    -------
    bytes, set of str
    """
    skops = _skops()
    refused = _refused_setting(parts)
    if refused:
        raise InputError(f"this model cannot be saved: {refused} Change it and fit again.")
    try:
        check_bounds(parts)
        data: bytes = _with_stable_names(skops.dumps(without_trees(parts)))
        packages = inspect_parts(data)
    except UntrustedFileError as error:
        raise InputError(
            f"this model cannot be saved: {error} Choose another classifier, or save only the rule with "
            "rule_.to_json()."
        ) from None
    except Exception as error:
        raise InputError(f"this model cannot be saved: {reason(error)}") from error
    return data, packages


def _with_stable_names(data: bytes) -> bytes:
    """The same bytes, with module names that other versions can import too.

    TabularClassifier gets its public name. Before scikit-learn 1.9, losses of boosted trees name a module
    ``_loss`` that no package has, so that any file of that name would be imported.
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


def load_parts(data: bytes, max_bytes: int = sys.maxsize) -> list[Any]:
    """Arrays and classifiers made from bytes, after all checks.

    Parameters
    ----------
    data : bytes
        As written by :func:`dump_parts`.
    max_bytes : int, default=sys.maxsize
        See :func:`inspect_parts`.

    Returns
    -------
    list
    """
    skops = _skops()
    inspect_parts(data, max_bytes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `load` warns of other versions
            parts = skops.loads(data, trusted=sorted(set().union(*allowed_types().values())))
        if not isinstance(parts, list) or any(type(part) in (dict, list, set, str, tuple) for part in parts):
            raise UntrustedFileError("the parts of the model are not a list of arrays and classifiers.")
        refused = _refused_setting(parts)
        if refused:
            raise UntrustedFileError(refused)
        rebuild_trees(parts)
        check_bounds(parts)
    except UntrustedFileError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(f"this model needs the package {error.name!r}, which is not installed.") from None
    except Exception as error:
        raise UntrustedFileError(
            f"the parts of the model cannot be read with the installed packages: {reason(error)}"
        ) from error
    return parts


def inspect_parts(data: bytes, max_bytes: int = sys.maxsize) -> set[str]:
    """Refuse parts with anything that is not on the list, without making or importing anything.

    Parameters
    ----------
    data : bytes
    max_bytes : int, default=sys.maxsize
        Parts are refused if their arrays, or the parsed schema, take more.

    Returns
    -------
    set of str
        The packages that loading needs.
    """
    try:
        with opened(data, max_bytes) as archive:
            members = {member.filename: member.file_size for member in archive.infolist()}
            plain = all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
            if not plain or len(members) != len(archive.infolist()) or sum(members.values()) > len(data):
                raise UntrustedFileError("the parts of the model are not packed as evenhand packs them.")
            check_memory(text := archive.read("schema.json"), max_bytes)
            schema = json.loads(text)
            protocol = schema["protocol"]
            if type(protocol) is not int or protocol < _OLDEST_PROTOCOL:
                raise UntrustedFileError(
                    f"the parts of the model use skops protocol {protocol!r}, which is too old."
                )
            packages, size = set(), 0
            described: dict[Any, Any] = {}
            for node in nodes(schema):
                packages.add(_check_node(node))
                _check_booster(node, archive, max_bytes)
                # skops makes one object per id: a harmless node could hide another one of the same id, and
                # lists that hold each other by their ids would grow without limit.
                first = described.setdefault(node["__id__"], node) if node.get("__id__") else node
                if first.get("file") != node.get("file") or (first is not node and not _same(first, node)):
                    raise UntrustedFileError("it holds two different objects under the same id.")
                if first is node and node.get("file") is not None:
                    size += max(members[node["file"]], _array_size(node, archive, max_bytes))
                if size > max_bytes:
                    raise UntrustedFileError(
                        f"its arrays have more than {max_bytes:,} bytes; raise max_bytes if you trust it."
                    )
    except UntrustedFileError:
        raise
    except Exception as error:
        raise UntrustedFileError(f"the parts of the model are damaged: {reason(error)}") from None
    return packages


def _array_size(node: dict[str, Any], archive: zipfile.ZipFile, max_bytes: int) -> int:
    """Size of an array or a sparse matrix, by the headers that NumPy trusts; 0 for anything else."""
    if node["__loader__"] == "NdArrayNode":
        return _claimed(archive, node["file"])
    if node["__loader__"] == "SparseMatrixNode":
        with opened(archive.read(node["file"]), max_bytes) as matrix:
            return sum(_claimed(matrix, name) for name in matrix.namelist())
    return 0


def _claimed(archive: zipfile.ZipFile, name: str) -> int:
    """Size of an array, which must not have more elements than bytes are there."""
    with archive.open(name) as stream:
        old = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, kind = read(stream)
    size, held = math.prod(shape) * max(kind.itemsize, 1), archive.getinfo(name).file_size
    if size > held:
        raise UntrustedFileError("it holds an array with elements that do not exist.")
    return held


def nodes(schema: Any, key: str = "__loader__") -> Iterator[dict[str, Any]]:
    """Every dictionary with a key in JSON; by default everything that skops could read as a node."""
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            if key in found:
                yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _check_node(node: dict[str, Any]) -> str:
    loader, module, kind = node["__loader__"], node.get("__module__"), node.get("__class__")
    if not (isinstance(loader, str) and isinstance(module, str) and isinstance(kind, str)):
        raise UntrustedFileError("the parts of the model are damaged: a node has no type.")
    name = f"{module}.{kind}"
    if "." in kind or name not in allowed_types().get(loader, ()):
        raise UntrustedFileError(f"it holds {name} (as {loader}), which is not on the list of allowed types.")
    if loader == "DefaultDictNode" and node["content"]["default_factory"].get("__loader__") != "TypeNode":
        raise UntrustedFileError("it holds a dictionary that calls something.")
    if loader == "PartialNode" and node["content"]["func"].get("__loader__") != "FunctionNode":
        raise UntrustedFileError("it holds a function that calls something else.")
    if loader == "DictNode":
        keys = node["key_types"]
        if keys.get("__loader__") != "ListNode" or any(
            key.get("__loader__") != "TypeNode" for key in keys["content"]
        ):
            raise UntrustedFileError("it holds a dictionary whose keys call something.")
    refused = refused_node(node) if loader == "ObjectNode" else None
    if refused:
        raise UntrustedFileError(refused)
    return module.partition(".")[0]


def _check_booster(node: dict[str, Any], archive: zipfile.ZipFile, max_bytes: int) -> None:
    """Check trees of lightgbm and xgboost, whose compiled code reads them when the objects are made."""
    name = f"{node['__module__']}.{node['__class__']}"
    if name == "lightgbm.basic.Booster":
        text = plain_node(node["content"])["_handle"]
        check_memory(text.encode(), max_bytes, b" \n")
        check_lightgbm(text)
    elif name == "xgboost.core.Booster":
        data = archive.read(node["content"]["content"]["handle"]["file"])
        check_memory(data, max_bytes, b"[{SIuLldD")
        check_xgboost(data)


def _same(one: Any, other: Any) -> bool:
    """Whether two nodes describe the same object, whatever ids and files skops gave to what it holds."""
    if isinstance(one, dict) and isinstance(other, dict):
        own = one.keys() - {"__id__", "file"}
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in own)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _refused_setting(parts: list[Any]) -> str | None:
    """Why a parameter is refused, and in which step of a pipeline; None if all are allowed."""
    objects = list(reached(parts))
    for found in objects:
        refused = refused_object(found)
        if refused:
            steps = [
                pair[0]
                for pair in objects
                if isinstance(pair, tuple) and len(pair) > 1 and pair[1] is found and isinstance(pair[0], str)
            ]
            return f"in step {steps[0]!r}, {refused}" if steps else refused
    return None


def _skops() -> ModuleType:
    try:
        module = import_module("skops.io")
        version = tuple(int(number) for number in metadata.version("skops").split(".")[:2])
    except ImportError:
        raise MissingExtraError("skops", "files") from None
    if version < _OLDEST_SKOPS:
        raise MissingExtraError("skops>=0.15", "files")
    return module
