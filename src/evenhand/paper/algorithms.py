"""Algorithm 1 (in-processing) and Algorithm 2 (post-processing), line by line.

Symbols are the paper's: E_{y,m} is {Y=y, S=m}, gamma_m^y(x) = P(E_{y,m} | x) / P(E_{y,m}), eta(x) is
P(Y=1 | x), c the cost parameter, delta the tolerance, and lambda the trade-off parameter, one for each group
or, for independent groups, for each value of each sensitive feature. The lemmas on MD and MR bound

    R_m(f) = sum_y { delta' sum_m' a_m' b_m'^y P(Yhat=1 | E_{y,m'}) - b_m^y P(Yhat=1 | E_{y,m}) + c_m^y },

delta' being 1 for MD and delta for MR. These are the library's `LinearConstraints`: C[m] has the coefficients
of P(Yhat=1 | E_{y,m'}), k[m] is sum_y c_m^y, lo and hi are the bounds. So the equations for Q_MD and Q_MR,

    Q(x) = sum_m sum_y b_m^y (lambda_m - delta' Lambda a_m) gamma_m^y(x),

are Q(x) = - sum_j lambda_j sum_{m,y} C[j,m,y] gamma_m^y(x) for every notion, both measures, independent
groups, and Equalized Odds, whose rows are those of EO and PE. Two slips are avoided so: the sign of c_m^y for
AP by ratio in the main table, and P(E_{0,m}), by which the rule for Equalized Odds is divided twice.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from evenhand.data.checks import check_choice, check_number, check_rows
from evenhand.data.features import join_columns, read_features, take_rows
from evenhand.data.labels import read_labels
from evenhand.exceptions import GroupError, InputError, ToleranceWarning, warn_user
from evenhand.groups.groups import Groups
from evenhand.paper.multipliers import FEASIBLE, Ascent, Candidates, Evaluate, Grid
from evenhand.paper.probabilities import Balance, Halves, ProbabilityModel, Rows, fit_cells
from evenhand.posteriors.learner import Learner, check_learner, fit_learner
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.constraints import ByName, LinearConstraints
from evenhand.requirements.requirement import Constraint

Floats = NDArray[np.float64]


def corrections(cells: Floats, linear: LinearConstraints, masses: Floats) -> Floats:
    """What a unit of each lambda_j adds to Q(x), shape (n, J), by P(E_{y,m} | x) and P(E_{y,m})."""
    gamma = cells / np.where(masses > 0, masses, np.inf)
    return np.asarray(-np.tensordot(gamma, linear.C, axes=([1, 2], [1, 2])))


def plug_in(eta: Floats, Q: Floats, cost: float) -> NDArray[np.bool_]:
    """1[H(x) > 0], where H(x) = eta(x) - c - Q(x): the theorems on MD and MR. Q has shape (n, k).

    alpha, the decision where H(x) = 0, is 0. It is not arbitrary, as the paper has it, where scores have
    ties: `FairPostprocessor` finds the one by which the requirement holds.
    """
    return np.asarray((eta - cost)[:, None] > Q)


def train(estimator: Any, rows: Rows, Q: Floats, cost: float) -> Learner:
    """Minimise R_FCS(f): an error on label y costs c_y(x) = (1 - 2 y) [c + Q(x)] + y.

    An example of negative cost is the example with the other label and the size of the cost: the same risk
    but for a constant.
    """
    y = rows.positive.astype(np.float64)
    costs = (1 - 2 * y) * (cost + Q) + y
    target = np.where(costs < 0, 1 - y, y).astype(np.intp)
    return fit_learner(estimator, rows.X, target, n_classes=2, weights=np.abs(costs))


@dataclass(frozen=True, eq=False)
class Validation:
    """Rows that select lambda, by 1[E_{y,m}] or its probability, shape (n, 2 M), and the R_j there."""

    events: Floats
    linear: LinearConstraints
    cost: float

    def __call__(self, multipliers: Floats, decisions: NDArray[Any]) -> Candidates:
        """R_cs and R_j of classifiers whose decisions have shape (n, k)."""
        mass = self.events.sum(axis=0)
        selected = decisions.T.astype(np.float64) @ self.events
        false_positive, false_negative = selected[:, 0::2].sum(axis=1), (mass - selected)[:, 1::2].sum(axis=1)
        risks = (self.cost * false_positive + (1 - self.cost) * false_negative) / mass.sum()
        rates, C = selected / np.where(mass > 0, mass, 1.0), self.linear.C.reshape(len(self.linear), -1)
        return Candidates(multipliers, risks, rates @ C.T + self.linear.k)


@dataclass(eq=False, repr=False)
class _Algorithm(ClassifierMixin, BaseEstimator):
    """What both algorithms share: probabilities, and the selection of lambda."""

    _budget = 250_000
    """Points of a grid that is asked for by name."""

    estimator: Any = None
    constraint: Any = None
    _: KW_ONLY
    aware: bool = False
    cost: float = 0.5
    group_estimator: Any = None
    multipliers: Literal["grid", "ascent"] | Grid | Ascent | ArrayLike = "grid"
    calibration: Literal["binning"] | None = None
    balance: Balance | None = None
    random_state: int | None = 0

    def fit(self, X: Any, y: Any, *, sensitive_features: Any) -> Self:
        """Estimate probabilities on one half of the rows, select lambda on the other, and finish.

        Parameters
        ----------
        X : table, array or sparse matrix
        y : array
            Any two labels; the positive one is the one that sorts last.
        sensitive_features : table, mapping or array
            One column per sensitive feature.

        Returns
        -------
        self
        """
        if not isinstance(self.constraint, Constraint) or self.constraint.controls:
            raise InputError(
                f"constraint must be a notion without control features, got {self.constraint!r}."
            )
        check_number("cost", self.cost)
        check_choice("calibration", self.calibration, (None, "binning"))
        check_choice("balance", self.balance, (None, "weight", "upsample"))
        X = read_features(self, X, reset=True)
        check_rows({"X": X, "y": y, "sensitive_features": sensitive_features})
        labels, (self.groups_, codes) = read_labels(y), Groups.fit(sensitive_features)
        self.classes_ = labels.classes
        halves = self.learn(X, labels.positive, codes.astype(np.intp))
        linear = self.constraint.linear(halves.masses, self.groups_)
        found = self._select(halves, linear)
        self.multipliers_ = ByName(zip(linear.names, found.tolist(), strict=True))
        self._finish(halves, linear, found)
        return self

    def learn(self, X: Any, positive: NDArray[np.bool_], codes: NDArray[np.intp]) -> Halves:
        """Models of "one half for model training", and the half "for fine-tuning" (Appendix, Setup)."""
        n_cells, rng = 2 * (int(codes.max()) + 1), np.random.default_rng(self.random_state)
        halves, seen = np.array_split(rng.permutation(len(codes)), 2), self._seen(X, codes, n_cells // 2)
        fitting, choosing = ((take_rows(seen, half), positive[half], codes[half]) for half in halves)
        X, y, s = fitting
        label = fit_learner(self._learner, X, y.astype(np.intp), n_classes=2)
        model = ProbabilityModel(label, None, np.ones(n_cells))
        if not self.aware:
            group = self._learner if self.group_estimator is None else self.group_estimator
            of_cells = fit_cells(group, X, 2 * s + y, n_cells, balance=self.balance, rng=rng)
            model = ProbabilityModel(label, *of_cells)
        if self.calibration is not None:
            model = model.calibrated(model.rows(*choosing))
        return Halves(model.rows(*fitting), model.rows(*choosing), model)

    def _select(self, halves: Halves, linear: LinearConstraints) -> Floats:
        """lambda, which is an input of the algorithms: as it is given, or selected on the other half."""
        how: Any = self.multipliers
        if isinstance(how, str) and how in ("grid", "ascent"):
            how = Grid(budget=self._budget) if how == "grid" else Ascent()
        if not isinstance(how, Grid | Ascent):
            if np.shape(how) != (len(linear),):
                raise InputError(
                    f"multipliers: expected 'grid', 'ascent' or {len(linear)} numbers, got {how!r}."
                )
            return np.asarray(how, dtype=np.float64)
        events, bounds = halves.choosing.events, (linear.lo, linear.hi)
        there = self.constraint.linear(events.mean(axis=0).reshape(-1, 2), self.groups_)
        if linear.B is not None or not np.isfinite(bounds).all():
            raise InputError(
                f"the paper compares groups with the population, and {self.constraint!r} does not."
            )
        if there.names != linear.names:
            raise InputError("a group has no rows in one half of the data: fit with more rows of it.")
        evaluate = self.evaluate(halves, linear, Validation(events, there, self.cost))
        found = how.run(evaluate, [bounds], linear.C) if isinstance(how, Grid) else how.run(evaluate, bounds)
        best = found.best(bounds)
        missed = found.violations(bounds)[best]
        if missed > FEASIBLE:
            warn_user(
                f"no multipliers tried satisfy the requirement: the nearest miss it by {missed:.4f}.",
                ToleranceWarning,
            )
        return np.asarray(found.multipliers[best])

    def evaluate(self, halves: Halves, linear: LinearConstraints, validation: Validation) -> Evaluate:
        """How classifiers at given lambda are evaluated."""
        raise NotImplementedError

    def _finish(self, halves: Halves, linear: LinearConstraints, multipliers: Floats) -> None:
        raise NotImplementedError

    @property
    def _learner(self) -> Any:
        return TabularClassifier() if self.estimator is None else self.estimator

    def _seen(self, X: Any, codes: NDArray[np.intp], n_groups: int) -> Any:
        """X, with S as columns of 0 and 1 if it is available for prediction."""
        return join_columns(X, list(np.eye(n_groups)[:, codes]), "group") if self.aware else X

    def _read(self, X: Any, sensitive_features: Any) -> tuple[Any, NDArray[np.intp]]:
        """New rows as models see them, and S where it is used."""
        check_is_fitted(self)
        X = read_features(self, X, reset=False)
        if self.aware and sensitive_features is None:
            raise GroupError("aware=True decides by the sensitive features: pass sensitive_features.")
        codes = self.groups_.encode(sensitive_features) if self.aware else np.zeros(X.shape[0])
        return self._seen(X, codes.astype(np.intp), len(self.groups_)), codes.astype(np.intp)

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """A score that is positive where the decision is; parameters as for `predict`."""
        raise NotImplementedError

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Decisions, in the labels of `fit`.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed with ``aware=True``.

        Returns
        -------
        array, shape (n,)
        """
        score = self.decision_function(X, sensitive_features=sensitive_features)
        return np.asarray(self.classes_[(score > 0).astype(np.intp)])


class PaperPostprocessor(_Algorithm):
    """Algorithm 2: Bayes-optimal fair classification via post-processing, the plug-in approach.

    Parameters
    ----------
    estimator : classifier, default=None
        Of Y. By default boosted trees.
    constraint : Constraint
        DP, EO, PE, AP or Equalized Odds by ``difference`` (MD) or ``ratio`` (MR), whose tolerance is delta;
        ``groups="independent"`` is independent group fairness.
    aware : bool, default=False
        Whether S is available for prediction: the attribute-aware setting.
    cost : float, default=0.5
        c.
    group_estimator : classifier, default=None
        Of (S, Y), in the attribute-blind setting. By default like `estimator`.
    multipliers : {"grid", "ascent"}, Grid, Ascent or array, default="grid"
        lambda, in the order of ``multipliers_``; or how it is selected.
    calibration : {"binning"} or None, default=None
        Raw group membership probabilities, or in 40 bins of the rows that lambda is selected on.
    balance : {"weight", "upsample"} or None, default=None
        How small cells are made to count more in the model of (S, Y).
    random_state : int or None, default=0
        Of the halves, and of up-sampling.

    Attributes
    ----------
    multipliers_ : dict
        lambda, by the name of each constraint.
    model_ : ProbabilityModel
        Estimates of eta(x) and of P(S, Y | x).
    classes_ : array
    groups_ : Groups

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = eh.datasets.GaussianProblem.random(levels=(2,), seed=3).sample(4000)
    >>> parity = eh.DemographicParity(difference=0.05)
    >>> fair = PaperPostprocessor(LogisticRegression(), parity)
    >>> decisions = fair.fit(data.X, data.y, sensitive_features=data.sensitive).predict(data.X)
    >>> [found] = parity.measure(eh.cell_rates(data.y, decisions, data.sensitive))
    >>> bool(found.difference < 0.07)
    True
    """

    def evaluate(self, halves: Halves, linear: LinearConstraints, validation: Validation) -> Evaluate:
        """Line 3 for each lambda."""
        rows = halves.choosing
        unit = corrections(rows.cells, linear, halves.masses)
        return lambda points: validation(points, plug_in(rows.eta, unit @ points.T, self.cost))

    def _finish(self, halves: Halves, linear: LinearConstraints, multipliers: Floats) -> None:
        self.model_, self._rule = halves.model, (linear, halves.masses, multipliers)

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """H(x) = eta(x) - c - Q(x); parameters as for `predict`."""
        X, codes = self._read(X, sensitive_features)
        linear, masses, multipliers = self._rule
        rows = self.model_.rows(X, np.zeros(len(codes), np.bool_), codes)
        return np.asarray(rows.eta - self.cost - corrections(rows.cells, linear, masses) @ multipliers)


class PaperInprocessor(_Algorithm):
    """Algorithm 1: Bayes-optimal fair classification via in-processing, by cost-sensitive training.

    Parameters
    ----------
    estimator : classifier, default=None
        What is trained; it takes ``sample_weight``. By default boosted trees.
    constraint, aware, cost, calibration, balance, random_state
        As in :class:`PaperPostprocessor`.
    group_estimator : classifier, default=None
        Of (S, Y), in the attribute-blind setting. By default like `estimator`.
    multipliers : {"grid", "ascent"}, Grid, Ascent or array, default="grid"
        As in :class:`PaperPostprocessor`. Each lambda that is tried is a training; "grid" by name has a
        budget of 500.

    Attributes
    ----------
    multipliers_ : dict
        lambda, by the name of each constraint.
    model_ : Learner
        The trained classifier.
    classes_ : array
    groups_ : Groups

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = eh.datasets.GaussianProblem.random(levels=(2,), seed=3).sample(4000)
    >>> parity = eh.DemographicParity(difference=0.05)
    >>> fair = PaperInprocessor(LogisticRegression(), parity, multipliers=[0.02, -0.02])
    >>> decisions = fair.fit(data.X, data.y, sensitive_features=data.sensitive).predict(data.X)
    """

    _budget = 500

    def evaluate(self, halves: Halves, linear: LinearConstraints, validation: Validation) -> Evaluate:
        """Lines 2 to 4 for each lambda."""

        def decisions(point: Floats) -> NDArray[np.intp]:
            return self._trained(halves, linear, point).choose(halves.choosing.X)

        return lambda points: validation(points, np.column_stack([*map(decisions, points)]))

    def _trained(self, halves: Halves, linear: LinearConstraints, multipliers: Floats) -> Learner:
        check_learner(self._learner, weighted=True, role="estimator")
        Q = corrections(halves.fitted.cells, linear, halves.masses) @ multipliers
        return train(self._learner, halves.fitted, Q, self.cost)

    def _finish(self, halves: Halves, linear: LinearConstraints, multipliers: Floats) -> None:
        self.model_ = self._trained(halves, linear, multipliers)

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """The score of the trained classifier; parameters as for `predict`."""
        return self.model_.score(self._read(X, sensitive_features)[0])
