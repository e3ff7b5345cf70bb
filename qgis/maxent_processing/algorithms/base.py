"""What all algorithms share: their words become a command, and its errors those of Processing."""

import shlex
import tempfile
from pathlib import Path

from qgis.core import (
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterCrs,
    QgsProcessingParameterDefinition,
    QgsProcessingParameterEnum,
    QgsProcessingParameterMultipleLayers,
    QgsProcessingParameterNumber,
    QgsProcessingParameterString,
)
from qgis.PyQt.QtGui import QIcon

from ..command import CommandError, Watcher, check, find_command, run
from ..inputs import names_of_layers, raster_files
from ..outputs import Loader

ICON = str(Path(__file__).parents[1] / "icon.svg")
ALIGN = ("refuse", "first", "finest", "coarsest")


class Feedback(Watcher):
    """Passes on what the command says to the log and the bar of a dialog."""

    def __init__(self, feedback):
        self.feedback = feedback

    def told(self, text, caution=False):
        """Into the log."""
        if caution:
            self.feedback.pushWarning(text)
        else:
            self.feedback.pushInfo(text)

    def working(self, text):
        """Above the bar."""
        self.feedback.setProgressText(text)

    def progressed(self, percent):
        """The bar."""
        self.feedback.setProgress(percent)

    def cancelled(self):
        """The button."""
        return self.feedback.isCanceled()


class MaxentAlgorithm(QgsProcessingAlgorithm):
    """A command of maxent; a subclass has its parameters, its words and its outputs."""

    NAME = TITLE = ABOUT = ""
    EXTRA, LAYERS, CATEGORIES = "EXTRA", "LAYERS", "CATEGORICAL"
    ALIGN, LAYERS_CRS, NODATA, SEED, OVERWRITE, LOAD = (
        *("ALIGN", "LAYERS_CRS", "NODATA", "SEED", "OVERWRITE", "LOAD_MAPS"),
    )

    def __init__(self):
        super().__init__()
        self.loader = None

    def createInstance(self):
        """A new one, as Processing asks for it."""
        return type(self)()

    def name(self):
        """Of the algorithm: maxent:NAME."""
        return self.NAME

    def displayName(self):
        """In the toolbox."""
        return self.TITLE

    def shortHelpString(self):
        """Beside the dialog."""
        return self.ABOUT

    def icon(self):
        """In the toolbox."""
        return QIcon(ICON)

    def advanced(self, parameter):
        """Add a parameter that most people leave as it is."""
        parameter.setFlags(parameter.flags() | QgsProcessingParameterDefinition.FlagAdvanced)
        self.addParameter(parameter)

    def add_layers(self, categories, optional=False, title="Layers of the environment"):
        """Rasters on one grid, and how they are read."""
        kind = QgsProcessing.TypeRaster
        self.addParameter(
            QgsProcessingParameterMultipleLayers(self.LAYERS, title, kind, optional=optional)
        )
        if categories:
            self.addParameter(
                QgsProcessingParameterMultipleLayers(
                    self.CATEGORIES, "Which of them are categories", kind, optional=True
                )
            )
        self.advanced(
            QgsProcessingParameterEnum(
                self.ALIGN,
                "Layers on different grids: resample to",
                options=list(ALIGN),
                defaultValue=0,
            )
        )
        self.advanced(
            QgsProcessingParameterCrs(self.LAYERS_CRS, "CRS of layers without one", optional=True)
        )
        self.advanced(
            QgsProcessingParameterString(
                self.NODATA, "No data values besides those of the files", optional=True
            )
        )

    def add_seed(self):
        """What all that is random starts from."""
        self.advanced(
            QgsProcessingParameterNumber(
                self.SEED, "Seed of all that is random", defaultValue=0, minValue=0
            )
        )

    def add_overwrite(self):
        """Whether earlier results may go."""
        self.advanced(
            QgsProcessingParameterBoolean(
                self.OVERWRITE, "Replace earlier results", defaultValue=False
            )
        )

    def add_extra(self):
        """All that the dialog has no widget for."""
        self.advanced(
            QgsProcessingParameterString(
                self.EXTRA, f"More options, as of the command maxent {self.NAME}", optional=True
            )
        )

    def layer_words(self, parameters, context, feedback):
        """The files of the layers, and the options that say how they are read."""
        layers = self.parameterAsLayerList(parameters, self.LAYERS, context)
        if not layers:
            raise QgsProcessingException(
                "No layers of the environment were chosen: choose at least one raster layer"
            )
        words = raster_files(layers, feedback)
        if self.parameterDefinition(self.CATEGORIES) is not None:
            chosen = self.parameterAsLayerList(parameters, self.CATEGORIES, context)
            known = names_of_layers(layers)
            for layer in chosen:
                (name,) = names_of_layers([layer])
                if name not in known:
                    raise QgsProcessingException(
                        f"“{layer.name()}” is to be categories, but is none of the layers of "
                        "the environment: choose it there too"
                    )
                words += ["--categorical", name]
        align = self.parameterAsEnum(parameters, self.ALIGN, context)
        if align:
            words += ["--align", ALIGN[align]]
        crs = self.parameterAsCrs(parameters, self.LAYERS_CRS, context)
        if crs.isValid():
            words += ["--layers-crs", crs.authid() or crs.toWkt()]
        for value in (
            self.parameterAsString(parameters, self.NODATA, context).replace(",", " ").split()
        ):
            words += [f"--nodata={value}"]
        return words

    def common_words(self, parameters, context):
        """Seed, overwriting and what was typed; what an algorithm has not is left out."""
        words = []
        if self.parameterDefinition(self.SEED) is not None:
            words += ["--seed", str(self.parameterAsInt(parameters, self.SEED, context))]
        if self.parameterDefinition(self.OVERWRITE) is not None and self.parameterAsBool(
            parameters, self.OVERWRITE, context
        ):
            words += ["--overwrite"]
        typed = self.parameterAsString(parameters, self.EXTRA, context)
        try:
            return words + shlex.split(typed)
        except ValueError as error:
            raise QgsProcessingException(f"More options: {error}, in {typed!r}") from None

    def run_command(self, words, feedback):
        """Run it in a process of its own: what it found."""
        from ..provider import configured_command

        try:
            command = find_command(configured_command())
            version = check(command)
            feedback.pushInfo(f"{version}: {shlex.join(['maxent', *words])}")
            return run(command, words, Feedback(feedback))["result"]
        except CommandError as error:
            raise QgsProcessingException(str(error)) from None

    def processAlgorithm(self, parameters, context, feedback):
        """Write what has no file, run the command, load what it wrote."""
        self.loader = Loader(context)
        with tempfile.TemporaryDirectory(prefix="maxent_qgis_") as folder:
            return self.work(parameters, context, feedback, Path(folder))

    def work(self, parameters, context, feedback, folder):
        """Of the subclass: its outputs by name."""
        raise NotImplementedError
