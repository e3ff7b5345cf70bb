"""The demonstration: certificates, what it measures, and its files."""

import json
import sys

import numpy as np
import pytest

import maxent as mx
from maxent.demo import learning as demo


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "nested" / "out"
    return folder, demo.run(folder, quiet=True)


def test_certificates(result):
    for fit in result[1]["fits"]:
        assert fit["gap"] <= 1e-6
        assert fit["status"] == "converged"
        distance = fit["guarantees"].get("l2", fit["guarantees"].get("rms_l2"))
        assert distance <= 2e-3
    assert "KL" in result[1]["fits"][0]["guarantee"]


def test_measured_results(result):
    shannon, tsallis, digits = result[1]["fits"]
    # measured with seed 0: 0.952, 0.928, 16%, 0.956, 1.91, 172
    assert shannon["correlation_with_truth"] > 0.94
    assert tsallis["correlation_with_truth"] > 0.91
    assert shannon["share_of_zero_cells"] == 0
    assert 0.13 < tsallis["share_of_zero_cells"] < 0.19
    assert digits["held_out_accuracy"] > 0.945
    assert 1.8 < digits["mean_classes_above_zero"] < 2.05
    assert 160 < digits["nonzero_weights"] < 185


def test_files(result):
    folder, summary = result
    names = {path.name for path in folder.iterdir()}
    fits = {f"{fit['key']}.json" for fit in summary["fits"]}
    assert names == fits | {"demo.png", "summary.json"}
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "summary.json").read_text()) == summary
    for fit in summary["fits"]:
        solution = mx.load(folder / f"{fit['key']}.json")
        assert solution.gap == fit["gap"]
        assert len(solution.history) == fit["n_iter"] + 1
        assert np.asarray(solution.p).sum() > 0


def test_output(monkeypatch, tmp_path, capsys):
    # the fits are tested above; here only what is printed
    problem = mx.Problem(mx.Shannon(), np.eye(3), mx.Box(0.1), observed=[1, 0, 0])
    solution, record = demo._timed(problem)
    p = np.eye(10)[np.arange(demo._TESTED) % 10]
    monkeypatch.setattr(
        demo, "_fit_density", lambda *a: (solution, record | {"result": "density done"})
    )
    monkeypatch.setattr(demo, "_fit_digits", lambda *a: (solution, record | {"result": "x"}, p))
    monkeypatch.setattr(demo, "_figure", lambda *a: b"PNG")
    demo.run(tmp_path, quiet=True)
    assert capsys.readouterr() == ("", "")
    demo.run(tmp_path)
    printed = capsys.readouterr().out
    assert "density done" in printed
    assert "gap" in printed


def test_matplotlib_is_optional(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install maxent\[plot\]"):
        demo.run(tmp_path / "out")
    assert not (tmp_path / "out").exists()
