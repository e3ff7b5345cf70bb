"""Data that the package generates, for demonstrations and tests."""

from __future__ import annotations

from maxent.datasets.community import VirtualCommunity, virtual_community
from maxent.datasets.landscape import (
    VirtualLandscape,
    agreement,
    virtual_landscape,
    write_landscape,
)
from maxent.datasets.visits import VirtualVisits, virtual_visits

__all__ = [
    "VirtualCommunity",
    "VirtualLandscape",
    "VirtualVisits",
    "agreement",
    "virtual_community",
    "virtual_landscape",
    "virtual_visits",
    "write_landscape",
]
