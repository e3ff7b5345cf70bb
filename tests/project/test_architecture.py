"""The shape of the source: packages keep their private names, and imports have no circles.

A package is the first name below ``maxent``, or the second in ``core``: a folder, or a module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import maxent

ROOT = Path(maxent.__file__).parent

# private modules of the top level that serve every package, which may use their public names
COMMON = {"_command", "_support", "_version"}

# imports inside functions that close a circle, and why
UPWARD = {
    ("core.problem", "core.solvers"): "Problem.solve chooses a solver; solvers are for problems",
    ("core.solvers.papers.ball_search", "core.solvers"): "its inner solver is chosen by name",
}

LOOKED_AT = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom, ast.If)
LOOKED_AT += (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Attribute)

NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}  # public, by its docs


@dataclass(frozen=True)
class Import:
    """``from module import name``, or ``import module`` with name ""; names are below maxent."""

    module: str
    name: str
    line: int

    def target(self) -> str:
        """The module that is imported, which may be the name itself."""
        inner = f"{self.module}.{self.name}".strip(".")
        return inner if inner in sources() else self.module


@dataclass(frozen=True, eq=False)
class Source:
    """A module, named by its place below maxent ("" is maxent itself)."""

    path: Path
    module: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return _package(self.module)

    def place(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{line}"

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Those that the rules look at; walking through a file takes longer than all of them."""
        return tuple(node for node in ast.walk(self.tree) if isinstance(node, LOOKED_AT))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Of maxent's modules, anywhere in the file but where type checkers alone look."""
        unseen = {id(below) for node in self.nodes for below in _for_type_checkers(node)}
        return tuple(
            item for node in self.nodes if id(node) not in unseen for item in self._imported(node)
        )

    def _imported(self, node: ast.AST) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    yield Import(_below(alias.name), "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{self.place(node.lineno)}: a relative import"
            assert node.module is not None
            if _is_ours(node.module):
                for alias in node.names:
                    yield Import(_below(node.module), alias.name, node.lineno)

    def definitions(self) -> Iterator[str]:
        """Names of functions, classes, and attributes of modules, classes and ``self``."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            if isinstance(node, ast.Module | ast.ClassDef):
                for statement in node.body:
                    yield from (n.id for n in _assigned(statement) if isinstance(n, ast.Name))
            for target in _assigned(node):
                if isinstance(target, ast.Attribute) and _is_own(target.value):
                    yield target.attr

    def foreign_names(self) -> set[str]:
        """What the file imports from other projects, also by ``name = geo("project")``."""
        names = set()
        for node in self.nodes:
            if isinstance(node, ast.Assign) and _begins_with_geo(node.value):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            if isinstance(node, ast.Import | ast.ImportFrom):
                home = getattr(node, "module", None)
                for alias in node.names:
                    if not _is_ours(home or alias.name):
                        names.add((alias.asname or alias.name).split(".")[0])
        return names


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "maxent"


def _below(module: str) -> str:
    return module.removeprefix("maxent").removeprefix(".")


def _package(module: str) -> str:
    first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if first == "core" and rest else first


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(node: ast.AST) -> bool:
    """Whether an expression is ``self``, ``cls`` or ``super()``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _assigned(node: ast.AST) -> Iterator[ast.AST]:
    """The names and attributes that a statement gives a value to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from ast.walk(target)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield node.target


def _root(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _begins_with_geo(node: ast.AST) -> bool:
    """Whether an expression is ``geo("project")``, or something of it."""
    while not _is_call_of_geo(node):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        else:
            return False
    return True


def _is_call_of_geo(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "geo"


def _for_type_checkers(node: ast.AST) -> Iterator[ast.AST]:
    """What runs nowhere, if a node is ``if TYPE_CHECKING:``."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for statement in node.body:
            yield from ast.walk(statement)


@cache
def sources() -> dict[str, Source]:
    """Every module, by its name."""
    files = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        files[module] = Source(path, module, ast.parse(path.read_text(encoding="utf-8")))
    return files


@cache
def defined() -> dict[str, set[str]]:
    """The names that each package defines."""
    names: dict[str, set[str]] = {}
    for source in sources().values():
        names.setdefault(source.package, set()).update(source.definitions())
    return names


def private_imports(source: Source) -> Iterator[str]:
    """Private modules, and private names, of other packages."""
    for item in source.imports:
        target = item.target()
        first, *rest = target.split(".")
        if _package(target) == source.package:
            continue
        hidden = any(map(_is_private, rest)) or (_is_private(first) and first not in COMMON)
        if hidden:
            yield f"{source.place(item.line)} imports maxent.{target}"
        elif target == item.module and _is_private(item.name):
            yield f"{source.place(item.line)} imports {item.name} of maxent.{target}"


def private_attributes(source: Source, own: set[str]) -> Iterator[str]:
    """Private attributes that are not among the package's own names, nor of another project."""
    foreign = source.foreign_names()
    for node in source.nodes:
        if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
            continue
        root = _root(node)
        known = node.attr in NAMED_TUPLE or node.attr in own
        if known or _is_own(node.value) or (isinstance(root, ast.Name) and root.id in foreign):
            continue
        yield f"{source.place(node.lineno)} uses {ast.unparse(node)}"


def import_graph() -> dict[str, set[str]]:
    """Which module imports which, at its top or inside functions."""
    graph: dict[str, set[str]] = {}
    for source in sources().values():
        targets = {item.target() for item in source.imports} - {source.module}
        graph[source.module] = {t for t in targets if (source.module, t) not in UPWARD}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of two or more modules that reach one another (Tarjan's strong components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            at = stack.index(module)
            component = set(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for module in graph:
        if module not in number:
            visit(module)
    return found


def test_packages_keep_their_private_names_to_themselves():
    violations: list[str] = []
    for source in sources().values():
        violations += private_imports(source)
        violations += private_attributes(source, defined()[source.package])
    assert not violations, "\n".join(["private names of other packages:", *violations])


def test_imports_have_no_circles():
    closed = [sorted(circle) for circle in circles(import_graph())]
    assert not closed, f"modules that import one another: {closed}"


def test_what_closes_a_circle_is_there_and_inside_a_function():
    for module, target in UPWARD:
        source = sources()[module]
        assert target in {item.target() for item in source.imports}
        top = [node for node in source.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert all(getattr(node, "module", "") != f"maxent.{target}" for node in top)


def test_the_rules_see_what_they_forbid():
    text = """
import torch
from maxent.core.solvers._dual import PairState
from maxent.core.maps import _matrix
from maxent.rows.arrays import Ragged
from maxent._nowhere import anything

class Mine:
    _field: int = 0

    def method(self, other):
        self._own = other._field + other._alien + self._inherited + torch._C._thing
        return other._replace(x=super()._parent)
"""
    mine = Source(ROOT / "mine.py", "mine", ast.parse(text))
    assert [v.split(" ", 1)[1] for v in private_imports(mine)] == [
        "imports maxent.core.solvers._dual",
        "imports _matrix of maxent.core.maps",
        "imports maxent._nowhere",
    ]
    own = set(mine.definitions())
    assert own == {"_field", "_own", "Mine", "method"}
    assert [v.split(" ", 1)[1] for v in private_attributes(mine, own)] == ["uses other._alien"]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})
