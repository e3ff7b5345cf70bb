"""What was chosen so far: the words of a ``maxent fit`` command, and the script of the same run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from maxent.app.aside import Aside
from maxent.app.folders import Folders, OutsideError
from maxent.app.schema import chosen
from maxent.app.tuning import TuningChoices
from maxent.io import write_atomically
from maxent.species.fitting.options import typed
from maxent.species.fitting.settings import Settings
from maxent.species.input import file_access
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles
from maxent.species.input.layers.naming import Named, named_layers
from maxent.species.input.source_settings import COUNTS, SURVEY, SourceSettings

FILE = "draft.json"
BACKGROUNDS = ("random", "target-group", "records", "bias", "kernel")


@dataclass(frozen=True)
class Draft:
    """The choices of the page; empty at first.

    Attributes
    ----------
    records : dict
        Fields of ``RecordFile`` that were chosen, by name.
    layers : dict
        Fields of ``LayerFiles``, likewise.
    study : dict
        Fields of ``StudyFiles``, likewise.
    settings : dict
        Fields of ``Settings``, likewise.
    species : tuple of str
        Species chosen; all if empty.
    background : str
        "random", "target-group" (all records of the file), "records" (of ``background_file``),
        "bias" (the raster ``background_file``) or "kernel" (the density of the records).
    background_file : str or None
        File of the records or of the raster.
    projections : tuple of str
        Folders of other layers.
    test : str or None
        A file of records for testing.
    surveys : tuple of str
        Files of surveys with absences.
    counts : tuple of str
        Files of counts.
    sources : dict
        Fields of ``SourceSettings`` for these, likewise.
    out : str
        Folder for the results, in the first of the opened folders.
    tuning : dict
        Fields of ``TuningChoices``, likewise.
    """

    records: dict[str, Any] = field(default_factory=dict)
    layers: dict[str, Any] = field(default_factory=dict)
    study: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    species: tuple[str, ...] = ()
    background: str = "random"
    background_file: str | None = None
    projections: tuple[str, ...] = ()
    test: str | None = None
    surveys: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    sources: dict[str, Any] = field(default_factory=dict)
    out: str = "maxent-results"
    tuning: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_page(cls, given: Any) -> Draft:
        """From what the page sent; what is not known, or of another kind, is refused."""
        if not isinstance(given, dict):
            raise ValueError(f"a draft must be choices by name, got {type(given).__name__}")
        known = {f.name: f for f in fields(cls)}
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"a draft has no {unknown[0]!r}; it has {', '.join(known)}")
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name in _PARTS:
                values[name] = chosen(name, _PARTS[name], value)
            elif name in ("species", "projections", "surveys", "counts"):
                values[name] = tuple(_text(name, part) for part in _list(name, value))
            elif name in ("background_file", "test"):
                values[name] = None if value is None else _text(name, value)
            else:
                values[name] = _text(name, value)
        made = cls(**values)
        if made.background not in BACKGROUNDS:
            raise ValueError(f"the background must be one of {', '.join(BACKGROUNDS)}")
        if "kind" in made.sources:
            raise ValueError("the records of the page are presences; visits have a field below")
        return made

    def changed(self, given: Mapping[str, Any]) -> Draft:
        """With other values for some of the choices."""
        made = Draft.from_page(given)
        return replace(self, **{name: getattr(made, name) for name in given})

    # -- as the command takes them -----------------------------------------------------------------

    def record_file(self) -> RecordFile:
        """The records; refused where none were chosen."""
        if not self.records.get("path"):
            raise ValueError("choose a file of records first")
        return RecordFile(**self.records)

    def layer_files(self) -> LayerFiles:
        """The layers; refused where none were chosen."""
        if not self.layers.get("sources"):
            raise ValueError("choose a folder of layers first")
        return LayerFiles(**self.layers)

    def study_files(self) -> StudyFiles:
        """The study region."""
        return StudyFiles(**self.study)

    def fit_settings(self) -> Settings:
        """The settings."""
        chosen = dict(self.settings)
        if self.background == "kernel":
            chosen.setdefault("bias_kernel", "auto")
        return Settings(**chosen)

    def source_settings(self) -> SourceSettings | None:
        """How surveys and counts are read, None without any."""
        return SourceSettings(**self.sources) if self.surveys or self.counts else None

    def visits(self) -> list[tuple[str, RecordFile]]:
        """Files of surveys and counts with their kinds; named columns are those of the records."""
        like = replace(RecordFile(**{"path": "", **self.records}), leave_out=())
        kinds = [*((SURVEY, path) for path in self.surveys)]
        kinds += [(COUNTS, path) for path in self.counts]
        return [(kind, replace(like, path=path)) for kind, path in kinds]

    def extent_file(self) -> str | None:
        """The file of polygons that maps are cut to, if it is one."""
        extent = self.settings.get("extent", "layers")
        return None if extent in ("layers", "region") else str(extent)

    def files(self, folders: Folders) -> list[str]:
        """All files and folders that are to be read; those of layer tables too."""
        named = [self.records.get("path"), *self.layers.get("sources", ()), self.test]
        named += [*self.surveys, *self.counts]
        named += [self.study.get("polygons"), self.study.get("ecoregions"), self.background_file]
        named.append(self.extent_file())
        for text in self.layers.get("layer", ()):
            if "=" not in text and text.lower().endswith(".csv"):
                table = folders.find(text)
                named += [text, *(row.path for row in named_layers([str(table)]))]
            else:
                named.append(_file_of(text, folders))
        return [name for name in [*named, *self.projections] if name]

    def check_paths(self, folders: Folders) -> None:
        """Refuse a draft any path of which leads out of the opened folders: decided here alone."""
        for name in self.files(folders):
            folders.find(name)
        out = folders.find(self.out)
        if out in folders.roots or any(out in root.parents for root in folders.roots):
            raise ValueError("give the results a folder of their own")
        if out == folders.state or folders.state in out.parents:
            raise OutsideError("the page keeps its own files there; name another folder")
        for crs in (self.records.get("crs"), self.layers.get("crs")):
            if crs is not None:
                file_access.check_crs(crs)
                if os.path.exists(folders.home / crs):
                    raise ValueError(f"{crs!r:.80} names a file; give a code such as EPSG:4326")

    def data_words(self) -> list[str]:
        """Records, layers, background and region, as commands take them."""
        records, layers = self.record_file(), self.layer_files()
        words = [_no_flag(path) for path in (records.path, *layers.sources)] + typed(records)
        words += [word for name in self.species for word in ("-s", name)]
        return [*words, *typed(layers), *self._background_words(), *typed(self.study_files())]

    def check_files(self, folders: Folders) -> None:
        """Refuse a draft that names what is not there any more."""
        for name in self.files(folders):
            if not folders.find(name).exists():
                raise FileNotFoundError(f"{name}: no such file; choose it again")

    def argv(self) -> list[str]:
        """The words of the command after ``maxent``."""
        settings = self.fit_settings()
        words = ["fit", *self.data_words(), *typed(settings)]
        if settings.extent == "region" and self.study_files().kind is None:
            raise ValueError(
                "maps of the study region alone need one: choose a study region (step 3), or draw "
                "maps on all of the layers"
            )
        words += [] if self.test is None else ["--test", self.test]
        sources = self.source_settings()
        if sources is not None:
            from maxent.species.fitting.kinds import check_kinds
            from maxent.species.study.sites import visits_given

            held_out = self.test is not None or settings.test_share > 0
            check_kinds(settings, held_out=held_out, presences=True)
            visits_given(self.record_file(), self._visits(SURVEY), self._visits(COUNTS), sources)
            words += [word for path in self.surveys for word in ("--survey", path)]
            words += [word for path in self.counts for word in ("--counts", path)]
            words += typed(sources)
        words += [word for folder in self.projections for word in ("-p", folder)]
        return [*words, "-o", self.out]

    def _visits(self, kind: str) -> list[RecordFile]:
        return [file for one, file in self.visits() if one == kind]

    def command(self) -> str:
        """The command as it is typed."""
        return shlex.join(["maxent", *self.argv()])

    def _background_words(self) -> list[str]:
        if self.background == "target-group":
            return ["--target-group"]
        if self.background not in ("records", "bias"):
            return []
        if not self.background_file:
            what = "records" if self.background == "records" else "sampling effort"
            raise ValueError(f"choose the file of {what} for the background")
        flag = "--background-records" if self.background == "records" else "--bias"
        return [flag, self.background_file]

    def script(self) -> str:
        """The same run in Python."""
        records, layers = self.record_file(), self.layer_files()
        names = ["LayerFiles", "RecordFile", "Settings", "fit_files"]
        others: list[str] = []
        if self.species:
            others.append(f"species={list(self.species)!r},")
        if self.test is not None:
            others.append(f"test=RecordFile({self.test!r}),")
        if self.background == "target-group":
            others.append("group=records,")
        if self.background == "records":
            path = self._background_words()[1]
            others.append(f"group={_call(replace(records, path=path, leave_out=()))},")
        if self.background == "bias":
            others.append(f"bias={self._background_words()[1]!r},")
        if self.study_files().kind is not None:
            names.append("StudyFiles")
            others.append(f"study={_call(self.study_files())},")
        sources = self.source_settings()
        for name, kind in (("surveys", SURVEY), ("counts", COUNTS)):
            files = [_call(file) for file in self._visits(kind)]
            others += [f"{name}=[{', '.join(files)}],"] if files else []
        if sources is not None and sources != SourceSettings():
            names.append("SourceSettings")
            others.append(f"sources={_call(sources)},")
        if self.projections:
            made = [_call(replace(layers, sources=(f,), layer=())) for f in self.projections]
            others.append(f"projections=[{', '.join(made)}],")
        lines = [
            "from pathlib import Path",
            "",
            f"from maxent.species import {', '.join(sorted(names))}",
            "",
            f"records = {_call(records)}",
            f"layers = {_call(layers)}",
            f"settings = {_call(self.fit_settings())}",
            "fit_files(",
            "    records,",
            "    layers,",
            f"    Path({self.out!r}),",
            "    settings,",
            *(f"    {line}" for line in others),
            ")",
        ]
        return "\n".join(lines) + "\n"


_PARTS: dict[str, type] = {
    **{"records": RecordFile, "layers": LayerFiles, "study": StudyFiles},
    **{"settings": Settings, "tuning": TuningChoices, "sources": SourceSettings},
}


def _file_of(text: str, folders: Folders) -> str:
    """The file of NAME=FILE[:BAND], as it is named from the first folder."""
    rest = text.partition("=")[2].strip()
    return rest if os.path.exists(folders.home / rest) else Named.from_text(text).path


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list, got {type(value).__name__}")
    return list(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text, got {value!r:.40}")
    return value


def _no_flag(path: str) -> str:
    """A file whose name begins like an option, as a path."""
    return f"./{path}" if path.startswith("-") else path


def _call(instance: Any) -> str:
    """How a dataclass is made, its defaults left out."""
    parts = []
    for f in fields(instance):
        value = getattr(instance, f.name)
        if f.name in ("path", "sources"):
            parts.append(repr(value))
        elif value != f.default and f.compare:
            parts.append(f"{f.name}={value!r}")
    return f"{type(instance).__name__}({', '.join(parts)})"


def command_script(command: str) -> str:
    """A script that runs a command as it was typed.

    >>> print(command_script("maxent fit a.csv layers -o out"), end="")
    from maxent.cli import main
    <BLANKLINE>
    main(['fit', 'a.csv', 'layers', '-o', 'out'])
    """
    words = shlex.split(command)[1:]
    return f"from maxent.cli import main\n\nmain({words!r})\n" if words else ""


# -- on disk ---------------------------------------------------------------------------------------


def read_draft(folders: Folders, aside: Aside | None = None) -> Draft:
    """The draft of a folder, empty where there is none; a damaged one is put aside."""
    path = folders.state / FILE
    try:
        content = path.read_bytes()
    except OSError:
        return Draft()
    try:
        folders.find(str(path))
        draft = Draft.from_page(from_json(content, allow_inf_nan=False))
        draft.check_paths(folders)
    except (ValueError, TypeError, OSError) as error:
        if aside is not None:
            aside.put(path, str(error))
        return Draft()
    return draft


def write_draft(folders: Folders, draft: Draft) -> None:
    """Keep the draft."""
    folders.state.mkdir(exist_ok=True)
    made = {f.name: getattr(draft, f.name) for f in fields(draft)}
    write_atomically(folders.state / FILE, (json.dumps(made, indent=1) + "\n").encode())


def drawn_region(folders: Folders, rings: list[list[list[float]]], crs: str | None) -> Path:
    """Write polygons that were drawn on the map as a file for ``--region``."""
    if not rings or any(len(ring) < 3 for ring in rings):
        raise ValueError("a region needs three corners or more")
    closed = [[*ring, ring[0]] if ring[0] != ring[-1] else ring for ring in rings]
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [r]}}
        for r in closed
    ]
    content: dict[str, Any] = {"type": "FeatureCollection", "features": features}
    if crs is not None:
        content["crs"] = {"type": "name", "properties": {"name": crs}}
    written = (json.dumps(content) + "\n").encode()
    # named by what it holds, so that the command of an earlier run stays true
    path = folders.home / f"region-{hashlib.sha256(written).hexdigest()[:8]}.geojson"
    write_atomically(path, written)
    return path
