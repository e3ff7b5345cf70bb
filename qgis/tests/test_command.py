"""How the command is found, run, watched and stopped. QGIS is not needed."""

import os
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from maxent_processing import command

FAKE = [sys.executable, str(Path(__file__).with_name("fake_maxent.py"))]


class Notes(command.Watcher):
    """Writes down what it hears; cancels once a file is there."""

    def __init__(self, sign=None):
        self.heard, self.percents, self.sign = [], [], sign

    def told(self, text, caution=False):
        self.heard.append((text, caution))

    def working(self, text):
        self.heard.append((text, None))

    def progressed(self, percent):
        self.percents.append(percent)

    def cancelled(self):
        return self.sign is not None and self.sign.exists()


class Running(unittest.TestCase):
    def test_output_notes_and_progress(self):
        notes = Notes()
        self.assertEqual(command.run(FAKE, ["events"], notes)["result"], "the résult")
        self.assertEqual(
            notes.heard,
            [
                ("half of the records lie in the sea", True),
                ("Bäume.csv: 3 records", False),
                ("a: fit", None),
            ],
        )
        self.assertEqual(notes.percents, [22.5, 50.0])

    def test_errors_are_the_commands_own_words(self):
        for words, said in (
            ("fails", "layers/bio.tif: No space left on device"),
            ("killed", "maxent was ended by something else (code 9): Killed by the system"),
        ):
            with self.assertRaises(command.CommandError) as caught:
                command.run(FAKE, [words])
            self.assertEqual(str(caught.exception), said)

    def test_some_species_that_failed_are_a_caution(self):
        notes = Notes()
        self.assertEqual(command.run(FAKE, ["partly"], notes)["result"], "what is there")
        self.assertEqual(notes.heard, [("b: no records (the other species are finished)", True)])

    def test_cancelling_interrupts(self):
        with tempfile.TemporaryDirectory() as folder:
            sign = Path(folder) / "it runs"
            with self.assertRaisesRegex(command.CommandError, "cancelled"):
                command.run(FAKE, ["waits", sign], Notes(sign))

    def test_what_qgis_sets_for_its_python_is_not_handed_on(self):
        with mock.patch.dict(os.environ, {"PYTHONHOME": "", "PROJ_LIB": "/x", "KEPT": "yes"}):
            os.environ["PYTHONPATH"] = "/qgis/python"
            told = command.run(FAKE, ["environment", "PYTHONPATH", "PROJ_LIB", "KEPT"])["result"]
        self.assertEqual(told, {"PYTHONPATH": None, "PROJ_LIB": None, "KEPT": "yes"})

    def test_a_program_that_cannot_start(self):
        with self.assertRaisesRegex(command.CommandError, "cannot be started"):
            command.run(["/nowhere/maxent"], ["fit"])


class Versions(unittest.TestCase):
    def test_known(self):
        self.assertEqual(command.check(FAKE), "maxent 9.9.9")

    def test_others_are_refused_in_words(self):
        for kind, said in (
            ("older", "older maxent than this plugin can talk to: run pip install --upgrade"),
            ("newer", "answers in format 2, this plugin reads 1: update the plugin"),
            ("bash", "is no maxent: it says 'GNU bash'"),
            ("bare", "cannot read rasters: rasterio is missing"),
        ):
            with self.subTest(kind), mock.patch.dict(os.environ, {"FAKE": kind}):
                with self.assertRaisesRegex(command.CommandError, said):
                    command.check(FAKE)


class Finding(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        program = self.folder / "an environment" / "bin" / "maxent"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.program = program
        clean = mock.patch.dict(
            os.environ, {"PATH": "", "MAXENT_PYTHON": "", "HOME": str(self.folder)}
        )
        clean.start()
        self.addCleanup(clean.stop)

    def test_the_setting_may_be_program_environment_or_python(self):
        self.assertEqual(command.find_command(str(self.program)), [str(self.program)])
        self.assertEqual(command.find_command(str(self.program.parents[1])), [str(self.program)])
        self.assertEqual(command.find_command(sys.executable), [sys.executable, "-m", "maxent"])

    def test_a_wrong_setting_is_not_replaced_by_a_guess(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.program.parent)}):
            with self.assertRaisesRegex(
                command.CommandError, "neither a program nor an environment"
            ):
                command.find_command(str(self.folder / "gone"))
            with self.assertRaisesRegex(command.CommandError, "no maxent in the environment"):
                command.find_command(str(self.folder))

    def test_the_path_and_the_environment_that_r_makes(self):
        with self.assertRaisesRegex(command.CommandError, 'not found.*pip install "maxent'):
            command.find_command()
        made = self.folder / ".virtualenvs" / "maxent"
        made.parent.mkdir()
        self.program.parents[1].rename(made)
        self.assertEqual(command.find_command(), [str(made / "bin" / "maxent")])
        with mock.patch.dict(os.environ, {"PATH": str(made / "bin")}):
            self.assertEqual(command.find_command(), [str(made / "bin" / "maxent")])

    def test_maxent_python(self):
        with mock.patch.dict(os.environ, {"MAXENT_PYTHON": sys.executable}):
            self.assertEqual(command.find_command(), [sys.executable, "-m", "maxent"])
        with mock.patch.dict(os.environ, {"MAXENT_PYTHON": "/nowhere/python"}):
            with self.assertRaisesRegex(
                command.CommandError, "MAXENT_PYTHON names /nowhere/python"
            ):
                command.find_command()


if __name__ == "__main__":
    unittest.main()
