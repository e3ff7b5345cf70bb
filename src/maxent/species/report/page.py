"""report.html: one page per species, with everything inside."""

from __future__ import annotations

from pathlib import Path

from maxent.io import write_atomically
from maxent.species.fitting.results import SpeciesResult
from maxent.species.report.figures import drawing
from maxent.species.report.markup import Html, document, element, heading, joined
from maxent.species.report.sections import SECTIONS, Context

# nothing may be loaded from outside, whatever a name in the data looks like
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

_KIND = "Species distribution model"


def write_report(result: SpeciesResult, folder: Path) -> Path:
    """Write ``report.html`` to the folder that holds the maps and tables of the result.

    The page needs no network and no other file: figures are inside, links go to the rasters and
    tables beside it. Parts that the result lacks have no section.

    Parameters
    ----------
    result : SpeciesResult
        The result of a fit.
    folder : path
        The folder.
    """
    folder = Path(folder)
    with drawing():
        context = Context.from_result(result, folder)
        made = [(id_, title, content(context)) for id_, title, content in SECTIONS]
    shown = [(id_, title, content) for id_, title, content in made if content]
    body = joined(
        [
            heading(_KIND, result.species, result.created, result.version),
            element("main", _contents(shown), *(section(*part) for part in shown), _foot(result)),
        ],
        "\n",
    )
    path = folder / "report.html"
    write_atomically(path, document(f"{result.species}: Maxent report", body, POLICY))
    return path


def _contents(shown: list[tuple[str, str, Html]]) -> Html:
    links = (element("li", element("a", title, href=f"#{id_}")) for id_, title, _ in shown)
    return element(
        "nav",
        element(
            "details",
            element("summary", "Contents"),
            element("ol", *links),
            class_="contents",
            open="",
        ),
        aria_label="Contents",
    )


def section(id_: str, title: str, content: Html) -> Html:
    """A section with its heading."""
    heading = element("h2", title, id=f"{id_}-title")
    return element("section", heading, content, "\n", id=id_, aria_labelledby=f"{id_}-title")


def _foot(result: SpeciesResult) -> Html:
    return element("footer", f"Made by maxent {result.version}, {result.created}.")
