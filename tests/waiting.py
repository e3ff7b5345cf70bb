"""Tests wait for what must happen, however busy the machine is, and never for a time."""

import time

LIMIT = 1200  # seconds after which something never happens


def until(happened, process=None):
    """Wait for something to happen, and return what it gave; a process must live until then."""
    start = time.monotonic()
    while not (found := happened()):
        assert process is None or process.poll() is None, process.communicate()
        waited = time.monotonic() - start
        if waited > LIMIT:
            raise TimeoutError(happened)
        time.sleep(min(0.02 + waited / 20, 0.2))  # to ask costs time too
    return found
