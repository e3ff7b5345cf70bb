"""The data of ``maxent demo``, to try the page with."""

from __future__ import annotations

import json
from pathlib import Path

from maxent.app.draft import Draft, read_draft, write_draft
from maxent.app.folders import Folders
from maxent.io import write_atomically

FOLDER = "maxent-demo"
_MARK = "landscape.json"  # what `maxent demo` leaves beside its data too
_RECORDS, _LAYERS = "occurrences.csv", "layers"


def write_example(place: Path, seed: int = 0) -> None:
    """A virtual species on an invented island; what is there already is left alone."""
    from maxent.datasets.landscape import virtual_landscape, write_landscape
    from maxent.species.batch.outputs import staged

    if (place / _MARK).is_file() and (place / _RECORDS).is_file():
        return
    with staged(place) as folder:
        write_landscape(virtual_landscape(seed=seed), folder)
        seeded = json.dumps({"maxent.datasets.virtual_landscape": {"seed": seed}})
        write_atomically(folder / _MARK, f"{seeded}\n".encode())


def example_draft(folders: Folders) -> Draft:
    """The choices of the example, whose data are written beside those of the folder."""
    write_example(folders.home / FOLDER)
    return _chosen(f"{FOLDER}/")


def open_example(place: Path) -> Folders:
    """The example in a folder of its own; choices that were made there stay."""
    write_example(place)
    folders = Folders.opened([place])
    if read_draft(folders) == Draft():
        write_draft(folders, _chosen(""))
    return folders


def is_example(draft: Draft) -> bool:
    """Whether the records and layers of the example are chosen."""
    given = draft.records.get("path"), draft.layers.get("sources")
    chosen = (_chosen(start) for start in ("", f"{FOLDER}/"))
    return given in [(c.records["path"], c.layers["sources"]) for c in chosen]


def _chosen(start: str) -> Draft:
    given = {
        "records": {"path": f"{start}{_RECORDS}"},
        "layers": {"sources": [f"{start}{_LAYERS}"], "categorical": ["biome"]},
        "background": "records",
        "background_file": f"{start}target_group.csv",
        "out": "example-results",
    }
    return Draft.from_page(given)
