"""Set-ups that the tests of the app share."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from forked_jobs import Forks


@pytest.fixture(scope="session")
def forks():
    made = Forks()
    yield made
    made.end()


@pytest.fixture(scope="module")
def quick_jobs(request):
    """Jobs that start at once and draw nothing, for tests of what they say and write."""
    if sys.platform != "linux":
        yield
        return
    from maxent.app import jobs

    held = SimpleNamespace(Popen=request.getfixturevalue("forks").popen, DEVNULL=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "subprocess", held)
        yield


@pytest.fixture
def real_jobs(monkeypatch):
    """Jobs as they are, for tests of how they start, are stopped and end."""
    from maxent.app import jobs

    monkeypatch.setattr(jobs, "subprocess", subprocess)
