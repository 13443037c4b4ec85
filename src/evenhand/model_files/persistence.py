"""Fitted models in files: one file, no code in it, and nothing is made before everything is checked."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evenhand._atomic import written_at_once
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import InputError, UntrustedFileError, VersionWarning, reason
from evenhand.inputs.fingerprint import ANOTHER_ORDER, digest_of, unordered_digest
from evenhand.model_files.allowlist import dump_parts, inspect_parts, load_parts
from evenhand.model_files.archive import MODEL, PARTS, RULE, pack, read_json, unpack
from evenhand.model_files.encoding import MODELS, decode_model, encode_model
from evenhand.model_files.recertify import Proof, prove
from evenhand.optimum.rule import Rule

__all__ = ["FileReport", "Source", "load", "save", "verify"]

_MOST_BYTES = 1 << 30
_PACKAGES = ("numpy", "scipy", "scikit-learn", "skops", "xgboost", "lightgbm")
_ONLY_IF_USED = {"xgboost", "lightgbm"}


@dataclass(frozen=True)
class Source:
    """The file that a model was learned from.

    Attributes
    ----------
    file : str
        Its name, without folders.
    target : str
        The column of labels; all others but those left out are features.
    test_share : float or None
        The share of its rows that were set aside; None if all were learned from.
    rows : int or None
        How many it has.
    labels : str or None
        Digest of the column of labels: which rows are set aside hangs on it.
    left_out : tuple of str
        Columns that were not learned from.
    id : str or None
        One of them by which people are known, for randomised decisions.
    unordered : str or None
        Digest of all of its rows, whatever their order.
    """

    file: str
    target: str
    test_share: float | None
    rows: int | None = None
    labels: str | None = None
    left_out: tuple[str, ...] = ()
    id: str | None = None
    unordered: str | None = None

    def difference(self, rows: Any) -> str | None:
        """Say in what the rows of another file differ from those of this one; None if labels are the same."""
        if self.rows is not None and len(rows) != self.rows:
            return f"these are not the rows of the fit: there are {len(rows):,} of them and not {self.rows:,}"
        if self.labels is None or digest_of(rows.get_column(self.target)) == self.labels:
            return None
        if unordered_digest(rows) == self.unordered:
            return ANOTHER_ORDER
        return "these are not the rows of the fit: their labels differ"


@dataclass(frozen=True)
class FileReport:
    """What a model file says of itself, and whether it can be trusted to be what was written.

    Attributes
    ----------
    ok : bool
        Whether it is complete, unaltered, of a format that can be read, and holds only what is allowed.
    problem : str or None
        What is wrong otherwise.
    format_version : int or None
    model : str or None
        The class of the model.
    requirement, promise : str or None
        What it was fitted for, and what was promised.
    versions : dict
        Of the packages that it was written with.
    differences : dict
        By package, the version in the file and the one installed (None if it is not), where they differ.
    members : dict
        Sizes of what the file holds, in bytes.
    source : Source or None
        The file that it was learned from, as ``evenhand fit`` notes it.
    proof : Proof or None
        Of the certificate, where the data were given: ``proof.confirmed`` and ``proof.verdict``.
    """

    ok: bool
    problem: str | None = None
    format_version: int | None = None
    model: str | None = None
    requirement: str | None = None
    promise: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    differences: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    source: Source | None = None
    proof: Proof | None = None


def save(
    model: FairClassifier,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    source: Source | None = None,
) -> None:
    """Write a fitted model to one file.

    The file appears complete or not at all. It holds no code: neither functions nor classes of your own.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
        Fitted. Inner classifiers are those of scikit-learn, xgboost or lightgbm.
    path : str or path
    overwrite : bool
        Whether a file that is there may be replaced.
    source : Source, optional
        What the model was learned from, if that is a file: ``evenhand fit`` notes it, to find the rows again.

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
            f"only a FairPostprocessor or FairInprocessor can be saved, and this is a {type(model).__name__}."
        )
    if not model.__sklearn_is_fitted__():
        raise InputError(f"this {type(model).__name__} is not fitted yet: call fit before save.")
    _refuse_existing(target, overwrite=overwrite)
    data = _packed(model, source)
    with written_at_once(target) as unfinished:
        unfinished.write_bytes(data)
        _refuse_existing(target, overwrite=overwrite)


def load(path: str | os.PathLike[str], *, max_bytes: int = _MOST_BYTES) -> Any:
    """Read a model that :func:`save` wrote.

    With the same versions of packages its decisions and their probabilities are those of the model that was
    saved, also on another processor; there the last bits of ``decision_function`` may differ. Other versions
    are told by a warning.

    Parameters
    ----------
    path : str or path
    max_bytes : int
        A file is refused if it, or what is packed in it, is larger.

    Returns
    -------
    FairPostprocessor or FairInprocessor

    Raises
    ------
    UntrustedFileError
        If the file is damaged, altered, of a newer format, or holds anything that is not on the list.

    Examples
    --------
    See :func:`save`.
    """
    with _told(path):
        manifest, members = _unpacked(Path(path), max_bytes)
        content = _read_model(manifest, members)
        _warn_of(path, _differences(manifest["versions"]))
        model = _made(manifest, content, members)
    model._file, model._source = Path(path).name, _read_source(manifest.get("source"))
    return model


def verify(
    path: str | os.PathLike[str],
    *,
    data: tuple[Any, Any] | None = None,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    max_bytes: int = _MOST_BYTES,
) -> FileReport:
    """Check a file without making anything that it holds; with the data, compute its certificate anew.

    With `data` the model is made, after all checks, posteriors are learned again as in fit, and the risk of
    the stored rule and the bound of the stored multipliers are computed from them, apart from the solver.
    That takes as long as learning the posteriors did.

    Parameters
    ----------
    path : str or path
    data : pair (X, y), optional
        The rows that the model was fitted to.
    sensitive_features, sample_weight
        As they were passed to fit.
    max_bytes : int
        A file is refused if it, or what is packed in it, is larger.

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
        with _told(path):
            manifest, members = _unpacked(Path(path), max_bytes)
            content = _read_model(manifest, members)
            _read_rule(members)
            inspect_parts(members[PARTS])
            model = None if data is None else _made(manifest, content, members)
    except UntrustedFileError as error:
        return FileReport(ok=False, problem=str(error))
    differences = _differences(manifest["versions"])
    _warn_of(path, differences)
    return FileReport(
        ok=True,
        format_version=manifest["format_version"],
        model=manifest["model"],
        requirement=manifest["requirement"],
        promise=manifest.get("promise"),
        versions=manifest["versions"],
        differences=differences,
        members={name: len(content) for name, content in members.items()},
        source=_read_source(manifest.get("source")),
        proof=None
        if model is None or data is None
        else prove(model, *data, sensitive_features, sample_weight),
    )


# Writing


def _packed(model: FairClassifier, source: Source | None) -> bytes:
    content, parts = encode_model(model)
    members = {MODEL: json.dumps(content, allow_nan=False, indent=1).encode(), PARTS: dump_parts(parts)}
    rule = getattr(model, "rule_", None)
    if rule is not None:
        members[RULE] = rule.to_json().encode()
    unused = _ONLY_IF_USED - inspect_parts(members[PARTS])
    versions = {name: found for name, found in _installed().items() if name not in unused}
    noted = None if source is None else asdict(source)
    return pack({"versions": versions, **_described(model), "source": noted}, members)


def _described(model: FairClassifier) -> dict[str, Any]:
    certificate = getattr(model, "certificate_", None)
    promise = getattr(model, "promise_", None)
    return {
        "model": type(model).__name__,
        "requirement": repr(model.constraint),
        "classes": [str(label) for label in model.classes_.tolist()],
        "positive": str(model.classes_[model.classes_.tolist().index(model.pos_label_)]),
        "groups": [str(name) for name in model.groups_.names],
        "certificate": certificate
        and {name: repr(float(value)) for name, value in vars(certificate).items()},
        "promise": None if promise is None else str(promise),
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
        raise InputError(
            f"there is a file {str(path)!r} already: choose another name or pass overwrite=True."
        )
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: give the name of a file.")
    if path.exists() and not path.is_file():  # a device, which a rename would replace
        raise InputError(f"{str(path)!r} is not a file that can be written: choose another name.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r}: make it first.")


# Reading


def _unpacked(path: Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Give the manifest and the members of a file, if the manifest tells what it should."""
    manifest, members = unpack(path, max_bytes)
    versions = manifest.get("versions")
    proper = isinstance(versions, dict) and all(isinstance(found, str) for found in versions.values())
    texts = [manifest.get("model"), manifest.get("requirement"), manifest.get("promise", "") or ""]
    if not proper or not all(isinstance(text, str) for text in texts) or manifest["model"] not in MODELS:
        raise UntrustedFileError("its manifest is not one that evenhand writes.")
    _read_source(manifest.get("source"))
    return manifest, members


def _read_source(told: Any) -> Source | None:
    if told is None:
        return None
    try:
        source = Source(**{**told, "left_out": tuple(told.get("left_out", ()))})
    except (TypeError, AttributeError):
        source = Source("", "", math.nan)
    share = source.test_share
    named = isinstance(source.file, str) and isinstance(source.target, str)
    named = named and isinstance(source.rows, int | None) and isinstance(source.labels, str | None)
    named = named and isinstance(source.id, str | None) and isinstance(source.unordered, str | None)
    named = named and all(isinstance(name, str) for name in source.left_out)
    if not named or not (share is None or (isinstance(share, float) and 0 < share < 1)):
        raise UntrustedFileError("its manifest is not one that evenhand writes.")
    return source


def _read_model(manifest: dict[str, Any], members: dict[str, bytes]) -> dict[str, Any]:
    content = read_json(members[MODEL], MODEL)
    if not isinstance(content, dict) or content.get("model") != manifest["model"]:
        raise UntrustedFileError("the model is not the one that the manifest tells of.")
    return content


def _made(manifest: dict[str, Any], content: Any, members: dict[str, bytes]) -> FairClassifier:
    model = decode_model(content, load_parts(members[PARTS]), _read_rule(members))
    try:
        described = _described(model)
    except Exception as error:
        raise UntrustedFileError(f"the model is damaged: {reason(error)}") from None
    same_words = manifest["versions"].get("evenhand") == _installed()["evenhand"]
    if same_words and any(manifest.get(name) != value for name, value in described.items()):
        raise UntrustedFileError("the model is not the one that the manifest tells of.")
    return model


def _read_rule(members: dict[str, bytes]) -> Rule | None:
    if RULE not in members:
        return None
    try:
        return Rule.from_json(members[RULE].decode())
    except (InputError, UnicodeDecodeError, RecursionError) as error:
        raise UntrustedFileError(f"its rule cannot be read: {error}") from None


@contextlib.contextmanager
def _told(path: str | os.PathLike[str]) -> Any:
    """Name the file in what is raised."""
    try:
        yield
    except UntrustedFileError as error:
        raise UntrustedFileError(f"{os.fspath(path)!r} is refused: {error}") from error.__cause__
    except FileNotFoundError:
        raise InputError(f"there is no file {os.fspath(path)!r}.") from None


def _differences(versions: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    here = _installed()
    return {name: (then, here.get(name)) for name, then in versions.items() if here.get(name) != then}


def _warn_of(path: str | os.PathLike[str], differences: dict[str, tuple[str, str | None]]) -> None:
    if differences:
        told = ", ".join(f"{name} {then} (here {now or 'none'})" for name, (then, now) in differences.items())
        warnings.warn(
            f"{os.fspath(path)!r} was written with {told}: its decisions may differ in rare cases.",
            VersionWarning,
            stacklevel=4,
        )
