"""Data that the package generates, for demonstrations and tests."""

from __future__ import annotations

from maxent.datasets.landscape import (
    VirtualLandscape,
    agreement,
    virtual_landscape,
    write_landscape,
)

__all__ = ["VirtualLandscape", "agreement", "virtual_landscape", "write_landscape"]
