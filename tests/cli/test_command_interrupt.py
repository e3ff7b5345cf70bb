"""A Ctrl-C in odd places: callbacks of C code, which drop exceptions, and code of a text."""

import subprocess
import sys

import pytest

from waiting import LIMIT

DROPPED = """
import ctypes, sys, time
from maxent import _command
import maxent.cli.command

@ctypes.CFUNCTYPE(None)
def callback():
    raise KeyboardInterrupt

def main():
    callback()
    time.sleep(3600)
    print("went on")

maxent.cli.command.main = main
_command.run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows differ")
def test_an_interrupt_that_a_callback_dropped_comes_again():
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 130
    assert "went on" not in done.stdout
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr


SWALLOWED = """
import contextlib, functools, signal, sys, time
from maxent import _command
from maxent._support import interrupts
from maxent.cli.command import main
from maxent.cli._console import one_line_errors

_command.Insistent = functools.partial(interrupts.Insistent, 0.2)
fate = sys.argv[1]
sys.argv = ["maxent", "interrupted"]

@main.command()
@one_line_errors
def interrupted():
    if fate == "dropped":
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        time.sleep(3600)
    else:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None
    print("went on")

_command.run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows differ")
@pytest.mark.parametrize("fate", ["dropped", "turned into another error"])
def test_an_interrupt_that_foreign_code_swallowed_is_heard(fate):
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED, fate], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert done.stderr == "error: interrupted; nothing half-written was left behind\n"


IN_A_TEXT = """
import signal, sys
from maxent._command import run

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "maxent._support.threads":
            exec("signal.raise_signal(signal.SIGINT)")

sys.meta_path.insert(0, Interrupt())
sys.argv = ["maxent", "info"]
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows differ")
def test_an_interrupt_in_the_code_of_a_text_ends_with_130(tmp_path):
    """Python notes it there as unhandled, and would kill itself by the signal after all is done."""
    (tmp_path / "interrupted.py").write_text(IN_A_TEXT)
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "error: interrupted; nothing half-written was left behind\n"
