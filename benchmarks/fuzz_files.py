"""What altered model files do: each is refused in a sentence, or is a model that decides about every row.

Run: ``python -m benchmarks.fuzz_files`` (``--count 500`` for a first look). Files are altered as by damage
and as by an attacker, most of them with a checksum that is right again: bytes of the archive and of its
members, values in the JSON and in the schema of the parts, arrays, trees. Each is verified, loaded and asked
to decide in a process with limited memory: a crash, a wait of more than a minute and any error that is not of
evenhand is a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import multiprocessing
import random
import resource
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.record import write
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import EvenhandError

DRAWN = GaussianProblem.random(levels=(2, 2), seed=3).sample(240, seed=0)
X_NEW = DRAWN.X[:60]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        10**9,
        2**63,
        -(2**31),
        0.5,
        -0.5,
        1e308,
        float("nan"),
        float("inf"),
    ),
    *("", "x", "0", "nan", "float64", "<f8", "O", [], {}, [1], [[]], {"float": "nan"}, {"part": 0}),
    *(
        {"part": 10**6},
        {"part": -1},
        {"list": []},
        {"object": "LinearConstraints", "fields": {}},
        "../x",
        "\ud800",
    ),
]
SECONDS, BYTES = 60, 6 << 30


def models() -> dict[str, Any]:
    """Fitted classifiers of every kind that files hold much of."""
    from lightgbm import LGBMClassifier  # noqa: PLC0415
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415
    from xgboost import XGBClassifier  # noqa: PLC0415

    parity = eh.DemographicParity(difference=0.1)
    chosen = {
        "logistic": eh.FairPostprocessor(LogisticRegression(), parity, posteriors=eh.CrossFit(2)),
        "pipeline": eh.FairPostprocessor(
            make_pipeline(StandardScaler(), LogisticRegression()),
            parity,
            posteriors=eh.CrossFit(2, calibration=None),
        ),
        "aware": eh.FairPostprocessor(
            RandomForestClassifier(3, max_depth=3, random_state=0),
            parity,
            aware=True,
            posteriors=eh.CrossFit(2),
        ),
        "boosting": eh.FairPostprocessor(
            HistGradientBoostingClassifier(max_iter=3), parity, posteriors=eh.CrossFit(2)
        ),
        "lightgbm": eh.FairPostprocessor(
            LGBMClassifier(n_estimators=3, verbose=-1), parity, posteriors=eh.CrossFit(2)
        ),
        "xgboost": eh.FairPostprocessor(XGBClassifier(n_estimators=3), parity, posteriors=eh.CrossFit(2)),
        "training": eh.FairInprocessor(LogisticRegression(), parity, posteriors=eh.CrossFit(2)),
    }
    return {
        name: model.fit(DRAWN.X, DRAWN.y, sensitive_features=DRAWN.sensitive)
        for name, model in chosen.items()
    }


# Alterations


def members_of(data: bytes) -> dict[str, bytes]:
    """Members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def signed(members: dict[str, bytes]) -> bytes:
    """Pack a model file whose checksum is right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = b"0" * 64
    return resigned(buffer.getvalue())


def resigned(data: bytes) -> bytes:
    """Put the right checksum at the end of an archive."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def damaged(data: bytes, draw: random.Random, stop: int | None = None) -> bytes:
    """Cut bytes off, or change some."""
    length = len(data) if stop is None else stop
    if draw.random() < 0.2:
        return data[: draw.randrange(length + 1)]
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 4, 20])):
        if length:
            changed[draw.randrange(length)] ^= draw.choice([1, 2, 16, 128, 255])
    return bytes(changed)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON, as its container and its key."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        keys = (
            list(found) if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
        )
        for key in keys:
            yield found, key
            waiting.append(found[key])


def rewritten(data: bytes, draw: random.Random) -> bytes:
    """Change values of JSON: numbers, texts, lengths of lists, keys."""
    value = json.loads(data)
    places = list(_places(value))
    for _ in range(draw.choice([1, 1, 1, 3])):
        container, key = draw.choice(places)
        with contextlib.suppress(KeyError, IndexError):
            old = container[key]
            what = draw.random()
            if what < 0.15:
                del container[key]
            elif what < 0.25 and isinstance(container, dict):
                container[draw.choice(["__class__", "memory", "x_", "predict", f"{key}x"])] = old
            elif what < 0.35 and isinstance(container, list):
                container.insert(draw.randrange(len(container) + 1), old)
            elif what < 0.55 and isinstance(old, int | float) and not isinstance(old, bool):
                container[key] = draw.choice([-old, old + 1, old * 10**6, old - 1, str(old)])
            elif what < 0.75 and isinstance(old, str) and len(old) > 40:  # a model of lightgbm, say
                text = list(old)
                for _ in range(draw.choice([1, 3])):
                    text[draw.randrange(len(text))] = draw.choice("0123456789-= \nx")
                container[key] = "".join(text)
            elif what < 0.75:
                other, name = draw.choice(places)
                with contextlib.suppress(KeyError, IndexError):
                    container[key] = json.loads(json.dumps(other[name]))
            else:
                container[key] = draw.choice(VALUES)
    return json.dumps(value).encode()


def reshaped(data: bytes, draw: random.Random) -> bytes:
    """Change an array: its shape, its type or its numbers."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        return damaged(data, draw)
    what = draw.randrange(6)
    if what == 0:
        array = array.ravel()[: draw.randrange(array.size + 1)]
    elif what == 1:
        array = np.concatenate([array, array]) if array.ndim else array.reshape(1)
    elif what == 2 and array.dtype.kind in "iuf":
        array = array.astype(draw.choice(["int8", "int64", "float32", "float64", "U5", "bool"]))
    elif array.size:
        array = array.copy()
        flat = array.reshape(-1)
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            flat[draw.randrange(array.size)] = draw.choice(
                [-1, 0, 1, 10**6, 2**31 - 1, np.nan, np.inf, -np.inf]
            )
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def altered(data: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Alter a model file somehow."""
    kind = draw.choice(["bytes", "manifest", "member", *["archive"] * 2, *["model", "schema", "array"] * 3])
    if kind == "bytes":
        return kind, damaged(data, draw)
    if kind == "archive":
        return kind, resigned(damaged(data, draw, len(data) - 64))
    members = members_of(data)
    if kind == "manifest":
        return kind, signed({**members, "manifest.json": rewritten(members["manifest.json"], draw)})
    if kind == "model":
        return kind, signed({**members, "model.json": rewritten(members["model.json"], draw)})
    if kind == "member":
        name = draw.choice(sorted(set(members) - {"manifest.json"}))
        return kind, signed({**members, name: damaged(members[name], draw)})
    parts = members_of(members["estimator.skops"])
    arrays = [name for name in parts if name != "schema.json"]
    if kind == "schema" or not arrays:
        parts["schema.json"] = rewritten(parts["schema.json"], draw)
    else:
        name = draw.choice(arrays)
        parts[name] = reshaped(parts[name], draw) if draw.random() < 0.8 else damaged(parts[name], draw)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return kind, signed({**members, "estimator.skops": buffer.getvalue()})


# What comes of them


def outcome(path: Path) -> str:
    """Verify, load and decide, and say what came of it; a fault begins with "fault"."""
    try:
        step = "verify"
        report = eh.verify(path)
        if not report.ok and "\n" in str(report.problem):
            return f"fault: verify says more than a sentence: {report.problem!r}"
        step = "load"
        model = eh.load(path)
        step = "predict"
        known = {"sensitive_features": {k: v[:60] for k, v in _columns(DRAWN.sensitive).items()}}
        known = known if getattr(model, "aware", False) else {}
        decisions, chances = model.predict(X_NEW, **known), model.predict_proba(X_NEW, **known)
    except EvenhandError as error:
        return f"refused at {step}" if str(error) and "\n" not in str(error) else f"fault: {error!r}"
    except Exception as error:
        return f"fault: {step}: {type(error).__name__}: {str(error)[:150]}"
    if not report.ok:
        return f"fault: verify refuses what load does not: {report.problem}"
    fine = (
        decisions.shape == (60,)
        and chances.shape == (60, 2)
        and bool(np.isin(decisions, model.classes_).all())
    )
    fine = fine and bool(((chances >= 0) & (chances <= 1)).all())
    return "decides" if fine else "fault: decisions or probabilities are none"


def _columns(table: Any) -> dict[str, Any]:
    return {str(name): np.asarray(table[name]) for name in table}


def _work(queue: Any, done: Any, folder: str) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    path = Path(folder) / "altered.eh"
    done.put("ready")  # imports take their time where other work is done as well
    while True:
        path.write_bytes(queue.get())
        done.put(outcome(path))


class Trial:
    """Asks a process about files, and starts another one where it crashes or does not answer."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.worker: Any = None

    def ask(self, data: bytes) -> str:
        """Say what came of a file."""
        import queue  # noqa: PLC0415

        if self.worker is None:
            context = multiprocessing.get_context("spawn")
            self.asked, self.said = context.Queue(), context.Queue()
            self.worker = context.Process(
                target=_work, args=(self.asked, self.said, self.folder), daemon=True
            )
            self.worker.start()
            self.said.get(timeout=10 * SECONDS)
        self.asked.put(data)
        for _ in range(2 * SECONDS):
            with contextlib.suppress(queue.Empty):
                return str(self.said.get(timeout=0.5))
            if not self.worker.is_alive():
                code, self.worker = self.worker.exitcode, None
                return f"fault: crash with exit code {code}"
        self.worker.kill()
        self.worker = None
        return f"fault: no answer in {SECONDS} seconds"


def main() -> None:
    """Alter, ask, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2700)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for files that end in a fault")
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    faults: list[str] = []
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(folder)
        files = {}
        for name, model in models().items():
            eh.save(model, Path(folder) / "whole.eh", overwrite=True)
            files[name] = (Path(folder) / "whole.eh").read_bytes()
            if (found := trial.ask(files[name])) != "decides":
                raise SystemExit(f"the unaltered file of {name!r} is not a model: {found}")
        for k in range(chosen.count):
            name = list(files)[k % len(files)]
            kind, data = altered(files[name], random.Random(f"{chosen.seed} {k}"))  # noqa: S311
            found = trial.ask(data)
            counts[found if not found.startswith("fault") else "fault"] += 1
            if found.startswith("fault"):
                faults.append(f"{k} {name}, {kind}: {found}")
                print(faults[-1], flush=True)
                if chosen.keep:
                    (chosen.keep / f"{k}.eh").write_bytes(data)
    results = {"alterations": chosen.count, **dict(sorted(counts.items())), "faults": len(faults)}
    results.pop("fault", None)
    write("fuzz_files", results, ["evenhand", "scikit-learn", "skops", "lightgbm", "xgboost-cpu"])
    if faults:
        raise SystemExit(f"{len(faults)} files ended otherwise than in a sentence or a model that decides.")


if __name__ == "__main__":
    main()
