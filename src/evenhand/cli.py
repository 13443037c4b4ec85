"""The command line, for people who have files and not notebooks."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from evenhand.exceptions import EvenhandError, InputError, MissingExtraError

try:
    from cyclopts import App, CycloptsError, Parameter
except ImportError:
    raise MissingExtraError("cyclopts", "cli") from None

if TYPE_CHECKING:
    from evenhand.notions import Constraint

__all__ = ["app", "main"]

FAILED, VIOLATED, UNDECIDED, INTERRUPTED = 2, 3, 4, 130
"""Exit codes: something is wrong with the call; a tolerance is violated; there is not enough evidence."""

NotionName = Literal[
    "demographic-parity", "equal-opportunity", "predictive-equality", "accuracy-parity", "equalized-odds"
]
Notions = Annotated[tuple[NotionName, ...], Parameter(consume_multiple=True)]
Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Mode = Literal["intersectional", "independent"]

_NOTIONS = {
    "demographic-parity": "DemographicParity",
    "equal-opportunity": "EqualOpportunity",
    "predictive-equality": "PredictiveEquality",
    "accuracy-parity": "AccuracyParity",
    "equalized-odds": "EqualizedOdds",
}

app = App(name="evenhand", help="Fair decisions with one or many sensitive features.")


@app.command
def audit(
    table: Path,
    /,
    *,
    prediction: str,
    sensitive: str,
    label: str | None = None,
    weight: str | None = None,
    before: str | None = None,
    positive: str | None = None,
    notion: Notions = ("demographic-parity",),
    difference: float | None = None,
    ratio: float | None = None,
    groups: Mode = "intersectional",
    confidence: float = 0.95,
    min_count: int = 0,
    report: Path | None = None,
    as_json: Json = False,
    force: Flag = False,
) -> int:
    """Say what predictions do to groups, with intervals and verdicts.

    The exit code is 0 if every tolerance that is asked for is satisfied, or none is asked for; 3 if one is
    violated; 4 if there is not enough evidence; 2 if something is wrong with the call.

    Parameters
    ----------
    table
        CSV or Parquet file.
    prediction
        Column of decisions: labels, or probabilities of a positive decision.
    sensitive
        Columns of sensitive features, with commas between them.
    label
        Column of true labels. Without it, only how often groups are selected can be looked at.
    weight
        Column of weights.
    before
        Column of earlier decisions to compare with.
    positive
        The positive label; by default the one that sorts last.
    notion
        What is asked for; several may be given.
    difference
        Largest difference allowed between a group and everyone.
    ratio
        Smallest ratio allowed; 0.8, say.
    groups
        Compare every combination of sensitive values, or each feature by itself.
    confidence
        Of the intervals.
    min_count
        Leave out smaller counts, and what would give them away.
    report
        HTML file to write as well.
    as_json
        Print JSON instead of text.
    force
        Overwrite the report if it is there.
    """
    files = import_module("evenhand.files")
    constraint = _requirement(notion, difference, ratio, groups)
    files.refuse_existing(report, force=force)
    features = _names(sensitive)
    optional = [name for name in (label, weight, before) if name is not None]
    frame = files.read_table(table, [prediction, *optional, *features])

    def column(name: str | None) -> Any:
        return None if name is None else frame.get_column(name)

    found = import_module("evenhand.auditing.audit").audit(
        column(label),
        column(prediction),
        {name: column(name) for name in features},
        constraint=constraint,
        before=column(before),
        sample_weight=column(weight),
        pos_label=None if positive is None else _like(column(label or prediction), positive),
        confidence=confidence,
        min_count=min_count,
    )
    print(json.dumps(found.to_dict(), indent=1) if as_json else found)
    if report is not None:
        found.to_html(report, title=f"Audit of {table.name}")
        print(f"The same as a page: {report}", file=sys.stderr)
    return _code([one.verdict for one in found.comparisons if one.notion != "four-fifths rule"])


@app.command
def frontier(
    table: Path,
    /,
    *,
    target: str,
    sensitive: str,
    notion: Notions = ("demographic-parity",),
    by_ratio: Flag = False,
    groups: Mode = "intersectional",
    aware: Flag = False,
    method: Literal["post", "in"] = "post",
    positive: str | None = None,
    test: Path | None = None,
    test_share: float = 0.25,
    tolerances: int | None = None,
    out: Path | None = None,
    as_json: Json = False,
    force: Flag = False,
) -> int:
    """Show what fairness costs in accuracy, for every tolerance.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from.
    target
        Column of labels.
    sensitive
        Columns of sensitive features, with commas between them.
    notion
        What is asked for; several may be given.
    by_ratio
        Compare groups by ratio instead of difference.
    groups
        Compare every combination of sensitive values, or each feature by itself.
    aware
        Let decisions use the sensitive features: adds a second curve.
    method
        Post-processing, or training with costs.
    positive
        The positive label; by default the one that sorts last.
    test
        File to judge on.
    test_share
        Share of the rows to judge on, without such a file.
    tolerances
        How many.
    out
        HTML file to write: the report with its slider.
    as_json
        Print JSON instead of text.
    force
        Overwrite the page if it is there.
    """
    files = import_module("evenhand.files")
    files.refuse_existing(out, force=force)
    features = _names(sensitive)
    rooms = import_module("evenhand")
    tolerance = {"ratio": 0.8} if by_ratio else {"difference": 0.1}
    constraint = _requirement(notion, tolerance.get("difference"), tolerance.get("ratio"), groups)
    X, y = _examples(files, table, target, features)
    other = None if test is None else _examples(files, test, target, features)
    kind = rooms.FairPostprocessor if method == "post" else rooms.FairInprocessor
    settings = {
        "constraint": constraint,
        "sensitive_features": features,
        "pos_label": None if positive is None else _like(y, positive),
        "verbose": True,
    }
    classifiers = {"blind": kind(**settings), **({"aware": kind(**settings, aware=True)} if aware else {})}
    curve = rooms.frontier(
        classifiers, X, y, test=other, test_share=test_share, tolerances=tolerances, verbose=True
    )
    print(json.dumps(curve.to_dict(), indent=1) if as_json else curve)
    if out is not None:
        middle = curve.points[len(curve.points) // 2]
        shown = import_module("evenhand.auditing.audit").audit_of(middle.counted)
        rooms.write_report(out, shown, frontier=curve, title=f"What fairness costs: {table.name}")
        print(f"The same as a page: {out}", file=sys.stderr)
    return 0


def _requirement(
    notions: Sequence[str], difference: float | None, ratio: float | None, groups: str
) -> Constraint | None:
    if difference is not None and ratio is not None:
        raise InputError("give --difference or --ratio, not both.")
    if difference is None and ratio is None:
        return None
    rooms = import_module("evenhand.notions")
    asked: Any = None
    for name in dict.fromkeys(notions):
        one = getattr(rooms, _NOTIONS[name])(difference=difference, ratio=ratio, groups=groups)
        asked = one if asked is None else asked & one
    found: Constraint = asked
    return found


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError("--sensitive should name columns, with commas between them.")
    return names


def _examples(files: Any, path: Path, target: str, features: Sequence[str]) -> tuple[Any, Any]:
    files.read_table(path, [target, *features]).head(0)  # names that are not there, before all is read
    frame = files.read_table(path)
    return frame.drop(target), frame.get_column(target)


def _like(column: Any, text: str) -> Any:
    """Read the text of an option as a value of a column."""
    return next((value for value in column.unique().to_list() if str(value) == text), text)


def _code(verdicts: Sequence[str | None]) -> int:
    if "violated" in verdicts:
        return VIOLATED
    return UNDECIDED if "insufficient evidence" in verdicts else 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors are one sentence, and exit codes tell them apart."""
    try:
        code = app(arguments, exit_on_error=False, result_action="return_value")
    except CycloptsError:  # told already
        code = FAILED
    except EvenhandError as error:
        print(f"evenhand: {error}", file=sys.stderr)
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
