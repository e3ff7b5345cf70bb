"""Print constraints that pin every dependency of pyproject.toml to the lowest version it allows.

python requirements/lowest.py > .cache/lowest.txt
pip install -c .cache/lowest.txt -e ".[app,dask,torch]" --group dev
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^]]*\])?\s*>=\s*(?P<version>[\w.]+)")


def requirements(pyproject: dict) -> list[str]:
    """What the project, its extras and the groups for developers ask for, each line once."""
    project, groups = pyproject["project"], pyproject["dependency-groups"].values()
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for lines in (*extras, *groups) for line in lines)]
    return list(dict.fromkeys(line for line in lines if isinstance(line, str)))


def lowest(pyproject: dict) -> dict[str, str]:
    """The lower bound of each package that is asked for."""
    found: dict[str, str] = {}
    for requirement in requirements(pyproject):
        if match := _REQUIREMENT.match(requirement):
            name, version = match["name"], match["version"]
            if found.setdefault(name, version) != version:
                raise SystemExit(f"{name} has the lower bounds {found[name]} and {version}")
    return found


if __name__ == "__main__":
    for name, version in lowest(tomllib.loads(PROJECT.read_text())).items():
        print(f"{name}=={version}")
