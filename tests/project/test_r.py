"""What the R package asks of Python; R itself is tested by ``make test-r``."""

import doctest
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest

from maxent.species.fitting.options import options_of
from maxent.species.fitting.settings import Settings
from maxent.species.fitting.tuning_settings import TuningSettings
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles
from maxent.species.input.source_settings import SourceSettings

ROOT = Path(__file__).parents[2]
FIT = (Settings, RecordFile, LayerFiles, StudyFiles, SourceSettings)


@pytest.fixture(scope="module")
def bridge():
    path = ROOT / "r" / "inst" / "python" / "maxentpy_bridge.py"
    spec = importlib.util.spec_from_file_location("maxentpy_bridge", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_of_the_bridge(bridge):
    assert doctest.testmod(bridge).failed == 0


def test_every_option_of_a_fit_has_one_name_in_r(bridge):
    """No option of one class hides that of another."""
    places = bridge.Options({}, *FIT).places
    assert len(places) == sum(len(options_of(cls)) for cls in FIT)


def test_values_of_r_become_those_of_options(bridge):
    """R has doubles and vectors; whole numbers, texts and tuples come out of them."""
    given = {
        "background": 500.0,
        "folds": 3.0,
        "cv": "blocks",
        "block_size": 40.0,
        "output": ["raw", "log"],
    }
    made = bridge.Options({**given, "jackknife": False, "nodata": -1.0}, *FIT)
    settings = made.make(Settings)
    assert (settings.background, settings.folds, settings.block_size) == (500, 3, "40")
    assert settings.outputs == ("cloglog", "raw", "log")
    assert settings.jackknife is False
    assert made.make(LayerFiles, ()).nodata == (-1.0,)
    assert bridge.Options({"background": "all"}, Settings).make(Settings).background is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"multiplyer": 2.0}, "no argument `multiplyer`; did you mean `multiplier`"),
        ({"folds": 2.5}, "folds must be a whole number, got 2.5"),
        ({"folds": "two"}, "folds must be a number, got 'two'"),
        ({"folds": [2.0, 3.0]}, "folds is one value, got 2"),
        ({"jackknife": "yes"}, "jackknife must be TRUE or FALSE"),
        ({"features": True}, "features must not be TRUE or FALSE"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(given, words, bridge):
    with pytest.raises(ValueError, match=re.escape(words)):
        bridge.Options(given, *FIT).make(Settings)


def test_folds_of_tune_are_those_of_tuning(bridge):
    options = bridge.Options({"folds": 3.0}, Settings, TuningSettings)
    assert options.make(TuningSettings).folds == 3
    assert options.make(Settings).folds == Settings.folds


def test_numbers_travel_without_rounding(bridge):
    values = [1 / 3, -0.0, math.inf, None]
    column = np.frombuffer(bridge.packed(values))
    assert column[0].hex() == (1 / 3).hex()
    assert np.isnan(column[3])
    frame = bridge._frame({"a": bridge.packed(values), "b": ["x", None, "y", "z"]})
    assert frame["a"].tolist()[:3] == values[:3]
    assert bridge.columns_of([{"n": 1, "s": "a"}, {"n": None, "s": None}])["s"] == ["a", ""]


def test_what_goes_wrong_comes_back_in_words(bridge):
    heard = []
    told = bridge.call("describe", lambda *said: heard.append(said), {"path": "no-such.json"})
    assert told["kind"] == "FileNotFoundError"
    assert "no such model" in told["error"]
    assert heard == []


def test_the_page_has_code_that_make_test_r_runs():
    page = (ROOT / "docs" / "coming_from" / "r.md").read_text()
    assert page.count(":class: run") >= 6
