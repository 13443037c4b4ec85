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
from evenhand.requirements.constraints import ByConstraint, ConstraintName

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
    "Frontier": "curve",
    "GuaranteeResult": "fair.guarantee_",
    "Rule": "fair.rule_",
    "Certificate": "fair.certificate_",
    "prices": "fair.shadow_prices_",
    "multipliers": "fair.multipliers_",
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
    assert len(shown["text/plain"]) < 700
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
    prices = ByConstraint(zip(names, np.linspace(0, -1, 40).tolist(), strict=True))
    assert repr(prices).startswith("parity, rate: g=39  -1\n")
    assert repr(prices).endswith("and 28 more")
    assert prices[names[-1]] == -1
    assert repr(ByConstraint()) == "{}"


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
