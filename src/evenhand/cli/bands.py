"""Numbers that become groups: ages in bands, and columns whose numbers are codes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from evenhand.exceptions import InputError

Bands = Mapping[str, Sequence[float]]
"""By column, where each band but the first begins; nothing where numbers are codes, which become text."""
_MANY = 20
"""A column with more distinct numbers is taken for a measurement, as in the library."""


@dataclass(frozen=True)
class GroupColumns:
    """How columns of groups are read from a file: some as text, some in bands."""

    text: Sequence[str] = ()
    bands: Bands = field(default_factory=dict)

    def __call__(self, rows: pl.LazyFrame, file: str) -> pl.LazyFrame:
        """The rows with bands instead of numbers."""
        schema = rows.collect_schema() if self.bands else {}
        for name, edges in self.bands.items():
            if name not in schema:
                continue
            if not edges:
                rows = rows.with_columns(pl.col(name).cast(pl.String))
                continue
            if not schema[name].is_numeric():
                raise InputError(
                    f"--bands {name}: {name!r} of {file} holds {schema[name]}, and bands need numbers."
                )
            column = pl.col(name)
            place = pl.sum_horizontal(
                *((column >= edge).cast(pl.Int64) for edge in edges), ignore_nulls=False
            )
            known = column.is_not_null() & ~column.cast(pl.Float64).is_nan()
            names = pl.lit(pl.Series(band_names(edges)))
            rows = rows.with_columns(pl.when(known).then(names.gather(place)).alias(name))
        return rows


AS_THEY_ARE = GroupColumns()


def band_names(edges: Sequence[float]) -> list[str]:
    """Names of bands, by where each but the first begins.

    Examples
    --------
    >>> band_names([25, 45, 65])
    ['under 25', '25 to 44', '45 to 64', '65 and over']
    >>> band_names([0.5, 1])
    ['under 0.5', '0.5 to under 1', '1 and over']
    """
    whole = all(float(edge).is_integer() for edge in edges)
    between = [
        (f"{low:.12g}" if high == low + 1 else f"{low:.12g} to {high - 1:.12g}")
        if whole
        else f"{low:.12g} to under {high:.12g}"
        for low, high in itertools.pairwise(edges)
    ]
    return [f"under {edges[0]:.12g}", *between, f"{edges[-1]:.12g} and over"]


def read_bands(texts: Sequence[str], sensitive: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read ``--bands age=25,45,65``; ``age=each`` keeps every number as a group.

    Examples
    --------
    >>> read_bands(["age=25,45", "region=each"], ["age", "region"])
    {'age': (25.0, 45.0), 'region': ()}
    """
    found: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if not equals or name not in sensitive:
            raise InputError(
                f"--bands {text}: write the name of a sensitive feature and where bands begin, such as "
                f"{sensitive[0]}=25,45,65."
            )
        try:
            edges = () if numbers == "each" else tuple(float(part) for part in numbers.split(","))
        except ValueError:
            raise InputError(f"--bands {text}: bands begin at numbers, such as {name}=25,45,65.") from None
        if list(edges) != sorted(set(edges)):
            raise InputError(f"--bands {text}: numbers must increase.")
        found[name] = edges
    return found


def refuse_numbers(rows: pl.LazyFrame, names: Sequence[str], bands: Bands) -> None:
    """Raise an InputError for a column of many numbers that is not in bands."""
    schema = rows.collect_schema()
    for name in names:
        if name in bands or name not in schema or not schema[name].is_numeric():
            continue
        values = rows.select(name).drop_nulls().unique().collect(engine="streaming").height
        if values > _MANY:
            raise InputError(
                f"{name!r} has {values} different numbers, each a group of its own: pass bands, such as "
                f"--bands {name}=25,45,65 (for 'under 25', '25 to 44', '45 to 64' and '65 and over'). If "
                f"they are codes, --bands {name}=each keeps them."
            )
