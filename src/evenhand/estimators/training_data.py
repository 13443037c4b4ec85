"""What `fit` is given, read and checked before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state

from evenhand.estimators.access import AttributeAccess, find_access, find_groups, usable_features
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.by_proxy import ProxyGroups, find_proxy
from evenhand.estimators.inferred import InferredRows, find_known_features, row_codes
from evenhand.exceptions import InputError, warn_user
from evenhand.fairness.groups import Groups
from evenhand.fairness.proxy import Proxy
from evenhand.inference.guarantee import check_promise
from evenhand.inputs.checks import check_rows
from evenhand.inputs.columns import named_columns
from evenhand.inputs.features import read_features
from evenhand.inputs.fingerprint import Fingerprint
from evenhand.inputs.labels import Labels, read_labels, read_weights
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import is_frozen

__all__ = ["TrainingData", "draw_seed", "read_training_data", "reserve_rows"]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What `fit` was given, read and validated.

    Attributes
    ----------
    examples : Examples
        Rows as the models see them; their weights are those of the inner fit.
    groups : Groups
    classes : array of two values
        ``[negative, positive]``.
    access : AttributeAccess
        What models may see of the sensitive features.
    weights : array or None
        How much each row counts in risk and requirement.
    fingerprint : Fingerprint
        Digests by which `verify` recognises the rows.
    inferred : InferredRows or None
        Where missing sensitive values are inferred: how many.
    """

    examples: Examples
    groups: Groups
    classes: NDArray[Any]
    access: AttributeAccess
    weights: NDArray[np.float64] | None
    fingerprint: Fingerprint
    inferred: InferredRows | None = None


def read_training_data(
    classifier: FairClassifier,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    groups: Groups | None = None,
    known: Groups | None = None,
) -> TrainingData:
    """Read the table, the labels, the groups, and what models may see.

    Parameters
    ----------
    classifier : FairClassifier
        Its parameters say how; ``n_features_in_`` and ``feature_names_in_`` are recorded on it.
    X, y, sensitive_features, sample_weight
        As passed to `fit`.
    groups : Groups, default=None
        The groups, where they are known from more rows than these.
    known : Groups, default=None
        Likewise the combinations of the sensitive features that may be used, if these are some of them.

    Returns
    -------
    TrainingData
    """
    classifier.check_settings()
    X = read_features(classifier, X, reset=True)
    y = _label_column(y)
    given = None if isinstance(sensitive_features, Proxy) else sensitive_features
    if given is not None:  # refuses lazy tables and duplicate names
        named_columns(given, what="sensitive_features", default_name="sensitive_feature")
    check_rows({"X": X, "y": y, "sensitive_features": given, "sample_weight": sample_weight})
    labels = read_labels(y, pos_label=classifier.pos_label)
    weights = read_weights(sample_weight, X.shape[0])
    if weights is not None and len(np.unique(labels.positive[weights > 0])) < 2:
        raise InputError("y has only one class where sample_weight is not 0, and two are needed.")
    by_proxy = find_proxy(
        X,
        sensitive_features,
        classifier.sensitive_features,
        aware=classifier.aware,
        frozen_to=_frozen_to(classifier, None),
    )
    if by_proxy is not None:
        return _by_proxy(classifier, X, labels, weights, by_proxy)
    groups, codes, columns = find_groups(
        X,
        sensitive_features,
        classifier.sensitive_features,
        groups,
        missing=classifier.missing,
        unseen=classifier.unseen,
        min_size=classifier.min_group_size,
        single_features=any(notion.groups == "independent" for notion in classifier.constraint.notions),
    )
    classifier.constraint.check(groups)
    access = find_access(
        X,
        columns,
        groups,
        classifier.sensitive_features,
        aware=classifier.aware,
        frozen_to=_frozen_to(classifier, groups),
        known=known,
    )
    visible = access.view(X, columns)
    known_features, inferred = None, None
    if groups.missing == "infer":
        known_features, inferred = find_known_features(groups, codes, columns, tells=access.patterns)
    examples = Examples(
        visible.X,
        codes.astype(np.intp),
        labels.positive,
        len(groups),
        access.allowed(groups, visible.known),
        weights if classifier.weights != "constraint" else None,
        known_features,
    )
    return TrainingData(
        examples,
        groups,
        labels.classes,
        access,
        weights if classifier.weights != "fit" else None,
        Fingerprint.of(
            X,
            labels.positive,
            codes if known_features is None else row_codes(known_features.values),
            weights,
        ),
        inferred,
    )


def _by_proxy(
    classifier: FairClassifier,
    X: Any,
    labels: Labels,
    weights: NDArray[np.float64] | None,
    found: ProxyGroups,
) -> TrainingData:
    """Training data whose groups are known by probabilities only."""
    if classifier.min_group_size:
        raise InputError("min_group_size counts rows of groups, which a Proxy does not tell: leave it out.")
    classifier.constraint.check(found.groups)
    visible = found.access.view(X, found.columns)
    examples = Examples(
        visible.X,
        np.full(X.shape[0], -1, np.intp),
        labels.positive,
        len(found.groups),
        found.access.allowed(found.groups, visible.known),
        weights if classifier.weights != "constraint" else None,
        found.known,
    )
    return TrainingData(
        examples,
        found.groups,
        labels.classes,
        found.access,
        weights if classifier.weights != "fit" else None,
        Fingerprint.of(X, labels.positive, found.digests, weights),
    )


def draw_seed(random_state: Any) -> int:
    """Seed of one fit: for folds, held-out rows, and the key of randomised decisions."""
    return int(check_random_state(random_state).randint(2**31))


def reserve_rows(
    classifier: FairClassifier, data: TrainingData, seed: int
) -> tuple[TrainingData, Examples | None]:
    """Set rows aside for the promise, if `confidence` asks for one.

    Parameters
    ----------
    classifier : FairClassifier
    data : TrainingData
    seed : int

    Returns
    -------
    data : TrainingData
        With the rows that are left to learn from.
    reserved : Examples or None
        Rows that nothing is learned from.
    """
    if classifier.confidence is None:
        return data, None
    if data.groups.missing == "infer":
        raise InputError(
            "a promise is tested on rows whose groups are known, so that it cannot be made with "
            "missing='infer' or a Proxy: leave confidence out, or fit to the rows that have all sensitive "
            "values."
        )
    check_promise(classifier.constraint, classifier.confidence, classifier.reserve)
    if data.weights is not None:
        raise InputError(
            "a promise needs rows that count alike, but sample_weight counts in the requirement: set "
            "weights='fit', or leave confidence out."
        )
    if classifier.search != "exact":
        raise InputError(f"a promise needs search='exact', but search is {classifier.search!r}.")
    if not isinstance(classifier.cv, Integral) and not hasattr(classifier.cv, "split"):
        raise InputError(
            "cv should be a number or a splitter where rows are reserved for a promise: given splits are "
            "about all rows."
        )
    first, second = data.examples.sample(float(classifier.reserve), seed)
    learned, reserved = data.examples.take(first), data.examples.take(second)
    counted = learned.positive if learned.weights is None else learned.positive[learned.weights > 0]
    if len(np.unique(counted)) < 2:
        raise InputError(
            f"reserve={classifier.reserve:g} leaves {len(learned):,} of {len(data.examples):,} rows to learn "
            "from, and y has only one class there: reserve fewer rows, or fit with more."
        )
    return replace(data, examples=learned), reserved


def _frozen_to(classifier: FairClassifier, groups: Groups | None) -> int | None:
    """How many columns a frozen model that will be asked was fitted to; -1 if it does not tell."""
    label, group = classifier.posterior_learners
    models = [label]
    if groups is None or usable_features(classifier.aware, groups.features) != groups.features:  # learned too
        models.append(group)
    frozen = [model for model in models if is_frozen(model)]
    return int(getattr(frozen[0], "n_features_in_", -1)) if frozen else None


def _label_column(y: Any) -> Any:
    if y is None:
        raise InputError("this classifier requires y to be passed, but the target y is None.")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            DataConversionWarning,
        )
        return y[:, 0]
    return y
