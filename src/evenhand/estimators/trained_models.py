"""What training gives besides one classifier: thresholds for known groups, and mixtures of classifiers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.features import last_columns
from evenhand.data.row_keys import id_column, row_keys
from evenhand.optimum.rule import hashed_uniforms
from evenhand.posteriors.learner import Learner

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """A classifier with a threshold on its score for each known group.

    Attributes
    ----------
    learner : Learner
        The classifier.
    thresholds : array, shape (M,)
        A row is selected if its score is above the threshold of its group. The last M columns of X tell the
        group by 0 and 1; a row of none of them has the classifier's own threshold, 0.
    """

    learner: Learner
    thresholds: Floats

    def __repr__(self) -> str:
        return f"<{type(self.learner.model).__name__} with {len(self.thresholds)} thresholds>"

    def score(self, X: Any) -> Floats:
        """By how much the score of each row is above its threshold."""
        indicators = last_columns(X, len(self.thresholds)).astype(np.bool_)
        codes = np.where(indicators.any(axis=1), indicators.argmax(axis=1), -1)
        return np.asarray(self.learner.score(X) - np.append(self.thresholds, 0.0)[codes])

    decision_function = score  # scikit-learn's name

    def choose(self, X: Any) -> NDArray[np.intp]:
        """The decision for each row, 0 or 1."""
        return (self.score(X) > 0).astype(np.intp)

    predict = choose  # likewise

    def selection(self, X: Any) -> Floats:
        """Probability of deciding 1, which is 0 or 1 here."""
        return self.choose(X).astype(np.float64)


Alone = Learner | GroupThresholds
"""What decides alone."""


@dataclass(frozen=True, eq=False)
class ClassifierMixture:
    """A few classifiers with weights: each person is decided by one of them, chosen at random but for good.

    Which one it is depends on a keyed hash of the person's row, or of an id, so that the same person gets the
    same decision every time and on every machine. It is what ``FairInprocessor(randomize=True)`` trains.

    Attributes
    ----------
    members : tuple of Learner and GroupThresholds
        The classifiers; a :class:`Learner` without a model decides everybody alike.
    weights : array
        Share of the people that each decides; they sum to 1.
    key : str, default=""
        Of the hash.

    Examples
    --------
    >>> import numpy as np
    >>> nobody, everybody = (Learner(None, np.array([y]), 2) for y in (0, 1))
    >>> mixture = ClassifierMixture((nobody, everybody), np.array([0.75, 0.25]))
    >>> mixture.predict_proba(np.zeros((1, 3)))
    array([[0.75, 0.25]])
    >>> people = np.random.default_rng(0).normal(size=(1000, 3))
    >>> bool(abs(mixture.predict(people).mean() - 0.25) < 0.05)
    True
    """

    members: tuple[Alone, ...]
    weights: Floats
    key: str = ""

    def __repr__(self) -> str:
        return f"<ClassifierMixture of {len(self.members)} classifiers>"

    def decisions(self, X: Any) -> Floats:
        """The decision of each classifier for each row, shape (classifiers, n)."""
        return np.array([one.selection(X) for one in self.members])

    def selection(self, X: Any) -> Floats:
        """Probability of deciding 1 for each row, over the choice of the classifier."""
        parts = self.weights[:, None] * self.decisions(X)
        # Added one by one: a matrix product adds in another order where there are other rows beside a row.
        return np.asarray(np.clip(functools.reduce(np.add, parts), 0.0, 1.0))

    def score(self, X: Any) -> Floats:
        """The same minus a half."""
        return self.selection(X) - 0.5

    decision_function = score  # scikit-learn's name

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each decision, shape (n, 2)."""
        chosen = self.selection(X)
        return np.column_stack([1 - chosen, chosen])

    def choose(self, X: Any, ids: Any = None) -> NDArray[np.intp]:
        """The decision for each row, 0 or 1, by the classifier that is drawn for the person.

        Parameters
        ----------
        X : table or matrix
        ids : array or series, default=None
            What identifies a person. By default the row of X.

        Returns
        -------
        array of int, shape (n,)
        """
        decisions = self.decisions(X)
        return self.drawn(decisions, X if ids is None else id_column(ids, decisions.shape[1]))

    def drawn(self, decisions: Floats, identity: Any) -> NDArray[np.intp]:
        """The decision for each row, given those of each classifier and what identifies the rows."""
        chosen = decisions[0] == 1
        open_rows = np.flatnonzero((decisions != decisions[0]).any(axis=0))
        if len(open_rows):
            uniforms = hashed_uniforms(row_keys(identity, open_rows), self.key)
            member = np.searchsorted(np.cumsum(self.weights)[:-1], uniforms, side="right")
            chosen[open_rows] = decisions[member, open_rows] == 1
        return np.asarray(chosen, dtype=np.intp)

    predict = choose  # likewise


TrainedModel = Alone | ClassifierMixture
