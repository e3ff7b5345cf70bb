"""Public names of a package that load at first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class LazyNames:
    """What is public, by module, and modules that are known by the last part of their names."""

    def __init__(
        self, package: str, public: Mapping[str, Sequence[str]], modules: Iterable[str] = ()
    ) -> None:
        self.package, self.public = package, public
        self.home = {name: module for module, names in public.items() for name in names}
        self.modules = {module.rpartition(".")[2]: module for module in modules}

    def load(self, name: str) -> Any:
        """The value of a name, which the package then holds itself."""
        if name in self.home:
            value = getattr(importlib.import_module(self.home[name]), name)
            setattr(sys.modules[self.package], name, value)
            return value
        if name in self.modules:
            return importlib.import_module(self.modules[name])
        raise AttributeError(f"module {self.package!r} has no attribute {name!r}")
