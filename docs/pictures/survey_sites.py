"""The picture of docs/species.md: what a visit would tell, and the sites that were chosen."""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from maxent import species
from maxent.datasets.landscape import virtual_landscape, write_landscape

TARGET = Path(__file__).parents[1] / "_static" / "sites.png"


def draw(folder: Path) -> None:
    """Fit an island that was made up, choose sites, and keep the picture in few pixels."""
    data = write_landscape(virtual_landscape(100, 130, n_occurrences=60, seed=5), folder / "data")
    options = ["-c", "biome", "--cv", "none", "--bootstrap", "0", "--no-maps", "-q"]
    typed = ["fit", data["occurrences"], data["layers"], "-o", folder / "fit", *options]
    subprocess.run([sys.executable, "-m", "maxent", *map(str, typed)], check=True)
    model = species.load_model(folder / "fit")
    with species.Layers.open(data["layers"], categorical=["biome"]) as opened:
        species.plan_survey(model, opened, folder / "next", count=12, apart=60, verbose=0)
    with Image.open(folder / "next" / "sites.png") as picture:
        small = picture.convert("RGB").resize((900, round(900 * picture.height / picture.width)))
        small.quantize(96).save(TARGET, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
