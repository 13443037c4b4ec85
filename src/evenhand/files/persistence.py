"""Saving, loading and verifying fitted models. A file is checked completely before any object is made."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evenhand._atomic import written_at_once
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import (
    EvenhandError,
    InputError,
    UntrustedFileError,
    VersionWarning,
    reason,
    warn_user,
)
from evenhand.files.archive import MODEL, PARTS, pack, read_json, unpack
from evenhand.files.encoding import MODELS, decode_model, encode_model
from evenhand.files.hardening.inspection import inspect_parts, nodes
from evenhand.files.parts import dump_parts, load_parts
from evenhand.files.recertify import Proof, prove

__all__ = ["FileReport", "Source", "load", "save", "verify"]

_MOST_BYTES = 1 << 30
_PACKAGES = ("numpy", "scipy", "scikit-learn", "skops", "xgboost", "lightgbm")
_ONLY_IF_USED = {"xgboost", "lightgbm"}


def save(
    model: FairClassifier,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    trusted: Collection[str] = (),
    source: Source | None = None,
) -> None:
    """Write a fitted model to one file.

    The file is written completely or not at all. It holds no code; of functions and classes of your own it
    holds the names.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
        Fitted, with classifiers from scikit-learn (except nearest neighbours, kernel machines and searches),
        xgboost or lightgbm, or `trusted` ones.
    path : str or path
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    trusted : collection of str, default=()
        Full names of your own classes and functions in the model, such as ``"mybank.features.Ratios"``. They
        are imported again by `load`, which must be told the same names.
    source : Source, default=None
        The data file that the model was fitted to. ``evenhand fit`` notes it, to find the rows again.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> drawn = eh.datasets.GaussianProblem.random(seed=0).sample(500, seed=0)
    >>> fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.1))
    >>> fair = fair.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fair.evenhand"
    >>> eh.save(fair, path)
    >>> eh.verify(path).ok
    True
    >>> bool((eh.load(path).predict(drawn.X) == fair.predict(drawn.X)).all())
    True
    """
    target = Path(path)
    if type(model) not in MODELS.values():
        raise InputError(
            f"only a FairPostprocessor or FairInprocessor can be saved; this is a {type(model).__name__}."
        )
    if not model.__sklearn_is_fitted__():
        raise InputError(f"this {type(model).__name__} is not fitted yet: call fit before save.")
    _refuse_existing(target, overwrite=overwrite)
    data = _packed(model, source, trusted)
    with written_at_once(target) as unfinished:
        unfinished.write_bytes(data)
        _refuse_existing(target, overwrite=overwrite)


def load(path: str | os.PathLike[str], *, trusted: Collection[str] = (), max_bytes: int = _MOST_BYTES) -> Any:
    """Load a model that :func:`save` wrote.

    With the same package versions, decisions and their probabilities are those of the saved model. On another
    processor the last bits of ``decision_function`` may differ. A warning names other versions.

    Parameters
    ----------
    path : str or path
    trusted : collection of str, default=()
        Full names of your own classes and functions that the file may use; all of them are imported, and run
        whatever the file passes to them. Never take these names from the file.
    max_bytes : int, default=2**30
        A file is refused if it is larger, packed or unpacked; reading takes a few times as much memory.

    Returns
    -------
    FairPostprocessor or FairInprocessor

    Raises
    ------
    UntrustedFileError
        If the file is damaged, altered, in a newer format, or holds anything that is not allowed.

    Examples
    --------
    See :func:`save`.
    """
    with _naming(path):
        manifest, members = _unpacked(Path(path), max_bytes)
        content = _read_model(manifest, members)
        _warn_about(path, _differences(manifest["versions"]))
        model = _made(manifest, content, members, max_bytes, trusted)
    model._file, model._source = Path(path).name, read_source(manifest.get("source"))
    return model


def verify(
    path: str | os.PathLike[str],
    *,
    data: tuple[Any, Any] | None = None,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    trusted: Collection[str] = (),
    max_bytes: int = _MOST_BYTES,
) -> FileReport:
    """Check a file without making any object from it; with the data, also recompute its certificate.

    With `data`, the model is loaded after all checks and its posteriors are learned again as in ``fit``. From
    them the risk of the stored rule and the bound of the stored multipliers are computed without the solver.
    That takes as long as learning the posteriors took.

    Parameters
    ----------
    path : str or path
    data : pair (X, y), default=None
        The rows that the model was fitted to.
    sensitive_features, sample_weight : default=None
        As passed to ``fit``.
    trusted : collection of str, default=()
        As in :func:`load`; without `data` nothing is imported.
    max_bytes : int, default=2**30
        A file is refused if it is larger, packed or unpacked; reading takes a few times as much memory.

    Returns
    -------
    FileReport

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.evenhand"
    >>> size = path.write_text("not a model")
    >>> verify(path).ok
    False
    """
    try:
        with _naming(path):
            manifest, members = _unpacked(Path(path), max_bytes)
            content = _read_model(manifest, members)
            inspect_parts(members[PARTS], max_bytes, trusted)
            model = None if data is None else _made(manifest, content, members, max_bytes, trusted)
    except UntrustedFileError as error:
        return FileReport(ok=False, problem=str(error))
    differences = _differences(manifest["versions"])
    _warn_about(path, differences)
    return FileReport(
        ok=True,
        model=manifest["model"],
        requirement=manifest["requirement"],
        guarantee=manifest.get("guarantee"),
        versions=manifest["versions"],
        differences=differences,
        source=read_source(manifest.get("source")),
        proof=None
        if model is None or data is None
        else _proof(path, model, (*data, sensitive_features, sample_weight)),
    )


def _proof(path: str | os.PathLike[str], model: FairClassifier, given: Sequence[Any]) -> Proof:
    """The proof; errors of other packages name the file."""
    try:
        return prove(model, *given)
    except EvenhandError:
        raise
    except Exception as error:
        raise InputError(f"the proof of {os.fspath(path)!r} cannot be computed: {reason(error)}") from error


# Writing


def _packed(model: FairClassifier, source: Source | None, trusted: Collection[str]) -> bytes:
    content, parts = encode_model(model, trusted)
    packed, packages, needed = dump_parts(parts, trusted)
    members = {MODEL: json.dumps(content, allow_nan=False, indent=1).encode(), PARTS: packed}
    unused = _ONLY_IF_USED - packages
    versions = {name: found for name, found in _installed().items() if name not in unused}
    noted = None if source is None else asdict(source)
    described = {"versions": versions, **_described(model), "source": noted, "trusted": sorted(needed)}
    return pack(described, members)


def _described(model: FairClassifier) -> dict[str, Any]:
    certificate, guarantee = (getattr(model, name, None) for name in ("certificate_", "guarantee_"))
    labels = model.classes_.tolist()
    return {
        "model": type(model).__name__,
        "requirement": repr(model.constraint),
        "classes": [str(label) for label in labels],
        "positive": str(model.classes_[labels.index(model.pos_label_)] if len(labels) == 2 else None),
        "groups": [str(name) for name in model.groups_.names],
        "certificate": repr(certificate),
        "guarantee": None if guarantee is None else str(guarantee),
    }


def _installed() -> dict[str, str]:
    found = {"evenhand": sys.modules["evenhand"].__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        for package in (name, f"{name}-cpu"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(package)
    return found


def _refuse_existing(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise InputError(f"{str(path)!r} already exists; choose another name or pass overwrite=True.")
    if path.exists() and not path.is_file():  # a folder, or a device: renaming would replace it
        raise InputError(f"{str(path)!r} is not a file that can be written; choose another name.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r}; make it first.")


# Reading


def _unpacked(path: Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members of a file; the manifest has the types that evenhand writes."""
    manifest, members = unpack(path, max_bytes)
    versions = manifest.get("versions")
    proper = isinstance(versions, dict) and all(isinstance(found, str) for found in versions.values())
    texts = [manifest.get("model"), manifest.get("requirement"), manifest.get("guarantee", "") or ""]
    if not proper or not all(isinstance(text, str) for text in texts) or manifest["model"] not in MODELS:
        raise UntrustedFileError("its manifest was not written by evenhand.")
    read_source(manifest.get("source"))
    return manifest, members


def _read_model(manifest: dict[str, Any], members: dict[str, bytes]) -> dict[str, Any]:
    content = read_json(members[MODEL], MODEL)
    if not isinstance(content, dict) or content.get("model") != manifest["model"]:
        raise UntrustedFileError("the model is not the one that the manifest describes.")
    return content


def _made(
    manifest: dict[str, Any],
    content: Any,
    members: dict[str, bytes],
    max_bytes: int,
    trusted: Collection[str],
) -> FairClassifier:
    parts = load_parts(members[PARTS], max_bytes, trusted)
    lengths = [0 if hasattr(part, "__dict__") else len(str(part)) for part in parts]
    try:
        # A long text as the name of many groups would fill the memory when these are described.
        if sum(lengths[node["part"]] for node in nodes(content, "part")) > max_bytes:
            raise UntrustedFileError("the model uses a long text very often.")
        model = decode_model(content, parts)
        described = _described(model)
    except UntrustedFileError:
        raise
    except Exception as error:
        raise UntrustedFileError(f"the model is damaged: {reason(error)}") from None
    same_version = manifest["versions"].get("evenhand") == _installed()["evenhand"]
    if same_version and any(manifest.get(name) != value for name, value in described.items()):
        raise UntrustedFileError("the model is not the one that the manifest describes.")
    return model


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Any:
    """Name the file in errors."""
    try:
        yield
    except UntrustedFileError as error:
        raise UntrustedFileError(f"{os.fspath(path)!r} is refused: {error}") from error.__cause__
    except FileNotFoundError:
        raise InputError(f"there is no file {os.fspath(path)!r}.") from None


def _differences(versions: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    here = _installed()
    return {name: (then, here.get(name)) for name, then in versions.items() if here.get(name) != then}


def _warn_about(path: str | os.PathLike[str], differences: dict[str, tuple[str, str | None]]) -> None:
    if differences:
        versions = ", ".join(
            f"{name} {then} (here {now or 'none'})" for name, (then, now) in differences.items()
        )
        warn_user(
            f"{os.fspath(path)!r} was written with {versions}: decisions may differ in rare cases.",
            VersionWarning,
        )


@dataclass(frozen=True)
class Source:
    """The data file that a model was fitted to.

    Attributes
    ----------
    file : str
        Name without folders.
    target : str
        The column of labels. All others are features, except those left out.
    test_share : float or None
        Fraction of rows held out for testing, by their numbers; None if the model was fitted to all rows.
    left_out : tuple of str
        Columns that are not features.
    id : str or None
        The one of these that identifies people, for randomised decisions.
    bands : mapping
        Sensitive features whose numbers became bands: where each band but the first begins; nothing where
        they are codes.
    """

    file: str
    target: str
    test_share: float | None
    left_out: tuple[str, ...] = ()
    id: str | None = None
    bands: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class FileReport:
    """Whether a model file can be trusted, and what it says about itself.

    Attributes
    ----------
    ok : bool
        Whether it is complete, unaltered, in a readable format, and holds only allowed types.
    problem : str or None
        What is wrong, if it is not ok.
    model : str or None
        Class of the model.
    requirement, guarantee : str or None
        What the model was fitted for, and what it guarantees.
    versions : dict
        Versions of the packages that wrote it.
    differences : dict
        By package, the version in the file and the installed one (None if missing), where they differ.
    source : Source or None
        The data file, as noted by ``evenhand fit``.
    proof : Proof or None
        The recomputed certificate, if `verify` got the data.
    """

    ok: bool
    problem: str | None = None
    model: str | None = None
    requirement: str | None = None
    guarantee: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    differences: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    source: Source | None = None
    proof: Proof | None = None


def read_source(noted: Any) -> Source | None:
    """The source that a manifest notes; anything that evenhand does not write is refused.

    Parameters
    ----------
    noted : object

    Returns
    -------
    Source or None
    """
    if noted is None:
        return None
    try:
        source = Source(**{**noted, "left_out": tuple(noted.get("left_out", ()))})
        share, edges = source.test_share, [edge for part in source.bands.values() for edge in part]
    except (TypeError, AttributeError):
        raise UntrustedFileError("its manifest was not written by evenhand.") from None
    proper = all(isinstance(text, str) for text in (source.file, source.target, *source.left_out))
    proper &= isinstance(source.id, str | None) and all(isinstance(edge, int | float) for edge in edges)
    if not proper or not (share is None or (isinstance(share, float) and 0 < share < 1)):
        raise UntrustedFileError("its manifest was not written by evenhand.")
    return source
