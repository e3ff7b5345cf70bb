"""The cache of compiled kernels: damaged, full, stale or out of reach, it costs time at most."""

import errno
import os
import random
import runpy
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import numba
import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core.targetconfig import TargetConfig
from numba.core.types.functions import BaseFunction

import maxent
from maxent._support.compiling import kernels as compiling
from maxent._support.compiling import linking, switches

SOURCE = """
from maxent._support.compiling.kernels import njit

@njit(cache=True)
def add(x):
    return x + {number}

@njit(cache=True)
def multiply(x):
    return x * {number}
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Two kernels of a file, as a new process would call them: their answers, and what is said."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "kernels.py"
    source.write_text(SOURCE.format(number=5))

    def run():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            names = runpy.run_path(str(source))
            answers = names["add"](2), names["multiply"](2)
        return answers, list(dict.fromkeys(str(warning.message) for warning in caught))

    return run


def _files(folder, ending):
    found = sorted(folder.rglob(f"*.{ending}"))
    assert len(found) == 2
    return found


def _flip(path, draw):
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


DRAW = random.Random(0)
DAMAGES = {
    "empty index": ("nbi", lambda path: path.write_bytes(b"")),
    "index cut short": ("nbi", lambda path: path.write_bytes(path.read_bytes()[:-40])),
    "a bit of an index": ("nbi", lambda path: _flip(path, DRAW)),
    "empty data": ("nbc", lambda path: path.write_bytes(b"")),
    "data cut short": ("nbc", lambda path: path.write_bytes(path.read_bytes()[:500])),
    "a bit of the data": ("nbc", lambda path: _flip(path, DRAW)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_compiled_again_and_named(damage, call, tmp_path):
    assert call() == ((7, 10), [])
    assert call() == ((7, 10), [])
    ending, change = DAMAGES[damage]
    for path in _files(tmp_path / "cache", ending):
        change(path)
    answers, said = call()
    assert answers == (7, 10)
    (words,) = said
    assert words.startswith(f"kernel cache: a damaged file in {tmp_path / 'cache'}")
    assert "NUMBA_CACHE_DIR" in words
    assert call() == ((7, 10), [])


def test_a_changed_bit_is_never_run(call, tmp_path):
    call()
    whole = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.nb?")}
    for seed in range(12):
        _flip(DRAW.choice(list(whole)), random.Random(seed))
        assert call()[0] == (7, 10), seed
        for path, content in whole.items():
            path.write_bytes(content)


def test_data_of_another_kernel_or_source_are_not_run(call, tmp_path):
    call()
    first, second = _files(tmp_path / "cache", "nbc")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    answers, said = call()
    assert answers == (7, 10)
    assert len(said) == 1
    # killed between the index of new code and its data: those of the old are still there
    old = {path: path.read_bytes() for path in _files(tmp_path / "cache", "nbc")}
    source = tmp_path / "kernels.py"
    source.write_text(SOURCE.format(number=50))
    assert call() == ((52, 100), [])
    for path, content in old.items():
        path.write_bytes(content)
    assert call()[0] == (52, 100)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_is_borne_and_named(number, call, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:

        def refuse(self, path):
            raise OSError(number, os.strerror(number), path)

        patch.setattr(compiling._Files, "_open_for_write", refuse)
        answers, (words,) = call()
    assert answers == (7, 10)
    assert str(tmp_path / "cache") in words
    assert f"cannot be written to ({os.strerror(number)})" in words
    assert call() == ((7, 10), [])


def test_no_folder_at_all(call, monkeypatch):
    monkeypatch.setattr(compiling._Cache._impl_class, "_locator_classes", [])
    answers, (words,) = call()
    assert answers == (7, 10)
    assert "compiled at every start" in words


@pytest.mark.parametrize("name", ["mine", "nowhere"])
def test_info_shows_the_folder_that_is_used(name, tmp_path):
    """A setting that cannot be written to is passed over, and told."""
    folder = tmp_path / name
    if name == "nowhere":
        folder.write_text("a file")
    done = subprocess.run(
        [sys.executable, "-m", "maxent", "info"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [row for row in done.stdout.splitlines() if row.startswith("kernel cache")]
    shown, _, why = line.removeprefix("kernel cache").strip().partition(" (")
    assert Path(shown).is_dir()
    assert (folder in Path(shown).parents) == (name == "mine")
    assert ("cannot be written to" in why) == (name == "nowhere")


def test_every_kernel_has_this_cache():
    for path in sorted(Path(maxent.__file__).parent.rglob("*.py")):
        if path.parts[-2:] != ("compiling", "kernels.py"):
            assert "from numba import njit" not in path.read_text(), path
            assert "numba.njit" not in path.read_text(), path


def test_code_is_other_code_where_a_kernel_that_it_calls_has_changed(tmp_path, monkeypatch):
    """numba looks at the file of a kernel alone, and two versions of another get mixed up."""
    monkeypatch.setattr(compiling, "_ROOT", tmp_path)
    near, far = tmp_path / "kernels", tmp_path / "room" / "kernels"
    outer = tmp_path / "outer.py"  # kernels also live outside such folders, as in maxent.torch
    outer.write_text("from maxent.kernels.inner import inner\n")
    for folder, name, called in (
        (near, "inner", "room.kernels.innermost"),
        (far, "innermost", "kernels.inner"),
    ):
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(f"from maxent.{called} import {name}\n")
    before = compiling._stamp(outer)
    assert compiling._stamp(outer) == before
    for changed in (far / "innermost.py", near / "inner.py"):
        with open(changed, "a") as file:
            file.write("# changed\n")
        after = compiling._stamp(outer)
        assert after != before
        before = after


TWO = """
import sys, time, pathlib
import numba.core.event as event

class Compiled(event.Listener):
    def on_start(self, what):
        print("compiled", what.data["dispatcher"].py_func.__name__, flush=True)
        time.sleep(0.3)  # the other one comes, sees no kernel, and would begin as well
    def on_end(self, what):
        pass

event.register("numba:compile", Compiled())
folder, number = sys.argv[1:]
sys.path.insert(0, folder)
import kernels
pathlib.Path(folder, "ready-" + number).touch()
while len(list(pathlib.Path(folder).glob("ready-*"))) < 2:
    time.sleep(0.01)
print(kernels.add(2), kernels.multiply(2))
"""


def test_of_two_processes_one_compiles(tmp_path):
    (tmp_path / "kernels.py").write_text(SOURCE.format(number=5))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(tmp_path), number],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in "12"
    ]
    said = [process.communicate()[0].splitlines() for process in both]
    assert [lines[-1] for lines in said] == ["7 10", "7 10"]
    assert sorted(said[0][:-1] + said[1][:-1]) == ["compiled add", "compiled multiply"]
    assert not list((tmp_path / "cache").rglob("*.lock"))


def test_a_lock_that_nobody_gives_back_is_waited_for_and_passed_over(call, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "_PATIENCE", 0.05)
    monkeypatch.setattr(compiling.locks, "acquired", lambda path, without: None)
    assert call() == ((7, 10), [])


def test_compiling_is_told_once_and_loading_is_not(call, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(switches, "before_compiling", told.append)
    call()
    assert [Path(folder).is_relative_to(tmp_path / "cache") for folder in told] == [True]
    monkeypatch.setattr(switches, "before_compiling", told.append)
    call()
    assert len(told) == 1


HELPERS = """
from maxent._support.compiling.kernels import njit

@njit(cache=True)
def _power(x, n):
    return x ** n

@njit(cache=True)
def both(x):
    return _power(x, 2) + _power(x, 3)
"""


def test_a_helper_is_compiled_once_for_all_constants_and_is_kept_from_python(tmp_path):
    source = tmp_path / "helpers.py"
    source.write_text(HELPERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
        names = runpy.run_path(str(source))
        assert names["both"](3.0) == 36.0
        assert len(names["_power"].signatures) == 1
        with pytest.raises(TypeError, match="_power can be called by kernels alone"):
            names["_power"](3.0, 2)
        # the helper is a part of the kernel: it has neither machine code nor a file of its own
        (result,) = names["_power"].overloads.values()
        assert not result.library._has_code
        assert len(list((tmp_path / "cache").rglob("*.nbi"))) == 1


SUMS = """
from maxent._support.compiling.kernels import njit

@njit(cache=True)
def twice(source, target):
    for i in range(source.size):
        target[i] = source[i] + source[i]
"""


def test_arrays_that_must_not_be_changed_need_no_code_of_their_own(tmp_path):
    (tmp_path / "sums.py").write_text(SUMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
        twice = runpy.run_path(str(tmp_path / "sums.py"))["twice"]
        source, target = np.arange(3.0), np.empty(3)
        source.flags.writeable = False
        for _ in range(2):  # as it is compiled, and by the code at hand
            twice(source, target)
            assert target.tolist() == [0, 2, 4]
        twice(source.copy(), target)
        assert target.tolist() == [0, 2, 4]
        first, second = twice.overloads.values()
        assert first is second
        assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 1


MANY = """
from maxent._support.compiling.kernels import njit

@njit(cache=True)
def mixed(x, k):
    total = x[0] + k
    for i in range(1, x.size):
        total += x[i] * k + (x[i] > k) - (i % 3) // 2
    return total
"""


@pytest.mark.parametrize("cut", [True, False])
def test_kernels_compile_to_the_same_with_and_without_shortcuts(cut, tmp_path, monkeypatch):
    (tmp_path / "many.py").write_text(MANY)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    if not cut:
        monkeypatch.setattr(compiling, "shortcuts", lambda target: nullcontext())
    before = TargetConfig.__eq__, BaseFunction.get_call_type, list(ffi.lib._lock._cblist)
    mixed = runpy.run_path(str(tmp_path / "many.py"))["mixed"]
    for dtype in (np.int64, np.float32, np.float64):
        x = np.array([3, 1, 4, 1, 5], dtype)
        expected = x[0] + 2 + sum(a * 2 + (a > 2) - (i % 3) // 2 for i, a in enumerate(x) if i)
        assert mixed(x, 2) == expected
    # numba is left as it was
    assert before == (TargetConfig.__eq__, BaseFunction.get_call_type, ffi.lib._lock._cblist)


def test_kernels_compile_where_numba_has_other_methods_inside(tmp_path, monkeypatch):
    (tmp_path / "helpers.py").write_text(HELPERS)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(linking, "_KNOWN", False)
    assert runpy.run_path(str(tmp_path / "helpers.py"))["both"](3.0) == 36.0
