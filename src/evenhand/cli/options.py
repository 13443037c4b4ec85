"""Options that commands share, read and checked before any work starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from evenhand.cli.estimators import EstimatorName
from evenhand.cli.exit_codes import FailOn
from evenhand.exceptions import InputError

Names = Annotated[tuple[str, ...], Parameter(negative="")]
Bands = Annotated[tuple[str, ...], Parameter(negative="")]
Aware = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]


def _whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """An integer as it is written; cyclopts by itself takes 2.7 for 3."""
    if re.fullmatch(r"[+-]?\d+", tokens[0].value) is None:
        raise ValueError(f"must be an integer, got {tokens[0].value}.")
    return int(tokens[0].value)


Integer = Annotated[int, Parameter(converter=_whole_number)]

NotionName = Literal[
    "demographic-parity", "equal-opportunity", "predictive-equality", "accuracy-parity", "equalized-odds"
]


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
    """Classifier: boosted trees that need no preprocessing, or logistic regression."""

    drop: Names = ()
    """Columns to leave out, separated by commas or by repeating the option."""

    id: str | None = None
    """Column that identifies rows: the key of randomised decisions, and not a feature."""

    min_group_size: Integer = 0
    """Pool groups with fewer rows to learn from."""


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
