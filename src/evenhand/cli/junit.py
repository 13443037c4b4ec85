"""Verdicts of an audit as JUnit XML, which CI servers show as test results."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from evenhand._atomic import written_at_once
from evenhand.auditing.comparison import Comparison, Distance, asks, estimate, group_name, judged
from evenhand.auditing.figure_tables import figure
from evenhand.auditing.result import Audit
from evenhand.auditing.significance import Significance
from evenhand.cli.exit_codes import FailOn, requested
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

_UNDECIDED = "insufficient evidence"


class _Case(NamedTuple):
    """One test case: a requirement as a whole, one group of it, or one flag of a test of significance."""

    notion: str
    name: str
    verdict: str
    found: str


def write_junit(
    path: Path, found: Audit, *, name: str, fail_on: FailOn, tests: Significance | None = None
) -> None:
    """Write a test case for each requirement, and one for each group that it is about.

    A violated requirement is a failure. Insufficient evidence is one too or, with ``fail_on="violated"``,
    a test that was skipped. With tests of significance there is also a case for each of their flags, the
    practical and the statistical one apart: a flag is a failure. The attributes are those that the schemas of
    Ant and of Jenkins ask for.

    Parameters
    ----------
    path : Path
        Written completely or not at all.
    found : Audit
        With a requirement.
    name : str
        Of the test suite.
    fail_on : {"violated", "insufficient"}
    tests : Significance, default=None
    """
    results = {"satisfied": None, "violated": "failure", "flagged": "failure"}
    results[_UNDECIDED] = "failure" if fail_on == "insufficient" else "skipped"
    cases = [case for one in requested(found) for case in _cases(one)]
    cases += [] if tests is None else _flags(tests)
    kinds = [results[case.verdict] for case in cases]
    described = {
        "name": show(f"evenhand audit of {name}"),
        "package": "evenhand",
        "id": "0",
        "errors": "0",
        "timestamp": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "hostname": "localhost",
        "time": "0",
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "skipped": str(kinds.count("skipped")),
    }
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(root, "testsuite", described)
    Xml.SubElement(suite, "properties")
    for case, kind in zip(cases, kinds, strict=True):
        about = {"classname": f"evenhand.audit.{case.notion}", "name": case.name, "time": "0"}
        test, message = Xml.SubElement(suite, "testcase", about), f"{case.verdict}: {case.found}"
        if kind == "failure":
            Xml.SubElement(test, kind, {"type": case.verdict, "message": message}).text = message
        elif kind is not None:
            Xml.SubElement(test, kind, {"message": message})
    for stream in ("system-out", "system-err"):
        Xml.SubElement(suite, stream)
    Xml.indent(root)
    with written_at_once(path) as unfinished:
        Xml.ElementTree(root).write(unfinished, encoding="utf-8", xml_declaration=True)


def _cases(one: Comparison) -> Iterator[_Case]:
    """The requirement as a whole, then each of its groups."""
    notion = show(one.notion).replace(".", "_")  # readers take what is before a dot for a package
    limit = "" if one.against in ("bound", "reference") else f" (tolerance {one.tolerance:g})"
    asked, everyone = f"{show(asks(one))}{limit}", one.groups == "population"
    whole = {"population": "everyone", "intersectional": "all groups", "independent": "all features"}
    worst = "" if one.group is None or everyone else f" for {group_name(one.group)}"
    text = estimate(one.value, one.low, one.high) + worst + _given(one.stratum)
    yield _Case(notion, f"{asked}: {whole.get(one.groups, one.groups)}", one.verdict or _UNDECIDED, text)
    several = len({part.statistic for part in one.distances}) > 1
    for part in () if everyone else one.distances:
        where = _given(part.stratum)
        who = f"{group_name(part.group)}{where}" + (f", {part.statistic}" if several else "")
        text = estimate(part.value, part.low, part.high) + where
        yield _Case(notion, f"{asked}: {who}", _verdict(one, part), text)


def _flags(tests: Significance) -> Iterator[_Case]:
    """The flags of each group beside its reference."""
    asked = {
        f"impact ratio at least {tests.ratio:g}": ("practical", "impact_ratio low high", "interval"),
        f"p-value at least {tests.level:g}": ("statistical", "p_value", "p"),
    }
    for one in tests.tests:
        for name, (flag, attribute, form) in asked.items():
            verdict = {None: _UNDECIDED, True: "flagged", False: "satisfied"}[getattr(one, flag)]
            who = f"{group_name(one.group)} beside {group_name(one.reference)}: {name}"
            yield _Case("significance", who, verdict, figure(one, attribute, form))


def _given(stratum: GroupName | None) -> str:
    return "" if stratum is None else f" given {stratum}"


def _verdict(one: Comparison, part: Distance) -> str:
    """The verdict on one group, from its part of the simultaneous limits."""
    low, high = part.low, part.high
    if math.isnan(part.value):  # a bound on precision holds where nobody is selected
        holds = one.against == "bound" and one.verdict == "satisfied"
        return "satisfied" if holds else _UNDECIDED
    if one.measure == "difference":
        low, high = max(0.0, low, -high), max(-low, high)
    return judged(one.measure, one.tolerance, low, high) or _UNDECIDED
