"""The report as one HTML file that needs no network, or as Markdown for a model card."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand import charts
from evenhand._atomic import written_at_once
from evenhand.auditing.impact_ratios import ImpactRatios
from evenhand.auditing.result import Audit
from evenhand.display.text import show
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import MissingExtraError
from evenhand.report.contents import contents
from evenhand.report.summary import BASELINES, NOT_BINDING, UNKNOWN, interval
from evenhand.solver.certificate import small
from evenhand.tradeoff.frontier import Frontier, chart_arguments

try:
    from jinja2 import Environment
except ImportError:
    raise MissingExtraError("jinja2", "report") from None

_MARKUP = {letter: f"\\{letter}" for letter in "|*`[\\"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " "}


def write_report(
    path: str | os.PathLike[str],
    audit: Audit,
    *,
    before: Audit | None = None,
    without: Audit | None = None,
    model: FairClassifier | None = None,
    frontier: Frontier | None = None,
    test: Sequence[Any] | None = None,
    title: str = "Fairness report",
    data: str = "",
    impact_ratios: ImpactRatios | None = None,
) -> Path:
    """Write a report: an HTML file that opens from disk and needs no network, or a model card in Markdown.

    Decisions are compared like for like: those of a plain model, those of the same probabilities without the
    requirement, and those with it. What the requirement costs is the difference of the last two.

    Parameters
    ----------
    path : path
        Markdown if it ends in ``.md``, otherwise HTML. Written completely or not at all.
    audit : Audit
        Of the reported decisions, on held-out rows. If it hides small counts, other arguments that would show
        them are refused.
    before : Audit, default=None
        Of the decisions of a plain model, or of those that are replaced, on the same rows.
    without : Audit, default=None
        Of ``model.predict_unconstrained`` on the same rows. By default it is made from `model` and `test`.
    model : FairPostprocessor or FairInprocessor, default=None
        Fitted. Without it the report is about predictions from elsewhere.
    frontier : Frontier, default=None
        For the interactive chart.
    test : (X, y) or (X, y, sensitive_features), default=None
        The rows of the audit, on which the probabilities of a post-processed model are judged.
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
    more: dict[str, Any] = {"title": title, "data": data, "impact_ratios": impact_ratios}
    shown = contents(audit, before, without, model, frontier, test=test, **more)
    target = Path(path)
    page = render_card(shown) if target.suffix.lower() == ".md" else render(shown)
    with written_at_once(target) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return target


def render(shown: Mapping[str, Any]) -> str:
    """HTML of a report's contents."""
    shown = _escaped(shown, show)
    folder = files("evenhand.report")
    script, style = (folder.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    return _filled(
        "page.html",
        shown,
        autoescape=True,
        pictures=list(_pictures(shown)),
        island=shown["frontier"],
        script=script,
        style=style,
        script_hash=_base64(sha256(script.encode()).digest()),
        style_hash=_base64(sha256(style.encode()).digest()),
    )


def render_card(shown: Mapping[str, Any]) -> str:
    """Markdown of a report's contents, without charts."""
    return _filled("card.md", _escaped(shown, _plain_markdown), autoescape=False)


def _filled(template: str, shown: Mapping[str, Any], *, autoescape: bool, **more: Any) -> str:
    environment = Environment(autoescape=autoescape, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  (all is escaped)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
    environment.filters.update(number=_number, interval=interval, small=small, count=_count)
    text = files("evenhand.report").joinpath(template).read_text("utf-8")
    return environment.from_string(text).render(
        **shown,
        baselines=BASELINES,
        not_binding=NOT_BINDING,
        **more,
    )


def _plain_markdown(text: str) -> str:
    """A text without anything that Markdown or HTML would take for markup."""
    return "".join(_MARKUP.get(letter, letter) for letter in show(text))


def _escaped(value: Any, escape: Callable[[str], str]) -> Any:
    """The contents with all texts escaped; `show` is for unprintable and direction-changing characters."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {name: _escaped(one, escape) for name, one in value.items()}
    return [_escaped(one, escape) for one in value] if isinstance(value, list | tuple) else value


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _count(value: float | str | None) -> str:
    """A number of rows; suppressed ones may be text or None."""
    return "left out" if value is None else value if isinstance(value, str) else f"{value:,.0f}"


def _number(value: Any, digits: int = 3) -> str:
    """A number, or a dash where there is none."""
    return f"{value:.{digits}f}" if isinstance(value, int | float) else UNKNOWN


def _pictures(shown: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Each chart as a picture, with its alternative text."""
    for draw, records in _charts(shown):
        if records:
            chart = draw(records)
            source = _base64(charts.to_svg(chart).encode())
            yield {"alt": str(chart.description), "source": f"data:image/svg+xml;base64,{source}"}


def _charts(shown: Mapping[str, Any]) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """Charts and their records; charts without records are skipped."""
    groups, last = shown["groups"], (shown["columns"] or [None])[-1]
    rates = [
        {"group": group["name"], "quantity": quantity, "when": when, **rate}
        for group in groups
        for when, own in (("before", group["before"].get(last, {})), ("after", group["rates"]))
        for quantity, rate in own.items()
        if rate is not None
    ]
    level, bounded = shown["confidence"], [one for one in shown["comparisons"] if one["against"] == "bound"]
    limits = [{"quantity": one["statistic"], "value": one["tolerance"]} for one in bounded]
    yield partial(charts.rates_chart, confidence=level, limits=limits), rates
    yield charts.thresholds_chart, (shown["model"] or {}).get("thresholds", [])
    yield partial(charts.calibration_chart, confidence=level), shown["calibration"]
    frontier = shown["frontier"]
    if frontier is not None:
        drawn = chart_arguments(frontier["points"], frontier["measure"], frontier["notion"])
        records = drawn.pop("records")
        yield partial(charts.frontier_chart, **drawn, confidence=level), records
        for curve in frontier["curves"]:
            title = f"tolerance, {curve}" if len(frontier["curves"]) > 1 else "tolerance"
            draw = partial(charts.prices_chart, x_title=title, measure=frontier["measure"])
            yield draw, _prices(frontier, curve)


def _prices(frontier: Mapping[str, Any], curve: str) -> list[dict[str, Any]]:
    """Prices of a curve by group, and by statistic if there are several."""
    rows = [row for row in frontier["prices"] if row["curve"] == curve]
    several = len({row["statistic"] for row in rows}) > 1
    return [
        {**row, "group": (row["group"] or "everyone") + (f" ({row['statistic']})" if several else "")}
        for row in rows
    ]
