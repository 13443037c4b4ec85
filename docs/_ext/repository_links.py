"""Links between files of the repository as links between pages.

Pages are read on the site and in the repository, so they link to files: ``../SECURITY.md`` from docs/, and
``docs/guarantee.md`` from a file of the root that a page includes. On the site, both are pages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from sphinx.application import Sphinx

PAGES = {
    "README.md": "/index.md",
    "CONTRIBUTING.md": "/development/contributing.md",
    "CHANGELOG.md": "/development/changelog.md",
    "SECURITY.md": "/development/security.md",
    "benchmarks/TUNING.md": "/evidence/tuning.md",
}
_FROM_PAGES = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, PAGES))})")
_FROM_ROOT = re.compile(rf"\]\(({'|'.join(map(re.escape, PAGES))})")
_OF_PAGES = re.compile(r"\]\((?:\.\./)?docs/")


def in_pages(text: str) -> str:
    """Links of a page of docs/ to files of the root.

    Examples
    --------
    >>> in_pages("See [security](../SECURITY.md#limits).")
    'See [security](/development/security.md#limits).'
    """
    return _FROM_PAGES.sub(lambda link: f"]({PAGES[link[1]]}", text)


def in_root_files(text: str) -> str:
    """Links of a file of the root to other files of the root and to pages.

    Examples
    --------
    >>> in_root_files("[contributing](CONTRIBUTING.md), [guarantees](docs/guarantee.md)")
    '[contributing](/development/contributing.md), [guarantees](/guarantee.md)'
    """
    text = _FROM_ROOT.sub(lambda link: f"]({PAGES[link[1]]}", text)
    return _OF_PAGES.sub("](/", text)


def rewrite_page(app: Sphinx, name: str, content: list[str]) -> None:
    """Rewrite a page as it is read."""
    content[0] = in_pages(content[0])


def rewrite_included(app: Sphinx, relative: Path, name: str, content: list[str]) -> None:
    """Rewrite a file of the root as a page includes it."""
    content[0] = in_root_files(content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", rewrite_page)
    app.connect("include-read", rewrite_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
