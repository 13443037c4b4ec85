"""Code as users write it, which must type-check; read by mypy, not run."""

import dask.array as da
import numpy as np
import polars as pl

import evenhand as eh
from evenhand import charts, paper
from evenhand.auditing.result import Audit
from evenhand.estimators.scorer import accuracy_within
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.requirements.rates import CellRates

notion: eh.Notion = eh.DemographicParity(difference=0.02)
both = eh.DemographicParity(difference=0.05, groups="independent") & eh.EqualOpportunity(ratio=0.9)
rates: CellRates = eh.cell_rates([0, 1], [0.2, 0.9], {"sex": ["F", "M"]}, sample_weight=[1.0, 2.0])
capacity = (
    eh.RateBound("selection rate", at_most=0.2)
    & eh.NoWorse("error rate")
    & eh.DemographicParity(ratio=0.8, against="groups")
)
excess: float = eh.RateBound("precision", at_least=0.5).measure(rates)[0].excess
difference: float = notion.measure(rates)[0].difference
risk: float = rates.risk(cost=0.3)
violation: float = both.linear(rates.masses, rates.groups).violation(rates.rates)
groups, codes = eh.Groups.fit({"sex": np.array(["F", "M"])}, missing="category", unseen="pooled")
rows: int = len(eh.datasets.load_adult("multiple", backend="pandas"))
audit: Audit = eh.audit(
    [0, 1],
    [0.2, 0.9],
    {"sex": ["F", "M"]},
    constraint=both,
    before=[0, 1],
    sample_weight=[1.0, 2.0],
    confidence=0.9,
    pos_label=1,
    missing="category",
    min_size=0,
    min_count=0,
    threshold=0.5,
)
decided = {"y": [0, 1], "decision": [0.2, 0.9], "earlier": [0, 1], "weight": [1.0, 2.0], "sex": ["F", "M"]}
of_table: Audit = eh.audit(
    "y",
    "decision",
    ["sex"],
    data=pl.DataFrame(decided),
    constraint=both,
    before="earlier",
    sample_weight="weight",
    confidence=0.9,
    pos_label=1,
    missing="category",
    min_size=0,
    min_count=0,
    threshold=0.5,
)
scored: Audit = eh.audit(
    None, [0.2, 0.9, 0.4], {"sex": ["F", "M", None]}, missing="exclude", threshold="median"
)
ratio: float = scored.impact_ratios(date="2026", source="a").categories[0].ratio
left_out: int | None = None if scored.excluded is None else scored.excluded.rows
tested = eh.audit(None, [0, 1] * 30, {"sex": ["F", "M"] * 30}, reference={"sex": "M"}).significance(
    ratio=0.9, level=0.01, difference=0.05
)
flag: bool | None = tested.tests[0].practical
monitor: eh.Monitor = eh.Monitor(notion, confidence=0.9)
monitor.update([0, 1], {"sex": ["F", "M"]}, time="2026-01-31")
raised: str | None = None if monitor.alarm is None else monitor.alarm.group
prices = eh.audit_scores(None, range(60), {"sex": ["F", "M"] * 30}, reference={"sex": "M"}, favourable="low")
smd: float = prices.groups[1].smd
by_proxy: Audit = eh.audit([0, 1], [0, 1], eh.Proxy(race={"A": [0.2, 0.7], "B": [0.8, 0.3]}, sex=["F", "M"]))
inferring = eh.FairPostprocessor(constraint=notion, groups=eh.GroupPolicy(missing="impute"))
columns = eh.FairPostprocessor(constraint=notion, sensitive_features=eh.Proxy(race=["p_white", "p_black"]))
verdict: str | None = audit["demographic parity"].verdict
interval: tuple[float, float] = (audit.comparisons[0].low, audit.comparisons[0].high)
selection: float = audit.groups[0].rates["selection rate"].value
stored: dict[str, object] = audit.to_dict()
frame = audit.to_frame("distances", backend="polars")
try:
    groups.encode({"sex": ["X"]})
except eh.exceptions.GroupError as error:
    message: str = str(error)

chart = charts.rates_chart([{"group": "F", "quantity": "selection rate", "value": 0.1}])
picture: str = charts.to_svg(chart)


def classifiers() -> None:
    fair = eh.FairPostprocessor(
        None,
        both,
        sensitive_features=["sex", "race"],
        aware=["sex"],
        cost=(1.0, 2.0),
        posteriors=eh.CrossFit(3, form="joint"),
    )
    fitted: eh.FairPostprocessor = fair.fit([[1.0], [2.0]], [0, 1], sensitive_features={"sex": ["F", "M"]})
    decisions = fitted.predict([[1.0]], ids=["a"])
    gap: float = fitted.certificate_.gap
    text: str = fitted.rule_.to_json()
    rule: Rule = Rule.from_json(text)
    score: float = accuracy_within([0, 1], [0, 1], constraint=notion, sensitive_features=["F", "M"])
    scorer = eh.fair_scorer(notion, sensitive_features="sex")
    trained = eh.FairInprocessor(None, both, max_fits=10)
    eh.save(fitted, "fair.evenhand", overwrite=True)
    loaded = eh.load("fair.evenhand", max_bytes=1 << 20)
    whole: bool = eh.verify("fair.evenhand").ok
    proof = eh.verify("fair.evenhand", data=([[1.0]], [0]), sample_weight=[1.0]).proof
    proven: bool = proof is not None and proof.confirmed
    fits: int = trained.fit([[1.0], [2.0]], [0, 1], sensitive_features={"sex": ["F", "M"]}).n_fits_
    other = eh.FairPostprocessor(constraint=notion, posteriors=eh.CrossFit(0.3))
    printed = paper.PaperPostprocessor(None, notion, multipliers=paper.Grid(((1.0, 0.2),)), balance="weight")
    costs = paper.PaperInprocessor(None, notion, multipliers=[0.1, -0.1], calibration="binning")
    minmax = eh.FairPostprocessor(constraint=notion, objective="minimax")
    weights = minmax.group_weights_ or {}
    worst: Solution = eh.solve(np.full((2, 2, 2), 0.25), both, objective="minimax")
    largest: tuple[str, float] = (worst.certificate.minimised, sum(weights.values()))


def on_a_cluster() -> None:
    posteriors = da.full((2, 2, 2), 0.25, chunks=(1, 2, 2))
    solution: Solution = eh.solve(posteriors, both, cost=0.3, sample_weight=[1.0, 2.0])
    scores = eh.GroupedScores(da.ones(2), da.zeros(2, dtype=int), 1)
    again: Solution = eh.solve(scores, both, tol=1e-9)
