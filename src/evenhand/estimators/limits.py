"""What cannot be done where a table is not in memory, or with several actions, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.estimators.settings import Settings
from evenhand.exceptions import InputError
from evenhand.groups.proxy import Proxy
from evenhand.optimum.action_problem import several_actions
from evenhand.requirements.actions import Actions, on_actions

LIMITS = {
    "proxy": (
        "a Proxy with data, passed to `fit`",
        "name its columns in the constructor: `sensitive_features=Proxy(race=[...])`",
    ),
    "sensitive_features": (
        "sensitive features passed to `fit` beside a lazy table",
        "name columns of the table in the constructor",
    ),
    "at_most": (
        "`predict(at_most=...)`, which is about all rows together",
        "pass a table in memory",
    ),
    "splits": (
        "`cv` as a list of splits, where models learn from a sample",
        "pass a number or a splitter, or raise `max_samples`",
    ),
    "pooled": (
        "a guarantee together with `min_size`, where models learn from a sample",
        "merge rare groups beforehand, or raise `max_samples`",
    ),
}
"""What is refused for tables that are not in memory, and what to do instead."""

ACTION_LIMITS = {
    "guarantee": ("`guarantee`", "audit the decisions on held-out rows"),
    "margin": ("`margin`", "tighten the tolerance by what `forecast_` shows"),
    "objective": ('`objective` other than "risk"', "choose the costs"),
    "proxy": ("a `Proxy`", "pass sensitive features, with `GroupPolicy(missing=...)` if some are missing"),
    "at_most": ("`predict(at_most=...)`", "use `RateBound(action, at_most=...)` in the requirement"),
    "reasons": ("`explain(reasons=...)`", "explain the label's model with its own tools"),
    "thresholds": (
        "`thresholds_`, unless there are two labels and `aware=True`",
        "use `explain` or `decision_function`",
    ),
    "report": ("`write_report(model=...)`", "leave out `model`: the audit has a report"),
    "trained": ("`FairInprocessor`", "use `FairPostprocessor`"),
}
"""What is refused for more than two labels and for actions that are not labels, and what to do instead."""


def read_actions(settings: Settings, labels: Sequence[Any], sensitive_features: Any) -> Actions | None:
    """The actions that are decided between; None if they are two labels, with costs of errors.

    Parameters
    ----------
    settings : Settings
    labels : sequence
        In the order of their numbers.
    sensitive_features : table, mapping, array, Proxy or None
        As passed to `fit`.

    Returns
    -------
    Actions or None
        Refuses what several actions do not support.
    """
    classifier, asked = settings.classifier, settings.constraint
    if not several_actions(None, classifier.cost) and len(labels) == 2:
        return None
    wanted = {
        "trained": not classifier.takes_actions,
        "guarantee": settings.confidence is not None,
        "margin": settings.margin != 0,
        "objective": classifier.objective != "risk",
        "proxy": isinstance(sensitive_features, Proxy) or isinstance(classifier.sensitive_features, Proxy),
    }
    for name, given in wanted.items():
        if given:
            raise refused_with_actions(name)
    actions = Actions.of(classifier.cost, labels)
    on_actions(asked, actions)
    return actions


def refuse_beyond_memory(X: Any, sensitive_features: Any) -> None:
    """Raise an InputError for what needs a table in memory."""
    if (is_lazy(X) or is_dask(X)) and isinstance(sensitive_features, Proxy):
        raise refused("proxy")
    if is_lazy(X) and sensitive_features is not None:
        raise refused("sensitive_features")


def refuse_large(settings: Settings) -> None:
    """Raise an InputError for what needs all rows to be learned from."""
    if settings.confidence is not None and settings.groups.min_size:
        raise refused("pooled")
    cv = settings.posteriors.cv
    if cv is not None and not isinstance(cv, int | float | np.integer) and not hasattr(cv, "split"):
        raise refused("splits")


def refused(name: str) -> InputError:
    """The error about one of the limits."""
    what, remedy = (text.replace("`", "") for text in LIMITS[name])
    return InputError(f"a table that is not in memory does not support {what}: {remedy}.")


def refused_with_actions(name: str) -> InputError:
    """The error about one of the limits of several actions."""
    what, remedy = (text.replace("`", "") for text in ACTION_LIMITS[name])
    return InputError(f"more than two labels or other actions do not support {what}: {remedy}.")
