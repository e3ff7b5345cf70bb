"""index.html: many species on one page."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

from maxent.io import write_atomically
from maxent.species.report import maps
from maxent.species.report.figures import drawing
from maxent.species.report.markup import (
    Html,
    count,
    document,
    element,
    fixed,
    joined,
    link,
    paragraph,
    small,
    table,
)

# its own thumbnails beside it, and nothing from elsewhere; "self" is not the folder of a local page
_POLICY = (
    "default-src 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)
_TITLES = {
    "richness_suitability": "Sum of suitabilities",
    "richness_presences": "Number of species present",
}
_HEAD = (
    *("Species", "Map", "Status", "Records", "Training AUC", "Test AUC", "Gain"),
    *("Duality gap", "Seconds"),
)


def write_index(
    rows: list[dict[str, Any]],
    folder: Path,
    title: str = "Species distribution models",
    richness: Mapping[str, Mapping[str, Path]] | None = None,
) -> Path:
    """Write ``index.html``: one line per species with its scores and a link to its report.

    A row holds species, status ("ok" or "failed"), error, report and thumbnail (relative to the
    folder), n_records, auc, test_auc, test_auc_of (what was held out), gain, gap, seconds and
    sharing (whether it was shared with other species, in words); what it lacks stays empty.

    Parameters
    ----------
    rows : list of dict
        One per species.
    folder : path
        The folder that holds those of the species.
    title : str, default "Species distribution models"
        Title of the page.
    richness : dict, default None
        Maps of the sums over all species by the name of the layers ("" for those of the fit), each
        a file by its kind.
    """
    folder = Path(folder)
    failed = sum(row["status"] != "ok" for row in rows)
    said = f"{count(len(rows) - failed)} species fitted"
    if failed:
        said += f", {count(failed)} failed"
    shared = any(row.get("sharing") is not None for row in rows)
    listing = table(
        "Species; click on a heading to sort",
        (*_HEAD, "Shared") if shared else _HEAD,
        [[*_row(row, folder), *([row.get("sharing")] if shared else [])] for row in rows],
        right=range(3, len(_HEAD)),
        class_="sortable wide",
    )
    body = joined(
        [
            element(
                "header",
                element("div", element("h1", title), paragraph(f"{said}.", class_="when")),
                class_="top",
            ),
            element("main", _richness(richness or {}), element("section", listing, id="species")),
        ],
        "\n",
    )
    path = folder / "index.html"
    write_atomically(path, document(title, body, _POLICY))
    return path


def _richness(made: Mapping[str, Mapping[str, Path]]) -> Html | None:
    """Pictures of the maps of richness, with their files."""
    shown = []
    with drawing() if made else nullcontext():
        dpi = maps.shared_dpi(2 * len(made))
        for name, files in made.items():
            for kind, path in files.items():
                picture = maps.picture(maps.read_raster(path, maps.SMALL), kind, dpi)
                on = f" on {name}" if name else ""
                alt = f"Map of the {maps.LABELS[kind]}{on}, from dark (few) to yellow (many)."
                caption = joined([element("strong", f"{_TITLES[kind]}{on}. "), link(path.name)])
                shown.append(
                    element("figure", picture.html(alt, "map"), element("figcaption", caption))
                )
    if not shown:
        return None
    says = (
        "The sum of suitabilities is the richness to expect if suitability were the probability of "
        "presence; the other map counts the species at or above their own threshold (richness.csv "
        "has the thresholds). Cells that any of the species has no value for are left out."
    )
    heading = element("h2", "Richness", id="richness-title")
    pictures = element("div", *shown, class_="pair")
    return element(
        "section",
        heading,
        paragraph(says),
        pictures,
        id="richness",
        aria_labelledby="richness-title",
    )


def _row(row: dict[str, Any], folder: Path) -> list[Any]:
    name, error = row["species"], row.get("error")
    report = row.get("report")
    species = element("em", name if not report else link(report, name))
    if error:
        species = joined([species, element("div", error, class_="error")])
    gap = row.get("gap")
    return [
        species,
        _thumbnail(row, folder),
        element("span", row["status"], class_=f"status {row['status']}"),
        count(row.get("n_records")),
        fixed(row.get("auc")),
        _held_out(row),
        fixed(row.get("gain")),
        small(gap if gap is None else max(gap, 0.0)),
        fixed(row.get("seconds"), 1),
    ]


def _held_out(row: dict[str, Any]) -> str:
    """The AUC of records kept from the fit, and which they are."""
    of = row.get("test_auc_of")
    return fixed(row.get("test_auc")) + (f" ({of})" if of else "")


def _thumbnail(row: dict[str, Any], folder: Path) -> Html | None:
    picture = row.get("thumbnail")
    if not picture or not (folder / picture).is_file():
        return None
    alt = f"Suitability map of {row['species']}"
    return element("img", src=quote(picture), alt=alt, loading="lazy", class_="thumb")
