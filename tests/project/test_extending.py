"""docs/extending.md counts the files that a new class touches: here the examples join a copy."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import maxent

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()

# kind: (room of the core, class, list of the catalogue, entry of that list)
EXAMPLES = {
    "entropy": (
        "entropies",
        "WeightedGini",
        "ENTROPIES",
        "(mx.WeightedGini((1.0, 0.5, 2.0)), 3)",
    ),
    "potential": ("potentials", "Huber", "POTENTIALS", "mx.Huber(beta=0.3, delta=0.5)"),
    "domain": ("domains", "Prefixes", "DOMAINS", "(mx.Prefixes(), 4)"),
    "solver": ("solvers", "ProximalGradient", "SOLVERS", "mx.ProximalGradient(tol=1e-6)"),
}


def _edit(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text(), count=1)
    assert count == 1, f"{path}: no {pattern}"
    path.write_text(text)


def _join(copy, kind):
    """Make the class of an example one of the library's; the files that this touched."""
    room, name, listed, entry = EXAMPLES[kind]
    package = copy / "src" / "maxent"
    module = package / "core" / room / f"{name.lower()}.py"
    (example,) = (ROOT / "docs" / "gallery" / "contributor").glob(f"plot_*_own_{kind}.py")
    source = example.read_text()
    source = re.sub(r"(import matplotlib|from sklearn)\b.*\n", "", source)
    source = re.sub(r"from maxent\.testing import .*\n", "from maxent import io\n", source)
    before, mark, after = source.partition("@dataclass(frozen=True)")
    module.write_text(f"{before}@io.register\n{mark}{after.partition('# %%')[0]}")

    names = package / "core" / room / "__init__.py"
    home = f"maxent.core.{room}"
    line = f"from {home}.{name.lower()} import {name}\n"
    _edit(names, r"\n__all__ = \[\n", rf'{line}\n__all__ = [\n    "{name}",\n')
    _edit(package / "__init__.py", rf'"{re.escape(home)}": \[\n', rf'\g<0>        "{name}",\n')
    _edit(copy / "tests" / "catalogue.py", rf"\n{listed} = \[\n", rf"\g<0>    {entry},\n")
    return [module, names, package / "__init__.py", copy / "tests" / "catalogue.py"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the library that four classes have joined, with the files each of them touched."""
    copy = tmp_path_factory.mktemp("library")
    ignored = shutil.ignore_patterns("__pycache__", "data")
    for folder in ("src", "tests", "docs", "packaging"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    return copy, {kind: _join(copy, kind) for kind in EXAMPLES}


def _run(copy, *command):
    places = [copy / "src", copy / "tests", copy / "tests" / "core"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    result = subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_page_names_the_files(copy):
    _, touched = copy
    for kind, (room, *_) in EXAMPLES.items():
        row = re.search(rf"^\| {kind} \|(.*)\|$", PAGE, re.MULTILINE)
        stated = re.findall(r"`([^`]+)`", row[1])
        assert len(stated) == len(touched[kind]) <= 4
        for path, text in zip(touched[kind], stated, strict=True):
            assert path.match(text.replace("...", "*")), f"{kind}: {path} is not {text}"
        assert room in stated[0]


def test_stubs_are_written_anew(copy):
    folder, _ = copy
    _run(folder, "packaging/stubs.py")
    written = (folder / "src" / "maxent" / "__init__.pyi").read_text()
    known = (ROOT / "src" / "maxent" / "__init__.pyi").read_text()
    for _, name, *_ in EXAMPLES.values():
        assert f"import {name} as {name}" in written
        assert name not in known


def test_classes_that_joined_are_public_documented_and_in_the_catalogue(copy):
    folder, _ = copy
    names = [name for _, name, *_ in EXAMPLES.values()]
    assert not set(names) & set(maxent.__all__)
    code = f"""
import sys, maxent, catalogue, test_catalogue
sys.path.append("docs/_ext")
import reference
assert set({names}) <= set(maxent.__all__)
test_catalogue.test_every_public_class_is_in_the_catalogue()
assert {{f"maxent.{{name}}" for name in {names}}} <= set(reference.reference())
listed = [*catalogue.ENTROPIES, *catalogue.DOMAINS]
listed = [x for x, _ in listed] + catalogue.POTENTIALS + catalogue.SOLVERS
own = [x for x in listed if type(x).__name__ in {names}]
assert len(own) == {len(names)}
maxent.save(own, "own.json")
"""
    _run(folder, "-c", code)
    loaded = "import maxent; print(*(type(x).__name__ for x in maxent.load('own.json')))"
    assert set(_run(folder, "-c", loaded).split()) == set(names)
