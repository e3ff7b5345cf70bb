"""Shared rules of the tests.

What is missing skips with its reason, or fails with MAXENT_REQUIRE_ALL=1. The one exception is a
CUDA device, which a machine may lack: its tests skip everywhere else, also there.
"""

import importlib
import os
import shutil
import signal

import pytest

# two workers share the cores: threads of the linear algebra, which is not ours to test, only wait
for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


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


def pytest_configure() -> None:
    """Ctrl-C and a hang-up reach this process and its children, also behind a shell or nohup."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
