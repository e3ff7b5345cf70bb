"""A few bytes may claim a grid that no machine can read: refused before anything is read."""

import os

import pytest
from typer.testing import CliRunner

from maxent import cli
from maxent.species.input.layers.layers import Layers
from maxent.species.study.background import draw_background
from tools import needs

needs("rasterio")

VRT = """<VRTDataset rasterXSize="{size}" rasterYSize="{size}">
<GeoTransform>0, 0.001, 0, 60, 0, -0.001</GeoTransform>
<VRTRasterBand dataType="Float32" band="1"/></VRTDataset>"""


def vrt(path, size):
    path.write_text(VRT.format(size=size))
    return path


@pytest.mark.parametrize("size", [20_000_000, 200_000])
def test_a_file_that_claims_a_huge_grid_is_refused(size, tmp_path):
    path = vrt(tmp_path / "huge.vrt", size)
    with pytest.raises(ValueError, match=r"huge\.vrt.*cells, more than the limit.*max-cells "):
        Layers.open(path)


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXENT_MAX_CELLS", str(200_000**2))
    with Layers.open(vrt(tmp_path / "large.vrt", 200_000)) as layers:
        assert layers.grid.size == 200_000**2


def test_an_option_of_the_command_raises_the_limit(tmp_path, monkeypatch):
    """Here and in worker processes, and for this command alone."""
    monkeypatch.delenv("MAXENT_MAX_CELLS", raising=False)
    path, records = vrt(tmp_path / "large.vrt", 200_000), tmp_path / "records.csv"
    records.write_text("species,longitude,latitude\nAcer,1,50\n")
    seen = []

    def survey(records, layers, settings, **others):
        seen.append(os.environ.get("MAXENT_MAX_CELLS"))
        with layers.open() as opened:
            raise ValueError(f"as far as {opened.grid.size}")

    monkeypatch.setattr("maxent.species.batch.workflow.survey_files", survey)
    fit = ["fit", str(records), str(path), "--allow-vrt", "-o", str(tmp_path / "out")]
    refused = CliRunner().invoke(cli.main, fit)
    assert refused.exit_code == 1
    assert "use --max-cells 40000000000 " in refused.output
    raised = CliRunner().invoke(cli.main, [*fit, "--max-cells", "40000000000"])
    assert "as far as 40000000000" in raised.output
    assert seen == [None, "40000000000"]
    assert "MAXENT_MAX_CELLS" not in os.environ
    assert CliRunner().invoke(cli.main, [*fit, "--max-cells", "0"]).exit_code == 2


def test_the_survey_bounds_the_cache_of_gdal(tmp_path, monkeypatch):
    from rasterio.env import getenv

    seen = []
    read = Layers.read

    def spy(self, window):
        seen.append(getenv()["GDAL_CACHEMAX"])
        return read(self, window)

    monkeypatch.setattr(Layers, "read", spy)
    with Layers.open(vrt(tmp_path / "small.vrt", 10)) as layers:
        draw_background(layers, 5, verbose=0)
    assert set(seen) == {1 << 27}
