"""The optimal choice among several actions as a rule: a table W, and what to do where actions tie."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from evenhand.exceptions import InputError
from evenhand.optimum.rule import hashed_uniforms
from evenhand.optimum.rule_format import read, write
from evenhand.solver.dense import as_float64
from evenhand.solver.oracle import ROUNDING

Floats = NDArray[np.float64]

_SURE = 1e-9
"""Least expected regret in the second score: smaller ones are alike."""
_BLOCK = 1 << 14


def regret_score(costs: Floats) -> Callable[[Floats], Floats]:
    """The second score of actions: minus the logarithm of the expected regret of each.

    The regret is what an action costs more than the best one for the label. Actions that cost the same must
    differ too, by what no table can undo: so the score of action a of K is multiplied by 1 + a / K.

    Parameters
    ----------
    costs : array, shape (L, K)

    Returns
    -------
    function
        Of rows of shape (n, M, L) or (n, M L); its values have shape (n, K).

    Examples
    --------
    >>> regret_score(1.0 - np.eye(2))(np.array([[[0.5, 0.5]]])).round(3).tolist()
    [[0.693, 1.04]]
    """
    regret = costs - costs.min(axis=1, keepdims=True)
    regret = regret / (regret.max() or 1.0)

    def score(rows: Floats) -> Floats:
        groups = math.prod(rows.shape[1:]) // len(costs)
        label = rows.reshape(len(rows), groups, len(costs)).sum(axis=1)
        return np.asarray(
            -np.log(_SURE + label @ regret) * (1 + np.arange(regret.shape[1]) / regret.shape[1])
        )

    return score


@dataclass(frozen=True, eq=False)
class ActionRule:
    """Take the action with the largest sum of W[m, y, a] p[m, y](x); where several tie, by a second score.

    The second score is minus the logarithm of the expected regret of an action, plus the sum of
    V[m, y, a] p[m, y](x). Only single posteriors, where several actions are the best by both, are decided at
    random.

    Attributes
    ----------
    table : array, shape (M, L, K)
        W.
    costs : array, shape (L, K)
    actions : tuple
        Their names.
    ties : array, shape (M, L, K), or None
        V; None where no two different rows of the fit were tied. Others that tie take the first best action.
    atoms : array, shape (k, M, L)
        Posteriors with probabilities of their own.
    chances : array, shape (k, K)
        The probability of each action at each atom.
    unit : float
        Size of costs. Actions tie if their sums are the same up to rounding, relative to their terms and to
        this.
    resolution : float
        Distance within which a posterior is taken for an atom.
    key : str
        Hash key of randomised decisions.

    Examples
    --------
    >>> rule = ActionRule(-1.0 + np.eye(3)[None], 1.0 - np.eye(3), ("low", "middle", "high"))
    >>> rule.selection(np.array([[[0.2, 0.5, 0.3]]]))
    array([[0., 1., 0.]])
    """

    table: Floats
    costs: Floats
    actions: tuple[Any, ...]
    ties: Floats | None = None
    atoms: Floats | None = None
    chances: Floats | None = None
    unit: float = 1.0
    resolution: float = 0.0
    key: str = ""
    steps: ClassVar[None] = None
    """Known groups have none: several actions are decided by the table."""

    def __repr__(self) -> str:
        M, L, K = self.table.shape
        randomised = ", randomised" if self.randomises else ""
        return f"<Rule for {M:,} groups, {L} labels and {K} actions{randomised}>"

    @property
    def randomises(self) -> bool:
        """Whether chance has a part in some decisions."""
        return self.chances is not None and bool(((self.chances > 0) & (self.chances < 1)).any())

    def with_key(self, key: str) -> Self:
        """The same rule with another key of randomised decisions."""
        return replace(self, key=key)

    def by_costs(self, posteriors: Floats) -> Floats:
        """Minus the expected cost of each action, shape (n, K), without any requirement."""
        return np.asarray(-(posteriors.sum(axis=1) @ self.costs))

    def to_json(self) -> str:
        """The rule as text, to the last digit.

        Examples
        --------
        >>> rule = ActionRule(-1.0 + np.eye(3)[None], 1.0 - np.eye(3), ("low", "middle", "high"))
        >>> ActionRule.from_json(rule.to_json()).to_json() == rule.to_json()
        True
        """
        return write(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of :meth:`to_json`."""
        return cls(**read(text, actions=True))

    def margins(self, posteriors: Any) -> Floats:
        """The sums that are compared, shape (n, K)."""
        rows = np.asarray(posteriors)
        if rows.ndim != 3 or rows.shape[1:] != self.table.shape[:2]:
            raise InputError(
                f"the rule is for posteriors of shape (n, {self.table.shape[0]}, {self.table.shape[1]}), got "
                f"{rows.shape}."
            )
        found = as_float64(rows) @ self._flat(self.table)
        unknown = int(np.count_nonzero(np.isnan(found).any(axis=1)))
        if unknown:
            raise InputError(f"posteriors are NaN in {unknown:,} of {len(rows):,} rows.")
        return np.asarray(found)

    def selection(self, posteriors: Any) -> Floats:
        """Probability of each action for each row, shape (n, K).

        Parameters
        ----------
        posteriors : array, shape (n, M, L)
        """
        rows = np.asarray(posteriors)
        parts = [self._selected(rows[k : k + _BLOCK]) for k in range(0, len(rows), _BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.actions)))

    def _selected(self, posteriors: NDArray[Any]) -> Floats:
        H, rows = self.margins(posteriors), as_float64(posteriors)
        best = self.decided(rows, H)
        found = np.zeros_like(H)
        found[np.arange(len(H)), best] = 1.0
        if self.atoms is not None and self.chances is not None and len(self.atoms):
            # Rows with the largest sum of some atom: no others can be atoms.
            own = np.sort((self.atoms.reshape(len(self.atoms), -1) @ self._flat(self.table)).max(axis=1))
            top = H.max(axis=1)
            width = ROUNDING * self._size + self.resolution * float(np.abs(self.table).sum(axis=(0, 1)).max())
            places = np.searchsorted(own, top)
            beside = [np.abs(top - own[np.clip(places - k, 0, len(own) - 1)]) <= width for k in (0, 1)]
            near = np.flatnonzero(beside[0] | beside[1])
            tree = KDTree(self.atoms.reshape(len(self.atoms), -1))
            beyond = np.nextafter(self.resolution, np.inf)
            distance, atom = tree.query(rows[near], p=np.inf, distance_upper_bound=beyond)
            known = np.isfinite(distance)
            found[near[known]] = self.chances[np.asarray(atom)[known]]
        return found

    def decided(self, rows: Floats, H: Floats) -> NDArray[np.intp]:
        """The best action of each row by the two scores alone; the first one where the last digits decide."""
        best = np.asarray(H.argmax(axis=1))
        top = H.max(axis=1, keepdims=True)
        close = np.flatnonzero((top - H <= ROUNDING * self._size).sum(axis=1) > 1)
        here = rows[close]
        terms = np.maximum(self.unit, (here @ np.abs(self._flat(self.table))).max(axis=1, keepdims=True))
        second, rounding = np.zeros((len(close), H.shape[1])), ROUNDING
        if self.ties is not None:
            score, ties = regret_score(self.costs)(here), self._flat(self.ties)
            second = score + here @ ties
            rounding = ROUNDING * (1 + (np.abs(score) + here @ np.abs(ties)).max(axis=1, keepdims=True))
        second = np.where(top[close] - H[close] <= ROUNDING * terms, second, -np.inf)
        best[close] = (second >= second.max(axis=1, keepdims=True) - rounding).argmax(axis=1)
        return best

    @property
    def _size(self) -> float:
        return max(self.unit, float(np.abs(self.table).max()))

    @staticmethod
    def _flat(table: Floats) -> Floats:
        return table.reshape(-1, table.shape[-1])

    def decide(
        self, posteriors: Any, tokens: Callable[[NDArray[np.intp]], Sequence[bytes]]
    ) -> NDArray[np.intp]:
        """The action of each row, by its number; the same person gets the same one every time.

        Parameters
        ----------
        posteriors : array, shape (n, M, L)
        tokens : function
            For the numbers of some rows, the bytes that identify each person.

        Returns
        -------
        array of int, shape (n,)
        """
        selection = self.selection(posteriors)
        chosen = np.asarray(selection.argmax(axis=1))
        mixed = np.flatnonzero((selection > 0).sum(axis=1) > 1)
        if len(mixed):
            shares = np.cumsum(selection[mixed], axis=1)
            drawn = hashed_uniforms(tokens(mixed), self.key)[:, None] * shares[:, -1:]
            chosen[mixed] = (shares <= drawn).sum(axis=1)
        return chosen
