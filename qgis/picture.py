r"""The picture of docs/qgis.md: QGIS, its dialog of a fit and the maps, on a virtual screen.

MAXENT_PICTURE=DEMO:FILE QGIS_PLUGINPATH=qgis xvfb-run -a -s "-screen 0 1400x900x24" \
    qgis --nologo --code qgis/picture.py

DEMO is the folder of `maxent demo`, FILE what is written.
"""

import os
from pathlib import Path

from processing.gui.AlgorithmDialog import AlgorithmDialog
from qgis.core import QgsApplication, QgsProject, QgsRasterLayer, QgsVectorLayer
from qgis.PyQt.QtCore import QTimer
from qgis.utils import iface, loadPlugin, startPlugin

demo, target = (Path(part) for part in os.environ["MAXENT_PICTURE"].split(":"))
loadPlugin("maxent_processing")
startPlugin("maxent_processing")

from maxent_processing.outputs import style_of

project = QgsProject.instance()
for path in sorted((demo / "data" / "layers").glob("*.tif")):
    project.addMapLayer(QgsRasterLayer(str(path), path.stem), False)
for name in ("mess", "cloglog"):
    path = demo / "results" / "maps" / f"{name}.tif"
    layer = QgsRasterLayer(str(path), f"Arbor fictus {name}")
    style_of(path)(layer)
    project.addMapLayer(layer)
source = (demo / "data" / "occurrences.csv").as_uri()
records = QgsVectorLayer(
    f"{source}?xField=decimalLongitude&yField=decimalLatitude&crs=EPSG:4326",
    "occurrences",
    "delimitedtext",
)
project.addMapLayer(records)
window = iface.mainWindow()
dialog = AlgorithmDialog(
    QgsApplication.processingRegistry().algorithmById("maxent:fit").create(), parent=window
)
dialog.show()


def arrange():
    """Window and dialog side by side."""
    window.setGeometry(0, 0, 1400, 900)
    dialog.setGeometry(560, 240, 830, 640)
    iface.mapCanvas().setExtent(layer.extent())
    iface.mapCanvas().refresh()


def take():
    """The picture, then no questions about saving the project."""
    screen = QgsApplication.primaryScreen().grabWindow(0)
    screen.save(str(target))
    os._exit(0)


QTimer.singleShot(3000, arrange)
QTimer.singleShot(15000, take)
