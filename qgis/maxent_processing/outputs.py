"""What the command has written, as layers of the project with their styles."""

from pathlib import Path

from qgis.core import (
    QgsColorRampShader,
    QgsPalettedRasterRenderer,
    QgsProcessingContext,
    QgsProcessingLayerPostProcessorInterface,
    QgsProcessingUtils,
    QgsRasterShader,
    QgsSingleBandPseudoColorRenderer,
)
from qgis.PyQt.QtGui import QColor

RAMP = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")  # viridis
CHANGE = (
    (1, "#d7191c", "lost"),
    (2, "#1a9641", "kept"),
    (3, "#2c7bb6", "gained"),
    (0, "#f0f0f0", "absent"),
)
PRESENCE = ((0, "#f0f0f0", "absent"), (1, "#1a9641", "present"))
DISSIMILARITY = ((-50, "#d7191c"), (-0.001, "#fdae61"), (0, "#e8e8e8"), (100, "#2c7bb6"))
MOST = 30  # maps of one run that are loaded


def style_of(path):
    """The style of a map, by its file's name."""
    name = Path(path).stem
    if name.startswith("change"):
        return classes(CHANGE)
    if name.startswith("presence"):
        return classes(PRESENCE)
    if name.startswith("mess"):
        return ramp(DISSIMILARITY)
    if name.startswith(("cloglog", "logistic", "probability", "lower", "upper")):
        return ramp([(i / (len(RAMP) - 1), colour) for i, colour in enumerate(RAMP)])
    return None


def ramp(stops):
    """A style of colours between values."""

    def apply(layer):
        colours = QgsColorRampShader(stops[0][0], stops[-1][0])
        colours.setColorRampType(QgsColorRampShader.Interpolated)
        items = [QgsColorRampShader.ColorRampItem(v, QColor(c), f"{v:g}") for v, c in stops]
        colours.setColorRampItemList(items)
        shader = QgsRasterShader()
        shader.setRasterShaderFunction(colours)
        layer.setRenderer(QgsSingleBandPseudoColorRenderer(layer.dataProvider(), 1, shader))

    return apply


def classes(values):
    """A style of one colour for each value."""

    def apply(layer):
        items = [QgsPalettedRasterRenderer.Class(v, QColor(c), label) for v, c, label in values]
        layer.setRenderer(QgsPalettedRasterRenderer(layer.dataProvider(), 1, items))

    return apply


class Styled(QgsProcessingLayerPostProcessorInterface):
    """Gives a layer its style once it is in the project."""

    def __init__(self, apply):
        super().__init__()
        self.apply = apply

    def postProcessLayer(self, layer, context, feedback):
        """Called by Processing."""
        self.apply(layer)
        layer.triggerRepaint()


class Loader:
    """Has layers loaded when the algorithm ends; it must live as long as the algorithm does."""

    def __init__(self, context):
        self.context, self.styled, self.loaded = context, [], []

    def raster(self, path, name, output):
        """Load this file under this name."""
        details = QgsProcessingContext.LayerDetails(
            name, self.context.project(), output, QgsProcessingUtils.LayerHint.Raster
        )
        style = style_of(path)
        if style is not None:
            self.styled.append(Styled(style))
            details.setPostProcessor(self.styled[-1])
        self.context.addLayerToLoadOnCompletion(str(path), details)
        self.loaded.append(str(path))
