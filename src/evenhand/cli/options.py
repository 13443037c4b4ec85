"""Options that commands share, and what is refused before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from evenhand.cli.rows import as_value, divided, examples, to_judge_on, two_labels
from evenhand.exceptions import InputError

__all__ = [
    "Comparison",
    "Flag",
    "Json",
    "Learning",
    "Manner",
    "Names",
    "Tolerance",
    "check_confidence",
    "check_paths",
    "names_in",
    "requirement",
]

Names = Annotated[tuple[str, ...], Parameter(negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

_NOTIONS = {
    "demographic-parity": "DemographicParity",
    "equal-opportunity": "EqualOpportunity",
    "predictive-equality": "PredictiveEquality",
    "accuracy-parity": "AccuracyParity",
    "equalized-odds": "EqualizedOdds",
}
NotionName = Literal[
    "demographic-parity", "equal-opportunity", "predictive-equality", "accuracy-parity", "equalized-odds"
]
_SHARE = 0.25


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How groups are compared."""

    notion: Annotated[tuple[NotionName, ...], Parameter(consume_multiple=True, negative="")] = (
        "demographic-parity",
    )
    """What is asked for; several may be given."""

    groups: Literal["intersectional", "independent"] = "intersectional"
    """Compare every combination of sensitive values, or each feature by itself."""

    missing: Literal["error", "own-group"] = "error"
    """What a missing sensitive value does: it is refused, or makes a group of its own."""

    @property
    def policy(self) -> str:
        """For missing values, as the library calls it."""
        return self.missing.replace("-", "_")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far groups may be apart: one of two measures."""

    difference: float | None = None
    """Largest difference allowed between a group and everyone."""

    ratio: float | None = None
    """Smallest ratio allowed; 0.8, say."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Learning:
    """What is learned from, and what is judged on."""

    target: str
    """Column of labels."""

    sensitive: Names
    """Columns of sensitive features, with commas between them, or the option several times."""

    positive: str | None = None
    """The positive label; by default the one that sorts last."""

    method: Literal["post", "in"] = "post"
    """Post-processing, or training with costs."""

    test: Path | None = None
    """File to judge on."""

    test_share: float | None = None
    """Share of the rows to judge on, without such a file; by default a quarter."""

    def check(self, table: Path) -> None:
        """Refuse what cannot go together, and columns that the files do not have."""
        if self.test is not None and self.test_share is not None:
            raise InputError("give --test or --test-share, not both.")
        if self.test_share is not None and not 0 < self.test_share < 1:
            raise InputError(f"--test-share should be between 0 and 1, but is {self.test_share}.")
        files = import_module("evenhand.files")
        there = files.columns_in(table)
        features = names_in(self.sensitive, there)
        if self.target in features:
            raise InputError(f"{self.target!r} is both --target and --sensitive.")
        files.refuse_strange(table, [self.target, *features], there)
        if self.test is not None:
            files.refuse_strange(self.test, [self.target, *features, *there], files.columns_in(self.test))

    def parts(self, table: Path) -> list[tuple[Any, Any]]:
        """Read the rows to learn from and the rows to judge on."""
        X, y = examples(table, self.target)
        two_labels(table, y, self.positive)
        if self.test is not None:
            return [(X, y), to_judge_on(self.test, self.target, table=table, X=X, y=y)]
        return divided(X, y, self.share)

    @property
    def share(self) -> float:
        """Of the rows to judge on."""
        return self.test_share or _SHARE

    def classifier(self, X: Any, y: Any, **settings: Any) -> Any:
        """Make the classifier that is asked for, not fitted yet."""
        rooms = import_module("evenhand")
        kind = rooms.FairPostprocessor if self.method == "post" else rooms.FairInprocessor
        return kind(
            sensitive_features=names_in(self.sensitive, X.columns),
            pos_label=None if self.positive is None else as_value(y, self.positive),
            verbose=True,
            **settings,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a command runs."""

    config: Path | None = None
    """TOML file of options, with a table for each command. Options of the call win."""

    as_json: Json = False
    """Print JSON instead of text."""

    force: Flag = False
    """Overwrite outputs that are there."""


def requirement(compared: Comparison, tolerance: Tolerance) -> Any:
    """Put together what is asked for; None if no tolerance is given."""
    if tolerance.difference is not None and tolerance.ratio is not None:
        raise InputError("give --difference or --ratio, not both.")
    if tolerance.difference is None and tolerance.ratio is None:
        return None
    rooms = import_module("evenhand.notions")
    asked: Any = None
    for name in dict.fromkeys(compared.notion):
        notion = getattr(rooms, _NOTIONS[name])
        one = notion(difference=tolerance.difference, ratio=tolerance.ratio, groups=compared.groups)
        asked = one if asked is None else asked & one
    return asked


def names_in(texts: Sequence[str], there: Sequence[str]) -> list[str]:
    """Read names of columns, with commas between them unless a column is called so."""
    parts = [part for text in texts for part in ([text] if text in there else text.split(","))]
    names = [part if part in there else part.strip() for part in parts if part.strip()]
    if not names:
        raise InputError("--sensitive should name columns, with commas between them.")
    return list(dict.fromkeys(names))


def check_confidence(confidence: float | None) -> None:
    """Refuse a confidence that is none."""
    if confidence is not None and not 0 < confidence < 1:
        raise InputError(f"--confidence should be between 0 and 1, but is {confidence}.")


def check_paths(inputs: Sequence[Path | None], outputs: Sequence[Path | None], *, force: bool) -> None:
    """Refuse outputs that are there, cannot be written, or are an input or another output."""
    files = import_module("evenhand.files")
    wanted = [path for path in outputs if path is not None]
    for k, path in enumerate(wanted):
        if any(_same(path, other) for other in inputs if other is not None):
            raise InputError(f"{path} is read as well, and is not overwritten: choose another output.")
        if any(_same(path, other) for other in wanted[:k]):
            raise InputError(f"{path} is named twice: an output needs a file of its own.")
        files.refuse_existing(path, force=force)


def _same(path: Path, other: Path) -> bool:
    """Whether two names are of one file, also by links."""
    both = path.exists() and other.exists()
    return path.samefile(other) if both else path.resolve() == other.resolve()
