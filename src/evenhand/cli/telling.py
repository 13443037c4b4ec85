"""What the command line says, with everything made visible that a terminal would obey."""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["tell", "visible"]


def visible(text: object) -> str:
    """Make control characters visible: names of files and columns are written by others."""
    return str(import_module("evenhand.columns").show(str(text)))


def tell(text: object) -> None:
    """Say something beside the result."""
    print("\n".join(map(visible, str(text).splitlines())), file=sys.stderr)
