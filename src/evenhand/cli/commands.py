"""The commands: audit, frontier, fit, predict, verify and demo."""

from __future__ import annotations

import json
import math
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclopts import App

from evenhand.cli.codes import FAILED, VIOLATED, code_of
from evenhand.cli.config import fill_from_file
from evenhand.cli.options import (
    Aware,
    Comparison,
    Flag,
    Json,
    Learning,
    Names,
    RunOptions,
    Tolerance,
    aware_of,
    check_paths,
    names_in,
    requirement,
)
from evenhand.cli.rows import as_value, last_decision, learned_from, read_rows, source_of
from evenhand.cli.telling import in_options, say, tell, visible
from evenhand.exceptions import InputError
from evenhand.inputs.checks import check_fraction

__all__ = ["app"]

app = App(
    name="evenhand", help="Fair decisions with one or many sensitive features.", config=[fill_from_file]
)


@app.command
def audit(
    table: Path,
    *,
    prediction: str,
    sensitive: Names,
    label: str | None = None,
    weight: str | None = None,
    before: str | None = None,
    positive: str | None = None,
    compared: Comparison = Comparison(),
    tolerance: Tolerance = Tolerance(),
    confidence: float = 0.95,
    min_count: int = 0,
    threshold: float | None = None,
    report: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Say what predictions do to groups, with intervals and verdicts.

    The exit code is 0 if every tolerance that is asked for is satisfied, or none is asked for; 3 if one is
    violated; 4 if there is not enough evidence; 2 if something is wrong with the call.

    Parameters
    ----------
    table
        CSV or Parquet file.
    prediction
        Column of decisions: labels, or probabilities of a positive decision; or of scores, with --threshold.
    sensitive
        Columns of sensitive features, with commas between them, or the option several times.
    label
        Column of true labels. Without it, only how often groups are selected can be looked at.
    weight
        Column of weights.
    before
        Column of earlier decisions to compare with.
    positive
        The positive label; by default the one that sorts last.
    confidence
        Of the intervals.
    min_count
        Leave out smaller counts, and what would give them away.
    threshold
        Predictions are scores, and from this one on the decision is positive; 0.5, say.
    report
        HTML file to write as well.
    """
    constraint = requirement(compared, tolerance)
    check_fraction("--confidence", confidence)
    if min_count < 0:
        raise InputError(f"--min-count should be 0 or more, but is {min_count}.")
    check_paths([table], [report], force=run.force)
    features = names_in(sensitive, import_module("evenhand.cli.files").columns_in(table))
    optional = [name for name in (label, weight, before) if name is not None]
    frame = read_rows(table, [prediction, *optional, *features])

    def column(name: str | None) -> Any:
        return None if name is None else frame.get_column(name)

    if positive is None and label is None and threshold is None:
        chosen = last_decision(column(prediction))
    else:
        chosen = None if positive is None else as_value(column(label or prediction), positive)
    with in_options():
        found = import_module("evenhand.auditing.audit").audit(
            column(label),
            column(prediction),
            {name: column(name) for name in features},
            constraint=constraint,
            before=column(before),
            sample_weight=column(weight),
            pos_label=chosen,
            confidence=confidence,
            missing=compared.policy,
            min_count=min_count,
            threshold=threshold,
        )
    say(json.dumps(found.to_dict(), indent=1) if run.as_json else found)
    if report is not None:
        found.to_html(report, title=f"Audit of {table.name}")
        tell(f"The same as a page: {report}")
    return code_of(found)


@app.command
def frontier(
    table: Path,
    *,
    learning: Learning,
    aware: Aware = None,
    compared: Comparison = Comparison(),
    by_ratio: Flag = False,
    tolerances: int | None = None,
    out: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Show what fairness costs in accuracy, for every tolerance.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from.
    aware
        Let decisions use the sensitive features, or those that are named: adds a second curve.
    by_ratio
        Compare groups by ratio instead of difference.
    tolerances
        How many; by default 50, and 8 where each is a training. Up to 20 are all solved for; of more,
        compared by difference, every fifth, and the others are mixtures.
    out
        HTML file to write: the report with its slider.
    """
    constraint = requirement(compared, Tolerance(ratio=0.8) if by_ratio else Tolerance(difference=0.1))
    if tolerances is not None and tolerances < 2:
        raise InputError(f"--tolerances should be at least 2, but is {tolerances}.")
    check_paths([table, learning.test], [out], force=run.force)
    learning.check(table)
    usable = aware_of(
        aware, names_in(learning.sensitive, import_module("evenhand.cli.files").columns_in(table))
    )
    rooms = import_module("evenhand")
    with in_options():
        train, test = learning.parts(table)
        for note in learning.notes(table, train.X):
            tell(f"evenhand: {note}")
        curve = rooms.frontier(
            {
                name: learning.classifier(
                    train.X, train.y, constraint=constraint, aware=sight, missing=compared.policy
                )
                for name, sight in {"blind": False, **({"aware": usable} if usable else {})}.items()
            },
            train.X,
            train.y,
            test=(test.X, test.y),
            tolerances=tolerances,
            verbose=True,
        )
    say(json.dumps(curve.to_dict(), indent=1) if run.as_json else curve)
    if out is not None:
        first = curve.curve(curve.points[0].curve)
        middle = first[len(first) // 2]
        shown = import_module("evenhand.auditing.audit").audit_of(middle.counted)
        rooms.write_report(
            out,
            shown,
            frontier=curve,
            title=f"What fairness costs: {table.name}",
            data=f"tables: the {middle.curve} classifier of tolerance {middle.tolerance:.3g}",
        )
        tell(f"The same as a page: {out}")
    return 0


@app.command
def fit(
    table: Path,
    *,
    learning: Learning,
    out: Path,
    aware: Aware = None,
    compared: Comparison = Comparison(),
    tolerance: Tolerance = Tolerance(),
    confidence: float | None = None,
    report: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Learn a fair classifier from a file, judge it on rows it has not seen, and keep it.

    The exit code is that of an audit of the test rows, and 4 as well if --confidence is given and the rows
    kept back do not support the promise. The model is kept all the same, and the output says so.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from. Categories and missing values need no preparation.
    out
        File for the model.
    aware
        Let decisions use the sensitive features, or those that are named.
    confidence
        Promise the requirement for new rows, with this confidence.
    report
        HTML file to write as well.
    """
    constraint = requirement(compared, tolerance)
    if constraint is None:
        raise InputError("say what is asked for: --difference or --ratio.")
    if confidence is not None:
        check_fraction("--confidence", confidence)
    check_paths([table, learning.test], [out, report], force=run.force)
    learning.check(table)
    usable = aware_of(
        aware, names_in(learning.sensitive, import_module("evenhand.cli.files").columns_in(table))
    )
    rooms = import_module("evenhand")
    share = None if learning.test else learning.share
    source = source_of(table, learning.target, share, learning.left_out(table), learning.id)
    settings = {"aware": usable, "confidence": confidence, "missing": compared.policy}
    with in_options():
        train, test = learning.parts(table)
        for note in learning.notes(table, train.X):
            tell(f"evenhand: {note}")
        (X, y), (X_test, y_test) = (train.X, train.y), (test.X, test.y)
        model = learning.classifier(X, y, constraint=constraint, **settings).fit(X, y)
        decisions = model.predict(X_test, ids=test.ids)
        found = rooms.audit(
            y_test,
            decisions,
            X_test.select(model.sensitive_features),
            constraint=constraint,
            pos_label=model.pos_label_,
            missing=compared.policy,
            min_size=math.ceil(learning.min_group_size * len(y_test) / len(y)),
        )
    rooms.save(model, out, overwrite=run.force, source=source)
    proof, promise = import_module("evenhand.model_files.recertify").claimed(model), model.promise_
    constant = bool((decisions == decisions[0]).all())
    if run.as_json:
        told = {
            "text": str(proof),
            "requirement": repr(proof.requirement),
            "asked": repr(proof.asked),
            "risk": proof.risk,
            "bound": proof.bound,
            "violation": proof.violation,
        }
        said = None if promise is None else {"holds": promise.holds, "text": str(promise)}
        told_all = {"proof": told, "promise": said, "constant": constant, "audit": found.to_dict()}
        say(json.dumps(told_all, indent=1))
    else:
        say(f"{found}\n")
        say(visible(f"proof: {proof}."))
        say(promise or "no guarantee for new data; pass --confidence 0.95")
        if constant:
            say(visible(f"constant: this model decides {decisions[0]!s} for every test row, whoever it is."))
        broken = "" if promise is None or promise.holds else ", saved although nothing can be promised of it"
        say(visible(f"model: {out}{broken}"))
    if report is not None:
        with in_options():
            rooms.write_report(
                report, found, model=model, test=(X_test, y_test), title=f"Model of {table.name}"
            )
        tell(f"The same as a page: {report}")
    return code_of(found, promise)


@app.command
def predict(
    model: Path,
    table: Path,
    /,
    *,
    out: Path,
    id: str | None = None,  # noqa: A002  (the name of the option)
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
    id
        Column that people are known by, the key of randomised decisions; by default that of the fit.
    rows
        How many are read at a time.
    formulas
        Leave text as it is that a spreadsheet would take for a formula.
    force
        Overwrite the output if it is there.
    """
    files = import_module("evenhand.cli.files")
    check_paths([model, table], [out], force=force)
    if rows < 1:
        raise InputError(f"--rows should be at least 1, but is {rows}.")
    kept = import_module("evenhand.model_files.persistence").load(model)
    wanted = getattr(kept, "feature_names_in_", ())
    there = files.columns_in(table)
    needed = [name for name in wanted if name not in kept.access_.unused]
    files.refuse_strange(table, [*needed, *([] if id is None else [id])], there)
    positive = kept.classes_.tolist().index(kept.pos_label_)
    key = id or getattr(kept._source, "id", None)
    if key is not None and key not in there:
        tell(
            f"evenhand: {table.name} has no column {key!r}, by which people were known in the fit: "
            "randomised decisions go by their features."
        )
        key = None
    taken = [name for name in ("decision", "probability") if name in there]
    if taken:
        raise InputError(f"{table.name} has a column {taken[0]!r} already: rename it.")

    def decided() -> Any:
        for piece in files.read_pieces(table, rows):
            X = piece.select([name for name in wanted if name in there])
            ids = None if key is None else piece.get_column(key)
            decisions, chances = [], []
            if len(X):
                decisions, chances = kept.predict(X, ids=ids), kept.predict_proba(X)[:, positive]
            yield files.with_decisions(piece, decisions, chances, kept.classes_)

    count = files.write_pieces(out, decided(), safe=not formulas)
    say(visible(f"{count:,} rows decided: {out}"))
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
    from dataclasses import asdict, replace  # noqa: PLC0415

    persistence = import_module("evenhand.model_files.persistence")
    found = persistence.verify(model)
    if found.ok and data is not None:
        rows = learned_from(data, found.source)
        with warnings.catch_warnings(category=UserWarning, action="ignore"):  # told already
            if isinstance(rows, str):
                stored = persistence.load(model).certificate_
                told = f"not confirmed: {rows}."
                found = replace(found, proof=persistence.Proof(False, told, stored))
            else:
                found = persistence.verify(model, data=rows)
    if as_json:
        say(json.dumps(asdict(found), indent=1))
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
                say(visible(f"{name:<13} {text}"))
    if not found.ok:
        return FAILED
    return 0 if found.proof is None or found.proof.confirmed else VIOLATED


@app.command
def demo(*, out: Path | None = None, force: Flag = False) -> int:
    """Tell the whole story on bundled census data, offline.

    Parameters
    ----------
    out
        HTML file to write. By default evenhand-demo.html, which is overwritten if it is there.
    force
        Overwrite the file of --out if it is there.
    """
    page = out or Path("evenhand-demo.html")
    check_paths([], [page], force=force or out is None)
    import_module("evenhand.cli.demo").run(page)
    return 0
