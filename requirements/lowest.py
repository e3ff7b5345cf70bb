"""Print constraints that pin every dependency of pyproject.toml to the lowest version it allows.

python requirements/lowest.py > .cache/lowest.txt
pip install -c .cache/lowest.txt -e ".[dev]"
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^]]*\])?\s*>=\s*(?P<version>[\w.]+)")


def lowest(project: dict) -> dict[str, str]:
    """The lower bound of each package that the project or one of its extras names."""
    extras = project["optional-dependencies"].values()
    found: dict[str, str] = {}
    for requirement in [*project["dependencies"], *(line for extra in extras for line in extra)]:
        if match := _REQUIREMENT.match(requirement):
            name, version = match["name"], match["version"]
            if found.setdefault(name, version) != version:
                raise SystemExit(f"{name} has the lower bounds {found[name]} and {version}")
    return found


if __name__ == "__main__":
    for name, version in lowest(tomllib.loads(PROJECT.read_text())["project"]).items():
        print(f"{name}=={version}")
