"""Rules without chance: of the fitted classifier, on new rows, from files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError

PROBLEM = GaussianProblem.random(levels=(2, 2), seed=3)
TRAIN, NEW = PROBLEM.sample(3000, seed=0), PROBLEM.sample(3000, seed=1)
PARITY, ODDS = eh.DemographicParity(difference=0.03), eh.EqualizedOdds(difference=0.0)


def bands(X):
    """Few values, so that many people are alike."""
    return np.round(np.clip(X, -1.5, 1.5))


def fitted(constraint=PARITY, *, aware=False, estimator=None, **settings):
    estimator = LogisticRegression() if estimator is None else estimator
    fair = eh.FairPostprocessor(estimator, constraint, aware=aware, posteriors=eh.CrossFit(2), **settings)
    return fair.fit(bands(TRAIN.X), TRAIN.y, sensitive_features=TRAIN.sensitive)


def shown(fair, most=None):
    values = {name: column[:most] for name, column in NEW.sensitive.items()}
    return {"sensitive_features": values} if fair.aware else {}


@pytest.mark.parametrize(
    ("constraint", "settings"),
    [
        (PARITY, {}),
        (PARITY, {"aware": True}),
        (PARITY, {"aware": ["A1"]}),
        (eh.EqualizedOdds(difference=0.1), {}),
        (ODDS, {"aware": True}),
        (PARITY, {"objective": "minimax"}),
        (eh.DemographicParity(ratio=0.9, against="groups"), {"aware": True}),
    ],
    ids=["blind", "aware", "mixed", "odds", "aware odds", "minimax", "between groups"],
)
def test_nothing_is_randomised_and_the_file_is_proven(constraint, settings, tmp_path):
    fair = fitted(constraint, **settings)
    before = fair.rule_
    assert fair.rule_.randomises
    strict = fair.deterministic()
    assert not strict.rule_.randomises
    assert fair.rule_ is before
    new = bands(NEW.X)
    chances = strict.predict_proba(new, **shown(fair))[:, 1]
    assert set(chances.tolist()) <= {0.0, 1.0}
    decisions = strict.predict(new, **shown(fair))
    np.testing.assert_array_equal(decisions, chances)
    np.testing.assert_array_equal(decisions, strict.predict(new, ids=np.arange(len(new)), **shown(fair)))
    # Decisions that were not randomised stay, except within a range of scores that was.
    sure = fair.predict_proba(new, **shown(fair))[:, 1]
    settled = (sure == 0) | (sure == 1)
    np.testing.assert_array_equal(chances[settled], sure[settled])
    told = strict.explain(new[:50], **shown(fair, 50))
    assert [one.decision for one in told] == decisions[:50].tolist()
    assert not any(one.randomised for one in told)

    path = tmp_path / "strict.evenhand"
    eh.save(strict, path)
    again = eh.load(path)
    np.testing.assert_array_equal(again.predict(new, **shown(fair)), decisions)
    assert again.deterministic().rule_.to_json() == strict.rule_.to_json()
    report = eh.verify(path, data=(bands(TRAIN.X), TRAIN.y), sensitive_features=TRAIN.sensitive)
    assert report.proof.confirmed, report.proof.verdict
    eh.save(fair, tmp_path / "fair.evenhand")
    assert eh.load(tmp_path / "fair.evenhand").deterministic().rule_.to_json() == strict.rule_.to_json()


def test_the_certificate_has_the_optimum_and_what_the_rule_attains():
    fair = fitted()
    strict = fair.deterministic()
    assert strict.certificate_.objective == fair.certificate_.objective
    assert strict.certificate_.bound == fair.certificate_.bound
    [found] = PARITY.measure(strict.rates_)
    assert strict.certificate_.shipped_violation == pytest.approx(found.excess, abs=1e-9)
    assert strict.certificate_.shipped_objective == pytest.approx(strict.rates_.risk())
    assert strict.certificate_.of_rule == (
        strict.certificate_.shipped_objective,
        strict.certificate_.shipped_violation,
    )


def test_a_choice_that_is_not_the_nearest_is_not_confirmed(tmp_path):
    strict = fitted().deterministic()
    ties = np.array(strict.rule_.chances)
    strict.rule_ = replace(strict.rule_, chances=1 - ties)
    eh.save(strict, tmp_path / "strict.evenhand")
    report = eh.verify(
        tmp_path / "strict.evenhand",
        data=(bands(TRAIN.X), TRAIN.y),
        sensitive_features=TRAIN.sensitive,
    )
    assert not report.proof.confirmed


def test_ties_of_the_deployed_model_are_chosen_by_the_rows_that_it_puts_there():
    """The frozen model has the same ties out of fold; of all choices, none has a smaller violation."""
    estimator = FrozenEstimator(DecisionTreeClassifier(max_depth=2).fit(bands(NEW.X), NEW.y))
    fair = fitted(estimator=estimator)
    strict, rule = fair.deterministic(), fair.rule_
    ties = np.flatnonzero((rule.chances > 0) & (rule.chances < 1))
    assert 0 < len(ties) < 8
    found = []
    for bits in np.ndindex(*(2,) * len(ties)):
        chances = np.array(rule.chances)
        chances[ties] = bits
        fair.rule_ = replace(rule, chances=chances)
        selected = fair.predict_proba(bands(TRAIN.X))[:, 1]
        # Rates by the posteriors, which here are those that decide.
        p = fair._read(bands(TRAIN.X), None)[1].dense()
        rates = eh.cell_rates(TRAIN.y, selected, TRAIN.sensitive)
        mass, chosen = p.sum(axis=0), np.tensordot(selected, p, axes=1)
        [parity] = PARITY.measure(type(rates)(rates.groups, mass, chosen))
        found.append(parity.excess)
    assert strict.certificate_.shipped_violation == pytest.approx(min(found), abs=1e-9)


def test_strata_have_ties_of_their_own(tmp_path):
    level = np.where(np.arange(len(TRAIN.y)) % 3 == 0, "low", "high")
    X = pd.DataFrame({"x": bands(TRAIN.X)[:, 0], "level": level})
    parity = eh.DemographicParity(difference=0.02, given=["level"])
    estimator = eh.TabularClassifier(max_iter=10)
    fair = eh.FairPostprocessor(estimator, parity, posteriors=eh.CrossFit(2))
    fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    strict = fair.deterministic()
    assert fair.rule_.randomises
    assert not strict.rule_.randomises
    told = strict.explain(X[:40], reasons=1)
    assert [one.decision for one in told] == strict.predict(X[:40]).tolist()
    eh.save(strict, tmp_path / "strict.evenhand")
    report = eh.verify(tmp_path / "strict.evenhand", data=(X, TRAIN.y), sensitive_features=TRAIN.sensitive)
    assert report.proof.confirmed, report.proof.verdict


def test_rows_of_files_have_the_same_rule_as_those_in_memory(tmp_path):
    """More rows than are learned from, so that ties are counted batch by batch."""
    table = pl.DataFrame({"x": bands(TRAIN.X)[:, 0], "y": TRAIN.y, **TRAIN.sensitive})
    table.write_parquet(tmp_path / "people.parquet")
    settings = {"sensitive_features": ["A1", "A2"], "posteriors": eh.CrossFit(2, max_samples=1500)}
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, **settings)
    fair.fit(pl.scan_parquet(tmp_path / "people.parquet"), "y")
    strict = fair.deterministic()
    assert fair.rule_.randomises
    assert not strict.rule_.randomises
    eh.save(strict, tmp_path / "strict.evenhand")
    report = eh.verify(tmp_path / "strict.evenhand", data=(pl.scan_parquet(tmp_path / "people.parquet"), "y"))
    assert report.proof.confirmed, report.proof.verdict


def test_thresholds_by_ranks_are_deterministic_already_and_tests_do_not_cover_another_rule():
    data = PROBLEM.sample(8000, seed=5)
    ranked = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.2), aware=True, guarantee=0.9
    ).fit(data.X, data.y, sensitive_features=data.sensitive)
    assert ranked.guarantee_.ranks is not None
    strict = ranked.deterministic()
    assert strict.rule_ is ranked.rule_
    assert strict.guarantee_.holds
    told = strict.explain(
        NEW.X[:5], sensitive_features={k: v[:5] for k, v in NEW.sensitive.items()}, reasons=1
    )
    assert all(one.person and one.auditor for one in told)
    tested = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.1), guarantee=0.9)
    tested.fit(bands(data.X), data.y, sensitive_features=data.sensitive)
    assert tested.rule_.randomises
    with pytest.raises(InputError, match="`guarantee` was tested for decisions that are randomised"):
        tested.deterministic()


def test_a_mixture_is_refused_and_a_single_classifier_is_deterministic():
    fits = {"posteriors": eh.CrossFit(2), "max_fits": 8}
    single = eh.FairInprocessor(LogisticRegression(), eh.DemographicParity(difference=0.5), **fits)
    single.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    np.testing.assert_array_equal(single.deterministic().predict(NEW.X), single.predict(NEW.X))
    parity = eh.DemographicParity(difference=0.05)
    mixed = eh.FairInprocessor(LogisticRegression(), parity, randomize=True, **fits)
    mixed.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    with pytest.raises(InputError, match="draws one for each person: fit with randomize=False"):
        mixed.deterministic()
