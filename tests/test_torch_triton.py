"""The Triton kernels, run in Triton's CPU interpreter."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import needs


def test_kernels_in_the_interpreter():
    for package in ("torch", "triton"):
        needs(package)
    kernels = Path(__file__).with_name("triton_kernels.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        kernels,
    ]
    run = subprocess.run(
        list(map(str, command)),
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
