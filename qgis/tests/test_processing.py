"""The algorithms in a QGIS without a window, and in qgis_process."""

import csv
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from place import NORTH, WEST, Notes, layer, layers, raster, records, values

# isort: split
import processing
from maxent_processing import command, outputs
from maxent_processing.plugin import MaxentPlugin
from maxent_processing.provider import COMMAND, configured_command
from processing.core.ProcessingConfig import ProcessingConfig
from processing.gui.AlgorithmDialog import AlgorithmDialog
from qgis.core import (
    QgsApplication,
    QgsFeature,
    QgsGeometry,
    QgsPointXY,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProject,
    QgsRasterLayer,
    QgsRectangle,
    QgsVectorLayer,
)

QUICK = {"JACKKNIFE": False, "CV": 5, "EXTRA": "--permutations 0 --bootstrap 0", "FEATURES": "lq"}


def run(name, parameters, feedback=None, context=None):
    """An algorithm, as the toolbox runs it."""
    return processing.run(
        f"maxent:{name}", parameters, feedback=feedback or Notes(), context=context
    )


def value(path, x, y):
    """Of a map at a place; None where it has no data."""
    read = QgsRasterLayer(str(path))
    found, known = read.dataProvider().sample(QgsPointXY(x, y), 1)
    return found if known else None


def numbers(path):
    """All numbers of a map, as bytes."""
    read = QgsRasterLayer(str(path))
    block = read.dataProvider().block(1, read.extent(), read.width(), read.height())
    return bytes(block.data())  # which are no copy: the block must live


class Plain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plugin = MaxentPlugin(None)
        cls.plugin.initGui()
        cls.home = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.home.name)
        cls.files = layers(cls.folder)
        cls.layers = [layer(path) for path in cls.files]
        cls.records = records()

    @classmethod
    def tearDownClass(cls):
        cls.plugin.unload()
        cls.home.cleanup()

    def new(self, name):
        """A path that is not there yet."""
        folder = tempfile.mkdtemp(dir=self.folder)
        return str(Path(folder) / name)

    def refused(self, name, parameters, said):
        """The algorithm says why it cannot work."""
        with self.assertRaises(QgsProcessingException) as caught:
            run(name, parameters)
        self.assertRegex(str(caught.exception), said)


class Fitted(Plain):
    """One fit for all tests; its numbers are those of the command."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.out = str(cls.folder / "results of QGIS")
        cls.notes = Notes()
        cls.context = QgsProcessingContext()
        cls.context.setProject(QgsProject.instance())
        cls.found = run(
            "fit",
            {
                "RECORDS": cls.records,
                "LAYERS": cls.layers,
                "CATEGORICAL": [cls.layers[2]],
                "OUTPUT": cls.out,
                **QUICK,
            },
            cls.notes,
            cls.context,
        )
        cls.biome, cls.model = cls.layers[2], cls.found["MODEL"]

    def test_the_numbers_are_those_of_the_command(self):
        table = self.folder / "records.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            write = csv.writer(file)
            write.writerow(("species", "longitude", "latitude"))
            for feature in self.records.getFeatures():
                point = feature.geometry().asPoint()
                write.writerow(("Föhre", repr(point.x()), repr(point.y())))
        words = ["fit", table, *self.files, "-c", "biome", "-o", self.folder / "of the command"]
        words += ["--features", "lq", "--cv", "none", "--no-jackknife", "--permutations", "0"]
        words += [
            "--bootstrap",
            "0",
            "--threshold",
            "Maximum training sensitivity plus specificity",
        ]
        told = command.run(command.find_command(), words)
        (row,) = told["result"]["species"]
        self.assertEqual(row["gap"], self.found["GAP"])
        theirs = self.folder / "of the command" / "maps" / "cloglog.tif"
        self.assertEqual(numbers(Path(self.out) / "maps" / "cloglog.tif"), numbers(theirs))

    def test_notes_stages_and_the_command_are_in_the_log(self):
        log = "\n".join(self.notes.infos)
        self.assertRegex(log, r"maxent \d.*: maxent fit .*Funde.gpkg")
        self.assertIn("Funde.gpkg: 60 records of 1 species", log)
        self.assertIn("Föhre: maps", log)

    def test_maps_are_loaded_with_their_styles(self):
        names = {Path(path).stem: path for path in self.found["MAPS"]}
        self.assertEqual(set(names), {"cloglog", "mess", "presence"})
        self.assertTrue(Path(self.found["REPORT"]).is_file())
        kinds = {
            "cloglog": "singlebandpseudocolor",
            "mess": "singlebandpseudocolor",
            "presence": "paletted",
        }
        for name, path in names.items():
            details = self.context.layerToLoadOnCompletionDetails(path)
            self.assertEqual(details.name, f"Föhre {name}")
            loaded = QgsRasterLayer(path)
            outputs.style_of(path)(loaded)
            self.assertEqual(loaded.renderer().type(), kinds[name])
        ramp = QgsRasterLayer(names["cloglog"])
        outputs.style_of(names["cloglog"])(ramp)
        items = ramp.renderer().shader().rasterShaderFunction().colorRampItemList()
        self.assertEqual((items[0].value, items[-1].value), (0.0, 1.0))

    def test_project_gives_the_map_of_the_fit(self):
        out = self.new("again.tif")
        run("project", {"MODEL": self.model, "LAYERS": self.layers, "OUTPUT": out})
        first = Path(self.out) / "maps" / "cloglog.tif"
        self.assertEqual(numbers(out), numbers(first))

    def test_evaluate_and_explain(self):
        found = run(
            "evaluate",
            {
                "MODEL": self.model,
                "RECORDS": self.records,
                "LAYERS": self.layers,
                "OUTPUT": self.new("s.csv"),
            },
        )
        self.assertTrue(0.6 < found["AUC"] <= 1)
        page = self.new("why.html")
        place = f"{WEST + 1},{NORTH - 0.55} [EPSG:4326]"
        told = run(
            "explain", {"MODEL": self.model, "LAYERS": self.layers, "PLACE": place, "OUTPUT": page}
        )
        there = value(Path(self.out) / "maps" / "cloglog.tif", WEST + 1, NORTH - 0.55)
        self.assertAlmostEqual(told["CLOGLOG"], there, places=5)
        self.assertIn("Wärme", Path(page).read_text(encoding="utf-8"))

    def test_range_change(self):
        now = layer(Path(self.out) / "maps" / "cloglog.tif")
        later = layer(raster(self.folder / "later.tif", [[0.9] * 40 for _ in range(40)]))
        found = run(
            "rangechange", {"PRESENT": now, "FUTURES": [later], "OUTPUT": self.new("change")}
        )
        (path,) = found["MAPS"]
        with open(found["TABLE"], newline="") as file:
            (row,) = csv.DictReader(file)
        self.assertEqual(float(row["lost_km2"]), 0.0)
        self.assertGreater(float(row["gained_km2"]), 0.0)
        style = QgsRasterLayer(path)
        outputs.style_of(path)(style)
        labels = [c.label for c in style.renderer().classes()]
        self.assertEqual(labels, ["lost", "kept", "gained", "absent"])

    def test_tune_and_check(self):
        notes = Notes()
        base = {"RECORDS": self.records, "LAYERS": self.layers, "CATEGORICAL": [self.layers[2]]}
        found = run(
            "tune",
            {
                **base,
                "FEATURES": "l",
                "MULTIPLIERS": "1,4",
                "OUTPUT": self.new("tuning"),
                "EXTRA": "--folds 2",
            },
            notes,
        )
        self.assertTrue(Path(found["REPORT"]).is_file())
        self.assertTrue(any("multiplier 4" in line for line in notes.infos))
        notes = Notes()
        found = run("check", {**base, "OUTPUT": self.new("fates.csv")}, notes)
        with open(found["OUTPUT"], newline="", encoding="utf-8") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 60)
        self.assertTrue(any(line.startswith("Föhre: ") and "used" in line for line in notes.infos))

    def test_earlier_results_are_kept_unless_they_may_be_replaced(self):
        again = {"RECORDS": self.records, "LAYERS": self.layers, "OUTPUT": self.out, **QUICK}
        self.refused("fit", {**again, "MULTIPLIER": 2.0}, "overwrite")


class Others(Plain):
    def test_region_extent_survey_and_several_species(self):
        region = QgsVectorLayer("Polygon?crs=EPSG:4326", "Gebiet", "memory")
        feature = QgsFeature()
        feature.setGeometry(QgsGeometry.fromRect(QgsRectangle(WEST, NORTH - 3, WEST + 3, NORTH)))
        region.dataProvider().addFeatures([feature])
        two = records(80, extra=(lambda i: ("Föhre", "Birke")[i % 2],))
        found = run(
            "fit",
            {
                "RECORDS": two,
                "LAYERS": self.layers[:2],
                "REGION": region,
                "EXTENT": f"{WEST},{WEST + 2},{NORTH - 2},{NORTH} [EPSG:4326]",
                "OUTPUT": self.new("two"),
                **QUICK,
            },
        )
        self.assertNotIn("MODEL", found)
        self.assertEqual(Path(found["REPORT"]).name, "index.html")
        path = next(path for path in found["MAPS"] if path.endswith("cloglog.tif"))
        self.assertIsNotNone(value(path, WEST + 1, NORTH - 1))
        self.assertIsNone(value(path, WEST + 3, NORTH - 1))
        survey = records(
            50,
            fields="species:string,presence:integer",
            extra=("Föhre", lambda i: i % 2),
            name="Begehung",
        )
        found = run(
            "fit",
            {
                "RECORDS": self.records,
                "LAYERS": self.layers[:2],
                "SURVEY": survey,
                "OUTPUT": self.new("kinds"),
                **QUICK,
            },
        )
        self.assertIn("Begehung", Path(found["REPORT"]).read_text(encoding="utf-8"))

    def test_cancelling_leaves_nothing(self):
        out = self.new("stopped")
        with self.assertRaisesRegex(QgsProcessingException, "cancelled"):
            run(
                "fit",
                {
                    "RECORDS": self.records,
                    "LAYERS": self.layers,
                    "OUTPUT": out,
                    "EXTRA": "--replicates 200",
                },
                Notes(stop_at="Föhre: "),
            )
        self.assertFalse(Path(out).exists() and any(Path(out).iterdir()))

    def test_bad_input_is_told_in_words(self):
        base = {"RECORDS": self.records, "LAYERS": self.layers, "OUTPUT": self.new("x"), **QUICK}
        self.refused("fit", {**base, "RECORDS": records(crs="")}, "“Funde” has no CRS")
        self.refused("fit", {**base, "RECORDS": records(0)}, "has no features")
        self.refused("fit", {**base, "LAYERS": []}, "LAYERS|No layers|one raster layer")
        self.refused("fit", {**base, "EXTRA": "--no-such"}, "No such option: --no-such")
        self.refused("fit", {**base, "EXTRA": '"open'}, "More options: No closing quotation")
        self.refused("fit", {**base, "FEATURES": "zz"}, "features|zz")
        self.refused("fit", {**base, "SPECIES": "Eibe"}, "Eibe")
        other = layer(raster(self.folder / "elsewhere.tif", values(3), west=60.0))
        self.refused("fit", {**base, "LAYERS": [*self.layers, other]}, "elsewhere")
        alone = {**base, "LAYERS": self.layers[:2], "CATEGORICAL": [self.layers[2]]}
        self.refused("fit", alone, "“biome” is to be categories, but is none of the layers")
        copy = layer(self.files[0])
        copy.setName("the same again")
        self.refused("fit", {**base, "LAYERS": [self.layers[0], copy]}, "are the same file")
        web = QgsRasterLayer("type=xyz&url=http://127.0.0.1:9/{z}/{x}/{y}.png", "web map", "wms")
        self.refused(
            "fit", {**base, "LAYERS": [self.layers[0], web]}, "web map.*is no file|cannot be read"
        )

    def test_categories_that_the_model_does_not_know(self):
        out = self.new("biomes")
        found = run(
            "fit",
            {
                "RECORDS": self.records,
                "LAYERS": self.layers,
                "CATEGORICAL": [self.layers[2]],
                "OUTPUT": out,
                **QUICK,
            },
        )
        folder = Path(self.new("elsewhere"))
        folder.mkdir()
        strange = [folder / path.name for path in self.files]
        for path, copy in zip(self.files, strange, strict=True):
            shutil.copy(path, copy)
        raster(strange[2], [[9] * 40 for _ in range(40)])
        notes = Notes()
        run(
            "project",
            {
                "MODEL": found["MODEL"],
                "LAYERS": [layer(p) for p in strange],
                "OUTPUT": self.new("there.tif"),
            },
            notes,
        )
        self.assertRegex(
            "\n".join([*notes.infos, *notes.warnings]), "unseen|never seen|not seen|1,?600"
        )

    def test_places_that_are_missing_are_counted(self):
        some = records(30)
        feature = QgsFeature(some.fields())
        feature.setAttributes(["Föhre"])
        some.dataProvider().addFeatures([feature])
        notes = Notes()
        run("check", {"RECORDS": some, "LAYERS": self.layers, "OUTPUT": self.new("f.csv")}, notes)
        self.assertIn("“Funde”: 1 features without a place are left out", notes.warnings)

    def test_without_the_command(self):
        base = {"RECORDS": self.records, "LAYERS": self.layers, "OUTPUT": self.new("none"), **QUICK}
        gone = {"MAXENT_PYTHON": "", "PATH": "/nowhere", "HOME": str(self.folder)}
        with mock.patch.dict(os.environ, gone):
            self.refused("fit", base, "The command maxent was not found.*Settings > Options")

    def test_the_setting_rules(self):
        ProcessingConfig.setSettingValue(COMMAND, "/nowhere/maxent")
        try:
            self.assertEqual(configured_command(), "/nowhere/maxent")
            base = {"RECORDS": self.records, "LAYERS": self.layers, "OUTPUT": self.new("x")}
            self.refused("check", base, "/nowhere/maxent is neither a program nor an environment")
        finally:
            ProcessingConfig.setSettingValue(COMMAND, "")

    def test_every_dialog_opens_with_its_widgets(self):
        QgsProject.instance().addMapLayers([self.layers[0].clone(), self.records.clone()])
        try:
            for algorithm in (
                QgsApplication.processingRegistry().providerById("maxent").algorithms()
            ):
                dialog = AlgorithmDialog(algorithm.create())
                wrappers = dialog.mainWidget().wrappers
                shown = {d.name() for d in algorithm.parameterDefinitions()}
                self.assertLessEqual(shown - set(wrappers), {"OUTPUT"}, algorithm.id())
                self.assertTrue(algorithm.shortHelpString())
                dialog.close()
        finally:
            QgsProject.instance().removeAllMapLayers()


class Headless(Plain):
    def test_qgis_process_runs_it(self):
        program = shutil.which("qgis_process.bin") or shutil.which("qgis_process")
        if program is None:
            self.skipTest("qgis_process is not there")
        environment = {
            **os.environ,
            "QGIS_PLUGINPATH": str(Path(__file__).resolve().parents[1]),
            "HOME": str(self.folder),
        }

        def call(*words):
            ran = subprocess.run([program, *words], env=environment, capture_output=True, text=True)
            return ran.returncode, ran.stdout + ran.stderr

        call("plugins", "enable", "maxent_processing")
        code, said = call("list")
        self.assertIn("maxent:fit", said)
        path = self.folder / "points.csv"
        path.write_text(
            "species,x,y\n"
            + "".join(f"a,{WEST + i / 20},{NORTH - i % 7 / 4 - 0.1}\n" for i in range(60))
        )
        source = f"delimitedtext://file://{path}?xField=x&yField=y&crs=EPSG:4326"
        out = self.new("headless")
        words = [
            f"--LAYERS={self.files[0]}",
            f"--LAYERS={self.files[1]}",
            f"--OUTPUT={out}",
            "--CV=5",
        ]
        words += ["--JACKKNIFE=false", "--EXTRA=--permutations 0 --bootstrap 0"]
        code, said = call("run", "maxent:fit", f"--RECORDS={source}", *words)
        self.assertEqual(code, 0, said)
        self.assertTrue((Path(out) / "maps" / "cloglog.tif").is_file(), said)
        code, said = call(
            "run",
            "maxent:fit",
            f"--RECORDS={source}",
            *words[:2],
            f"--OUTPUT={out}",
            "--EXTRA=--nope",
        )
        self.assertNotEqual(code, 0)
        self.assertIn("No such option: --nope", said)


if __name__ == "__main__":
    unittest.main()
