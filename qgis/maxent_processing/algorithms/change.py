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
    ABOUT = (
        "Compares a map of suitability with those of other climates or times on the same "
        "grid: maps and km2 of what is lost, kept and gained."
    )
    PRESENT, FUTURES, THRESHOLD, OUTPUT = "PRESENT", "FUTURES", "THRESHOLD", "OUTPUT"

    def initAlgorithm(self, config=None):
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
        self.addParameter(
            QgsProcessingParameterFolderDestination(self.OUTPUT, "Folder of the results")
        )
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
        found = self.run_command(words, feedback)
        for row in found["changes"]:
            feedback.pushInfo(
                f"{row['scenario']}: lost {row['lost_km2']:,.0f} km2, kept {row['kept_km2']:,.0f}, "
                f"gained {row['gained_km2']:,.0f} ({row['change_percent']:+.1f} %)"
            )
        maps = [path for kind, path in found["files"].items() if kind.startswith("change:")]
        for path in maps:
            self.loader.raster(path, Path(path).stem.replace("_", " "), "MAPS")
        return {self.OUTPUT: out, "MAPS": maps, "TABLE": found["files"]["table"]}
