"""A limit on cells: a small file may describe a grid or a map that no machine can hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "MAXENT_MAX_CELLS"
ON_DISK = 10**10  # cells of a grid that is read window by window: ten times the land at 30 seconds
IN_MEMORY = 1 << 27  # numbers of a map that is loaded from a file: 1 GiB


def check_cells(count: int, what: str, limit: int) -> None:
    """Refuse more cells than the limit, or than ``MAXENT_MAX_CELLS`` where that is set.

    The command has the option ``--max-cells`` for it.

    >>> check_cells(4 * 10**14, "the grid", ON_DISK)
    Traceback (most recent call last):
        ...
    ValueError: the grid has 4e+14 cells, more than the limit of 1e+10; a damaged or hostile file \
may say so. Where it is right, use --max-cells 400000000000000 (in Python: set MAXENT_MAX_CELLS)
    """
    setting = os.environ.get(VARIABLE, "").strip()
    if setting and not setting.isdigit():
        raise ValueError(f"{VARIABLE} must be a positive integer, got {setting!r}")
    allowed = int(setting) if setting else limit
    if count > allowed:
        raise ValueError(
            f"{what} has {count:.3g} cells, more than the limit of {allowed:.3g}; a damaged or "
            f"hostile file may say so. Where it is right, use --max-cells {count} (in Python: set "
            f"{VARIABLE})"
        )


@contextmanager
def allowed(cells: int) -> Iterator[None]:
    """Another limit, here and in processes that start meanwhile."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(cells)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
