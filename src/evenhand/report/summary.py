"""Summary of a report in three sentences: what was asked, what holds, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Contents = Mapping[str, Any]

UNKNOWN = "\u2013"
"""Shown where there is no number."""
BASELINES = {"plain": "by the plain model", "without": "by the same probabilities without the requirement"}
"""Decisions that those of the report are compared with."""
NOT_BINDING = (
    "The requirement does not bind; differences from the plain model come from cross-fitting and calibration."
)
_NOTHING = 1e-9
"""A price that is rounding error."""


def summary(shown: Contents) -> list[dict[str, str]]:
    """The sentences of the summary.

    Parameters
    ----------
    shown : mapping
        The contents of the report.

    Returns
    -------
    list of dict
        ``about`` and ``text`` of each sentence.
    """
    asked = shown["model"] or any(one["asked"] for one in shown["comparisons"])
    if shown["frontier"] and not asked:
        sentences = _of_curves(shown["frontier"])
    else:
        cost = "What it cost" if shown["columns"] or shown["changed"] else "Accuracy"
        sentences = {"What was asked": _asked(shown), "What holds": _holds(shown), cost: _cost(shown)}
    return [{"about": about, "text": text} for about, text in sentences.items() if text]


def interval(rate: Contents, digits: int = 3, *, signed: bool = False) -> str:
    """A number with its interval, as far as they are known.

    Examples
    --------
    >>> interval({"value": 0.061, "low": 0.029, "high": 0.096}), interval({"value": None})
    ('0.061 [0.029, 0.096]', '–')
    """
    if rate["value"] is None:
        return UNKNOWN
    limits = [rate.get(key) for key in ("low", "high")]
    form = f"{'+' if signed else ''}.{digits}f"
    value = format(rate["value"], form)
    return value if None in limits else f"{value} [{', '.join(format(limit, form) for limit in limits)}]"


def requirement(one: Contents, features: Sequence[str], *, than: str = "in the reference") -> str:
    """What a notion or a bound asks for, in words.

    Examples
    --------
    >>> parity = {"notion": "parity", "measure": "difference", "tolerance": 0.1, "groups": "intersectional"}
    >>> requirement(parity, ["sex"])
    'parity: no group differs from everyone by more than 0.1, among the groups of sex'
    >>> capacity = {"notion": "selection rate", "measure": "at most", "tolerance": 0.2}
    >>> requirement({**capacity, "groups": "population", "against": "bound"}, ["sex"])
    'at most 20 % of people are selected'
    """
    against = one.get("against", "population")
    groups = "" if one["groups"] == "population" else f", {_groups(one, features)}"
    if against == "bound":
        return f"{_bounded(one)}{groups}"
    rates, limit = _and(one.get("statistics") or ["rate"]), f"{one['tolerance']:g}"
    if against == "reference":
        worse = "lower" if one["measure"] == "at least" else "higher"
        whose = f"the {rates} is not {worse} than" if not groups else f"no group has a {worse} {rates} than"
        return f"{whose} {than}{groups}"
    same = f" with the same {_and(one['given'])}" if one.get("given") else ""
    other = one["reference"] if against == "named" else f"everyone{same}"
    difference = one["measure"] == "difference"
    if against == "groups":
        ends = (
            f"largest minus smallest {rates} at most"
            if difference
            else f"smallest over largest {rates} at least"
        )
        text = f"{ends} {limit}{f', among people{same}' if same else ''}"
    elif difference:
        text = f"no group differs from {other} by more than {limit}"
    elif against == "named":
        text = f"the {rates} of every group is at least {limit} times that of {other}"
    else:
        text = f"in every group, the rate and its complement are at least {limit} times those of {other}"
    return f"{one['notion']}: {text}{groups}"


def place_in_words(price: float, *, in_errors: bool) -> str:
    """What one more place would save.

    Parameters
    ----------
    price : float
        Change of the error, or of the risk, per unit of the share of people that are selected; negative where
        more places would help.
    in_errors : bool
        Whether it is the error.

    Returns
    -------
    str

    Examples
    --------
    >>> place_in_words(-0.62, in_errors=True)
    'One more place among 1,000 people would save 0.62 errors among them.'
    """
    if abs(price) < _NOTHING:
        return "One more place would save nothing: the number of places does not bind."
    place = "One more place" if price < 0 else "One place less that must be filled"
    what = "errors" if in_errors else "of the costs of errors"
    return f"{place} among 1,000 people would save {abs(price):.2g} {what} among them."


def _groups(one: Contents, features: Sequence[str]) -> str:
    """Which groups a requirement is about."""
    if len(features) == 1:
        return f"among the groups of {features[0]}"
    if one["groups"] == "independent":
        return f"for each of {_and(features)} by itself"
    return f"among all combinations of {_and(features)}"


def _bounded(one: Contents) -> str:
    """What a bound asks for; "in every group" if it is about groups."""
    where = "" if one["groups"] == "population" else " in every group"
    if one["notion"] == "selection rate":
        return f"{one['measure']} {100 * one['tolerance']:g} % of people are selected{where}"
    return f"{one['notion']} {one['measure']} {one['tolerance']:g}{where}"


def _asked(shown: Contents) -> str:
    model, features = shown["model"], shown["features"]
    asked = [one for one in shown["comparisons"] if one["asked"]]
    if not asked and not model:
        return f"Nothing was required; this page describes how decisions differ by {_and(features)}."
    best = "under the best rule without a requirement"
    than = best if model and model["unconstrained"] else "in the reference"
    text = "; ".join(requirement(one, features, than=than) for one in asked) or model["asked"]
    if not model:
        return _sentence(text)
    aware = model["aware"]
    may = {True: f"may use {_and(features)}", False: f"may not use {_and(features, 'or')}"}
    may_use = may.get(aware, f"may use only {aware}")
    return f"{_sentence(text)} Decisions are made by {model['method']} and {may_use}."


def _holds(shown: Contents) -> str:
    """Each verdict with its evidence; without a requirement, the largest difference."""
    rows, level = _rows(shown["rows"]), f"{100 * shown['confidence']:g}% interval"
    asked = [one for one in shown["comparisons"] if one["asked"]]
    if not asked:
        first = next((one for one in shown["comparisons"] if one["measure"] == "difference"), None)
        if first is None or first["value"] is None:
            return ""
        found = f"{interval(first)} ({level}){_who(first)}"
        return f"No tolerance was set; by {first['notion']}, groups differ from everyone by up to {found}."
    parts = []
    for one in asked:
        found = f"{_what(one)} is {interval(one)} ({level}){_who(one)}{_places(one, shown)}{_forecast(one)}"
        if one["value"] is None:
            found = f"{_what(one)} is undefined or not shown"
        verdicts = {"satisfied": "{} holds on", "violated": "{} is violated on"}
        verdict = verdicts.get(one["verdict"], "whether {} holds cannot be decided from")
        parts.append(f"{verdict.format(_claim(one))} {rows}: {found}")
    guarantee = (shown["model"] or {}).get("guarantee")
    if guarantee:
        instead = f"only {guarantee['attainable']}" if guarantee["attainable"] else "nothing"
        parts.append(f"{'it' if guarantee['holds'] else instead} is guaranteed for new data")
    return _sentence("; ".join(parts))


def _forecast(one: Contents) -> str:
    return f"; the forecast for as many rows was {one['forecast']['value']:.3f}" if one["forecast"] else ""


def _places(one: Contents, shown: Contents) -> str:
    """A share of all people as numbers of them."""
    rows, selected = shown["rows"], shown["groups"][0].get("selected")
    share = one["against"] == "bound" and one["notion"] == "selection rate" and one["groups"] == "population"
    return f", {selected:,.0f} of {rows:,.0f} people" if share and rows and selected is not None else ""


def _claim(one: Contents) -> str:
    """A requirement as the subject of a sentence, told from others of the same notion."""
    if one["against"] in ("bound", "reference"):
        article = "an" if one["notion"][:1] in "aeiou" else "a"
        bounded = one["against"] == "bound"
        limit = f"of {one['measure']} {one['tolerance']:g}" if bounded else "than the reference"
        where = "" if one["groups"] == "population" else " in every group"
        return f"{article} {one['notion']} {limit}{where}"
    between = {"groups": " between groups", "named": " against a named group"}.get(one["against"], "")
    between += f" given {_and(one['given'])}" if one["given"] else ""
    words = "within" if one["measure"] == "difference" else "with a ratio of at least"
    return f"{one['notion']}{between} {words} {one['tolerance']:g}"


def _cost(shown: Contents) -> str:
    cost, changed, model = shown["cost"], shown["changed"], shown["model"]
    if cost is None:
        return "Without labels, accuracy is unknown."
    before = " and ".join(f"{interval(one)} {BASELINES[name]}" for name, one in cost["before"].items())
    text = f"Accuracy is {interval(cost['after'])}{f'; it is {before}' if before else ''}."
    if model and not model["binds"]:
        return f"{text} {NOT_BINDING}"
    if cost["change"]:
        since = "without" if "without" in cost["before"] else "plain"
        against = f" {BASELINES[since]}" if since in cost["before"] else " before"
        text += f" The change from decisions{against} is {interval(cost['change'], signed=True)}."
    if changed and shown["rows"] is not None:
        since = BASELINES.get(changed["since"], "before")
        text += (
            f" Compared with decisions {since}, {changed['up']:,.0f} of {shown['rows']:,.0f} people are "
            f"newly selected and {changed['down']:,.0f} no longer selected."
        )
    return text


def _of_curves(curve: Contents) -> dict[str, str]:
    """The sentences about a trade-off alone."""
    drawn = [point for point in curve["points"] if point["kind"] == "curve"]
    ends = [choose(point["tolerance"] for point in drawn) for choose in (min, max)]
    holds, costs = [], []
    for name in curve["curves"]:
        own = [point for point in drawn if point["curve"] == name]
        verdicts = [point["verdict"] for point in own]
        kept, broken = map(verdicts.count, ("satisfied", "violated"))
        holds.append(f"{name} clearly satisfies {kept} of {len(own)} tolerances, and violates {broken}")
        costs.append(f"{name} has {' and '.join(dict.fromkeys(map(_accuracy, (own[0], own[-1]))))}")
    return {
        "What was asked": (
            f"The best accuracy at every tolerance from {ends[0]:.3g} to {ends[1]:.3g} of "
            f"{curve['notion']}, by {curve['measure']}, for {_and(curve['curves'])} classifiers."
        ),
        "What holds": (
            f"On {curve['rows']:,} test rows ({100 * curve['confidence']:g}% intervals), {'; '.join(holds)}."
        ),
        "What it cost": f"Accuracy on test rows: {'; '.join(costs)}.",
    }


def _accuracy(point: Contents) -> str:
    limits = {key: point[f"accuracy_{key}"] for key in ("low", "high")}
    return f"{interval({'value': point['accuracy'], **limits})} at tolerance {point['tolerance']:.3g}"


def _what(one: Contents) -> str:
    end = "largest" if one["measure"] in ("difference", "at most") else "smallest"
    rate = "change of the rate" if one["against"] == "reference" else "rate"
    what = one["measure"] if one["measure"] in ("difference", "ratio") else rate
    return f"the {what}" if one["groups"] == "population" else f"the {end} {what}"


def _who(one: Contents) -> str:
    who = one["group"] if one["groups"] != "population" else None
    return f", for {who}" if who and (one["value"] or one["measure"] == "ratio") else ""


def _rows(rows: float | str | None) -> str:
    return f"{rows:,.0f} rows" if isinstance(rows, int | float) else "these rows"


def _and(names: Sequence[str], word: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
