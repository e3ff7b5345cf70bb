"""The results of the opened folders, in a list; nothing heavy is loaded for it."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from maxent.app.folders import Folders
from maxent.species.outputs import RESULT, SUMMARY

_LISTED = 2000  # results in the list
_SAID = ("species", "n_records", "auc", "test_auc", "test_auc_of", "gap", "seconds")


def listed(folders: Folders) -> list[dict[str, Any]]:
    """All results of the opened folders, the latest first, without reading them whole."""
    found = []
    for folder in folders.results()[:_LISTED]:
        written = (folder / RESULT).stat().st_mtime
        found.append({"run": folders.name(folder), "written": written, **_row(folder, written)})
    return found


@lru_cache(maxsize=_LISTED)
def _row(folder: Path, written: float) -> dict[str, Any]:
    """What the list says of a result."""
    row: dict[str, Any] = {}
    with suppress(OSError, ValueError, KeyError, TypeError):
        row = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["row"]
    return {key: row.get(key) for key in _SAID}
