"""The plugin as a zip for QGIS's plugin manager: dist/maxent_processing-VERSION.zip.

python qgis/package.py [FOLDER]
"""

import configparser
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLUGIN = HERE / "maxent_processing"
REQUIRED = ("name", "qgisMinimumVersion", "description", "about", "version", "author")


def package(folder: Path) -> Path:
    """Write the zip, whole or not at all: its path."""
    metadata = configparser.ConfigParser()
    metadata.read(PLUGIN / "metadata.txt", encoding="utf-8")
    told = metadata["general"]
    missing = [name for name in REQUIRED if not told.get(name)]
    if missing:
        raise ValueError(f"metadata.txt lacks {', '.join(missing)}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{PLUGIN.name}-{told['version']}.zip"
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(PLUGIN.rglob("*")):
            if source.is_file() and source.suffix in (".py", ".svg", ".txt"):
                file.write(source, source.relative_to(HERE))
        file.write(HERE.parent / "LICENSE", f"{PLUGIN.name}/LICENSE")
    part.replace(path)
    return path


if __name__ == "__main__":
    print(package(Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "dist")))
