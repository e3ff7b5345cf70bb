"""``import maxent`` and the core need numpy, scipy and numba, and nothing else."""

import subprocess
import sys
from pathlib import Path


def test_the_core_runs_with_three_packages():
    script = Path(__file__).with_name("minimal_core.py")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.strip() == "[]"
