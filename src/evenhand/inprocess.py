"""In-processing: posteriors, multipliers, costs, and a classifier that is trained with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from evenhand.calibration import Calibration
from evenhand.classifier import Evidence, FairClassifier, answers_for_file
from evenhand.exceptions import CertificateError, InfeasibleError, InputError
from evenhand.features import Columns
from evenhand.guarantee import Promise, promised, warn_if_unpromised
from evenhand.learner import Learner, check_learner, is_frozen
from evenhand.measurement import Measurement
from evenhand.notions import Constraint
from evenhand.people import Aware
from evenhand.posteriors import Balance, Form
from evenhand.progress import track
from evenhand.rates import CellRates
from evenhand.rows import RowName
from evenhand.scores import GroupedScores
from evenhand.search import DualAscent, GridSearch, Trial, best_trial, read_search, warn_if_missed
from evenhand.solution import Task
from evenhand.solver.certificate import Certificate
from evenhand.tabular import TabularClassifier
from evenhand.trainer import Trained, Trainer

__all__ = ["FairInprocessor"]

Floats = NDArray[np.float64]

_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""By how much tolerances are tightened for a promise, from the most careful on."""
_STEP = 0.25
"""Least share by which a requirement is tightened."""
_NEAR = 0.01
"""What is missed by less is let be."""
_FAR_OFF = 0.05
"""What is missed by more at exact parity is learned in the other way, from labels or decisions."""
_TOLD = 0.2
"""Share of the labels' variance from which on blind decisions of the optimum are learned for themselves."""
_MOST_REFITS = 500
"""Points of a grid that is asked for by name: each of them is a training."""


class FairInprocessor(FairClassifier):
    """A fair classifier that is trained to be so, and then decides by itself.

    The fair optimum is 1 where eta(x) - c - Q(x) is positive, eta being P(Y=1 | x) and Q a correction that
    the requirement's multipliers give. So any classifier that takes weights is trained with the cost c + Q(x)
    for a false positive and 1 - c - Q(x) for a false negative; where a cost is negative, the label is turned
    round. Labels are noisy, and a part of each may be replaced by its posterior. No posteriors are needed to
    decide, and no sensitive features in the blind setting: ``model_`` can be shipped alone.

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
        For the posteriors: of group and label together, or of the label under other forms of `posterior`. By
        default like `estimator`, or the default one if that has no ``predict_proba``.
    group_estimator : classifier, optional
        For the groups in the posteriors, under other forms than "joint". By default like
        `posterior_estimator`.
    posterior, cv, calibration, balance
        How the posteriors of the rows to train on are learned; see :class:`FairPostprocessor`.
    distillation : float
        How far labels are replaced by their posteriors in training: 0 for the costs of the labels as they
        are, 1 for what the optimum decides itself, each row alike, as search="exact" has it where exact
        parity is asked for, and the group is known or posteriors tell a fifth of the labels' variance.
    search : {"exact", "dual", "grid"}, DualAscent or GridSearch
        How multipliers are chosen. "exact" starts from the solver's, trains, and looks at what the posteriors
        of all rows say of the trained classifier. While they find it more than 0.01 from the requirement, or
        held-out rows object by more than two standard errors, the solver's multipliers for a tighter one are
        taken, and where exact parity still misses by more than 0.05, a distillation of 1.
        "grid" by name has a budget of 500 trainings.
    max_refits : int
        Most classifiers that "exact" trains on the way, and default number of steps of "dual".
    holdout : float
        Share of the rows that classifiers do not see on the way, for ``achieved_`` and their risk, by which
        "dual" and "grid" choose.
    refit : bool
        Whether the classifier is trained once more on all rows when the multipliers are chosen.
    confidence, reserve
        As in :class:`FairPostprocessor`; the classifiers tested are trained on all rows that are not kept
        back, and `holdout`, `max_refits` and `refit` are not used.
    weights, missing, unseen, min_group_size, tol, random_state, n_jobs, verbose
        As in :class:`FairPostprocessor`.

    Attributes
    ----------
    model_ : classifier
        The trained classifier, which takes X without its sensitive columns, with those of 0 and 1 that
        `aware` adds, and answers 0 or 1 for the positive label; None if all rows had to be decided alike, of
        which a :class:`~evenhand.exceptions.ConstantClassifierWarning` tells.
    classes_ : array
        The two labels, sorted.
    pos_label_ : object
        The positive one of them.
    groups_ : Groups
    multipliers_ : dict
        By the name of each row of the requirement.
    achieved_ : tuple of Measurement
        What was attained on the held-out rows, before the last refit, or on those kept back for a promise:
        this, not the tolerance asked for, is what is known of the classifier. Point estimates: multipliers
        come from all rows, and held-out rows are stratified, so that no test or interval goes with them.
    certificate_ : Certificate
        Of the optimum for the learned posteriors at these multipliers; `bound` is a risk that no fair
        classifier goes below if the posteriors are right.
    promise_ : Promise or None
        What holds on new rows, if `confidence` is given.
    history_ : tuple of Trial
        Multipliers, risk on held-out rows, and violation by the posteriors of all rows or clearly by held-out
        ones, of every classifier that was trained on the way; of a grid, the best.
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
    multipliers_: Mapping[RowName, float]
    certificate_: Certificate
    achieved_: tuple[Measurement, ...]
    history_: tuple[Trial, ...]
    promise_: Promise | None
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
        posterior: Form = "joint",
        cv: Any = 2,
        calibration: Calibration | None = "dirichlet",
        balance: Balance | None = None,
        distillation: float = 0.6,
        search: Any = "exact",
        max_refits: int = 10,
        holdout: float = 0.3,
        refit: bool = True,
        confidence: float | None = None,
        reserve: float = 0.3,
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
        self.distillation = distillation
        self.search = search
        self.max_refits = max_refits
        self.holdout = holdout
        self.refit = refit
        self.confidence = confidence
        self.reserve = reserve
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
        task = evidence.task(constraint, self.cost)
        trainer = Trainer.of(
            task,
            evidence,
            self._classifier,
            cost=self.cost,
            holdout=self.holdout,
            distillation=self.distillation,
        )
        self.promise_ = None
        if evidence.reserved is None:
            trials = self._search(task, trainer)
            best = best_trial(trials)
            warn_if_missed(best, allowed=_NEAR)
        else:
            trials = []
            candidates = self._careful(task, trainer, trials)
            best, self.promise_ = promised(candidates, constraint, self.confidence)
            warn_if_unpromised(self.promise_)
        learner = best.learner
        if self.refit and evidence.reserved is None:
            learner = trainer.train(best.multipliers, best.distillation, slice(None))
        self._remember(evidence)
        self.multipliers_ = dict(zip(task.rows.names, best.multipliers.tolist(), strict=True))
        self.certificate_ = task.at(best.multipliers).certificate
        self.achieved_ = best.measured
        self.history_ = tuple(Trial(t.multipliers, t.risk, t.values, t.violation) for t in trials)
        self.n_fits_ = evidence.fits + trainer.fits
        self.learner_ = learner
        self._warn_if_constant(learner.choose(trainer.examples.X))
        return self

    def _check_training(self) -> None:
        if is_frozen(self.estimator):
            raise InputError("a frozen classifier cannot be trained: use FairPostprocessor for it.")
        check_learner(self._classifier, weighted=True, role="estimator", probabilities=False)
        if not isinstance(self.max_refits, Integral) or self.max_refits < 1:
            raise InputError(f"max_refits should be a whole number from 1 on, but is {self.max_refits!r}.")
        if not isinstance(self.holdout, Real) or not 0 < float(self.holdout) < 1:
            raise InputError(f"holdout should be a share between 0 and 1, but is {self.holdout!r}.")
        if not isinstance(self.distillation, Real) or not 0 <= float(self.distillation) <= 1:
            raise InputError(f"distillation should be from 0 to 1, but is {self.distillation!r}.")
        self._read_search()
        if is_frozen(self.posterior_estimator) and self.aware:
            raise InputError("posterior_estimator may be frozen only where aware=False.")
        if is_frozen(self.group_estimator) and self.aware and self.aware is not True:
            # It takes no columns beyond those of its fit, and the classifier would not see what it may.
            raise InputError("group_estimator may be frozen only where aware is True or False.")

    def _search(self, task: Task, trainer: Trainer) -> list[Trained]:
        search = self._read_search()

        def watch(steps: Iterator[Any], total: int) -> Iterator[Any]:
            return track(steps, what="training", total=total, verbose=self.verbose)

        if search is not None:
            return search.run(trainer, watch=watch)
        steps = watch(iter(range(int(self.max_refits))), int(self.max_refits))
        return _walk(task, trainer, steps, self.tol)

    def _careful(
        self, task: Task, trainer: Trainer, trials: list[Trained]
    ) -> Iterator[tuple[Constraint, Trained, list[CellRates]]]:
        """Train ever less careful classifiers; those that are asked for are added to the trials."""
        steps = [(1.0, 1.0), *((share, self.distillation) for share in _SHARES)]
        for share, distillation in track(
            iter(steps), what="training", total=len(steps), verbose=self.verbose
        ):
            tighter = task.tightened(share)
            multipliers = np.array(list(tighter.solve(tol=self.tol).multipliers.values()))
            trials.append(trainer.attempt(multipliers, distillation))
            yield tighter.constraint, trials[-1], [trials[-1].rates]

    def _read_search(self) -> GridSearch | DualAscent | None:
        return read_search(self.search, max_iter=int(self.max_refits), budget=_MOST_REFITS)

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

    @answers_for_file
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Probability of each decision, in the order of ``classes_``: 0 or 1, nothing is randomised.

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
        return self._by_class(decided)

    @answers_for_file
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Score of each row, positive where the decision is for ``classes_[1]``.

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
        return self._for_last(self.learner_.score(self.sight_.people(self, X, sensitive_features).X))


def _walk(task: Task, trainer: Trainer, steps: Iterator[int], tol: float) -> list[Trained]:
    """Start from the optimum's multipliers, and walk along the frontier until the trained classifier is fair.

    Where it is not, the requirement is tightened by what was missed, up to exact parity; where that is still
    far off the optimum's own decisions are learned. Where exact parity is asked for they are learned first,
    and labels as well only if that is far off, as where the optimum draws lots in whole groups. Where groups
    are guessed and the posteriors tell little of the labels, its decisions are mostly noise: there they are
    learned last, and only if held-out rows are clearly far off.
    """
    trials: list[Trained] = []
    told = isinstance(task.posteriors, GroupedScores) or trainer.explained >= _TOLD
    share, room = 0.0, 0.0
    ways = list(dict.fromkeys([trainer.distillation, 1.0]))
    if task.constraint == task.constraint.tightened(1.0):
        share, ways = 1.0, ways[::-1] if told else ways
    for _ in steps:
        try:
            multipliers = task.tightened(share).solve(tol=tol).multipliers
            trials.append(trainer.attempt(np.array(list(multipliers.values())), ways[0]))
            if trials[-1].excess <= _NEAR:
                break
            room = room if share else _room(task, tol)
        except (InfeasibleError, CertificateError):
            if not trials:
                raise
            break
        if share < 1 and room > 0:
            share = min(1.0, share + max(_STEP, trials[-1].violation / room))
        elif len(ways) > 1 and (trials[-1].excess if told else trials[-1].clear) > _FAR_OFF:
            share, ways = 1.0, ways[1:]
        else:
            break
    return trials


def _room(task: Task, tol: float) -> float:
    """How far inside the requirement the optimum is at its tightest."""
    values = task.rows.values(task.tightened(1.0).solve(tol=tol).rates.rates)
    return float(np.nanmin(np.fmin(task.rows.hi - values, values - task.rows.lo), initial=np.inf))
