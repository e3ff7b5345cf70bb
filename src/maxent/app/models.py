"""What the page is told, what it sends, and what it keeps in files, as models.

The names are those of ``web/src/api.ts``, which checks the same on the other side.
"""
# ruff: noqa: D101 - the fields say it

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | bool | int | float | None
Number = float | None
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Said(BaseModel):
    """What goes to the page or comes from it: all fields, of their kinds, and no others."""

    model_config = _STRICT


class Error(Said):
    error: str


class Grid(Said):
    transform: list[float]
    width: int
    height: int
    crs: str | None
    definition: str | None
    geographic: bool
    turn: float
    words: str


class Meridian(Said):
    label: str
    line: list[list[float]]


class World(Said):
    coast: list[list[list[float]]]
    borders: list[list[list[float]]]
    graticule: list[Meridian]
    x: list[float]
    y: list[float]
    metres: list[list[float]]


class MapFacts(Grid):
    zooms: int
    size: int
    low: float
    high: float


# -- the draft and its jobs ------------------------------------------------------------------------


class Choices(Said):
    records: dict[str, Scalar | list[str]]
    layers: dict[str, Scalar | list[str] | list[float]]
    study: dict[str, Scalar]
    settings: dict[str, Scalar | list[str]]
    species: list[str]
    background: str
    background_file: str | None
    projections: list[str]
    test: str | None
    surveys: list[str]
    counts: list[str]
    sources: dict[str, Scalar | list[str]]
    out: str
    tuning: dict[str, Scalar | list[str] | list[float]]


class TuningDraft(Said):
    command: str
    lacks: str
    notes: list[str]


class Draft(Said):
    choices: Choices
    example: bool
    command: str
    script: str
    lacks: str
    tuning: TuningDraft
    edits: int


class JobEvent(BaseModel):
    """A line of events.jsonl; what the page does not show of it is left out."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    kind: Literal["note", "begin", "stage", "done", "progress", "candidate"]
    at: float
    text: str | None = None
    species: str | list[str] | None = None
    stage: str | None = None
    status: str | None = None
    error: str | None = None
    auc: Number = None
    done: int | None = None
    total: int | None = None
    features: str | None = None
    potential: str | None = None
    multiplier: Number = None


class JobFacts(BaseModel):
    """A job.json."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    argv: list[str] = Field(min_length=1)
    out: str
    started: float
    home: str = ""
    draft: dict[str, Any] | None = None


class Job(Said):
    number: int
    kind: str
    command: str
    out: str
    started: float
    status: Literal["running", "done", "stopped", "failed", "lost"]
    error: str
    events: list[JobEvent]


class Run(BaseModel):
    """What summary.json says of a result in a list."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    species: str | None = None
    n_records: Number = None
    auc: Number = None
    test_auc: Number = None
    test_auc_of: str | None = None
    gap: Number = None
    seconds: Number = None


class ListedRun(Run):
    model_config = _STRICT

    run: str
    written: float


class Option(Said):
    help: str
    group: str | None
    default: Scalar | list[str]
    choices: list[Scalar]
    least: Number
    most: Number
    kind: str


class State(Said):
    version: str
    folders: list[str]
    viewing: bool
    draft: Draft
    options: dict[str, Option]
    source_options: dict[str, Option]
    rules: list[str]
    jobs: list[Job]
    runs: list[ListedRun]
    notes: list[str]


class Entry(Said):
    name: str
    path: str
    rasters: int


class File(Said):
    name: str
    path: str
    bytes: int


class Listing(Said):
    folder: str
    above: str | None
    roots: list[str]
    folders: list[Entry]
    files: list[File]


class Uploaded(Said):
    path: str
    bytes: int


class Asked(Said):
    asked: bool


# -- before a fit ----------------------------------------------------------------------------------

Ring = list[list[float]]


class SpeciesRecords(Said):
    name: str
    counts: dict[str, int]
    x: list[Number]
    y: list[Number]
    row: list[int]
    fate: list[str]
    doubt: list[str]
    hidden: int
    study: list[Ring]
    region: str
    notes: list[str]


class Records(Said):
    species: list[SpeciesRecords]
    grid: Grid | None
    notes: list[str]


class VisitFile(Said):
    path: str
    kind: Literal["survey", "counts"]
    error: str
    visits: int
    finds: int
    columns: str
    notes: list[str]
    x: list[Number]
    y: list[Number]
    found: list[bool]
    hidden: int


class Visits(Said):
    files: list[VisitFile]


class LayerRow(Said):
    name: str
    label: str
    file: str
    band: int
    crs: str
    grid: str
    difference: str
    low: Number
    high: Number
    vif: Number
    vif_infinite: bool
    categorical: bool
    levels: int
    drop: str


class Correlation(Said):
    variables: list[str]
    values: list[list[Number]]


class Layers(Said):
    layers: list[LayerRow]
    fits: bool
    grid: Grid | None
    correlation: Correlation | None
    notes: list[str]


class Extent(Said):
    words: str
    rings: list[Ring]
    notes: list[str]


# -- results ---------------------------------------------------------------------------------------


class Share(Said):
    variable: str
    value: str | float
    usual: Number
    share: float
    low: Number
    high: Number
    outside: bool


class OnCurve(Said):
    variable: str
    x: str | float
    y: Number


class Unknown(Said):
    known: Literal[False]
    said: str


class Why(Said):
    known: Literal[True]
    said: str
    x: float
    y: float
    cell: int
    outputs: dict[str, float]
    exponent: float
    base: float
    shares: list[Share]
    mess: Number
    most_dissimilar: str | None
    exdet: Number
    intervals: dict[str, tuple[float, float]]
    curves: list[OnCurve]


class Cleaning(Said):
    what: str
    records: int
    examples: list[str]


class Certificate(Said):
    said: str
    gap: Number
    gain: Number


class Places(Said):
    x: list[Number]
    y: list[Number]
    test: list[bool]


class Evaluation(Said):
    scores: dict[str, Number]
    test_scores: dict[str, Number] | None
    roc: dict[str, dict[str, list[Number] | None]]
    omission: dict[str, list[Number] | None]
    thresholds: list[dict[str, Scalar]]


class Replicates(Said):
    kind: str
    table: list[dict[str, Scalar]]


class Jackknife(Said):
    all: Number
    only: list[Number]
    without: list[Number]


class Jackknives(Said):
    variables: list[str]
    scores: dict[str, Jackknife]


class Response(Said):
    variable: str
    kind: str
    categorical: bool
    x: list[str | float | None]
    y: list[Number]
    low: list[Number] | None
    high: list[Number] | None


class ResultMap(Said):
    file: str
    kind: str
    label: str
    of: str
    training: bool
    classes: dict[str, str] | None


class RichnessRow(Said):
    species: str
    run: str | None
    summed: bool
    rule: str
    threshold: Number
    said: str


class Richness(Said):
    species: list[RichnessRow]
    maps: list[ResultMap]


class Result(Said):
    run: str
    species: str
    created: str
    version: str
    command: str
    script: str
    notes: list[str]
    cleaning: list[Cleaning]
    bound: str
    n_background: int
    certificate: Certificate
    grid: Grid | None
    records: Places
    study: list[Ring]
    evaluation: Evaluation
    replicates: list[Replicates]
    importance: dict[str, list[str] | list[Number]] | None
    jackknife: Jackknives | None
    responses: list[Response]
    variables: list[str]
    categorical: list[str]
    layers_reachable: bool
    maps: list[ResultMap]
    changes: list[dict[str, Scalar]]
    default_rule: str
    extent: str
    mask: str | None
    report: str | None
    files: list[str]


# -- comparisons of settings -----------------------------------------------------------------------


class ListedTuning(Said):
    tuning: str
    written: float
    species: list[str]


class TuningColumn(Said):
    name: str
    title: str
    says: str
    better: int
    plotted: bool


class TunedPlaces(Said):
    x: list[float]
    y: list[float]
    fold: list[str]


class TunedSpecies(Said):
    species: str
    columns: list[TuningColumn]
    rows: list[dict[str, Scalar]]
    folds: list[dict[str, Scalar]]
    places: TunedPlaces
    nulls: list[dict[str, Number]]
    null_test: list[dict[str, Scalar]]
    report: str | None


class Tuning(Said):
    tuning: str
    species: list[TunedSpecies]
    grid: Grid | None
    known: bool
    command: str


# -- what is made of results later on --------------------------------------------------------------


class Scores(Said):
    name: str
    scores: dict[str, Scalar]
    calibration: list[dict[str, Number]]
    file: str


class Survey(Said):
    name: str
    sites: list[dict[str, Scalar]]
    files: list[str]


class Afterwards(Said):
    evaluations: list[Scores]
    surveys: list[Survey]


class NullTest(Said):
    test: str
    statistic: str
    direction: str
    observed: float
    null_mean: float
    p_different: float
    p_similar: float
    p_value: float
    null: list[float]
    says: str


class Niche(Said):
    occupancy: list[list[float]]
    available: list[list[float]]
    half_of_available: float
    records: list[list[float]]


class Environment(Said):
    variables: list[str]
    loadings: list[list[float]]
    explained: list[float]
    low: list[float]
    high: list[float]
    niches: list[Niche]


class OverlapOfMaps(Said):
    schoener_d: Number
    warren_i: Number


class Overlap(Said):
    name: str
    space: str
    species: list[str] | None
    output: str
    schoener_d: Number
    warren_i: Number
    maps: OverlapOfMaps | None
    cells: int | None
    tests: list[NullTest]
    environment: Environment | None
    notes: list[str]
    file: str


# -- what the page sends ---------------------------------------------------------------------------


class AskNothing(Said):
    pass


class AskVisits(Said):
    path: str = Field(min_length=1)


class AskFit(Said):
    resume: bool = False


class AskCandidate(Said):
    tuning: str = Field(min_length=1)
    species: str = Field(min_length=1)
    rank: int = Field(ge=1)


class AskEvaluation(Said):
    run: str = Field(min_length=1)
    records: str = Field(min_length=1)
    absences: str | None = None
    presence: str | None = None
    species: str | None = None


class AskOverlap(Said):
    one: str = Field(min_length=1)
    other: str = Field(min_length=1)
    space: Literal["geography", "environment"] = "geography"
    test: Literal["identity", "background"] | None = None
    null: int = Field(default=100, ge=1, le=10_000)


class AskSites(Said):
    run: str = Field(min_length=1)
    count: int = Field(default=20, ge=1, le=1000)
    apart: float = Field(default=0, ge=0, le=5000)
    visited: str | None = None
    detection: float = Field(default=1, gt=0, le=1)


class AskRegion(Said):
    rings: list[list[list[float]]]
    crs: str | None = None


class AskWorld(Said):
    transform: list[float] = Field(min_length=6, max_length=6)
    width: int = Field(gt=0)
    height: int = Field(gt=0)
    definition: str | None


class AskProjection(Said):
    run: str = Field(min_length=1)
    layers: str = Field(min_length=1)
    name: str | None = None
    extent: str = Field(default="layers", min_length=1)
    mask: Literal["mess", "exdet"] | None = None


class AskChange(Said):
    run: str = Field(min_length=1)
    future: str = Field(min_length=1)
    threshold: float = Field(ge=0, le=1)
