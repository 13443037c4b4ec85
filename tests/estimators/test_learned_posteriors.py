import json

import joblib
import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.exceptions import InputError, UntrustedFileError
from evenhand.files.encoding import decode_model, encode_model

RNG = np.random.default_rng(0)
GROUPS = RNG.integers(0, 3, 400)
X = RNG.normal(size=(400, 3)) + 0.3 * GROUPS[:, None]
Y = X[:, 0] + RNG.normal(size=400) > 0.3
TOLERANCES = [eh.DemographicParity(difference=amount) for amount in (0.02, 0.05, 0.2)]


class Counted(LogisticRegression):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counted.fits += 1
        return super().fit(X, y, sample_weight)


def fitted(folder, learner=None, notion=TOLERANCES[0], rows=slice(None), random_state=0, **how):
    """Decisions, and how many classifiers were fitted."""
    learner = Counted() if learner is None else learner
    crossfit = eh.CrossFit(3, memory=folder, **how)
    fair = eh.FairPostprocessor(learner, notion, posteriors=crossfit, random_state=random_state)
    Counted.fits = 0
    fair.fit(X[rows], Y[rows], sensitive_features=GROUPS[rows])
    return fair.decision_function(X), Counted.fits


def test_a_grid_over_tolerances_learns_posteriors_once_with_equal_results(tmp_path):
    both = np.column_stack([X, GROUPS])
    found, fits = {}, {}
    for memory in (None, str(tmp_path)):
        fair = eh.FairPostprocessor(Counted(), TOLERANCES[0], sensitive_features=-1)
        grid = GridSearchCV(
            fair.set_params(posteriors__memory=memory), {"constraint": TOLERANCES}, cv=3, refit=False
        )
        Counted.fits = 0
        grid.fit(both, Y)
        found[memory] = [grid.cv_results_[f"split{k}_test_score"] for k in range(3)]
        fits[memory] = Counted.fits
    assert np.array_equal(found[None], found[str(tmp_path)])
    assert fits[None] == 3 * fits[str(tmp_path)] > 0


def test_only_the_same_rows_and_settings_are_taken_from_the_cache(tmp_path):
    folder = joblib.Memory(tmp_path, verbose=0)
    for settings in (
        {},
        {"rows": slice(0, 399)},
        {"random_state": 1},
        {"average": False},
        {"calibration": None},
        {"learner": Counted(C=0.1)},
        {"notion": eh.EqualOpportunity(difference=0.02), "form": "separate"},
    ):
        own, fits = fitted(folder, **settings)
        assert fits > 0
        again, none = fitted(folder, **settings)
        assert none == 0
        assert np.array_equal(own, again)
        assert np.array_equal(own, fitted(None, **settings)[0])


def test_a_memory_that_cannot_be_used_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"`memory` must be a folder or a joblib.Memory, got 3"):
        fitted(3)
    unnamed = make_pipeline(
        make_column_transformer((StandardScaler(), lambda X: list(range(X.shape[1])))), LogisticRegression()
    )
    with pytest.raises(InputError, match="`memory` cannot cache what these learners learn"):
        fitted(str(tmp_path), unnamed)


def test_a_model_file_names_no_folder(tmp_path):
    fair = eh.FairPostprocessor(
        LogisticRegression(), TOLERANCES[0], posteriors=eh.CrossFit(3, memory=str(tmp_path / "cache"))
    )
    fair.fit(X, Y, sensitive_features=GROUPS)
    eh.save(fair, tmp_path / "model.eh")
    assert eh.load(tmp_path / "model.eh").posteriors.memory is None
    content, parts = encode_model(fair)
    text = json.dumps(content)
    assert "cache" not in text
    planted = text.replace('"max_samples": 1000000', '"max_samples": 1000000, "memory": "cache"')
    assert planted != text
    with pytest.raises(UntrustedFileError, match="names a folder of cached results"):
        decode_model(json.loads(planted), parts)
