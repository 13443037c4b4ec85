"""The command line, for people who have files and not notebooks."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
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
    files.refuse_existing(report, force=force, inputs=[table])
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
        _tell(f"The same as a page: {report}")
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
    files.refuse_existing(out, force=force, inputs=[table, test])
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
        _tell(f"The same as a page: {out}")
    return 0


@app.command
def fit(
    table: Path,
    /,
    *,
    target: str,
    sensitive: str,
    out: Path,
    notion: Notions = ("demographic-parity",),
    difference: float | None = None,
    ratio: float | None = None,
    groups: Mode = "intersectional",
    aware: Flag = False,
    method: Literal["post", "in"] = "post",
    confidence: float | None = None,
    positive: str | None = None,
    test: Path | None = None,
    test_share: float = 0.25,
    report: Path | None = None,
    as_json: Json = False,
    force: Flag = False,
) -> int:
    """Learn a fair classifier from a file, judge it on rows it has not seen, and keep it.

    The exit code is that of an audit of the test rows.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from. Categories and missing values need no preparation.
    target
        Column of labels.
    sensitive
        Columns of sensitive features, with commas between them.
    out
        File for the model.
    notion
        What is asked for; several may be given.
    difference
        Largest difference allowed between a group and everyone.
    ratio
        Smallest ratio allowed; 0.8, say.
    groups
        Compare every combination of sensitive values, or each feature by itself.
    aware
        Let decisions use the sensitive features.
    method
        Post-processing, or training with costs.
    confidence
        Promise the requirement for new rows, with this confidence.
    positive
        The positive label; by default the one that sorts last.
    test
        File to judge on.
    test_share
        Share of the rows to judge on, without such a file.
    report
        HTML file to write as well.
    as_json
        Print JSON instead of text.
    force
        Overwrite outputs that are there.
    """
    files = import_module("evenhand.files")
    rooms = import_module("evenhand")
    constraint = _requirement(notion, difference, ratio, groups)
    if constraint is None:
        raise InputError("say what is asked for: --difference or --ratio.")
    files.refuse_existing(out, force=force, inputs=[table, test])
    files.refuse_existing(report, force=force, inputs=[table, test, out])
    features = _names(sensitive)
    (X, y), (X_test, y_test) = _two_parts(files, table, test, test_share, target=target, features=features)
    kind = rooms.FairPostprocessor if method == "post" else rooms.FairInprocessor
    model = kind(
        constraint=constraint,
        sensitive_features=features,
        aware=aware,
        confidence=confidence,
        pos_label=None if positive is None else _like(y, positive),
        verbose=True,
    ).fit(X, y)
    found = rooms.audit(
        y_test,
        model.predict(X_test),
        X_test.select(features),
        constraint=constraint,
        pos_label=model.classes_[1],
    )
    source = import_module("evenhand.persistence").Source(
        table.name, target, test_share if test is None else None
    )
    rooms.save(model, out, overwrite=force, source=source)
    proof = model.certificate_
    if as_json:
        promise = (
            None if model.promise_ is None else {"holds": model.promise_.holds, "text": str(model.promise_)}
        )
        told = {"risk": proof.objective, "bound": proof.bound, "violation": proof.violation}
        print(json.dumps({"proof": told, "promise": promise, "audit": found.to_dict()}, indent=1))
    else:
        print(found)
        print(f"\nproof: risk {proof.objective:.6f}, and none below {proof.bound:.6f} (gap {proof.gap:.1e})")
        print(model.promise_ or "nothing is promised of new rows; --confidence 0.95 would")
        print(_visible(f"model: {out}"))
    if report is not None:
        rooms.write_report(report, found, model=model, test=(X_test, y_test), title=f"Model of {table.name}")
        _tell(f"The same as a page: {report}")
    return _code([one.verdict for one in found.comparisons if one.notion != "four-fifths rule"])


@app.command
def predict(
    model: Path,
    table: Path,
    /,
    *,
    out: Path,
    rows: int = 100_000,
    formulas: Flag = False,
    force: Flag = False,
) -> int:
    """Decide about the rows of a file, piece by piece, and keep all of its columns.

    Parameters
    ----------
    model
        File of a model.
    table
        CSV or Parquet file.
    out
        File for the rows with two more columns, decision and its probability.
    rows
        How many are read at a time.
    formulas
        Leave text as it is that a spreadsheet would take for a formula.
    force
        Overwrite the output if it is there.
    """
    files = import_module("evenhand.files")
    files.refuse_existing(out, force=force, inputs=[model, table])
    if rows < 1:
        raise InputError(f"--rows should be at least 1, but is {rows}.")
    kept = import_module("evenhand.persistence").load(model)
    wanted = getattr(kept, "feature_names_in_", ())
    there = files.columns_in(table)
    needed = [name for name in wanted if name not in kept.sight_.hidden]
    files.refuse_strange(table, needed, there)
    taken = [name for name in ("decision", "probability") if name in there]
    if taken:
        raise InputError(f"{table.name} has a column {taken[0]!r} already: rename it.")

    def decided() -> Any:
        for piece in files.read_pieces(table, rows):
            X = piece.select([name for name in wanted if name in there])
            yield files.with_decisions(piece, kept.predict(X), kept.predict_proba(X)[:, 1])

    count = files.write_pieces(out, decided(), safe=not formulas)
    print(_visible(f"{count:,} rows decided: {out}"))
    return 0


@app.command
def verify(model: Path, /, *, data: Path | None = None, as_json: Json = False) -> int:
    """Check that a model file is complete and unaltered, and say what it is; with the data, prove it again.

    The exit code is 0 if all is well, 2 if the file or the call is not, and 3 if the data do not confirm the
    proof.

    Parameters
    ----------
    model
        File of a model.
    data
        The file that `evenhand fit` learned it from, CSV or Parquet. Posteriors are learned again, and the
        risk and the bound of the proof are computed from them, apart from the solver.
    as_json
        Print JSON instead of text.
    """
    from dataclasses import asdict  # noqa: PLC0415

    persistence = import_module("evenhand.persistence")
    found = persistence.verify(model)
    if found.ok and data is not None:
        rows = _learned_from(data, found.source)
        with warnings.catch_warnings(category=UserWarning, action="ignore"):  # told already
            found = persistence.verify(model, data=rows)
    if as_json:
        print(json.dumps(asdict(found), indent=1))
    else:
        lines = {
            "file": "complete and unaltered" if found.ok else found.problem,
            "model": found.model,
            "asked": found.requirement,
            "promise": found.promise,
            "learned from": found.source and found.source.file,
            "written with": ", ".join(f"{name} {number}" for name, number in found.versions.items()),
            **{
                f"differs ({name})": f"was {then} and is {now or 'not installed'}"
                for name, (then, now) in found.differences.items()
            },
            "proof": found.proof and found.proof.verdict,
        }
        for name, text in lines.items():
            if text:
                print(_visible(f"{name:<13} {text}"))
    if not found.ok:
        return FAILED
    return 0 if found.proof is None or found.proof.confirmed else VIOLATED


def _learned_from(path: Path, source: Any) -> tuple[Any, Any]:
    """Find the rows again that `fit` learned from."""
    if source is None:
        raise InputError(
            "this model was not made by evenhand fit, so that it does not tell which rows of a file it was "
            "fitted to: use evenhand.verify(path, data=(X, y)) in Python."
        )
    files = import_module("evenhand.files")
    if source.test_share is None:
        return _examples(files, path, source.target, ())
    parts = _two_parts(files, path, None, source.test_share, target=source.target, features=())
    return parts[0]


def _two_parts(
    files: Any, table: Path, test: Path | None, share: float, *, target: str, features: Sequence[str]
) -> list[tuple[Any, Any]]:
    """Rows to learn from and rows to judge on."""
    X, y = _examples(files, table, target, features)
    if test is not None:
        return [(X, y), _examples(files, test, target, features)]
    if not 0 < share < 1:
        raise InputError(f"--test-share should be between 0 and 1, but is {share}.")
    split = import_module("sklearn.model_selection").train_test_split
    try:
        parts = split(range(len(y)), test_size=share, random_state=0, stratify=y.cast(str).to_list())
    except ValueError:
        parts = split(range(len(y)), test_size=share, random_state=0)
    return [(X[sorted(rows)], y[sorted(rows)]) for rows in parts]


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
    files.refuse_strange(path, [target, *features], files.columns_in(path))
    frame = files.read_table(path)
    return frame.drop(target), frame.get_column(target)


def _like(column: Any, text: str) -> Any:
    """Read the text of an option as a value of a column."""
    return next((value for value in column.unique().to_list() if str(value) == text), text)


def _code(verdicts: Sequence[str | None]) -> int:
    if "violated" in verdicts:
        return VIOLATED
    return UNDECIDED if "insufficient evidence" in verdicts else 0


def _visible(text: object) -> str:
    """Make visible what a terminal would obey: names of files and columns are written by others."""
    return str(import_module("evenhand.columns").show(str(text)))


def _tell(text: object) -> None:
    print("\n".join(map(_visible, str(text).splitlines())), file=sys.stderr)


def _one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    _tell(f"evenhand: {message}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors and warnings are one sentence, and exit codes tell them apart."""
    warnings.showwarning = _one_line
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (CycloptsError, EvenhandError) as error:
        _tell(f"evenhand: {error}")
        code = FAILED
    except OSError as error:  # a full disk, say
        _tell(f"evenhand: {error}")
        code = FAILED
        _drop_output()
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _drop_output() -> None:
    """Let go of output that could not be written, which Python would try again at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
