"""A Ctrl-C inside a callback of C code, which drops exceptions, is not lost."""

import subprocess
import sys

import pytest

DROPPED = """
import ctypes, sys, time
from maxent import _command
import maxent.cli.app

@ctypes.CFUNCTYPE(None)
def callback():
    raise KeyboardInterrupt

def main():
    callback()
    time.sleep(30)
    print("went on")

maxent.cli.app.main = main
_command.run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows differ")
def test_an_interrupt_that_a_callback_dropped_comes_again():
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=25
    )
    assert done.returncode == 130
    assert "went on" not in done.stdout
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr
