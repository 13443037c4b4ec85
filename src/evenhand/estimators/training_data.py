"""What `fit` is given, read and checked before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state, column_or_1d

from evenhand.data.checks import check_rows, near_columns
from evenhand.data.columns import named_columns
from evenhand.data.features import column_names, columns_of, has_names, random_split, read_features
from evenhand.data.fingerprint import Fingerprint
from evenhand.data.labels import read_labels, read_weights
from evenhand.estimators.access import AttributeAccess, find_access, find_sensitive, usable_features
from evenhand.estimators.imputed import ImputedRows, find_known_features
from evenhand.estimators.limits import read_actions
from evenhand.estimators.proxy_groups import find_proxy
from evenhand.estimators.settings import Settings
from evenhand.exceptions import InputError, VacuousConstraintWarning, warn_user
from evenhand.groups.groups import Groups
from evenhand.groups.proxy import Proxy
from evenhand.groups.strata import encode_strata, groups_in_strata, read_strata
from evenhand.guarantee.guarantee import check_guarantee
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import is_frozen
from evenhand.requirements.actions import Actions, on_actions
from evenhand.requirements.rates import CellRates

_SHOWN = 5
"""Combinations that a warning lists."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What `fit` was given, read and validated.

    Attributes
    ----------
    examples : Examples
        Rows as the models see them; their weights are those of the inner fit. Rows that lack a sensitive
        value, if they are excluded, are there for models of the label alone.
    groups : Groups
    classes : array
        ``[negative, positive]``, or more than two labels in order.
    access : AttributeAccess
        What models may see of the sensitive features.
    weights : array or None
        How much each row counts in risk and requirement.
    fingerprint : Fingerprint
        Digests by which `verify` recognises the rows.
    compared : Groups
        The groups that the requirement compares: those within strata, if it names control features.
    everyone : CellRates or None
        Rows of each cell, held out or not, by which a guarantee estimates the groups' parts of the
        population; without any decisions. None where groups are known by proxies.
    imputed : ImputedRows or None
        Where missing sensitive values are imputed: how many.
    actions : Actions or None
        What is decided between, unless that is two labels.
    """

    examples: Examples
    groups: Groups
    classes: NDArray[Any]
    access: AttributeAccess
    weights: NDArray[np.float64] | None
    fingerprint: Fingerprint
    compared: Groups
    everyone: CellRates | None
    imputed: ImputedRows | None = None
    actions: Actions | None = None


@dataclass(frozen=True, eq=False)
class Counted:
    """Groups and strata of a whole table, of which some rows are read.

    Attributes
    ----------
    groups : Groups or None
        None where they are known by proxies.
    known : Groups or None
        The combinations of the sensitive features that may be used, if these are some of them.
    strata : Groups or None
    compared : Groups or None
        The groups within strata.
    cells : array of int, shape (number of codes, 2), or None
        Rows of each of these with each label.
    """

    groups: Groups | None = None
    known: Groups | None = None
    strata: Groups | None = None
    compared: Groups | None = None
    cells: NDArray[np.int64] | None = None


_NOTHING_COUNTED = Counted()


def read_training_data(
    settings: Settings,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    seed: int = 0,
    counted: Counted = _NOTHING_COUNTED,
    label: str = "y",
) -> TrainingData:
    """Read the table, the labels, the groups, and what models may see.

    Parameters
    ----------
    settings : Settings
        On whose recorder ``n_features_in_`` and ``feature_names_in_`` are set.
    X, y, sensitive_features, sample_weight
        As passed to `fit`.
    seed : int, default=0
        By which rows are held out, if there is to be a guarantee: :func:`hold_out_rows` has to have the same.
    counted : Counted, default=Counted()
        Groups and strata, where they are those of more rows than these.
    label : str, default="y"
        Name of the label, for messages.

    Returns
    -------
    TrainingData
    """
    X = read_features(settings.classifier, X, reset=True)
    y = _label_column(y)
    given = None if isinstance(sensitive_features, Proxy) else sensitive_features
    if given is not None:  # refuses lazy tables and duplicate names
        named_columns(given, what="sensitive_features", default_name="sensitive_feature")
    check_rows({"X": X, "y": y, "sensitive_features": given, "sample_weight": sample_weight})
    several, pos_label = settings.classifier.takes_actions, settings.classifier.pos_label
    labels = read_labels(y, pos_label=pos_label, what=label, several=several)
    weights = read_weights(sample_weight, X.shape[0])
    if weights is not None and len(np.unique(labels.codes[weights > 0])) < 2:
        raise InputError("y has only one class where sample_weight is not 0, and two are needed.")
    actions = read_actions(settings, labels.classes.tolist(), sensitive_features)
    by_proxy = find_proxy(settings, X, sensitive_features, _frozen_to(settings, None))
    if by_proxy is None:
        columns = find_sensitive(X, sensitive_features, settings.columns)
        groups, codes = _find_groups(settings, columns, counted.groups, seed)
    elif settings.groups.min_size:
        raise InputError("min_size counts rows of groups, which a Proxy does not tell: leave it out.")
    else:
        groups, columns = by_proxy.groups, by_proxy.columns
        codes = np.full(X.shape[0], -1, np.int32)
    strata, stratum_codes = find_strata_of(settings, X, groups, counted.strata)
    compared, cells = count_in_strata(
        groups, codes, strata, stratum_codes, labels=labels.codes, n_labels=len(labels.classes)
    )
    if counted.compared is not None and counted.cells is not None:
        compared, cells = counted.compared, counted.cells
    if strata is not None and by_proxy is None:
        _warn_of_empty(compared)
    asked = settings.constraint if actions is None else on_actions(settings.constraint, actions)
    asked.check(compared)
    if by_proxy is None:
        access = find_access(
            X,
            columns,
            groups,
            settings.columns,
            aware=settings.classifier.aware,
            frozen_to=_frozen_to(settings, groups),
            known=counted.known,
            strata=strata,
        )
    else:
        access = replace(by_proxy.access, strata=strata)
    visible = access.view(X, columns)
    known_features, imputed, recognised = None, None, codes.astype(np.float64)
    if by_proxy is not None:
        known_features, recognised = by_proxy.known, by_proxy.values
    elif groups.missing == "impute":
        known_features, imputed = find_known_features(groups, codes, columns, tells=access.patterns)
        recognised = np.hstack(known_features.values)
    examples = Examples(
        visible.X,
        codes.astype(np.intp),
        labels.codes,
        len(groups),
        access.allowed(groups, visible.known),
        weights,
        known_features,
        None if stratum_codes is None else stratum_codes.astype(np.intp),
        n_labels=len(labels.classes),
    )
    in_requirement = weights
    if groups.excluded:
        check_splits(settings, "missing='exclude' leaves rows out")
        in_group = np.flatnonzero(codes >= 0)
        examples = _without_excluded(examples, in_group, visible.known)
        in_requirement = None if in_requirement is None else in_requirement[in_group]
    return TrainingData(
        examples,
        groups,
        labels.classes,
        access,
        in_requirement,
        Fingerprint.of(X, labels.codes, recognised, weights),
        compared,
        None if by_proxy else CellRates(compared, cells.astype(np.float64), np.zeros(cells.shape)),
        imputed,
        actions,
    )


def _find_groups(
    settings: Settings, columns: dict[str, Any], groups: Groups | None, seed: int
) -> tuple[Groups, NDArray[np.int32]]:
    """The groups, unless they are known from more rows, and the group of each row."""
    if settings.confidence is not None:
        check_guarantee(settings.constraint)
    if groups is not None:
        return groups, groups.encode(columns)
    policies = settings.policies
    if settings.confidence is not None and settings.groups.min_size:
        # Rows that are held out have no part in which groups are pooled.
        _, codes = Groups.fit(columns, **{**policies, "min_size": 0})
        inside = np.flatnonzero(codes >= 0)
        learned, _ = random_split(len(inside), float(settings.reserve), seed)
        policies["counted"] = np.isin(np.arange(len(codes)), inside[learned])
    return Groups.fit(columns, **policies)


def count_in_strata(
    groups: Groups,
    codes: NDArray[np.int32],
    strata: Groups | None,
    stratum_codes: NDArray[np.int32] | None,
    *,
    labels: NDArray[np.intp],
    n_labels: int = 2,
    rows: NDArray[np.int64] | None = None,
) -> tuple[Groups, NDArray[np.int64]]:
    """The groups that a requirement compares, and the number of rows of each with each label.

    Parameters
    ----------
    groups : Groups
    codes : array of int32
        Group of each row; -1 where it is not known.
    strata : Groups or None
    stratum_codes : array of int32 or None
    labels : array of int
    n_labels : int, default=2
    rows : array of int, default=None
        Rows that each row stands for; None stands for one.

    Returns
    -------
    compared : Groups
        Within strata, if there are any.
    cells : array of int, shape (number of codes, n_labels)
    """
    compared, places = groups, codes
    if strata is not None and stratum_codes is not None:
        compared, places = groups_in_strata(groups, codes, strata, stratum_codes, row_counts=rows)
    cells = np.zeros((len(compared), n_labels), np.int64)
    known = places >= 0
    np.add.at(cells, (places[known], labels[known]), 1 if rows is None else rows[known])
    return compared, cells


def find_strata_of(
    settings: Settings, X: Any, groups: Groups, strata: Groups | None = None
) -> tuple[Groups | None, NDArray[np.int32] | None]:
    """Strata of the control features that a requirement names, and the stratum of each row of X.

    Parameters
    ----------
    settings : Settings
    X : table or matrix
        Validated.
    groups : Groups
    strata : Groups, default=None
        The strata, where they are those of more rows than these.

    Returns
    -------
    strata : Groups or None
        None if it names none, or only sensitive features.
    codes : array of int32 or None
    """
    names = control_columns(settings, groups)
    if not names:
        return None, None
    if not has_names(X):
        raise InputError(f"given names the column {names[0]!r}, but X has no column names: pass a table.")
    lacking = [name for name in names if name not in column_names(X)]
    if lacking:
        raise InputError(
            f"given names {lacking[0]!r}, which is neither a column of X nor a sensitive feature. "
            + near_columns(lacking[0], [*column_names(X), *groups.features])
        )
    columns = columns_of(X, list(names))
    if strata is not None:
        return strata, encode_strata(strata, columns)
    strata, codes = read_strata(columns)
    return replace(strata, unseen=settings.groups.unseen), codes


def _warn_of_empty(compared: Groups) -> None:
    """Say which groups have no rows in a stratum: nothing is required of them, and costs alone decide."""
    empty = np.flatnonzero(compared.counts == 0)
    if not len(empty):
        return
    names = compared.cell_names
    shown = "; ".join(str(names[k]) for k in empty[:_SHOWN]) + ("; ..." if len(empty) > _SHOWN else "")
    warn_user(
        f"no row is in {len(empty):,} of {len(names):,} combinations of stratum and group ({shown}), so "
        "nothing is required of them.",
        VacuousConstraintWarning,
    )


def control_columns(settings: Settings, groups: Groups) -> tuple[str, ...]:
    """Control features that are columns of X; sensitive ones that may not be used are refused."""
    usable = usable_features(settings.classifier.aware, groups.features)
    controls = settings.constraint.controls
    for name in controls:
        if name in groups.features and name not in usable:
            raise InputError(
                f"given names the sensitive feature {name!r}, which decisions may not use here: add it to "
                "aware, or leave it out of given."
            )
    return tuple(name for name in controls if name not in groups.features)


def _without_excluded(
    examples: Examples, in_group: NDArray[np.intp], known: NDArray[np.int32] | None
) -> Examples:
    """The rows that are in a group; the others teach the label if decisions use nothing that they lack."""
    learned = examples.take(in_group)
    if _has_one_class(learned):
        raise InputError(
            f"y has only one class in the {len(learned):,} of {len(examples):,} rows that have all sensitive "
            "features, and two are needed: missing='exclude' leaves out the others."
        )
    lacking = np.ones(len(examples), np.bool_) if known is None else known >= 0
    lacking[in_group] = False
    others = examples.take(np.flatnonzero(lacking))
    return replace(learned, without_group=others) if len(others) else learned


def _has_one_class(examples: Examples) -> bool:
    """Whether all rows that count have the same label."""
    counted = slice(None) if examples.weights is None else examples.weights > 0
    return len(np.unique(examples.labels[counted])) < 2


def check_splits(settings: Settings, because: str) -> None:
    """Raise an InputError if folds are given as row numbers, where not all rows are in them."""
    cv = settings.posteriors.cv
    if not isinstance(cv, Integral | float) and not hasattr(cv, "split"):
        raise InputError(
            f"cv must be a number or a splitter where {because}: given splits are about all rows."
        )


def draw_seed(random_state: Any) -> int:
    """Seed of one fit: for folds, held-out rows, and the key of randomised decisions."""
    return int(check_random_state(random_state).randint(2**31))


def hold_out_rows(settings: Settings, data: TrainingData, seed: int) -> tuple[TrainingData, Examples | None]:
    """Set rows aside for the guarantee, if `confidence` asks for one.

    Parameters
    ----------
    settings : Settings
    data : TrainingData
    seed : int

    Returns
    -------
    data : TrainingData
        With the rows that are left to learn from.
    held_out : Examples or None
        Rows that nothing is learned from.
    """
    if settings.confidence is None:
        return data, None
    if data.groups.missing == "impute":
        raise InputError(
            "`guarantee` needs rows whose groups are known, and supports neither missing='impute' nor a "
            "Proxy: leave it out, or fit to the rows that have all sensitive values."
        )
    if data.weights is not None:
        raise InputError("`guarantee` does not support `sample_weight`: leave one of them out.")
    check_splits(settings, "rows are held out for a guarantee")
    first, second = random_split(len(data.examples), float(settings.reserve), seed)
    learned, held_out = data.examples.take(first), data.examples.take(second)
    if _has_one_class(learned):
        raise InputError(
            f"reserve={settings.reserve:g} leaves {len(learned):,} of {len(data.examples):,} rows to learn "
            "from, and y has only one class there: reserve fewer rows, or fit with more."
        )
    return replace(data, examples=learned), held_out


def _frozen_to(settings: Settings, groups: Groups | None) -> int | None:
    """How many columns a frozen model that will be asked was fitted to; -1 if it does not tell."""
    label, group = settings.learners
    aware = settings.classifier.aware
    learned = groups is None or usable_features(aware, groups.features) != groups.features
    frozen = [model for model in ([label, group] if learned else [label]) if is_frozen(model)]
    return int(getattr(frozen[0], "n_features_in_", -1)) if frozen else None


def _label_column(y: Any) -> Any:
    if y is None:
        raise InputError("this classifier requires y to be passed, but the target y is None.")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        return column_or_1d(y, warn=True)
    return y
