"""The intervals of an audit cover the true values, and a clear violation is found.

Fixed seeds, 150 samples each. At a coverage of exactly 0.95, fewer than 0.90 of them are covered less than
once in a hundred times.
"""

import numpy as np
import pytest

import evenhand as eh
from evenhand.auditing.comparison import compare, four_fifths
from evenhand.auditing.group_rates import find
from evenhand.auditing.rate_bounds import compare_with_bound
from evenhand.auditing.tally import Tally
from evenhand.groups.groups import Groups
from evenhand.requirements.rates import CellRates

PARITY = eh.DemographicParity(difference=0.0)
SAMPLES = 150
LEAST = 0.90
SHAPES = {
    "equal": lambda m: np.full(m, 0.5),
    "apart": lambda m: np.linspace(0.3, 0.7, m),
    "seldom": lambda m: np.linspace(0.02, 0.06, m),
    "one off": lambda m: np.r_[np.full(m - 1, 0.6), 0.2],
}


class Population:
    """Groups of equal size except for one of 1 %; positives are selected twice as often as negatives."""

    def __init__(self, m, rates, seed=0):
        part = np.r_[np.full(m - 1, 0.99 / (m - 1)), 0.01]
        self.joint = part[:, None] * np.array([0.6, 0.4])
        self.rho = rates[:, None] * np.array([0.5, 1.0])
        self.groups = Groups.product({"group": range(m)})
        self.truth = CellRates(self.groups, self.joint, self.joint * self.rho)
        self.rng = np.random.default_rng(seed)

    def sample(self, n):
        rows = self.rng.multinomial(n, self.joint.ravel()).reshape(self.joint.shape)
        selected = self.rng.binomial(rows, self.rho).astype(float)
        rows = rows.astype(float)
        return unweighted(self.groups, rows, selected)


def unweighted(groups, rows, selected, *, labelled=True):
    sums = np.broadcast_to([rows, selected], (3, 2, *rows.shape))
    return Tally(groups, sums, sums[:, :, :0], weighted=False, labelled=labelled)


def covered(found, truth):
    return found.low - 1e-12 <= truth <= found.high + 1e-12


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("kind", "m"), [(eh.DemographicParity, 2), (eh.DemographicParity, 16), (eh.EqualOpportunity, 4)]
)
def test_the_worst_of_all_groups_is_covered(kind, shape, m):
    population = Population(m, SHAPES[shape](m))
    for notion in (kind(difference=0.0), kind(ratio=1.0)):
        [truth] = notion.measure(population.truth)
        hits = [covered(compare(notion, population.sample(3000), 0.95), truth.value) for _ in range(SAMPLES)]
        assert np.mean(hits) >= LEAST


@pytest.mark.parametrize(("n", "rate"), [(3200, 0.005), (3200, 0.02), (32_000, 0.005)])
def test_rare_selections_are_not_taken_for_a_violation(n, rate):
    """Where one in two hundred is selected, one group of sixteen is easily far off by chance."""
    rng = np.random.default_rng(0)
    groups = Groups.product({"group": range(16)})
    hits = []
    for _ in range(SAMPLES):
        rows = np.stack([rng.multinomial(n, np.full(16, 1 / 16)), np.zeros(16)], axis=1)
        selected = rng.binomial(rows.astype(int), rate).astype(float)
        counted = unweighted(groups, rows, selected, labelled=False)
        hits.append(compare(PARITY, counted, 0.95).low == 0)
    assert np.mean(hits) >= LEAST


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 16])
@pytest.mark.parametrize("shape", ["equal", "apart"])
def test_the_lowest_rate_over_the_highest_is_covered(shape, m):
    population = Population(m, SHAPES[shape](m))
    rates = population.truth.selected.sum(axis=1) / population.truth.mass.sum(axis=1)
    truth = rates.min() / rates.max()
    hits = [covered(four_fifths(population.sample(3000), 0.95)[0], truth) for _ in range(SAMPLES)]
    assert np.mean(hits) >= LEAST


def test_the_rates_of_each_group_are_covered():
    population = Population(4, SHAPES["apart"](4))
    truth = {
        "selection rate": population.truth.selected.sum(axis=1) / population.truth.mass.sum(axis=1),
        "true-positive rate": population.rho[:, 1],
        "false-positive rate": population.rho[:, 0],
    }
    hits = {(name, k): [] for name in truth for k in range(4)}
    for _ in range(SAMPLES):
        for k, found in enumerate(find(population.sample(3000), 0.95)[1:]):
            for name, values in truth.items():
                hits[name, k].append(covered(found.rates[name], values[k]))
    # The smallest group has 12 positives: its coverage depends on the rate a little.
    assert all(np.mean(found) >= LEAST - 0.01 * (k == 3) for (_, k), found in hits.items())


def test_the_estimate_of_the_worst_is_biased_and_its_interval_is_not():
    """Sixteen equal groups never look equal in a sample, but are hardly ever called unequal."""
    population = Population(16, SHAPES["equal"](16))
    found = [
        compare(eh.DemographicParity(difference=0.01), population.sample(3000), 0.95) for _ in range(200)
    ]
    assert np.mean([one.value for one in found]) > 0.05
    assert np.mean([one.verdict == "violated" for one in found]) <= 0.05
    assert all(one.verdict != "satisfied" for one in found)


@pytest.mark.parametrize("measure", [{"difference": 0.05}, {"ratio": 0.9}])
def test_a_clear_violation_is_found(measure):
    population = Population(4, np.array([0.6, 0.6, 0.6, 0.2]))
    notion = eh.DemographicParity(**measure)
    verdicts = [compare(notion, population.sample(20_000), 0.95).verdict for _ in range(100)]
    assert verdicts.count("violated") >= 99


def test_a_requirement_met_with_a_margin_is_found_to_hold():
    population = Population(4, SHAPES["equal"](4))
    for notion in (eh.DemographicParity(difference=0.1), eh.DemographicParity(ratio=0.7)):
        verdicts = [compare(notion, population.sample(50_000), 0.95).verdict for _ in range(50)]
        assert verdicts.count("satisfied") >= 48


@pytest.mark.slow
def test_weighted_samples_are_covered():
    """Weights differ by a factor of nine and are independent of the decisions."""
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(SAMPLES):
        codes = rng.integers(0, 2, 400)
        weights = rng.uniform(0.2, 1.8, 400)
        chosen = rng.random(400) < np.where(codes, 0.3, 0.5)
        found = eh.audit(
            None, chosen, codes, sample_weight=weights, constraint=eh.DemographicParity(difference=0)
        )
        hits.append(covered(found.groups[1].rates["selection rate"], 0.5))
    assert np.mean(hits) >= LEAST


def weighted_rows(rng, n=2000):
    """One row in twenty weighs ten times as much as the others, and is selected far more often."""
    codes, heavy = rng.integers(0, 2, n), rng.random(n) < 0.05
    return codes, heavy, np.where(heavy, 10.0, 1.0)


def weighted_mean(light, heavy):
    return (0.95 * light + 0.05 * 10 * heavy) / (0.95 + 0.05 * 10)


@pytest.mark.slow
def test_weights_correlated_with_decisions_are_covered():
    """With Kish's effective sample size 0.87 of the rates would be covered, and 0.86 of the differences."""
    rng = np.random.default_rng(2)
    chance = np.array([[0.01, 0.2], [0.04, 0.6]])
    rates = weighted_mean(*chance.T)
    hits, apart = [], []
    for _ in range(2 * SAMPLES):
        codes, heavy, weights = weighted_rows(rng)
        p = chance[codes, heavy.astype(int)]
        chosen = rng.random(len(p)) < p
        found = eh.audit(None, chosen, codes, sample_weight=weights, constraint=PARITY)
        hits += [covered(found.groups[k + 1].rates["selection rate"], rates[k]) for k in (0, 1)]
        apart.append(covered(found["demographic parity"], np.ptp(rates) / 2))
    assert np.mean(hits) >= 0.93
    assert np.mean(apart) >= 0.93


@pytest.mark.slow
def test_changes_correlated_with_weights_are_covered():
    """Only heavy rows change. With Kish's effective sample size 0.82 of the samples would be covered."""
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(2 * SAMPLES):
        codes, heavy, weights = weighted_rows(rng)
        first = rng.random(len(codes)) < 0.3
        second = first | (heavy & (rng.random(len(codes)) < 0.5))
        found = eh.audit(None, second, codes, before=first, sample_weight=weights, constraint=PARITY)
        truth = weighted_mean(0.0, 0.7 * 0.5)
        hits.append(covered(found.groups[0].change.rates["selection rate"], truth))
    assert np.mean(hits) >= 0.93


@pytest.mark.slow
def test_changes_of_the_same_rows_are_covered():
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(SAMPLES):
        y, codes = rng.random(300) < 0.4, rng.integers(0, 2, 300)
        first = rng.random(300) < 0.4
        second = np.where(rng.random(300) < 0.8, first, rng.random(300) < 0.7)
        found = eh.audit(y, second, codes, before=first, constraint=PARITY)
        hits.append(covered(found.groups[0].change.rates["selection rate"], 0.2 * (0.7 - 0.4)))
    assert np.mean(hits) >= LEAST


@pytest.mark.parametrize(("shape", "m"), [*((shape, 16) for shape in SHAPES), ("apart", 2)])
def test_the_largest_distance_between_groups_is_covered(shape, m):
    population = Population(m, SHAPES[shape](m))
    for limit in ({"difference": 0.0}, {"ratio": 1.0}):
        for kind in (eh.DemographicParity, eh.EqualOpportunity):
            notion = kind(**limit, against="groups")
            [truth] = notion.measure(population.truth)
            hits = [covered(compare(notion, population.sample(3000), 0.95), truth.value) for _ in range(60)]
            assert np.mean(hits) >= LEAST


@pytest.mark.parametrize("groups", ["population", "intersectional"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_lowest_and_the_highest_bounded_rate_are_covered(shape, groups):
    """Precision is a quotient of two random counts; given the selected, its hits are binomial."""
    population = Population(8, SHAPES[shape](8))
    for rate in ("selection rate", "true-positive rate", "precision", "accuracy"):
        bound = eh.RateBound(rate, at_least=0.5, at_most=0.5, groups=groups)
        [truth] = bound.measure(population.truth)
        hits = []
        for _ in range(60):
            low, high = compare_with_bound(bound, population.sample(3000), 0.95)
            hits.append(covered(low, truth.values.min()) and covered(high, truth.values.max()))
        assert np.mean(hits) >= LEAST


def test_a_bound_that_just_holds_is_hardly_ever_called_violated():
    population = Population(8, SHAPES["equal"](8))
    bound = eh.RateBound("true-positive rate", at_least=0.5, at_most=0.5, groups="intersectional")
    found = [one for _ in range(200) for one in compare_with_bound(bound, population.sample(3000), 0.95)]
    assert np.mean([one.verdict == "violated" for one in found]) <= 0.05
    assert all(one.verdict != "satisfied" for one in found)


def test_losses_of_the_same_rows_are_covered():
    """No group is worse off: at least a few rows change in each."""
    rng = np.random.default_rng(4)
    hits = []
    for _ in range(SAMPLES):
        codes = rng.integers(0, 4, 800)
        first = rng.random(800) < 0.4
        second = np.where(rng.random(800) < 0.8, first, rng.random(800) < 0.4)
        found = eh.audit(None, second, codes, before=first, constraint=eh.NoWorse("selection rate"))
        hits.append(covered(found["selection rate no worse"], 0.0))
    assert np.mean(hits) >= 0.93
