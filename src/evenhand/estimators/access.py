"""Attribute access: which sensitive features models may see, and the known group of each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from evenhand.data.checks import check_rows
from evenhand.data.features import (
    Columns,
    column_names,
    columns_of,
    drop_columns,
    has_names,
    join_columns,
    known_names,
    read_features,
    sensitive_columns,
)
from evenhand.data.tables import table_of_dicts
from evenhand.estimators.imputed import groups_of_patterns
from evenhand.exceptions import GroupError, InputError, UnseenGroupWarning, VisibleFeatureWarning, warn_user
from evenhand.groups.groups import POOLED, Groups
from evenhand.groups.proxy import Proxy
from evenhand.groups.sensitive import read_columns
from evenhand.groups.strata import encode_strata
from evenhand.posteriors.posteriors import DensePosteriors, GroupedScores, Posteriors, in_strata

Floats = NDArray[np.float64]
Aware = bool | list[str]
DIGITS = 12
"""To which posteriors are rounded."""


@dataclass(frozen=True, eq=False)
class ModelInput:
    """Rows as models see them.

    Attributes
    ----------
    X : table or matrix
        Without hidden columns, with indicators of the known group.
    known : array of int or None
        Code of the known group of each row, -1 for an unseen group and, in fit, for one that is excluded;
        None if nothing is known.
    strata : array of int or None
        Stratum of each row, -1 for an unseen one; None if there are no strata.
    """

    X: Any
    known: NDArray[np.int32] | None
    strata: NDArray[np.int32] | None = None


@dataclass(frozen=True, eq=False)
class AttributeAccess:
    """Which sensitive features a classifier may see, and where they are.

    Attributes
    ----------
    where : names, positions, function or None
        Columns of X with the usable sensitive features; None if they are passed separately.
    hidden : tuple
        Columns of X that models do not see.
    known : Groups or None
        The combinations of the usable sensitive features; None if there are none.
    group_indicators : bool
        Whether the known group is added to X as 0/1 columns: always, except for a frozen model, which accepts
        only the columns that it was fitted to, and where missing values are imputed.
    patterns : int, default=0
        Where missing values are imputed, number of usable features for which a 0/1 column is added that
        tells whether it is known: that may say something of the label.
    strata : Groups or None
        The strata of control features, which are columns of X; None if there are none.
    """

    where: Columns | None
    hidden: tuple[Any, ...]
    known: Groups | None
    group_indicators: bool
    patterns: int = 0
    strata: Groups | None = None

    def read(self, estimator: Any, X: Any, sensitive_features: Any) -> ModelInput:
        """New rows as models see them.

        Parameters
        ----------
        estimator : object
            The fitted estimator, whose features X should have.
        X : table or matrix
        sensitive_features : table, mapping, array or None
            The known sensitive features, if they are not in X.

        Returns
        -------
        ModelInput
        """
        X, strata = self._validated(estimator, X)
        if self.known is None:
            return replace(self.view(X, {}), strata=strata)
        if sensitive_features is not None and self.where is not None:
            raise GroupError("sensitive features are columns of X here: do not pass sensitive_features too.")
        if sensitive_features is None and self.where is None:
            names = ", ".join(self.known.features)
            raise GroupError(
                f"this classifier is aware of {names}: pass sensitive_features= here, or name columns of X "
                "in the constructor, which scorers and cross-validation need."
            )
        given = sensitive_columns(X, self.where, sensitive_features)
        check_rows({"X": X, "sensitive_features": given})
        if self.known.missing == "exclude":
            _refuse_unknown_group(self.known, given)
        visible = self.view(X, given)
        unseen = 0 if visible.known is None else int(np.count_nonzero(visible.known < 0))
        if unseen:
            warn_user(
                f"{unseen:,} of {X.shape[0]:,} rows belong to groups that were not seen in fit, and there is "
                "no pooled group for them: they are decided as if their group were not known.",
                UnseenGroupWarning,
            )
        return replace(visible, strata=strata)

    def view(self, X: Any, columns: Mapping[str, Any]) -> ModelInput:
        """Validated rows as models see them: without hidden columns, with indicators of the known group.

        Parameters
        ----------
        X : table or matrix
            Already validated.
        columns : mapping
            Sensitive features by name; those that may not be used are ignored.

        Returns
        -------
        ModelInput
        """
        if self.known is None:
            return ModelInput(self._visible(X), None)
        named = all(name in columns for name in self.known.features)
        codes = self.known.encode({name: columns[name] for name in self.known.features} if named else columns)
        added, name = [], ""
        if self.patterns:
            told = [[value is not None for value in key] for key in self.known.keys]
            told.append([False] * self.patterns)  # for the code -1 of an unseen combination
            added, name = list(np.array(told, np.float64)[codes].T), "known"
        elif self.group_indicators:
            added = [(codes == k).astype(np.float64) for k in range(len(self.known))]
            name = "known_group"
        return ModelInput(join_columns(self._visible(X), added, name), codes)

    def added_columns(self, X: Any) -> tuple[str, list[Any]]:
        """The features that columns which models see besides those of X tell of, and these columns."""
        if self.known is None or not (self.patterns or self.group_indicators):
            return "", []
        names = column_names(X) if has_names(X) else [f"x{k}" for k in range(X.shape[1])]
        return ", ".join(self.known.features), names[-(self.patterns or len(self.known)) :]

    @property
    def unused(self) -> tuple[Any, ...]:
        """Hidden columns of X that do not determine the known group either."""
        needed = self.where if isinstance(self.where, list) else ()
        return tuple(name for name in self.hidden if name not in needed)

    def _validated(self, estimator: Any, X: Any) -> tuple[Any, NDArray[np.int32] | None]:
        """Validated X, and the stratum of each row; a dictionary is one row, and a list of them several."""
        rows = [X] if isinstance(X, Mapping) and not issparse(X) else X  # a matrix may be a dictionary too
        if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
            X = table_of_dicts(rows, known_names(estimator), self.unused)
        if self.strata is None:
            return self._features(estimator, X), None
        if not has_names(X):
            name = self.strata.features[0]
            raise InputError(f"the control feature {name!r} is a column of X: pass a table, as to fit.")
        X = self._features(estimator, X)
        return X, self.stratum_codes(X)

    def stratum_codes(self, X: Any) -> NDArray[np.int32]:
        """Stratum of each row of a validated table, -1 for an unseen one."""
        if self.strata is None:
            raise ValueError("there are no strata.")
        return encode_strata(self.strata, columns_of(X, list(self.strata.features)))

    def _features(self, estimator: Any, X: Any) -> Any:
        """Validated X. A table may lack columns that are not used."""
        unused = self.unused
        if unused and has_names(X):
            present = set(column_names(X))
            if len(X) == 0:
                raise InputError("X has no rows.")
            if any(name not in present for name in unused):
                visible = [name for name in column_names(X) if name not in unused]
                recorded = getattr(estimator, "feature_names_in_", None)
                if recorded is None and len(visible) == estimator.n_features_in_ - len(unused):
                    return X  # scikit-learn records names only if all are text
                expected = [name for name in (recorded if recorded is not None else ()) if name not in unused]
                if visible == expected:
                    return X
                if sorted(map(str, visible)) == sorted(map(str, expected)):
                    raise InputError(f"the columns of X must be in the order of fit: {expected}.")
        return read_features(estimator, X, reset=False)

    def _visible(self, X: Any) -> Any:
        present = set(column_names(X)) if has_names(X) else None
        hidden = [name for name in self.hidden if present is None or name in present]
        return drop_columns(X, hidden, allow_empty=self.group_indicators)

    def knows(self, groups: Groups) -> bool:
        """Whether the group is known in full, of every row."""
        imputed = groups.missing == "impute"
        return self.known is not None and self.known.features == groups.features and not imputed

    def allowed(self, groups: Groups, known: NDArray[np.int32] | None) -> NDArray[np.bool_] | None:
        """Groups that are possible given the known group, shape (n, M); None if nothing is known."""
        if self.known is None or known is None:
            return None
        if self.knows(groups):  # the last line, which the code -1 of an unseen group picks, allows all
            own = np.eye(len(groups), dtype=np.bool_)
            return np.asarray(np.vstack([own, np.ones(len(groups), np.bool_)])[known])
        places = [groups.features.index(name) for name in self.known.features]
        whole = [{key[place] for key in groups.keys} for place in range(len(groups.features))]

        def possible(own: Any, value: Any, place: int) -> bool:
            """Whether a row with a known value can be in a group; a pooled group has all other values."""
            if value is None and groups.missing == "impute":
                return True
            if own is POOLED:
                return groups.merged or value not in whole[place]
            return bool(own == value)

        table = np.array(
            [
                [
                    all(possible(key[place], value, place) for place, value in zip(places, seen, strict=True))
                    for key in groups.keys
                ]
                for seen in self.known.keys
            ]
            + [[True] * len(groups)],  # for the code -1 of an unseen combination
            dtype=np.bool_,
        )
        return np.asarray(table[known])

    def posteriors(
        self,
        groups: Groups,
        cells: Floats,
        codes: NDArray[Any],
        strata: NDArray[Any] | None,
        *,
        actions: bool = False,
    ) -> Posteriors:
        """Posteriors of rows with known groups and strata, in the form that the rule is found on.

        They are rounded to 12 digits, so that the last bits of a matrix product tell no rows apart. For
        several actions they are an array of shape (n, M, L), M in all strata.
        """
        p = np.round(cells, DIGITS)
        if actions:
            known = np.eye(len(groups))[codes][:, :, None] if self.knows(groups) else 1.0
            p = p * known
            return p if self.strata is None else in_strata(p, strata, len(self.strata))  # type: ignore
        found = GroupedScores(p[:, 0, 1], codes, len(groups)) if self.knows(groups) else DensePosteriors(p)
        return found.within(strata, 1 if self.strata is None else len(self.strata))


def _refuse_unknown_group(known: Groups, columns: Mapping[str, Any]) -> None:
    """Raise a GroupError if a sensitive feature that decisions use is missing in rows to decide."""
    used = {name: columns[name] for name in known.features if name in columns}
    for name, (_, codes) in read_columns(used or columns, max_levels=None).items():
        lacking = int(np.count_nonzero(codes < 0))
        if lacking:
            raise GroupError(
                f"sensitive feature {name!r} is missing in {lacking:,} of {len(codes):,} rows, and decisions "
                "use it: missing='exclude' left such rows out of fit. Fill them in or drop them, fit with "
                "missing='category', or fit a classifier with aware=False, which decides every row."
            )


def check_one_source(sensitive_features: Any, where: Columns | Proxy | None) -> None:
    """Raise a GroupError unless sensitive features are either passed to fit or named in the constructor."""
    if (sensitive_features is None) == (where is None):
        raise GroupError(
            "no sensitive features: pass sensitive_features= to fit, or name columns of X in the constructor."
            if where is None
            else "sensitive features are both named in the constructor and passed to fit: choose one."
        )


def find_sensitive(X: Any, sensitive_features: Any, where: Columns | None) -> dict[str, Any]:
    """The sensitive features of the training rows, by name.

    Parameters
    ----------
    X : table or matrix
    sensitive_features : table, mapping, array or None
        As passed to fit.
    where : names, positions, function or None
        As named in the constructor.

    Returns
    -------
    dict
    """
    check_one_source(sensitive_features, where)
    columns = sensitive_columns(X, where, sensitive_features)
    check_rows({"X": X, "sensitive_features": columns})
    return columns


def find_access(
    X: Any,
    columns: dict[str, Any],
    groups: Groups,
    where: Columns | None,
    *,
    aware: Aware,
    frozen_to: int | None = None,
    known: Groups | None = None,
    strata: Groups | None = None,
) -> AttributeAccess:
    """What a classifier may see of the sensitive features.

    Models see the same whether these are columns of X or passed separately: X without them, and a 0/1 column
    for each combination of those that may be used.

    Parameters
    ----------
    X : table or matrix
    columns : dict
        The sensitive features by name.
    groups : Groups
        Of all sensitive features.
    where : names, positions, function or None
        Their columns in X; None if they are passed separately.
    aware : bool or list of str
        Which of them may be used.
    frozen_to : int, default=None
        Number of columns that a frozen model was fitted to, which is the number it accepts. It sees usable
        sensitive columns of X if it was fitted to them.
    known : Groups, default=None
        Combinations of the features that may be used, where they are known from more rows than these.
    strata : Groups, default=None
        Of control features that are columns of X.

    Returns
    -------
    AttributeAccess
    """
    usable = usable_features(aware, groups.features)
    indicators, patterns = bool(usable) and frozen_to is None, 0
    counted, known = known, groups if usable == groups.features else known
    if usable and groups.missing == "impute":
        patterns_of = groups_of_patterns(groups, columns, usable) if counted is None else counted
        known, indicators = patterns_of, False
        patterns = len(usable) if frozen_to is None else 0
    if usable and known is None:
        part = {name: columns[name] for name in usable}
        known, _ = Groups.fit(part, missing=groups.missing, unseen=groups.unseen)
    if where is None or callable(where):
        _warn_of_leak(X, [name for name in columns if name not in usable], frozen=frozen_to is not None)
        return AttributeAccess(where if usable else None, (), known, indicators, patterns, strata)
    places = [where] if isinstance(where, str | int | np.integer) else list(where)
    named: dict[str, Any] = dict(zip(columns, places, strict=True))
    seen = usable if frozen_to is not None and frozen_to != X.shape[1] - len(named) else ()
    if seen and groups.missing == "impute":
        raise InputError(
            f"the frozen model was fitted to the sensitive feature {seen[0]!r}, and missing='impute' needs "
            "models that do not see sensitive features: use one that was fitted without it."
        )
    hidden = tuple(place for name, place in named.items() if name not in seen)
    if hidden and frozen_to == X.shape[1]:
        raise InputError(
            f"the frozen model was fitted to all columns of X, including {hidden[0]!r}, which it may not see "
            "here. Use a model fitted without it; or let the model see it and pass the sensitive features "
            "separately: fit(X, y, sensitive_features=...)."
        )
    chosen = [named[name] for name in usable] if usable else None
    return AttributeAccess(chosen, hidden, known, indicators, patterns, strata)


def usable_features(aware: Aware, features: tuple[str, ...]) -> tuple[str, ...]:
    """Sensitive features that may be used, in the order of `features`."""
    if isinstance(aware, bool | np.bool_):
        return features if aware else ()
    if not isinstance(aware, str | Iterable):
        raise InputError(f"aware must be True, False or names of sensitive features, got {aware!r}.")
    listed = [aware] if isinstance(aware, str) else list(aware)
    unknown = [name for name in listed if name not in features]
    if unknown:
        raise GroupError(
            f"aware names {unknown[0]!r}, but the sensitive features are {', '.join(map(repr, features))}."
        )
    return tuple(name for name in features if name in listed)


def _warn_of_leak(X: Any, unusable: list[str], *, frozen: bool) -> None:
    seen = [name for name in unusable if has_names(X) and name in column_names(X)]
    if seen:
        remedy = (
            "A frozen model cannot be fitted again: use one that was trained without this column."
            if frozen
            else "Name it in sensitive_features of the constructor to hide it."
        )
        warn_user(
            f"X contains the sensitive feature {seen[0]!r}, so the model sees it although it should be "
            f"blind to it. {remedy}",
            VisibleFeatureWarning,
        )
