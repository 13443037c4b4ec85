"""The report as one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand._atomic import written_at_once
from evenhand.auditing.category_tables import ImpactRatios
from evenhand.auditing.result import Audit
from evenhand.charts import (
    calibration_chart,
    changed_chart,
    frontier_chart,
    prices_chart,
    rates_chart,
    thresholds_chart,
    to_svg,
    weights_chart,
)
from evenhand.display.text import show
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import MissingExtraError
from evenhand.report.contents import contents
from evenhand.report.summary import UNKNOWN, interval
from evenhand.solver.certificate import small
from evenhand.tradeoff.frontier import Frontier, chart_arguments

try:
    from jinja2 import Environment
except ImportError:
    raise MissingExtraError("jinja2", "report") from None

__all__ = ["render", "write_report"]


def write_report(
    path: str | os.PathLike[str],
    audit: Audit,
    *,
    before: Audit | None = None,
    model: FairClassifier | None = None,
    frontier: Frontier | None = None,
    test: Sequence[Any] | None = None,
    title: str = "Fairness report",
    data: str = "",
    impact_ratios: ImpactRatios | None = None,
) -> Path:
    """Write one HTML file that opens from disk and needs no network.

    Parameters
    ----------
    path : path
        Written completely or not at all.
    audit : Audit
        Of the reported decisions, on held-out rows.
    before : Audit, default=None
        Of the decisions that they replace, on the same rows.
    model : FairPostprocessor or FairInprocessor, default=None
        Fitted. Without it the report is about predictions from elsewhere.
    frontier : Frontier, default=None
        For the interactive chart.
    test : (X, y) or (X, y, sensitive_features), default=None
        Rows on which the probabilities of a post-processed model are compared with the labels.
    title : str, default="Fairness report"
    data : str, default=""
        A sentence on the data.
    impact_ratios : ImpactRatios, default=None
        Tables of Local Law 144, from ``audit.impact_ratios()``, for a section of their own.

    Returns
    -------
    Path

    Examples
    --------
    >>> import evenhand as eh, tempfile, pathlib
    >>> audit = eh.audit([0, 1, 1, 0], [0, 1, 1, 1], {"sex": ["F", "F", "M", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = eh.write_report(pathlib.Path(folder) / "audit.html", audit)
    ...     page.stat().st_size > 1000
    True
    """
    shown = contents(
        audit,
        before=before,
        model=model,
        frontier=frontier,
        test=test,
        title=title,
        data=data,
        impact_ratios=impact_ratios,
    )
    page = render(shown)
    target = Path(path)
    with written_at_once(target) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return target


def render(shown: Mapping[str, Any]) -> str:
    """HTML of a report's contents."""
    shown = _escaped(shown)
    folder = files("evenhand.report")
    script, style = (folder.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
    environment.filters.update(number=_number, interval=interval, small=small, count=_count, measure=_measure)
    template = environment.from_string(folder.joinpath("page.html").read_text("utf-8"))
    return template.render(
        **shown,
        asked=[one for one in shown["comparisons"] if one["asked"]],
        unasked=[one for one in shown["comparisons"] if not one["asked"]],
        within=[one for one in shown["comparisons"] if one["strata"]],
        pictures=list(_pictures(shown)),
        island=shown["frontier"],
        script=script,
        style=style,
        script_hash=_digest(script),
        style_hash=_digest(style),
    )


def _escaped(value: Any) -> Any:
    """The contents with unprintable and direction-changing characters escaped in all texts."""
    if isinstance(value, str):
        return show(value)
    if isinstance(value, Mapping):
        return {name: _escaped(one) for name, one in value.items()}
    return [_escaped(one) for one in value] if isinstance(value, list | tuple) else value


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _count(value: float | str | None) -> str:
    """A number of rows; suppressed ones may be text or None."""
    return "left out" if value is None else value if isinstance(value, str) else f"{value:,.0f}"


def _number(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _measure(one: Mapping[str, Any]) -> str:
    """What is measured: of a notion against groups, between groups; of a reference, the change."""
    text = {"groups": f"{one['measure']} between groups", "reference": f"change, {one['measure']}"}
    given = f" given {', '.join(one['given'])}" if one.get("given") else ""
    return f"{text.get(one['against'], one['measure'])}{given}"


def _pictures(shown: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Each chart as a light and a dark picture, with its alternative text."""
    for draw, records in _charts(shown):
        if records:
            versions = {theme: draw(records, theme=theme) for theme in ("light", "dark")}
            yield {
                "alt": str(versions["light"].description),
                **{theme: _source(to_svg(chart)) for theme, chart in versions.items()},
            }


def _source(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _charts(shown: Mapping[str, Any]) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """Charts and their records; charts without records are skipped."""
    groups = shown["groups"]
    names = {group["name"] for group in groups}
    earlier = [group for group in shown["earlier"] or () if group["name"] in names]
    rates = [
        {"group": group["name"], "quantity": quantity, "when": when, **rate}
        for when, part in (("before", earlier), ("after" if earlier else None, groups))
        for group in part
        for quantity, rate in group["rates"].items()
        if rate is not None
    ]
    level, bounds = shown["confidence"], shown["bounds"]
    rates += [{**rate, "when": "after" if earlier else None} for rate in bounds["rates"]]
    yield partial(rates_chart, confidence=level, limits=bounds["limits"]), rates
    changes = [(group["name"], group["change"]) for group in groups if group.get("change")]
    changed = [
        {"group": name, "up": change["up"], "down": change["down"], "same": change["unchanged"]}
        for name, change in changes
    ]
    yield changed_chart, changed
    rule = (shown["model"] or {}).get("rule")
    if rule is not None:
        draw = {"thresholds": thresholds_chart, "weights": weights_chart}[rule["kind"]]
        yield draw, rule[rule["kind"]]
    yield partial(calibration_chart, confidence=level), shown["calibration"]
    frontier = shown["frontier"]
    if frontier is not None:
        drawn = chart_arguments(frontier["points"], frontier["measure"], frontier["notion"])
        yield partial(frontier_chart, x_title=drawn["x_title"], confidence=level), drawn["records"]
        for curve in frontier["curves"]:
            title = "What more tolerance would buy" + (f": {curve}" if len(frontier["curves"]) > 1 else "")
            yield partial(prices_chart, title=title), list(_prices(frontier, curve))


def _prices(frontier: Mapping[str, Any], curve: str) -> Iterator[dict[str, Any]]:
    """Prices of each group and statistic over the tolerances; 0 where it does not bind."""
    rows = [row for row in frontier["prices"] if row["curve"] == curve]
    several = len({row["statistic"] for row in rows}) > 1
    names = [
        f"{row['group'] or 'everyone'} ({row['statistic']})" if several else row["group"] or "everyone"
        for row in rows
    ]
    prices: dict[tuple[str, float], float] = {}
    for row, name in zip(rows, names, strict=True):
        at = name, row["tolerance"]
        prices[at] = prices.get(at, 0.0) + row["price"]
    points = [
        point
        for point in frontier["points"]  # at exact parity there is no price
        if point["kind"] == "curve" and point["curve"] == curve and point["price"] is not None
    ]
    for name in dict.fromkeys(names):
        for tolerance in (point["tolerance"] for point in points):
            yield {"group": name, "tolerance": tolerance, "price": prices.get((name, tolerance), 0.0)}
