"""maxent.species.fit: one call, the result of the command."""

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

needs("rasterio")
pd = needs("pandas")


def test_one_call_is_what_the_command_does(tmp_path):
    landscape = virtual_landscape(height=20, width=24, n_occurrences=40, n_group=60, seed=1)
    data = write_landscape(landscape, tmp_path)
    flags = ["-c", "biome", "-f", "lq", "--bootstrap", "0", "--background", "300", "--no-maps"]
    args = ["fit", data["occurrences"], data["layers"], *flags, "--test-share", "0.25"]
    done = CliRunner().invoke(cli.main, [str(a) for a in [*args, "-o", tmp_path / "out"]])
    assert done.exit_code == 0, done.output
    told = mx.load(tmp_path / "out" / "result.json")
    how = {"features": "lq", "bootstrap": 0, "background": 300, "test_share": 0.25}
    result = species.fit(data["occurrences"], data["layers"], categorical=["biome"], **how)
    assert isinstance(result, species.SpeciesResult)
    assert result.evaluation.scores == told.evaluation.scores
    assert result.evaluation.test_scores == told.evaluation.test_scores
    np.testing.assert_array_equal(result.importance.permutation, told.importance.permutation)
    assert (result.notes, result.layers, result.categorical) == (
        told.notes,
        told.layers,
        told.categorical,
    )
    assert len(repr(result)) < 200
    assert repr(result).startswith(f"<SpeciesResult: Arbor fictus, {result.model.n_presences:g} ")
    frame = pd.read_csv(data["occurrences"])
    with species.Layers.open(data["layers"], categorical=["biome"]) as layers:
        again = species.fit(frame, layers, species.Settings(**how, verbose=0))
        assert again.evaluation.scores == result.evaluation.scores
        with pytest.raises(ValueError, match=r"4 species; give species= as one of 'Arbor socius'"):
            species.fit(data["target_group"], layers, **how)
