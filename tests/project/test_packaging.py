"""What is released: the metadata, the lock, the recipe and the workflow agree with each other."""

import hashlib
import importlib.util
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import maxent
from tools import needs

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]


def script(path):
    """A script beside the package, imported by its path."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def release():
    return script("packaging/release.py")


@pytest.fixture(scope="module")
def lowest():
    return script("requirements/lowest.py")


@pytest.fixture(scope="module")
def lock():
    return script("requirements/lock.py")


def test_the_extras_are_for_users_and_each_has_a_smoke_test(release):
    assert set(EXTRAS) == {"app", "dask", "geo", "plot", "torch", "transformers"}
    assert set(script("packaging/smoke.py").PARTS) == {"core", *EXTRAS}
    every = ",".join(EXTRAS)
    tried = release.environments(list(EXTRAS))
    assert list(tried) == ["", *(f"[{extra}]" for extra in EXTRAS), f"[{every}]"]
    assert tried[f"[{every}]"] == ["core", *EXTRAS]


def test_the_licences_are_ours_and_those_of_the_bundles(release):
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    names = {f"{part['name']} {part['version']}": part for part in release.bundled(ROOT)}
    found = {PROJECT["license"].partition(" ")[0]}
    for facts in (packages[part["bom-ref"].partition("#")[2]] for part in names.values()):
        found.add(facts["license"].replace("BDS-", "BSD-"))  # as one package spells it
    assert set(PROJECT["license"].split(" AND ")) == found
    files = PROJECT["license-files"]
    assert len(files) == 3
    texts = [(ROOT / file).read_text() for file in files]
    assert texts[0].startswith("BSD 3-Clause License")
    for text in texts[1:]:
        assert set(re.findall(r"^(\S+ \d+\.\d+\.\d+)\n=+$", text, re.MULTILINE)) == set(names)


def test_the_lock_has_every_requirement_at_a_version_that_fits(lowest, lock):
    text = lock.LOCK.read_text()
    pins = dict(re.findall(r"^([a-z][\w.-]*)==(\S+)", text, re.MULTILINE))
    tools = set(PYPROJECT["dependency-groups"]["release"])
    for line in lowest.requirements(PYPROJECT):
        wanted = Requirement(line)
        if line in tools or wanted.name in ("maxent", *lock.LEFT_OUT):
            continue
        version = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), f"{line}: make lock"
    blocks = [block[0] for block in lock._BLOCK.finditer(text)]
    assert len(blocks) >= len(pins)
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text  # no registry is named
    assert lock.without(text) == text


def test_packages_are_left_out_of_the_lock_by_name_or_by_their_beginning(lock):
    text = "# head\na==1 \\\n    --hash=x\ntorch==2 ; b \\\n    --hash=y\n    --hash=z\n"
    text += "cuda-x==3 \\\n    --hash=w\ntorchsort==1 \\\n    --hash=v\n"
    kept = "# head\na==1 \\\n    --hash=x\ntorchsort==1 \\\n    --hash=v\n"
    assert lock.without(text, ("torch", "cuda-")) == kept


def test_lower_bounds_come_from_extras_and_groups_and_are_one_for_each(lowest):
    found = lowest.lowest(PYPROJECT)
    assert found["numpy"] == "2.0"
    assert {"torch", "dask", "rasterio", "pytest", "sphinx", "ruff"} <= found.keys()
    twice = PYPROJECT | {"dependency-groups": {"one": ["numpy>=9.9"]}}
    with pytest.raises(SystemExit, match=r"numpy has the lower bounds 2\.0 and 9\.9"):
        lowest.lowest(twice)


def test_the_recipe_for_conda_asks_for_what_the_wheel_asks_for():
    recipe = needs("yaml").safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    context, about = recipe["context"], recipe["about"]
    assert context["version"] == maxent.__version__
    assert f">={context['python_min']}" == PROJECT["requires-python"]
    assert (about["license"], about["license_file"]) == (
        PROJECT["license"],
        PROJECT["license-files"],
    )
    assert about["summary"] == PROJECT["description"]
    entries = recipe["build"]["python"]["entry_points"]
    assert entries == [f"{name} = {what}" for name, what in PROJECT["scripts"].items()]

    def asked(lines):
        names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
        wanted = [Requirement(line) for line in lines]
        return {
            f"{names.get(one.name, one.name)} {one.specifier}"
            for one in wanted
            if one.name != "maxent"
        }

    run, constraints = recipe["requirements"]["run"], recipe["requirements"]["run_constraints"]
    assert set(run[1:]) == asked(PROJECT["dependencies"])
    assert set(constraints) == asked(line for lines in EXTRAS.values() for line in lines)


def test_a_tree_with_changes_is_not_released(release, tmp_path):
    with pytest.raises(SystemExit, match="is no checkout of git"):
        release.refuse_changes(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path)]
    (tmp_path / "file.txt").write_text("committed")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    release.refuse_changes(tmp_path)
    (tmp_path / "new.txt").write_text("not committed")
    with pytest.raises(SystemExit, match=r"(?s)not clean.*\?\? new\.txt.*git stash -u"):
        release.refuse_changes(tmp_path)


def test_checksums_are_those_that_sha256sum_reads(release, tmp_path):
    file = tmp_path / "a.whl"
    file.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hashlib.sha256(b"abc").hexdigest() == known
    assert release.checksums([file]) == f"{known}  a.whl\n"


def test_the_bill_of_materials_has_the_scripts_inside_the_wheel_and_no_installer(release):
    parts = [{"name": name, "bom-ref": f"{name}==1"} for name in ("numpy", "pip")]
    needs = [{"ref": "root", "dependsOn": ["numpy==1"]}, {"ref": "numpy==1"}, {"ref": "pip==1"}]
    found = {"metadata": {"component": {"name": "maxent", "bom-ref": "root"}}}
    found |= {"components": parts, "dependencies": needs}
    scripts = release.bundled(ROOT)
    assert {"leaflet", "preact", "uplot"} <= {part["name"] for part in scripts}
    assert len({part["bom-ref"] for part in scripts}) == len(scripts)
    bill = release.completed(found, "1.2", scripts)
    assert bill["metadata"]["component"] == {"name": "maxent", "bom-ref": "root", "version": "1.2"}
    assert [part["name"] for part in bill["components"][:2]] == ["numpy", scripts[0]["name"]]
    refs = {part["bom-ref"] for part in bill["components"]}
    assert {entry["ref"] for entry in bill["dependencies"]} == {"root", *refs}
    (ours,) = (entry for entry in bill["dependencies"] if entry["ref"] == "root")
    assert set(ours["dependsOn"]) == refs


def test_the_workflow_runs_what_runs_here_on_four_systems():
    yaml = needs("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    job = workflow["jobs"]["locked"]
    systems = job["strategy"]["matrix"]["os"]
    assert {name.split("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}
    assert any(name.endswith("-arm") for name in systems)
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    pythons = {one["python"] for one in job["strategy"]["matrix"]["include"]} | {"3.11"}
    told = {line.rpartition(":: ")[2] for line in PROJECT["classifiers"] if ":: 3." in line}
    assert pythons == told | {"3.14"}  # a trial, not yet a promise
    assert "3.14" in job["continue-on-error"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {"ruff-format", "ruff-check", "mypy"} <= {hook["id"] for hook in hooks}


def test_targets_of_the_makefile_that_the_documents_name_are_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    texts = [(ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", ".ci/run")]
    calls = [call for text in texts for call in re.findall(r"^make (.+)", text, re.MULTILINE)]
    named = {re.findall(r"(?<!\S)[a-z][a-z-]*", call)[0] for call in calls}
    named |= set(re.findall(r"test-(?:lowest|newest)", workflow))
    assert {"demo", "test", "release", "lock", "test-newest"} <= named <= targets
