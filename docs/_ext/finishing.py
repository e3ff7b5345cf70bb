"""The last steps of a build: formulas without the network, and pages that all can read.

Pictures get sizes, what scrolls is reached by the keyboard, thumbnails get words, and links from
sources lead to the entry that describes them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from importlib.metadata import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from PIL import Image
from sphinx.search.en import SearchEnglish

MATHJAX = "mathjax/tex-chtml.js"
_PICTURE = re.compile(r"<img\b[^>]*>")
_FOREIGN = re.compile(r'<link\b[^>]*\bhref="https?://[^>]*>')  # icons of animations: see site.css
_BACK = re.compile(r'(<a class="viewcode-back" href="[^"#]*#)([^"]+)(?=">)')
_SCROLLED = re.compile(r'<(pre|div class="table-wrapper[^"]*")(?=[ >])')
_THUMBNAIL = re.compile(
    r'alt=""( [^>]*>(?:(?!<img).)*?<a class="reference internal")( href="[^"]+"><span class="doc">)'
    r"(.*?)</span>",
    re.DOTALL,
)
_SOURCE = re.compile(r'\bsrc="([^"]+)"')


def copy_mathjax(target: Path) -> None:
    """The script and its fonts: the package holds twenty times as much."""
    for file in files("sphinx-mathjax-offline") or ():
        _, found, name = str(file).partition("static/mathjax/")
        if name == "tex-chtml.js" or (found and "woff-v2/" in name):
            copy = target / "mathjax" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), copy)


def finished(page: Path) -> str:
    """The page with sizes of its pictures, which keep text from jumping, and nothing foreign."""

    def sized(match: re.Match[str]) -> str:
        tag = match[0]
        source = _SOURCE.search(tag)
        if source is None or " width=" in tag or "style=" in tag:
            return tag
        path = page.parent / unquote(source[1])
        if path.suffix not in (".png", ".jpg", ".gif") or not path.is_file():
            return tag
        with Image.open(path) as picture:
            width, height = picture.size
        lazy = "" if " loading=" in tag else ' loading="lazy"'
        return f'<img width="{width}" height="{height}"{lazy}{tag[4:]}'

    text = _FOREIGN.sub("", page.read_text(encoding="utf-8"))
    if "tabindex" not in text:  # what scrolls is reached by the keyboard
        text = _SCROLLED.sub(r'<\1 tabindex="0"', text)
    text = text.replace('<img id="_anim_', '<img alt="A frame of the animation" id="_anim_')
    text = _THUMBNAIL.sub(r'alt="Thumbnail: \3"\1 aria-label="\3"\2\3</span>', text)
    return _PICTURE.sub(sized, text)


def with_names(page: str, known: dict[str, str]) -> str:
    """Links from sources back to the reference: Sphinx takes one module's name for all its objects.

    ``known`` has the full name of each ending of a name.
    """

    def named(match: re.Match[str]) -> str:
        start, name = match.groups()
        parts = name.split(".")
        endings = (".".join(parts[i:]) for i in range(len(parts)))
        return start + next((known[ending] for ending in endings if ending in known), name)

    return _BACK.sub(named, page)


def _endings(names: Iterable[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name in names:
        parts = name.split(".")
        for i in range(len(parts)):
            known.setdefault(".".join(parts[i:]), name)
    return known | {name: name for name in names}


def finish(app: Any, error: Exception | None) -> None:
    """After a build of html: fonts beside it, sizes in it."""
    if error is not None or app.builder.name != "html":
        return
    copy_mathjax(Path(app.outdir) / "_static")
    known = _endings(app.env.get_domain("py").objects)
    for page in Path(app.outdir).rglob("*.html"):
        text = with_names(finished(page), known)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")


class RememberedEnglish(SearchEnglish):
    """Finds the stem of a word once for all pages, which hold the same words again and again."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._stems: dict[str, str] = {}

    def stem(self, word: str) -> str:
        """As the stemmer, each word once."""
        if word not in self._stems:
            self._stems[word] = super().stem(word)
        return self._stems[word]


def setup(app: Any) -> dict[str, bool]:
    """Connect the last step of the build."""
    app.config.mathjax_path = MATHJAX
    app.add_search_language(RememberedEnglish)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
