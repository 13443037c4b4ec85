"""How posteriors are learned: which classifiers, fitted to what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from evenhand.posteriors.chain import FeatureChain, fit_chain
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import Learner, fit_learner, is_frozen
from evenhand.posteriors.models import (
    GroupByFeature,
    Joint,
    KnownGroup,
    LabelAndProxy,
    LabelThenGroup,
    PosteriorModel,
    Product,
    Restricted,
    with_features,
)
from evenhand.posteriors.table_encoder import Encoder, TableEncoder, shared_preparation, without_last
from evenhand.posteriors.tabular import TabularClassifier

Form = Literal["separate", "label_then_group", "joint"]


@dataclass(frozen=True, eq=False)
class PosteriorSpec:
    """How to learn posteriors.

    Attributes
    ----------
    form : {"separate", "label_then_group", "joint", "known", "group", "proxy"}
        "known" and "group" are the two factors of "separate": P(Y | x) and P(S | x). "proxy" is P(Y | x) with
        probabilities of the groups that are given.
    label, group : classifier
        `label` is the model of the label, or of the cells if `form` is "joint".
    names : array, default=None
        The values of the label, which a frozen classifier may have as its classes; None stands for 0 and 1.
    seed : int, default=0
        Of the rows by which frozen classifiers are tested.
    levels : array of int, shape (M, features), default=None
        Which value each group has of each sensitive feature, in the order in which they are to be learned. By
        default, and by a frozen group model, the groups are taken for the values of one feature.
    imputed : bool, default=False
        Whether "label_then_group" learns the groups by a chain of the features, from rows that know some.
    unaware : bool, default=False
        Whether the label's model does not see what is known of the group; see :class:`Restricted`.
    """

    form: Form | Literal["known", "group", "proxy"]
    label: Any
    group: Any
    names: NDArray[Any] | None = None
    seed: int = 0
    levels: NDArray[np.intp] | None = None
    imputed: bool = False
    unaware: bool = False

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return 2 if self.names is None else len(self.names)

    @property
    def factors(self) -> tuple[PosteriorSpec, ...]:
        """What is learned in folds of its own: P(Y | x) and P(S | x), or everything at once."""
        if self.form != "separate":
            return (self,)
        return replace(self, form="known"), replace(self, form="group")

    @property
    def frozen(self) -> bool:
        """Whether nothing is fitted."""
        label = self.form == "group" or is_frozen(self.label)
        return label and (self.form in ("known", "joint", "proxy") or is_frozen(self.group))

    def sharing(self, rows: Examples, *, steps: bool) -> tuple[PosteriorSpec, Encoder | None]:
        """What all learners can share: an encoding if they are our trees, or the preparation of a pipeline.

        Parameters
        ----------
        rows : Examples
        steps : bool
            Whether the steps of a pipeline may be fitted to all of them.

        Returns
        -------
        spec, encoder
            How the encoded rows are learned from; the encoder is None if nothing is shared.
        """
        alone = {"known": self.label, "joint": self.label, "proxy": self.label, "group": self.group}
        used = [alone[self.form]] if self.form in alone else [self.label, self.group]
        if all(type(learner) is TabularClassifier for learner in used) and not issparse(rows.X):
            return self, TableEncoder.fit(rows.X)
        # Where the last columns of X have a meaning, or learners differ, steps are fitted for each model.
        suits = self.form != "proxy" and rows.known is None and all(one is used[0] for one in used)
        if not steps or not suits:
            return self, None
        every = rows.for_label
        found = shared_preparation(used[0], every.X, every.weights)
        if found is None:
            return self, None
        encoder, last = found
        return replace(self, label=last, group=last), encoder

    def fit(self, rows: Examples) -> PosteriorModel:
        """Posterior model learned from examples."""
        if self.form == "separate":
            label, group = (factor.fit(rows) for factor in self.factors)
            return Product(label, group, rows.seen)
        if self.form == "known":
            return KnownGroup(self._label(rows))
        if self.form == "proxy":
            seen = replace(rows, X=without_last(rows.X, rows.n_groups))
            return LabelAndProxy(self._label(seen), rows.n_groups)
        if self.form == "group":
            return self._by_feature(rows)
        if self.form == "joint":
            return Joint(self._group(self.label, rows, rows.cells, rows.n_cells), self.n_labels)
        given: list[Learner | FeatureChain] = []
        for value in range(self.n_labels):
            own = rows.labels == value
            which = np.flatnonzero(own if rows.weights is None else own & (rows.weights > 0))
            part = rows.take(which) if len(which) else rows
            if rows.known is None or is_frozen(self.group):
                given.append(self._group(self.group, part, part.codes, rows.n_groups))
            else:
                given.append(fit_chain(partial(self._group, self.group), part))
        model = LabelThenGroup(self._label(rows), tuple(given))
        return Restricted(model) if self.unaware else model

    def _by_feature(self, rows: Examples) -> GroupByFeature:
        whole = self.levels is None or is_frozen(self.group)
        levels = np.arange(rows.n_groups)[:, None] if whole else np.asarray(self.levels)
        models = []
        for place, level in enumerate(levels.T):
            seen = replace(rows, X=with_features(rows.X, levels[rows.codes, :place], levels))
            models.append(self._group(self.group, seen, level[rows.codes], int(level.max()) + 1))
        return GroupByFeature(tuple(models), levels)

    def _label(self, rows: Examples) -> Learner:
        """P(Y | x), also from rows without a known group."""
        rows, L = rows.for_label, self.n_labels
        target = rows.labels.astype(np.intp)
        return fit_learner(self.label, rows.X, target, n_classes=L, weights=rows.weights, names=self.names)

    def _group(self, estimator: Any, rows: Examples, target: NDArray[np.intp], n_classes: int) -> Learner:
        """Fit a model of groups or cells."""
        what = "groups and labels" if self.form == "joint" else "groups"
        return fit_learner(estimator, rows.X, target, n_classes=n_classes, weights=rows.weights, what=what)
