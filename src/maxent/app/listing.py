"""The results of the opened folders, in a list; nothing heavy is loaded for it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from maxent.app.folders import Folders
from maxent.app.models import Run
from maxent.species.batch.keeping import SUMMARY
from maxent.species.batch.outputs import RESULT

_LISTED = 2000  # results in the list


def listed(folders: Folders) -> list[dict[str, Any]]:
    """All results of the opened folders, the latest first, without reading them whole."""
    found = []
    for folder in folders.results()[:_LISTED]:
        written = (folder / RESULT).stat().st_mtime
        held = folders.holds(folder / SUMMARY)
        row = _row(folder, written) if held else Run().model_dump()
        found.append({"run": folders.name(folder), "written": written, **row})
    return found


@lru_cache(maxsize=_LISTED)
def _row(folder: Path, written: float) -> dict[str, Any]:
    """What the list says of a result."""
    try:
        held = from_json((folder / SUMMARY).read_bytes(), allow_inf_nan=False)
        return Run.model_validate(held["row"]).model_dump()
    except (OSError, ValueError, KeyError, TypeError):  # none, or not as maxent writes it
        return Run().model_dump()
