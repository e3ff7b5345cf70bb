"""Set-ups that the tests of torch share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _seed():
    """Every test draws the same numbers, where its file has loaded torch."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
