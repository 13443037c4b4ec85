"""Figures of deciders on held-out rows, by a second computation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.metrics import roc_auc_score

import evenhand as eh
from evenhand.less_discriminatory.paired_comparison import Comparison, Decider, Rows

NAMES = eh.Groups.product({"sex": ["F", "M"]}).members("independent").names


def people(n=400, seed=0, reference=1):
    rng = np.random.default_rng(seed)
    sex = rng.random(n) < 0.5
    positive = rng.random(n) < 0.4
    references = np.full(2, reference)
    return Rows(positive, np.array([~sex, sex]), NAMES, references)


tied = arrays(np.float64, 400, elements=st.integers(0, 12).map(float))


@given(tied, st.floats(0.05, 0.95))
def test_figures_by_repeating_rows(scores, share):
    rows, counts = people(), np.random.default_rng(1).integers(1, 4, 400).astype(float)
    found = Decider(scores).figures(rows, counts, share)
    copies = np.repeat(np.arange(400), counts.astype(int))
    y, s = rows.positive[copies], scores[copies]
    selected = Decider(scores).selected(counts, share)
    assert np.average(selected, weights=counts) == pytest.approx(share)
    assert (selected[scores > scores[selected > 0].min()] == 1).all()  # only the ties at the cut-off in part
    f = selected[copies]
    assert found[0] == pytest.approx((f * y + (1 - f) * ~y).mean())
    assert found[1] == pytest.approx(roc_auc_score(y, s))
    assert found[2] == pytest.approx(stats.ks_2samp(s[y], s[~y]).statistic)
    for k, members in enumerate(rows.members):
        assert found[3 + k] == pytest.approx(f[members[copies]].mean())


def test_decisions_have_rates_and_no_ranks():
    rows = people()
    decisions = (np.arange(400) % 3 == 0).astype(float)
    found = Decider(None, decisions).figures(rows, rows.once, 0.9)
    assert found[0] == pytest.approx((decisions == rows.positive).mean())
    assert np.isnan(found[1:3]).all()


def test_the_reference_may_be_the_highest_rate():
    rates = np.array([0.4, 0.2])
    assert people(reference=1).ratios(rates).tolist() == [2.0, 1.0]
    assert people(reference=-1).ratios(rates).tolist() == [1.0, 0.5]
    assert np.isnan(people(reference=1).ratios(np.array([0.4, 0.0]))).all()


def test_draws_are_paired_and_at_the_rate_of_the_incumbent():
    rows = people()
    scores = np.random.default_rng(1).random(400)
    incumbent = Decider(scores, (scores > 0.7).astype(float))
    same = Decider(scores)
    figures = Comparison(rows, [incumbent, same], 0.3, draws=20, seed=3, confidence=0.95).figures
    assert figures.shape == (21, 2, 5)
    assert figures[:, 0] == pytest.approx(figures[:, 1])
    assert figures[1:, 0, 0].std() > 0
