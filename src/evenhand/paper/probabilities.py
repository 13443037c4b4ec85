"""What both algorithms begin with: estimates of eta(x), of P(S, Y | x), and so of gamma(x)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from evenhand.data.features import take_rows
from evenhand.posteriors.learner import Learner, fit_learner

Floats = NDArray[np.float64]
Balance = Literal["weight", "upsample"]

_BINS = 40
_PRIOR = 1.0  # "40 bins and a prior strength of 1" (Appendix, Calibration)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: what models see of them, Y, S, eta(x), and P(E_{y,m} | x) of shape (n, M, 2)."""

    X: Any
    positive: NDArray[np.bool_]
    codes: NDArray[np.intp]
    eta: Floats
    cells: Floats

    @property
    def events(self) -> Floats:
        """1[E_{y,m}] of every row, shape (n, 2 M)."""
        return np.asarray(np.eye(self.cells[0].size)[2 * self.codes + self.positive])


@dataclass(frozen=True, eq=False)
class Halves:
    """The half that models are fitted to, the half that lambda is selected on, and the models."""

    fitted: Rows
    choosing: Rows
    model: ProbabilityModel

    @property
    def masses(self) -> Floats:
        """P(E_{y,m}) among the rows that models are fitted to, shape (M, 2)."""
        return np.asarray(self.fitted.events.mean(axis=0).reshape(-1, 2))


@dataclass(frozen=True, eq=False)
class ProbabilityModel:
    """Estimates of eta(x), and of the group membership probabilities P(S, Y | x).

    Attributes
    ----------
    label : Learner
        Of Y: Algorithm 2, line 1.
    cells : Learner or None
        Of (S, Y), as one multi-class predictor: Algorithm 1, line 1, and Algorithm 2, line 2. None in the
        attribute-aware setting, where P(S=m, Y | x, s) = P(Y | x, s) 1[m = s].
    correction : array, shape (2 M,)
        Turns probabilities of a balanced population back into those of the population.
    bins : dict of Bins
        The calibration of each cell.
    """

    label: Learner
    cells: Learner | None
    correction: Floats
    bins: dict[tuple[int, ...], Bins] = field(default_factory=dict)

    def rows(self, X: Any, positive: NDArray[np.bool_], codes: NDArray[np.intp]) -> Rows:
        """Rows with their probabilities, which depend on `codes` in the attribute-aware setting only."""
        eta = self.label.proba(X)[:, 1]
        if self.cells is None:
            p = np.zeros((len(eta), len(self.correction) // 2, 2))
            p[np.arange(len(eta)), codes] = np.column_stack([1 - eta, eta])
        else:
            p = (self.cells.proba(X) * self.correction).reshape(len(eta), -1, 2)
        for (m, y), curve in self.bins.items():
            possible = p[:, m].any(axis=1)
            p[possible, m, y] = curve(p[possible, m, y])
        return Rows(X, positive, codes, eta, p / p.sum(axis=(1, 2), keepdims=True))

    def calibrated(self, rows: Rows) -> ProbabilityModel:
        """The model with each cell in bins, among the rows that may belong to its group."""
        bins: dict[tuple[int, ...], Bins] = {}
        for m, y in np.ndindex(rows.cells.shape[1:]):
            some = np.flatnonzero(rows.cells[:, m].any(axis=1))
            if len(some):
                bins[m, y] = Bins.fit(rows.cells[some, m, y], rows.events[some, 2 * m + y])
        return replace(self, bins=bins)


@dataclass(frozen=True, eq=False)
class Bins:
    """A step function of a probability: the share of an event in each of 40 bins of equal count."""

    edges: Floats
    values: Floats

    @classmethod
    def fit(cls, p: Floats, event: Floats) -> Bins:
        """Shares of the event, with a row at the bin's mean probability added to each bin."""
        edges = np.unique(np.quantile(p, np.linspace(0, 1, _BINS + 1)[1:-1]))
        bins = np.searchsorted(edges, p, side="right")
        count, hits, sums = (np.bincount(bins, by, len(edges) + 1) for by in (np.ones(len(p)), event, p))
        middle = np.divide(sums, count, out=np.append(edges, edges[-1]), where=count > 0)
        return cls(edges, (hits + _PRIOR * middle) / (count + _PRIOR))

    def __call__(self, p: Floats) -> Floats:
        """The calibrated probability."""
        return np.asarray(self.values[np.searchsorted(self.edges, p, side="right")])


def fit_cells(
    estimator: Any, X: Any, cells: NDArray[np.intp], n_cells: int, *, balance: Balance | None, rng: Generator
) -> tuple[Learner, Floats]:
    """A model of the cells 2 m + y, and the correction for balancing.

    "Up-sampling can help ensure better estimates for small subgroups" (Appendix, on sparsity): cells below
    half of an even share are raised to it, by weights or by drawing rows again.
    """
    counts = np.bincount(cells, minlength=n_cells)
    factor = np.maximum(1.0, len(cells) / (2 * n_cells * np.maximum(counts, 1)))
    drawn, weights, correction = np.arange(len(cells)), None, np.ones(n_cells)
    if balance == "weight":
        weights, correction = factor[cells], 1 / factor
    elif balance == "upsample":
        more = np.round((factor - 1) * counts).astype(int)
        again = [rng.choice(np.flatnonzero(cells == k), more[k]) for k in np.flatnonzero(more)]
        drawn, correction = np.concatenate([drawn, *again]), counts / np.maximum(counts + more, 1)
    X, cells, what = take_rows(X, drawn), cells[drawn], "groups and labels"
    return fit_learner(estimator, X, cells, n_classes=n_cells, weights=weights, what=what), correction
