"""The ``maxent`` command, whose parts are imported at first use: see ``app.py``."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "main":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from maxent.cli.command import main

    return main
