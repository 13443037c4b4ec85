"""In-processing: posteriors, multipliers, costs, and a classifier that is trained with them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from evenhand.calibration import Calibration
from evenhand.classifier import Evidence, FairClassifier
from evenhand.exceptions import CertificateError, InfeasibleError, InputError, VacuousConstraintWarning
from evenhand.features import Columns
from evenhand.learner import Learner, check_learner, fit_learner, is_frozen
from evenhand.measurement import Measurement
from evenhand.notions import Constraint
from evenhand.people import Aware, Sight
from evenhand.posteriors import Balance, Examples, Form
from evenhand.progress import track
from evenhand.rates import CellRates
from evenhand.rows import RowName
from evenhand.scores import GroupedScores
from evenhand.search import Trial, best_trial, read_search, warn_if_missed
from evenhand.solution import Task, error_prices
from evenhand.solver.certificate import Certificate
from evenhand.tabular import TabularClassifier

__all__ = ["FairInprocessor"]

Floats = NDArray[np.float64]

_CLOSE = 0.1
"""Shares of tightening that need not be told apart."""
_FAR = 3.0
"""How many times the tightest multipliers are tried at most."""


class FairInprocessor(FairClassifier):
    """A fair classifier that is trained to be so, and then decides by itself.

    The fair optimum is 1 where eta(x) - c - Q(x) is positive, eta being P(Y=1 | x) and Q a correction that
    the requirement's multipliers give. So any classifier that takes weights is trained with the cost c + Q(x)
    for a false positive and 1 - c - Q(x) for a false negative; where a cost is negative, the label is turned
    round. No posteriors are needed to decide, and no sensitive features in the blind setting: ``model_`` can
    be shipped alone.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier that takes ``sample_weight``. By default boosted trees that take tables as
        they are.
    constraint : Constraint
        What must hold, such as ``DemographicParity(difference=0.02)``.
    sensitive_features, aware, cost, pos_label
        As in :class:`FairPostprocessor`.
    posterior_estimator : classifier, optional
        For the label in the posteriors. By default like `estimator`, or the default one if that has no
        ``predict_proba``.
    group_estimator : classifier, optional
        For the groups in the posteriors. By default like `posterior_estimator`.
    posterior, cv, calibration, balance
        How the posteriors of the rows to train on are learned; see :class:`FairPostprocessor`.
    search : {"exact", "dual", "grid"}, DualAscent or GridSearch
        How multipliers are chosen. "exact" starts from the solver's, trains, and looks at what the trained
        classifier does on held-out rows; while that violates the requirement, the solver's multipliers for a
        tighter one are taken.
    max_refits : int
        Most classifiers that "exact" trains on the way, and default number of steps of "dual".
    holdout : float
        Share of the rows on which trained classifiers are judged.
    refit : bool
        Whether the classifier is trained once more on all rows when the multipliers are chosen.
    weights, missing, unseen, min_group_size, tol, random_state, n_jobs, verbose
        As in :class:`FairPostprocessor`.

    Attributes
    ----------
    model_ : classifier
        The trained classifier, which takes the visible columns of X and answers 0 or 1; None if all rows had
        to be decided alike.
    classes_ : array
        ``[negative, positive]``.
    groups_ : Groups
    multipliers_ : dict
        By the name of each row of the requirement.
    achieved_ : tuple of Measurement
        What was attained on the held-out rows, before the last refit: this, not the tolerance asked for, is
        what is known of the classifier.
    certificate_ : Certificate
        Of the optimum for the learned posteriors at these multipliers; `bound` is a risk that no fair
        classifier goes below if the posteriors are right.
    history_ : tuple of Trial
        Multipliers, risk and violation of every classifier that was trained on the way.
    n_fits_ : int
        Models fitted in all, those of the posteriors included.

    Examples
    --------
    >>> import evenhand as eh
    >>> compas = eh.datasets.load_compas()
    >>> X, names = compas.one_hot()
    >>> fair = eh.FairInprocessor(constraint=eh.DemographicParity(difference=0.25), max_refits=3)
    >>> decisions = fair.fit(X, compas.label, sensitive_features=compas.sensitive).predict(X)
    >>> bool((fair.model_.predict(X) == decisions).all())
    True
    """

    learner_: Learner
    sight_: Sight
    multipliers_: Mapping[RowName, float]
    certificate_: Certificate
    achieved_: tuple[Measurement, ...]
    history_: tuple[Trial, ...]
    n_fits_: int

    def __init__(
        self,
        estimator: Any = None,
        constraint: Constraint | None = None,
        *,
        sensitive_features: Columns | None = None,
        aware: Aware = False,
        cost: ArrayLike = 0.5,
        pos_label: Any = None,
        posterior_estimator: Any = None,
        group_estimator: Any = None,
        posterior: Form = "label_then_group",
        cv: Any = 2,
        calibration: Calibration | None = "sigmoid",
        balance: Balance | None = None,
        search: Any = "exact",
        max_refits: int = 10,
        holdout: float = 0.3,
        refit: bool = True,
        weights: Literal["both", "fit", "constraint"] = "both",
        missing: Literal["error", "own_group"] = "error",
        unseen: Literal["error", "pooled"] = "error",
        min_group_size: int = 0,
        tol: float = 1e-6,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.constraint = constraint
        self.sensitive_features = sensitive_features
        self.aware = aware
        self.cost = cost
        self.pos_label = pos_label
        self.posterior_estimator = posterior_estimator
        self.group_estimator = group_estimator
        self.posterior = posterior
        self.cv = cv
        self.calibration = calibration
        self.balance = balance
        self.search = search
        self.max_refits = max_refits
        self.holdout = holdout
        self.refit = refit
        self.weights = weights
        self.missing = missing
        self.unseen = unseen
        self.min_group_size = min_group_size
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    average = True  # the folds' models serve for the training rows only, so none is fitted to all rows

    @property
    def _label_model(self) -> Any:
        if self.posterior_estimator is not None:
            return self.posterior_estimator
        if self.estimator is None or not hasattr(self.estimator, "predict_proba"):
            return TabularClassifier()
        return self.estimator

    @property
    def _classifier(self) -> Any:
        return TabularClassifier() if self.estimator is None else self.estimator

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Learn posteriors, choose multipliers, and train.

        Parameters
        ----------
        X : table, array or sparse matrix
        y : array
            Any two labels.
        sensitive_features : table, mapping, array or sequence, optional
            One column per sensitive feature, unless the constructor names columns of X.
        sample_weight : array, optional

        Returns
        -------
        self
        """
        self.__dict__.pop("learner_", None)  # an interrupted fit leaves an unfitted estimator
        self._check_training()
        return self._adopt(self._estimate(X, y, sensitive_features, sample_weight), self.constraint)

    def _adopt(self, evidence: Evidence, constraint: Any) -> Self:
        """Choose multipliers for a requirement, and become the classifier that is trained with them."""
        task = Task.read(
            evidence.posteriors,
            constraint,
            cost=self.cost,
            sample_weight=evidence.weights,
            groups=evidence.given.groups,
        )
        trainer = Trainer.of(task, evidence, self._classifier, self.cost, self.holdout)
        trials = tuple(self._search(task, trainer))
        best = best_trial(trials)
        warn_if_missed(best)
        learner, rates = trainer.trained[id(best)]
        if self.refit:
            learner = trainer.train(best.multipliers, slice(None))
        self.classes_ = evidence.given.classes
        self.groups_ = evidence.given.groups
        self.sight_ = evidence.given.sight
        self.multipliers_ = dict(zip(task.rows.names, best.multipliers.tolist(), strict=True))
        self.certificate_ = task.at(best.multipliers).certificate
        self.achieved_ = _measured(constraint, rates)
        self.history_ = trials
        self.n_fits_ = evidence.fits + len(trials) + int(self.refit)
        self.learner_ = learner
        return self

    def _check_training(self) -> None:
        if is_frozen(self.estimator):
            raise InputError("a frozen classifier cannot be trained: use FairPostprocessor for it.")
        check_learner(self._classifier, weighted=True, role="estimator", probabilities=False)
        if not isinstance(self.max_refits, Integral) or self.max_refits < 1:
            raise InputError(f"max_refits should be a whole number from 1 on, but is {self.max_refits!r}.")
        if not isinstance(self.holdout, float) or not 0 < self.holdout < 1:
            raise InputError(f"holdout should be a share between 0 and 1, but is {self.holdout!r}.")

    def _search(self, task: Task, trainer: Trainer) -> list[Trial]:
        search = read_search(self.search, max_iter=int(self.max_refits))

        def watch(steps: Iterator[Any], total: int) -> Iterator[Any]:
            return track(steps, what="training", total=total, verbose=self.verbose)

        if search is not None:
            return search.run(trainer, watch=watch)
        steps = watch(iter(range(int(self.max_refits))), int(self.max_refits))
        return _walk(task, trainer, steps, self.tol)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    @property
    def model_(self) -> Any:
        """The trained classifier on its own."""
        check_is_fitted(self)
        return self.learner_.model

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[np.bool_]:  # noqa: ARG002
        people = self.sight_.people(self, X, sensitive_features)
        return np.asarray(self.learner_.choose(people.X) == 1)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Give the probability of each decision, which is 0 or 1: no lots are drawn.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, optional
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n, 2)
        """
        check_is_fitted(self)
        decided = self._decide(X, sensitive_features, None).astype(np.float64)
        return np.column_stack([1 - decided, decided])

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Give a score of each row that is positive where the decision is for the positive label.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, optional
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n,)
        """
        check_is_fitted(self)
        return self.learner_.score(self.sight_.people(self, X, sensitive_features).X)


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains classifiers at given multipliers, and judges them on rows set aside.

    Attributes
    ----------
    task : Task
    examples : Examples
    estimator : classifier
    prices : array, shape (M, 2)
        Of a false positive and a false negative.
    weights : array or None
        How much rows count where classifiers are judged.
    first, second : arrays of int
        Rows to train on, and rows to judge on.
    trained : dict
        The classifier of each trial and its rates on the rows set aside, by the identity of the trial.
    """

    task: Task
    examples: Examples
    estimator: Any
    prices: Floats
    weights: Floats | None
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    trained: dict[int, tuple[Learner, CellRates]]

    @classmethod
    def of(cls, task: Task, evidence: Evidence, estimator: Any, cost: ArrayLike, holdout: float) -> Trainer:
        """Set rows aside, with every cell on both sides as far as it can be."""
        examples = evidence.given.examples.take(evidence.rows)
        rows = np.arange(len(examples))
        counts = np.bincount(examples.cells, minlength=2 * examples.n_groups)
        strata = np.where(counts[examples.cells] > 1, examples.cells, -1 - examples.positive)
        try:
            first, second = train_test_split(
                rows, test_size=holdout, random_state=evidence.seed, stratify=strata
            )
        except ValueError:  # too few rows for that
            first, second = train_test_split(rows, test_size=holdout, random_state=evidence.seed)
        prices = error_prices(cost, examples.n_groups)
        return cls(task, examples, estimator, prices, evidence.weights, first, second, {})

    @property
    def lo(self) -> Floats:
        """Lower bounds of the requirement's rows."""
        return self.task.rows.lo

    @property
    def hi(self) -> Floats:
        """Upper bounds of the requirement's rows."""
        return self.task.rows.hi

    def many(self, points: NDArray[np.float64]) -> list[Trial]:
        """Train and judge at several multipliers."""
        return [self._try(point) for point in points]

    def _try(self, point: Floats) -> Trial:
        learner = self.train(point, self.first)
        part = self.examples.take(self.second)
        decided = learner.choose(part.X) == 1
        weights = np.ones(len(part)) if self.weights is None else self.weights[self.second]
        shape = (self.examples.n_groups, 2)
        mass = np.bincount(part.cells, weights=weights, minlength=2 * shape[0]).reshape(shape)
        selected = np.bincount(part.cells, weights=weights * decided, minlength=2 * shape[0]).reshape(shape)
        rates = CellRates(self.task.groups, mass.astype(np.float64), selected.astype(np.float64))
        missed, wrong = mass[:, 1] - selected[:, 1], selected[:, 0]
        risk = float((self.prices[:, 1] @ missed + self.prices[:, 0] @ wrong) / mass.sum())
        values = self._values(rates)
        over = np.fmax(self.lo - values, values - self.hi)
        trial = Trial(point, risk, values, max(0.0, float(np.nanmax(over, initial=0.0))))
        self.trained[id(trial)] = learner, rates
        return trial

    def _values(self, rates: CellRates) -> Floats:
        """Values of the requirement's rows on the rows set aside; NaN where they are undefined there."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VacuousConstraintWarning)
            rows = self.task.constraint.rows(rates.masses, rates.groups)
        values = dict(zip(rows.names, rows.values(rates.rates).tolist(), strict=True))
        return np.array([values.get(name, np.nan) for name in self.task.rows.names])

    def train(self, multipliers: Floats, rows: NDArray[np.intp] | slice) -> Learner:
        """Train a copy of the classifier with the costs that the multipliers give.

        A false positive costs c + Q(x) and a false negative 1 - c - Q(x); of a negative cost the label is
        turned round.
        """
        index = np.arange(len(self.examples))[rows]
        part = self.examples.take(index)
        prices, Q = self._prices(index), self._correction(multipliers, index)
        cost = np.where(part.positive, prices[:, 1] - Q, prices[:, 0] + Q)
        label = part.positive ^ (cost < 0)
        given = np.ones(len(part)) if part.weights is None else part.weights
        size = float(given @ np.abs(cost)) / float(given.sum())  # regularisation is made for costs of about 1
        weights = given * np.abs(cost) / (size if size > 0 else 1.0)
        return fit_learner(self.estimator, part.X, label.astype(np.intp), n_classes=2, weights=weights)

    def _correction(self, multipliers: Floats, index: NDArray[np.intp]) -> Floats:
        """Q(x) = -sum over cells of (A^T lambda)[m,y] p[m,y](x)."""
        table = (multipliers @ self.task.problem.A).reshape(-1, 2)
        return np.asarray(-self._summed(table, index).sum(axis=1))

    def _prices(self, index: NDArray[np.intp]) -> Floats:
        """Prices of the two errors for each row, averaged over the groups that it may be of."""
        if (self.prices == self.prices[0]).all():
            return np.broadcast_to(self.prices[0], (len(index), 2))
        share = self._summed(np.ones_like(self.prices), index)
        return np.asarray(self._summed(self.prices, index) / np.where(share > 0, share, 1.0))

    def _summed(self, table: Floats, index: NDArray[np.intp]) -> Floats:
        """Sum a table over the groups, weighted by the posteriors: shape (n, 2)."""
        posteriors = self.task.posteriors
        if isinstance(posteriors, GroupedScores):
            eta, codes = posteriors.eta[index], posteriors.codes[index]
            return np.asarray(table[codes] * np.column_stack([1 - eta, eta]))
        return np.asarray(np.einsum("nmy,my->ny", posteriors[index], table))


def _walk(task: Task, trainer: Trainer, steps: Iterator[int], tol: float) -> list[Trial]:
    """Start from the optimum's multipliers, and walk along the frontier until the trained classifier is fair.

    A share s in [0, 1] stands for the optimum at a tolerance that is tighter by s, and s > 1 for s times the
    multipliers of the tightest. The smallest s is looked for at which the held-out rows are satisfied: up by
    halves until one is, then by bisection.
    """
    trials: list[Trial] = []
    low, high, share = 0.0, math.inf, 0.0
    for _ in steps:
        try:
            multipliers = task.tightened(min(share, 1.0)).solve(tol=tol).multipliers
        except (InfeasibleError, CertificateError):
            if not trials:
                raise
            break
        [trial] = trainer.many(np.array([list(multipliers.values())]) * max(share, 1.0))
        trials.append(trial)
        if trial.violation == 0:
            high = share
        else:
            low = share
        if high - low <= _CLOSE or low >= _FAR:
            break
        share = (low + high) / 2 if high < math.inf else share + 0.5
    return trials


def _measured(constraint: Any, rates: CellRates) -> tuple[Measurement, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousConstraintWarning)
        return tuple(constraint.measure(rates))
