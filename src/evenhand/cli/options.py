"""Options that commands share, and what is refused before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from evenhand.cli.estimators import EstimatorName, estimator_for
from evenhand.cli.rows import as_value, divided, examples, row_names, to_judge_on, two_labels
from evenhand.exceptions import InputError
from evenhand.inputs.checks import check_fraction

__all__ = [
    "Aware",
    "Comparison",
    "Flag",
    "Json",
    "Learning",
    "Names",
    "RunOptions",
    "Tolerance",
    "aware_of",
    "check_paths",
    "names_in",
    "requirement",
]

Names = Annotated[tuple[str, ...], Parameter(negative="")]
Aware = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]
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


@dataclass(frozen=True)
class Part:
    """Rows to learn from or to judge on; `ids` are what people are known by, if there is such a column."""

    X: Any
    y: Any
    ids: Any = None


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

    estimator: EstimatorName = "trees"
    """What learns: boosted trees that take tables as they are, a logistic regression, xgboost or lightgbm."""

    drop: Names = ()
    """Columns that are not learned from, with commas between them, or the option several times."""

    id: str | None = None
    """Column that people are known by: not learned from, and the key of randomised decisions."""

    min_group_size: int = 0
    """Groups of fewer rows to learn from are taken together."""

    def check(self, table: Path) -> None:
        """Refuse what cannot go together, and columns that the files do not have."""
        if self.test is not None and self.test_share is not None:
            raise InputError("give --test or --test-share, not both.")
        if self.test_share is not None:
            check_fraction("--test-share", self.test_share)
        if self.min_group_size < 0:
            raise InputError(f"--min-group-size should be 0 or more, but is {self.min_group_size}.")
        files = import_module("evenhand.cli.files")
        there = files.columns_in(table)
        used = {"--target": [self.target], "--sensitive": names_in(self.sensitive, there)}
        used |= {"--id": [] if self.id is None else [self.id], "--drop": self._dropped(there)}
        seen: dict[str, str] = {}
        for option, names in used.items():
            for name in names:
                if name in seen:
                    raise InputError(f"{name!r} is both {seen[name]} and {option}.")
            seen |= dict.fromkeys(names, option)
        files.refuse_strange(table, list(seen), there)
        if self.test is not None:
            needed = [name for name in there if name not in self.left_out(table)]
            key = [] if self.id is None else [self.id]
            needed = [self.target, *used["--sensitive"], *needed, *key]
            files.refuse_strange(self.test, needed, files.columns_in(self.test))

    def left_out(self, table: Path) -> list[str]:
        """Columns of a file that are not learned from."""
        there = import_module("evenhand.cli.files").columns_in(table)
        key = [] if self.id is None else [self.id]
        return [name for name in there if name in (*self._dropped(there), *key, *self._index(table, there))]

    def _dropped(self, there: Sequence[str]) -> list[str]:
        return names_in(self.drop, there, "--drop") if self.drop else []

    def _index(self, table: Path, there: Sequence[str]) -> list[str]:
        """Columns that are the index of a pandas table, unless the call names them."""
        named = [self.target, self.id, *names_in(self.sensitive, there), *self._dropped(there)]
        return [
            name for name in import_module("evenhand.cli.files").index_columns(table) if name not in named
        ]

    def parts(self, table: Path) -> list[Part]:
        """Read the rows to learn from and the rows to judge on."""
        without = [name for name in self.left_out(table) if name != self.id]
        X, y = examples(table, self.target, without)
        two_labels(table, y, self.positive)
        if self.test is not None:
            both = [(X, y), to_judge_on(self.test, self.target, table=table, X=X, y=y)]
        else:
            both = divided(X, y, self.share)
        if self.id is None:
            return [Part(X, y) for X, y in both]
        return [Part(X.drop(self.id), y, X.get_column(self.id)) for X, y in both]

    def notes(self, table: Path, X: Any) -> list[str]:
        """What a person should know of columns that number or name rows."""
        index = self._index(table, import_module("evenhand.cli.files").columns_in(table))
        told = [
            f"{repr(name) if name else 'the first column'} of {table.name} is the index of a pandas table, "
            "and is not learned from."
            for name in index
        ]
        named = names_in(self.sensitive, X.columns)
        return told + [
            f"{name!r} is different in every one of {len(X):,} rows: if it only names them, leave it out "
            f"with --drop {name}, or with --id {name} if people are known by it."
            for name in row_names(X)
            if name not in named
        ]

    @property
    def share(self) -> float:
        """Of the rows to judge on."""
        return self.test_share or _SHARE

    def classifier(self, X: Any, y: Any, **settings: Any) -> Any:
        """Make the classifier that is asked for, not fitted yet."""
        rooms = import_module("evenhand")
        kind = rooms.FairPostprocessor if self.method == "post" else rooms.FairInprocessor
        features = names_in(self.sensitive, X.columns)
        return kind(
            estimator_for(self.estimator, X.drop(features)),  # what may be used of them is added as 0 and 1
            sensitive_features=features,
            min_group_size=self.min_group_size,
            pos_label=None if self.positive is None else as_value(y, self.positive),
            verbose=True,
            **settings,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
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
    rooms = import_module("evenhand.fairness.notions")
    asked: Any = None
    for name in dict.fromkeys(compared.notion):
        notion = getattr(rooms, _NOTIONS[name])
        one = notion(difference=tolerance.difference, ratio=tolerance.ratio, groups=compared.groups)
        asked = one if asked is None else asked & one
    return asked


def aware_of(aware: tuple[str, ...] | None, sensitive: Sequence[str]) -> bool | list[str]:
    """Read ``--aware``, which stands by itself for all sensitive features, or names some."""
    if aware is None or aware == ("False",):
        return False
    if aware in ((), ("True",)):  # a TOML file says true
        return True
    names = names_in(aware, sensitive, "--aware")
    for name in names:
        if name not in sensitive:
            close = get_close_matches(name, sensitive, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"they are {', '.join(map(repr, sensitive))}."
            raise InputError(f"--aware names {name!r}, which is not among the sensitive features: {hint}")
    return True if set(names) == set(sensitive) else names


def names_in(texts: Sequence[str], there: Sequence[str], option: str = "--sensitive") -> list[str]:
    """Read names of columns, with commas between them unless a column is called so."""
    parts = [part for text in texts for part in ([text] if text in there else text.split(","))]
    names = [part if part in there else part.strip() for part in parts if part.strip()]
    if not names:
        raise InputError(f"{option} should name columns, with commas between them.")
    return list(dict.fromkeys(names))


def check_paths(inputs: Sequence[Path | None], outputs: Sequence[Path | None], *, force: bool) -> None:
    """Refuse outputs that are there, cannot be written, or are an input or another output."""
    files = import_module("evenhand.cli.files")
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
