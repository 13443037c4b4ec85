"""What differs between two decisions and several actions of a fitted classifier: an object for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.display.text import show
from evenhand.estimators.access import ModelInput
from evenhand.estimators.explanation import ActionExplanation, Explanation, read_words, strongest_reasons
from evenhand.estimators.limits import refused_with_actions
from evenhand.posteriors.contributions import label_contributions
from evenhand.requirements.constraints import ByName

if TYPE_CHECKING:
    from evenhand.estimators.postprocess import FairPostprocessor

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TwoDecisions:
    """For the positive label or against it, by the sign of H.

    Attributes
    ----------
    model : FairPostprocessor
    """

    model: FairPostprocessor

    def best(self, H: Floats) -> NDArray[Any]:
        """The decision of the least cost, given margins."""
        return H > 0

    def sure(self, H: Floats) -> Floats:
        """Its probability, which is 1, or those of all decisions."""
        return (H > 0).astype(np.float64)

    def label_probabilities(self, posteriors: Any) -> Floats:
        """P(Y=1 | x), or the probability of every label."""
        return np.asarray(posteriors.label())

    def unconstrained(self, posteriors: Any) -> Floats:
        """H of each row, or that of each action, without any requirement."""
        return np.asarray(posteriors.weighted(self._gains))

    def of_no_group(self, posteriors: Any, rows: NDArray[np.intp]) -> Floats:
        """The same for rows whose group was not seen, by the mean costs of the groups."""
        eta = posteriors.label()[rows] if len(rows) else np.empty(0)
        false_positive, false_negative = self.model.prices_.mean(axis=0)
        return np.asarray(false_negative * eta - false_positive * (1 - eta))

    @property
    def _gains(self) -> Floats:
        """What selecting a row of each cell gains, shape (M, 2)."""
        return self.model.prices_ * [-1.0, 1.0]

    def explained(
        self, visible: ModelInput, posteriors: Any, decided: Any, *, words: Any, outcome: Any, reasons: int
    ) -> list[Explanation]:
        """Decisions with the reasons for each; see :meth:`FairPostprocessor.explain`."""
        model, labels = self.model, self.model._labels
        words, p = read_words(words, labels), posteriors.dense()
        unseen, _ = model._unseen(visible, posteriors)
        p[unseen] = p[unseen].sum(axis=1, keepdims=True) / len(model.compared_)  # of no group in particular
        names, shifts = model._shifts()
        moved = p.reshape(len(p), -1) @ shifts.T
        moved[unseen] = 0.0  # decided by the costs alone
        groups = model.access_.added_columns(visible.X)
        contributions = partial(label_contributions, model.posterior_model_, visible.X)
        columns: dict[str, Iterable[Any]] = {
            "decision": [labels[positive] for positive in decided.tolist()],
            "risk": p[:, :, 1].sum(axis=1).tolist(),
            "margin": model._margins(visible, posteriors).tolist(),
            "probability": model._selection(visible, posteriors).tolist(),
            "unconstrained": [labels[H > 0] for H in np.tensordot(p, self._gains, axes=2).tolist()],
            "moved": [ByName(zip(names, own, strict=True)) for own in moved.tolist()],
            "reasons": strongest_reasons(contributions, decided, most=reasons, groups=groups),
        }
        same = {
            "positive": model.pos_label_,
            "words": words,
            "outcome": show(model.pos_label_ if outcome is None else outcome),
            "private": frozenset([groups[0], *model.groups_.features]),
        }
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return [Explanation(**row, **same) for row in rows]


class SeveralActions(TwoDecisions):
    """For the action with the largest sum."""

    def best(self, H: Floats) -> NDArray[Any]:
        """The number of the best action."""
        return np.asarray(H.argmax(axis=1))

    def sure(self, H: Floats) -> Floats:
        """1 for that action, 0 for the others."""
        return np.asarray(np.eye(H.shape[1])[H.argmax(axis=1)])

    def label_probabilities(self, posteriors: Any) -> Floats:
        """P(Y=1 | x) of two labels, otherwise shape (n, L)."""
        found = posteriors.sum(axis=1)
        return np.asarray(found[:, 1] if len(self.model.classes_) == 2 else found)

    def unconstrained(self, posteriors: Any) -> Floats:
        """Minus the expected costs."""
        return np.asarray(self.model.rule_.by_costs(posteriors))

    def of_no_group(self, posteriors: Any, rows: NDArray[np.intp]) -> Floats:
        """The same for some rows."""
        return self.unconstrained(posteriors[rows])

    def explained(
        self, visible: ModelInput, posteriors: Any, decided: Any, *, words: Any, outcome: Any, reasons: int
    ) -> list[Explanation]:
        """Decisions, each against the best other action or the one without any requirement."""
        if reasons:
            raise refused_with_actions("reasons")
        p, labels, names = posteriors, self.model._labels, self.model.rule_.actions
        words = read_words(words, self.model.actions_.tolist())
        if len(labels) > 2:
            outcome = "likeliest"
        elif outcome is None:
            outcome = labels[-1]
        H, place, free = self.model._margins(visible, p), np.arange(len(p)), self.unconstrained(p)
        others, best, chances = H.copy(), free.argmax(axis=1), self.model.rule_.selection(p)
        others[place, decided] = -np.inf
        against = np.where(best == decided, others.argmax(axis=1), best)
        constraints, shifts = self.model._shifts()
        tables = shifts.reshape(-1, *self.model.rule_.table.shape)
        moved = np.array([np.einsum("nml,mlk->nk", p, table) for table in tables])
        moved = (moved[:, place, decided] - moved[:, place, against]).T
        moved[(free == H).all(axis=1)] = 0.0  # decided by the costs alone
        of_label = p.sum(axis=1)
        return [
            ActionExplanation(
                decision=names[decided[k]],
                risk=float(of_label[k, -1] if len(labels) == 2 else of_label[k].max()),
                margin=float(H[k, decided[k]] - H[k, against[k]]),
                probability=float(chances[k, decided[k]]),
                unconstrained=names[best[k]],
                moved=ByName(zip(constraints, moved[k].tolist(), strict=True)),
                positive=names[decided[k]],
                words=words,
                outcome=show(outcome),
                reasons={},
                against=words[names[against[k]]],
                labels=dict(zip(labels, of_label[k].tolist(), strict=True)),
            )
            for k in place.tolist()
        ]
