"""Files of results by their address: of a few kinds, and without the rights of the page.

A folder of results may hold anything. A picture or a page of it that is opened by its address is
shown in a sandbox with an origin of its own, where no script runs but that of our own reports.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from urllib.parse import quote

from maxent.app.folders import EVALUATIONS, OVERLAPS, SURVEYS, Folders, OutsideError
from maxent.app.tuning import FILE
from maxent.species.batch.outputs import RESULT

HTML, OTHER = "text/html; charset=utf-8", "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
KINDS = {
    **{".html": HTML, ".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"},
    **dict.fromkeys((".txt", ".csv", ".json", ".lambdas", ".md", ".log"), _TEXT),
    ".tif": "image/tiff",
}
_SANDBOX = "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'"


def result_file(folders: Folders, name: str) -> Path:
    """The file of an address, which must lie in a folder of results."""
    path = folders.find(name)
    if not path.is_file():
        raise FileNotFoundError(f"{name}: no such file")
    inside = [folder for folder in path.parents if folders.holds(folder)]
    if any(folders.home / made in inside for made in (EVALUATIONS, OVERLAPS, SURVEYS)):
        return path
    if not any((folder / held).is_file() for folder in inside for held in (RESULT, FILE)):
        raise OutsideError("only files of results are shown")
    return path


def headers_of(name: str, kind: str) -> dict[str, str]:
    """The headers of a file; what is of no known kind is saved, not shown."""
    headers = {"content-security-policy": _SANDBOX, "x-content-type-options": "nosniff"}
    if kind == HTML:
        headers["content-security-policy"] = _report_policy()
    if kind == OTHER:
        headers["content-disposition"] = f"attachment; filename*=utf-8''{quote(name, safe='')}"
    return headers


@cache
def _report_policy() -> str:
    """Of the scripts in a page, those that our reports have, by their digests, and no others."""
    from maxent.species.report.markup import resource

    digests = [
        base64.b64encode(hashlib.sha256(resource(script).encode()).digest()).decode()
        for script in ("script.js", "bundle/map.js")
    ]
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"sandbox allow-scripts allow-downloads; default-src 'none'; img-src data: blob:; "
        f"style-src 'unsafe-inline'; script-src {scripts}"
    )
