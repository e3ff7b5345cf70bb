"""A Ctrl-C in odd places: callbacks of C code, which drop exceptions, and code of a text."""

import subprocess
import sys

import pytest

from waiting import LIMIT

DROPPED = """
import ctypes, sys, time
from maxent import _command
import maxent.cli.app

@ctypes.CFUNCTYPE(None)
def callback():
    raise KeyboardInterrupt

def main():
    callback()
    time.sleep(3600)
    print("went on")

maxent.cli.app.main = main
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


IN_A_TEXT = """
import signal, sys
from maxent._command import run

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "maxent._threads":
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
