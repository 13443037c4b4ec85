"""The form of a model file: an archive whose every byte is under a checksum, and nothing else in it.

It is a ZIP archive of

* ``manifest.json``: format, versions, what the model is, size and SHA-256 of every other member
* ``model.json``: our own objects, by class and fields
* ``rule.json``: the rule, exactly (post-processing only)
* ``estimator.skops``: arrays and classifiers of other packages

and its comment, the last 64 bytes of the file, is the SHA-256 of all bytes before.
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

__all__ = ["MODEL", "PARTS", "RULE", "pack", "read_json", "unpack"]

MODEL, RULE, PARTS = "model.json", "rule.json", "estimator.skops"
_MANIFEST = "manifest.json"
_MEMBERS = (_MANIFEST, MODEL, RULE, PARTS)
_FORMAT = "evenhand model"
_VERSION = 1
_DIGEST = 64
_DATE = (1980, 1, 1, 0, 0, 0)


def pack(told: dict[str, Any], members: dict[str, bytes]) -> bytes:
    """Put a model into one file.

    Parameters
    ----------
    told : dict
        What the manifest says of it.
    members : dict
        Content by name.

    Returns
    -------
    bytes
    """
    manifest = {"format": _FORMAT, "format_version": _VERSION, **told, "members": _sums(members)}
    text = json.dumps(manifest, allow_nan=False, indent=1)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {_MANIFEST: text.encode(), **members}.items():
            entry = zipfile.ZipInfo(name, _DATE)  # the same model gives the same archive
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
        archive.comment = b"0" * _DIGEST
    packed = buffer.getvalue()[:-_DIGEST]
    return packed + hashlib.sha256(packed).hexdigest().encode()


def unpack(path: Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Give the manifest and the members, after all checks that need no knowledge of what they mean.

    Parameters
    ----------
    path : Path
    max_bytes : int
        A file is refused if it, or what is packed in it, is larger.

    Returns
    -------
    manifest, members
    """
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: give the name of a file.")
    if path.exists() and not path.is_file():  # reading a pipe would wait for ever
        raise InputError(f"{str(path)!r} is not a file that can be read.")
    if path.stat().st_size > max_bytes:
        raise UntrustedFileError(f"it has more than {max_bytes:,} bytes; raise max_bytes if that is right.")
    data = path.read_bytes()
    if not data.startswith(b"PK"):
        raise UntrustedFileError("it is no evenhand model.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_entries(archive, max_bytes)
            if hashlib.sha256(data[:-_DIGEST]).hexdigest().encode() != archive.comment:
                raise UntrustedFileError("its checksum is wrong, so that it was altered or damaged.")
            members = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except UntrustedFileError:
        raise
    except Exception:  # zipfile and zlib raise many kinds for damaged bytes
        raise UntrustedFileError("it was cut off or damaged.") from None
    manifest = read_json(members.pop(_MANIFEST), _MANIFEST)
    _check_manifest(manifest, members)
    return manifest, members


def _check_entries(archive: zipfile.ZipFile, max_bytes: int) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    strange = [name for name in names if name not in _MEMBERS]
    if strange:
        raise UntrustedFileError(f"it holds {strange[0]!r}, which is no part of a model.")
    if len(set(names)) != len(names):
        raise UntrustedFileError("it holds a member twice.")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise UntrustedFileError("it is packed in another way than evenhand does.")
    missing = [name for name in (_MANIFEST, MODEL, PARTS) if name not in names]
    if missing:
        raise UntrustedFileError(f"it lacks {missing[0]!r}.")
    if sum(entry.file_size for entry in entries) > max_bytes:
        raise UntrustedFileError(
            f"it would unpack to more than {max_bytes:,} bytes; raise max_bytes if that is right."
        )


def _check_manifest(manifest: Any, members: dict[str, bytes]) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise UntrustedFileError("it is no evenhand model.")
    version = manifest.get("format_version")
    if type(version) is not int or version < 1:
        raise UntrustedFileError(f"its format version is {version!r}, which does not exist.")
    if version > _VERSION:
        raise UntrustedFileError(
            f"it is of format version {version}, and only {_VERSION} can be read here: it needs evenhand "
            f"{_shown(manifest)} or newer."
        )
    if manifest.get("members") != _sums(members):
        raise UntrustedFileError("the checksums of its members are wrong, so that it was altered or damaged.")


def _sums(members: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    return {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }


def _shown(manifest: dict[str, Any]) -> str:
    versions = manifest.get("versions")
    found = versions.get("evenhand") if isinstance(versions, dict) else None
    return show(found)[:20] if isinstance(found, str) else "of a later version"


def read_json(data: bytes, name: str) -> Any:
    """Read JSON, however deep it is nested or broken."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UntrustedFileError(f"its {name} cannot be read.") from None
