"""A small made-up place: layers, records and a QGIS without a window."""

import atexit
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), "/usr/share/qgis/python/plugins"]
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
_home = tempfile.mkdtemp(
    prefix="maxent_qgis_home_"
)  # settings of whoever runs the tests stay as they are
os.environ["QGIS_CUSTOM_CONFIG_PATH"] = _home
atexit.register(shutil.rmtree, _home, ignore_errors=True)

from qgis.core import QgsApplication

app = QgsApplication([], True)
app.initQgis()

from osgeo import gdal, osr
from processing.core.Processing import Processing
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsGeometry,
    QgsPointXY,
    QgsProcessingFeedback,
    QgsRasterLayer,
    QgsVectorLayer,
)

gdal.UseExceptions()
Processing.initialize()
SIZE, CELL, WEST, NORTH = 40, 0.1, 10.0, 50.0


class Notes(QgsProcessingFeedback):
    """Keeps what is told."""

    def __init__(self, stop_at=None):
        super().__init__(False)
        self.infos, self.warnings, self.stop_at = [], [], stop_at

    def pushInfo(self, info):
        self.infos.append(info)

    def pushWarning(self, warning):
        self.warnings.append(warning)

    def setProgressText(self, text):
        self.infos.append(text)
        if self.stop_at and self.stop_at in text:
            self.cancel()


def values(seed, whole=False):
    """A smooth surface, different for each seed."""
    mix = random.Random(seed)
    a, b, c = (mix.uniform(-1, 1) for _ in range(3))
    rows = [
        [
            a * i / SIZE + b * j / SIZE + c * (i - j) ** 2 / SIZE**2 + mix.uniform(0, 0.05)
            for j in range(SIZE)
        ]
        for i in range(SIZE)
    ]
    return [[int(3 * abs(v)) % 4 + 1 for v in row] for row in rows] if whole else rows


def raster(path, rows, crs=4326, west=WEST):
    """Write a GeoTIFF."""
    import struct

    whole = isinstance(rows[0][0], int)
    kind = gdal.GDT_Byte if whole else gdal.GDT_Float64
    file = gdal.GetDriverByName("GTiff").Create(str(path), len(rows[0]), len(rows), 1, kind)
    file.SetGeoTransform((west, CELL, 0, NORTH, 0, -CELL))
    if crs:
        known = osr.SpatialReference()
        known.ImportFromEPSG(crs)
        file.SetProjection(known.ExportToWkt())
    flat = [v for row in rows for v in row]
    packed = struct.pack(f"{len(flat)}{'B' if whole else 'd'}", *flat)
    file.GetRasterBand(1).WriteRaster(0, 0, len(rows[0]), len(rows), packed)
    file = None
    return path


def layers(folder):
    """Two numbers and a category, in a folder with a blank and an umlaut."""
    folder = Path(folder) / "Täler und Höhen"
    folder.mkdir()
    paths = [
        raster(folder / f"{name}.tif", values(i)) for i, name in enumerate(("Wärme", "rain fall"))
    ]
    return [*paths, raster(folder / "biome.tif", values(7, whole=True))]


def layer(path):
    """A raster of the project."""
    made = QgsRasterLayer(str(path), Path(path).stem)
    assert made.isValid(), path
    return made


def records(number=60, crs="EPSG:4326", fields="species:string", extra=("Föhre",), name="Funde"):
    """Points in memory, more of them in the north."""
    known = f"crs={crs}&" if crs else ""
    made = QgsVectorLayer(f"Point?{known}field={fields.replace(',', '&field=')}", name, "memory")
    if not crs:
        made.setCrs(QgsCoordinateReferenceSystem())
    draw = random.Random(0)
    features = []
    for i in range(number):
        point = QgsPointXY(WEST + 4 * draw.random(), NORTH - 4 * draw.random() ** 2)
        feature = QgsFeature(made.fields())
        feature.setGeometry(QgsGeometry.fromPointXY(point))
        feature.setAttributes([v(i) if callable(v) else v for v in extra])
        features.append(feature)
    made.dataProvider().addFeatures(features)
    return made
