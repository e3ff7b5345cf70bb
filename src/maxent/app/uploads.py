"""Files that the browser brings: each whole under a name of its own, however many come at once."""

from __future__ import annotations

import filecmp
import os
import tempfile
from collections.abc import AsyncIterable
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from maxent.app.folders import fresh


async def receive(
    chunks: AsyncIterable[bytes], target: Path, limit: int
) -> tuple[Path | None, int]:
    """Write what comes and say where it lies and how long it is; None where it is too long.

    A file of before stays as it is, since a run may name it: the same bytes keep its place, others
    get the next free name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(".part", f".{target.name[:80]}.", target.parent)
    part, count = Path(name), 0
    try:
        with os.fdopen(number, "wb") as file:
            async for chunk in chunks:
                count += len(chunk)
                if count > limit:
                    return None, count
                await run_in_threadpool(file.write, chunk)
        os.chmod(part, 0o644)
        return await run_in_threadpool(_placed, part, target), count
    finally:
        part.unlink(missing_ok=True)


def _placed(part: Path, target: Path) -> Path:
    """Give a file its name, which no other may have got meanwhile."""
    if target.is_file() and filecmp.cmp(part, target, shallow=False):
        return target
    while True:
        place = fresh(target)
        try:
            os.link(part, place)  # fails where there is one
        except FileExistsError:
            if place.is_file() and filecmp.cmp(part, place, shallow=False):
                return place
            continue
        except OSError:  # a file system without links
            with open(place, "xb"):
                part.replace(place)
        return place
