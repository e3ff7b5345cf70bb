"""Shared rules: what is missing skips with its reason, or fails with MAXENT_REQUIRE_ALL=1."""

import importlib
import os

import pytest


def needs(module: str):
    """Import an optional tool of the tests."""
    try:
        return importlib.import_module(module)
    except ImportError:
        reason = f"{module} is not installed: pip install {module}"
        if os.environ.get("MAXENT_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason, allow_module_level=True)
