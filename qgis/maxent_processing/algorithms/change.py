"""maxent:rangechange: what a species loses, keeps and gains between two maps."""

from pathlib import Path

from qgis.core import (
    QgsProcessing,
    QgsProcessingOutputFile,
    QgsProcessingOutputMultipleLayers,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterMultipleLayers,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterLayer,
)

from ..inputs import raster_file, raster_files
from .base import MaxentAlgorithm


class RangeChange(MaxentAlgorithm):
    """The command `maxent change`."""

    NAME, TITLE = "rangechange", "Range change"
    ABOUT = "Compares a map of suitability with those of other climates or times on the same grid: maps and km2 of what is lost, kept and gained."
    PRESENT, FUTURES, THRESHOLD, OUTPUT = "PRESENT", "FUTURES", "THRESHOLD", "OUTPUT"

    def initAlgorithm(self, config=None):  # noqa: N802
        """Its dialog."""
        self.addParameter(QgsProcessingParameterRasterLayer(self.PRESENT, "Map of today"))
        self.addParameter(
            QgsProcessingParameterMultipleLayers(
                self.FUTURES, "Maps of other climates or times", QgsProcessing.TypeRaster
            )
        )
        self.addParameter(
            QgsProcessingParameterNumber(
                self.THRESHOLD,
                "Least value that counts as presence",
                QgsProcessingParameterNumber.Double,
                defaultValue=0.5,
            )
        )
        self.add_overwrite()
        self.addParameter(QgsProcessingParameterFolderDestination(self.OUTPUT, "Folder of the results"))
        self.addOutput(QgsProcessingOutputMultipleLayers("MAPS", "Maps"))
        self.addOutput(QgsProcessingOutputFile("TABLE", "Table"))

    def work(self, parameters, context, feedback, folder):
        """Compare."""
        out = self.parameterAsString(parameters, self.OUTPUT, context)
        present = self.parameterAsRasterLayer(parameters, self.PRESENT, context)
        futures = self.parameterAsLayerList(parameters, self.FUTURES, context)
        words = ["change", raster_file(present, feedback), *raster_files(futures, feedback)]
        threshold = self.parameterAsDouble(parameters, self.THRESHOLD, context)
        words += ["--threshold", repr(threshold), "--out", out]
        if self.parameterAsBool(parameters, self.OVERWRITE, context):
            words += ["--overwrite"]
        for line in self.run_command(words, feedback).splitlines():
            feedback.pushInfo(line)
        maps = sorted(Path(out).glob("change_*.tif"))
        for path in maps:
            self.loader.raster(path, path.stem.replace("_", " "), "MAPS")
        return {
            self.OUTPUT: out,
            "MAPS": list(map(str, maps)),
            "TABLE": str(Path(out) / "range_change.csv"),
        }
