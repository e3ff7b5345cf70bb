"""Stubs of the packages whose names load at first use: python packaging/stubs.py writes them.

A type checker sees ``__getattr__`` and takes every name for Any, even one that does not exist.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
PACKAGES = ("maxent", "maxent.species")


def stub_of(package: str) -> str:
    """The text of a package's ``__init__.pyi``, from its table of public names."""
    names = importlib.import_module(package).NAMES
    lines = [f"# made by packaging/stubs.py from the tables in {package}", ""]
    lines += _imports(names.modules, names.public)
    if package == "maxent":
        lines += ["from maxent._version import __version__ as __version__"]
    return "\n".join([*lines, ""])


def _imports(modules: Mapping[str, str], names: Mapping[str, Sequence[str]]) -> list[str]:
    lines = []
    for short, module in sorted(modules.items()):
        parent, _, name = module.rpartition(".")
        lines.append(f"from {parent} import {name} as {short}")
    for module, public in sorted(names.items()):
        lines += [f"from {module} import {name} as {name}" for name in sorted(public)]
    return lines


def place_of(package: str) -> Path:
    """Beside the package's ``__init__.py``."""
    return SOURCE.joinpath(*package.split("."), "__init__.pyi")


if __name__ == "__main__":
    for package in PACKAGES:
        place_of(package).write_text(stub_of(package), encoding="utf-8")
        print(f"wrote {place_of(package)}")
