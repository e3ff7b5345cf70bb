"""The site: examples run, pages build without a warning, links lead somewhere, people can read it.

The build here is quick: pages, plots and reference as `make docs` makes them, the gallery without
its pictures. That its scripts run is tested one by one.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import numpy as np
import pytest
from test_docs import PAGES, blocks, name

from tools import needs, needs_node_modules

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PLOTTED = [page for page in PAGES if "```{plot}" in page.read_text()]
GALLERY = sorted((DOCS / "gallery").glob("*/plot_*.py"))
READERS = ("ecologist", "engineer", "researcher", "contributor")
LOOKED_AT = [
    *("index", "quickstart", "notation", "benchmarks", "api/entropies", "auto_gallery/index"),
    *("papers/fenchel_young", "coming_from/entmax", "howto/index", "doors/ecologist"),
]
SIDEBAR = re.compile(r'<div class="sidebar-tree">(.*?)</div>', re.DOTALL)
# the tags that tests look at: to read all of a page takes the parser four times as long
_TAGS = re.compile(
    r"<(?:a|link|script|img|iframe)\b[^>]*>|<\w+\s[^>]*\b(?:id|name)=[^>]*>|</(?:script|style)>"
)
LONG = ("benchmarks", "api/entropies")  # axe takes its time with their tables


@pytest.mark.slow
@pytest.mark.parametrize("script", GALLERY, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_examples_of_the_gallery_run(script, monkeypatch, tmp_path):
    pyplot = needs("matplotlib.pyplot")
    for package in ("torch", "rasterio", "sklearn"):
        if f"import {package}" in script.read_text() or f"from {package}" in script.read_text():
            needs(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    pyplot.switch_backend("Agg")
    try:
        runpy.run_path(str(script), run_name="__main__")
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")


def test_there_are_examples_for_every_reader():
    assert len(GALLERY) >= 24
    assert {script.parent.name for script in GALLERY} == set(READERS)
    for script in GALLERY:
        assert "**How to read this.**" in script.read_text(), script.name


@cache
def place_of(folder, address):
    """The file that a link leads to; the pages of a folder have most of theirs in common."""
    return (folder / unquote(address)).resolve()


class Page(HTMLParser):
    """Addresses, places that links can name, and pictures of a page."""

    def __init__(self, path, with_sidebar):
        super().__init__()
        self.links, self.loaded, self.ids, self.pictures = [], [], set(), []
        text = path.read_text(encoding="utf-8")
        text = text if with_sidebar else SIDEBAR.sub("", text)
        self.feed("".join(_TAGS.findall(text)))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe") and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "img":
            self.pictures.append(given)


@pytest.mark.slow
@pytest.mark.parametrize("page", PLOTTED, ids=name)
def test_plots_on_pages(page, monkeypatch):
    """What `{plot}` blocks draw; those of one context share their names."""
    pyplot = needs("matplotlib.pyplot")
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(page.parent)  # as the build does
    pyplot.switch_backend("Agg")
    shared = {"plt": pyplot, "np": np}
    for language, line, code in blocks(page):
        name, *given = language.split()
        if name != "{plot}":
            continue
        if given:
            path, function = given
            runpy.run_path(str(DOCS / path))[function]()
        else:
            words = re.sub(r"^:[^\n]*$", "", code, flags=re.MULTILINE)
            names = shared if re.search("^:context:", code, re.MULTILINE) else dict(shared)
            exec(compile("\n" * line + words, str(page), "exec"), names)
        assert pyplot.get_fignums(), f"{page.name}, line {line} draws nothing"
        pyplot.close("all")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built from a copy of the sources."""
    for module in ("sphinx", "myst_parser", "furo", "sphinx_gallery", "sphinx_design"):
        needs(module)
    folder = tmp_path_factory.mktemp("site")
    left_out = shutil.ignore_patterns("_build", "auto_gallery", "__pycache__")
    shutil.copytree(DOCS, folder / "docs", ignore=left_out)
    for path in ROOT.iterdir():
        if path.name in ("src", "benchmarks", "experiments", "README.md", "CONTRIBUTING.md"):
            (folder / path.name).symlink_to(path)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-t", "quick"]
    command += ["-D", "plot_gallery=0"]
    result = subprocess.run(
        [*command, "-b", "html", folder / "docs", folder / "html"],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    """The sidebar, which leads to the same pages from all, is read on a few of them."""
    return {
        path.resolve(): Page(path, with_sidebar=path.name == "index.html")
        for path in site.rglob("*.html")
    }


@pytest.mark.slow
def test_links_lead_somewhere(pages):
    lost = []
    for path, page in pages.items():
        for link in page.links:
            address, place = urldefrag(link)
            if "://" in address or address.startswith("mailto:"):
                continue
            target = place_of(path.parent, address) if address else path
            known = target in pages and (not place or unquote(place) in pages[target].ids)
            if not known and not (target.is_file() and target not in pages):
                lost.append(f"{path.name}: {link}")
    assert not lost, lost[:20]


@pytest.mark.slow
def test_sidebars_lead_to_the_same_pages_and_are_open_where_one_is(site):
    everywhere = []
    for path in site.rglob("*.html"):
        tree = SIDEBAR.search(path.read_text(encoding="utf-8"))[1]
        links = re.findall(r'<a class="[^"]*" href="([^"]*)"', tree)
        targets = [path if link == "#" else place_of(path.parent, link) for link in links]
        everywhere = everywhere or targets
        assert targets == everywhere, path.name
        items = re.findall(r'<li class="([^"]*)"', tree)
        on_the_way = [words for words in items if "current" in words.split()]
        assert sum("current-page" in words for words in items) == (path in targets), path.name
        assert tree.count('checked=""') == sum("has-children" in words for words in on_the_way)
    assert len(everywhere) > 300


@pytest.mark.slow
def test_nothing_is_loaded_from_the_network(pages):
    for path, page in pages.items():
        for address in page.loaded:
            assert "://" not in address, f"{path.name} loads {address}"
            file = path.parent / unquote(address.split("?")[0])
            assert address.startswith("data:") or file.is_file(), f"{path.name}: no {address}"


@pytest.mark.slow
def test_pictures_have_words_and_sizes(pages):
    for path, page in pages.items():
        for picture in page.pictures:
            assert picture.get("alt"), f"{path.name}: {picture.get('src')} has no alternative text"
            address = picture.get("src", "")  # frames of an animation have none
            sized = not address or "width" in picture or "style" in picture
            assert sized or address.endswith(".svg"), f"{path.name}: {address} has no size"


# what scrolls, where a page is narrow; what differs in the dark
NARROW = ["scrollable-region-focusable"]
DARK = ["color-contrast", "link-in-text-block"]
AXE = """async rules => {
  const only = rules.length ? { runOnly: rules } : {};
  const article = document.querySelector("article");
  const options = { ...only, resultTypes: ["violations"], preload: false };
  return (await axe.run(article, options)).violations;
}"""


def told(page, rules):
    """What axe calls serious."""
    return [
        (one["id"], [node["html"][:150] for node in one["nodes"][:3]])
        for one in page.evaluate(AXE, rules)
        if one["impact"] in ("serious", "critical")
    ]


def beyond(page):
    """How many pixels the page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKED_AT)
def test_people_can_read_it(site, browser, name):
    """No error, nothing wider than the screen, formulas typeset, nothing that axe calls serious."""
    axe = needs_node_modules() / "axe-core" / "axe.min.js"
    wide, narrow = ({"width": width, "height": 900} for width in (1280, 390))
    with browser.new_context(viewport=wide, color_scheme="light") as context:
        page = context.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and errors.append(said.text))
        page.goto((site / f"{name}.html").as_uri())
        if page.locator(".math").count():
            page.locator("mjx-container").first.wait_for(state="attached")
        page.add_script_tag(path=axe)
        page.add_style_tag(content="* { transition: none !important }")  # colours change at once
        assert beyond(page) <= 0
        assert not told(page, NARROW if name in LONG else [])
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert not told(page, NARROW if name in LONG else DARK)
        page.set_viewport_size(narrow)
        assert beyond(page) <= 0
        assert not told(page, NARROW)
        assert not errors
