"""Exit codes: a script can tell a violated tolerance from a wrong call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from evenhand.auditing.comparison import Comparison
    from evenhand.auditing.result import Audit
    from evenhand.guarantee.guarantee import GuaranteeResult

FAILED = 2
"""Something is wrong with the call or a file."""
VIOLATED = 3
UNDECIDED = 4
"""Not enough evidence for a tolerance or a guarantee."""
INTERRUPTED = 130
"""Control-C; 128 plus the number of the signal, as in a shell."""
PIPE_CLOSED = 141


FailOn = Literal["violated", "insufficient"]
"""What fails: a requirement that is violated, or also one for which the evidence is insufficient."""


def requested(found: Audit) -> list[Comparison]:
    """Comparisons with a verdict. The four-fifths rule is always shown and was not requested."""
    return [
        part for part in found.comparisons if part.verdict is not None and part.notion != "four-fifths rule"
    ]


def exit_code(
    found: Audit, guarantee: GuaranteeResult | None = None, *, fail_on: FailOn = "insufficient"
) -> int:
    """Exit code of an audit, and of a guarantee if one was requested."""
    verdicts = [part.verdict for part in requested(found)]
    if "violated" in verdicts:
        return VIOLATED
    unsupported = guarantee is not None and not guarantee.holds
    undecided = unsupported or "insufficient evidence" in verdicts
    return UNDECIDED if fail_on == "insufficient" and undecided else 0
