"""The reference: public names in groups, docstrings with formulas, links to what uses them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from formulas import FORMULA, to_tex

import maxent

DOCS = Path(__file__).parents[1]
CLASSES = DOCS / "api" / "classes"  # a page for each class, written when the build begins
LINKS = 4  # at most so many guides and examples are named beside an entry
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
_EXAMPLE = re.compile(r":doc:`/(auto_gallery/[^`]+)`")

# Docstrings are plain text in which |w|, Omega* and p_w are no markup, with `formulas`. What stays
# as it is: ``literals``, roles and examples.
_LITERAL = re.compile(r"(``.+?``|:\w+:`[^`]+`)")
_MARKUP = re.compile(r"([*|_`\\])")


def _as_markup(line: str) -> str:
    parts = _LITERAL.split(line)
    parts[::2] = [_typeset(part) for part in parts[::2]]
    return "".join(parts)


def _typeset(text: str) -> str:
    parts = FORMULA.split(text)
    parts[::2] = [_MARKUP.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f":math:`{to_tex(formula)}`" for formula in parts[1::2]]
    return "".join(parts)


def _entry(line: str) -> str:
    """``name : type`` of a section as the term of a definition."""
    name, colon, kind = line.partition(" : ")
    return f"**{_as_markup(name)}** : {_as_markup(kind)}" if colon else _as_markup(line)


def tidy_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Typeset formulas, escape what is no markup, make entries of numpy sections definitions."""
    out: list[str] = []
    in_example = in_section = False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if in_example:
            out.append(line)
        elif line and set(line) == {"-"}:
            in_section = lines[i - 1] in ("Parameters", "Attributes")
            out.append("")
        elif following and set(following) == {"-"}:
            in_section = False
            out.append(f"**{line}**")
        elif in_section and line[:1].strip():
            out += ["", _entry(line)]
        else:
            out.append(_as_markup(line))
    lines[:] = out


_PUBLIC = re.compile(r"^\.\. public:: (maxent[\w.]+)$", re.MULTILINE)
_SUMMARY = re.compile(r"^\.\. summary:: (\w+)$", re.MULTILINE)
_CLASS = re.compile(r"^\.\. autoclass:: \S+\n(?:   .+\n)*", re.MULTILINE)
_CLASSES = re.compile(r"(?:^\.\. autoclass:: \S+\n(?:   .+\n)*\n*)+", re.MULTILINE)
_DIRECTIVE = re.compile(
    r"^\.\. (?:py:)?(currentmodule|autoclass|autofunction):: (\S+)$", re.MULTILINE
)


def described(text: str) -> list[str]:
    """The full names that a page of the reference describes."""
    module, names = "", []
    for kind, name in _DIRECTIVE.findall(text):
        if kind == "currentmodule":
            module = name
        else:
            names.append(name if name.startswith("maxent.") else f"{module}.{name}")
    return names


def _pages() -> list[str]:
    return [page.read_text() for page in sorted((DOCS / "api").glob("*.md"))]


def reference() -> list[str]:
    """All names that the reference describes."""
    return [name for page in _pages() for name in described(write_out(page))]


def write_out(text: str) -> str:
    """Directives that stand for others: of all public names of a module, of a page's summary."""
    alone = {name for page in _pages() for name in described(page)}

    def directives(match: re.Match[str]) -> str:
        names = [name for name in maxent.PUBLIC[match[1]] if f"maxent.{name}" not in alone]
        classes = {name for name in names if isinstance(getattr(maxent, name), type)}
        options = "\n   :members:\n   :show-inheritance:"
        return "\n\n".join(
            f".. autoclass:: {name}{options}" if name in classes else f".. autofunction:: {name}"
            for name in names
        )

    def summary(match: re.Match[str]) -> str:
        names = described(write_out((DOCS / "api" / f"{match[1]}.md").read_text()))
        rows = "\n".join(f"   ~{name}" for name in names)
        return f".. autosummary::\n   :nosignatures:\n\n{rows}"

    return _SUMMARY.sub(summary, _PUBLIC.sub(directives, text))


def with_class_pages(text: str) -> tuple[str, dict[str, str]]:
    """A page of the reference whose classes are a table of links, and the page of each class."""
    pages: dict[str, str] = {}
    modules = re.compile(r"^\.\. (?:py:)?currentmodule:: (\S+)$", re.MULTILINE)

    def table(match: re.Match[str]) -> str:
        module = modules.findall(text[: match.start()])[-1]
        rows = ""
        for block in _CLASS.findall(match[0]):
            (name,) = described(f".. currentmodule:: {module}\n{block}")
            pages[name] = _class_page(name, block.strip())
            rows += f"   {name.removeprefix(f'{module}.')}\n"
        return f".. autosummary::\n   :nosignatures:\n\n{rows}\n"

    text = _CLASSES.sub(table, text + "\n")
    if pages:
        links = "\n".join(f"{name.rpartition('.')[2]} <classes/{name}>" for name in pages)
        text += f"\n```{{toctree}}\n:hidden:\n\n{links}\n```\n"
    return text, pages


def _class_page(name: str, directive: str) -> str:
    """One class: its document, the guides that speak of it, the examples that use it."""
    module, _, short = name.rpartition(".")
    parts = [
        f"# {short}",
        f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n{directive}\n```",
    ]
    if found := guides_to(name):
        parts += ["## Guides", "\n".join(f"- {{doc}}`/{page}`" for page in found)]
    if examples_of(name):
        parts += ["## Examples", f"```{{eval-rst}}\n.. minigallery:: {name}\n```"]
    return "\n\n".join(parts) + "\n"


def write_class_pages(app: Any) -> None:
    """A file for each class of the reference; those that say the same stay as they are."""
    CLASSES.mkdir(exist_ok=True)
    written = set()
    for page in _pages():
        for name, text in with_class_pages(write_out(page))[1].items():
            file = CLASSES / f"{name}.md"
            written.add(file)
            if not file.is_file() or file.read_text() != text:
                file.write_text(text)
    for file in set(CLASSES.glob("*.md")) - written:
        file.unlink()


def lists_again(app: Any, env: Any, added: Any, changed: Any, removed: Any) -> list[str]:
    """The pages whose lists come from the package, which may have changed where they have not."""
    return [f"api/{page.stem}" for page in (DOCS / "api").glob("*.md")]


def list_public_names(app: Any, docname: str, source: list[str]) -> None:
    """Write the lists of public names out before a page is parsed."""
    if docname.startswith("api/") and not docname.startswith("api/classes/"):
        source[0] = with_class_pages(write_out(source[0]))[0]


_NAMED = re.compile(r"(?:(?<=mx\.)|(?<=mt\.)|(?<=species\.)|(?<=maxent\.)|(?<=`))\w+")


@cache
def _guides() -> dict[str, Counter[str]]:
    """How often each guide speaks of a name; not those that are generated or list everything."""
    pages = [*DOCS.glob("*.md"), *DOCS.glob("structured/*.md"), *DOCS.glob("howto/*.md")]
    left_out = {"index", "references", "differences", "benchmarks"}
    return {
        page.relative_to(DOCS).with_suffix("").as_posix(): Counter(_NAMED.findall(page.read_text()))
        for page in sorted(pages)
        if page.stem not in left_out
    }


def guides_to(name: str) -> list[str]:
    """The guides that speak of a name, the one that does most first."""
    short = name.rpartition(".")[2]
    counts = {page: named[short] for page, named in _guides().items()}
    best = sorted((page for page in counts if counts[page]), key=lambda page: -counts[page])
    return best[:LINKS]


def examples_of(name: str) -> list[str]:
    """The examples of the gallery that use a name, as far as the gallery has been built."""
    uses = DOCS / "auto_gallery" / "uses" / f"{name}.examples"
    found = _EXAMPLE.findall(uses.read_text()) if uses.is_file() else []
    return list(dict.fromkeys(found))[:LINKS]


def see_also(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Guides that speak of a function, and examples of the gallery that use it."""
    if what != "function":  # a class has a page of its own, and says it there
        return
    for title, found in (("See also", guides_to(name)), ("Examples", examples_of(name))):
        if found:
            lines += ["", f"**{title}:** " + ", ".join(f":doc:`/{page}`" for page in found)]


def plain_types(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None]:
    """Names of types as they are written in the source."""
    return tuple(part and _ALIAS.sub(r"\1", part) for part in (signature, result))  # type: ignore


def setup(app: Any) -> dict[str, bool]:
    """Connect the filters of pages and docstrings."""
    app.connect("builder-inited", write_class_pages, priority=900)  # the gallery is built by then
    app.connect("env-get-outdated", lists_again)
    app.connect("source-read", list_public_names)
    app.connect("autodoc-process-docstring", tidy_docstring)
    app.connect("autodoc-process-signature", plain_types)
    app.connect("autodoc-process-docstring", see_also, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
