"""Intervals of audits by proxies contain the rates of the population, and what breaks them."""

import warnings

import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import ProxyCalibrationWarning

DRAWS = 120
ROWS = 2_000
SHARE = 0.4
"""Share that is selected among people with the same probability."""


def vague(rng, n):
    """Probabilities of any size."""
    return rng.beta(0.8, 1.2, n)


def few(rng, n):
    return rng.choice([0.1, 0.3, 0.6, 0.9], n)


def sharp(rng, n):
    """Probabilities of people whose group is nearly certain."""
    return np.where(rng.random(n) < 0.3, 0.97, 0.02)


def independent(b):
    """Decisions that do not depend on the group."""
    return np.full_like(b, SHARE), np.full_like(b, SHARE)


def favoured(b):
    """As many of the group as possible are selected: its rate is Frechet's upper bound."""
    own = np.minimum(1.0, SHARE / b)
    return own, (SHARE - b * own) / (1 - b)


def excluded(b):
    """As few of the group as possible are selected: its rate is Frechet's lower bound."""
    own = np.maximum(0.0, (SHARE + b - 1) / b)
    return own, (SHARE - b * own) / (1 - b)


def draw(rng, probabilities, decisions, n=ROWS):
    """Probabilities, groups, labels and decisions; labels depend on the group as well."""
    b = probabilities(rng, n)
    member = rng.random(n) < b
    own, other = decisions(b)
    selected = rng.random(n) < np.where(member, own, other)
    positive = rng.random(n) < np.where(member, 0.35, 0.55)
    return b, member, positive, selected


def population(probabilities, decisions):
    """Selection rate of the group, true-positive rate of the group, and its difference from everyone."""
    b = probabilities(np.random.default_rng(12345), 400_000)
    own, _ = decisions(b)
    rate = float(b @ own / b.sum())
    return {"selection rate": rate, "true-positive rate": rate, "difference": rate - SHARE}


def audit(b, positive, selected, known=None):
    proxy = eh.Proxy(g={"in": b, "out": 1 - b}, known=known)
    return eh.audit(positive, selected, proxy, constraint=eh.DemographicParity(difference=0.1))


def covered(probabilities, decisions, report=lambda b: b):
    """Share of draws whose interval contains the truth, for two rates and the difference."""
    truth = population(probabilities, decisions)
    hits = dict.fromkeys(truth, 0)
    for seed in range(DRAWS):
        b, _, positive, selected = draw(np.random.default_rng(seed), probabilities, decisions)
        found = audit(report(b), positive, selected)
        [group] = [one for one in found.groups if one.group.values == ("in",)]
        [gap] = [one for one in found.comparisons[0].distances if one.group.values == ("in",)]
        for name in ("selection rate", "true-positive rate"):
            hits[name] += group.rates[name].low <= truth[name] <= group.rates[name].high
        hits["difference"] += gap.low <= truth["difference"] <= gap.high
    return {name: count / DRAWS for name, count in hits.items()}


@pytest.mark.parametrize(
    ("probabilities", "decisions"),
    [
        (vague, favoured),
        (few, excluded),
        (sharp, independent),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in [(vague, independent), (vague, excluded), (few, independent), (few, favoured)]
        ),
        *(pytest.param(sharp, one, marks=pytest.mark.slow) for one in (favoured, excluded)),
    ],
)
def test_calibrated_proxies_have_their_coverage(probabilities, decisions):
    """Also where decisions are as unequal as the probabilities allow, so that the truth is at the bound."""
    for name, share in covered(probabilities, decisions).items():
        assert share >= 0.95, name


@pytest.mark.parametrize("decisions", [independent, favoured])
def test_the_estimate_alone_is_right_only_if_decisions_ignore_the_group(decisions):
    truth, errors = population(vague, decisions)["selection rate"], []
    for seed in range(20):
        b, _, _, selected = draw(np.random.default_rng(seed), vague, decisions)
        errors.append(b @ selected / b.sum() - truth)
    off = abs(np.mean(errors))
    assert off < 0.01 if decisions is independent else off > 0.2


@pytest.mark.parametrize("shift", [-0.1, pytest.param(0.1, marks=pytest.mark.slow)])
def test_vague_proxies_that_are_somewhat_wrong_still_cover_moderate_differences(shift):
    """The interval is wide because proxies tell little, and the error is small against that."""
    found = covered(vague, independent, lambda b: np.clip(b + shift, 0.001, 0.999))
    assert min(found.values()) >= 0.95


def test_sure_proxies_that_are_wrong_break_intervals_and_known_values_show_it():
    """Probabilities of 0.97 where 0.6 are members: the interval is narrow, and around the wrong number."""

    def true(rng, n):
        return np.where(rng.random(n) < 0.3, 0.6, 0.02)

    def report(b):
        return np.where(b > 0.5, 0.97, 0.02)

    assert covered(true, favoured, report)["selection rate"] < 0.5

    warned = {"wrong": 0, "calibrated": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        b, member, positive, selected = draw(rng, true, favoured)
        known = np.where(rng.random(ROWS) < 0.15, np.where(member, "in", "out"), None)
        for name, p in (("wrong", report(b)), ("calibrated", b)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                audit(p, positive, selected, known={"g": known})
            warned[name] += any(issubclass(one.category, ProxyCalibrationWarning) for one in said)
    assert warned["wrong"] >= 38
    assert warned["calibrated"] <= 4


def test_the_most_probable_group_misstates_the_difference():
    """Why there is no option for it: decisions that ignore the group look unequal, or unequal ones equal."""
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        b = vague(rng, ROWS)
        member = rng.random(ROWS) < b
        selected = rng.random(ROWS) < 0.2 + 0.5 * b  # by what the proxies are made of
        likely = b > 0.5
        truth = selected[member].mean() - selected[~member].mean()
        errors.append(selected[likely].mean() - selected[~likely].mean() - truth)
        weighted = b @ selected / b.sum() - (1 - b) @ selected / (1 - b).sum()
        assert abs(weighted - truth) < 0.07
    assert np.mean(errors) > 0.05
