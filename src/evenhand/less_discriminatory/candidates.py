"""The models that are compared: what they decide, what they see, and new ones to train."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer

from evenhand._atomic import written_at_once
from evenhand.data.checks import check_rows
from evenhand.data.columns import is_missing
from evenhand.data.features import column_names, drop_columns, take_rows
from evenhand.data.labels import finite_numbers
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.exceptions import EvenhandWarning, InputError
from evenhand.less_discriminatory.paired_comparison import Decider
from evenhand.requirements.notions import DemographicParity

KINDS: tuple[str, ...] = ("fair", "seeds", "settings", "features")
"""The kinds of models that are trained."""
_SETTINGS = (
    *("C", "alpha", "learning_rate", "max_depth", "n_estimators", "max_iter", "num_leaves", "max_leaf_nodes"),
    *("min_samples_leaf", "min_child_weight", "reg_lambda", "l2_regularization"),
)
"""Settings that are halved and doubled."""
_SEEDS, _MOST_FEATURES, _PATH = 3, 30, (0.25, 0.5, 0.75, 1.0)
_FITS = 8
"""Fits of one model that is trained fairly."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model to compare.

    Attributes
    ----------
    name, kind : str
    model : object
        A classifier, fitted or not; or scores or decisions of the rows.
    without : tuple
        Columns of X that it does not see.
    """

    name: str
    kind: str
    model: Any
    without: tuple[Any, ...] = ()


def _of_column(values: Any, name: str, n_rows: int, positive: Any) -> Decider:
    """Scores, or decisions if there are only two distinct values: labels, or 0 and 1."""
    column = np.asarray(values)
    check_rows({"X": range(n_rows), name: column})
    if missing := sum(map(is_missing, column.tolist())):
        raise InputError(f"{name!r} is missing in {missing:,} of {n_rows:,} rows.")
    found = set(column.tolist())
    selected = 1 if found <= {0, 1} and positive not in (0, 1) else positive
    if len(found) == 1 or (len(found) == 2 and selected in found):
        return Decider(None, (column == selected).astype(np.float64))
    numbers = finite_numbers(values, name)
    if numbers is None:
        raise InputError(f"{name!r} is neither a classifier nor scores or decisions of the rows.")
    return Decider(np.asarray(numbers, np.float64))


def sees(one: Candidate, sensitive: tuple[Any, ...]) -> str:
    """Whether a model uses sensitive features when it decides: "no", "yes", "infers them" or "unknown"."""
    model = one.model
    if not hasattr(model, "predict"):
        return "unknown"
    if isinstance(model, FairPostprocessor):
        return "yes" if model.aware else "infers them"
    if getattr(model, "aware", False):
        return "yes"
    passed = {str(name) for name in set(sensitive) - set(one.without)}
    return "yes" if passed & {str(name) for name in getattr(model, "feature_names_in_", passed)} else "no"


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to train on, and where scores are kept.

    Attributes
    ----------
    X, y, sensitive : object
        Of all rows; only those in `rows` are trained on.
    hidden : tuple
        Sensitive columns of X.
    against : "groups" or mapping
        What a notion compares groups with.
    rows : array of int
    positive : object
        The positive label.
    folder : Path or None
        Scores of a model that was trained before are read from there.
    key : str
        Of the data, the split and the versions.
    """

    X: Any
    y: Any
    sensitive: dict[str, Any]
    hidden: tuple[Any, ...]
    against: Any
    rows: NDArray[np.intp]
    positive: Any
    folder: Path | None
    key: str

    def generated(self, learner: Any, *, ratio: float, search: Sequence[str]) -> Iterator[Candidate]:
        """Models to train: none of them sees or infers sensitive features when it decides.

        Parameters
        ----------
        learner : classifier
        ratio : float
            Impact ratio of the incumbent, from which the tolerances of fair training go to 1.
        search : sequence of str
            Kinds of models.

        Yields
        ------
        Candidate
        """
        hidden, params, against = self.hidden, learner.get_params(), self.against
        if "seeds" in search:
            yield Candidate("the same learner", "seeds", clone(learner), hidden)
            for name in [name for name in params if name.split("__")[-1] == "random_state"][-1:]:
                for seed in range(1, _SEEDS + 1):
                    model = clone(learner).set_params(**{name: seed})
                    yield Candidate(f"{name}={seed}", "seeds", model, hidden)
        for name, value in params.items() if "settings" in search else ():
            if name.split("__")[-1] in _SETTINGS and type(value) in (int, float):
                for other in dict.fromkeys((type(value)(value / 2), type(value)(value * 2))):
                    if 0 < other != value:
                        model = clone(learner).set_params(**{name: other})
                        yield Candidate(f"{name}={other:g}", "settings", model, hidden)
        kept = [name for name in column_names(self.X) if name not in hidden]
        for name in kept[:_MOST_FEATURES] if "features" in search and len(kept) > 1 else ():
            yield Candidate(f"without {name}", "features", clone(learner), (*hidden, name))
        path = [round(ratio + part * (1 - ratio), 4) for part in _PATH]
        for name, tolerance in {f"{each:.3g}": each for each in path}.items() if "fair" in search else ():
            notion = DemographicParity(ratio=tolerance, groups="independent", against=against)
            model = FairInprocessor(clone(learner), notion, max_fits=_FITS)
            yield Candidate(f"trained for a ratio of {name}", "fair", model, hidden)

    def read(self, one: Candidate, *, decides: bool = False) -> Decider:
        """Scores of a fitted model for all rows, and its decisions if these count.

        Parameters
        ----------
        one : Candidate
        decides : bool, default=False
            Whether the model's own decisions count; otherwise scores are cut.

        Returns
        -------
        Decider
        """
        model, count, positive = one.model, self.X.shape[0], self.positive
        if not hasattr(model, "predict"):
            return _of_column(model, one.name, count, positive)
        rows = drop_columns(self.X, one.without)
        made = _of_column(model.predict(rows), one.name, count, positive)
        decisions = made.decisions
        if decisions is None or isinstance(model, FairPostprocessor):  # whose probabilities are of decisions
            return made
        if hasattr(model, "predict_proba") and not isinstance(model, FairInprocessor):
            scores = np.asarray(model.predict_proba(rows))[:, -1]
        elif hasattr(model, "decision_function"):
            scores = np.asarray(model.decision_function(rows))
        else:
            return made
        last = getattr(model, "classes_", [positive])[-1] == positive
        return Decider((scores if last else -scores).astype(np.float64), decisions if decides else None)

    def decider(self, one: Candidate) -> Decider:
        """Scores of all rows by a model, which is trained unless it was."""
        # A classifier that is not scikit-learn's is fitted.
        fitted = not isinstance(one.model, BaseEstimator) or hasattr(one.model, "classes_")
        if not hasattr(one.model, "fit") or (one.kind == "given" and fitted):
            return self.read(one)
        if self.folder is None:
            return self.read(replace(one, model=self.fitted(one)))
        named = f"{self.key} {one.name} {one.without} {one.model!r} {one.model.get_params()!r}"
        place = self.folder / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.npy"
        with suppress(OSError, ValueError, EOFError):  # not there, or not whole: the model is trained
            return Decider(np.load(place, allow_pickle=False))
        found = self.read(replace(one, model=self.fitted(one)))
        if found.scores is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with written_at_once(place) as unfinished, unfinished.open("wb") as file:
                np.save(file, found.scores)
        return found

    def fitted(self, one: Candidate) -> Any:
        """A copy of the model, trained."""
        model, rows = without_columns(clone(one.model), column_names(self.X), one.without), self.rows
        X, y = take_rows(drop_columns(self.X, one.without), rows), np.asarray(self.y)[rows]
        given: dict[str, Any] = {}
        if isinstance(model, FairClassifier) and model.sensitive_features is None:
            given["sensitive_features"] = {name: column[rows] for name, column in self.sensitive.items()}
        with warnings.catch_warnings():  # what a model attains is measured
            warnings.simplefilter("ignore", EvenhandWarning)
            return model.fit(X, y, **given)


def without_columns(model: Any, names: Sequence[Any], without: Sequence[Any]) -> Any:
    """The model; its column transformers no longer ask for columns that are left out.

    Parameters
    ----------
    model : estimator
        Changed.
    names : sequence
        The columns of the table.
    without : sequence
        Those that are left out.

    Returns
    -------
    estimator
    """
    kept, places = [name for name in names if name not in without], np.arange(len(names))

    def left(asked: Any) -> Any:
        if callable(asked):
            return asked
        if isinstance(asked, str):
            return [] if asked in without else asked
        given = places[asked] if isinstance(asked, slice) else np.ravel(asked)
        if given.dtype.kind not in "iub":  # names
            return [name for name in given.tolist() if name not in without]
        return [kept.index(names[k]) for k in places[given].tolist() if names[k] not in without]

    for part in [model, *model.get_params().values()] if without else ():
        if isinstance(part, ColumnTransformer):
            asked = [(name, step, left(columns)) for name, step, columns in part.transformers]
            part.transformers = [one for one in asked if one[2] != []]
    return model


def learner_of(incumbent: Any, estimator: Any) -> Any:
    """What is trained: the estimator or, by default, a copy of the incumbent; None if it is no learner."""
    learner = incumbent if estimator is None else estimator
    learns = isinstance(learner, BaseEstimator) and is_classifier(learner)
    return clone(learner) if learns and not isinstance(learner, FairClassifier) else None
