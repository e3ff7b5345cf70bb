"""Windows of rasters as blocks of a cluster: each worker reads its own from the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import dask
from distributed import Client

from maxent.rows.blocks.table import Part
from maxent.rows.dask.blocks import LazyBlocks
from maxent.rows.dask.tasks import in_folder


def read_by_workers(
    client: Client, read: Callable[[Any], Part], places: Sequence[Any]
) -> LazyBlocks:
    """The blocks ``read(place)``; ``read`` is sent once, and finds relative paths as here."""
    sent = dask.delayed(_Reader(read, os.getcwd()), pure=False, traverse=False)
    return LazyBlocks([sent.part(place) for place in places], client)


class _Reader:
    """Reads in the folder of the client."""

    def __init__(self, read: Callable[[Any], Part], folder: str) -> None:
        self.read, self.folder = read, folder

    def part(self, place: Any) -> Part:
        with in_folder(self.folder):
            return self.read(place)
