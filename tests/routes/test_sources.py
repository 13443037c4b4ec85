"""What works in memory works on files and on a cluster: one grid of sources and features.

Where no more rows than `max_samples` are there, all of them are learned from and every source gives the
answer of a table in memory, to the bit. Where there are more, a sample is learned from: files and a cluster
draw the same one, and agree; what a memory fit would decide is checked on rates.
"""

import dask.dataframe as dd
import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from tests.flat import build

import evenhand as eh
from evenhand.data import batched_table
from evenhand.guarantee import margins

N = 2400
PARITY = eh.DemographicParity(difference=0.03)
WIDE = eh.DemographicParity(difference=0.2)
ODDS = eh.EqualizedOdds(difference=0.05)


def people(n=N, seed=0, gaps=0.0):
    """Four groups of different sizes, a control feature, a proxy of race, and weights."""
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["F", "M"], n), rng.choice(["a", "b"], n, p=[0.75, 0.25])
    level = rng.choice([1, 2], n, p=[0.6, 0.4])
    apart = 0.8 * (sex == "M") - 0.6 * (race == "b") + 0.4 * (level == 2)
    x = rng.normal(apart[:, None], 1.0, (n, 2))
    label = rng.random(n) < 1 / (1 + np.exp(-1.5 * x.sum(axis=1)))
    proxy = np.clip(0.25 + 0.5 * (race == "b") + rng.normal(0, 0.1, n), 0.02, 0.98)
    known = np.where(rng.random(n) < gaps, None, race.astype(object))
    return pl.DataFrame(
        {
            "x0": x[:, 0],
            "x1": x[:, 1],
            "level": level,
            "sex": sex,
            "race": pl.Series(known.tolist(), dtype=pl.String),
            "p_a": 1 - proxy,
            "p_b": proxy,
            "paid": np.where(label, "yes", "no"),
            "weight": np.where(rng.random(n) < 0.5, 1.0, 2.0),
        }
    )


class Feature:
    """Settings of a classifier, and the table that it is fitted to."""

    def __init__(self, name, *, gaps=0.0, weighted=False, drop=("p_a", "p_b"), trained=False, **settings):
        kind = eh.FairInprocessor if trained else eh.FairPostprocessor
        self.name = name
        self.table = people(gaps=gaps).drop(*drop)
        self.weighted = weighted
        if not weighted:
            self.table = self.table.drop("weight")
        self.model = build(
            kind,
            **{
                "estimator": LogisticRegression(),
                "constraint": PARITY,
                "sensitive_features": ["sex", "race"],
                "cv": 3,
                **settings,
            },
        )

    @property
    def features(self):
        return self.table.drop("paid", *(["weight"] if self.weighted else []))


FEATURES = {
    "blind": {},
    "aware": {"aware": True},
    "partly aware": {"aware": ["sex"]},
    "odds": {"constraint": ODDS},
    "between groups": {"constraint": eh.EqualOpportunity(difference=0.05, against="groups")},
    "weights": {"weighted": True},
    "splitter": {"cv": ShuffleSplit(2, test_size=0.5, random_state=0)},
    "controls": {"constraint": eh.DemographicParity(difference=0.05, given=["level"])},
    "controls, aware": {"constraint": eh.DemographicParity(difference=0.05, given=["level"]), "aware": True},
    "minimax": {"objective": "minimax"},
    "bounds": {"constraint": PARITY & eh.RateBound("selection rate", at_most=0.4)},
    "missing as a group": {"gaps": 0.2, "missing": "category"},
    "missing excluded": {"gaps": 0.2, "missing": "exclude"},
    "missing excluded, aware": {"gaps": 0.2, "missing": "exclude", "aware": ["sex"]},
    "missing imputed": {"gaps": 0.2, "missing": "impute"},
    "missing imputed, aware": {"gaps": 0.2, "missing": "impute", "aware": True},
    "proxies": {
        "drop": ("sex", "race"),
        "sensitive_features": eh.Proxy(race={"a": "p_a", "b": "p_b"}),
        "constraint": eh.DemographicParity(difference=0.05),
    },
    "guarantee": {"confidence": 0.9, "constraint": eh.DemographicParity(difference=0.2)},
    "guarantee, aware": {
        "confidence": 0.9,
        "constraint": eh.DemographicParity(difference=0.2),
        "aware": True,
    },
    "pooled": {"min_group_size": 350},
    "trained": {"trained": True, "max_refits": 3, "posterior": "joint", "cv": 2},
}


QUICK = ("controls", "missing imputed, aware", "guarantee", "trained")
"""Features that are tried in every run of the tests; the others where slow ones run."""


@pytest.fixture(
    params=[one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in FEATURES]
)
def feature(request):
    return Feature(request.param, **FEATURES[request.param])


@pytest.fixture(autouse=True)
def few_margins(monkeypatch):
    """A guarantee tests three classifiers or four: a cluster takes twenty passes for each."""
    monkeypatch.setattr(margins, "_MULTIPLES", (4.0, 2.0))


@pytest.fixture(params=["files", "cluster"])
def source(request, monkeypatch):
    """Makes a source of a table, with few rows in a batch."""
    if request.param == "files":
        monkeypatch.setattr(batched_table, "BATCH_ROWS", 500)
        return pl.DataFrame.lazy
    request.getfixturevalue("client")
    return on_workers


def on_workers(table):
    return dd.from_pandas(table.to_pandas(), npartitions=3)


@pytest.fixture(scope="module")
def fits():
    """Fits that tests share, by feature and source."""
    return {}


def in_memory(fits, feature):
    if (feature.name, "memory") not in fits:
        given = {"sample_weight": feature.table["weight"]} if feature.weighted else {}
        model = clone(feature.model).fit(feature.features, feature.table["paid"], **given)
        fits[feature.name, "memory"] = model
    return fits[feature.name, "memory"]


def elsewhere(feature, source, **settings):
    given = {"sample_weight": "weight"} if feature.weighted else {}
    model = clone(feature.model).set_params(**settings)
    return model.fit(source(feature.table), "paid", **given)


def by_sample(fits, feature, source):
    if (feature.name, source) not in fits:
        fits[feature.name, source] = elsewhere(feature, source, posteriors__max_samples=900)
    return fits[feature.name, source]


def answers(model, X, method="predict"):
    found = getattr(model, method)(X)
    if hasattr(found, "compute"):
        return np.asarray(found.compute())
    return found if isinstance(found, np.ndarray) else np.concatenate(list(found))


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_table_that_is_learned_from_as_a_whole_gives_the_answers_of_one_in_memory(fits, feature, source):
    plain, other = in_memory(fits, feature), elsewhere(feature, source)
    X = feature.features
    assert (plain.predict(X) == other.predict(X)).all()
    assert (plain.predict_proba(X) == other.predict_proba(X)).all()
    assert other.certificate_ == plain.certificate_
    assert other.fitted_to_.rows == plain.fitted_to_.rows == N
    lazy = source(X)
    assert (answers(other, lazy) == plain.predict(X)).all()
    assert answers(other, lazy, "decision_function") == pytest.approx(plain.decision_function(X), abs=1e-12)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_sample_gives_a_proven_rule_for_all_rows(fits, feature, source, tmp_path):
    model = by_sample(fits, feature, source)
    if isinstance(model, eh.FairPostprocessor):
        assert model.certificate_.gap < 1e-6
        assert model.certificate_.violation < 1e-6
    assert model.fitted_to_.rows == N
    eh.save(model, tmp_path / "model.evenhand")
    loaded = eh.load(tmp_path / "model.evenhand")
    X = feature.features
    assert (loaded.predict(X) == answers(model, source(X))).all()
    given = {"sample_weight": "weight"} if feature.weighted else {}
    report = eh.verify(tmp_path / "model.evenhand", data=(source(feature.table), "paid"), **given)
    assert report.proof.confirmed, report.proof.verdict
    other = eh.verify(tmp_path / "model.evenhand", data=(source(feature.table.reverse()), "paid"), **given)
    assert "in another order" in other.proof.verdict


@pytest.mark.usefixtures("client")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_files_and_a_cluster_learn_from_the_same_sample(fits, feature, monkeypatch):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 500)
    files, cluster = (by_sample(fits, feature, source) for source in (pl.DataFrame.lazy, on_workers))
    X = feature.features
    assert files.fitted_to_ == cluster.fitted_to_
    assert (files.predict(X) == cluster.predict(X)).mean() > 0.999
    assert files.certificate_.objective == pytest.approx(cluster.certificate_.objective, abs=1e-9)
