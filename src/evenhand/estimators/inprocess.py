"""In-processing: read, posteriors, and cost-sensitive training by column generation."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from evenhand.data.checks import check_count
from evenhand.estimators.base import FairClassifier, by_batches
from evenhand.estimators.column_generation import beyond_chance, excess
from evenhand.estimators.fair_training import FairTraining, TrainingCertificate, train_fair
from evenhand.estimators.fit_rows import read_rows
from evenhand.estimators.margin import forecast
from evenhand.estimators.settings import CrossFit, Settings
from evenhand.estimators.trained_models import ClassifierMixture, TrainedModel
from evenhand.estimators.training_data import draw_seed
from evenhand.exceptions import InputError, ToleranceWarning, warn_user
from evenhand.groups.proxy import Proxy
from evenhand.guarantee.forecast import warn_if_exceeded
from evenhand.guarantee.guarantee import warn_if_not_guaranteed
from evenhand.posteriors.learner import Learner, check_learner, is_frozen
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.measurement import AnyMeasurement

Floats = NDArray[np.float64]

_SHOWN = 5e-5
"""Violation from which on there is a warning: what rounds to 0.0001. The solver's tolerances are below it."""


@dataclass(kw_only=True, eq=False, repr=False)
class FairInprocessor(FairClassifier):
    """A fair classifier that is trained to be fair, and then decides by itself.

    The fair optimum is 1 where eta(x) - c - Q(x) is positive, eta being P(Y=1 | x) and Q a correction that
    the requirement's multipliers give. So any classifier that takes weights is trained with the cost c + Q(x)
    for a false positive and 1 - c - Q(x) for a false negative; where a cost is negative, the label is
    flipped. Training changes what a learner can reach, so that the multipliers are found by column
    generation: the best mixture of the classifiers trained so far is computed, and its multipliers give the
    costs for the next one, until no new one gains more than chance. No posteriors are needed to decide, and
    no sensitive features in the blind setting: ``model_`` can be shipped alone.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier that takes ``sample_weight``. By default boosted trees that take tables as
        they are. Posteriors are learned with it as well, or with boosted trees if it has no
        ``predict_proba``.
    constraint : Constraint
        What must hold, such as ``DemographicParity(difference=0.02)``.
    sensitive_features : str, int, list of these, or function, default=None
        As in :class:`FairPostprocessor`.
    aware : bool or list of str, default=False
        As in :class:`FairPostprocessor`.
    cost : float, pair, or array of shape (M, 2), default=0.5
        As in :class:`FairPostprocessor`.
    randomize : bool, default=False
        False gives one classifier: of those trained, the one of least risk, where a violation that cannot be
        chance counts as risk at a price. True gives the mixture itself, a ``ClassifierMixture`` of at
        most one classifier more than the requirement has constraints. It reaches requirements that no single
        classifier does, such as exact parity, and each person is decided by one of them for good.
    max_fits : int, default=20
        Most classifiers that are trained: two in each round, on the two halves of the rows, and four are left
        for the result, which is trained on all rows (a mixture may need more). With a guarantee, half as many
        rounds, but at least 2, for each of three tolerances.
    guarantee : float or Guarantee, default=None
        As in :class:`FairPostprocessor`; classifiers or mixtures for ever looser tolerances are tested.
    posteriors : CrossFit, default=None
        As in :class:`FairPostprocessor`; by default in two folds, and in the form "joint". The mean of the
        fold models is always taken: they serve for the training rows only.
    groups : GroupPolicy, default=None
        As in :class:`FairPostprocessor`. The default form of the posteriors, "joint", learns nothing from
        excluded rows, and neither does the classifier that is trained: its costs depend on the groups.
    pos_label : object, default=None
        The positive label. By default the one that sorts last.
    random_state : int, RandomState or None, default=0
        For folds and halves of the rows, and the hash key of a mixture.
    n_jobs : int, default=None
        Folds fitted, and batches of a lazy table scored, in parallel.
    verbose : bool, default=False
        Whether to show progress.

    Attributes
    ----------
    model_ : classifier, GroupThresholds, ClassifierMixture or None
        What was trained. It takes X without its sensitive columns, with the 0/1 columns that `aware`
        appends, and answers 1 for the positive label. Where the group is known it may be a classifier with a
        threshold for each group. None if all rows had to be decided alike, with a
        :class:`~evenhand.exceptions.ConstantClassifierWarning`.
    classes_ : array
        The two labels, sorted.
    pos_label_ : object
        The positive one of them.
    groups_ : Groups
    multipliers_ : dict
        Of the optimum for the posteriors, by the name of each constraint.
    achieved_ : tuple of Measurement and BoundMeasurement
        What the classifier attains, estimated by classifiers that are trained alike on half of the rows and
        judged by the labels of the other half. Groups, where they are not known to it, are by the posteriors,
        and counted where they differ from these by more than chance. With a guarantee, on the held-out rows.
        Point estimates: no test or interval goes with them.
    certificate_ : TrainingCertificate
        `objective` is the risk of this classifier under the posteriors, `bound` a risk that no fair
        classifier goes below under them. Printed, it says what any other classifier could save.
    guarantee_ : GuaranteeResult or None
        What holds on new rows, if a guarantee was asked for.
    forecast_ : Forecast
        The disparity to expect on new rows, for each notion and bound.
    n_fits_ : int
        Classifiers trained, besides models of posteriors; all but the chosen ones on half of the rows.

    Examples
    --------
    >>> import evenhand as eh
    >>> compas = eh.datasets.load_compas()
    >>> X, names = compas.one_hot()
    >>> fair = eh.FairInprocessor(constraint=eh.DemographicParity(difference=0.25), max_fits=10)
    >>> decisions = fair.fit(X, compas.label, sensitive_features=compas.sensitive).predict(X)
    >>> bool((fair.model_.predict(X) == decisions).all())
    True
    """

    randomize: bool = False
    max_fits: int = 20

    learner_: TrainedModel = field(init=False)
    certificate_: TrainingCertificate = field(init=False)
    multipliers_: Mapping[ConstraintName, float] = field(init=False)
    achieved_: tuple[AnyMeasurement, ...] = field(init=False)
    n_fits_: int = field(init=False)

    @property
    def rounds(self) -> int:
        """How often two classifiers are trained, one on each half of the rows."""
        return max(1, (int(self.max_fits) - 4) // 2)

    def _label_estimator(self) -> Any:
        return self.estimator if hasattr(self.estimator, "predict_proba") else TabularClassifier()

    def _posteriors(self) -> CrossFit:
        given = CrossFit(2) if self.posteriors is None else super()._posteriors()
        form = "joint" if isinstance(given.form, str) and given.form == "auto" else given.form
        return CrossFit(**{**given.get_params(deep=False), "form": form, "average": True})

    def settings(self) -> Settings:
        """The parameters, checked: raises an InputError if they cannot be used."""
        if is_frozen(self.estimator):
            raise InputError("a frozen classifier cannot be trained: use FairPostprocessor for it.")
        trained = TabularClassifier() if self.estimator is None else self.estimator
        check_learner(trained, weighted=True, role="estimator", probabilities=False)
        found = super().settings()
        if found.groups.missing == "impute":
            raise InputError(
                "missing='impute' is for FairPostprocessor: rates of trained classifiers are estimated by "
                "counting groups, which must be known."
            )
        if isinstance(found.posteriors.cv, float):
            raise InputError(
                f"cv={found.posteriors.cv!r} holds rows out, and training needs posteriors of all: set folds."
            )
        check_count("max_fits", self.max_fits, 1)
        if not isinstance(self.randomize, bool | np.bool_):
            raise InputError(f"randomize must be True or False, got {self.randomize!r}.")
        if is_frozen(found.learners[1]) and self.aware and self.aware is not True:
            # It takes no columns beyond those of its fit, and the classifier would not see what it may.
            raise InputError("group_estimator may be frozen only where aware is True or False.")
        return found

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Learn posteriors, choose multipliers, and train.

        Parameters
        ----------
        X : table, array or sparse matrix
            Of a lazy table or one of Dask, at most `max_samples` rows are trained on and judged by; small
            groups are kept whole.
        y : array
            Any two labels. The name of a column of a table that is not in memory.
        sensitive_features : table, mapping, array or sequence, default=None
            One column per sensitive feature, unless the constructor names columns of X.
        sample_weight : array, default=None

        Returns
        -------
        self
        """
        self.__dict__.pop("learner_", None)  # an interrupted fit leaves an unfitted estimator

        if Proxy in (type(sensitive_features), type(self.sensitive_features)):
            raise InputError("proxies are for FairPostprocessor: trained classifiers need known groups.")

        # Read the table, the labels, the groups, and who may see what, wherever the rows are.
        settings, seed = self.settings(), draw_seed(self.random_state)
        rows = read_rows(settings, X, y, sensitive_features, sample_weight, seed=seed)
        data = rows.standing_for_all

        # Out-of-fold posteriors P(S, Y | x), calibrated.
        posteriors = rows.learn(settings, data, seed)

        # Classifiers trained with the costs of multipliers, and the best of them or of their mixtures.
        trained = train_fair(self, settings.constraint, data, posteriors, seed=seed, held_out=rows.held_out)
        chosen, optimum = trained.chosen, trained.generated.optimum
        self.forecast_ = forecast(trained.constraint, data, posteriors, chosen.rates, trained.selection)
        missed = excess(trained.generated.problem, chosen.rates)
        if trained.guarantee is not None:
            warn_if_not_guaranteed(trained.guarantee)
        elif missed > _SHOWN:
            warn_user(_missed(self, trained, missed), ToleranceWarning)
        else:
            warn_if_exceeded(self.forecast_)

        self._remember(data, seed)
        self.multipliers_, self.certificate_ = optimum.multipliers, trained.certificate
        self.achieved_, self.guarantee_ = trained.achieved, trained.guarantee
        self.n_fits_ = trained.pool.trainer.fits
        self.learner_ = chosen.model
        self._warn_if_constant(chosen.model.selection(data.examples.take(posteriors.rows).X))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    @property
    def model_(self) -> Any:
        """The trained classifier on its own."""
        check_is_fitted(self)
        return self.learner_.model if isinstance(self.learner_, Learner) else self.learner_

    def deterministic(self) -> Self:
        """This classifier, which never randomises; a mixture is refused.

        Returns
        -------
        FairInprocessor
        """
        if isinstance(self.model_, ClassifierMixture):
            raise InputError("a mixture of classifiers draws one for each person: fit with randomize=False.")
        return copy.copy(self)

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[np.bool_]:
        visible = self.access_.read(self, X, sensitive_features)
        by_person = {"ids": ids} if isinstance(self.learner_, ClassifierMixture) else {}
        return np.asarray(self.learner_.choose(visible.X, **by_person) == 1)

    @by_batches
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Probability of each decision, in the order of ``classes_``: 0 or 1, unless ``randomize=True``.

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
        return self._by_class(self.learner_.selection(self.access_.read(self, X, sensitive_features).X))

    @by_batches
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Score of each row, positive where the decision is for ``classes_[1]``.

        Of a mixture, the probability of that decision minus a half.

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


def _missed(classifier: FairInprocessor, trained: FairTraining, missed: float) -> str:
    """What to say of a requirement that training has not reached."""
    ways = ["randomize=True"] * (not classifier.randomize) + ["aware=True"] * (classifier.aware is not True)
    judge, problem = trained.pool.trainer.judge, trained.generated.problem
    clear = beyond_chance(judge, problem, trained.chosen.rates) > 0
    chance = "more than chance explains" if clear else "which chance may explain"
    return (
        f"the trained classifier misses the requirement by an estimated {missed:.4f}, {chance}. "
        f"{', '.join([*ways, 'another estimator'])} or a wider tolerance may reach it."
    )
