"""Options that commands share, read and checked before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import evenhand as eh
from evenhand.cli.bands import GroupColumns, read_bands
from evenhand.cli.estimators import EstimatorName, estimator_for
from evenhand.cli.exit_codes import FailOn
from evenhand.cli.table_rows import (
    Part,
    as_value,
    groups_of_files,
    identifiers,
    read_classes,
    read_examples,
    refuse_other_labels,
    split_rows,
)
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.files.persistence import Source

Names = Annotated[tuple[str, ...], Parameter(negative="")]
Bands = Annotated[tuple[str, ...], Parameter(negative="")]
Aware = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

NotionName = Literal[
    "demographic-parity", "equal-opportunity", "predictive-equality", "accuracy-parity", "equalized-odds"
]
_TEST_SHARE = 0.25


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Required:
    """What is required of decisions: how far groups may be apart, and bounds on rates."""

    notion: Annotated[tuple[NotionName, ...], Parameter(consume_multiple=True, negative="")] = (
        "demographic-parity",
    )
    """Notion of fairness; several may be named."""

    groups: Literal["intersectional", "independent"] = "intersectional"
    """Compare every combination of sensitive values, or the groups of each feature by itself."""

    against: Literal["population", "groups"] = "population"
    """Compare a group with the population, or the lowest with the highest group: the four-fifths rule."""

    reference: Names = ()
    """The group to compare with, such as race=White,sex=Male, instead of the population; in an audit it also
    adds tests of significance, and may stand beside --against groups."""

    given: Names = ()
    """Columns of control features: groups are compared among people with the same values of these."""

    missing: Literal["error", "category", "exclude", "impute"] = "error"
    """Refuse missing sensitive values, treat them as a group, leave such rows out and count them, or (not in
    an audit) learn to impute them from the rows that have them."""

    difference: float | None = None
    """Largest difference allowed between a group and everyone."""

    ratio: float | None = None
    """Smallest ratio allowed, such as 0.8."""

    capacity: float | None = None
    """Largest share of people that can be selected, such as 0.2."""

    floor: Names = ()
    """Smallest rate, such as "true-positive rate=0.6" or "precision=0.5 in every group"; may be repeated."""

    ceiling: Names = ()
    """Largest rate, such as "false-positive rate=0.1"; may be repeated."""

    no_worse: Names = ()
    """A rate in which no group may be worse off than without any requirement; in an audit, than --before."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Learning:
    """Which rows and columns to learn from, with which method, and which rows to test on."""

    target: str
    """Column of labels."""

    sensitive: Names
    """Columns of sensitive features, separated by commas or by repeating the option."""

    aware: Aware = None
    """Let decisions use the sensitive features, or those that are named; a frontier adds a second curve."""

    bands: Bands = ()
    """Bands of a sensitive feature of numbers, by where they begin: age=25,45,65 for "under 25", "25 to 44",
    "45 to 64" and "65 and over"; may be repeated."""

    positive: str | None = None
    """The positive label; by default the one that sorts last."""

    method: Literal["post", "in"] = "post"
    """Post-processing, or cost-sensitive training (in-processing)."""

    test: Path | None = None
    """File to test on."""

    test_share: float | None = None
    """Share of the rows to test on if there is no --test file; by default 0.25."""

    estimator: EstimatorName = "trees"
    """Classifier: boosted trees that need no preprocessing, logistic regression, xgboost or lightgbm."""

    drop: Names = ()
    """Columns to leave out, separated by commas or by repeating the option."""

    id: str | None = None
    """Column that identifies rows: the key of randomised decisions, and not a feature."""

    min_group_size: int = 0
    """Pool groups with fewer rows to learn from."""

    def check(self, table: Path) -> None:
        """Raise an InputError for options that contradict each other and columns that files do not have."""
        from evenhand.cli.table_files import refuse_unknown  # noqa: PLC0415  (start-up time)
        from evenhand.data.checks import check_fraction  # noqa: PLC0415

        if self.test is not None and self.test_share is not None:
            raise InputError("pass --test or --test-share, not both.")
        if self.test_share is not None:
            check_fraction("--test-share", self.test_share)
        if self.min_group_size < 0:
            raise InputError(f"--min-group-size must be a non-negative integer, got {self.min_group_size}.")
        columns = columns_in(table)
        used = {
            "--target": [self.target],
            "--sensitive": self.features(table),
            "--id": self._key(),
            "--drop": self._dropped(columns),
        }
        option_of: dict[str, str] = {}
        for option, names in used.items():
            for name in names:
                if name in option_of:
                    raise InputError(f"{name!r} is both {option_of[name]} and {option}.")
            option_of |= dict.fromkeys(names, option)
        refuse_unknown(table, list(option_of), columns)
        if self.test is not None:
            features = [name for name in columns if name not in self.left_out(table)]
            needed = [self.target, *used["--sensitive"], *features, *self._key()]
            refuse_unknown(self.test, needed, columns_in(self.test))

    def features(self, table: Path) -> list[str]:
        """Names of the sensitive features."""
        return column_names(self.sensitive, columns_in(table))

    def usable(self, table: Path) -> bool | list[str]:
        """The sensitive features that decisions may use: all (True), none (False), or those named."""
        from evenhand.data.checks import near_names  # noqa: PLC0415  (start-up time)

        if self.aware is None or self.aware == ("False",):
            return False
        if self.aware in ((), ("True",)):  # from true in a TOML file
            return True
        sensitive = self.features(table)
        names = column_names(self.aware, sensitive, "--aware")
        for name in names:
            if name not in sensitive:
                hint = near_names(name, sensitive, "They are")
                raise InputError(f"--aware names {name!r}, which is not among the sensitive features. {hint}")
        return True if set(names) == set(sensitive) else names

    def left_out(self, table: Path) -> list[str]:
        """Columns of a file that are not features."""
        columns = columns_in(table)
        left_out = {*self._dropped(columns), *self._key(), *self._index(table)}
        return [name for name in columns if name in left_out]

    def _key(self) -> list[str]:
        return [] if self.id is None else [self.id]

    def _dropped(self, columns: Sequence[str]) -> list[str]:
        return column_names(self.drop, columns, "--drop") if self.drop else []

    def _index(self, table: Path) -> list[str]:
        """Columns that are the index of a pandas table, unless an option names them."""
        from evenhand.cli.table_files import index_columns  # noqa: PLC0415  (start-up time)

        columns = columns_in(table)
        named = [self.target, self.id, *self.features(table), *self._dropped(columns)]
        return [name for name in index_columns(table) if name not in named]

    def groups(self, table: Path, given: Sequence[str]) -> GroupColumns:
        """How columns of groups are read, in both files if there is one to test on."""
        sensitive = self.features(table)
        files = [file for file in (table, self.test) if file is not None]
        return groups_of_files(files, [*sensitive, *given], sensitive, read_bands(self.bands, sensitive))

    def source(self, table: Path, **of_rows: Any) -> Source:
        """Description of the data file, by which `verify` finds the rows of the fit again."""
        from evenhand.files.persistence import Source  # noqa: PLC0415  (start-up time)

        share, left_out = None if self.test else self.share, tuple(self.left_out(table))
        found = read_bands(self.bands, self.features(table))
        return Source(
            file=table.name,
            target=self.target,
            test_share=share,
            left_out=left_out,
            id=self.id,
            bands=found,
            **of_rows,
        )

    def parts(self, table: Path, groups: GroupColumns) -> list[Part]:
        """Read the rows to learn from and the rows to test on."""
        without = [name for name in self.left_out(table) if name != self.id]
        X, y = read_examples(table, self.target, without, groups)
        read_classes(table, y, self.positive)
        if self.test is not None:
            X_test, y_test = read_examples(self.test, self.target, groups=groups)
            refuse_other_labels(table, y, self.test, y_test)
            both = [(X, y), (X_test.select(X.columns), y_test)]
        else:
            both = split_rows(X, y, self.share)
        return [self.part(X.with_columns(y)) for X, y in both]

    def part(self, rows: Any) -> Part:
        """Features, labels and keys of some rows."""
        ids = None if self.id is None else rows.get_column(self.id)
        return Part(rows.drop(self.target, *self._key()), rows.get_column(self.target), ids)

    def notes(self, table: Path, X: Any, rows: str = "rows") -> list[str]:
        """Notes on columns that identify rows; `rows` says which ones X has."""
        index = [
            f"{repr(name) if name else 'the first column'} of {table.name} is the index of a pandas table, "
            "and is left out."
            for name in self._index(table)
        ]
        sensitive = self.features(table)
        return index + [
            f"{name!r} has a different value in each of {len(X):,} {rows}: if it only identifies them, leave "
            f"it out with --drop {name}, or make it the key of randomised decisions with --id {name}."
            for name in identifiers(X)
            if name not in sensitive
        ]

    @property
    def share(self) -> float:
        """Share of the rows to test on, without a file for them."""
        return self.test_share or _TEST_SHARE

    def classifier(
        self, X: Any, y: Any, *, missing: Any = "error", **settings: Any
    ) -> eh.FairPostprocessor | eh.FairInprocessor:
        """The fair classifier that the options describe, not fitted yet."""
        kind = eh.FairPostprocessor if self.method == "post" else eh.FairInprocessor
        sensitive = column_names(self.sensitive, X.columns)
        return kind(
            estimator_for(self.estimator, X.drop(sensitive)),  # those it may use are added as 0 and 1
            sensitive_features=sensitive,
            groups=eh.GroupPolicy(missing, min_size=self.min_group_size),
            pos_label=None if self.positive is None else as_value(y, self.positive),
            verbose=True,
            **settings,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Batches:
    """How a large file is read."""

    max_samples: int = 1_000_000
    """Largest number of rows to learn from. A file with more is read in batches, and all rows are scored."""

    scratch: Path | None = None
    """Folder for the posteriors of such a file: a fit that was interrupted continues from there. By default a
    temporary folder."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BiasAudit:
    """The bias-audit tables of New York City's Local Law 144."""

    format: Literal["text", "ll144"] = "text"
    """Print the audit, or the tables of Local Law 144: selection or scoring rates, and impact ratios."""

    csv: Path | None = None
    """CSV file for these tables."""

    data_date: str | None = None
    """Date of the data, printed below the tables."""

    data_source: str | None = None
    """Source of the data, printed below the tables."""

    def check(self) -> None:
        """Raise an InputError for options that only the tables have."""
        given = {"--csv": self.csv, "--data-date": self.data_date, "--data-source": self.data_source}
        for option, value in given.items():
            if value is not None and self.format != "ll144":
                raise InputError(f"{option} is for the tables of --format ll144.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Gate:
    """What fails, in a pipeline."""

    fail_on: FailOn | None = None
    """Fail only if a requirement is violated, or also if the evidence is insufficient; by default both."""

    junit: Path | None = None
    """JUnit XML file with a test case for each requirement and each of its groups, and for each flag of the
    tests beside --reference."""

    def check(self, constraint: Any, *, tested: bool = False) -> None:
        """Raise an InputError for a gate that nothing can fail; tests of significance have flags."""
        for option, value in (("--fail-on", self.fail_on), ("--junit", None if tested else self.junit)):
            if value is not None and constraint is None:
                raise InputError(
                    f"{option} needs something that can fail: pass a tolerance, such as --ratio 0.8 "
                    "--against groups for the four-fifths rule, or a bound such as --capacity 0.2."
                )

    @property
    def fails_on(self) -> FailOn:
        """What fails."""
        return self.fail_on or "insufficient"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a command runs."""

    config: Path | None = None
    """TOML file of options, with a table for each command. Options of the call take precedence."""

    as_json: Json = False
    """Print JSON instead of text."""

    force: Flag = False
    """Overwrite outputs that exist."""


def control_names(required: Required, table: Path | None) -> list[str]:
    """Names of the control features."""
    from evenhand.cli.table_files import refuse_unknown  # noqa: PLC0415  (start-up time)

    if table is None or not required.given:
        return []
    columns = columns_in(table)
    names = column_names(required.given, columns, "--given")
    refuse_unknown(table, names, columns)
    return names


def columns_in(table: Path) -> list[str]:
    """Names of a file's columns."""
    from evenhand.cli.table_files import columns_in as read  # noqa: PLC0415  (start-up time)

    return read(table)


def column_names(texts: Sequence[str], columns: Sequence[str], option: str = "--sensitive") -> list[str]:
    """Read names of columns separated by commas; a name in `columns` may itself hold a comma."""
    parts = [part for text in texts for part in ([text] if text in columns else text.split(","))]
    names = [part if part in columns else part.strip() for part in parts if part.strip()]
    if not names:
        raise InputError(f"{option} must name columns, separated by commas.")
    return list(dict.fromkeys(names))
