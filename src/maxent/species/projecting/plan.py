"""What is drawn at the cells of a window: the maps asked for, all from one reading."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxent.density import OUTPUTS, FittedDensity, fitted_density
from maxent.density.explanation import Share, share_of
from maxent.density.intervals import LEVEL, ends, quantile
from maxent.features import Schema
from maxent.features.cells import UNKNOWN, Cells
from maxent.features.scoring import Scorer
from maxent.rows.arrays import Array
from maxent.species.batch.slugs import slugs
from maxent.species.fitting.record_kinds import APART, ENDS, INTENSITIES, KM2, KindsOfRecords
from maxent.species.input.crs import same_crs
from maxent.species.input.layers.extrapolation import Extrapolation
from maxent.species.input.layers.geodesy import CellAreas, cell_areas
from maxent.species.input.layers.grid import Window
from maxent.species.input.layers.layers import Block, Layers
from maxent.species.input.layers.places import PLACE
from maxent.species.input.layers.similarity import Reference, codes_of
from maxent.species.input.layers.units import UnlikeUnits, ranges_of, unlike_units
from maxent.species.judging.bands import DrawnAreas, DrawnMaps
from maxent.species.study.effort import RecordEffort
from maxent.species.study.study_region import StudyRegion

SPLIT = ("environment", "space")
EXTRAS = (*SPLIT, "clamping", "mess", "mod", "exdet")
MASKS = ("mess", "exdet")
STATISTICS: dict[str, Callable[[Array], Array]] = {
    "replicates_mean": lambda y: y.mean(axis=0),
    "replicates_sd": lambda y: y.std(axis=0, ddof=min(1, len(y) - 1)),
    "replicates_min": lambda y: y.min(axis=0),
    "replicates_max": lambda y: y.max(axis=0),
    "replicates_median": lambda y: np.median(y, axis=0),
}
CLOGLOG_ENDS = tuple(f"cloglog_{end}" for end in ENDS)
_CHUNK = 1 << 16  # cells scored at once
_LOOKED_AT = 20_000  # cells whose values are compared with those of the fit
_HARDLY_ANY = 0.1  # of the mean intensity
_SHOWN = 10  # unseen levels that a message names


class Map(NamedTuple):
    """How one map is stored; ``masked`` where cells that extrapolate may be left out of it."""

    what: str
    dtype: str = "float32"
    nodata: float = float("nan")
    tags: Mapping[str, str] = {}
    masked: bool = False


class Compiled(NamedTuple):
    """A model that is ready to score."""

    density: FittedDensity
    scorer: Scorer

    @classmethod
    def from_density(cls, density: Any) -> Compiled:
        """The scorer of a density whose categories are numbers, as those of rasters are."""
        density = fitted_density(density)
        schema = density.schema
        for name, levels in zip(schema.categorical, schema.levels, strict=True):
            words = [level for level in levels if not isinstance(level, int | float)]
            if words:
                raise ValueError(
                    f"the model has {name!r} with levels such as {words[0]!r}, and rasters hold "
                    "numbers: fit the model to the numbers of the layer"
                )
        return cls(density, density.scorer)

    def cells(self, columns: Mapping[str, Array]) -> Cells:
        """Columns read from layers, as ``Schema.read`` would."""
        schema = self.density.schema
        kept = [columns[name] for name in schema.continuous]
        count = next(iter(columns.values())).size
        values = np.empty((len(kept), count), np.result_type(np.float32, *(c.dtype for c in kept)))
        for row, column in enumerate(kept):
            values[row] = column
        codes = np.empty((len(schema.categorical), count), dtype=np.int32)
        for row, (name, levels) in enumerate(zip(schema.categorical, schema.levels, strict=True)):
            codes[row] = codes_of(columns[name], levels)[0]
        return Cells(values, codes)

    def cloglog(self, cells: Cells, clamp: bool) -> Array:
        """The cloglog output at some cells."""
        return self.density.output(self.scorer.scores(cells, clamp), "cloglog")


@dataclass
class Tally:
    """What was encountered on the way."""

    counts: Counter[str] = field(default_factory=Counter)
    unseen: dict[str, set[float]] = field(default_factory=dict)
    km2: dict[str, float] = field(default_factory=dict)  # of some of the counts
    outside: Counter[str] = field(default_factory=Counter)  # cells beyond the range, by variable
    values: dict[str, list[Array]] = field(default_factory=dict)  # of some cells, by variable
    drawn: DrawnAreas = field(default_factory=DrawnAreas)  # of presence, where intervals are known
    expected: float = 0.0  # sum of an intensity per km2
    sums: Array | None = None  # what the interval of that is found from

    def add(self, other: Tally) -> None:
        """Add what another window encountered."""
        self.counts.update(other.counts)
        self.outside.update(other.outside)
        self.drawn.merge(other.drawn)
        self.expected += other.expected
        self.add_sums(other.sums)
        for what, area in other.km2.items():
            self.km2[what] = self.km2.get(what, 0.0) + area
        for name, levels in other.unseen.items():
            self.unseen.setdefault(name, set()).update(levels)
        for name, parts in other.values.items():
            self.values.setdefault(name, []).extend(parts)

    def add_sums(self, sums: Array | None) -> None:
        """Add what the interval of the number that is expected is found from, in other cells."""
        if sums is not None:
            self.sums = sums if self.sums is None else self.sums + sums

    def quantiles(self) -> dict[str, Array]:
        """Of each variable, at 0, 1 ... 100 % of the cells whose values were kept."""
        together = {name: np.concatenate(parts) for name, parts in self.values.items()}
        return {
            name: np.percentile(values, np.arange(101), method="inverted_cdf")
            for name, values in together.items()
            if values.size
        }

    def warn(self) -> None:
        """One warning for all categories that the model does not know."""
        if not self.unseen:
            return
        parts = [
            f"{name} {', '.join(f'{level:g}' for level in sorted(levels)[:_SHOWN])}"
            for name, levels in self.unseen.items()
        ]
        warnings.warn(
            f"{self.counts['unseen']} of {self.counts['cells']} cells have a category that was not "
            f"there at the fit and gets no effect: {'; '.join(parts)}",
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is done with a window."""

    layers: Layers
    model: Compiled
    replicates: tuple[Compiled, ...]
    reference: Reference | None
    extrapolation: Extrapolation | None
    mask: str | None
    clamp: bool
    threshold: float | None
    maps: dict[str, Map]
    areas: CellAreas | None
    effort: RecordEffort | None = None
    extent: StudyRegion | None = None  # where the maps are drawn, None for all of the layers
    region: StudyRegion | None = None  # where cells and areas are counted once more
    units: tuple[Reference, ...] = ()  # what the layers of the fit hold, or its background
    space: Share | None = None
    kinds: KindsOfRecords | None = None  # whose intensity is drawn
    alone: Mapping[str, Compiled] = field(default_factory=dict)  # what each source says, by map

    @classmethod
    def from_options(
        cls,
        model: Any,
        layers: Layers,
        outputs: Sequence[str],
        clamp: bool,
        reference: Reference | None,
        threshold: float | None,
        replicates: Sequence[FittedDensity],
        extras: Sequence[str],
        extrapolation: Extrapolation | None = None,
        mask: str | None = None,
        effort: RecordEffort | None = None,
        extent: StudyRegion | None = None,
        region: StudyRegion | None = None,
        units: Sequence[Reference | None] = (),
        intervals: bool = True,
        kinds: KindsOfRecords | None = None,
        apart: bool = False,
    ) -> Plan:
        """A plan from options, which are checked."""
        _check_listed("outputs", outputs, OUTPUTS if kinds is None else (*OUTPUTS, *INTENSITIES))
        if kinds is not None:
            kinds.check(outputs)
        _check_listed("extras", extras, EXTRAS)
        if not outputs:
            raise ValueError(f"outputs is empty; name one or more of {', '.join(OUTPUTS)}")
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold is a cloglog value between 0 and 1, got {threshold!r}")
        check_mask(mask, reference, extrapolation)
        fitted = Compiled.from_density(model)
        model = fitted.density
        for output in outputs:
            if output not in INTENSITIES:
                model.output(np.zeros(1), output)  # refuses what the model cannot give
        names = model.schema.names
        others = tuple(Compiled.from_density(m) for m in replicates)
        _check_variables(others, names)
        wanted = set(extras)
        wanted -= {"mess", "mod"} if reference is None else set()
        wanted -= {"exdet"} if extrapolation is None else set()
        space = share_of(model, PLACE) if wanted & set(SPLIT) else None
        wanted -= set(SPLIT) if space is None else set()
        tags = {} if mask is None else {"MASK": mask}
        maps = [
            Map(output, tags={**tags, **_intensity_tags(output, kinds)}, masked=mask is not None)
            for output in outputs
        ]
        alone = _alone(kinds) if apart and kinds is not None else {}
        maps += [Map(what, tags={**tags, "UNIT": "log2"}) for what in alone]
        plain = (*SPLIT, "clamping", "mess", "exdet")
        maps += [Map(extra) for extra in plain if extra in wanted]
        if "mod" in wanted:
            classes = {f"CLASS_{i + 1}": variable for i, variable in enumerate(names)}
            maps.append(Map("mod", "uint8" if len(names) < 256 else "uint16", 0, classes))
        if threshold is not None:
            cut = {"THRESHOLD": repr(float(threshold))}
            maps.append(Map("presence", "uint8", 255, {**cut, **tags}, mask is not None))
        maps += [Map(name, tags=tags, masked=mask is not None) for name in STATISTICS if others]
        if model.uncertainty is not None and intervals:
            told = {**tags, "LEVEL": repr(LEVEL), "METHOD": model.uncertainty.method}
            banded = ["cloglog"]
            if kinds is not None and model.uncertainty.knows_scale:
                banded += [output for output in INTENSITIES if output in outputs]
            maps += [
                Map(
                    f"{output}_{end}",
                    tags={**told, **_intensity_tags(output, kinds)},
                    masked=mask is not None,
                )
                for output in banded
                for end in ENDS
            ]
        similar = reference is not None and (wanted & {"mess", "mod"} or mask == "mess")
        combined = extrapolation is not None and ("exdet" in wanted or mask == "exdet")
        maps += [] if effort is None else [Map("effort", tags={"EFFORT": effort.label})]
        needed = _needed(layers, model.schema)
        return cls(
            needed,
            fitted,
            others,
            reference.only(names) if reference is not None and similar else None,
            extrapolation if combined else None,
            mask,
            clamp,
            threshold,
            {m.what: m for m in maps},
            cell_areas(needed.grid),
            None if effort is None else effort.on(needed.grid),
            extent,
            region if region is not None and same_crs(region.crs, needed.grid.crs) else None,
            tuple(known for known in units if known is not None),
            space,
            kinds,
            alone,
        )

    def classes(self) -> dict[int, str]:
        """Number of each variable in the map of the most dissimilar one."""
        variables = self.model.density.schema.names if "mod" in self.maps else ()
        return {i + 1: variable for i, variable in enumerate(variables)}

    def draw(self, window: Window) -> tuple[Window, dict[str, Array], Tally]:
        """The maps of a window; none where no cell is known."""
        block = self.layers.read(window)
        if self.extent is not None:
            inside = self.extent.cells(self.layers.grid, window)
            block = replace(block, valid=block.valid & inside)
        tally = Tally()
        known = np.flatnonzero(block.valid)
        tally.counts["cells"] = known.size
        if not known.size:
            return window, {}, tally
        self._look_at(block, known, tally)
        drawn = {what: np.empty(known.size, m.dtype) for what, m in self.maps.items()}
        km2 = None if self.areas is None else self.areas.read(window).ravel()
        for start in range(0, known.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            rows = part if known.size == block.valid.size else known[part]
            columns = {name: layer.ravel()[rows] for name, layer in block.values.items()}
            with np.errstate(over="ignore"):  # without clamping raw may leave single precision
                for what, values in self._columns(columns, tally):
                    drawn[what][part] = values
            if self.banded:
                size = np.ones(known[part].size) if km2 is None else km2[rows]
                self._draw_sums(columns, {what: drawn[what][part] for what in drawn}, size, tally)
        if self.effort is not None:
            drawn["effort"][:] = self.effort.read(window)[0].ravel()[known]
        maps = {what: self._spread(block, known, what, values) for what, values in drawn.items()}
        self._measure(block, maps, tally)
        return window, maps, tally

    def _draw_sums(
        self,
        columns: Mapping[str, Array],
        drawn: Mapping[str, Array],
        size: Array,
        tally: Tally,
    ) -> None:
        """Add up what intervals of areas and of the number that is expected are found from.

        Of the area: where maps that are as likely as this one have presence.
        """
        density, cells = self.model.density, self.model.cells(columns)
        if self.threshold is not None:
            judged = drawn["presence"] != self.maps["presence"].nodata
            maps = DrawnMaps(density, self.threshold, self.clamp)
            tally.drawn.add("present", maps.present(cells), np.where(judged, size, 0.0))
        known, kinds = density.known_uncertainty(), self.kinds
        scale = None if kinds is None else kinds.log_scale
        if self.counted and known.knows_scale and scale is not None:
            size = np.where(np.isnan(drawn["intensity"]), 0.0, size)
            tally.add_sums(known.sums(density, cells, size, scale, self.clamp))

    def expected_ends(self, tally: Tally) -> tuple[float, float] | None:
        """The interval of the expected number, None where it is not known."""
        if tally.sums is None or not tally.expected:
            return None
        reach = quantile(LEVEL) * self.model.density.known_uncertainty().deviation_of_sum(
            tally.sums
        )
        low, high = tally.expected * np.exp([-reach, reach])
        return float(low), float(high)

    @property
    def banded(self) -> bool:
        """Whether intervals are drawn."""
        return CLOGLOG_ENDS[0] in self.maps

    @property
    def counted(self) -> bool:
        """Whether the numbers that are expected in cells are known and add up."""
        known = self.kinds is not None and self.kinds.unit == KM2
        return known and "intensity" in self.maps and self.areas is not None

    def _look_at(self, block: Block, known: Array, tally: Tally) -> None:
        """Keep the values of some cells, the same ones whatever the windows are."""
        grid, (row, column, _, width) = self.layers.grid, block.window
        cell = (row + known // width) * grid.width + column + known % width
        mixed = cell.astype(np.uint64) * np.uint64(2654435761) % np.uint64(1 << 32)
        chosen = known[mixed < np.uint64((1 << 32) * min(1.0, _LOOKED_AT / grid.size))]
        for name in self.model.density.schema.continuous:
            tally.values[name] = [block.values[name].ravel()[chosen].astype(np.float64)]

    def unlike(self, tally: Tally) -> list[UnlikeUnits]:
        """The variables whose units seem to be others than at the fit."""
        return unlike_units(
            {name: np.concatenate(parts) for name, parts in tally.values.items()},
            ranges_of(self.model.density),
            self.units,
            tally.outside,
            tally.counts["cells"],
        )

    def _measure(self, block: Block, maps: Mapping[str, Array], tally: Tally) -> None:
        """Add up areas of what is drawn, and cells and areas of presence and of the region."""
        counted = {"cells": block.valid}
        if self.threshold is not None:
            presence = maps["presence"]
            counted["present"] = presence == 1
            counted["judged"] = presence != self.maps["presence"].nodata
        if self.region is not None:
            inside = self.region.cells(self.layers.grid, block.window)
            if "mess" in maps:
                counted["extrapolated"] = maps["mess"] < 0
            counted |= {f"region_{what}": where & inside for what, where in counted.items()}
        km2 = None if self.areas is None else self.areas.read(block.window)
        if km2 is not None and self.counted:
            tally.expected += float(np.nansum(maps["intensity"] * km2))
        for what, where in counted.items():
            if what not in ("cells", "extrapolated"):  # which are counted already
                tally.counts[what] += int(where.sum())
            if km2 is not None:
                tally.km2[what] = float(km2[where].sum())

    def _spread(self, block: Block, known: Array, what: str, values: Array) -> Array:
        if known.size == block.valid.size:
            return values.reshape(block.valid.shape)
        whole = np.full(block.valid.shape, self.maps[what].nodata, values.dtype)
        whole.ravel()[known] = values
        return whole

    def _columns(self, columns: Mapping[str, Array], tally: Tally) -> Iterator[tuple[str, Array]]:
        """Every map at some cells."""
        cells = self.model.cells(columns)
        self._count(columns, cells, tally)
        novelty, extrapolates = self._novelty(columns, cells, tally)
        yield from novelty.items()
        for what, values in self._suitability(columns, cells):
            stored = self.maps[what]
            if extrapolates is not None and stored.masked:
                values = np.where(extrapolates, np.asarray(stored.nodata, stored.dtype), values)
            yield what, values

    def _suitability(
        self, columns: Mapping[str, Array], cells: Cells
    ) -> Iterator[tuple[str, Array]]:
        model, scorer = self.model
        theta = scorer.scores(cells, self.clamp)
        for output in OUTPUTS:
            if output in self.maps:
                yield output, model.output(theta, output)
        if self.kinds is not None:
            yield from self.kinds.drawn(theta, self.maps)
            yield from self._apart(columns, cells, theta)
        if self.maps.keys() & {"clamping", "presence"}:
            cloglog = model.output(theta, "cloglog")
            if "clamping" in self.maps:
                yield "clamping", np.abs(cloglog - self.model.cloglog(cells, not self.clamp))
            if self.threshold is not None:
                yield "presence", cloglog >= self.threshold
        if self.space is not None:
            for what, values in zip(SPLIT, self.space.split(theta, cells, self.clamp), strict=True):
                if what in self.maps:
                    yield what, values
        if self.replicates:
            yield from self._statistics(columns, cells)
        if self.banded:
            found = ends(model, cells, "cloglog", LEVEL, self.clamp)
            yield from zip(CLOGLOG_ENDS, found, strict=True)
            outputs = [output for output in INTENSITIES if f"{output}_{ENDS[0]}" in self.maps]
            if self.kinds is not None and outputs:
                yield from self.kinds.ends(model, cells, outputs, LEVEL, self.clamp)

    def _apart(
        self, columns: Mapping[str, Array], cells: Cells, theta: Array
    ) -> Iterator[tuple[str, Array]]:
        """How many times more each source alone says than all together, as log2.

        A tenth of the mean is added to both: where there are hardly any, ratios say nothing.
        """
        if not self.alone:
            return
        assert self.kinds is not None
        schema, levels = self.model.density.schema, self.kinds.levels
        together = np.exp(theta.astype(np.float64) - levels[""])
        for (what, one), name in zip(self.alone.items(), self.kinds.alone, strict=True):
            mine = cells if one.density.schema == schema else one.cells(columns)
            alone = np.exp(one.scorer.scores(mine, self.clamp).astype(np.float64) - levels[name])
            yield what, np.log2((alone + _HARDLY_ANY) / (together + _HARDLY_ANY))

    def _novelty(
        self, columns: Mapping[str, Array], cells: Cells, tally: Tally
    ) -> tuple[dict[str, Array], Array | None]:
        """Maps of how new the cells are, and which of them are left out of the others."""
        drawn: dict[str, Array] = {}
        extrapolates = None
        if self.reference is not None:
            mess, variable = self.reference.similarity(columns)
            tally.counts["extrapolated"] += int((mess < 0).sum())
            drawn |= {"mess": mess, "mod": variable + 1}
            extrapolates = mess < 0
        if self.extrapolation is not None:
            # rounded as in the file: the furthest point of the fit itself is 1
            exdet = self.extrapolation.novelty(columns).astype(np.float32)
            tally.counts["novel"] += int((exdet > 1).sum())
            drawn["exdet"] = exdet
            if self.mask == "exdet":  # which does not look at categories
                extrapolates = (exdet < 0) | (exdet > 1) | (cells.codes == UNKNOWN).any(axis=0)
        shown = {what: values for what, values in drawn.items() if what in self.maps}
        if self.mask is None or extrapolates is None:
            return shown, None
        tally.counts["masked"] += int(extrapolates.sum())
        return shown, extrapolates

    def _statistics(
        self, columns: Mapping[str, Array], cells: Cells
    ) -> Iterator[tuple[str, Array]]:
        schema = self.model.density.schema
        cloglog = np.array(
            [
                m.cloglog(cells if m.density.schema == schema else m.cells(columns), self.clamp)
                for m in self.replicates
            ]
        )
        for what, statistic in STATISTICS.items():
            yield what, statistic(cloglog)

    def _count(self, columns: Mapping[str, Array], cells: Cells, tally: Tally) -> None:
        from maxent.features.kernels.scores import count_outside

        limits = self.model.scorer.limits(cells.values.dtype)
        outside = int(count_outside(cells.values, *limits))
        tally.counts["outside"] += outside
        if outside:
            low, high = (limit[:, None] for limit in limits)
            beyond = ((cells.values < low) | (cells.values > high)).sum(axis=1)
            names = self.model.density.schema.continuous
            tally.outside.update(dict(zip(names, beyond.tolist(), strict=True)))
        tally.counts["clamped"] += outside if self.clamp else 0
        unknown = cells.codes == UNKNOWN
        if not unknown.any():
            return
        tally.counts["unseen"] += int(unknown.any(axis=0).sum())
        for name, where in zip(self.model.density.schema.categorical, unknown, strict=True):
            if where.any():
                levels = np.unique(columns[name][where])
                tally.unseen.setdefault(name, set()).update(levels.tolist())


def _intensity_tags(output: str, kinds: KindsOfRecords | None) -> dict[str, str]:
    """What an intensity is per, and what probabilities and counts are for."""
    if kinds is None or output not in INTENSITIES:
        return {}
    return {"PER": kinds.per} if output == "intensity" else {"AREA": kinds.area_in_words()}


def _alone(kinds: KindsOfRecords) -> dict[str, Compiled]:
    """What each source says alone, by the name of its map."""
    names = slugs(list(kinds.alone))
    return {
        APART + names[name].replace(".", "_"): Compiled.from_density(density)
        for name, density in kinds.alone.items()
    }


def _check_listed(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    wrong = [g for g in given if g not in known]
    if isinstance(given, str) or wrong:
        raise ValueError(f"{what} must be a list of {', '.join(known)}, got {given!r}")


def check_mask(
    mask: str | None, reference: Reference | None, extrapolation: Extrapolation | None
) -> None:
    """Refuse a mask that is not known, or that the model has nothing to draw it from."""
    if mask is None:
        return
    if mask not in MASKS:
        raise ValueError(f"mask must be one of {', '.join(MASKS)}, got {mask!r}")
    if (reference if mask == "mess" else extrapolation) is None:
        raise ValueError(
            f"mask {mask} needs what the model was fitted to, which this model does not hold"
            + (", or no variable of it is a number" if mask == "exdet" else "")
            + ": fit it again, or leave out --mask"
        )


def _check_variables(replicates: Iterable[Compiled], names: Sequence[str]) -> None:
    for i, replicate in enumerate(replicates):
        odd = set(replicate.density.schema.names) - set(names)
        if odd:
            raise ValueError(
                f"replicate {i + 1} has the variable {min(odd)!r}, which the model does not have: "
                "replicates are fits of the same variables"
            )


def _needed(layers: Any, schema: Schema) -> Layers:
    """The layers of the model, in its order; a cell is known where these are."""
    names = schema.names
    if not isinstance(layers, Layers):  # xarray objects, or an error that says what is expected
        layers = Layers.from_xarray(layers)
        categorical = [name for name in schema.categorical if name in layers.names]
        layers = Layers(layers.sources, categorical)
    labels = layers.labels()
    missing = [name for name in names if name not in labels]
    if missing:
        given = ", ".join(n if n == label else f"{n} ({label})" for n, label in labels.items())
        raise ValueError(
            f"the model needs {', '.join(map(repr, missing))}, and no layer has that name; given "
            f"are {given}. Layers are known by their file name or band description: rename them "
            "to match the model"
        )
    return layers.select(names)
