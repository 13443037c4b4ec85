"""The description of a file's parts, checked before any object is made.

skops describes objects by a tree of nodes, each with a loader, a module and a class. Every node must be on
the list of types, and its parameters, trees and sizes must be allowed.
"""

from __future__ import annotations

import json
import math
import sys
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from evenhand.display.text import show
from evenhand.exceptions import InputError, UntrustedFileError, reason
from evenhand.files.archive import check_memory, opened
from evenhand.files.hardening.allowlist import allowed_types
from evenhand.files.hardening.estimator_parameters import plain_node, refused_node
from evenhand.files.hardening.trees import check_lightgbm, check_xgboost

_OLDEST_PROTOCOL = 2
"""Of skops. Older files are read by code that was not checked."""


_OF_USERS = ("ObjectNode", "FunctionNode", "TypeNode")
"""Loaders of classes and functions, which users may trust by name."""


def inspect_parts(
    data: bytes, max_bytes: int = sys.maxsize, trusted: Collection[str] = ()
) -> tuple[set[str], set[str]]:
    """Refuse parts with anything that is not on the list, without making or importing anything.

    Parameters
    ----------
    data : bytes
    max_bytes : int, default=sys.maxsize
        Parts are refused if their arrays, or the parsed schema, take more.
    trusted : collection of str, default=()
        Full names of classes and functions that are allowed besides those on the list.

    Returns
    -------
    packages, needed
        The packages that loading needs, and the trusted names that it needs.
    """
    if isinstance(trusted, str):
        raise InputError(f"trusted must be a list of full names, such as [{trusted!r}].")
    needed: set[str] = set()
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
                packages.add(_check_node(node, trusted))
                if not _is_listed(node):
                    needed.add(_full_name(node))
                _check_booster(node, archive, max_bytes)
                # skops makes one object per id: a harmless node could hide another one of the same id, and
                # lists that hold each other by their ids would grow without limit.
                first = described.setdefault(node["__id__"], node) if node.get("__id__") else node
                if first.get("file") != node.get("file") or (first is not node and not _same(first, node)):
                    raise UntrustedFileError("it holds two different objects under the same id.")
                if first is node and node.get("file") is not None:
                    size += max(members[node["file"]], _array_size(node, archive))
                if size > max_bytes:
                    raise UntrustedFileError(
                        f"its arrays have more than {max_bytes:,} bytes; raise max_bytes if you trust it."
                    )
    except UntrustedFileError:
        raise
    except Exception as error:
        raise UntrustedFileError(f"the parts of the model are damaged: {reason(error)}") from None
    return packages, needed


def _is_listed(node: dict[str, Any]) -> bool:
    return _full_name(node) in allowed_types().get(node["__loader__"], ())


def _full_name(node: dict[str, Any]) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _array_size(node: dict[str, Any], archive: zipfile.ZipFile) -> int:
    """Size of an array, which must not have more elements than bytes are there; 0 for anything else."""
    if node["__loader__"] != "NdArrayNode":
        return 0
    with archive.open(node["file"]) as stream:
        old = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, kind = read(stream)
    size, held = math.prod(shape) * max(kind.itemsize, 1), archive.getinfo(node["file"]).file_size
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


def _check_node(node: dict[str, Any], trusted: Collection[str]) -> str:
    """Refuse a node that is not allowed; the package that it needs."""
    loader, module, kind = node["__loader__"], node.get("__module__"), node.get("__class__")
    if not (isinstance(loader, str) and isinstance(module, str) and isinstance(kind, str)):
        raise UntrustedFileError("the parts of the model are damaged: a node has no type.")
    name, of_users = _full_name(node), loader in _OF_USERS
    if of_users and name in trusted and not _is_listed(node):
        return module.partition(".")[0]
    if "." in kind or not _is_listed(node):
        remedy = (
            f" If this is code of your own that you trust, pass trusted=[{show(name)!r}] to save and to load."
            if of_users
            else ""
        )
        raise UntrustedFileError(
            f"it holds {show(name)} (as {show(loader)}), which is not on the list of allowed types.{remedy}"
        )
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
        check_memory(data, max_bytes, b"[{SiUIuLldD")
        check_xgboost(data)


def _same(one: Any, other: Any) -> bool:
    """Whether two nodes describe the same object, whatever ids and files skops gave to what it holds."""
    if isinstance(one, dict) and isinstance(other, dict):
        own = one.keys() - {"__id__", "file"}
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in own)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
