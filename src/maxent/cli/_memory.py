"""What the process has held."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def peak_memory() -> int:
    """The most bytes that this process has held; 0 where the system does not tell."""
    try:
        # on Linux ru_maxrss begins at the size of the process that started this one
        status = Path("/proc/self/status").read_text()
        if found := re.search(r"VmHWM:\s+(\d+)", status):
            return 1024 * int(found[1])
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
