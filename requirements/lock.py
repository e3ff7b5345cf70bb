"""Write requirements/lock.txt: versions and hashes of what the tests install, on every system.

python requirements/lock.py [--upgrade]

Torch is left out, with the CUDA packages it brings: its builds for one version are many (CPU, CUDA)
and each has a hash of its own. requirements/dev-constraints.txt has its version.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "lock.txt"
PROJECT = HERE.parent / "pyproject.toml"
LEFT_OUT = ("torch", "nvidia-", "cuda-")
_BLOCK = re.compile(r"^(?P<name>[a-z][\w.-]*)==.*\n(?:[ \t].*\n)*", re.MULTILINE)


def without(lock: str, left_out: tuple[str, ...] = LEFT_OUT) -> str:
    """The lock without the packages whose names are given, or begin with what ends in a dash."""

    def kept(block: re.Match[str]) -> str:
        dropped = (
            block["name"].startswith(name) if name.endswith("-") else block["name"] == name
            for name in left_out
        )
        return "" if any(dropped) else block[0]

    return _BLOCK.sub(kept, lock)


def resolved(upgrade: bool) -> str:
    """What uv finds for all extras and the group of developers; known versions stay if they can."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = [f"--extra={name}" for name in project["optional-dependencies"]]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lock.txt"
        out.write_text(LOCK.read_text() if LOCK.exists() and not upgrade else "")
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"]
        # no names of registries, and none of folders: the file is the same wherever it is made
        command += ["--generate-hashes", "--no-emit-index-url", "--no-annotate"]
        command += ["--custom-compile-command", "make lock"]
        command += ["--python-version", project["requires-python"].removeprefix(">=")]
        command += ["--constraints", str(HERE / "dev-constraints.txt"), "--output-file", str(out)]
        command += [*extras, "--group", f"{PROJECT}:dev", str(PROJECT)]
        subprocess.run(command, check=True)
        return out.read_text()


if __name__ == "__main__":
    LOCK.write_text(without(resolved("--upgrade" in sys.argv[1:])))
