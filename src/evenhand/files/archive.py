"""The format of a model file: an archive whose every byte is covered by a checksum.

It is a ZIP archive of

* ``manifest.json``: format, versions and a description of the model
* ``model.json``: our own objects, by class and fields
* ``estimator.skops``: arrays and classifiers of other packages

Its comment, the last 64 bytes of the file, is the SHA-256 of all bytes before.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from evenhand.display.text import show
from evenhand.exceptions import InputError, UntrustedFileError

MODEL, PARTS = "model.json", "estimator.skops"
_MANIFEST = "manifest.json"
_MEMBERS = (_MANIFEST, MODEL, PARTS)
_FORMAT = "evenhand model"
_VERSION = 1
_DIGEST = 64
_DATE = (1980, 1, 1, 0, 0, 0)
_OBJECT, _CHARACTER, _ENTRY = 150, 4, 1000
"""Most bytes that a parsed value, a character and the entry of a member take in memory, or nearly so."""


def pack(description: dict[str, Any], members: dict[str, bytes]) -> bytes:
    """The content of a model file.

    Parameters
    ----------
    description : dict
        Of the model, for the manifest.
    members : dict
        Content by name.

    Returns
    -------
    bytes
    """
    manifest = {"format": _FORMAT, "format_version": _VERSION, **description}
    text = json.dumps(manifest, allow_nan=False, indent=1)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {_MANIFEST: text.encode(), **members}.items():
            entry = zipfile.ZipInfo(name, _DATE)  # the same model gives the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
        archive.comment = b"0" * _DIGEST
    packed = buffer.getvalue()[:-_DIGEST]
    return packed + hashlib.sha256(packed).hexdigest().encode()


def unpack(path: Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members of a file, after all checks that do not depend on their meaning.

    Parameters
    ----------
    path : Path
    max_bytes : int
        A file is refused if it is larger, packed or unpacked, or if parsing one of its texts takes more.

    Returns
    -------
    manifest, members
    """
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise InputError(f"{str(path)!r} is not a file that can be read.")
    if path.stat().st_size > max_bytes:
        raise UntrustedFileError(f"it has more than {max_bytes:,} bytes; raise max_bytes if you trust it.")
    data = path.read_bytes()
    if not data.startswith(b"PK"):
        raise UntrustedFileError("it is not an evenhand model.")
    try:
        with opened(data, max_bytes) as archive:
            _check_entries(archive, max_bytes)
            if hashlib.sha256(data[:-_DIGEST]).hexdigest().encode() != archive.comment:
                raise UntrustedFileError("its checksum is wrong: it was altered or damaged.")
            members = {}
            for entry in archive.infolist():
                # ZipFile.read would unpack more than the size that is told.
                with archive.open(entry) as stream:
                    members[entry.filename] = stream.read(entry.file_size)
    except UntrustedFileError:
        raise
    except Exception:  # zipfile and zlib raise many kinds for damaged bytes
        raise UntrustedFileError("it was cut off or damaged.") from None
    for name in members.keys() - {PARTS}:
        check_memory(members[name], max_bytes)
    manifest = read_json(members.pop(_MANIFEST), _MANIFEST)
    _check_manifest(manifest)
    return manifest, members


def opened(data: bytes, max_bytes: int) -> zipfile.ZipFile:
    """The archive in `data`; one with too many members is refused before they are listed."""
    if _ENTRY * data.count(b"PK\x01\x02") > max_bytes:
        raise _too_large(max_bytes)
    return zipfile.ZipFile(io.BytesIO(data))


def check_memory(text: bytes, max_bytes: int, marks: bytes = b"[{,") -> None:
    """Refuse text that would take more than `max_bytes` when parsed, before it is.

    Parameters
    ----------
    text : bytes
    max_bytes : int
    marks : bytes, default=b"[{,"
        Characters that begin or separate objects: each object but the first has its own. Default: JSON's.
    """
    objects = sum(text.count(mark) for mark in marks)
    if _CHARACTER * len(text) + _OBJECT * objects > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> UntrustedFileError:
    return UntrustedFileError(
        f"it would unpack to more than {max_bytes:,} bytes; raise max_bytes if you trust it."
    )


def _check_entries(archive: zipfile.ZipFile, max_bytes: int) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if sorted(names) != sorted(_MEMBERS):
        found = ", ".join(show(name)[:40] for name in names[:4])
        raise UntrustedFileError(f"it holds {found or 'nothing'}, and a model {', '.join(_MEMBERS)}.")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise UntrustedFileError("it is not packed as evenhand packs files.")
    if sum(entry.file_size for entry in entries) > max_bytes:
        raise _too_large(max_bytes)


def _check_manifest(manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise UntrustedFileError("it is not an evenhand model.")
    version = manifest.get("format_version")
    if type(version) is not int or version < 1:
        raise UntrustedFileError(f"its format version is {version!r}, which does not exist.")
    if version > _VERSION:
        versions = manifest.get("versions")
        writer = versions.get("evenhand") if isinstance(versions, dict) else "of a later version"
        raise UntrustedFileError(
            f"it has format version {version}, and this evenhand reads only version {_VERSION}: it needs "
            f"evenhand {show(str(writer))[:20]} or newer."
        )


def read_json(data: bytes, name: str) -> Any:
    """Parsed JSON; broken or too deeply nested text is refused."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UntrustedFileError(f"its {name} cannot be read.") from None
