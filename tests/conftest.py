"""Shared rules: what is missing skips with its reason, or fails with MAXENT_REQUIRE_ALL=1."""

import importlib
import os
import shutil

import pytest


def needs(module: str):
    """Import an optional tool of the tests."""
    try:
        return importlib.import_module(module)
    except ImportError:
        lacking(f"{module} is not installed: pip install {module}")


def needs_program(name: str) -> str:
    """The path of a program of the system."""
    found = shutil.which(name)
    if found is None:
        lacking(f"{name} is not installed: apt-get install {name}")
    return found


def lacking(reason: str) -> None:
    """Skip, or fail where nothing may be missing."""
    if os.environ.get("MAXENT_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
