"""What files bring back answers as before, to the last bit."""

import pytest

from maxent._support.compiling import switches


@pytest.fixture(autouse=True)
def _kernels_alone(monkeypatch):
    """The first of two calls might run in numpy, which differs in the last digits."""
    monkeypatch.setattr(switches, "spare_small_problems", False)
