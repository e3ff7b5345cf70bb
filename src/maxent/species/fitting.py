"""From records and cells to a fitted, evaluated species: no file is written here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from maxent._rows import Array
from maxent._threads import num_threads
from maxent._version import __version__
from maxent.entropies import Entropy, Shannon, Tsallis
from maxent.estimators import MaxentDensity
from maxent.species import diagnostics
from maxent.species.background import draw_background
from maxent.species.cleaning import Cleaned, clean
from maxent.species.grid import OUTSIDE, Grid
from maxent.species.layers import Layers
from maxent.species.model import check_rule
from maxent.species.occurrences import Occurrences
from maxent.species.results import CleaningStep, Replicates, Sample, SpeciesResult

_FEW = 8  # records below which spatial blocks make no sense


@dataclass(frozen=True)
class Settings:
    """What a fit of a species can be told; defaults as in maxent.jar where it has the setting.

    Parameters
    ----------
    features, potential, entropy, multiplier, preset : see ``MaxentDensity``; ``entropy`` is
        "shannon" or "tsallis:1.5".
    background : number of background cells, None for every cell.
    bias : what a bias raster is for: "background" draws the background in proportion to it,
        "prior" takes it out of the density.
    keep_duplicates : count every record of a cell; thin : least distance of records in km;
        minimum : least number of records.
    test_share : share of the records held out at random for testing.
    cv : "auto", "blocks", "checkerboard", "random" or "none"; folds : how many.
    replicates, replicate_kind : further refits ("bootstrap", "subsample" or "crossvalidate"),
        with maps of their mean and spread.
    jackknife : refit with and without each variable; bootstrap : refits for the bands of response
        curves; permutations : shuffles of each variable; diagnostic_cells : background cells that
        the refits of diagnostics use at most.
    prevalence : tau of the logistic output.
    outputs : maps to write; clamp : hold variables in their ranges there; threshold : a rule (or
        a number) for a map of presence.
    seed : of everything random. verbose : 0 silences progress.
    """

    features: str = "auto"
    potential: str = "box"
    entropy: str = "shannon"
    multiplier: float = 1.0
    preset: str | None = None
    background: int | None = 10_000
    bias: str = "background"
    keep_duplicates: bool = False
    thin: float | None = None
    minimum: int = 3
    test_share: float = 0.0
    cv: str = "auto"
    folds: int = 4
    replicates: int = 0
    replicate_kind: str = "bootstrap"
    jackknife: bool = True
    bootstrap: int = 20
    permutations: int = 10
    diagnostic_cells: int = 10_000
    prevalence: float = 0.5
    outputs: tuple[str, ...] = ("cloglog",)
    clamp: bool = True
    threshold: str | None = None
    seed: int = 0
    verbose: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                words = ", ".join(str(choice) for choice in allowed if choice is not None)
                raise ValueError(f"{name} must be one of {words}, got {getattr(self, name)!r}")
        letters = self.features
        if letters != "auto" and not (
            isinstance(letters, str) and letters and set(letters) <= set("lqpthc")
        ):
            raise ValueError(f"features must be auto or letters of lqpthc, got {letters!r}")
        if not self.multiplier > 0:
            raise ValueError(f"multiplier must be a positive number, got {self.multiplier!r}")
        if self.background is not None and not (
            isinstance(self.background, int) and self.background > 0
        ):
            raise ValueError(
                f"background must be a number of cells, or None for all, got {self.background!r}"
            )
        check_rule(self.threshold)
        if not 0 < self.prevalence < 1:
            raise ValueError(f"prevalence must lie between 0 and 1, got {self.prevalence!r}")
        if not 0 <= self.test_share < 1:
            raise ValueError(f"test_share must lie in [0, 1), got {self.test_share!r}")
        for name in ("folds", "replicates", "bootstrap", "permutations", "minimum"):
            least = {"folds": 2, "minimum": 1}.get(name, 0)
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)!r}")
        parse_entropy(self.entropy)

    def estimator(self, categorical: tuple[str, ...] = ()) -> MaxentDensity:
        """The density estimator of these settings; layers of categories are always used."""
        letters = self.features
        if categorical and letters != "auto" and "c" not in letters:
            letters += "c"
        return MaxentDensity(
            letters,
            self.potential,
            entropy=parse_entropy(self.entropy),
            multiplier=self.multiplier,
            preset=self.preset,
            categorical=categorical,
            prevalence=self.prevalence,
            verbose=self.verbose,
        )

    def listed(self) -> dict[str, Any]:
        """By name, for the report."""
        return {k: v for k, v in asdict(self).items() if k != "verbose"}


_CHOICES: dict[str, tuple[Any, ...]] = {
    "bias": ("background", "prior"),
    "cv": ("auto", "blocks", "checkerboard", "random", "none"),
    "replicate_kind": ("bootstrap", "subsample", "crossvalidate"),
    "preset": (None, "maxent", "maxnet"),
    "potential": ("box", "ball", "quadratic", "elastic", "smooth-box", "laplace", "equality"),
}


def parse_entropy(text: str) -> Entropy:
    """Read "shannon" or "tsallis:ALPHA".

    >>> parse_entropy("tsallis:1.5")
    Tsallis(alpha=1.5)
    """
    name, _, parameter = text.partition(":")
    if name == "shannon" and not parameter:
        return Shannon()
    if name == "tsallis":
        try:
            return Tsallis(float(parameter))
        except ValueError:
            pass
    raise ValueError(
        f'entropy must be "shannon" or "tsallis:ALPHA" such as tsallis:1.5, got {text!r}'
    )


# -- the region ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Region:
    """The cells that the species of one run share: background, and every cell with a record.

    Attributes
    ----------
    grid, categorical, labels : of the layers.
    X, cell : values and index of each cell, sorted by cell.
    background : which of them stand for the region.
    bias : sampling effort in each, None without.
    n_known : cells of the grid where every layer is known, None where not all were looked at.
    notes : for the reader of the report.
    """

    grid: Grid
    categorical: tuple[str, ...]
    labels: dict[str, str]
    X: Any
    cell: Array
    background: Array
    bias: Array | None
    n_known: int | None
    notes: tuple[str, ...] = ()

    def known(self, cells: Array) -> Array:
        """Whether these cells have a value in every layer."""
        place = np.minimum(np.searchsorted(self.cell, cells), self.cell.size - 1)
        return np.asarray(self.cell[place] == cells)

    def rows(self, cells: Array) -> Array:
        """The rows of cells that are known."""
        return np.searchsorted(self.cell, cells)


def survey(
    layers: Layers,
    occurrences: Occurrences,
    settings: Settings | None = None,
    *,
    bias: Layers | None = None,
    group: Occurrences | None = None,
) -> Region:
    """Read what all species need from the layers, in one pass.

    ``occurrences`` (in the CRS of the layers) are the records of all species; ``bias`` a raster
    of sampling effort on the same grid; ``group`` the records, of a target group or of chosen
    places, whose cells are the background instead of a random draw.
    """
    settings = settings or Settings()
    grid = layers.grid
    cells = grid.cells_at(occurrences.x, occurrences.y)
    notes = list(layers.notes)
    if group is None:
        drawn = draw_background(
            layers,
            settings.background,
            at=cells,
            bias=bias,
            weighted=bias is not None and settings.bias == "background",
            seed=settings.seed,
            verbose=settings.verbose,
        )
        X, cell, background = drawn.X, drawn.cell, drawn.background
        effort, n_known = drawn.bias, drawn.n_known
        if settings.background is not None and n_known < settings.background:
            notes.append(f"all {n_known} cells with data are background")
    else:
        places = grid.cells_at(group.x, group.y)
        cell = np.unique(np.concatenate([cells, places]))
        cell = cell[cell != OUTSIDE]
        X, known = layers.at(cell)
        background = np.isin(cell, places)
        if not (known & background).any():
            raise ValueError(
                f"{group.source}: none of its {len(group)} records lies on a cell with data, so "
                "there is no background; check its coordinates"
            )
        X, cell, background = X[known].reset_index(drop=True), cell[known], background[known]
        effort, n_known = None, None
        notes.append(
            f"background: the {int(background.sum())} cells with records of {group.source}"
        )
    use_prior = effort is not None and settings.bias == "prior"
    labels = layers.labels()
    return Region(
        grid,
        layers.categorical,
        labels,
        X,
        cell,
        background,
        effort if use_prior else None,
        n_known,
        tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A species ready to be fitted."""

    species: str
    train: Sample
    test: Sample | None
    records: dict[str, Array]
    cleaning: list[CleaningStep]
    notes: list[str]


def prepare(
    region: Region,
    occurrences: Occurrences,
    settings: Settings | None = None,
    test: Occurrences | None = None,
) -> Prepared:
    """Clean the records of one species and put them on the cells of the region."""
    settings = settings or Settings()
    name = occurrences.names()[0] if len(occurrences) else "species"
    cleaned = _cleaned(occurrences, region, settings, settings.minimum)
    notes, steps = list(region.notes) + cleaned.notes, list(cleaned.steps)
    records = cleaned.occurrences
    held = _held_out(len(records), settings)
    train_cell, test_cell = cleaned.cell[~held], cleaned.cell[held]
    x, y = records.x, records.y
    if test is not None:
        extra = _cleaned(test, region, settings, 1)
        notes += extra.notes
        steps += [replace(s, what=f"test records: {s.what}") for s in extra.steps]
        test_cell = extra.cell
        x, y = np.append(x, extra.occurrences.x), np.append(y, extra.occurrences.y)
        held = np.append(held, np.ones(len(extra.occurrences), bool))
    sample = _sample(region, train_cell, region.background)
    tested = None
    if test_cell.size:
        tested = _sample(region, test_cell, np.zeros(region.cell.size, bool))
    return Prepared(name, sample, tested, {"x": x, "y": y, "test": held}, steps, notes)


def _cleaned(occurrences: Occurrences, region: Region, settings: Settings, minimum: int) -> Cleaned:
    return clean(
        occurrences,
        region.grid,
        region.known,
        keep_duplicates=settings.keep_duplicates,
        thin_km=settings.thin,
        minimum=minimum,
        seed=settings.seed,
    )


def _held_out(n: int, settings: Settings) -> Array:
    held = np.zeros(n, dtype=bool)
    count = round(settings.test_share * n)
    if count:
        if n - count < settings.minimum:
            raise ValueError(
                f"holding {count} of {n} records out leaves fewer than {settings.minimum}; lower "
                "the test share"
            )
        held[np.random.default_rng(settings.seed).permutation(n)[:count]] = True
    return held


def _sample(region: Region, cells: Array, background: Array) -> Sample:
    counts = np.bincount(region.rows(cells), minlength=region.cell.size).astype(np.float64)
    rows = np.flatnonzero(background | (counts > 0))
    prior = None
    if region.bias is not None:
        bias = region.bias
        prior = np.maximum(bias, bias[bias > 0].min(initial=1.0))[rows]
    x, y = region.grid.centres(region.cell[rows])
    return Sample(
        region.X.iloc[rows].reset_index(drop=True),
        counts[rows],
        np.column_stack([x, y]),
        prior,
        background[rows],
    )


# -- the fit -------------------------------------------------------------------------------------


def fit_species(
    prepared: Prepared,
    settings: Settings | None = None,
    *,
    categorical: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    grid: Grid | None = None,
    command: str = "",
    stage: Callable[[str], None] = lambda name: None,
) -> tuple[SpeciesResult, list[MaxentDensity]]:
    """Fit one species and diagnose the fit; also returns the models of asked-for replicates.

    ``stage`` is called with the name of each step as it begins.
    """
    settings = settings or Settings()
    sample, test = prepared.train, prepared.test
    notes = list(prepared.notes)
    clock = _Clock(stage)
    estimator = settings.estimator(tuple(c for c in categorical if c in sample.X.columns))
    with clock("fit"), _collected(notes):
        model = diagnostics.fit_sample(estimator, sample)
    with clock("evaluation"), _collected(notes):
        evaluation = diagnostics.evaluate(model, sample, test)
    small, few = _thinned(sample, settings), len(sample.counts) > settings.diagnostic_cells * 1.5
    if few:
        notes.append(
            f"cross-validation, jackknife and response bands use {len(small.counts)} of the "
            f"{len(sample.counts)} cells"
        )
    refits: dict[str, Any] = {"n_jobs": num_threads(), "verbose": settings.verbose}
    replicates, models = _replicated(estimator, small, settings, clock, notes)
    importance = jackknife = None
    if settings.permutations:
        with clock("importance"):
            importance = diagnostics.importance(
                model, sample, repeats=settings.permutations, seed=settings.seed
            )
    if settings.jackknife:
        with clock("jackknife"):
            jackknife = diagnostics.jackknife(estimator, small, test, **refits)
    with clock("response curves"):
        responses = diagnostics.responses(
            estimator, model, small, bootstrap=settings.bootstrap, seed=settings.seed, **refits
        )
    bound = str(model.bound()) if settings.entropy == "shannon" else ""
    result = SpeciesResult(
        species=prepared.species,
        model=model,
        settings=settings.listed(),
        command=command,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        layers=labels or {name: name for name in sample.X.columns},
        categorical=model.schema_.categorical,
        grid=grid,
        records=prepared.records,
        n_background=int(sample.at_background.sum()),
        cleaning=prepared.cleaning,
        notes=list(dict.fromkeys(notes)),
        evaluation=evaluation,
        replicates=replicates,
        importance=importance,
        jackknife=jackknife,
        responses=responses,
        maps=[],
        tables={},
        bound=bound,
        seconds=clock.seconds,
    )
    return result, models


def _replicated(
    estimator: MaxentDensity,
    sample: Sample,
    settings: Settings,
    clock: _Clock,
    notes: list[str],
) -> tuple[list[Replicates], list[MaxentDensity]]:
    found: list[Replicates] = []
    kind = settings.cv
    presences = int((sample.counts > 0).sum())
    if kind == "auto":
        kind = "blocks" if sample.coordinates is not None and presences >= _FEW else "random"
    how: dict[str, Any] = {
        "seed": settings.seed,
        "n_jobs": num_threads(),
        "verbose": settings.verbose,
    }
    if kind != "none" and presences < settings.folds:
        notes.append(f"no cross-validation: {presences} records for {settings.folds} folds")
    elif kind != "none":
        with clock("cross-validation"):
            found.append(
                diagnostics.replicate(estimator, sample, kind=kind, n=settings.folds, **how)[0]
            )
    models: list[MaxentDensity] = []
    if settings.replicates:
        kind = {"crossvalidate": "random"}.get(settings.replicate_kind, settings.replicate_kind)
        with clock("replicates"):
            repeated, models = diagnostics.replicate(
                estimator, sample, kind=kind, n=settings.replicates, keep_models=True, **how
            )
        found.append(repeated)
    return found, models


def _thinned(sample: Sample, settings: Settings) -> Sample:
    """All presences and at most ``diagnostic_cells`` of the other cells."""
    others = np.flatnonzero(sample.counts == 0)
    if others.size <= settings.diagnostic_cells:
        return sample
    rng = np.random.default_rng(settings.seed)
    chosen = rng.choice(others, settings.diagnostic_cells, replace=False)
    return sample.take(np.sort(np.concatenate([np.flatnonzero(sample.counts > 0), chosen])))


class _Clock:
    """Seconds by stage; tells whoever listens which stage begins."""

    def __init__(self, stage: Callable[[str], None]) -> None:
        self.stage, self.seconds = stage, {}  # type: ignore[var-annotated]

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.stage(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@contextmanager
def _collected(notes: list[str]) -> Iterator[None]:
    """Warnings become notes of the report."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [str(w.message) for w in caught]
