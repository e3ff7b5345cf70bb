"""maxent:project: the map of a fitted model on other layers."""

from qgis.core import (
    QgsProcessingParameterBoolean,
    QgsProcessingParameterEnum,
    QgsProcessingParameterFile,
    QgsProcessingParameterRasterDestination,
)

from ..outputs import Styled, style_of
from .base import MaxentAlgorithm

OUTPUTS = ("cloglog", "logistic", "raw", "cumulative", "log")
MASKS = ("none", "mess", "exdet")


class Project(MaxentAlgorithm):
    """The command `maxent project`."""

    NAME, TITLE = "project", "Map a fitted model on other layers"
    ABOUT = (
        "Draws the map of a model (model.json of a fit, or a .lambdas file of maxent.jar) on "
        "layers of another place "
        "or climate. The layers are found by the names of their files, which are those of the fit."
    )
    MODEL, KIND, CLAMP, MASK, OUTPUT = "MODEL", "KIND", "CLAMP", "MASK", "OUTPUT"

    def initAlgorithm(self, config=None):
        """Its dialog."""
        self.addParameter(
            QgsProcessingParameterFile(self.MODEL, "Model", fileFilter="Models (*.json *.lambdas)")
        )
        self.add_layers(categories=False)
        self.addParameter(
            QgsProcessingParameterEnum(
                self.KIND, "What is mapped", options=list(OUTPUTS), defaultValue=0
            )
        )
        self.addParameter(
            QgsProcessingParameterBoolean(
                self.CLAMP, "Hold variables in the ranges of the fit", defaultValue=True
            )
        )
        self.addParameter(
            QgsProcessingParameterEnum(
                self.MASK,
                "Leave out cells that extrapolate: none, by MESS or by ExDet",
                options=list(MASKS),
                defaultValue=0,
            )
        )
        self.add_overwrite()
        self.add_extra()
        self.addParameter(QgsProcessingParameterRasterDestination(self.OUTPUT, "Map"))

    def work(self, parameters, context, feedback, folder):
        """Draw, and style the map."""
        model = self.parameterAsFile(parameters, self.MODEL, context)
        out = self.parameterAsOutputLayer(parameters, self.OUTPUT, context)
        kind = OUTPUTS[self.parameterAsEnum(parameters, self.KIND, context)]
        words = ["project", model, *self.layer_words(parameters, context, feedback)]
        words += ["--output", kind]
        if not self.parameterAsBool(parameters, self.CLAMP, context):
            words += ["--no-clamp"]
        mask = self.parameterAsEnum(parameters, self.MASK, context)
        if mask:
            words += ["--mask", MASKS[mask]]
        words += [*self.common_words(parameters, context), "--out", out]
        self.run_command(words, feedback)
        style = style_of(kind)
        if style is not None and context.willLoadLayerOnCompletion(out):
            self.loader.styled.append(Styled(style))
            context.layerToLoadOnCompletionDetails(out).setPostProcessor(self.loader.styled[-1])
        return {self.OUTPUT: out}
