"""A few bytes may claim a grid that no machine can read: refused before anything is read."""

import pytest

from conftest import needs
from maxent.species.layers.background import draw_background
from maxent.species.layers.layers import Layers

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
    with pytest.raises(ValueError, match=r"huge\.vrt.*cells, more than the limit.*MAX_CELLS="):
        Layers.open(path)


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXENT_MAX_CELLS", str(200_000**2))
    with Layers.open(vrt(tmp_path / "large.vrt", 200_000)) as layers:
        assert layers.grid.size == 200_000**2


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
