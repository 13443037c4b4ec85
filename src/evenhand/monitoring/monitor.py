"""A monitor of decisions: counted batch by batch, with an alarm that is valid whenever one looks."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from evenhand._atomic import written_at_once
from evenhand.data.checks import check_choice, check_fraction
from evenhand.data.tables import Library, library_of, make_table
from evenhand.display.notebook import ShownAsTable
from evenhand.exceptions import InputError, MonitorWarning, UntrustedFileError, warn_user
from evenhand.files.persistence import load as load_model
from evenhand.groups.groups import Missing
from evenhand.groups.names import UnseenRows
from evenhand.monitoring import findings
from evenhand.monitoring.counts import Batch, History, cells_of, read_batch
from evenhand.monitoring.findings import Alarm, Disparity, Drift
from evenhand.monitoring.state import read_state, write_state
from evenhand.requirements.requirement import Constraint, check_constraint

_BATCHES_REMEMBERED = 400
"""Batches whose identifiers are kept, to recognise one that comes twice."""
_MOST_BYTES = 1 << 27


class Monitor(ShownAsTable):
    """Decisions counted batch by batch, and an alarm that is valid whenever one looks.

    If the requirement holds for the people seen, the probability that an alarm is *ever* raised is at most
    one minus the confidence, however often one looks and whatever the sizes of the batches. Only counts are
    kept, no rows. See :doc:`/theory/monitoring` for the proof.

    Parameters
    ----------
    constraint : Constraint
        The requirement, such as ``DemographicParity(difference=0.05)``; several are joined by ``&``.
    confidence : float, default=0.95
    pos_label : object, default=None
        The positive label; None stands for 1, True, or the label of the first batch that sorts last.
    missing : {"error", "category", "exclude"}, default="error"
        What happens to rows that lack a sensitive value, as in :func:`evenhand.audit`.

    Attributes
    ----------
    alarm : Alarm or None
        The first alarm: which group, by which notion, at which batch, since when, with which evidence.
    drift : Drift or None
        The first evidence that people are others than those of the fit; needs :meth:`from_model`.
    evidence : float
        Against the requirement, now; an alarm is raised at ``1 / (1 - confidence)``.
    excluded_rows : int
    columns : dict
        Free for the caller, and saved: the command line keeps names of columns here.

    Examples
    --------
    >>> import evenhand as eh
    >>> monitor = eh.Monitor(eh.DemographicParity(difference=0.1))
    >>> for day in range(3):
    ...     monitor.update([1, 1, 0, 1, 0, 0] * 20, {"sex": ["M", "M", "M", "M", "F", "F"] * 20})
    >>> print(monitor.alarm.group, monitor.alarm.batch)
    sex=F 1
    >>> [(one.group, one.rate, one.required, one.verdict) for one in monitor.disparities()][0]
    ('sex=F', 0.0, 'within 0.1', 'violated')
    """

    def __init__(
        self,
        constraint: Constraint,
        *,
        confidence: float = 0.95,
        pos_label: Any = None,
        missing: Missing = "error",
    ) -> None:
        check_constraint(constraint)
        check_fraction("confidence", confidence)
        check_choice("missing", missing, ("error", "category", "exclude"))
        self.constraint = constraint
        self.confidence = float(confidence)
        self.pos_label = pos_label
        self.missing = missing
        self.alarm: Alarm | None = None
        self.drift: Drift | None = None
        self.excluded_rows = 0
        self.columns: dict[str, Any] = {}
        self._history = History()
        self._classes: NDArray[Any] | None = None
        self._seen: list[str] = []
        self._reference: dict[Any, float] = {}
        self._digest = ""
        self._library: Library | None = None

    @classmethod
    def from_model(cls, model: Any, *, confidence: float = 0.95) -> Self:
        """A monitor of what a fitted model was fitted to satisfy, with the people of its fit as reference.

        Parameters
        ----------
        model : FairPostprocessor, FairInprocessor or path
            Fitted, or the file of one.
        confidence : float, default=0.95

        Returns
        -------
        Monitor
        """
        fitted = load_model(model) if isinstance(model, str | os.PathLike) else model
        groups = getattr(fitted, "compared_", None)
        if groups is None or getattr(fitted, "constraint", None) is None:
            raise InputError("from_model takes a fitted FairPostprocessor or FairInprocessor, or its file.")
        if groups.pooled:
            raise InputError(
                "the model pools rare groups: pool them in your data and make Monitor(constraint) directly."
            )
        missing: Missing = "exclude" if groups.missing == "impute" else groups.missing
        monitor = cls(fitted.constraint, confidence=confidence, pos_label=fitted.pos_label_, missing=missing)
        names, controls, cells = cells_of(groups)
        counts = zip(cells, groups.counts.tolist(), strict=True)
        monitor._reference = {cell: float(rows) for cell, rows in counts if rows}
        negative = next(label for label in fitted.classes_.tolist() if label != fitted.pos_label_)
        monitor._classes = np.array([negative, fitted.pos_label_])
        seen, before = tuple(monitor._reference), monitor._history.last.padded(len(monitor._reference))
        monitor._history = History(names, controls, seen, (0,) * len(seen), (before,))
        fitted.constraint.check(monitor._history.groups[0])
        return monitor

    def update(
        self,
        y_pred: Any,
        sensitive_features: Any,
        *,
        y_true: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        data: Any = None,
        time: Any = None,
        batch: str | None = None,
        late: bool = False,
    ) -> None:
        """Count a batch.

        Parameters
        ----------
        y_pred, sensitive_features, y_true, control_features : arrays, tables or names of columns
            Decisions, groups, labels if they are known, and control features, as :func:`evenhand.audit` takes
            them.
        sample_weight : array or name of a column, default=None
            From 0 to 1, and known before the decision; other weights have no evidence that is valid.
        data : table, default=None
            The table that has the columns, eager or lazy; the other arguments then are names.
        time : str, date or datetime, default=None
            When the decisions were made, in ISO 8601; never before that of an earlier batch.
        batch : str, default=None
            Identifier of the batch. One that was counted before is told and not counted again. Without it,
            at least 1,000 rows are recognised by their content, unless they are columns of `data`.
        late : bool, default=False
            The rows were counted before without labels, and only their labels are counted now.
        """
        if late and y_true is None:
            raise InputError("late rows are counted for their labels: pass y_true.")
        when, history = self._read_time(time, late=late), self._history
        rows = y_pred if data is None else data
        if hasattr(rows, "__len__") and not isinstance(rows, str) and not len(rows):
            warn_user(f"batch {self.batches + 1} has no rows.", MonitorWarning)
            found = Batch(history.names, history.controls, (), history.last.sums[:0], 0)
        else:
            columns = {"y_pred": y_pred, "y_true": y_true, "sample_weight": sample_weight}
            columns |= {"sensitive_features": sensitive_features, "control_features": control_features}
            classes = np.array([0, 1]) if self._classes is None and self.pos_label is None else self._classes
            positive, missing = self.pos_label if self._classes is None else None, self.missing
            policy = {"classes": classes, "pos_label": positive, "missing": missing}
            found = read_batch(columns, data=data, late=late, **policy)
        text = found.digest and f"{found.digest} {when} {late}" if batch is None else f"{batch}"
        identifiers = [hashlib.sha256(text.encode()).hexdigest()[:12]] if text else []
        if any(one in self._seen for one in identifiers):
            what = "a batch with the same rows" if batch is None else f"batch {batch!r}"
            advice = " If it is another one, pass an identifier as batch=." if batch is None else ""
            warn_user(f"{what} was counted before and is not counted again.{advice}", MonitorWarning)
            return
        self._count(found, when, identifiers)
        self._library = library_of(data) if data is not None else library_of(sensitive_features, y_pred)

    def _count(self, found: Batch, time: str, identifiers: Sequence[str]) -> None:
        """Count a batch and look; nothing changes if it cannot be counted."""
        history, found = self._history, self._history.in_order(found)
        own, labels = ([] if part is None else part.tolist() for part in (self._classes, found.classes))
        if own and labels and own != labels:
            had = (", ".join(map(repr, part)) for part in (labels, own))
            raise InputError("the batch has the labels {}, and earlier ones had {}.".format(*had))
        rows = dict(zip(found.cells, found.sums[:, 0, 0].astype(int).tolist(), strict=True))
        new = {cell: number for cell, number in rows.items() if cell not in history.cells}
        told = UnseenRows("groups", found.names, history.cells, new, found.rows)
        if history.cells and told.type_hint:
            raise InputError(f"the batch is not counted: {told.type_hint}")
        added = history.added(found, time)
        if added.cells:
            self.constraint.check(added.groups[0])
            evidence, alarm = findings.find_alarm(self.constraint, added)
            added = replace(added, records=(*added.records[:-1], replace(added.last, evidence=evidence)))
            wanted = np.log(self._alarm_at)
            if self.alarm is None and evidence >= wanted:
                self.alarm = alarm
            if self._reference and self.drift is None:
                evidence, drift = findings.find_drift(self._reference, added)
                self.drift = drift if evidence >= wanted else None
        self._history = added
        self._classes = found.classes if self._classes is None else self._classes
        self.excluded_rows += found.excluded
        self._seen = [*self._seen, *identifiers][-_BATCHES_REMEMBERED:]
        if new and history.cells:
            warn_user(f"new groups, counted from batch {added.last.batch} on: {told.listed}.", MonitorWarning)

    @property
    def _alarm_at(self) -> float:
        return 1 / (1 - self.confidence)

    @property
    def evidence(self) -> float:
        """Against the requirement, now."""
        return float(np.exp(self._history.last.evidence))

    @property
    def batches(self) -> int:
        """Number of batches."""
        return self._history.last.batch

    @property
    def rows(self) -> int:
        """Number of rows; those that came late count again."""
        return self._history.last.rows

    @property
    def text_features(self) -> set[str]:
        """Features whose values are text."""
        columns = zip(*self._history.cells, strict=True)
        named = zip(self._history.names, columns, strict=False)
        return {name for name, values in named if any(isinstance(one, str) for one in values)}

    def disparities(self) -> list[Disparity]:
        """Each group beside what it is compared with, with intervals that hold at all times.

        The limits of disparities hold for all groups together; those of a rate hold by themselves.

        Returns
        -------
        list of Disparity
        """
        if not self._history.cells:
            return []
        return findings.find_disparities(self.constraint, self._history, 1 - self.confidence)

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """The disparities as a table, one row each.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            None stands for the library of the last batch, or else pandas or polars.

        Returns
        -------
        table
        """
        kinds = {one.name: str(one.type) for one in fields(Disparity)}
        numbers = [name for name, kind in kinds.items() if kind.startswith("float")]
        rows = [asdict(one) for one in self.disparities()]
        return make_table(rows, kinds, numbers=numbers, library=backend or self._library)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        last = self._history.last
        return {
            "batch": last.batch,
            "time": last.time or None,
            "rows": last.rows,
            "excluded_rows": self.excluded_rows,
            "evidence": self.evidence,
            "alarm_at": self._alarm_at,
            **{name: one and asdict(one) for name, one in (("alarm", self.alarm), ("drift", self.drift))},
            "disparities": [asdict(one) for one in self.disparities()],
        }

    def history(self) -> list[dict[str, Any]]:
        """Rates of the groups in periods of one batch or more, for ``evenhand.charts.history_chart``.

        Returns
        -------
        list of dict
            ``batch``, the last one of the period, ``time``, ``group``, ``statistic``, ``rate``, ``low``,
            ``high`` and ``evidence``. At most 35 periods are kept.
        """
        if not self._history.cells:
            return []
        return findings.find_periods(self.constraint, self._history, 1 - self.confidence)

    def plot(self) -> Any:
        """Chart of rates over time, and of the evidence; see ``evenhand.charts.history_chart``.

        Returns
        -------
        altair chart
        """
        from evenhand.charts import history_chart  # noqa: PLC0415  (needs the extra)

        shown, batch = self.history(), None if self.alarm is None else self.alarm.batch
        return history_chart(shown, alarm_at=self._alarm_at, alarm=batch, confidence=self.confidence)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file of counts, completely or not at all.

        Parameters
        ----------
        path : str or path
            An existing file must be the one that this monitor was loaded from or saved to, unchanged:
            two processes that count into one file are told instead of losing batches.
        """
        path, content = Path(path), write_state(self)
        self._check_unchanged(path)
        with written_at_once(path) as unfinished:
            unfinished.write_bytes(content)
            self._check_unchanged(path)
        self._digest = hashlib.sha256(content).hexdigest()

    def _check_unchanged(self, path: Path) -> None:
        if not path.exists():
            return
        if not self._digest:
            raise InputError(f"{path.name} exists already: load it with Monitor.load, or remove it.")
        if hashlib.sha256(path.read_bytes()).hexdigest() != self._digest:
            raise InputError(
                f"{path.name} was changed by someone else since it was read, and is left as it is: load it "
                "again, and count the batch again."
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int = _MOST_BYTES) -> Self:
        """Read the state that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
        max_bytes : int, default=2**27
            A file that is larger, or that would take more memory, is refused.

        Returns
        -------
        Monitor

        Raises
        ------
        UntrustedFileError
            If the file is damaged, or is not the state of a monitor.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"there is no file {str(path)!r}.")
        try:
            if path.stat().st_size > max_bytes:
                raise UntrustedFileError(f"it has more than {max_bytes:,} bytes.")
            content = path.read_bytes()
            monitor = read_state(content, max_bytes, cls)
        except UntrustedFileError as error:
            raise UntrustedFileError(f"{path.name} cannot be read: {error}") from None
        monitor._digest = hashlib.sha256(content).hexdigest()
        return cast("Self", monitor)

    def _read_time(self, time: Any, *, late: bool) -> str:
        last = self._history.last.time
        if time is None or late:
            return last
        text = time.isoformat() if isinstance(time, datetime.date) else str(time)
        try:
            when = _instant(text)
        except ValueError:
            raise InputError(
                f"time must be a date or a time in ISO 8601, such as 2026-01-31, got {text!r}."
            ) from None
        if last and when < _instant(last):
            raise InputError(
                f"time {text} is before {last}, that of an earlier batch. Count batches in order, or "
                "omit time; labels of earlier rows are counted with late=True."
            )
        return text

    @property
    def headline(self) -> str:
        """One line: what was counted, and whether there is an alarm."""
        last = self._history.last
        when = f" ({last.time})" if last.time else ""
        line = f"batch {last.batch}{when}: {last.rows:,} rows in all, evidence {self.evidence:.3g} of "
        found = [f"{line}{self._alarm_at:g}", "no alarm" if self.alarm is None else str(self.alarm)]
        return "; ".join(found if self.drift is None else [*found, str(self.drift)])

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        headings = ("group", "against", "rate of", "rate", "value", "interval", "required", "verdict")
        rows = []
        for one in self.disparities():
            rate, value, low, high = map(_cell, (one.rate, one.value, one.low, one.high))
            about = (one.group, one.against, one.statistic)
            rows.append((*about, rate, value, f"[{low}, {high}]", one.required, one.verdict))
        return self.headline, headings, rows


def _cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


def _instant(text: str) -> datetime.datetime:
    when = datetime.datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
