"""What the R package maxentpy asks of maxent: the functions of the command, with plain values.

Numbers travel as the bytes of doubles, so that nothing is rounded and no version of NumPy matters
to reticulate; all else as texts, lists and dicts. :func:`call` never raises: what went wrong comes
back in words, for R to signal as a condition of its own.
"""

from __future__ import annotations

import ctypes
import difflib
import hashlib
import json
import re
import signal
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from maxent import __version__, io
from maxent._support.interrupts import Insistent
from maxent._support.terminal import in_words
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.batch.outputs import MODEL, RESULT
from maxent.species.batch.workflow import fit_files, fit_swd
from maxent.species.comparing.change import compare_maps
from maxent.species.comparing.folders import similarities
from maxent.species.comparing.niches.comparison import compare_niches
from maxent.species.comparing.overlap import niche_overlap
from maxent.species.fitting.model import SpeciesModel, load_model
from maxent.species.fitting.options import options_of
from maxent.species.fitting.results import read_result
from maxent.species.fitting.settings import Settings
from maxent.species.fitting.tuning import tune_files
from maxent.species.fitting.tuning_settings import TuningSettings
from maxent.species.input.crs import transformed
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles
from maxent.species.input.records.swd import SWD, write_swd
from maxent.species.input.source_settings import SourceSettings
from maxent.species.judging import scoring
from maxent.species.judging.explaining import explain_places
from maxent.species.projecting import EXTRAS
from maxent.species.projecting import project as draw
from maxent.species.projecting.rows import project_rows
from maxent.species.report.tables.text import plain_json

Told = dict[str, Any]
_CHOSEN = [
    (asked.flag(name).removeprefix("--"), str(choice))
    for cls in (Settings, LayerFiles, TuningSettings)
    for name, asked in options_of(cls).items()
    for choice in asked.choices
    if choice is not None
]
_CHOICE = re.compile(  # an option and one of the values that it can have
    f"--({'|'.join({flag for flag, _ in _CHOSEN})}) ({'|'.join({word for _, word in _CHOSEN})})\\b"
)
Tell = Callable[[str], None]


def call(name: str, tell: Callable[[str, str], Any], given: Told) -> Told:
    """Run a function of this module; ``tell`` hears of kinds ("note", "stage") and texts.

    The answer has ``value``, or ``error`` in words and its ``kind``; ``interrupted`` after Ctrl-C.
    """
    told = _careful(tell)
    try:
        with _interruptible(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            value = _FUNCTIONS[name](tell=told, **(given or {}))
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            told("note", text)
        return {"value": value}
    except KeyboardInterrupt:
        return {"interrupted": True}
    except Exception as error:
        return {"error": as_in_r(in_words(error)), "kind": type(error).__name__}


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C is for Python in here, and asks again until it is heard, as in the command.

    R sets a handler below that of Python's own, which is put back as it was.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = Insistent(1.0)
    get, put = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
    get.restype = put.restype = ctypes.c_void_p
    put.argtypes = [ctypes.c_int, ctypes.c_void_p]
    below, before = get(signal.SIGINT), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, ours)
    try:
        yield
    except Exception as error:
        if ours.came:  # what foreign code made of it
            raise KeyboardInterrupt from error
        raise
    finally:
        ours.heard()
        signal.signal(signal.SIGINT, before)
        put(signal.SIGINT, below)


def _careful(tell: Callable[[str, str], Any]) -> Callable[[str, str], None]:
    """R has one thread, and hears of nothing that another one says."""

    def told(kind: str, text: str) -> None:
        if threading.current_thread() is threading.main_thread():
            tell(kind, as_in_r(text))

    return told


def as_in_r(text: str) -> str:
    r"""Words of the command as R has them: options as arguments, rows of tables counted from 1.

    >>> as_in_r("occ.csv, row 3: give it with --layers-crs (or crs=)")
    'occ, row 2: give it with `layers_crs` (or `crs`)'
    >>> as_in_r("replace it with --overwrite (overwrite=True), or see maxent --debug")
    'replace it with `overwrite = TRUE`, or see maxent --debug'
    >>> as_in_r("give --cv blocks")
    'give `cv = "blocks"`'
    """

    def row(found: re.Match[str]) -> str:
        return f"{found[1]}, row {int(found[2]) - 1}"

    text = re.sub(r"([\w.-]+)\.csv, row (\d+)", row, text)
    text = _CHOICE.sub(lambda m: f'`{m[1].replace("-", "_")} = "{m[2]}"`', text)
    text = re.sub(r"--no-([a-z][a-z-]*)", lambda m: f"`{m[1].replace('-', '_')} = FALSE`", text)
    text = re.sub(r"(?<!maxent )--([a-z][a-z-]*)", lambda m: f"`{m[1].replace('-', '_')}`", text)
    for said, ours in (("True", "TRUE"), ("False", "FALSE")):
        text = re.sub(rf"\(?\b([a-z_]+)={said}\)?", rf"`\1 = {ours}`", text)
    text = re.sub(r"(`([a-z_]+)`) (`\2 = (?:TRUE|FALSE)`)", r"\3", text)
    text = re.sub(r"\b([a-z_]+)=(?=[ ,.;:)]|$)", r"`\1`", text)
    return text.replace("-c NAME", "`categorical`")


# -- what R gives ----------------------------------------------------------------------------------


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """A table of columns: bytes are doubles, anything else texts (None where missing)."""
    read: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, bytes | bytearray):
            read[name] = np.frombuffer(bytes(values), dtype=np.float64)
        else:
            read[name] = np.array(_several(values), dtype=object)
    return pd.DataFrame(read)


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _table(given: Told) -> str:
    """Records written beside the results of a session, as the command would read them."""
    path = Path(given["path"])
    frame = _frame(given["columns"])
    io.write_atomically(path, frame.to_csv(index=False, lineterminator="\n").encode())
    return str(path)


class Options:
    """Arguments by the names of the command's options, each for the class that has it."""

    def __init__(self, given: Told, *classes: type) -> None:
        given = given or {}  # an empty list of R is no dict
        self.given = given
        self.places = {
            asked.flag(name).removeprefix("--").replace("-", "_"): (cls, name)
            for cls in classes
            for name, asked in options_of(cls).items()
        }
        for name in given:
            if name not in self.places:
                near = difflib.get_close_matches(name, self.places, 1)
                hint = f"; did you mean `{near[0]}`?" if near else ""
                raise ValueError(f"there is no argument `{name}`{hint}")

    def make(self, cls: type, *values: Any, **others: Any) -> Any:
        """An instance with what was given for it."""
        hints = get_type_hints(cls)
        found = {}
        for name, value in self.given.items():
            owner, field = self.places[name]
            if owner is not cls:
                continue
            read = options_of(cls)[field].read
            if read is not None:
                listed = [_word(part) for part in _several(value)]
                tuples = any(get_origin(kind) is tuple for kind in _kinds(hints[field]))
                found[field] = read(listed if tuples else listed[0])
            else:
                found[field] = _as_kind(name, value, hints[field])
        return cls(*values, **found, **others)

    def any_of(self, cls: type) -> bool:
        """Whether anything was given for a class."""
        return any(self.places[name][0] is cls for name in self.given)


def _word(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _as_kind(name: str, value: Any, hint: Any) -> Any:
    """R has no whole numbers unless asked, and no vectors of one unlike the value."""
    for kind in _kinds(hint):
        if get_origin(kind) is tuple:
            of = get_args(kind)[0]
            return tuple(_as_kind(name, part, of) for part in _several(value))
    if value is None:
        return None
    if isinstance(value, list | tuple | dict):
        raise ValueError(f"{name} is one value, got {len(value)}")
    kinds = _kinds(hint)
    if isinstance(value, bool):
        if bool not in kinds:
            raise ValueError(f"{name} must not be TRUE or FALSE")
        return value
    if bool in kinds:
        raise ValueError(f"{name} must be TRUE or FALSE, got {value!r}")
    if isinstance(value, str):
        if str not in kinds:
            raise ValueError(f"{name} must be a number, got {value!r}")
        return value
    if int in kinds and float(value).is_integer():
        return int(value)
    if float in kinds:
        return float(value)
    if str in kinds:
        return _word(value)
    raise ValueError(f"{name} must be a whole number, got {value!r}")


def _layers(given: Told, options: Options | None = None) -> LayerFiles:
    others = {"sources", "layer", "categorical"}
    made = LayerFiles(
        tuple(_several(given["sources"])),
        tuple(_several(given["categorical"])),
        layer=tuple(_several(given["layer"])),
    )
    if options is None or not options.any_of(LayerFiles):
        return made
    asked = options.make(LayerFiles, ())
    kept = {f.name: getattr(asked, f.name) for f in fields(LayerFiles) if f.name not in others}
    categorical = tuple(dict.fromkeys([*made.categorical, *asked.categorical]))
    layer = (*made.layer, *asked.layer)
    return LayerFiles(made.sources, categorical=categorical, layer=layer, **kept)


def _records(given: Told, options: Options) -> RecordFile:
    place = {k: given[k] for k in ("x", "y", "crs") if given.get(k) is not None}
    if given.get("assumed"):
        warnings.warn(given["assumed"], UserWarning, stacklevel=2)  # a note of the call
    made = options.make(RecordFile, _table(given))
    named = {f.name: getattr(made, f.name) for f in fields(RecordFile)} | place
    return RecordFile(**named)


class _Listener:
    """Passes on how a run goes."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self.tell = tell

    def note(self, text: str) -> None:
        """Something was assumed."""
        self.tell("note", text)

    def begin(self, species: Sequence[str]) -> None:
        """What will be fitted."""

    def stage(self, species: str, name: str) -> None:
        """A step begins."""
        self.tell("stage", name)

    def done(self, row: dict[str, Any]) -> None:
        """A species is ready."""


# -- what R gets -----------------------------------------------------------------------------------


def packed(values: Iterable[Any]) -> bytearray:
    """Doubles as bytes; None is NaN."""
    known = [np.nan if v is None else v for v in values]
    return bytearray(np.asarray(known, dtype=np.float64).tobytes())


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Told:
    """A table of rows as columns: doubles packed, texts as lists."""
    return {name: _column([row.get(name) for row in rows]) for name in (rows[0] if rows else {})}


def _column(values: Sequence[Any]) -> Any:
    plain = [v.item() if isinstance(v, np.generic) else v for v in values]
    if all(isinstance(v, bool | int | float | None) for v in plain):
        return packed(plain)
    return ["" if v is None else str(v) for v in plain]


def _columns_of_arrays(arrays: Mapping[str, Any]) -> Told:
    return {name: _column(np.asarray(v).tolist()) for name, v in arrays.items() if v is not None}


def _text(value: Any) -> str:
    return json.dumps(plain_json(value), allow_nan=False)


@lru_cache(maxsize=16)
def _loaded(path: str, _changed: float) -> SpeciesModel:
    return load_model(path)


def _model(path: str) -> SpeciesModel:
    return _loaded(path, Path(path).stat().st_mtime)


def _described(folder: Path) -> Told:
    """All that R keeps of a fit: model and tables."""
    result = read_result(folder)
    model = _model(str(folder / MODEL))
    told = result.model.certificate
    judged = result.evaluation
    importance, jackknife = result.importance, result.jackknife
    refits = {made.kind: columns_of(made.table) for made in result.replicates if made.table}
    jackknifed = []
    if jackknife is not None:
        for score, values in jackknife.scores.items():
            jackknifed += [
                {"variable": v, "score": score, "only": only, "without": without,
                 "all": values["all"]}
                for v, only, without in zip(
                    jackknife.variables, values["only"], values["without"], strict=True
                )
            ]  # fmt: skip
    return _of_model(model, folder / MODEL) | {
        "folder": str(folder),
        "n_background": result.n_background,
        "gap": told.gap,
        "gain": told.gain,
        "status": "" if told.status is None else told.status.value,
        "bound": result.bound,
        "command": result.command,
        "notes": list(result.notes),
        "settings": _text(result.settings),
        "scores": columns_of([judged.scores]),
        "test_scores": None if judged.test_scores is None else columns_of([judged.test_scores]),
        "thresholds": columns_of(judged.thresholds),
        "roc": {which: _columns_of_arrays(curve) for which, curve in judged.roc.items()},
        "replicates": refits,
        "importance": None if importance is None else _columns_of_arrays(vars(importance)),
        "jackknife": columns_of(jackknifed) if jackknifed else None,
        "responses": [
            {"variable": one.variable, "kind": one.kind, "categorical": one.categorical,
             "table": _columns_of_arrays(
                 {"x": one.x, "y": one.y, "low": one.low, "high": one.high})}
            for one in result.responses
        ],
        "records": _columns_of_arrays(
            {name: result.records[name] for name in ("x", "y", "test") if name in result.records}
        ),
        "cleaning": columns_of(
            [{"what": step.what, "records": step.records} for step in result.cleaning]
        ),
        "maps": {
            name: str(folder / file)
            for written in result.maps
            if written.training
            for name, file in written.files.items()
        },
        "report": str(folder / "report.html"),
    }  # fmt: skip


def _of_model(model: SpeciesModel, path: Path) -> Told:
    density = model.density
    return {
        "file": str(path),
        "species": model.species,
        "n_records": float(density.n_presences),
        "variables": list(density.schema.names),
        "categorical": list(density.schema.categorical),
        "levels": [[str(v) for v in levels] for levels in density.schema.levels],
        "numeric_levels": [not _texts(levels) for levels in density.schema.levels],
        "low": packed(density.low),
        "high": packed(density.high),
        "features": list(density.coef),
        "weights": packed(density.coef.values()),
        "crs": model.crs or "",
        "rules": list((model.thresholds or {}).keys()),
        "rule_values": packed((model.thresholds or {}).values()),
        "maxent": __version__,
        "digest": hashlib.sha256(path.read_bytes()).hexdigest()[:16],
    }


def _texts(levels: Iterable[Any]) -> bool:
    return any(isinstance(level, str) for level in levels)


# -- what R asks -----------------------------------------------------------------------------------


def describe(tell: Any, path: str) -> Told:
    """A model of the command: its folder with all tables, or a file alone."""
    place = Path(path)
    if place.is_dir():
        return _described(place)
    return _of_model(load_model(place), place)


def fit(
    tell: Callable[[str, str], None],
    out: str,
    options: Told,
    records: Told,
    layers: Told,
    *,
    species: str | None = None,
    test: Told | None = None,
    group: Told | None = None,
    target_group: bool = False,
    bias: str | None = None,
    survey: Sequence[Told] = (),
    counts: Sequence[Told] = (),
    project: Sequence[Told] = (),
    overwrite: bool = False,
) -> Told:
    """``maxent fit`` of one species on layers."""
    kinds = (Settings, RecordFile, LayerFiles, StudyFiles, SourceSettings)
    asked = Options(options, *kinds)
    file = _records(records, asked)
    names = file.occurrences().names()
    if species is None and len(names) > 1:
        raise ValueError(
            f"the records are of {len(names)} species, and a fit is of one: give species = one of "
            f"{', '.join(map(repr, names[:10]))}"
        )
    others = [None if one is None else _records(one, asked) for one in (test, group)]
    if target_group:
        others[1] = file
    study, sources = asked.make(StudyFiles), asked.make(SourceSettings)
    (row,) = fit_files(
        file,
        _layers(layers, asked),
        Path(out),
        asked.make(Settings, verbose=0),
        species=() if species is None else (species,),
        test=others[0],
        bias=bias,
        group=others[1],
        study=study,
        surveys=[_records(one, asked) for one in survey],
        counts=[_records(one, asked) for one in counts],
        sources=sources if sources != SourceSettings() else None,
        projections=[_layers(one, asked) for one in project],
        overwrite=overwrite,
        listener=_Listener(tell),
    )
    for note in row.get("notes", ()):
        tell("note", note)
    return _described(Path(out))


def _written_rows(place: Path, name: str, columns: Told, species: str) -> str:
    frame = _frame(columns)
    path = place / f"{name}.csv"
    write_swd(path, [species] * len(frame), None, frame)
    return str(path)


def fit_table(
    tell: Callable[[str, str], None],
    out: str,
    options: Told,
    species: str,
    place: str,
    samples: Told,
    background: Told,
    categorical: Sequence[str] = (),
    *,
    overwrite: bool = False,
) -> Told:
    """``maxent fit --swd`` of rows with presences and rows of the background."""
    asked = Options(options, Settings)
    tables = [
        _written_rows(Path(place), name, columns, species)
        for name, columns in (("samples", samples), ("background", background))
    ]
    (row,) = fit_swd(
        RecordFile(tables[0]),
        tables[1],
        Path(out),
        asked.make(Settings, verbose=0),
        categorical=tuple(categorical),
        overwrite=overwrite,
        listener=_Listener(tell),
    )
    for note in row.get("notes", ()):
        tell("note", note)
    return _described(Path(out))


def _number(value: Any) -> Any:
    """A category as a number where it is one; a text that is none stays, unknown to the model."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def _rows(model: SpeciesModel, columns: Told) -> tuple[SWD, list[str]]:
    """Rows for a model, with its categories as it knows them; and what it does not know."""
    frame, unknown = _frame(columns), []
    schema = model.density.schema
    for name, levels in zip(schema.categorical, schema.levels, strict=True):
        if name not in frame:
            continue
        values = frame[name].to_numpy().astype(object)
        if _texts(levels):
            values = [None if v is None or v != v else _word(v) for v in values]
        else:
            values = [_number(v) for v in values]
        values = np.array(values, dtype=object)
        frame[name] = values
        known = {v for v in values.tolist() if v is not None and v == v}
        new = sorted(map(_word, known.difference(levels)))
        unknown += [f"{name}: {', '.join(new[:10])}"] if new else []
    return SWD(np.full(len(frame), ""), None, frame, "newdata", pooled=True), unknown


def predict_table(
    tell: Any,
    model: str,
    columns: Told,
    output: str = "cloglog",
    *,
    clamp: bool = True,
    mask: str | None = None,
    similarity: bool = False,
) -> Told:
    """An output at the rows of a table; or MESS, the most dissimilar variable and ExDet."""
    fitted = _model(model)
    fitted.check_outputs([output])
    rows, unknown = _rows(fitted, columns)
    made = project_rows(
        fitted, rows, outputs=(output,), clamp=clamp, mask=mask, similarity=similarity
    )
    told = {name: _column(made[name].astype(object).where(made[name].notna(), None).tolist())
            for name in made.columns}  # fmt: skip
    return {"columns": told, "unknown": unknown}


def project(
    tell: Callable[[str, str], None],
    model: str,
    layers: Told,
    out: str,
    outputs: Sequence[str],
    *,
    clamp: bool = True,
    mask: str | None = None,
    threshold: Any = None,
    extras: bool = True,
    overwrite: bool = False,
    options: Told | None = None,
) -> Told:
    """``maxent project``: maps of a model on layers, in windows."""
    fitted = _model(model)
    fitted.check_outputs(outputs)
    rule, value = ("", None) if threshold is None else fitted.rule(str(threshold))
    names = fitted.density.schema.names
    given = {**layers, "categorical": list(fitted.density.schema.categorical)}
    with _layers(given, Options(options or {}, LayerFiles)).open(only=names) as opened:
        for note in (*opened.notes, *fitted.check_places(opened.grid)):
            tell("note", note)
        written = draw(
            fitted.density,
            opened,
            out,
            outputs=tuple(outputs),
            clamp=clamp,
            reference=fitted.reference,
            extrapolation=fitted.extrapolation,
            mask=mask,
            extras=EXTRAS if extras else (),
            threshold=value,
            rule=rule,
            region=fitted.study,
            kinds=fitted.kinds,
            units=fitted.layers,
            name="newdata",
            overwrite=overwrite,
            verbose=0,
        )
    for one in written.unlike:
        tell("note", one.describe("newdata"))
    folder = Path(out).parent if Path(out).suffix else Path(out)
    return {
        "files": {what: str(folder / Path(file).name) for what, file in written.files.items()},
        "cells": written.n_cells,
        "unseen": written.n_unseen,
        "extrapolated": written.n_extrapolated,
        "classes": {str(number): name for number, name in written.classes.items()},
    }


def evaluate(
    tell: Callable[[str, str], None],
    model: str,
    options: Told,
    records: Told,
    layers: Told,
    *,
    absences: Told | None = None,
    species: str | None = None,
    background: Any = None,
    seed: Any = None,
) -> str:
    """``maxent evaluate`` on layers."""
    fitted = _model(model)
    asked = Options(options, RecordFile, LayerFiles)
    layers = {**layers, "categorical": list(fitted.density.schema.categorical)}
    settings = Options(
        {k: v for k, v in (("background", background), ("seed", seed)) if v is not None}, Settings
    ).make(Settings)
    return _text(
        scoring.score_records(
            fitted,
            _records(records, asked),
            _layers(layers, asked),
            species=() if species is None else (species,),
            absences=None if absences is None else _records(absences, asked),
            use_absences=background is None,
            background=settings.background,
            seed=None if seed is None else settings.seed,
            verbose=0,
            tell=lambda note: tell("note", note),
        )
    )


def evaluate_table(
    tell: Callable[[str, str], None], model: str, place: str, samples: Told, background: Told
) -> str:
    """``maxent evaluate --swd``."""
    fitted = _model(model)
    tables = [
        _written_rows(Path(place), name, columns, fitted.species)
        for name, columns in (("samples", samples), ("background", background))
    ]
    return _text(
        scoring.score_swd(
            fitted, RecordFile(tables[0]), tables[1], tell=lambda note: tell("note", note)
        )
    )


def tune(
    tell: Callable[[str, str], None],
    out: str,
    options: Told,
    records: Told,
    layers: Told,
    features: Sequence[str],
    multipliers: Sequence[float],
    potentials: Sequence[str],
    *,
    species: str | None = None,
    group: Told | None = None,
    bias: str | None = None,
    jobs: float = 1,
    overwrite: bool = False,
) -> Told:
    """``maxent tune`` of one species."""
    from maxent.species.fitting.tuning_settings import TAKEN

    asked = Options(options, Settings, RecordFile, LayerFiles, StudyFiles, TuningSettings)
    of_fits = {asked.places[name] for name in asked.given} & {
        (Settings, f.name) for f in fields(Settings) if f.name not in TAKEN
    }
    if of_fits:
        name = sorted(field for _, field in of_fits)[0]
        raise ValueError(f"`{name}` is for maxent(), and has no effect on tune(); leave it out")
    tell("stage", "comparing settings")
    (tuned,) = tune_files(
        _records(records, asked),
        _layers(layers, asked),
        Path(out),
        asked.make(Settings, verbose=0),
        features=[letters.lower() for letters in _several(features)],
        multipliers=[float(m) for m in _several(multipliers)],
        potentials=_several(potentials),
        tuning=asked.make(TuningSettings),
        species=() if species is None else (species,),
        bias=bias,
        group=None if group is None else _records(group, asked),
        study=asked.make(StudyFiles),
        jobs=int(jobs),
        overwrite=overwrite,
        tell=lambda note: tell("note", note),
    )
    for note in tuned.notes:
        tell("note", note)
    rows = [{k: v for k, v in row.items() if k != "folds"} for row in tuned.rows]
    folds = [
        {"rank": row["rank"], "fold": i + 1} | one
        for row in tuned.rows
        for i, one in enumerate(row["folds"])
    ]
    return {
        "rows": columns_of(rows),
        "folds": columns_of(folds),
        "null": columns_of(tuned.null_table),
        "species": tuned.species,
        "report": str(next(path for path in tuned.files if path.suffix == ".html")),
    }


def _own_layers(folder: Path) -> LayerFiles:
    """The layers of a fit, where they still lie."""
    reading = None
    if (folder / RESULT).is_file():
        reading = read_result(folder).reading
    if reading is None:
        raise ValueError("the fit does not say where its layers are: give env")
    return LayerFiles.stored(reading)


def explain(
    tell: Callable[[str, str], None],
    model: str,
    layers: Told | None,
    x: bytes,
    y: bytes,
    crs: str | None = None,
    *,
    clamp: bool = True,
) -> list[Told]:
    """``maxent explain``: what each variable adds at places; no ``layers`` are those of the fit."""
    fitted = _model(model)
    names = fitted.density.schema.names
    if layers is None:
        files = _own_layers(Path(model).parent)
    else:
        files = _layers({**layers, "categorical": list(fitted.density.schema.categorical)})
    with files.open(only=names) as opened:
        for note in opened.notes:
            tell("note", note)
        places = [np.frombuffer(bytes(v), dtype=np.float64) for v in (x, y)]
        if crs and opened.grid.crs is not None:
            places = list(transformed(*places, crs, opened.grid.crs))
        told = explain_places(fitted, opened, *places, clamp=clamp)
    return [
        {
            "x": one.x,
            "y": one.y,
            "words": one.describe(),
            "outputs": dict(one.outputs),
            "mess": one.mess,
            "exdet": one.exdet,
            "shares": columns_of(
                [
                    {"variable": part.variable, "value": part.value, "usual": part.usual,
                     "share": part.share, "low": part.low, "high": part.high,
                     "outside": part.outside}
                    for part in one.shares
                ]
            ),
        }
        for one in told
    ]  # fmt: skip


def change(
    tell: Callable[[str, str], None],
    present: str,
    futures: Mapping[str, str],
    threshold: float,
    out: str,
    rule: str = "",
) -> Told:
    """``maxent change`` of maps."""
    others = {name: Path(path) for name, path in futures.items()}
    similar = similarities(Path(present), others)
    found = compare_maps(
        present, others, float(threshold), out, rule=rule, similarity=similar, verbose=0
    )
    for note in found.remarks():
        tell("note", note)
    return {
        "rows": columns_of([one.row() for one in found.changes]),
        "files": {what: str(Path(out) / file) for what, file in found.files.items()},
        "unit": found.unit(),
    }


def overlap(tell: Any, one: str, other: str) -> Told:
    """``maxent overlap`` of two maps."""
    found = niche_overlap(one, other)
    return {"D": found.d, "I": found.i, "correlation": found.correlation, "cells": found.cells}


def niches(tell: Callable[[str, str], None], one: str, other: str, options: Told) -> str:
    """``maxent overlap`` of two fits: in environmental space, and tests."""
    found = compare_niches(one, other, verbose=0, **options)
    for note in found.notes:
        tell("note", note)
    return _text(found.facts())


def rule(tell: Any, model: str, wanted: Any) -> Told:
    """The threshold of a rule by its name, the start of it, or a number."""
    found, value = _model(model).rule(str(wanted))
    return {"rule": found, "value": value}


def landscape(
    tell: Any, folder: str, height: float, width: float, records: float, seed: float
) -> Told:
    """A species that was made up, in files as a user would have them."""
    made = virtual_landscape(int(height), int(width), int(records), seed=int(seed))
    return {name: str(path) for name, path in write_landscape(made, folder).items()}


def version(tell: Any) -> str:
    """That of maxent."""
    return str(__version__)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        *(describe, fit, fit_table, predict_table, project, evaluate, evaluate_table, tune),
        *(explain, change, overlap, niches, rule, landscape, version),
    )
}
