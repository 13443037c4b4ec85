"""The page: one file that opens from disk, with no network."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand.auditing.audited import Audit
from evenhand.charts import (
    changed_chart,
    frontier_chart,
    prices_chart,
    rates_chart,
    thresholds_chart,
    to_svg,
    weights_chart,
)
from evenhand.classifier import FairClassifier
from evenhand.curve import Frontier
from evenhand.exceptions import MissingExtraError
from evenhand.report.contents import contents

try:
    from jinja2 import Environment
except ImportError:
    raise MissingExtraError("jinja2", "report") from None

__all__ = ["render", "write_report"]

_MOST_SHOWN = 40


def write_report(
    path: str | os.PathLike[str],
    audit: Audit,
    *,
    before: Audit | None = None,
    model: FairClassifier | None = None,
    frontier: Frontier | None = None,
    title: str = "Fairness report",
    data: str = "",
) -> Path:
    """Write one HTML file that opens from disk and needs no network.

    Parameters
    ----------
    path : path
        Of the page; written at once or not at all.
    audit : Audit
        Of the decisions that the report is about, on rows that nothing was learned from.
    before : Audit, optional
        Of the decisions that they replace, on the same rows.
    model : FairPostprocessor or FairInprocessor, optional
        Fitted. Without it the report is about foreign predictions.
    frontier : Frontier, optional
        For the interactive part.
    title, data : str
        A heading, and a sentence on the rows.

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
    page = render(contents(audit, before=before, model=model, frontier=frontier, title=title, data=data))
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def render(shown: Mapping[str, Any]) -> str:
    """Make the page of a report's contents."""
    room = files("evenhand.report")
    script, style = (room.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=_number, interval=_interval)
    template = environment.from_string(room.joinpath("page.html").read_text("utf-8"))
    return template.render(
        **shown,
        pictures=list(_pictures(shown)),
        island=shown["frontier"],
        script=script,
        style=style,
        script_hash=_digest(script),
        style_hash=_digest(style),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _interval(rate: Mapping[str, Any] | None, digits: int = 3) -> str:
    if rate is None or rate["value"] is None:
        return "–"
    limits = [rate["low"], rate["high"]]
    known = None not in limits
    return f"{rate['value']:.{digits}f}" + (
        f" [{limits[0]:.{digits}f}, {limits[1]:.{digits}f}]" if known else ""
    )


def _pictures(shown: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Every picture in a light and a dark version, with its alternative text."""
    for title, draw, records in _charts(shown):
        if records:
            versions = {theme: draw(records, theme=theme) for theme in ("light", "dark")}
            yield {
                "title": title,
                "alt": str(versions["light"].description),
                **{theme: _source(to_svg(chart)) for theme, chart in versions.items()},
            }


def _source(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _charts(shown: Mapping[str, Any]) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    groups = [group for group in shown["groups"] if group["groups"] != "everyone"][:_MOST_SHOWN]
    names = {group["name"] for group in groups}
    earlier = [group for group in shown["earlier"] or () if group["name"] in names]
    rates = [
        {"group": group["name"], "quantity": quantity, "when": when, **rate}
        for when, part in (("before", earlier), ("after" if earlier else None, groups))
        for group in part
        for quantity, rate in group["rates"].items()
    ]
    yield "Rates by group", rates_chart, rates
    changed = [
        {
            "group": group["name"],
            **{key: group["change"][key] for key in ("up", "down")},
            "same": group["change"]["unchanged"],
        }
        for group in groups
        if group.get("change")
    ]
    yield "Who changed", changed_chart, changed
    rule = (shown["model"] or {}).get("rule")
    if rule is not None:
        draw = thresholds_chart if rule["kind"] == "thresholds" else weights_chart
        yield (
            ("Thresholds" if rule["kind"] == "thresholds" else "Weights of the rule"),
            draw,
            rule[rule["kind"]],
        )
    frontier = shown["frontier"]
    if frontier is not None:
        yield "Accuracy against fairness", frontier_chart, frontier["points"]
        yield "What more tolerance would buy", prices_chart, frontier["prices"]
