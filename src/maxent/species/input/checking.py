"""What a fit would make of files, before it: the fate of every record, and layers side by side.

No model is fitted and nothing is written; ``maxent check`` prints it and the app shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.results import Collinearity, Sample
from maxent.species.fitting.settings import VIF, Settings
from maxent.species.input.crs import short_crs
from maxent.species.input.files import (
    LayerFiles,
    RecordFile,
    StudyFiles,
    by_folder,
    chosen_species,
)
from maxent.species.input.layers.alignment import difference, share_crs
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.hints import looks_categorical
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.placement import same_grid
from maxent.species.input.layers.similarity import Reference
from maxent.species.input.layers.units import UnlikeUnits, unlike_units
from maxent.species.input.records.cleaning import check_enough, making_region, sifted
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.input.times.dated_layers import DatedLayers, Step, matched
from maxent.species.input.times.record_dates import dates_of_file
from maxent.species.input.times.settings import TimeSettings
from maxent.species.judging.collinearity import collinearity
from maxent.species.study.background import draw_background
from maxent.species.study.selection import by_vif
from maxent.species.study.study_region import StudyRegion

USED = "used"
TOO_FEW = "too few for a fit"
_CELLS = 10_000  # that correlations are of


@dataclass(frozen=True, eq=False)
class RecordFates:
    """The records of one species in the CRS of the layers, and what a fit would do with each.

    Attributes
    ----------
    species : str
        Name of the species.
    x : array (n_records,)
        x of each record.
    y : array (n_records,)
        y of each record.
    row : array (n_records,)
        Its line in the file.
    fate : array (n_records,)
        "used", or why the record is taken out, or "too few for a fit".
    notes : list of str
        What was assumed; which records are doubtful; why a fit would refuse the species.
    study : StudyRegion or None
        The region that background would be drawn from, None for all of the layers.
    doubt : array (n_records,) or None
        Why a record is doubtful, "" where it is not.

    Examples
    --------
    >>> fate = np.array(["used", "used", "missing coordinates"], dtype=object)
    >>> places = np.array([1.0, 2.0, np.nan])
    >>> RecordFates("Aa bb", places, places, np.arange(2, 5), fate, []).counts
    {'used': 2, 'missing coordinates': 1}
    """

    species: str
    x: Array
    y: Array
    row: Array
    fate: Array
    notes: list[str]
    study: StudyRegion | None = None
    doubt: Array | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many records there are of each fate, in the order of cleaning."""
        return {str(fate): int((self.fate == fate).sum()) for fate in dict.fromkeys(self.fate)}


def check_records(
    records: RecordFile,
    layers: LayerFiles,
    settings: Settings | None = None,
    *,
    study: StudyFiles | None = None,
    times: TimeSettings | None = None,
    species: Sequence[str] = (),
) -> tuple[list[RecordFates], list[str]]:
    """What cleaning would do to every record, and notes on how the file was read.

    Parameters
    ----------
    records : RecordFile
        The file of records.
    layers : LayerFiles
        The layers of the fit.
    settings : Settings, default None
        What the fit is told; None is ``Settings()``.
    study : StudyFiles, default None
        Where background is drawn from; None for all of the layers.
    times : TimeSettings, default None
        Dates of the records and times of the layers; None for none.
    species : sequence of str, default ()
        Names of the species to take; all of them if empty.
    """
    settings = settings or Settings(verbose=0)
    with ExitStack() as files:
        opened: Layers | DatedLayers
        steps: list[Step] = []
        if times is None or times.date_column is None:
            opened = files.enter_context(layers.open())
            everything, notes = records.read(opened.grid)
        else:
            opened = files.enter_context(DatedLayers.open(layers, times))
            everything, notes = records.read(opened.grid)
            dates = dates_of_file(records.path, times.date_column, everything)
            found = matched(everything, dates, opened, times)
            everything, steps, notes = found.records, found.steps, [*notes, *found.notes]
        choice, more = (study or StudyFiles()).read(opened.grid)
        fates = []
        for name in chosen_species(everything.names(), species, records.path):
            mine = everything.of_species(name)
            region = None
            if choice is not None:
                around = making_region(mine, opened, settings.clean)
                if around.any():
                    region = choice.around(mine.x[around], mine.y[around], opened.grid)
            known = partial(_known, opened, steps)
            fates.append(_fates(mine, opened.grid, known, settings, region))
        return fates, [*notes, *more, *opened.notes]


def _known(layers: Layers | DatedLayers, steps: Sequence[Step], cells: Array) -> Array:
    """Whether every layer has a value at some cells, at the time of each."""
    if isinstance(layers, Layers):
        return layers.read_cells(cells)[1]
    step, cell = np.divmod(cells, layers.grid.size)
    known = np.zeros(len(cells), dtype=bool)
    for i in np.unique(step):
        with layers.at(steps[i]) as opened:
            known[step == i] = opened.read_cells(cell[step == i])[1]
    return known


def _fates(
    records: Occurrences,
    grid: Grid,
    known: Callable[[Array], Array],
    settings: Settings,
    study: StudyRegion | None,
) -> RecordFates:
    cleaned = sifted(
        records,
        grid,
        known,
        within=None if study is None else study.contains,
        keep_duplicates=settings.keep_duplicates,
        thin_km=settings.thin,
        seed=settings.seed,
        drop_doubtful=settings.clean,
    )
    notes, fit_for = list(cleaned.notes), USED
    try:
        check_enough(cleaned, records, grid, settings.minimum)
    except ValueError as error:  # what a fit would say
        notes, fit_for = [*notes, f"a fit would refuse {error}"], TOO_FEW
    parts = [(fit_for, cleaned.occurrences)]
    parts += [(step.what, lost) for step, lost in zip(cleaned.steps, cleaned.lost, strict=True)]
    fate = np.concatenate([np.full(len(part), what, dtype=object) for what, part in parts])
    x, y, row = (
        np.concatenate([getattr(part, name) for _, part in parts]) for name in ("x", "y", "row")
    )
    name = records.names()[0] if len(records) else records.source
    doubt = np.array([cleaned.doubts.get(int(at), "") for at in row], dtype=object)
    return RecordFates(name, x, y, row, fate, notes, study, doubt)


@dataclass(frozen=True, eq=False)
class LayerFacts:
    """One layer: where it comes from, and what its values look like.

    Attributes
    ----------
    name : str
        Name of the layer.
    label : str
        File and band.
    grid : Grid
        Its grid.
    crs : str
        Its coordinate reference system.
    difference : str
        How its grid differs from that of most layers, "" where it does not.
    low : float
        Smallest value.
    high : float
        Largest value.
    vif : float
        Variance inflation factor among all layers.
    categorical : bool
        Whether it was said to hold categories.
    levels : int
        Distinct values where it was, or where they look like it.
    drop : str
        Why VIF suggests to leave it out, "" where it does not.
    """

    name: str
    label: str
    grid: Grid
    crs: str
    difference: str = ""
    low: float = np.nan
    high: float = np.nan
    vif: float = np.nan
    categorical: bool = False
    levels: int = 0
    drop: str = ""


@dataclass(frozen=True, eq=False)
class LayerCheck:
    """All layers side by side; ``collinearity`` is None where they do not share a grid.

    Attributes
    ----------
    layers : list of LayerFacts
        What is known of each layer.
    grid : Grid or None
        The grid that they share; None where they do not.
    collinearity : Collinearity or None
        Correlations and VIF; None where they do not share a grid.
    notes : list of str
        What was assumed.
    """

    layers: list[LayerFacts]
    grid: Grid | None
    collinearity: Collinearity | None
    notes: list[str]

    @property
    def fits(self) -> bool:
        """Whether all layers are on one grid, or are resampled to one."""
        return self.grid is not None


def check_layers(layers: LayerFiles, *, vif: float = VIF, cells: int = _CELLS) -> LayerCheck:
    """Compare the grids of layers; where they agree, also values, correlations and VIF.

    Parameters
    ----------
    layers : LayerFiles
        Which rasters to open, and how.
    vif : float, default 10.0
        Limit above which variables are suggested to be left out, the worst first.
    cells : int, default 10000
        Random cells whose values are looked at.
    """
    bands = share_crs(layers.bands(), None, [])
    first = max(bands, key=lambda s: sum(same_grid(s.grid, other.grid) for other in bands))
    facts = [
        LayerFacts(
            band.name,
            band.label,
            band.grid,
            short_crs(band.grid.crs),
            "" if same_grid(band.grid, first.grid) else difference(band, first),
            categorical=band.name in layers.categorical,
        )
        for band in bands
    ]
    for band in bands:
        band.close()
    if layers.align == "refuse" and any(fact.difference for fact in facts):
        return LayerCheck(facts, None, None, [])
    with layers.open() as opened:
        drawn = draw_background(opened, cells, verbose=0)
        sample = Sample(drawn.X, np.zeros(len(drawn.X)))
        found = collinearity(sample, layers.categorical)
        continuous = [name for name in opened.names if name not in layers.categorical]
        dropped = by_vif(sample, continuous, vif)
        told = [_described(fact, drawn.X[fact.name], found, dropped) for fact in facts]
        return LayerCheck(told, opened.grid, found, list(opened.notes))


@dataclass(frozen=True, eq=False)
class ScenarioCheck:
    """The layers of a scenario beside those of the fit.

    Attributes
    ----------
    name : str
        Name of the scenario.
    fitted : dict of tuple
        Smallest and largest value of each layer of numbers, where the model is fitted.
    found : dict of tuple
        The same in the scenario.
    outside : dict of float
        Share of the scenario's cells with a value outside the first of these.
    lacking : tuple of str
        Layers that the scenario does not have.
    new_levels : dict of tuple
        Of layers of categories, those that are not there where the model is fitted.
    unlike : tuple of UnlikeUnits
        Layers that seem to be in other units.
    notes : tuple of str
        What was assumed.
    """

    name: str
    fitted: dict[str, tuple[float, float]]
    found: dict[str, tuple[float, float]]
    outside: dict[str, float]
    lacking: tuple[str, ...]
    new_levels: dict[str, tuple[float, ...]]
    unlike: tuple[UnlikeUnits, ...]
    notes: tuple[str, ...]


def check_scenarios(
    layers: LayerFiles, scenarios: Sequence[LayerFiles], *, cells: int = _CELLS
) -> list[ScenarioCheck]:
    """Compare the values of other layers with those that a model would be fitted to.

    Parameters
    ----------
    layers : LayerFiles
        The layers of the fit.
    scenarios : sequence of LayerFiles
        Those to project to.
    cells : int, default 10000
        Random cells of each whose values are looked at.
    """
    with layers.open() as opened:
        X = draw_background(opened, cells, verbose=0).X
    return [
        _compared(name, files, layers, X, cells) for name, files in by_folder(scenarios).items()
    ]


def _compared(
    name: str, scenario: LayerFiles, layers: LayerFiles, X: Any, cells: int
) -> ScenarioCheck:
    bands = scenario.bands()
    there = {band.name for band in bands}
    for band in bands:
        band.close()
    shared = [variable for variable in X.columns if variable in there]
    categorical = tuple(c for c in layers.categorical if c in shared)
    lacking = tuple(variable for variable in X.columns if variable not in there)
    if not shared:
        return ScenarioCheck(name, {}, {}, {}, lacking, {}, (), ())
    with replace(scenario, categorical=categorical).open(only=shared) as opened:
        other = draw_background(opened, cells, verbose=0).X
        notes = opened.notes
    numbers = [variable for variable in shared if variable not in categorical]
    fitted, found = (
        {v: (float(table[v].min()), float(table[v].max())) for v in numbers} for table in (X, other)
    )
    values = {v: np.asarray(other[v], np.float64) for v in numbers}
    outside = {
        v: float(np.mean((values[v] < low) | (values[v] > high)))
        for v, (low, high) in fitted.items()
    }
    new = {v: tuple(sorted(set(other[v].tolist()) - set(X[v].tolist()))) for v in categorical}
    unlike = unlike_units(values, fitted, [Reference.from_table(X[shared], categorical)])
    levels = {v: some for v, some in new.items() if some}
    return ScenarioCheck(name, fitted, found, outside, lacking, levels, tuple(unlike), notes)


def _described(
    fact: LayerFacts,
    values: Any,
    found: Collinearity,
    dropped: dict[str, str],
) -> LayerFacts:
    numbers = np.asarray(values, dtype=np.float64)
    inflated = dict(zip(found.variables, found.vif.tolist(), strict=True))
    likely = fact.categorical or looks_categorical(numbers)
    return replace(
        fact,
        low=float(numbers.min()),
        high=float(numbers.max()),
        vif=inflated.get(fact.name, np.nan),
        levels=int(np.unique(numbers).size) if likely else 0,
        drop=dropped.get(fact.name, ""),
    )
