"""What the built site needs beside its pages: formulas without the network, sizes of pictures."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from PIL import Image

MATHJAX = "mathjax/tex-chtml.js"
_PICTURE = re.compile(r"<img\b[^>]*>")
_FOREIGN = re.compile(r'<link\b[^>]*\bhref="https?://[^>]*>')  # icons of animations: see site.css
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

    return _PICTURE.sub(sized, _FOREIGN.sub("", page.read_text(encoding="utf-8")))


def finish(app: Any, error: Exception | None) -> None:
    """After a build of html: fonts beside it, sizes in it."""
    if error is not None or app.builder.name != "html":
        return
    copy_mathjax(Path(app.outdir) / "_static")
    for page in Path(app.outdir).rglob("*.html"):
        text = finished(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Connect the last step of the build."""
    app.config.mathjax_path = MATHJAX
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
