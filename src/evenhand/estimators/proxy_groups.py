"""Proxies in a fit: probabilities of groups that take the place of groups.

Passed to `fit`, probabilities are not there at prediction: the models of the groups are trained with them,
each row counting for every value in part. Named in the constructor, they are columns of X: no model of the
groups is learned, and decisions use the probabilities themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.features import columns_of, join_columns
from evenhand.estimators.access import (
    AttributeAccess,
    Aware,
    ModelInput,
    check_one_source,
    find_access,
    usable_features,
)
from evenhand.estimators.settings import Settings
from evenhand.exceptions import GroupError
from evenhand.groups.groups import Groups
from evenhand.groups.proxy import Proxy, ProxyRows, group_probabilities, read_proxy
from evenhand.guarantee.proxies import check_calibration
from evenhand.posteriors.examples import KnownFeatures


@dataclass(frozen=True, eq=False, kw_only=True)
class ProxyAccess(AttributeAccess):
    """Access to probabilities that are columns of X: appended on the right, one per group.

    Attributes
    ----------
    proxy : Proxy
        Names of columns.
    groups : Groups
        In whose order the probabilities are appended.
    """

    proxy: Proxy
    groups: Groups

    def read(self, estimator: Any, X: Any, sensitive_features: Any) -> ModelInput:
        """New rows as models see them."""
        if sensitive_features is not None:
            raise GroupError("proxies are columns of X here: do not pass sensitive_features too.")
        X, strata = self._validated(estimator, X)
        return replace(self.view(X, {}), strata=strata)

    def view(self, X: Any, columns: Mapping[str, Any]) -> ModelInput:  # noqa: ARG002
        """Validated rows as models see them."""
        p = group_probabilities(_with_columns(self.proxy, X), self.groups)
        return ModelInput(join_columns(self._visible(X), list(p.T), "proxy"), None)


@dataclass(frozen=True, eq=False)
class ProxyGroups:
    """Groups of training rows by proxy.

    Attributes
    ----------
    groups : Groups
    access : AttributeAccess
    columns : dict
        The sensitive features that are known, by name.
    known : KnownFeatures or None
        What models of the groups are trained with; None if the probabilities are columns of X.
    values : array, shape (n, values)
        Probabilities of the values of each feature, by which rows are recognised.
    """

    groups: Groups
    access: AttributeAccess
    columns: dict[str, Any]
    known: KnownFeatures | None
    values: NDArray[np.float64]


def find_proxy(
    settings: Settings, X: Any, sensitive_features: Any, frozen_to: int | None
) -> ProxyGroups | None:
    """Groups by proxy, if a Proxy is passed to fit or named in the constructor.

    Parameters
    ----------
    settings : Settings
    X : table or matrix
    sensitive_features : object
        As passed to fit.
    frozen_to : int or None
        See :func:`evenhand.estimators.access.find_access`.

    Returns
    -------
    ProxyGroups or None
    """
    where, aware = settings.classifier.sensitive_features, settings.classifier.aware
    if not isinstance(where, Proxy) and not isinstance(sensitive_features, Proxy):
        return None
    check_one_source(sensitive_features, where)
    if isinstance(where, Proxy):
        return _of_columns(X, where, aware)
    rows = read_proxy(sensitive_features)
    check_rows({"X": X, "sensitive_features": rows.values[rows.proxy]})
    check_calibration(sensitive_features, rows)
    usable = usable_features(aware, rows.groups.features)
    if rows.proxy in usable:
        raise GroupError(
            f"{rows.proxy!r} is known by probabilities only, and decisions cannot use it: leave it out "
            "of aware, or name its probabilities as columns of X in the constructor, Proxy("
            f"{rows.proxy}=[...])."
        )
    groups = replace(rows.groups, missing="impute")
    columns = {name: value for name, value in sensitive_features.features.items() if name != rows.proxy}
    access = find_access(X, columns, groups, None, aware=aware, frozen_to=frozen_to)
    order = [*columns, rows.proxy]
    known = KnownFeatures(
        groups.level_codes(order), tuple(rows.values[name] for name in order), access.patterns
    )
    return ProxyGroups(groups, access, columns, known, np.hstack(known.values))


def _of_columns(X: Any, where: Proxy, aware: Aware) -> ProxyGroups:
    if where.known is not None:
        raise GroupError("known= belongs to a Proxy with data, which is passed to fit or audit.")
    rows: ProxyRows = read_proxy(_with_columns(where, X))
    others = [name for name in where.features if name != rows.proxy]
    usable = usable_features(aware, rows.groups.features)
    unused = [name for name in others if name not in usable]
    if unused:
        raise GroupError(
            f"{unused[0]!r} is known at prediction beside the proxies, but aware does not name it: set "
            f"aware={others!r}, or pass the Proxy to fit."
        )
    hidden = [name for value in where.features.values() for name in _names(value)]
    groups = replace(rows.groups, missing="impute")
    access = ProxyAccess(hidden, tuple(hidden), None, False, proxy=where, groups=groups)
    return ProxyGroups(groups, access, {}, None, np.hstack([*rows.values.values()]))


def _names(value: Any) -> list[Any]:
    """The columns of X that a feature of a proxy names."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def _with_columns(proxy: Proxy, X: Any) -> Proxy:
    """The proxy with columns of X in place of their names."""
    given: dict[str, Any] = {}
    for name, value in proxy.features.items():
        names = _names(value)
        if not all(isinstance(one, str | int | np.integer) for one in names):
            raise GroupError(
                f"in a constructor, Proxy({name}=...) names columns of X: pass tables with probabilities to "
                "fit."
            )
        found = columns_of(X, names)
        if isinstance(value, Mapping):
            found = dict(zip(value, found.values(), strict=True))
        given[name] = found if isinstance(value, Mapping | list | tuple) else found.popitem()[1]
    return Proxy(**given)
