"""The populations that in-processing was chosen on are what they say, and variants differ from each other."""

import numpy as np
import pytest
from benchmarks.stages import learn
from benchmarks.training import VARIANTS, Population, _generated, summary
from sklearn.linear_model import LogisticRegression

import evenhand as eh


@pytest.mark.parametrize("seed", range(4))
def test_posteriors_are_those_of_the_rows(seed):
    population = Population.random(seed)
    X, y, m = population.sample(20_000, 0)
    p = population.posteriors(X)
    assert p.sum(axis=(1, 2)) == pytest.approx(1.0)
    assert p.mean(axis=0) == pytest.approx(population.masses, abs=0.02)
    cells = np.bincount(2 * m + y, minlength=population.masses.size) / len(y)
    assert cells == pytest.approx(population.masses.ravel(), abs=0.02)
    eta = p[:, :, 1].sum(axis=1)
    sure = eta > 0.7
    assert y[sure].mean() == pytest.approx(eta[sure].mean(), abs=0.03)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_every_variant_can_be_trained():
    X, y, codes = Population.random(1).sample(600, 0)
    parity = eh.DemographicParity(difference=0.02)
    fair = eh.FairInprocessor(LogisticRegression(), parity, max_fits=10)
    learned = learn(fair, X, y, {"group": codes})
    pools = {name: _generated(fair, parity, learned, change)[0] for name, change in VARIANTS.items()}
    assert not np.allclose(pools["as it is"].sums[2], pools["groups not counted"].sums[2])
    assert all(len(pool.rates) >= 4 for pool in pools.values())


def test_regret_is_compared_in_pairs():
    cells = [
        {
            "seed": seed,
            "learner": "logistic",
            "aware": False,
            "asked": "x",
            "name": name,
            "over": 0.0,
            "fits": 5,
        }
        | {"regret": regret + seed}
        for seed in (0, 1)
        for name, regret in (("as it is, one", 1.0), ("ExponentiatedGradient", 1.5))
    ]
    found = summary(cells)["logistic, blind, as it is, one"]
    assert "regret 1.50" in found
    assert "by +0.50 ± 0.00" in found
