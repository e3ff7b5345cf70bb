"""The sidebar of every page, made from that of the first one.

Sphinx and furo write each out anew, with links to all pages, which took half of a build. They
differ in where links start from, and in what is marked as the way to the current page.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import Any

from furo.navigation import get_navigation_tree
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment.adapters.toctree import global_toctree_for_doc

_TAG = re.compile(r"(<[^>]+>)")
_LINK = re.compile(r'^<a class="([^"]*)" href="([^"]*)">$')
_SHOWN = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}  # by furo


class Sidebar:
    """The sidebar of the first page in parts, and which of them lie on the way to each page."""

    def __init__(self, builder: StandaloneHTMLBuilder) -> None:
        root = builder.config.root_doc
        tree = global_toctree_for_doc(builder.env, root, builder, tags=builder.tags, **_SHOWN)
        self.parts = _TAG.split(get_navigation_tree(builder.render_partial(tree)["fragment"]))
        self.builder = builder
        self.links: dict[int, str] = {}  # place: page
        self.ways: dict[str, list[list[int]]] = defaultdict(list)  # page: a way for each link
        pages = {builder.get_relative_uri(root, name): name for name in builder.env.found_docs}
        open_tags: list[int] = []
        way: list[int] = []
        for place, part in enumerate(self.parts):
            if part.startswith(("<ul", "<li")):
                open_tags.append(place)
            elif part.startswith("<input"):  # shows what is below the link before it
                open_tags.append(place)
                way.append(place)
            elif part in ("</ul>", "</li>"):
                opening = part.replace("/", "")[:-1]
                while not self.parts[open_tags.pop()].startswith(opening):
                    pass
            elif link := _LINK.match(part):
                way = [*open_tags, place]
                self.links[place] = pages[link[2]]
                self.ways[self.links[place]].append(way)
        self.from_folder = cache(self._from_folder)

    def _from_folder(self, folder: str) -> list[str]:
        """The parts with links that start from there."""
        parts = self.parts.copy()
        for place, name in self.links.items():
            address = self.builder.get_relative_uri(f"{folder}/-".lstrip("/"), name)
            parts[place] = _LINK.sub(rf'<a class="\1" href="{address}">', parts[place])
        return parts

    def of(self, page: str) -> str:
        """The sidebar of a page, with the way to it open."""
        parts = self.from_folder(page.rpartition("/")[0]).copy()
        last = -1
        for way in self.ways.get(page, []):
            for place in way:
                parts[place] = _current(parts[place])
                last = place if parts[place].startswith("<li") else last
        if last >= 0:
            parts[last] = parts[last].replace('">', ' current-page">')
        return "".join(parts)


_sidebar = cache(Sidebar)


def _current(tag: str) -> str:
    """A tag on the way to the current page, as Sphinx and furo would mark it."""
    if " current" in tag or '"current' in tag or " checked" in tag:
        return tag
    if tag == "<ul>":
        return '<ul class="current">'
    if tag.startswith("<li"):
        return re.sub(r"(toctree-l\d+)", r"\1 current", tag)
    if tag.startswith("<a"):
        return _LINK.sub(r'<a class="current \1" href="#">', tag)
    return tag.replace(" class=", ' checked="" class=')


def set_aside(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Before furo asks for its tree: there is none."""
    if "toctree" in context:
        context["toctree"] = lambda **how: ""


def put_in(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """After furo: the tree of this page."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        context["furo_navigation_tree"] = _sidebar(app.builder).of(page)


def setup(app: Any) -> dict[str, bool]:
    """Go around furo, which asks for the tree at the usual time."""
    app.connect("html-page-context", set_aside, priority=400)
    app.connect("html-page-context", put_in, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
