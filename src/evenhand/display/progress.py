"""Progress of long computations: a count in a terminal, nothing when output is piped."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(steps: Iterable[T], *, what: str, total: int, verbose: bool) -> Iterator[T]:
    """Iterate over steps and count them.

    Parameters
    ----------
    steps : iterable
    what : str
        What is being done, shown before the count.
    total : int
        The number of steps.
    verbose : bool
        Whether to show anything.

    Yields
    ------
    object
        The steps, unchanged.

    Examples
    --------
    >>> list(track([1, 2], what="folds", total=2, verbose=False))
    [1, 2]
    """
    for done, step in enumerate(steps, start=1):
        note(f"{what}: {done} of {total}", verbose=verbose, end="\n" if done == total else "\r")
        yield step


@contextlib.contextmanager
def waiting(what: str, *, verbose: bool = True) -> Iterator[None]:
    """Show that something is being done whose steps are not counted.

    Parameters
    ----------
    what : str
    verbose : bool, default=True
        Whether to show anything.

    Examples
    --------
    >>> with waiting("drawing the page"):
    ...     pass
    """
    note(what, verbose=verbose, end="\r")
    yield
    note(" " * len(what), verbose=verbose, end="\r")


def note(text: str, *, verbose: bool, end: str = "\n") -> None:
    """Print to the terminal if progress is shown.

    Parameters
    ----------
    text : str
    verbose : bool
        Whether to show anything.
    end : str, default=a line break
    """
    if verbose and sys.stderr is not None and sys.stderr.isatty():
        print(text, end=end, file=sys.stderr, flush=True)
