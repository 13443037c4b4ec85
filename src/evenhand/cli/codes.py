"""Exit codes, so that a script can tell a violated tolerance from a wrong call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit
    from evenhand.inference.guarantee import Promise

__all__ = ["FAILED", "INTERRUPTED", "UNDECIDED", "UNREAD", "VIOLATED", "code_of"]

FAILED, VIOLATED, UNDECIDED, INTERRUPTED, UNREAD = 2, 3, 4, 130, 141
"""A wrong call; a violated tolerance; not enough evidence; Control-C; output that nobody reads."""


def code_of(found: Audit, promise: Promise | None = None) -> int:
    """Give the exit code of an audit, and of a promise that was asked for.

    The four-fifths rule is shown, but was not asked for.
    """
    verdicts: Iterable[str | None] = [
        one.verdict for one in found.comparisons if one.notion != "four-fifths rule"
    ]
    if "violated" in verdicts:
        return VIOLATED
    unsupported = promise is not None and not promise.holds
    return UNDECIDED if unsupported or "insufficient evidence" in verdicts else 0
