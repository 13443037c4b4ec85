"""Sensitive features that are known only by probabilities, such as race by surname and address."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.columns import Level, level_order, named_columns
from evenhand.exceptions import GroupError
from evenhand.groups.groups import MAX_LEVELS, Groups
from evenhand.groups.sensitive import observed_combinations, read_columns, refuse_missing

Floats = NDArray[np.float64]

_BESIDE = "Beside a Proxy, fill these values in or drop the rows."
_SUM = 1e-3
"""How far probabilities of a row may be from a sum of 1, as rounded ones are; they are scaled to it."""


class Proxy:
    """Sensitive features, some of them known by probabilities only.

    Probabilities are those of any tool, such as race by surname and address (BISG). They must be
    calibrated: among people with a probability of 0.3, three in ten belong to the group. There is no option
    to take the most probable group for granted, because that misstates the differences between groups.

    Parameters
    ----------
    known : mapping or table, default=None
        Values of the features by proxy that are known for some rows, missing for the others: a column for
        each such feature. They check the calibration of the probabilities: a
        :class:`~evenhand.exceptions.ProxyCalibrationWarning` says where these rows contradict it. The rows
        must be a random sample of those with the same probabilities.
    **features : table, mapping, 2-D array, column, or names
        Each sensitive feature by its name. A table has the probabilities of its values, one column per value
        and named like it, and each row sums to 1; it is the proxy, and there is one. A single column has
        values that are known. In the constructor of a classifier, features are columns of X instead: names of
        several columns (or a mapping of values to names) for probabilities, one name for known values.

    Examples
    --------
    >>> import evenhand as eh
    >>> race = {"White": [0.9, 0.2, 0.6, 0.1], "Black": [0.1, 0.8, 0.4, 0.9]}
    >>> found = eh.audit(None, [1, 0, 1, 0], eh.Proxy(race=race, sex=["F", "F", "M", "M"]))
    >>> found.groups[1].group
    GroupName(features=('race',), values=('Black',))
    >>> eh.Proxy(race=["p_white", "p_black"], sex="sex")
    Proxy(race=['p_white', 'p_black'], sex='sex')
    """

    def __init__(self, *, known: Any = None, **features: Any) -> None:
        if not features:
            raise GroupError("Proxy needs a feature, such as Proxy(race=table).")
        self.known = known
        self.features = features

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  (as scikit-learn calls it)
        """The arguments, as they were given."""
        return {**self.features, **({} if self.known is None else {"known": self.known})}

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            return repr(value) if isinstance(value, str | list | dict) and _are_names(value) else "..."

        return f"Proxy({', '.join(f'{name}={shown(value)}' for name, value in self.get_params().items())})"


def _are_names(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) for name in value.values())
    return isinstance(value, str) or all(isinstance(name, str) for name in value)


@dataclass(frozen=True, eq=False)
class ProxyRows:
    """Sensitive features of rows, known or by probabilities.

    Attributes
    ----------
    groups : Groups
        All combinations of known values that occur with the values of the proxy; counts are rounded sums of
        probabilities.
    proxy : str
        The feature that is known by probabilities.
    values : dict
        For each feature the probabilities of its levels, shape (n, values): 0 and 1 where it is known.
    """

    groups: Groups
    proxy: str
    values: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def probabilities(self) -> Floats:
        """P(S=m) of each row, shape (n, M)."""
        p = np.ones((len(self), len(self.groups)))
        features = self.groups.features
        for name, level in zip(features, self.groups.level_codes(features).T, strict=True):
            p *= self.values[name][:, level]
        return p


def group_probabilities(proxy: Proxy, groups: Groups) -> Floats:
    """P(S=m) of new rows, shape (n, M), in the order of known groups.

    Parameters
    ----------
    proxy : Proxy
        With data. Columns of probabilities may be in another order.
    groups : Groups
        As :func:`read_proxy` found them.

    Returns
    -------
    array
    """
    check_rows(_columns_by_name(proxy))
    values = {}
    for name in groups.features:
        (levels, p), known = _read_feature(name, proxy.features[name]), groups.levels(name)
        strange = [level for level in levels if level not in known]
        if strange:
            raise GroupError(f"{name}={strange[0]!r} was not seen in fit; there are {known}.")
        values[name] = np.zeros((len(p), len(known)))
        values[name][:, [known.index(level) for level in levels]] = p
    return ProxyRows(groups, "", values).probabilities


def _columns_by_name(proxy: Proxy) -> dict[str, Any]:
    return {f"Proxy({name})": value for name, value in proxy.features.items()}


def read_proxy(proxy: Proxy) -> ProxyRows:
    """Read and check a proxy with its data.

    Parameters
    ----------
    proxy : Proxy

    Returns
    -------
    ProxyRows
    """
    check_rows(_columns_by_name(proxy))
    by_proxy = [name for name, value in proxy.features.items() if _columns(name, value) is not None]
    if not by_proxy:
        raise GroupError(
            "every feature of this Proxy is a single column, so nothing is known by probabilities: pass the "
            "columns themselves as sensitive_features."
        )
    if len(by_proxy) > 1:
        raise GroupError(
            f"{', '.join(by_proxy)} are all known by probabilities, and their joint probabilities are not: "
            "make them one feature, with a column for each combination."
        )
    [name] = by_proxy
    found = {feature: _read_feature(feature, value) for feature, value in proxy.features.items()}
    p = found[name][1]
    if ((p == 0) | (p == 1)).all():
        raise GroupError(
            f"every row of {name!r} in this Proxy is certain. If the values are known, pass them as a "
            f"column: sensitive_features={{{name!r}: column}}. If they are the most probable ones, pass the "
            "probabilities: taking the most probable group for granted misstates differences between groups."
        )
    features = tuple(proxy.features)
    others = [place for place, feature in enumerate(features) if feature != name]
    known = [found[feature] for feature in features if feature != name]
    factors = [(tuple(levels), one.argmax(axis=1).astype(np.int32)) for levels, one in known]
    occurring = set(observed_combinations(factors)[0]) if factors else {()}
    keys = [
        key
        for key in itertools.product(*(levels for levels, _ in found.values()))
        if tuple(key[place] for place in others) in occurring
    ]
    groups = Groups(features, tuple(keys), np.zeros(len(keys), np.int64))
    rows = ProxyRows(groups, name, {feature: p for feature, (_, p) in found.items()})
    counts = np.rint(rows.probabilities.sum(axis=0)).astype(np.int64)
    return replace(rows, groups=replace(groups, counts=counts))


def _read_feature(name: str, value: Any) -> tuple[list[Level], Floats]:
    """The values of a feature in order, and their probabilities in every row: 0 and 1 where known."""
    columns = _columns(name, value)
    if columns is not None:
        return _probabilities(name, columns)
    factors = read_columns({name: value}, max_levels=MAX_LEVELS)
    refuse_missing(factors, remedy=_BESIDE)
    levels, codes = factors[name]
    return list(levels), np.eye(len(levels))[codes]


def _columns(name: str, value: Any) -> Mapping[Level, Any] | None:
    """Probabilities by value, numbered if they are an array; None for a single column, of known values."""
    if isinstance(value, Mapping):
        return value
    native = nw.from_native(value, pass_through=True, allow_series=True)
    if isinstance(native, nw.DataFrame):
        return named_columns(value, what=f"Proxy({name})", default_name=name)
    if isinstance(native, nw.Series) or np.ndim(value) != 2:
        return None
    return dict(enumerate(np.asarray(value).T))


def _probabilities(name: str, columns: Mapping[Level, Any]) -> tuple[list[Level], Floats]:
    """The values in order, and their probabilities in every row."""
    levels = list(columns)
    try:
        p = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns.values()])
    except (TypeError, ValueError):
        raise GroupError(
            f"the table of {name!r} in a Proxy must have probabilities, one column per value."
        ) from None
    if p.shape[1] < 2:
        raise GroupError(
            f"the table of {name!r} in a Proxy has a single column, {levels[0]!r}. It needs one for each "
            "value, which sum to 1 in every row: add the column of all others."
        )
    total = p.sum(axis=1)
    checks = (
        (
            ~np.isfinite(total),
            "are missing or infinite",
            "Fill them in, with the shares of the population if nothing else is known.",
        ),
        (((p < 0) | (p > 1 + _SUM)).any(axis=1), "are not from 0 to 1", "They must be probabilities."),
        (np.abs(total - 1) > _SUM, "do not sum to 1", "If groups are left out, add a column for them."),
    )
    for bad, what, remedy in checks:
        rows = np.flatnonzero(bad)
        if len(rows):
            first = ", ".join(f"{value:g}" for value in p[rows[0]])
            raise GroupError(
                f"probabilities of {name!r} in a Proxy {what} in {len(rows):,} of {len(p):,} rows, the first "
                f"at row {rows[0]:,}: {first}. {remedy}"
            )
    order = level_order(levels)  # whatever the order of the columns
    return [levels[k] for k in order], (p / total[:, None])[:, order]
