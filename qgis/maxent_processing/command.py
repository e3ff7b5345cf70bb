"""The command `maxent` in a process of its own. Nothing here needs QGIS.

QGIS's Python stays as it is: the command runs in whatever environment it is installed in, is told
where to write its events (lines of JSON), and is interrupted like by Ctrl-C when the user cancels.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OLDEST = (0, 1, 0)  # the first version whose events and options are known here
SETTING = "Settings > Options > Processing > Providers > Maxent"
INSTALL = (
    'It needs Python 3.11 or newer: make an environment (python3 -m venv maxent), run pip install "maxent[app]" in it, '
    f"and enter that environment under {SETTING}."
)
PATIENCE = 20.0  # seconds that an interrupted command has to tidy up
PARTLY, INTERRUPTED = 3, 130  # exit codes of the command

# what QGIS sets for its own Python, GDAL and PROJ would mislead those of the command
_OF_QGIS = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONEXECUTABLE", "GDAL_DATA")
_OF_QGIS += ("GDAL_DRIVER_PATH", "PROJ_LIB", "PROJ_DATA")


class CommandError(Exception):
    """In the words that a user of QGIS is to read."""


class Watcher:
    """What a caller wants to hear; each method does nothing unless it is overridden."""

    def told(self, text, caution=False):
        """A note of the command."""

    def working(self, text):
        """What it is at."""

    def progressed(self, percent):
        """How much is done, from 0 to 100."""

    def cancelled(self):
        """Whether to stop."""
        return False


def find_command(configured=""):
    """The words that start maxent: the setting first, then MAXENT_PYTHON, the path, and the environment that R makes."""
    if configured.strip():
        return _from_setting(Path(os.path.expanduser(configured.strip())))
    python = os.environ.get("MAXENT_PYTHON", "")
    if python:
        if shutil.which(python) is None:
            raise CommandError(
                f"MAXENT_PYTHON names {python}, which is no program: correct it, or enter the environment under {SETTING}"
            )
        return [python, "-m", "maxent"]
    found = shutil.which("maxent")
    if found:
        return [found]
    for environment in (Path("~/.virtualenvs/maxent"), Path("~/.virtualenvs/r-maxent")):
        inside = _in_environment(environment.expanduser())
        if inside:
            return inside
    raise CommandError(f"The command maxent was not found. {INSTALL}")


def _from_setting(path):
    if path.is_dir():
        inside = _in_environment(path)
        if inside:
            return inside
        raise CommandError(f"There is no maxent in the environment {path}. {INSTALL}")
    program = shutil.which(str(path))
    if program is None:
        raise CommandError(f"{path} is neither a program nor an environment. {INSTALL}")
    if re.match(r"python[\d.]*w?(\.exe)?$", Path(program).name, re.IGNORECASE):
        return [program, "-m", "maxent"]
    return [program]


def _in_environment(folder):
    """The command of an environment: made by venv, or by conda on Windows."""
    for part in ("bin", "Scripts"):
        program = shutil.which("maxent", path=str(folder / part))
        if program:
            return [program]
    return []


def environment_of_its_own():
    """Our environment without what QGIS has set for itself."""
    return {name: value for name, value in os.environ.items() if name not in _OF_QGIS}


def check_version(words):
    """The version of a command; one that is older than what is known here is refused."""
    try:
        answer = subprocess.run(
            [*words, "--version"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            stdin=subprocess.DEVNULL,
            env=environment_of_its_own(),
            **_hidden(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{words[0]} does not answer ({error}). {INSTALL}") from None
    said = answer.stdout + answer.stderr
    found = re.search(r"^maxent (\d+)\.(\d+)(?:\.(\d+))?", answer.stdout, re.MULTILINE)
    if answer.returncode or found is None:
        last = [line for line in said.splitlines() if line.strip()][-1:] or ["nothing"]
        raise CommandError(f"{' '.join(words)} is no maxent: it says {last[0].strip()!r}. {INSTALL}")
    version = tuple(int(part or 0) for part in found.groups())
    if version < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise CommandError(
            f"{words[0]} is maxent {'.'.join(map(str, version))}, this plugin needs {needed} or newer: "
            'pip install --upgrade "maxent[app]" in its environment'
        )
    return found.group(0)


def run(words, arguments, watcher=None):
    """Run a command to its end: its standard output; ``CommandError`` with its own words where it fails."""
    watcher = watcher or Watcher()
    with tempfile.TemporaryDirectory(prefix="maxent_") as folder:
        events, errors, output = (Path(folder) / name for name in ("events", "errors", "output"))
        environment = {**environment_of_its_own(), "MAXENT_EVENTS": str(events)}
        environment |= {"TERMINAL_WIDTH": "1000", "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
        lifeline = os.pipe() if os.name == "posix" else ()
        try:
            if lifeline:  # the command ends by itself should QGIS be gone
                environment["MAXENT_LIFELINE"] = str(lifeline[0])
            with errors.open("wb") as to_errors, output.open("wb") as to_output:
                process = subprocess.Popen(
                    [*words, *map(str, arguments)],
                    stdin=subprocess.DEVNULL,
                    stdout=to_output,
                    stderr=to_errors,
                    env=environment,
                    pass_fds=lifeline[:1],
                    **_own_group(),
                )
                stopped = _watch(process, _Told(events, errors), watcher)
        except OSError as error:
            raise CommandError(f"{words[0]} cannot be started: {error}") from None
        finally:
            for end in lifeline:
                os.close(end)
        text = output.read_text(encoding="utf-8", errors="replace")
        said = errors.read_text(encoding="utf-8", errors="replace")
    if stopped:
        raise CommandError("cancelled; the command has left nothing half-written")
    if process.returncode == PARTLY:
        watcher.told(f"{complaint(said)} (some species failed; the others are finished)", True)
    elif process.returncode:
        raise CommandError(complaint(said) or f"maxent ended with code {process.returncode}")
    return text


def complaint(said):
    """What a command complained of at last: its line of error, or what its frame of wrong usage holds."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = [line[len("error:") :].strip() for line in lines if line.startswith("error:")]
    framed = " ".join(line.strip("│| ") for line in lines if line.startswith(("│", "|")))
    framed = framed.replace("Invalid value: ", "")
    return next((text for text in (*wrong[-1:], framed, *lines[-1:]) if text), "")


def _watch(process, told, watcher):
    """Wait for the end, pass on what is told; whether the user stopped it."""
    stopped = 0.0
    while True:
        ended = process.poll() is not None
        told.pass_on(watcher)
        if ended:
            return bool(stopped) and process.returncode != 0
        if watcher.cancelled():
            if not stopped:
                stopped = time.monotonic()
                _interrupt(process)
            elif time.monotonic() - stopped > PATIENCE:
                process.kill()
        time.sleep(0.1)


def _interrupt(process):
    on_windows = getattr(signal, "CTRL_BREAK_EVENT", None)
    process.send_signal(signal.SIGINT if on_windows is None else on_windows)


def _own_group():
    """So that an interrupt is the command's alone."""
    if os.name == "posix":
        return {"start_new_session": True}
    return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}


def _hidden():
    return {"creationflags": subprocess.CREATE_NO_WINDOW} if sys.platform == "win32" else {}


class _Told:
    """What a running command has said since the last look."""

    def __init__(self, events, errors):
        self.paths = {"event": events, "line": errors}
        self.read = {"event": 0, "line": 0}
        self.species, self.finished, self.notes = 1, 0, set()

    def pass_on(self, watcher):
        for line in self._new("event"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            self._event(event, watcher)
        for line in self._new("line"):  # what is no event, such as a warning of a library
            text = line.strip()
            if text.startswith("note: ") and text[len("note: ") :] not in self.notes:
                self._note(text[len("note: ") :], watcher)

    def _new(self, kind):
        """Whole lines alone."""
        try:
            with self.paths[kind].open("rb") as file:
                file.seek(self.read[kind])
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self.read[kind] += len(whole) + len(end)
        return whole.decode("utf-8", errors="replace").splitlines()

    def _note(self, text, watcher):
        if text not in self.notes:
            self.notes.add(text)
            caution = text.startswith("caution: ")
            watcher.told(text[len("caution: ") :] if caution else text, caution)

    def _event(self, event, watcher):
        kind = event.get("kind")
        if kind == "note":
            self._note(str(event.get("text", "")), watcher)
        elif kind == "begin":
            self.species = max(len(event.get("species") or ()), 1)
        elif kind == "stage":
            watcher.working(f"{event.get('species', '')}: {event.get('stage', '')}")
        elif kind == "done":
            self.finished += 1
            watcher.progressed(100.0 * self.finished / self.species)
        elif kind == "candidate":
            named = (event.get(name, "") for name in ("features", "potential", "multiplier"))
            watcher.working("trying features {}, {}, multiplier {}".format(*named))
        elif kind == "progress" and event.get("total"):
            part = min(event.get("done", 0) / event["total"], 1.0)
            watcher.progressed(100.0 * (self.finished + 0.9 * part) / self.species)
