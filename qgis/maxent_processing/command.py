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
from contextlib import suppress
from pathlib import Path

FORMAT = 1  # of the answers of maxent --json that are read here
SETTING = "Settings > Options > Processing > Providers > Maxent"
INSTALL = (
    "It needs Python 3.11 or newer: make an environment (python3 -m venv maxent), run "
    'pip install "maxent[app]" in it, '
    f"and enter that environment under {SETTING}."
)
CAUTION = "caution: "  # how notes begin that nobody should miss
PATIENCE = 20.0  # seconds that an interrupted command has to tidy up

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
    """The words that start maxent: of the setting, MAXENT_PYTHON, the path, or R's environment."""
    if configured.strip():
        return _from_setting(Path(os.path.expanduser(configured.strip())))
    python = os.environ.get("MAXENT_PYTHON", "")
    if python:
        if shutil.which(python) is None:
            raise CommandError(
                f"MAXENT_PYTHON names {python}, which is no program: correct it, or enter the "
                f"environment under {SETTING}"
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


def check(words):
    """The version of a command; one that is too old, or cannot read rasters, is refused."""
    try:
        answer = subprocess.run(
            [*words, "--json", "info"],
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
    called = " ".join(words)
    try:
        told = _answer(answer.stdout)
    except ValueError:
        if "No such option: --json" in answer.stderr:
            raise CommandError(
                f"{called} is an older maxent than this plugin can talk to: "
                'run pip install --upgrade "maxent[app]" in its environment'
            ) from None
        lines = (answer.stdout + answer.stderr).splitlines()
        last = [line.strip() for line in lines if line.strip()][-1:] or ["nothing"]
        raise CommandError(f"{called} is no maxent: it says {last[0]!r}. {INSTALL}") from None
    lacking = ((told.get("result") or {}).get("lacking") or {}).get("geo")
    if lacking:
        raise CommandError(
            f"{called} cannot read rasters: {', '.join(lacking)} "
            f"{'is' if len(lacking) == 1 else 'are'} missing. "
            'Run pip install "maxent[app]" in its environment'
        )
    return f"maxent {told['maxent']}"


def run(words, arguments, watcher=None):
    """Run a command to its end: what it answered, or ``CommandError`` in its own words."""
    watcher = watcher or Watcher()
    with tempfile.TemporaryDirectory(prefix="maxent_") as folder:
        events, errors, output = (Path(folder) / name for name in ("events", "errors", "output"))
        environment = {**environment_of_its_own(), "MAXENT_EVENTS": str(events)}
        lifeline = os.pipe() if os.name == "posix" else ()
        try:
            if lifeline:  # the command ends by itself should QGIS be gone
                environment["MAXENT_LIFELINE"] = str(lifeline[0])
            with errors.open("wb") as to_errors, output.open("wb") as to_output:
                process = subprocess.Popen(
                    [*words, "--json", *map(str, arguments)],
                    stdin=subprocess.DEVNULL,
                    stdout=to_output,
                    stderr=to_errors,
                    env=environment,
                    pass_fds=lifeline[:1],
                    **_own_group(),
                )
                stopped = _watch(process, _Told(events), watcher)
        except OSError as error:
            raise CommandError(f"{words[0]} cannot be started: {error}") from None
        finally:
            for end in lifeline:
                os.close(end)
        text = output.read_text(encoding="utf-8", errors="replace")
        said = errors.read_text(encoding="utf-8", errors="replace")
    if stopped:
        raise CommandError("cancelled; the command has left nothing half-written")
    try:
        told = _answer(text)
    except ValueError:
        last = [line.strip() for line in said.splitlines() if line.strip()][-1:]
        raise CommandError(
            f"maxent was ended by something else (code {process.returncode}): "
            f"{' '.join(last) or 'it says nothing'}"
        ) from None
    if told["status"] == "partly":
        for error in told["errors"]:
            watcher.told(f"{error} (the other species are finished)", True)
    elif told["status"] != "done":
        raise CommandError("; ".join(told["errors"]) or f"maxent: {told['status']}")
    return told


def _answer(text):
    """The object that the command prints; ``ValueError`` where it is not one that is known here."""
    told = json.loads(text)
    if not isinstance(told, dict) or "status" not in told:
        raise ValueError("no answer of maxent")
    if told.get("format") != FORMAT:
        raise CommandError(
            f"maxent {told.get('maxent')} answers in format {told.get('format')}, this plugin "
            f"reads {FORMAT}: update the plugin"
        )
    return told


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
    """The events of a running command since the last look."""

    def __init__(self, path):
        self.path, self.read = path, 0
        self.species, self.finished = 1, 0

    def pass_on(self, watcher):
        for line in self._new():
            with suppress(ValueError):
                self._event(json.loads(line), watcher)

    def _new(self):
        """Whole lines alone."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.read)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self.read += len(whole) + len(end)
        return whole.decode("utf-8", errors="replace").splitlines()

    def _event(self, event, watcher):
        kind = event.get("kind")
        if kind == "note":
            text = str(event.get("text", ""))
            caution = text.startswith(CAUTION)
            watcher.told(text[len(CAUTION) :] if caution else text, caution)
        elif kind == "begin":
            self.species = max(len(event.get("species") or ()), 1)
        elif kind == "stage":
            watcher.working(f"{event.get('species', '')}: {event.get('stage', '')}")
        elif kind == "candidate":
            named = (event.get(name, "") for name in ("features", "potential", "multiplier"))
            watcher.working("trying features {}, {}, multiplier {}".format(*named))
        elif kind == "done":
            self.finished += 1
            watcher.progressed(100.0 * self.finished / self.species)
        elif kind == "progress" and event.get("total"):
            part = min(event.get("done", 0) / event["total"], 1.0)
            watcher.progressed(100.0 * (self.finished + 0.9 * part) / self.species)
