"""The requirement that options describe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import evenhand as eh
from evenhand.cli.bands import Bands, read_bands
from evenhand.cli.messages import in_options
from evenhand.cli.options import Learning, Required
from evenhand.cli.table_files import columns_in, refuse_unknown
from evenhand.cli.table_rows import TrainingFile, as_value, column_names, groups_of_files, scan_rows
from evenhand.exceptions import InputError

_EVERYWHERE = "in every group"


def requirement(
    required: Required, table: Path | None = None, reference: Mapping[str, Any] | None = None
) -> Any:
    """The constraint that the options describe: notions and bounds together; None if nothing is required.

    With `reference`, values of features as :func:`read_reference` finds them, notions are against that group.
    """
    if reference is not None and required.against == "groups":
        raise InputError("pass --against groups or --reference, not both.")
    against = required.against if reference is None else dict(reference)
    parts = [*_notions(required, control_names(required, table), against), *_bounds(required)]
    return reduce(and_, parts) if parts else None


def read_reference(texts: Sequence[str], features: Sequence[str], rows: Any) -> dict[str, Any] | None:
    """Values of features from "race=White,sex=Male"; a comma within a value stays."""
    named: dict[str, str] = {}
    for part in ",".join(texts).split(",") if texts else []:
        feature, equals, value = part.strip().partition("=")
        if equals:
            named[feature] = value
        elif named:
            named[[*named][-1]] += f",{part}"
        else:
            raise InputError(f"--reference must name values of features, such as race=White, got {part!r}.")
    values = {name: rows.select(name).unique().collect()[name] for name in named if name in features}
    return {
        name: as_value(values[name], text) if name in values else text for name, text in named.items()
    } or None


def in_file(required: Required, learning: Learning, table: Path) -> tuple[Any, TrainingFile]:
    """The requirement with the group that it compares with, and the file to learn from."""
    file = TrainingFile.find(table, learning, control_names(required, table))
    named = read_reference(required.reference, file.sensitive, scan_rows(table, file.sensitive, file.groups))
    return requirement(required, table, named), file


@dataclass(frozen=True)
class GroupedRows:
    """Columns of a file, as a lazy table, with the groups that its rows are in."""

    features: list[str]
    controls: list[str]
    bands: Bands
    rows: Any
    reference: dict[str, Any] | None


def read_groups(
    table: Path,
    sensitive: Sequence[str],
    bands: Sequence[str],
    required: Required,
    used: Sequence[str | None] | None = None,
) -> GroupedRows:
    """Find the columns of a file, those that are `used` and those of groups; by default all."""
    columns = columns_in(table)
    features = column_names(sensitive, columns)
    refuse_unknown(table, features, columns)
    controls = [name for name in control_names(required, table) if name not in features]
    edges = read_bands(bands, features)
    groups = groups_of_files([table], [*features, *controls], features, edges)
    chosen = columns if used is None else [*filter(None, used), *controls, *features]
    rows = scan_rows(table, chosen, groups)
    return GroupedRows(features, controls, edges, rows, read_reference(required.reference, features, rows))


def control_names(required: Required, table: Path | None) -> list[str]:
    """Names of the control features."""
    if table is None or not required.given:
        return []
    names = column_names(required.given, columns := columns_in(table), "--given")
    refuse_unknown(table, names, columns)
    return names


def _notions(required: Required, given: Sequence[str], against: Any) -> list[Any]:
    if required.difference is not None and required.ratio is not None:
        raise InputError("pass --difference or --ratio, not both.")
    if required.difference is None and required.ratio is None:
        if required.against == "groups":
            raise InputError("--against groups needs a tolerance: pass --difference or --ratio.")
        return []
    return [
        getattr(eh, name.title().replace("-", ""))(  # demographic-parity: DemographicParity
            difference=required.difference,
            ratio=required.ratio,
            groups=required.groups,
            against=against,
            given=list(given) or None,
        )
        for name in dict.fromkeys(required.notion)
    ]


def _bounds(required: Required) -> list[Any]:
    found: list[Any] = []
    if required.capacity is not None:
        if not 0 <= required.capacity <= 1:
            raise InputError(f"--capacity must be a share from 0 to 1, got {required.capacity:g}.")
        found.append(eh.RateBound("selection rate", at_most=required.capacity))
    for option, side, texts in (
        ("--floor", "at_least", required.floor),
        ("--ceiling", "at_most", required.ceiling),
    ):
        for text in texts:
            name, number, everywhere = _read_bound(option, text)
            scope = required.groups if everywhere else "population"
            with in_options({"RateBound": option}):
                found.append(eh.RateBound(name, **{side: number}, groups=scope))
    with in_options({"NoWorse": "--no-worse"}):
        return found + [eh.NoWorse(name, groups=required.groups) for name in required.no_worse]


def _read_bound(option: str, text: str) -> tuple[str, float, bool]:
    """Rate, number, and whether it is about every group: ``true-positive rate=0.6 in every group``."""
    name, given, rest = text.partition("=")
    number, *where = rest.split(maxsplit=1) or [""]
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not given or not 0 <= value <= 1 or where not in ([], [_EVERYWHERE]):
        raise InputError(
            f"{option} must be a rate and a number from 0 to 1, such as 'true-positive rate=0.6' or "
            f"'true-positive rate=0.6 {_EVERYWHERE}', got {text!r}."
        )
    return name.strip(), value, bool(where)
