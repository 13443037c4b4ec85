"""Exit codes: a script can tell a violated tolerance from a wrong call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit
    from evenhand.inference.guarantee import Promise

__all__ = ["FAILED", "INTERRUPTED", "PIPE_CLOSED", "UNDECIDED", "VIOLATED", "exit_code"]

FAILED = 2
"""Something is wrong with the call or a file."""
VIOLATED = 3
UNDECIDED = 4
"""Not enough evidence for a tolerance or a promise."""
INTERRUPTED = 130
"""Control-C; 128 plus the number of the signal, as in a shell."""
PIPE_CLOSED = 141


def exit_code(found: Audit, promise: Promise | None = None) -> int:
    """Exit code of an audit, and of a promise if one was requested.

    The four-fifths rule is always shown and was not requested, so it does not count.
    """
    verdicts = [part.verdict for part in found.comparisons if part.notion != "four-fifths rule"]
    if "violated" in verdicts:
        return VIOLATED
    unsupported = promise is not None and not promise.holds
    return UNDECIDED if unsupported or "insufficient evidence" in verdicts else 0
