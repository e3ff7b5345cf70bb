"""The geographic libraries, loaded at the call that needs them."""

from __future__ import annotations

import importlib
from typing import Any


def geo(module: str) -> Any:
    """Import a library of the extra ``geo``, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module}: pip install maxent[geo]") from error
