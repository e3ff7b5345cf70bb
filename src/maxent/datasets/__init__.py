"""Data that the package generates, for demonstrations and tests."""

from __future__ import annotations

from maxent.datasets.community import VirtualCommunity, virtual_community
from maxent.datasets.landscape import (
    VirtualLandscape,
    agreement,
    virtual_landscape,
    write_landscape,
)

__all__ = [
    "VirtualCommunity",
    "VirtualLandscape",
    "agreement",
    "virtual_community",
    "virtual_landscape",
    "write_landscape",
]
