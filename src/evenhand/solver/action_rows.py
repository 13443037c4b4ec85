"""Rows for each of which one of several actions is chosen, or a mixture of them.

With K actions the sums are s[d, a] = sum of w_i p_i[d] pi_i[a], where pi_i is a point of the simplex: the
share of each action. For a direction v, a table V of shape (D, K), the best action of a row has the largest
entry of h = p V. For K = 2 that is the sign of a difference, and everything is as in ``dense.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows, Index, exact_sum, tie_width
from evenhand.solver.oracle import Smoothed, Totals, Vector

Floats = NDArray[np.float64]
_BITS = 16
"""With fewer actions, a set of them is a number that sorts fast. More may collide, which slows Newton."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The action of each row, and mixtures of actions for some rows.

    Attributes
    ----------
    best : array of int, shape (n,)
    margins : array, shape (n,)
        By how much h of the best action is above that of the second best.
    index : array of int, shape (k,)
        Rows whose mixture was given.
    mixtures : array, shape (k, K)
    """

    best: NDArray[np.intp]
    margins: Vector
    index: NDArray[np.intp]
    mixtures: Floats

    def dense(self) -> Floats:
        """The probability of each action for each row, shape (n, K)."""
        found = np.zeros((len(self.best), self.mixtures.shape[1]))
        found[np.arange(len(found)), self.best] = 1.0
        found[self.index] = self.mixtures
        return found


class ActionRows(DenseRows):
    """Rows of an array of shape (n, D) or (n, M, L), with K actions for each.

    Columns of sums are those of the table, row by row; then one for the scores, if rows have any; then one
    for each scalar.

    Parameters
    ----------
    rows : array
        The vectors p.
    weights : array, shape (n,), or None
        Weights that sum to 1, unless `base` stands for the rest; None is 1/n each.
    n_actions : int
        K.
    scores : array, shape (n, K), optional
        What each action of a row is worth besides h; minus infinity if it is not allowed.
    scalars : int, default=0
        Number of scalars (:mod:`evenhand.solver.scalars`).
    candidates : array of bool, shape (n, K), optional
        The actions that a linear program chooses from; by default all.
    masses : array, optional
        Sums of the columns, if they are known.
    **more
        `base`, the sums over further rows that are decided and not held here, and `index`, which rows of
        another oracle these are.

    Examples
    --------
    >>> import numpy as np
    >>> rows = ActionRows(np.array([[0.2, 0.8], [0.7, 0.3]]), None, 3)
    >>> table = np.array([[1.0, 0.0, 0.6], [0.0, 1.0, 0.6]])
    >>> rows.totals(table.ravel()).selection.dense()
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """

    def __init__(
        self,
        rows: NDArray[Any],
        weights: Vector | None,
        n_actions: int,
        *,
        scores: Floats | None = None,
        scalars: int = 0,
        candidates: NDArray[np.bool_] | None = None,
        masses: Vector | None = None,
        **more: Any,
    ) -> None:
        self.n_actions, self.own_scores, self.scalars = n_actions, scores, scalars
        self.candidates, self._masses = candidates, masses
        self.width = math.prod(rows.shape[1:])
        if weights is None:  # without memory of their own
            weights = np.broadcast_to(1.0 / max(1, len(rows)), len(rows))
        super().__init__(rows, weights, **more)

    def with_scalars(self, scalars: int) -> ActionRows:
        """The same rows with another number of scalars."""
        return ActionRows(self.rows, self.weights, self.n_actions, scalars=scalars, masses=self._masses)

    @property
    def n_columns(self) -> int:
        """Length of the sums."""
        return self.width * self.n_actions + (self.own_scores is not None) + self.scalars

    @property
    def masses(self) -> Vector:
        """Sums of the columns of all rows, whatever their actions."""
        if self._masses is not None:
            return self._masses
        size = self.width * self.n_actions
        held = exact_sum([self.weights_of(where) @ self.take(where) for where in self.blocks()])
        return np.asarray(held + self.base[:size].reshape(self.width, -1).sum(axis=1))

    def values_of(self, index: Index, v: Vector) -> tuple[Floats, Floats]:
        """Some rows, and h of each of their actions, shape (K, k)."""
        block = self.take(index)
        h = v[: self.width * self.n_actions].reshape(self.width, -1).T @ block.T
        return block, h if self.own_scores is None else h + self.own_scores[index].T

    def scores(self, v: Vector) -> Vector:
        """By how much the best action of each row is above the second best."""
        return self._best(v)[1]

    def sides(self, v: Vector) -> NDArray[Any]:
        """The best action of each row."""
        return self._best(v)[0]

    def apart(self, v: Vector, sides: NDArray[Any]) -> Vector:
        """By how much given actions are above the best of the others; negative if they are not the best."""
        found = np.empty(self.n_rows)
        for where in self.blocks():
            h = self.values_of(where, v)[1]
            own = sides[where], np.arange(h.shape[1])
            value, h[own] = h[own].copy(), -np.inf
            found[where] = value - h.max(axis=0)
        return found

    def _best(self, v: Vector) -> tuple[NDArray[np.intp], Vector]:
        best, margins = np.empty(self.n_rows, np.intp), np.empty(self.n_rows)
        for where in self.blocks():
            best[where], top, second = top_two(self.values_of(where, v)[1])
            margins[where] = top - second
        return best, margins

    def _decided(self, where: Index, v: Vector) -> tuple[Floats, Floats, tuple[Any, Vector, Vector], Floats]:
        """Some rows, h, its `top_two`, and the best actions as shares, shape (K, k)."""
        block, h = self.values_of(where, v)
        two = top_two(h)
        return block, h, two, (two[0] == np.arange(self.n_actions)[:, None]).astype(np.float64)

    def _sums(self, block: Floats, shares: Floats, index: Index) -> Vector:
        """Sums over a block of rows, from the weighted share of each action, shape (K, k)."""
        sums = (shares @ block).T.ravel()
        if self.own_scores is not None:
            own = self.own_scores[index].T
            sums = np.append(sums, np.where(shares > 0, own, 0.0).ravel() @ shares.ravel())
        return np.append(sums, np.zeros(self.scalars))

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, with the maximum over actions smoothed where two are within `width`.

        The smoothed maximum is the largest ``<pi, h> + width (1 - |pi|^2) / 2`` over the simplex; its
        gradient is the projection of h / width. Where two actions are near, that is the ramp of
        ``dense.py``.
        """
        value, sums = float(v @ self.base), self.base.copy()
        D, K = self.width, self.n_actions
        hessian = np.zeros((self.n_columns, self.n_columns))
        outer: dict[bytes, Floats] = {}
        for where in self.blocks():
            block, h, (_, top, second), shares = self._decided(where, v)
            weights = self.weights_of(where)
            inside = np.flatnonzero(top - second < width)
            near, own = h[:, inside], weights[inside]
            mixed = shares[:, inside] = on_simplex(near / width)
            kept = np.where(mixed > 0, near, 0.0)
            top[inside] = (mixed * kept).sum(axis=0) + 0.5 * width * (1 - (mixed * mixed).sum(axis=0))
            value += float(weights @ top)
            sums += self._sums(block, shares * weights, where)
            # Rows with the same actions in their mixture share a projection onto differences of these.
            active = mixed > 0
            code = ((1 << np.arange(K) % _BITS) @ active).astype(np.uint16 if K < _BITS else np.int64)
            order = np.argsort(code, kind="stable")
            close, heavy = block[inside[order]], own[order, None]
            cuts = np.flatnonzero(np.diff(code[order], prepend=-1, append=-1)).tolist()
            for first, last in pairwise(cuts):
                key = active[:, order[first]].tobytes()
                part = (close[first:last] * heavy[first:last]).T @ close[first:last]
                outer[key] = outer[key] + part if key in outer else part
        for key, part in outer.items():
            actions = np.flatnonzero(np.frombuffer(key, np.bool_))
            spread = np.eye(len(actions)) - 1 / len(actions)
            place = (K * np.arange(D)[:, None] + actions).ravel()
            own = np.einsum("de,ab->daeb", part, spread).reshape(len(place), -1) / width
            hessian[np.ix_(place, place)] += own
        t = v[len(v) - self.scalars :]
        z = np.clip((t + width) / (2 * width), 0.0, 1.0)
        value += float(np.where(z < 1, width * z * z, t).sum())
        sums[len(v) - self.scalars :] += z
        place = np.arange(len(v) - self.scalars, len(v))
        hessian[place, place] = ((z > 0) & (z < 1)) / (2 * width)
        return Smoothed(value, sums, hessian)

    def near(self, v: Vector, count: int) -> ActionRows:
        """Take the `count` rows whose two best actions are nearest; the others take their best action."""
        margins, parts = np.empty(self.n_rows), [self.base]
        for where in self.blocks():
            block, _, (_, top, second), shares = self._decided(where, v)
            margins[where] = top - second
            shares *= self.weights_of(where)
            parts.append(self._sums(block, shares, where))
        count = min(count, self.n_rows)
        chosen = np.sort(np.argpartition(margins, count - 1)[:count])
        block, h, _, shares = self._decided(chosen, v)
        parts.append(-self._sums(block, shares * self.weights_of(chosen), chosen))
        near = None
        if count < self.n_rows:
            near = (h >= h.max(axis=0) - float(margins[chosen].max())).T
        return self._some(chosen, base=exact_sum(parts), index=self.index[chosen], candidates=near)

    def _some(self, chosen: NDArray[np.intp], factor: float = 1.0, **more: Any) -> ActionRows:
        """Some of the rows, with weights times a factor."""
        return ActionRows(
            self.take(chosen),
            factor * self.weights_of(chosen),
            self.n_actions,
            scores=None if self.own_scores is None else self.own_scores[chosen],
            scalars=self.scalars,
            **more,
        )

    def totals(self, v: Vector, given: DenseRows | None = None, values: Any = None) -> Totals:
        """Sum over all rows without smoothing, with the mixtures of some rows, and scalars, given.

        `values` are the mixtures, shape (k, K), and the scalars. Without them both follow from v.
        """
        index = np.empty(0, np.intp) if given is None else given.index
        t = v[len(v) - self.scalars :]
        mixtures, scalars = (np.empty((0, self.n_actions)), (t > 0) * 1.0) if values is None else values
        best, margins = np.empty(self.n_rows, np.intp), np.empty(self.n_rows)
        parts, positive = [self.base], [float(v @ self.base), float(np.maximum(t, 0.0).sum())]
        for where in self.blocks():
            block, _, (best[where], top, second), shares = self._decided(where, v)
            weights = self.weights_of(where)
            margins[where] = top - second
            first, last = np.searchsorted(index, (where.start, where.stop))
            shares[:, index[first:last] - where.start] = mixtures[first:last].T
            positive.append(float(weights @ top))
            shares *= weights
            parts.append(self._sums(block, shares, where))
        sums = exact_sum(parts)
        sums[len(v) - self.scalars :] += scalars
        ties = margins <= tie_width(v)
        ties[index] = False
        chosen = Chosen(best, margins, index, mixtures)
        return Totals(math.fsum(positive), sums, chosen, int(np.count_nonzero(ties)))

    def mixed(self, mixtures: Floats) -> Vector:
        """Sums over all rows with given mixtures, shape (n, K)."""
        parts = [self.base]
        for where in self.blocks():
            shares = mixtures[where].T * self.weights_of(where)
            parts.append(self._sums(self.take(where), shares, where))
        return exact_sum(parts)

    def effects(self, A: Floats, index: Index) -> tuple[Vector, Vector]:
        """The largest effect that the action of one of some rows has on each bound, and its largest terms."""
        block, D, K = self.take(index), self.width, self.n_actions
        tables = A[:, : D * K].reshape(len(A), D, K)
        effect, terms = np.zeros(len(A)), np.zeros(len(A))
        for a in range(K):
            effect = np.maximum(effect, np.abs(block @ tables[:, :, a].T).max(axis=0, initial=0.0))
            terms = np.maximum(terms, (block @ np.abs(tables[:, :, a]).T).max(axis=0, initial=0.0))
        return effect, terms


def top_two(h: Floats) -> tuple[NDArray[np.intp], Vector, Vector]:
    """The best action of each column, its value, and the value of the second best; the first one if they tie.

    Examples
    --------
    >>> top_two(np.array([[1.0, 5.0], [3.0, 2.0], [2.0, 5.0]]))
    (array([1, 0]), array([3., 5.]), array([2., 5.]))
    """
    best = np.zeros(h.shape[1], np.intp)
    top, second = h[0].copy(), np.full(h.shape[1], -np.inf)
    for a in range(1, len(h)):
        np.maximum(second, np.minimum(top, h[a]), out=second)
        np.putmask(best, h[a] > top, a)
        np.maximum(top, h[a], out=top)
    return best, top, second


def on_simplex(x: Floats) -> Floats:
    """Each column projected onto the simplex.

    Examples
    --------
    >>> on_simplex(np.array([[2.0, 0.5], [0.0, 0.25], [0.0, -3.0]]))
    array([[1.   , 0.625],
           [0.   , 0.375],
           [0.   , 0.   ]])
    """
    x = x - x.max(axis=0)  # projects to the same point, also where 1 is less than the rounding of x
    ordered = -np.sort(-x, axis=0)
    excess = np.cumsum(ordered, axis=0) - 1.0
    rank = np.arange(1, len(x) + 1)[:, None]
    count = np.count_nonzero(ordered * rank > excess, axis=0)
    level = excess[count - 1, np.arange(x.shape[1])] / count
    return np.asarray(np.maximum(x - level, 0.0))
