"""Tests wait for what must happen, however busy the machine is, and never for a time."""

import time

LIMIT = 1200  # seconds after which something never happens


def until(happened, process=None):
    """Wait for something to happen, and return what it gave; a process must live until then."""
    end = time.monotonic() + LIMIT
    while not (found := happened()):
        assert process is None or process.poll() is None, process.communicate()
        if time.monotonic() > end:
            raise TimeoutError(happened)
        time.sleep(0.02)
    return found
