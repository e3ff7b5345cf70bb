"""maxent:fit: from records and layers to maps, a report and a model."""

from pathlib import Path

from qgis.core import (
    QgsProcessing,
    QgsProcessingException,
    QgsProcessingOutputFile,
    QgsProcessingOutputHtml,
    QgsProcessingOutputMultipleLayers,
    QgsProcessingOutputNumber,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterEnum,
    QgsProcessingParameterExtent,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterFile,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)

from ..inputs import extent_file, file_name, raster_file, vector_file
from ..outputs import MOST
from .base import MaxentAlgorithm
from .records import add_records, record_words

THRESHOLDS = (
    "none",
    "Maximum training sensitivity plus specificity",
    "Equal training sensitivity and specificity",
    "10 percentile training presence",
    "Minimum training presence",
    "Fixed cumulative value 5",
)
CV = ("auto", "blocks", "checkerboard", "environment", "random", "none")
INTERVALS = ("none", "laplace", "bootstrap")
SHOWN = ("cloglog", "presence", "mess", "intensity", "probability", "lower", "upper")


class Fit(MaxentAlgorithm):
    """The command `maxent fit`."""

    NAME, TITLE = "fit", "Fit a species distribution"
    ABOUT = (
        "Fits the distribution of one species, or of each of many, by maximum entropy: maps "
        "of suitability, "
        "MESS and presence, a report with everything that was assumed about the files, "
        "tables, and a "
        "model for other places and climates. The fit is exact: its duality gap is in the "
        "report.\n\n"
        "Layers are files on one grid. Records are any points of the project; of a selection, the "
        "selected ones. With surveys (field presence, 1 or 0) or counts (field count) "
        "besides, all kinds of "
        "records are fitted together. A folder of the same layers for another place or "
        "climate is mapped and "
        "compared as well.\n\nWithout a field of the species' names the command looks for one "
        "by its name; where "
        "there is none, all records are one species. The log says what was taken."
    )
    SURVEY, COUNTS, FUTURE, REGION, EXTENT = "SURVEY", "COUNTS", "FUTURE", "REGION", "EXTENT"
    BIAS, BACKGROUND, FEATURES, MULTIPLIER = "BIAS", "BACKGROUND", "FEATURES", "MULTIPLIER"
    THRESHOLD, CV, JACKKNIFE, INTERVALS, OUTPUT = (
        *("THRESHOLD", "CV", "JACKKNIFE", "INTERVALS", "OUTPUT"),
    )

    def initAlgorithm(self, config=None):
        """Its dialog."""
        add_records(self)
        self.add_layers(categories=True)
        polygons, points = QgsProcessing.TypeVectorPolygon, QgsProcessing.TypeVectorPoint
        self.addParameter(
            QgsProcessingParameterFeatureSource(
                self.REGION,
                "Study region of the background",
                [polygons],
                optional=True,
            )
        )
        self.addParameter(
            QgsProcessingParameterExtent(self.EXTENT, "Extent of the maps", optional=True)
        )
        self.addParameter(
            QgsProcessingParameterFile(
                self.FUTURE,
                "Folder of the same layers elsewhere or later",
                behavior=QgsProcessingParameterFile.Folder,
                optional=True,
            )
        )
        self.addParameter(
            QgsProcessingParameterEnum(
                self.THRESHOLD,
                "Map of presence, by threshold",
                options=list(THRESHOLDS),
                defaultValue=1,
            )
        )
        self.addParameter(
            QgsProcessingParameterString(
                self.FEATURES, "Classes of features (auto, or lqpthck)", "auto"
            )
        )
        self.addParameter(
            QgsProcessingParameterNumber(
                self.MULTIPLIER,
                "Multiplier of the regularization",
                QgsProcessingParameterNumber.Double,
                defaultValue=1.0,
                minValue=0.0,
            )
        )
        self.addParameter(
            QgsProcessingParameterNumber(
                self.BACKGROUND, "Cells of the background", defaultValue=10000, minValue=1
            )
        )
        self.advanced(
            QgsProcessingParameterRasterLayer(self.BIAS, "Raster of sampling effort", optional=True)
        )
        self.advanced(
            QgsProcessingParameterFeatureSource(
                self.SURVEY, "Survey with absences", [points], optional=True
            )
        )
        self.advanced(
            QgsProcessingParameterFeatureSource(self.COUNTS, "Counts", [points], optional=True)
        )
        self.advanced(
            QgsProcessingParameterEnum(
                self.CV, "Cross-validation", options=list(CV), defaultValue=0
            )
        )
        self.advanced(
            QgsProcessingParameterBoolean(
                self.JACKKNIFE, "Fit with and without each variable", defaultValue=True
            )
        )
        self.advanced(
            QgsProcessingParameterEnum(
                self.INTERVALS,
                "Intervals of curves, maps and areas",
                options=list(INTERVALS),
                defaultValue=0,
            )
        )
        self.add_seed()
        self.add_overwrite()
        self.advanced(QgsProcessingParameterBoolean(self.LOAD, "Load the maps", defaultValue=True))
        self.add_extra()
        self.addParameter(
            QgsProcessingParameterFolderDestination(self.OUTPUT, "Folder of the results")
        )
        self.addOutput(QgsProcessingOutputMultipleLayers("MAPS", "Maps"))
        self.addOutput(QgsProcessingOutputHtml("REPORT", "Report"))
        self.addOutput(QgsProcessingOutputFile("MODEL", "Model"))
        self.addOutput(QgsProcessingOutputNumber("GAP", "Duality gap"))

    def words(self, parameters, context, feedback, folder, out):
        """What `maxent fit` is given."""
        words = ["fit", *record_words(self, parameters, context, feedback, folder)]
        words += self.layer_words(parameters, context, feedback)
        region = self.parameterAsSource(parameters, self.REGION, context)
        if region is not None:
            (folder / "region").mkdir()
            path = folder / "region" / file_name(region, "region")
            words += ["--region", vector_file(region, path, context, feedback)]
        if parameters.get(self.EXTENT):
            crs = self.parameterAsExtentCrs(parameters, self.EXTENT, context)
            if not crs.isValid():
                raise QgsProcessingException(
                    "The extent has no CRS: draw it on the map, or add the CRS, as in "
                    "5,10,45,50 [EPSG:4326]"
                )
            drawn = self.parameterAsExtent(parameters, self.EXTENT, context, crs)
            words += ["--extent", extent_file(drawn, crs, folder / "extent.gpkg", context)]
        for name, flag in ((self.SURVEY, "--survey"), (self.COUNTS, "--counts")):
            source = self.parameterAsSource(parameters, name, context)
            if source is not None:
                (folder / name).mkdir()  # it may be called like the records
                path = folder / name / file_name(source, name.lower())
                words += [flag, vector_file(source, path, context, feedback, points=True)]
        future = self.parameterAsFile(parameters, self.FUTURE, context)
        if future:
            words += ["--project", future]
        bias = self.parameterAsRasterLayer(parameters, self.BIAS, context)
        if bias is not None:
            words += ["--bias", raster_file(bias, feedback)]
        threshold = self.parameterAsEnum(parameters, self.THRESHOLD, context)
        if threshold:
            words += ["--threshold", THRESHOLDS[threshold]]
        words += ["--features", self.parameterAsString(parameters, self.FEATURES, context)]
        words += [
            "--multiplier",
            repr(self.parameterAsDouble(parameters, self.MULTIPLIER, context)),
        ]
        words += ["--background", str(self.parameterAsInt(parameters, self.BACKGROUND, context))]
        words += ["--cv", CV[self.parameterAsEnum(parameters, self.CV, context)]]
        intervals = self.parameterAsEnum(parameters, self.INTERVALS, context)
        if intervals:
            words += ["--intervals", INTERVALS[intervals]]
        if not self.parameterAsBool(parameters, self.JACKKNIFE, context):
            words += ["--no-jackknife"]
        return [*words, *self.common_words(parameters, context), "--out", out]

    def work(self, parameters, context, feedback, folder):
        """Fit, and load the maps."""
        out = self.parameterAsString(parameters, self.OUTPUT, context)
        told = self.run_command(self.words(parameters, context, feedback, folder, out), feedback)
        place = Path(told["page"]).parent  # of one species its own folder, of many that of all
        alone = (place / "model.json").is_file()
        fitted = {
            row["species"]: place if alone else place / row["folder"]
            for row in told["species"]
            if row["status"] == "ok"
        }
        maps = [
            (path, f"{species} {name}")
            for species, place in fitted.items()
            for path, name in maps_of(place)
        ]
        if self.parameterAsBool(parameters, self.LOAD, context):
            for path, name in maps[:MOST]:
                self.loader.raster(path, name, "MAPS")
            if len(maps) > MOST:
                feedback.pushWarning(f"{len(maps) - MOST} more maps are in {out}, not loaded")
        results = {
            self.OUTPUT: out,
            "MAPS": [str(path) for path, _ in maps],
            "REPORT": told["page"],
        }
        if alone:
            results["MODEL"] = str(place / "model.json")
            results["GAP"] = next(row["gap"] for row in told["species"] if row["status"] == "ok")
        return results


def maps_of(place):
    """The maps of a species that people look at, and what to call them."""
    for path in sorted(place.glob("maps/*.tif")):
        if path.stem in SHOWN:
            yield path, path.stem
    for path in sorted(place.glob("projections/*/*.tif")):
        if path.stem in SHOWN:
            yield path, f"{path.stem} {path.parent.name}"
    for path in sorted(place.glob("change/change_*.tif")):
        yield path, path.stem.replace("_", " ")
