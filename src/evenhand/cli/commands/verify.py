"""``evenhand verify``: whether a model file is intact, and whether its proof can be confirmed."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.cli.exit_codes import FAILED, VIOLATED
from evenhand.cli.options import Json
from evenhand.cli.output import print_result, visible
from evenhand.cli.table_rows import rows_of_fit

if TYPE_CHECKING:
    from evenhand.files.persistence import FileReport


def verify(model: Path, /, *, data: Path | None = None, as_json: Json = False) -> int:
    """Check that a model file is complete and unaltered, and describe it; with the data, check its proof.

    Exit code: 0 if all is well, 2 if something is wrong with the file or the call, 3 if the data do not
    confirm the proof.

    Parameters
    ----------
    model
        File of a model.
    data
        The CSV or Parquet file that `evenhand fit` learned from. Posteriors are learned again, and the risk
        and the bound of the proof are computed from them without the solver.
    as_json
        Print JSON instead of text.
    """
    found = eh.verify(model)
    if found.ok and data is not None:
        found = _with_proof(found, model, data)
    if as_json:
        print_result(json.dumps(asdict(found), indent=1))
    else:
        for name, text in _lines(found).items():
            if text:
                print_result(visible(f"{name:<13} {text}"))
    if not found.ok:
        return FAILED
    return 0 if found.proof is None or found.proof.confirmed else VIOLATED


def _with_proof(found: FileReport, model: Path, data: Path) -> FileReport:
    """The report with the proof checked on the rows of the fit."""
    from evenhand.files.recertify import Proof  # noqa: PLC0415  (start-up time)

    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # the first eh.verify has warned
        fitted: Any = eh.load(model)
        rows = rows_of_fit(data, found.source, fitted)
        if isinstance(rows, str):
            return replace(found, proof=Proof(False, f"not confirmed: {rows}.", fitted.certificate_))
        return eh.verify(model, data=rows)


def _lines(found: FileReport) -> dict[str, str | None]:
    return {
        "file": "complete and unaltered" if found.ok else found.problem,
        "model": found.model,
        "requirement": found.requirement,
        "guarantee": found.guarantee,
        "learned from": found.source.file if found.source else None,
        "written with": ", ".join(f"{name} {number}" for name, number in found.versions.items()),
        **{
            f"differs ({name})": f"was {then} and is {now or 'not installed'}"
            for name, (then, now) in found.differences.items()
        },
        "proof": found.proof.verdict if found.proof else None,
    }
