"""In-processing, the paper's Algorithm 1: read, posteriors, multipliers, cost-sensitive training."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from evenhand.estimators.access import Aware
from evenhand.estimators.base import FairClassifier, by_batches, names_its_file
from evenhand.estimators.fair_training import NEAR, search_of, train_fair
from evenhand.estimators.learned_posteriors import learn_posteriors
from evenhand.estimators.search import (
    Trial,
    warn_if_missed,
)
from evenhand.estimators.training_data import draw_seed, read_training_data, reserve_rows
from evenhand.exceptions import InputError
from evenhand.fairness.constraints import ConstraintName
from evenhand.fairness.groups import Missing
from evenhand.fairness.measurement import AnyMeasurement
from evenhand.fairness.proxy import Proxy
from evenhand.fairness.requirement import Constraint
from evenhand.inference.guarantee import warn_if_unpromised
from evenhand.inputs.checks import check_fraction
from evenhand.inputs.features import Columns
from evenhand.posteriors.calibration import Calibration
from evenhand.posteriors.learner import Learner, check_learner, is_frozen
from evenhand.posteriors.spec import Balance, Form
from evenhand.posteriors.tabular import TabularClassifier

__all__ = ["FairInprocessor"]

Floats = NDArray[np.float64]


class FairInprocessor(FairClassifier):
    """A fair classifier that is trained to be fair, and then decides by itself.

    The fair optimum is 1 where eta(x) - c - Q(x) is positive, eta being P(Y=1 | x) and Q a correction that
    the requirement's multipliers give. So any classifier that takes weights is trained with the cost c + Q(x)
    for a false positive and 1 - c - Q(x) for a false negative; where a cost is negative, the label is
    flipped. Labels are noisy, and a part of each may be replaced by its posterior. No posteriors are needed
    to decide, and no sensitive features in the blind setting: ``model_`` can be shipped alone.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier that takes ``sample_weight``. By default boosted trees that take tables as
        they are.
    constraint : Constraint
        What must hold, such as ``DemographicParity(difference=0.02)``.
    sensitive_features : str, int, list of these, or function, default=None
        As in :class:`FairPostprocessor`.
    aware : bool or list of str, default=False
        As in :class:`FairPostprocessor`.
    cost : float, pair, or array of shape (M, 2), default=0.5
        As in :class:`FairPostprocessor`.
    pos_label : object, default=None
        The positive label. By default the one that sorts last.
    posterior_estimator : classifier, default=None
        For the posteriors: of group and label together, or of the label under other forms of `posterior`. By
        default like `estimator`, or boosted trees if that has no ``predict_proba``.
    group_estimator : classifier, default=None
        For the groups in the posteriors, under other forms than "joint". By default like
        `posterior_estimator`; if that is frozen or the default, boosted trees with a higher learning rate.
    posterior : {"joint", "auto", "separate", "label_then_group", "group_then_label"}, default="joint"
        Form of the posteriors; see :class:`FairPostprocessor`.
    cv : int, splitter or iterable, default=2
        Folds for out-of-fold posteriors.
    calibration : {"dirichlet", "sigmoid", "isotonic", "binning"} or None, default="dirichlet"
        As in :class:`FairPostprocessor`.
    balance : {"weight", "upsample"}, default=None
        As in :class:`FairPostprocessor`.
    distillation : float, default=0.6
        How far labels are replaced by their posteriors in training: 0 for the costs of the labels as they
        are, 1 for what the optimum decides itself, each row alike. search="exact" uses 1 where exact parity
        is asked for, and the group is known or posteriors explain a fifth of the labels' variance.
    search : {"exact", "dual", "grid"}, DualAscent or GridSearch, default="exact"
        How multipliers are chosen. "exact" starts from the solver's, trains, and measures the trained
        classifier by the posteriors of all rows. While it is more than 0.01 outside the requirement, or
        held-out rows object by more than two standard errors, the solver's multipliers for a tighter
        requirement are used, and where exact parity still misses by more than 0.05, a distillation of 1.
        "grid" by name has a budget of 500 trainings.
    max_refits : int, default=10
        Most classifiers that "exact" trains on the way, and default number of steps of "dual".
    holdout : float, default=0.3
        Share of the rows that classifiers do not see on the way, for ``achieved_`` and their risk, by which
        "dual" and "grid" choose.
    refit : bool, default=True
        Whether the classifier is trained once more on all rows when the multipliers are chosen.
    confidence : float, default=None
        As in :class:`FairPostprocessor`; the classifiers tested are trained on all rows that are not
        reserved, and `holdout`, `max_refits` and `refit` are not used.
    reserve : float, default=0.3
        Share of the rows that are reserved for the promise.
    weights : {"both", "fit", "constraint"}, default="both"
        As in :class:`FairPostprocessor`.
    missing : {"error", "own_group", "exclude"}, default="error"
        As in :class:`FairPostprocessor`. The default form of the posteriors, "joint", learns nothing from
        excluded rows, and neither does the classifier that is trained: its costs depend on the groups.
    unseen : {"error", "pooled"}, default="error"
        As in :class:`FairPostprocessor`.
    min_group_size : int, default=0
        As in :class:`FairPostprocessor`.
    tol : float, default=1e-6
        Largest proven distance from the optimum that is accepted.
    random_state : int, RandomState or None, default=0
        For folds and held-out rows.
    n_jobs : int, default=None
        Folds fitted in parallel.
    verbose : bool, default=False
        Whether to show progress.

    Attributes
    ----------
    model_ : classifier
        The trained classifier. It takes X without its sensitive columns, with the 0/1 columns that `aware`
        appends, and answers 1 for the positive label; None if all rows had to be decided alike, with a
        :class:`~evenhand.exceptions.ConstantClassifierWarning`.
    classes_ : array
        The two labels, sorted.
    pos_label_ : object
        The positive one of them.
    groups_ : Groups
    multipliers_ : dict
        By the name of each constraint.
    achieved_ : tuple of Measurement and BoundMeasurement
        What was attained on the held-out rows, before the last refit, or on those reserved for a promise:
        this, not the tolerance asked for, is what is known of the classifier. Point estimates: multipliers
        come from all rows, and held-out rows are stratified, so no test or interval goes with them.
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
    multipliers_: Mapping[ConstraintName, float]
    achieved_: tuple[AnyMeasurement, ...]
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
        posterior: Form | Literal["auto"] = "joint",
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
        missing: Missing = "error",
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

    def _label_estimator(self) -> Any:
        if self.posterior_estimator is not None:
            return self.posterior_estimator
        if self.estimator is None or not hasattr(self.estimator, "predict_proba"):
            return TabularClassifier()
        return self.estimator

    def check_settings(self) -> None:
        """Raise an InputError if the parameters cannot be used; `fit` does so before it reads any row."""
        if is_frozen(self.estimator):
            raise InputError("a frozen classifier cannot be trained: use FairPostprocessor for it.")
        trained = TabularClassifier() if self.estimator is None else self.estimator
        check_learner(trained, weighted=True, role="estimator", probabilities=False)
        super().check_settings()
        if isinstance(self.sensitive_features, Proxy):
            raise InputError("proxies are for FairPostprocessor: trained classifiers need known groups.")
        if self.missing == "infer":
            raise InputError(
                "missing='infer' is for FairPostprocessor: trained classifiers are measured on held-out rows "
                "by their group, which must be known."
            )
        if not isinstance(self.max_refits, Integral) or self.max_refits < 1:
            raise InputError(f"max_refits should be a whole number from 1 on, but is {self.max_refits!r}.")
        check_fraction("holdout", self.holdout)
        if not isinstance(self.distillation, Real) or not 0 <= float(self.distillation) <= 1:
            raise InputError(f"distillation should be from 0 to 1, but is {self.distillation!r}.")
        search_of(self)
        if is_frozen(self.posterior_estimator) and self.aware:
            raise InputError("posterior_estimator may be frozen only where aware=False.")
        if is_frozen(self.group_estimator) and self.aware and self.aware is not True:
            # It takes no columns beyond those of its fit, and the classifier would not see what it may.
            raise InputError("group_estimator may be frozen only where aware is True or False.")

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Learn posteriors, choose multipliers, and train.

        Parameters
        ----------
        X : table, array or sparse matrix
        y : array
            Any two labels.
        sensitive_features : table, mapping, array or sequence, default=None
            One column per sensitive feature, unless the constructor names columns of X.
        sample_weight : array, default=None

        Returns
        -------
        self
        """
        self.__dict__.pop("learner_", None)  # an interrupted fit leaves an unfitted estimator

        if isinstance(sensitive_features, Proxy):
            raise InputError("proxies are for FairPostprocessor: trained classifiers need known groups.")

        # Read the table, the labels, the groups, and who may see what.
        data = read_training_data(self, X, y, sensitive_features, sample_weight)
        seed = draw_seed(self.random_state)
        data, reserved = reserve_rows(self, data, seed)

        # Out-of-fold posteriors P(S, Y | x), calibrated.
        posteriors = learn_posteriors(self, data, seed=seed, reserved=reserved is not None)

        # Multipliers, the costs that they give, and classifiers trained with those costs.
        trained = train_fair(self, self.constraint, data, posteriors, seed=seed, reserved=reserved)
        if trained.promise is None:
            warn_if_missed(trained.best, allowed=NEAR)
        else:
            warn_if_unpromised(trained.promise)

        self._remember(data, seed)
        self.multipliers_ = trained.multipliers
        self.certificate_ = trained.certificate
        self.achieved_ = trained.best.measured
        self.promise_ = trained.promise
        self.history_ = trained.history
        self.n_fits_ = posteriors.fits + trained.fits
        self.learner_ = trained.learner
        self._warn_if_constant(trained.learner.choose(data.examples.take(posteriors.rows).X))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    @property
    def model_(self) -> Any:
        """The trained classifier on its own."""
        check_is_fitted(self)
        return self.learner_.model

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[np.bool_]:  # noqa: ARG002
        visible = self.access_.read(self, X, sensitive_features)
        return np.asarray(self.learner_.choose(visible.X) == 1)

    @by_batches
    @names_its_file
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Probability of each decision, in the order of ``classes_``: 0 or 1, nothing is randomised.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n, 2)
        """
        check_is_fitted(self)
        decided = self._decide(X, sensitive_features, None).astype(np.float64)
        return self._by_class(decided)

    @by_batches
    @names_its_file
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Score of each row, positive where the decision is for ``classes_[1]``.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n,)
        """
        check_is_fitted(self)
        return self._for_last(self.learner_.score(self.access_.read(self, X, sensitive_features).X))
