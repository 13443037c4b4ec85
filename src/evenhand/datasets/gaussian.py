"""A synthetic problem with a normal feature and closed-form posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a problem.

    Attributes
    ----------
    X : array, shape (n, 1)
    y : array of 0 and 1, shape (n,)
    codes : array of int, shape (n,)
        The group of each row.
    sensitive : dict of arrays
        The sensitive features of each row, by name.
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    codes: NDArray[np.int64]
    sensitive: dict[str, NDArray[Any]]

    @classmethod
    def of(cls, X: NDArray[Any], cells: NDArray[np.int64], groups: Groups) -> Self:
        """A sample with given features and cells, numbered ``2 m + y``."""
        codes, y = np.divmod(cells, 2)
        values = []
        for column in zip(*groups.keys, strict=True):
            alike = len({type(value) for value in column}) == 1
            values.append(np.array(column, dtype=None if alike else object))
        sensitive = {name: column[codes] for name, column in zip(groups.features, values, strict=True)}
        return cls(np.asarray(X, dtype=np.float64).reshape(-1, 1), y, codes, sensitive)


@dataclass(frozen=True, eq=False)
class GaussianProblem:
    """A normal feature with known posteriors.

    Parameters
    ----------
    masses : array, shape (M, 2)
        P(S=m, Y=y), all positive.
    means : array, shape (M, 2)
        Mean of the feature in each cell.
    groups : Groups
        Names of the M groups.
    scale : float, default=1.0
        Common standard deviation.

    Examples
    --------
    >>> problem = GaussianProblem.random(levels=(2,), seed=0)
    >>> data = problem.sample(1000)
    >>> data.X.shape, list(data.sensitive), problem.posteriors(data.X).shape
    ((1000, 1), ['A1'], (1000, 2, 2))
    """

    masses: NDArray[np.float64]
    means: NDArray[np.float64]
    groups: Groups
    scale: float = 1.0

    def __post_init__(self) -> None:
        shape = (len(self.groups), 2)
        if self.masses.shape != shape or self.means.shape != shape:
            raise InputError(f"masses and means must have shape {shape}.")
        if (self.masses <= 0).any() or not np.isclose(self.masses.sum(), 1):
            raise InputError("masses must be positive and sum to 1.")
        if not np.isfinite(self.means).all() or not self.scale > 0:
            raise InputError("means must be finite and scale positive.")

    @classmethod
    def random(
        cls, *, levels: Sequence[int] = (2,), separation: float = 1.5, seed: int | np.random.Generator = 0
    ) -> Self:
        """A random problem: masses from a Dirichlet distribution, means that differ by group and label.

        Parameters
        ----------
        levels : sequence of int, default=(2,)
            Number of values of each sensitive feature; M is their product.
        separation : float, default=1.5
            Distance between the means of the two labels.
        seed : int or Generator, default=0

        Returns
        -------
        GaussianProblem
        """
        rng = np.random.default_rng(seed)
        groups = Groups.product({f"A{k + 1}": range(size) for k, size in enumerate(levels)})
        masses = rng.dirichlet(np.full(2 * len(groups), 5.0)).reshape(-1, 2)
        shift = rng.normal(0.0, 0.7, size=(len(groups), 1))
        return cls(masses, shift + separation * np.array([-0.5, 0.5]), groups)

    def _log_joint(self, x: ArrayLike) -> NDArray[np.float64]:
        """Log of P(S=m, Y=y) times the density at x, up to a constant, shape (n, M, 2)."""
        points = np.asarray(x, dtype=np.float64).reshape(-1, 1, 1)
        z = (points - self.means) / self.scale
        log_joint: NDArray[np.float64] = np.log(self.masses) - 0.5 * z**2
        return log_joint

    def posteriors(self, X: ArrayLike) -> NDArray[np.float64]:
        """P(S=m, Y=y | x) of each row, shape (n, M, 2)."""
        return np.asarray(softmax(self._log_joint(X), axis=(1, 2)))

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Sample:
        """A sample of `n` independent rows."""
        rng = np.random.default_rng(seed)
        cells = rng.choice(self.masses.size, size=n, p=self.masses.ravel())
        return Sample.of(rng.normal(self.means.ravel()[cells], self.scale), cells, self.groups)
