"""Outputs that pages show, compared with what runs.

- A ``text`` block directly below a ``python`` block shows what that block prints.
- A ``console`` block has commands, each after ``$``, and may show their output. Commands of evenhand are run
  in a temporary folder, the same in which the page's Python blocks run; ``evenhand demo`` only where its
  output is shown, for its time. Others, such as ``pip``, are not run.

Words must be the same; spaces and the lengths of rules may differ. Integers must be equal. Other numbers may
differ by two units of the last digit shown or by a thousandth, whichever is more, because processors round
differently. A comment above a block says otherwise: ``<!-- numbers: within 0.02 -->``, or
``<!-- not run: the reason -->``.

``pytest --update-outputs README.md docs`` replaces each block that differs by what was printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sybil import Example
from sybil.evaluators.python import PythonEvaluator
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import CodeBlockParser

__all__ = ["Pages", "differences"]

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.(\d+))?(?:e([-+]?\d+))?(?!\w)")
COMMENT = re.compile(r"<!-- (numbers: within|not run:) ([^>]*) -->\s*\Z")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DEMO = re.compile(r"^\$ evenhand demo\n[^$\n]", re.MULTILINE)


def differences(shown: str, printed: str, within: float | None = None) -> str:
    """What differs between a block and what was printed; empty if they agree."""
    (words, ours), (printed_words, theirs) = map(_parts, (shown, printed))
    if words != printed_words:
        return f"The page shows\n\n{shown}\nbut this was printed:\n\n{printed}"
    pairs = [pair for pair in zip(ours, theirs, strict=True) if not _close(*pair, within)]
    return "\n".join(f"The page shows {one[0]}, but {other[0]} was printed." for one, other in pairs)


def _parts(text: str) -> tuple[list[str], list[re.Match[str]]]:
    """The words, with 0 for each number, and the numbers."""
    plain = re.sub(r"([─-])\1{2,}", r"\1", text)
    return NUMBER.sub("0", plain).split(), list(NUMBER.finditer(plain))


def _close(shown: re.Match[str], printed: re.Match[str], within: float | None) -> bool:
    ours, theirs = (float(one[0].replace(",", "")) for one in (shown, printed))
    if within is None:
        digits, exponent = shown[1], int(shown[2] or 0)
        within = max(2 * 10.0 ** (exponent - len(digits)), 1e-3 * abs(ours)) if digits else 0.0
    return abs(ours - theirs) <= within + 1e-12


@dataclass
class State:
    """What blocks of a page hand on."""

    folder: Path
    end: int = 0
    printed: str = ""
    bodies: dict[tuple[int, int], str] = field(default_factory=dict)


class Pages:
    """Parsers of a page, and what runs and compares its blocks; `update` rewrites those that differ.

    Without `compare` they are only run: with other versions of packages figures differ.
    """

    update = False
    compare = True

    def __init__(self) -> None:
        self.run = PythonEvaluator()
        kinds = {"python": self.python, "text": self.text, "console": self.console}
        self.parsers = [CodeBlockParser(language, evaluate) for language, evaluate in kinds.items()]

    @staticmethod
    def setup(namespace: dict[str, Any]) -> None:
        """Make the folder of a page."""
        namespace["__page__"] = State(Path(tempfile.mkdtemp(prefix="evenhand-page-")))

    @staticmethod
    def teardown(namespace: dict[str, Any]) -> None:
        """Remove the folder of a page."""
        shutil.rmtree(namespace["__page__"].folder, ignore_errors=True)

    @staticmethod
    def runs_demo(item: pytest.Item) -> bool:
        """Whether a test is a block that shows the demo's output; it takes half a minute."""
        return isinstance(item, SybilItem) and bool(DEMO.search(str(item.example.parsed)))

    def python(self, example: Example) -> None:
        """Run a block, and keep what it prints."""
        state, out = example.namespace["__page__"], io.StringIO()
        with contextlib.chdir(state.folder), contextlib.redirect_stdout(out):
            self.run(example)
        state.end, state.printed = example.end, out.getvalue()

    def text(self, example: Example) -> str:
        """Compare a block with what the one above it printed."""
        state = example.namespace["__page__"]
        before = example.document.text[state.end : example.start]
        if (marked := COMMENT.search(before)) and marked[1] == "not run:":
            return ""
        if COMMENT.sub("", before).strip():
            return "Output must be directly below the Python block that prints it."
        return self._compared(example, state.printed, marked)

    def console(self, example: Example) -> str:
        """Run the commands of evenhand, and compare what they print where the block shows it."""
        marked = COMMENT.search(example.document.text[: example.start])
        if marked and marked[1] == "not run:":
            return ""
        printed = ""
        for command, shown in COMMAND.findall(example.parsed):
            printed += f"$ {command}\n"
            words = shlex.split(command.replace("\\\n", " "), comments=True)
            if words[0] != "evenhand" or (words[1:] == ["demo"] and not shown):
                continue
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-m", *words],
                cwd=example.namespace["__page__"].folder,
                env={**os.environ, "COLUMNS": "80"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode not in (0, 3, 4):  # 3 and 4 are verdicts
                return f"{command}\nends with exit code {done.returncode}:\n{done.stdout}{done.stderr}"
            printed += done.stdout if shown else ""
        return self._compared(example, printed, marked)

    def _compared(self, example: Example, printed: str, marked: re.Match[str] | None) -> str:
        if not self.compare:
            return ""
        found = differences(example.parsed, printed, float(marked[2]) if marked else None)
        if not found or not self.update:
            return found
        document, bodies = example.document, example.namespace["__page__"].bodies
        place = document.text.index("\n", example.start) + 1, document.text.rindex("\n", 0, example.end) + 1
        bodies[place] = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
        text = document.text
        for (start, end), body in sorted(bodies.items(), reverse=True):
            text = text[:start] + body + text[end:]
        Path(document.path).write_text(text, encoding="utf-8")
        return ""
