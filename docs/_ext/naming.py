"""Names of Python that pages link to: Sphinx looks for each one it does not know among all others.

Types of arguments are full of such names, of numpy and of Python itself.
"""

from __future__ import annotations

from typing import Any

from sphinx.domains.python import ObjectEntry, PythonDomain


class KnownEndings(PythonDomain):
    """Looks for a name only where a known one ends so."""

    _endings: tuple[int, frozenset[str]] = (0, frozenset())

    def find_obj(
        self, env: Any, modname: Any, classname: Any, name: str, *how: Any
    ) -> list[tuple[str, ObjectEntry]]:
        """As Sphinx finds it."""
        if self._endings[0] != len(self.objects):
            found = frozenset(known.rpartition(".")[2] for known in self.objects)
            self._endings = len(self.objects), found
        if name.removesuffix("()").rpartition(".")[2] not in self._endings[1]:
            return []
        return super().find_obj(env, modname, classname, name, *how)


def setup(app: Any) -> dict[str, bool]:
    """In place of Sphinx's own."""
    app.add_domain(KnownEndings, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
