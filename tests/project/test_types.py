"""Types hold for users: public names have their types, and a wrong one is refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import needs

ROOT = Path(__file__).parents[2]
USER_CODE = Path(__file__).with_name("user_code.py")


@pytest.fixture
def stubs(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "packaging"), *sys.path])
    import stubs

    return stubs


@pytest.mark.parametrize("package", ["maxent", "maxent.species"])
def test_the_stub_is_that_of_the_table(package, stubs):
    assert package in stubs.PACKAGES
    assert stubs.place_of(package).read_text() == stubs.stub_of(package), (
        "run python packaging/stubs.py"
    )


def test_a_checker_of_types_accepts_what_users_write_and_refuses_what_is_wrong():
    needs("basedpyright")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"]
    command += ["--pythonpath", sys.executable, str(USER_CODE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    told = {item["range"]["start"]["line"] + 1 for item in found if item["severity"] == "error"}
    lines = USER_CODE.read_text().splitlines()
    refused = {n for n, line in enumerate(lines, start=1) if re.search(r"# refused: ", line)}
    assert len(refused) >= 2
    assert told == refused, found
