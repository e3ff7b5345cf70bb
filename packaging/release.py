"""Build sdist and wheel from a clean tree, check them, install and try them; nothing is uploaded.

python packaging/release.py

In order: the tree has no changes; both files are built from what is committed; twine, pyroma and
check-wheel-contents have no complaint, and rattler-build none about the recipe for conda; the wheel
is installed into empty environments (without extras, with each extra alone, with all) and
packaging/smoke.py runs there, outside the checkout.
dist/ then has the two files, their checksums (SHA256SUMS) and the bill of materials (CycloneDX).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("smoke.py")
RECIPE = Path(__file__).with_name("conda") / "recipe.yaml"
# one version of torch, so that no environment gets the CUDA packages of another unasked
CONSTRAINTS = ROOT / "requirements" / "dev-constraints.txt"
# of 10, by pyroma: two are for the addresses of the project and its authors, and it has none yet
RATING = 8


def run(*command: str | Path, **options: Any) -> str:
    """What a command prints; it must end well."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(name: str) -> Path:
    """A program of the environment that runs this script."""
    return Path(sys.executable).with_name(name)


def refuse_changes(root: Path) -> None:
    """A release is what is committed, so nothing else may lie in the tree."""
    if not (root / ".git").exists():
        raise SystemExit(f"{root} is no checkout of git: a release is built from a clone")
    if changes := run("git", "status", "--porcelain", cwd=root):
        raise SystemExit(
            f"the tree is not clean, and a release is what is committed:\n{changes}"
            "commit these files, put them aside (git stash -u) or remove them, then try again"
        )


def build(root: Path, dist: Path) -> tuple[Path, Path]:
    """The sdist of the last commit, and the wheel from that sdist."""
    shutil.rmtree(dist, ignore_errors=True)
    stamp = run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    with tempfile.TemporaryDirectory() as place:  # a copy without ignored files
        packed, tree = Path(place) / "tree.tar", Path(place) / "tree"
        run("git", "archive", "--output", packed, "HEAD", cwd=root)
        with tarfile.open(packed) as archive:
            archive.extractall(tree, filter="data")
        environment = os.environ | {"SOURCE_DATE_EPOCH": stamp}  # the same bytes every time
        run(sys.executable, "-m", "build", "--outdir", dist, tree, env=environment)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return sdist, wheel


def check(sdist: Path, wheel: Path) -> None:
    """What the index, and readers of the metadata, will look at."""
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run(tool("check-wheel-contents"), "--config", ROOT / "pyproject.toml", wheel)
    run(tool("pyroma"), "--min", str(RATING), sdist)


def render_recipe(recipe: Path) -> dict[str, Any]:
    """The recipe for conda as rattler-build reads it: an unknown field or a bad version fails."""
    from rattler_build import Stage0Recipe, VariantConfig

    (variant,) = Stage0Recipe.from_file(recipe).render(VariantConfig())
    return variant.recipe.to_dict()


def environments(extras: list[str]) -> dict[str, list[str]]:
    """Requirement -> parts of the smoke test: nothing, each extra alone, all of them."""
    alone = {f"[{extra}]": [extra] for extra in extras}
    return {"": ["core"]} | alone | {f"[{','.join(extras)}]": ["core", *extras]}


def install(wheel: Path, extras: str, place: Path) -> Path:
    """An empty environment with the wheel; its interpreter."""
    run(sys.executable, "-m", "venv", place)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # most of it is never imported here, so that compiling it ahead would be the longest part
    run(*pip, "--no-compile", "--constraint", CONSTRAINTS, f"{wheel}{extras}")
    return python


def try_out(python: Path, parts: list[str], place: Path) -> None:
    """The smoke test in a folder from which the checkout cannot be seen."""
    place.mkdir()
    shutil.copy(SMOKE, place)
    hidden = {"PYTHONPATH", "PYTHONHOME", "NUMBA_CACHE_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["NUMBA_CACHE_DIR"] = str(place / "kernels")
    run(python, SMOKE.name, *parts, cwd=place, env=environment)


def bundled(root: Path) -> list[dict[str, Any]]:
    """The JavaScript inside the wheel, as components of a bill of materials."""
    packages = json.loads((root / "web" / "package-lock.json").read_text())["packages"]
    found = []
    for where, facts in sorted(packages.items()):
        if not where or facts.get("dev") or "@types/" in where:
            continue
        name = where.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{facts['version']}"
        component = {"type": "library", "name": name, "version": facts["version"], "purl": purl}
        found.append(component | {"bom-ref": f"{purl}#{where}", "scope": "required"})
    return found


def completed(bill: dict[str, Any], version: str, scripts: list[dict[str, Any]]) -> dict[str, Any]:
    """A bill of an environment, with the version of what it is about and the scripts in it.

    The installer was there before the wheel, and is no part of it.
    """
    subject = bill["metadata"]["component"] | {"version": version}
    needs = {entry["ref"]: entry for entry in bill["dependencies"]}
    refs = {part["bom-ref"]: part for part in scripts}
    wanted = [*needs[subject["bom-ref"]].get("dependsOn", []), *refs]
    needs |= {ref: {"ref": ref} for ref in refs}
    needs[subject["bom-ref"]] = {"ref": subject["bom-ref"], "dependsOn": sorted(wanted)}
    installer = {part["bom-ref"] for part in bill["components"] if part["name"] == "pip"}
    return bill | {
        "metadata": bill["metadata"] | {"component": subject},
        "components": [p for p in bill["components"] if p["bom-ref"] not in installer] + scripts,
        "dependencies": [needs[ref] for ref in sorted(needs) if ref not in installer],
    }


def bill_of_materials(python: Path, root: Path, version: str) -> str:
    """CycloneDX: the packages that were tried together, and the JavaScript in the wheel."""
    program = [sys.executable, "-m", "cyclonedx_py", "environment", str(python)]
    options = ["--pyproject", str(root / "pyproject.toml"), "--mc-type", "library"]
    options += ["--output-reproducible", "--no-validate", "--of", "JSON"]  # validated below
    bill = completed(json.loads(run(*program, *options)), version, bundled(root))
    text = json.dumps(bill, indent=2) + "\n"
    if fault := _validated(text, bill["specVersion"]):
        raise SystemExit(f"the bill of materials is not valid CycloneDX: {fault}")
    return text


def _validated(text: str, version: str) -> object:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.from_version(version)).validate_str(text)


def checksums(files: list[Path]) -> str:
    """In the format of sha256sum, which checks them: sha256sum --check SHA256SUMS."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    return "\n".join(lines) + "\n"


def main() -> None:
    """All steps, each told before it is done."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    refuse_changes(ROOT)
    print("building from the last commit", flush=True)
    sdist, wheel = build(ROOT, DIST)
    print(f"checking {sdist.name} and {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB)")
    check(sdist, wheel)
    version = wheel.name.split("-")[1]
    if (told := render_recipe(RECIPE)["package"]["version"]) != version:
        raise SystemExit(f"{RECIPE} is for version {told}, the wheel is {version}")
    bill = DIST / f"maxent-{version}.cdx.json"
    for wanted, parts in environments(list(project["optional-dependencies"])).items():
        print(f"trying maxent{wanted} in an empty environment: {', '.join(parts)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            python = install(wheel, wanted, Path(folder) / "environment")
            try_out(python, parts, Path(folder) / "elsewhere")
            if parts[1:]:  # all of them
                bill.write_text(bill_of_materials(python, ROOT, version))
    (DIST / "SHA256SUMS").write_text(checksums([sdist, wheel, bill]))
    print(f"in {DIST}:", *sorted(path.name for path in DIST.iterdir()), sep="\n  ")


if __name__ == "__main__":
    main()
