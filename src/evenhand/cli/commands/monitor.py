"""``evenhand monitor``: decisions counted batch by batch, with an alarm."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

import evenhand as eh
from evenhand.cli.exit_codes import VIOLATED
from evenhand.cli.messages import in_options
from evenhand.cli.options import Bands, Flag, Json, Names, Required
from evenhand.cli.output import check_paths, print_result
from evenhand.display.text import show
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.monitoring.monitor import Monitor


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Stream:
    """What the first call says of the files: which columns there are, and which model decides."""

    model: Path | None = None
    """File of a model whose requirement and population are watched."""

    trusted: Names = ()
    """Full name of a class or function of your own in that model, as in predict; may be repeated."""

    sensitive: Names = ()
    """Columns of sensitive features, separated by commas or by repeating the option."""

    bands: Bands = ()
    """Bands of a sensitive feature of numbers, by where they begin, as in an audit."""

    prediction: str | None = None
    """Column of decisions: labels, or probabilities of a positive decision."""

    label: str | None = None
    """Column of true labels. Files without it are counted without labels."""

    positive: str | None = None
    """The positive label; by default 1, or the one that sorts last."""


def monitor(
    state: Path,
    table: Path | None = None,
    /,
    *,
    stream: Stream = Stream(),
    required: Required = Required(),
    confidence: float | None = None,
    time: str | None = None,
    late: Flag = False,
    fail_on: Literal["alarm", "drift"] | None = None,
    config: Path | None = None,
    as_json: Json = False,
) -> int:
    """Count a batch of decisions, and raise an alarm that is valid whenever one looks.

    The first call makes the state from a model or from a requirement, and remembers the columns; later ones
    need only the state and a file. Exit code: 0, or with --fail-on alarm 3 once there is an alarm; 2 if
    something is wrong with the call.

    Parameters
    ----------
    state
        JSON file of counts, made if it does not exist.
    table
        CSV or Parquet file of the batch, which is not counted twice; without it the state is shown.
    confidence
        One minus the probability that an alarm is ever false; by default 0.95.
    time
        Date or time of the batch, in ISO 8601.
    late
        The rows were counted before without labels; only their labels are counted.
    fail_on
        Exit with 3 if there is an alarm, or also if people are no longer those of the fit.
    config
        TOML file of options, with a table for each command. Options of the call take precedence.
    as_json
        Print JSON instead of a line.
    """
    check_paths([table, stream.model, config], [state], force=True)
    if state.exists():
        if stream != Stream() or required != Required() or confidence is not None:
            raise InputError(
                f"{state} has its requirement and columns: pass only files, and options of a batch."
            )
        found = eh.Monitor.load(state)
    elif table is None or stream.prediction is None:
        raise InputError(
            f"there is no file {state}: to make it, pass the file of a first batch, its column of decisions "
            "as --prediction, and --model, or --sensitive and a requirement such as --difference 0.05."
        )
    else:
        found = _made(table, stream, required, 0.95 if confidence is None else confidence)
    if table is not None:
        with in_options({"y_pred": "--prediction", "y_true": "--label", "late=True": "--late"}):
            _count(found, table, time=time, late=late)
        found.save(state)
    shown = found.headline if table is not None else repr(found)
    print_result(json.dumps(found.to_dict()) if as_json else "\n".join(map(show, shown.splitlines())))
    told = found.alarm is not None or (fail_on == "drift" and found.drift is not None)
    return VIOLATED if fail_on is not None and told else 0


def _made(table: Path, stream: Stream, required: Required, confidence: float) -> Monitor:
    """A monitor, with the columns that it reads from files."""
    from evenhand.cli.required import read_groups, requirement  # noqa: PLC0415  (start-up time)
    from evenhand.cli.table_rows import positive_label  # noqa: PLC0415

    names = {"prediction": stream.prediction, "label": stream.label}
    edges: dict[str, Any]
    if stream.model is not None:
        if stream.sensitive or stream.bands or required != Required():
            raise InputError("--model has its requirement and groups: leave out --sensitive and tolerances.")
        with in_options():
            fitted: Any = eh.load(stream.model, trusted=stream.trusted)
        found = eh.Monitor.from_model(fitted, confidence=confidence)
        edges = dict(getattr(fitted._source, "bands", {}))
        controls = [] if fitted.strata_ is None else list(fitted.strata_.features)
        features = list(fitted.groups_.features)
    else:
        if requirement(required, table) is None or not stream.sensitive:
            raise InputError(
                "a new state needs --model, or --sensitive and a requirement such as --difference 0.05."
            )
        decided = stream.label or str(stream.prediction)
        given = read_groups(table, stream.sensitive, stream.bands, required, [stream.prediction, decided])
        features, controls, edges = given.features, given.controls, dict(given.bands)
        positive = positive_label(given.rows, stream.positive, stream.label, stream.prediction)
        constraint = requirement(required, table, given.reference)
        found = eh.Monitor(constraint, confidence=confidence, pos_label=positive, missing=required.missing)
    bands = {name: list(part) for name, part in edges.items()}
    found.columns = {**names, "features": features, "controls": controls, "bands": bands}
    return found


def _count(found: Monitor, table: Path, *, time: str | None, late: bool) -> None:
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time)
    from evenhand.cli.bands import GroupColumns  # noqa: PLC0415
    from evenhand.cli.table_rows import groups_of_files  # noqa: PLC0415

    known = found.columns
    features, controls = list(known["features"]), list(known["controls"])
    there = table_files.columns_in(table)
    label = known["label"] if known["label"] in there or late else None
    used = [one for one in (known["prediction"], label) if one is not None]
    table_files.refuse_unknown(table, [*features, *controls, *used], there)
    groups = groups_of_files([table], [*features, *controls], features, known["bands"])
    texts = {*groups.text, *(name for name in found.text_features if not known["bands"].get(name))}
    groups = GroupColumns(sorted(texts), groups.bands)
    with table.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    with table_files.reading(table):
        found.update(
            known["prediction"],
            features,
            y_true=label,
            control_features=controls or None,
            data=table_files.scan(table, groups).select(list(dict.fromkeys([*features, *controls, *used]))),
            time=time,
            batch=f"{content} late" if late else content,
            late=late,
        )
