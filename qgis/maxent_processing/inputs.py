"""Layers of QGIS as the files that the command reads; what has no file gets one, or words."""

import os
import re
from pathlib import Path

from qgis.core import (
    QgsFeature,
    QgsFeatureSink,
    QgsGeometry,
    QgsProcessingException,
    QgsVectorFileWriter,
    QgsWkbTypes,
)


def raster_files(layers, feedback):
    """The files of raster layers, each once."""
    files = {}
    for layer in layers:
        path = raster_file(layer, feedback)
        earlier = files.setdefault(path, layer.name())
        if earlier != layer.name():
            raise QgsProcessingException(
                f"The layers “{earlier}” and “{layer.name()}” are the same file {path}: "
                "choose one of them"
            )
    return list(files)


def raster_file(layer, feedback):
    """The file of a raster layer, which is what the command reads."""
    name = layer.name()
    if not layer.isValid():
        raise QgsProcessingException(
            f"The layer “{name}” cannot be read ({layer.source()}): mend its source, or leave "
            "it out"
        )
    provider = layer.dataProvider()
    path = layer.source().split("|")[0]
    if provider.name() != "gdal" or not os.path.isfile(path):
        raise QgsProcessingException(
            f"The layer “{name}” is no file on this computer ({provider.name()}: "
            f"{layer.source()[:80]}): save it by "
            "Export > Save As..., and choose the saved layer"
        )
    own = [r for band in range(1, layer.bandCount() + 1) for r in provider.userNoDataValues(band)]
    if own:
        values = ", ".join(f"{r.min():g}" for r in own)
        feedback.pushWarning(
            f"“{name}”: the additional no data value of its properties ({values}) is known to "
            "QGIS alone and not used; "
            'name it under "No data values"'
        )
    if not layer.crs().isValid():
        feedback.pushWarning(f"“{name}” has no CRS: name it under “CRS of layers without one”")
    return path


def names_of_layers(layers):
    """What the command calls layers: their files' names without the ending."""
    return [Path(layer.source().split("|")[0]).stem for layer in layers]


def vector_file(source, path, context, feedback, points=False, fields=True):
    """Write the features of a source, chosen or all, to a GeoPackage of one layer: its path."""
    name = source.sourceName()
    if not source.sourceCrs().isValid():
        raise QgsProcessingException(
            f"The layer “{name}” has no CRS, so where its places are is not known: set it in "
            "the properties of the layer"
        )
    if source.featureCount() == 0:
        raise QgsProcessingException(
            f"The layer “{name}” has no features: nothing can be fitted to it"
        )
    options = QgsVectorFileWriter.SaveVectorOptions()
    options.driverName, options.layerName = "GPKG", "records"
    kind = QgsWkbTypes.Point if points else source.wkbType()
    writer = QgsVectorFileWriter.create(
        str(path), source.fields(), kind, source.sourceCrs(), context.transformContext(), options
    )
    if writer.hasError() != QgsVectorFileWriter.NoError:
        raise QgsProcessingException(
            f"“{name}” cannot be written to {path}: {writer.errorMessage()}"
        )
    written = lost = 0
    for feature in source.getFeatures():
        if feedback.isCanceled():
            break
        for single in _points_of(feature) if points else (feature,):
            if not writer.addFeature(single, QgsFeatureSink.FastInsert):
                raise QgsProcessingException(
                    f"“{name}” cannot be written to {path}: {writer.errorMessage()}"
                )
            written += 1
        if points and not feature.hasGeometry():
            lost += 1
    del writer  # closes the file
    if lost:
        feedback.pushWarning(f"“{name}”: {lost} features without a place are left out")
    if not written:
        raise QgsProcessingException(f"The layer “{name}” has no feature with a place")
    return str(path)


def file_name(source, otherwise):
    """The name of the layer as that of a file, which messages and reports repeat."""
    safe = re.sub(r"[^\w .-]", "_", source.sourceName()).strip(" .")[:80]
    return f"{safe or otherwise}.gpkg"


def _points_of(feature):
    """The points of a feature, each as a feature: a multipoint is several records."""
    geometry = feature.geometry()
    if geometry.isNull() or geometry.isEmpty():
        return
    for part in geometry.asGeometryCollection() if geometry.isMultipart() else (geometry,):
        single = QgsFeature(feature)
        if QgsWkbTypes.flatType(part.wkbType()) != QgsWkbTypes.Point:
            part = part.centroid()
        flat = QgsGeometry.fromPointXY(part.asPoint())  # without heights
        single.setGeometry(flat)
        yield single


def extent_file(rectangle, crs, path, context):
    """A rectangle as a polygon in a GeoPackage."""
    from qgis.core import QgsFields

    options = QgsVectorFileWriter.SaveVectorOptions()
    options.driverName, options.layerName = "GPKG", "extent"
    writer = QgsVectorFileWriter.create(
        str(path), QgsFields(), QgsWkbTypes.Polygon, crs, context.transformContext(), options
    )
    feature = QgsFeature()
    feature.setGeometry(QgsGeometry.fromRect(rectangle))
    if not writer.addFeature(feature):
        raise QgsProcessingException(
            f"The extent cannot be written to {path}: {writer.errorMessage()}"
        )
    del writer
    return str(path)
