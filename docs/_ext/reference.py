"""The reference: public names in groups, docstrings with their formulas, links to what uses them."""

from __future__ import annotations

import re
from typing import Any

import maxent

# Docstrings are plain text with formulas: |w|, Omega*(theta), p_w are no markup. What stays as it
# is: ``literals``, roles and examples.
_LITERAL = re.compile(r"(``.+?``|:\w+:`[^`]+`)")
_MARKUP = re.compile(r"([*|_`\\])")


def _escape(line: str) -> str:
    parts = _LITERAL.split(line)
    parts[::2] = [_MARKUP.sub(r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _entry(line: str) -> str:
    """``name : text`` of a Parameters or Attributes section as a list item."""
    name, colon, text = line.partition(" : ")
    return f"- **{_escape(name)}**: {_escape(text)}" if colon else f"- {_escape(line)}"


def tidy_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Escape formulas and turn the numpy sections into lists."""
    out: list[str] = []
    in_example = in_section = False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if in_example:
            out.append(line)
        elif line and set(line) == {"-"}:
            in_section = True
            out.append("")
        elif following and set(following) == {"-"}:
            out.append(f"**{line}**")
        elif in_section and line.strip():
            out.append(f"  {_escape(line.strip())}" if line[0] == " " else _entry(line))
        else:
            in_section = in_section and not line.strip() and following[:1].strip() != ""
            out.append(_escape(line))
    lines[:] = out


_PUBLIC = re.compile(r"^\.\. public:: (maxent\.\w+)$", re.MULTILINE)
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


def write_out(text: str) -> str:
    """``.. public:: module`` as the directives of its public names that have none on the page."""
    alone = described(text)

    def directives(match: re.Match[str]) -> str:
        names = [name for name in maxent._PUBLIC[match[1]] if f"maxent.{name}" not in alone]
        classes = {name for name in names if isinstance(getattr(maxent, name), type)}
        options = "\n   :members:\n   :show-inheritance:"
        return "\n\n".join(
            f".. autoclass:: {name}{options}" if name in classes else f".. autofunction:: {name}"
            for name in names
        )

    return _PUBLIC.sub(directives, text)


def list_public_names(app, docname: str, source: list[str]) -> None:
    """Write the lists of public names out before a page is parsed."""
    source[0] = write_out(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Connect the filters of pages and docstrings."""
    app.connect("source-read", list_public_names)
    app.connect("autodoc-process-docstring", tidy_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
