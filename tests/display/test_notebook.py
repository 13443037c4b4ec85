"""Results in a notebook: short text, a table, and pictures that load nothing from the network."""

import re
import xml.etree.ElementTree as ET

import nbclient
import nbformat
import numpy as np
import pytest

import evenhand as eh
from evenhand.display.notebook import html_table
from evenhand.groups.groups import GroupName
from evenhand.requirements.constraints import ByName, ConstraintName

START = """
import evenhand as eh
from sklearn.linear_model import LogisticRegression
data = eh.datasets.GaussianProblem.random(levels=(2, 3), seed=3).sample(3000)
fair = eh.FairPostprocessor(
    LogisticRegression(), eh.DemographicParity(difference=0.3), aware=True, guarantee=0.9
)
fair.fit(data.X, data.y, sensitive_features=data.sensitive)
blind = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.1))
curve = eh.frontier(blind, data.X, data.y, sensitive_features=data.sensitive, tolerances=6)
decisions = fair.predict(data.X, sensitive_features=data.sensitive)
found = eh.audit(data.y, decisions, data.sensitive, constraint=fair.constraint)
"""
SHOWN = {
    "Audit": "found",
    "Comparison": "found.comparisons[0]",
    "Frontier": "curve",
    "GuaranteeResult": "fair.guarantee_",
    "prices": "fair.shadow_prices_",
    "multipliers": "fair.multipliers_",
    "Groups": "fair.groups_",
    "CellRates": "fair.rates_",
    "Thresholds": "fair.thresholds_",
    "Explanation": "blind.fit(data.X, data.y, sensitive_features=data.sensitive).explain(data.X[:9])[0]",
}
PICTURES = {"Audit", "Frontier"}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The output of a kernel for each object, by name."""
    cells = [nbformat.v4.new_code_cell(source) for source in (START, *SHOWN.values(), "curve.plot()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": tmp_path_factory.mktemp("n")}},
    )
    client.execute()
    names = [*SHOWN, "plot"]
    return dict(zip(names, (cell.outputs[-1]["data"] for cell in notebook.cells[1:]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_a_result_has_a_short_text_and_a_table(outputs, name):
    shown = outputs[name]
    assert len(shown["text/plain"]) < 1000
    assert "array(" not in shown["text/plain"]
    assert "<table>" in shown["text/html"]
    assert ("<svg" in shown["text/html"]) == (name in PICTURES)
    assert len(shown["text/html"]) < (100_000 if name in PICTURES else 5_000)


@pytest.mark.slow
def test_a_plot_is_a_picture_that_loads_nothing(outputs):
    shown = outputs["plot"]
    assert set(shown) == {"image/svg+xml", "text/plain"}
    assert ET.fromstring(shown["image/svg+xml"]).tag.endswith("svg")  # noqa: S314  (made by us)
    for part in (shown["image/svg+xml"], outputs["Frontier"]["text/html"], outputs["Audit"]["text/html"]):
        assert set(re.findall(r"https?://[^\"'<> ]+", part)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }
        assert "<script" not in part


def test_a_table_escapes_names_and_is_shortened():
    shown = html_table(["group"], [["<img src=x>"], *([k] for k in range(30))])
    assert "<img" not in shown
    assert "&lt;img src=x&gt;" in shown
    assert "and 19 more" in shown


def test_the_repr_of_many_prices_is_shortened():
    names = [ConstraintName("parity", "rate", GroupName(("g",), (k,))) for k in range(40)]
    prices = ByName(zip(names, np.linspace(0, -1, 40).tolist(), strict=True))
    assert repr(prices).startswith("parity, rate: g=39  -1\n")
    assert repr(prices).endswith("and 28 more")
    assert prices[names[-1]] == -1
    assert repr(ByName()) == "{}"


def test_the_repr_of_prices_survives_saving(tmp_path):
    from sklearn.linear_model import LogisticRegression

    data = eh.datasets.GaussianProblem.random(levels=(2,), seed=1).sample(500)
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.1), posteriors=eh.CrossFit(2)
    )
    fair.fit(data.X, data.y, sensitive_features=data.sensitive)
    eh.save(fair, tmp_path / "fair.evenhand")
    again = eh.load(tmp_path / "fair.evenhand")
    assert repr(again.shadow_prices_) == repr(fair.shadow_prices_)
    assert "ConstraintName(" not in repr(again.shadow_prices_)


HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def hostile():
    """Everything that shows names, of groups and features whose names are markup."""
    from sklearn.linear_model import LogisticRegression

    data = eh.datasets.GaussianProblem.random(levels=(2,), seed=1).sample(600)
    people = {HOSTILE: np.where(data.sensitive["A1"] == 0, "<b>a</b>", "\x1b[31mred")}
    settings = {"posteriors": eh.CrossFit(2), "aware": True}
    fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.02), **settings)
    y = np.where(data.y == 1, "<i>yes</i>", "<i>no</i>")
    fair.fit(data.X, y, sensitive_features=people)
    decisions = fair.predict(data.X, sensitive_features=people)
    found = eh.audit(y, decisions, people, constraint=fair.constraint)
    told = fair.explain(data.X[:3], sensitive_features={HOSTILE: people[HOSTILE][:3]}, reasons=2)
    return {
        "groups_": fair.groups_,
        "rates_": fair.rates_,
        "cell_rates": eh.cell_rates(y, decisions, people),
        "thresholds_": fair.thresholds_,
        "shadow_prices_": fair.shadow_prices_,
        "comparison": found.comparisons[0],
        "audit": found,
        "explanation": told[0],
        "explanations": told,
    }


@pytest.mark.parametrize(
    "name",
    [
        *("groups_", "rates_", "cell_rates"),
        *("thresholds_", "shadow_prices_", "comparison", "audit", "explanation", "explanations"),
    ],
)
def test_names_are_escaped_in_html_and_in_text(hostile, name):
    page, text = hostile[name]._repr_html_(), repr(hostile[name])
    assert "<table" in page
    for markup in ("<script", "<b>", "<i>", "\x1b"):
        assert markup not in page
    assert "\x1b" not in text
    assert "array(" not in text
    if name in ("groups_", "rates_", "comparison"):
        assert "&lt;script&gt;" in page
        assert "&lt;b&gt;a&lt;/b&gt;" in page
        assert "group 0" not in page


def test_tables_of_a_loaded_model_have_names_too(tmp_path):
    from sklearn.linear_model import LogisticRegression

    data = eh.datasets.GaussianProblem.random(levels=(2,), seed=1).sample(600)
    fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.02))
    fair.fit(data.X, data.y, sensitive_features=data.sensitive)
    eh.save(fair, tmp_path / "fair.evenhand")
    again = eh.load(tmp_path / "fair.evenhand")
    for name in ("groups_", "rates_"):
        assert getattr(again, name)._repr_html_() == getattr(fair, name)._repr_html_()


@pytest.mark.parametrize("result", ["audit", "frontier"])
def test_without_altair_a_plot_names_the_extra(result, monkeypatch):
    import sys

    from sklearn.linear_model import LogisticRegression

    data = eh.datasets.GaussianProblem.random(levels=(2,), seed=1).sample(400)
    if result == "audit":
        found = eh.audit(data.y, data.y, data.sensitive)
    else:
        fair = eh.FairPostprocessor(
            LogisticRegression(), eh.DemographicParity(difference=0.1), posteriors=eh.CrossFit(2)
        )
        found = eh.frontier(fair, data.X, data.y, sensitive_features=data.sensitive, tolerances=2)
    assert found.plot().to_dict()["$schema"]
    for name in [name for name in sys.modules if name.startswith("evenhand.charts")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(eh.exceptions.MissingExtraError, match=r"pip install 'evenhand\[report\]'"):
        found.plot()
