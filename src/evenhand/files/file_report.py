"""What a model file says about itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenhand.data.fingerprint import ANOTHER_ORDER, digest_of, unordered_digest
from evenhand.exceptions import UntrustedFileError
from evenhand.files.recertify import Proof


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
        Fraction of rows held out for testing; None if the model was fitted to all rows.
    rows : int or None
        Number of rows.
    labels : str or None
        Digest of the column of labels, which decides which rows are held out.
    left_out : tuple of str
        Columns that are not features.
    id : str or None
        The one of these that identifies people, for randomised decisions.
    unordered : str or None
        Digest of all rows, regardless of their order.
    in_batches : bool
        Whether the file was read in batches. Held-out rows are then drawn by their number.
    bands : mapping
        Sensitive features whose numbers became bands: where each band but the first begins; nothing where
        they are codes.
    """

    file: str
    target: str
    test_share: float | None
    rows: int | None = None
    labels: str | None = None
    left_out: tuple[str, ...] = ()
    id: str | None = None
    unordered: str | None = None
    in_batches: bool = False
    bands: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def difference(self, rows: Any) -> str | None:
        """How the rows of a table differ from those of this file; None if the labels are the same."""
        if self.rows is not None and len(rows) != self.rows:
            return f"these are not the rows of the fit: there are {len(rows):,} of them and not {self.rows:,}"
        if self.labels is None or digest_of(rows.get_column(self.target)) == self.labels:
            return None
        if unordered_digest(rows) == self.unordered:
            return ANOTHER_ORDER
        return "these are not the rows of the fit: their labels differ"


@dataclass(frozen=True)
class FileReport:
    """Whether a model file can be trusted, and what it says about itself.

    Attributes
    ----------
    ok : bool
        Whether it is complete, unaltered, in a readable format, and holds only allowed types.
    problem : str or None
        What is wrong, if it is not ok.
    format_version : int or None
    model : str or None
        Class of the model.
    requirement, guarantee : str or None
        What the model was fitted for, and what it guarantees.
    versions : dict
        Versions of the packages that wrote it.
    differences : dict
        By package, the version in the file and the installed one (None if missing), where they differ.
    members : dict
        Size of each member in bytes.
    source : Source or None
        The data file, as noted by ``evenhand fit``.
    proof : Proof or None
        The recomputed certificate, if `verify` got the data.
    """

    ok: bool
    problem: str | None = None
    format_version: int | None = None
    model: str | None = None
    requirement: str | None = None
    guarantee: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    differences: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
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
    except (TypeError, AttributeError):
        source = Source("", "", math.nan)
    texts = [source.file, source.target, *source.left_out]
    optional = [source.labels, source.id, source.unordered]
    share = source.test_share
    proper = all(isinstance(text, str) for text in texts) and isinstance(source.in_batches, bool)
    proper = proper and all(isinstance(text, str | None) for text in optional)
    proper = proper and isinstance(source.rows, int | None) and _are_bands(source.bands)
    if not proper or not (share is None or (isinstance(share, float) and 0 < share < 1)):
        raise UntrustedFileError("its manifest was not written by evenhand.")
    return source


def _are_bands(bands: Any) -> bool:
    return isinstance(bands, dict) and all(
        isinstance(edges, list | tuple) and all(isinstance(edge, int | float) for edge in edges)
        for edges in bands.values()
    )
