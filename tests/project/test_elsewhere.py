"""The script behind `make test-elsewhere`."""

import numpy._core._multiarray_umath as umath
import pytest

import elsewhere
from elsewhere import Outcome, Setting


@pytest.fixture
def intel(monkeypatch):
    features = {
        "AVX2": True,
        "FMA3": True,
        "AVX512F": True,
        "AVX512_SKX": True,
        "AVX512_SPR": False,
    }
    monkeypatch.setattr(elsewhere.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(umath, "__cpu_dispatch__", list(features))
    monkeypatch.setattr(umath, "__cpu_features__", features)


def test_an_intel_processor_turns_off_what_it_has(intel):
    found = {setting.name: setting for setting in elsewhere.settings()}
    disabled = {name: s.variables.get("NPY_DISABLE_CPU_FEATURES") for name, s in found.items()}
    assert disabled["no AVX-512"] == "AVX512F AVX512_SKX"
    assert disabled["no AVX2"] == "AVX512F AVX512_SKX AVX2 FMA3"
    assert found["OpenBLAS Prescott"].variables == {"OPENBLAS_CORETYPE": "Prescott"}
    assert found["OpenBLAS ARMV8"].not_here == "of aarch64, this is x86_64"
    assert found["2 threads"].variables["OMP_NUM_THREADS"] == "2"
    assert found["hash seed 0"].variables == {"PYTHONHASHSEED": "0"}


def test_another_processor_names_what_is_not_its_own(monkeypatch):
    monkeypatch.setattr(elsewhere.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(umath, "__cpu_dispatch__", ["SVE", "ASIMDHP"])
    monkeypatch.setattr(umath, "__cpu_features__", {"SVE": False, "ASIMDHP": True})
    found = {setting.name: setting for setting in elsewhere.settings()}
    assert found["no AVX2"].not_here
    assert found["OpenBLAS Haswell"].not_here == "of x86_64, this is aarch64"
    assert found["no dispatch on aarch64"].variables == {"NPY_DISABLE_CPU_FEATURES": "ASIMDHP"}
    assert found["OpenBLAS CORTEXA57"].variables


def test_tests_run_under_their_setting_and_are_counted(tmp_path):
    test = tmp_path / "test_seed.py"
    test.write_text(
        "import os, pytest\n"
        "def test_right(): assert os.environ['PYTHONHASHSEED'] == '7'\n"
        "def test_wrong(): assert False\n"
        "@pytest.mark.skip\ndef test_not_here(): pass\n"
    )
    quiet = [str(test), "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "--no-header"]
    outcome = elsewhere.run(Setting("seed 7", {"PYTHONHASHSEED": "7"}), [quiet], workers=0)
    assert (outcome.passed, outcome.failed) == (1, 1)


def test_a_failure_anywhere_is_the_answer(monkeypatch, capsys):
    failed = {"hash seed 1"}

    def run(setting, calls, workers):
        assert calls == [["tests/files/test_io.py"]]
        return Outcome(5, int(setting.name in failed), 12.0)

    monkeypatch.setattr(elsewhere, "run", run)
    only = ["--only", "hash seed 0", "hash seed 1", "--", "tests/files/test_io.py"]
    assert elsewhere.main(only) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].split() == ["setting", "passed", "failed", "seconds"]
    assert lines[-1].split() == ["hash", "seed", "1", "5", "1", "12"]
    failed.clear()
    assert elsewhere.main(only) == 0
    with pytest.raises(SystemExit):
        elsewhere.main(["--only", "no such"])
    assert "there are:" in capsys.readouterr().err
