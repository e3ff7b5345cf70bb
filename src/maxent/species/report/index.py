"""index.html: many species on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from statistics import median
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
from maxent.species.report.sections.joint import IS, IS_NOT, SPACE

# its own thumbnails beside it, and nothing from elsewhere; "self" is not the folder of a local page
_POLICY = (
    "default-src 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)
_TITLES = {
    "richness_suitability": "Sum of suitabilities",
    "richness_presences": "Number of species present",
}
_JOINT = ("Held-out gain, own", "Held-out gain, joint", "Held-out AUC, own", "Held-out AUC, joint")
_COMPARED = (
    "Gains are medians over species of the mean log density of held-out records against an even "
    "map, by the species' own model and by the joint one; the places of a fold are hidden from all "
    "species at once. The duality gap, in nats per record, is how far the last fit can be from the "
    "best for its correlations; these were taken from the weights as many times as there are "
    "rounds, of which nothing is promised."
)
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
    folder), n_records, auc, test_auc, test_auc_of (what was held out), gain, gap, seconds,
    joint (the fields of a ``Borrowing`` and the names of the files of its group); what it lacks
    stays empty.

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
    fitted_together = any(row.get("joint") is not None for row in rows)
    head, right = list(_HEAD), list(range(3, len(_HEAD)))
    if fitted_together:
        right += range(len(head), len(head) + len(_JOINT))
        head += [*_JOINT, "Most like"]
    listing = table(
        "Species; click on a heading to sort",
        head,
        [
            [
                *_row(row, folder),
                *(_joint_row(row.get("joint")) if fitted_together else []),
            ]
            for row in rows
        ],
        right=right,
        class_="sortable wide",
    )
    body = joined(
        [
            element(
                "header",
                element("div", element("h1", title), paragraph(f"{said}.", class_="when")),
                class_="top",
            ),
            element(
                "main",
                _richness(richness or {}),
                _joint(rows, folder) if fitted_together else None,
                element("section", listing, id="species"),
            ),
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


def _joint(rows: list[dict[str, Any]], folder: Path) -> Html:
    """What was fitted together, whether it helped, and the trees of the groups."""
    known = [row["joint"] for row in rows if row.get("joint") is not None]
    groups = {told["group"]: told for told in known}
    lines = [
        [
            told["group"] or "all species",
            count(told["n_species"]),
            count(told["n_records"]),
            count(told["n_places"]),
            count(told["rounds"]),
            small(max(told["gap"], 0.0), 1),
            *_better(found for found in known if found["group"] == group),
        ]
        for group, told in groups.items()
    ]
    head = ["Group", "Species", "Records", "Places", "Rounds", "Duality gap"]
    head += ["Gain, own", "Gain, joint", "Joint better"]
    facts = table("Fitted together", head, lines, right=range(1, len(head)))
    pictures = []
    for group, told in groups.items():
        tree, matrix = (told["files"].get(what, "") for what in ("tree", "correlations"))
        if (folder / tree).is_file() and tree:
            alt = f"Tree of the species{f' of {group}' if group else ''} by how alike they respond."
            caption = joined(
                [
                    element("strong", group or "Who responds like whom. "),
                    " Branches join at the mean correlation of their species' weights; numbers in ",
                    link(matrix),
                    ".",
                ]
            )
            image = element("img", src=quote(tree), alt=alt, loading="lazy")
            pictures.append(element("figure", image, element("figcaption", caption)))
    return element(
        "section",
        element("h2", "Fitted together", id="joint-title"),
        paragraph(IS),
        paragraph(IS_NOT),
        paragraph(element("strong", SPACE)) if known[0]["spatial"] else None,
        facts,
        paragraph(_COMPARED, class_="says"),
        *pictures,
        id="joint",
        aria_labelledby="joint-title",
    )


def _better(found: Iterable[dict[str, Any]]) -> list[str]:
    """Median held-out gains of a group, own and joint, and how often the joint one is larger."""
    both = [(told["own"]["gain"], told["joint"]["gain"]) for told in found if told["own"]]
    if not both:
        return [fixed(None)] * 3
    own, joint = zip(*both, strict=True)
    wins = sum(b > a for a, b in both)
    return [fixed(median(own)), fixed(median(joint)), f"{count(wins)} of {count(len(both))}"]


def _joint_row(told: dict[str, Any] | None) -> list[Any]:
    """Held-out scores, own and joint, and the species most like this one."""
    if told is None:
        return [None] * (len(_JOINT) + 1)
    scores = [told[way].get(score) for score in ("gain", "auc") for way in ("own", "joint")]
    alike = next(iter(told["alike"].items()), None)
    first = (
        told["reason"] if alike is None else joined([element("em", alike[0]), f" {alike[1]:.2f}"])
    )
    return [*map(fixed, scores), first]


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
