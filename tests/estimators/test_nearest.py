"""FairPostprocessor with a notion as its objective, from fit to file and proof."""

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.files.recertify import prove

FLOOR = eh.RateBound("accuracy", at_least=0.75) & eh.RateBound("selection rate", at_least=0.45, at_most=0.45)


@pytest.fixture(scope="module")
def drawn():
    return eh.datasets.GaussianProblem.random(levels=(2, 2), seed=1).sample(1_500, seed=0)


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_fitted_saved_loaded_and_proven(drawn, aware, tmp_path):
    notion = eh.DemographicParity(ratio=1, groups="independent", against="groups")
    learner = lgb.LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1, random_state=0)
    model = eh.FairPostprocessor(learner, FLOOR, objective=notion, aware=aware, posteriors=eh.CrossFit(cv=2))
    given = {"sensitive_features": drawn.sensitive}
    model.fit(drawn.X, drawn.y, **given)
    proof = model.certificate_
    assert -1e-9 <= proof.gap <= 3e-6
    assert all(one.excess <= 1e-6 for one in FLOOR.measure(model.rates_))
    assert 1 - model.nearest_.ratio == pytest.approx(proof.objective, abs=1e-6)
    eh.save(model, tmp_path / "m.eh")
    report = eh.verify(tmp_path / "m.eh", data=(drawn.X, drawn.y), **given)
    assert report.ok, report
    assert "distance from demographic parity (1 - ratio)" in str(report)
    again = eh.load(tmp_path / "m.eh")
    assert again.objective == notion
    new = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=1).sample(300, seed=5)
    aware_of = {"sensitive_features": new.sensitive} if aware else {}
    assert (again.predict(new.X, **aware_of) == model.predict(new.X, **aware_of)).all()


def test_a_bound_that_is_not_proven_is_found(drawn):
    model = eh.FairPostprocessor(LogisticRegression(), FLOOR, objective=eh.DemographicParity(difference=0))
    model.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
    assert prove(model, drawn.X, drawn.y, drawn.sensitive, None).confirmed
    honest = model.certificate_
    assert honest.bound > 0.01
    model.certificate_ = replace(honest, bound=honest.bound + 1e-4, objective=honest.objective + 1e-4)
    assert "the bound is" in prove(model, drawn.X, drawn.y, drawn.sensitive, None).verdict
    model.certificate_ = honest
    model.nearest_ = model.nearest_.with_slack(0.5)
    assert "is not what is attained" in prove(model, drawn.X, drawn.y, drawn.sensitive, None).verdict
    model.nearest_ = eh.EqualizedOdds(difference=honest.objective)
    assert "do not belong" in prove(model, drawn.X, drawn.y, drawn.sensitive, None).verdict
    model.nearest_ = model.objective.with_slack(honest.objective)
    model.multipliers_ = type(model.multipliers_)(dict.fromkeys(model.multipliers_, 0.0))
    assert "the bound is 0 here" in prove(model, drawn.X, drawn.y, drawn.sensitive, None).verdict


def test_reports_say_what_was_minimised(drawn, tmp_path):
    model = eh.FairPostprocessor(LogisticRegression(), FLOOR, objective=eh.DemographicParity(difference=0))
    model.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
    audit = eh.audit(drawn.y, model.predict(drawn.X), drawn.sensitive)
    eh.write_report(tmp_path / "r.html", audit, model=model, test=(drawn.X, drawn.y, drawn.sensitive))
    page = (tmp_path / "r.html").read_text()
    assert "has a distance from demographic parity (difference) below" in page


def test_guarantee_and_margin_are_refused(drawn):
    notion = eh.DemographicParity(difference=0)
    for more in ({"guarantee": 0.9}, {"margin": 1.0}):
        model = eh.FairPostprocessor(LogisticRegression(), FLOOR, objective=notion, **more)
        with pytest.raises(InputError, match="supports neither `guarantee` nor `margin`"):
            model.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
    assert np.isfinite(drawn.X).all()
