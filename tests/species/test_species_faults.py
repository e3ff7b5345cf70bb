"""Files and processes when things go wrong: kills, lost files, odd folders, changed inputs."""

import contextlib
import csv
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from maxent import cli, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.batch import fingerprints, job, keeping, locks, outputs, workers, workflow
from maxent.species.input.files import LayerFiles, RecordFile
from tools import lacking, needs
from waiting import LIMIT, until

rasterio = needs("rasterio")
needs("rasterio.shutil")
needs("rasterio.vrt")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
FAST += ["-c", "biome", "--background", "300"]
KILLS = [
    getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    landscape = virtual_landscape(height=30, width=40, n_occurrences=60, n_group=200, seed=3)
    write_landscape(landscape, folder)
    return folder


@pytest.fixture
def data(made, tmp_path):
    """Input files of one's own, to be changed."""
    folder = tmp_path / "data"
    shutil.copytree(made, folder)
    return folder


def _fit(data, out, *more):
    return ["fit", data / "occurrences.csv", data / "layers", *FAST, "-o", out, *more]


def _two_species(data):
    records = species.read_occurrences(data / "occurrences.csv")
    names = np.where(np.arange(len(records)) % 2, "Arbor fictus", "Herba ficta")
    rows = [f"{n},{x},{y}" for n, x, y in zip(names, records.x, records.y, strict=True)]
    text = "\n".join(["species,longitude,latitude", *rows])
    (data / "occurrences.csv").write_text(text + "\n")


def _names(folder):
    return sorted(p.name for p in folder.iterdir())


# -- what --resume keeps ---------------------------------------------------------------------------


def _scaled(path):
    """The same raster with other values, of the same size."""
    with rasterio.open(path) as file:
        values, profile = file.read(), file.profile
    with rasterio.open(path, "w", **profile) as file:
        file.write(values * np.float32(0.5))


@pytest.fixture(scope="module")
def finished(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "out"
    args = _fit(made, out, "--bias", made / "effort.tif", "--project", made / "future")
    result = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize(
    "change",
    ["bias", "no bias", "group", "target group", "layer", "projection", "lambdas", "version"],
)
def test_resume_keeps_nothing_that_was_given_something_else(
    change, finished, made, tmp_path, run, monkeypatch
):
    out, data = tmp_path / "out", made
    shutil.copytree(finished, out)
    before = (out / "report.html").read_bytes()
    bias, more = ["--bias", data / "effort.tif"], []
    changed = {
        "bias": data / "effort.tif",
        "layer": data / "layers" / "temperature.tif",
        "projection": data / "future" / "temperature.tif",
    }
    kept = {path: path.read_bytes() for path in changed.values()}
    if change in changed:
        _scaled(changed[change])
    elif change == "version":
        monkeypatch.setattr(job, "__version__", "0.0.0")
    elif change == "lambdas":
        more = ["--lambdas"]
    else:
        bias = {
            "no bias": [],
            "group": ["--background-records", data / "target_group.csv"],
            "target group": ["--target-group"],
        }[change]
    try:
        args = _fit(data, out, *bias, "--project", data / "future", *more)
        result = run(*args, "--resume")
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert result.exit_code == 1, result.output
    assert "other settings, files or records" in result.output
    assert (out / "report.html").read_bytes() == before


@pytest.mark.parametrize("lost", ["model.json", "maps", "tables/maxentResults.csv"])
def test_resume_makes_lost_files_again(lost, finished, made, tmp_path, run):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    args = _fit(made, out, "--bias", made / "effort.tif", "--project", made / "future", "--resume")
    whole = run(*args)
    assert whole.exit_code == 0, whole.output
    assert "(kept)" in whole.output
    shutil.rmtree(out / lost) if lost == "maps" else (out / lost).unlink()
    again = run(*args)
    assert again.exit_code == 0, again.output
    assert "(kept)" not in again.output
    assert (out / lost).exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fingerprint": 1}'])
def test_resume_with_a_damaged_summary(text, finished, made, tmp_path, run):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / "summary.json").write_text(text)
    result = run(*_fit(made, out, "--resume"))
    assert result.exit_code == 1
    assert "--overwrite" in result.output


def test_fingerprints_of_files(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(5000))
    small = fingerprints.of_file(path)
    path.write_bytes(bytes(2500) + b"1" + bytes(2499))
    assert fingerprints.of_file(path) != small
    monkeypatch.setattr(fingerprints, "_WHOLE", 4000)
    monkeypatch.setattr(fingerprints, "_END", 100)
    large = fingerprints.of_file(path)
    assert fingerprints.of_file(path) == large
    about = path.stat()
    path.write_bytes(bytes(4999) + b"1")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert fingerprints.of_file(path) != large  # its end
    path.write_bytes(bytes(2500) + b"2" + bytes(2499))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    assert fingerprints.of_file(path) != large  # its time


def test_fingerprint_of_a_mosaic_sees_its_parts(made, tmp_path):
    shutil.copy(made / "effort.tif", tmp_path / "part.tif")
    with rasterio.open(tmp_path / "part.tif") as file, rasterio.vrt.WarpedVRT(file) as vrt:
        rasterio.shutil.copy(vrt, tmp_path / "outer.vrt", driver="VRT")
    before = fingerprints.of_rasters([tmp_path / "outer.vrt"])
    assert fingerprints.of_rasters([tmp_path / "outer.vrt"]) == before
    _scaled(tmp_path / "part.tif")
    assert fingerprints.of_rasters([tmp_path / "outer.vrt"]) != before


# -- what is not written over ----------------------------------------------------------------------


def _contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_no_command_writes_over_a_file_it_reads(finished, data, tmp_path, run):
    model = tmp_path / "model.json"
    shutil.copy(finished / "model.json", model)
    records, layers = data / "occurrences.csv", data / "layers"
    shutil.copy(layers / "temperature.tif", layers / "cloglog.tif")
    (tmp_path / "link.csv").symlink_to(records)
    os.link(records, tmp_path / "hard.csv")
    earlier = tmp_path / "earlier"
    shutil.copytree(finished, earlier)
    shutil.copytree(layers, earlier / "layers")
    mosaic = tmp_path / "mosaic"
    mosaic.mkdir()
    for path in (earlier / "layers").glob("*.tif"):  # parts of rasters that are elsewhere
        with rasterio.open(path) as file, rasterio.vrt.WarpedVRT(file) as vrt:
            rasterio.shutil.copy(vrt, mosaic / f"{path.stem}.vrt", driver="VRT")
    before = _contents(tmp_path)
    layer = layers / "temperature.tif"
    for args in (
        ["project", model, *layers.glob("*.tif"), "-o", layers],
        ["project", model, layers, "-o", layer],
        ["evaluate", model, records, layers, "-o", records],
        ["evaluate", model, records, layers, "-o", model],
        ["evaluate", model, records, layers, "-o", layer],
        ["evaluate", model, records, layers, "-o", tmp_path / "link.csv"],
        ["evaluate", model, records, layers, "-o", tmp_path / "hard.csv"],
        ["evaluate", model, records, layers, "--absences", model, "-o", model],
        ["fit", records, earlier / "layers", *FAST, "-o", earlier],
        ["tune", records, earlier / "layers", "-c", "biome", "-o", earlier],
        ["fit", records, mosaic, "--allow-vrt", *FAST, "-o", earlier],
        ["fit", records, layers, "--allow-vrt", *FAST, "--project", mosaic, "-o", earlier],
        ["tune", records, mosaic, "--allow-vrt", "-c", "biome", "-o", earlier],
        [
            "tune",
            records,
            layers,
            "--bias",
            mosaic / "temperature.vrt",
            "--allow-vrt",
            "-o",
            earlier,
        ],
    ):
        result = run(*args, "--overwrite")
        assert result.exit_code == 1, (args, result.output)
        assert "would be written over" in result.output
        assert _contents(tmp_path) == before


def test_earlier_maps_and_scores_are_replaced_only_where_that_was_asked_for(
    finished, data, tmp_path, run
):
    model, maps = finished / "model.json", tmp_path / "maps"
    draw = ["project", model, data / "future", "--no-similarity", "-o"]
    score = ["evaluate", model, data / "occurrences.csv", data / "layers", "-o"]
    for args, out in ((draw, maps), (score, tmp_path / "scores.csv")):
        assert run(*args, out).exit_code == 0
        before = _contents(tmp_path)
        again = run(*args, out)
        assert again.exit_code == 1, again.output
        assert "--overwrite" in again.output
        assert _contents(tmp_path) == before
        assert run(*args, out, "--overwrite").exit_code == 0
    # a single map that is in the way of one of the others
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mess.tif").write_text("of before")
    assert run("project", model, data / "future", "-o", tmp_path / "other").exit_code == 1
    assert _names(tmp_path / "other") == ["mess.tif"]


def test_earlier_results_of_tune_are_replaced_only_where_that_was_asked_for(data, tmp_path, run):
    tune = ["tune", data / "occurrences.csv", data / "layers", "-c", "biome", "-f", "l"]
    tune += ["-m", "1", "--folds", "2", "--background", "200", "-o", tmp_path / "tuned"]
    assert run(*tune).exit_code == 0
    before = _contents(tmp_path)
    again = run(*tune)
    assert again.exit_code == 1, again.output
    assert "--overwrite" in again.output
    assert _contents(tmp_path) == before
    assert run(*tune, "--overwrite").exit_code == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("not of a tuning")
    assert run(*tune[:-1], tmp_path / "mine", "--overwrite").exit_code == 1
    assert _names(tmp_path / "mine") == ["notes.txt"]


def test_every_page_says_what_it_may_load(finished):
    pages = list(finished.rglob("*.html"))
    assert pages
    for page in pages:
        assert "default-src &#x27;none&#x27;" in page.read_text().partition("</head>")[0]


# -- worker processes ------------------------------------------------------------------------------


def _times(job, factor):
    if job == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return job * factor


def test_a_killed_worker_takes_down_its_own_job_alone():
    answers = dict(workers.in_processes(_times, [1, 2, 13, 3, 4], (10,), 2))
    killed = answers.pop(13)
    assert answers == {1: 10, 2: 20, 3: 30, 4: 40}
    assert isinstance(killed, workers.Killed)
    assert "SIGKILL" in str(killed)


def _dies_of_herbs(job, shared, lock):
    if job.species == "Herba ficta":
        os.kill(os.getpid(), signal.SIGKILL)
    return workflow._attempt(job, shared, lambda name: None)


def test_a_batch_goes_on_without_a_killed_worker(data, tmp_path, monkeypatch):
    _two_species(data)
    monkeypatch.setattr(workflow, "_work", _dies_of_herbs)
    records = RecordFile(str(data / "occurrences.csv"))
    layers = LayerFiles((str(data / "layers"),), ("biome",))
    settings = species.Settings("l", bootstrap=0, permutations=0, jackknife=False, cv="none")
    out = tmp_path / "out"
    rows = workflow.fit_files(records, layers, out, settings, maps=False, jobs=2)
    status = {row["species"]: row["status"] for row in rows}
    assert status == {"Arbor fictus": "ok", "Herba ficta": "failed"}
    (error,) = [row["error"] for row in rows if row["status"] == "failed"]
    assert "killed (SIGKILL)" in error
    assert _names(out) == ["Arbor_fictus", "index.html", "maxentResults.csv"]


def _workers(process):
    """The worker processes of a command."""
    found = []
    for path in Path("/proc").iterdir():
        if f") {_stat(path).partition(') ')[2][:1]} {process.pid} " in _stat(path):
            with contextlib.suppress(OSError):
                if b"--multiprocessing-fork" in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
    return found


def _appear(folder, pattern, number, process):
    """Wait until a run has begun so many parts of its work."""
    until(lambda: len(list(folder.glob(pattern))) >= number, process)


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize("how", KILLS)
def test_workers_end_with_their_parent_and_the_batch_resumes(how, data, tmp_path, run):
    _two_species(data)
    out = tmp_path / "out"
    args = [str(a) for a in _fit(data, out, "--no-maps", "-j", "2")]
    slow = [*args, "--bootstrap", "100000"]
    process = subprocess.Popen([sys.executable, "-m", "maxent.cli", *slow])
    _appear(out, ".*.partial", 2, process)
    children = _workers(process)
    assert len(children) == 2
    process.send_signal(how)
    assert process.wait() == -how
    # one process does as well as two; at once: it waits for what is left of the other
    resumed = run(*args[:-2], "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert _names(out) == ["Arbor_fictus", "Herba_ficta", "index.html", "maxentResults.csv"]
    assert not [child for child in children if _runs(child)]


@on_linux
@pytest.mark.slow
def test_a_batch_whose_worker_is_killed_ends_with_code_3(data, tmp_path):
    _two_species(data)
    out = tmp_path / "out"
    args = [str(a) for a in _fit(data, out, "--no-maps", "-j", "2", "--bootstrap", "20")]
    command = [sys.executable, "-m", "maxent", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _appear(out, ".*.partial", 2, process)
    os.kill(_workers(process)[0], signal.SIGKILL)
    told = "".join(process.communicate())
    assert process.returncode == 3, told
    assert "killed (SIGKILL)" in told
    assert "Traceback" not in told
    left = _names(out)
    assert left in (
        [name, "index.html", "maxentResults.csv"] for name in ("Arbor_fictus", "Herba_ficta")
    )
    assert (out / left[0] / "report.html").exists()


def _runs(process):
    """Whether a process has not ended; one that has may be listed until somebody asks for it."""
    state = _stat(Path(f"/proc/{process}")).rpartition(") ")[2][:1]
    return state not in ("", "Z", "X")


def _stat(path):
    try:
        return (path / "stat").read_text()
    except OSError:
        return ""


# -- locks -----------------------------------------------------------------------------------------


def test_a_lock_without_a_holder_is_no_obstacle(tmp_path):
    path = tmp_path / ".out.lock"
    for text in ("", "elsewhere 1", "\0\0"):
        path.write_text(text)
        with outputs.locked(tmp_path / "out"):
            pass
        assert not path.exists()


def test_a_lock_has_one_holder(tmp_path):
    path, inside, most = tmp_path / "lock", [], []

    def take_often():
        for _ in range(200):
            descriptor = locks._acquired(path)
            if descriptor is not None:
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                locks.Lock(descriptor).release(path)

    threads = [threading.Thread(target=take_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


def test_a_link_leads_to_the_same_lock_and_stays(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    with outputs.locked(tmp_path / "real"), outputs.staged(tmp_path / "real") as stage:
        with pytest.raises(FileExistsError, match="another run"), outputs.locked(link):
            pass
        assert stage.exists()
        (stage / outputs.RESULT).write_text("1")
    with outputs.locked(link), outputs.staged(link, overwrite=True) as stage:
        (stage / outputs.RESULT).write_text("2")
    assert link.is_symlink()
    assert (tmp_path / "real" / outputs.RESULT).read_text() == "2"
    assert _names(tmp_path) == ["link", "real"]


def test_a_live_stage_in_a_folder_is_not_cleared_away(tmp_path):
    live = tmp_path / "a"
    with outputs.locked(live), outputs.staged(live) as stage, outputs.locked(tmp_path):
        assert stage.exists()
    dead = tmp_path / ".a.0123abcd.partial"
    dead.mkdir()
    with outputs.locked(tmp_path):
        assert not dead.exists()


# -- folders of all kinds --------------------------------------------------------------------------


def _write(folder, text, overwrite=False):
    with outputs.locked(folder), outputs.staged(folder, overwrite) as stage:
        (stage / "maps").mkdir()
        for name in (outputs.RESULT, "maps/a.tif", f"only_{text}"):
            (stage / name).write_text(text)


def _whole(folder, *besides):
    """The text that all files of a folder hold, but for its manifest and what is there besides."""
    left_out = {keeping.MANIFEST, *besides}
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in left_out]
    (text,) = {p.read_text() for p in files}
    names = {outputs.RESULT, "maps", f"only_{text}", *left_out}
    assert {p.name for p in folder.iterdir()} == names
    written = {outputs.RESULT, "maps/a.tif", f"only_{text}"}
    assert {*json.loads((folder / keeping.MANIFEST).read_text())["files"]} == written
    return text


def test_the_folder_one_stands_in(data, tmp_path, run, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for more in ((), ("--overwrite",)):
        result = run(*_fit(data, ".", "--no-maps", *more))
        assert result.exit_code == 0, result.output
        assert (Path.cwd() / "report.html").exists()
        assert here.samefile(".")
    assert not [name for name in _names(here) if name.startswith(".")]


@pytest.fixture
def mounted(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=9m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        lacking("a mount point needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_mount_point(mounted, data, run):
    (mounted / "lost+found").mkdir()
    for more in ((), ("--overwrite",)):
        result = run(*_fit(data, mounted, "--no-maps", *more))
        assert result.exit_code == 0, result.output
        assert (mounted / "report.html").exists()
        assert not [name for name in _names(mounted) if name.startswith(".")]
    assert (mounted / "lost+found").is_dir()


@pytest.mark.skipif(not hasattr(os, "setresuid"), reason="changes the user")
def test_a_folder_in_one_that_may_not_be_written_to():
    with tempfile.TemporaryDirectory() as name:
        parent, folder, other = (Path(name, p) for p in (".", "mine", "other"))
        for path in (folder, other):
            path.mkdir()
        user = 65534 if os.getuid() == 0 else os.getuid()
        os.chown(folder, user, -1)
        os.chmod(other, 0o555)
        os.chmod(parent, 0o555)
        before = os.getresuid()
        os.setresuid(user, user, before[2])
        try:
            for text in "12":
                _write(folder, text, overwrite=True)
            with pytest.raises(OSError, match="cannot write to"), outputs.locked(other):
                pass
            with pytest.raises(OSError, match="cannot write to"), outputs.locked(parent / "new"):
                pass
        finally:
            os.setresuid(*before)
            os.chmod(parent, 0o755)
        assert _whole(folder) == "2"
        assert _names(parent) == ["mine", "other"]


KILLED = """
import os, sys
from pathlib import Path
from maxent.species.batch import outputs

folder, last, inside = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
if inside:
    outputs._renamable = lambda home: False
replace, calls = os.replace, []

def replaced(*args):
    if len(calls) == last:
        os._exit(9)
    calls.append(args)
    return replace(*args)

os.replace = replaced
with outputs.locked(folder), outputs.staged(folder, overwrite=True) as stage:
    (stage / "maps").mkdir()
    for name in (outputs.RESULT, "maps/a.tif", "only_2"):
        (stage / name).write_text("2")
"""


@pytest.mark.parametrize(
    ("inside", "last", "left"),
    [
        *((False, 0, "1"), (False, 1, "1"), (False, 2, "2")),
        *((True, n, "1") for n in (0, 3, 5)),  # five names go out, the turn, five come in
        *((True, n, "2") for n in (6, 8, 11)),
    ],
)
def test_a_kill_at_any_rename_leaves_all_or_nothing(inside, last, left, tmp_path, monkeypatch):
    if inside:
        monkeypatch.setattr(outputs, "_renamable", lambda home: False)
    folder = tmp_path / "[a]*?"
    folder.mkdir()
    _write(folder, "1")
    (folder / "notes.txt").write_text("mine")
    command = [sys.executable, "-c", KILLED, str(folder), str(last), str(inside)]
    code = subprocess.run(command, check=False).returncode
    assert code == (0 if last == (11 if inside else 2) else 9)
    with outputs.locked(folder):
        pass
    assert _whole(folder, "notes.txt") == left
    assert (folder / "notes.txt").read_text() == "mine"
    assert _names(tmp_path) == ["[a]*?"]


@pytest.fixture(params=itertools.product([False, True], repeat=2), ids=str)
def earlier_run(request, tmp_path, monkeypatch):
    """A folder of results, replaced as a whole or from inside, with hard links or without."""
    inside, linked = request.param
    if inside:
        monkeypatch.setattr(outputs, "_renamable", lambda home: False)
    if not linked:
        monkeypatch.setattr(os, "link", lambda *args, **how: _refuse())
    folder = tmp_path / "out"
    folder.mkdir()
    _write(folder, "1")
    return folder


def test_what_no_run_wrote_stays(earlier_run, tmp_path):
    folder, told = earlier_run, []
    mine = ["notes.txt", "maps/mine.tif", "later/deep/a.tif", "only_2", "only_2.earlier"]
    for name in mine:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"my {name}")
    (folder / "link").symlink_to("notes.txt")
    (folder / "empty").mkdir()
    with outputs.locked(folder), outputs.staged(folder, True, told.append) as stage:
        (stage / outputs.RESULT).write_text("2")
        (stage / "only_2").write_text("2")
    found = {name: (folder / name).read_text() for name in keeping.files_in(folder)}
    del found[keeping.MANIFEST]
    assert found == {
        **{outputs.RESULT: "2", "only_2": "2", "notes.txt": "my notes.txt", "link": "my notes.txt"},
        **{name: f"my {name}" for name in ("maps/mine.tif", "later/deep/a.tif", "only_2.earlier")},
        "only_2.earlier-2": "my only_2",  # whose name the run has taken
    }
    assert (folder / "link").is_symlink()
    assert _names(folder / "empty") == []
    assert _names(tmp_path) == ["out"]
    (note,) = told
    names = (
        "empty, later/deep/a.tif, link, maps/mine.tif, notes.txt, only_2.earlier-2, only_2.earlier"
    )
    assert note == f"kept in out, as no earlier run wrote it: {names}"


def test_what_a_run_wrote_and_the_user_edited_stays(earlier_run):
    folder = earlier_run
    for text in ("first", "second"):
        told = []
        (folder / "maps" / "a.tif").write_text(f"my {text}")
        with outputs.locked(folder), outputs.staged(folder, True, told.append) as stage:
            (stage / outputs.RESULT).write_text("2")
            (stage / "maps").mkdir()
            (stage / "maps" / "a.tif").write_text("2")
        name = "maps/a.edited.tif" if text == "first" else "maps/a.edited-2.tif"
        assert told[0] == f"kept in out, as it was edited since a run wrote it: {name}"
        assert (folder / name).read_text() == f"my {text}"
    left = [*("maps/a.edited-2.tif", "maps/a.edited.tif", "maps/a.tif")]
    assert keeping.files_in(folder) == [keeping.MANIFEST, *left, outputs.RESULT]
    assert (folder / "maps" / "a.edited.tif").read_text() == "my first"
    assert told[1:] == ["kept in out, as no earlier run wrote it: maps/a.edited.tif"]


def test_an_edited_result_survives_another_fit(finished, made, tmp_path, run):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    assert run("report", out).exit_code == 0  # makes report.html and map.png again: no edit
    table = out / "tables" / "odmap.csv"
    edited = table.read_text() + "completed,by,hand\n"
    table.write_text(edited)
    again = run(*_fit(made, out, "--no-maps", "--overwrite"))
    assert again.exit_code == 0, again.output
    told = again.output.replace("\n", " ")
    assert "kept in out, as it was edited since a run wrote it: tables/odmap.edited.csv" in told
    assert (out / "tables" / "odmap.edited.csv").read_text() == edited
    assert "completed,by,hand" not in table.read_text()
    assert [p.name for p in out.rglob("*.edited*")] == ["odmap.edited.csv"]


def _refuse():
    raise PermissionError


def test_in_folders_of_earlier_versions_names_tell_what_a_run_wrote(tmp_path):
    folder, told = tmp_path / "out", []
    theirs = [outputs.RESULT, "report.html", "maps/cloglog.tif", "tables/roc.csv", "x.lambdas"]
    mine = ["notes.txt", "projections/2070/cloglog.tif", "maps/notes.txt", "tables/old/roc.csv"]
    for name in (*theirs, *mine):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("before")
    with outputs.locked(folder), outputs.staged(folder, True, told.append) as stage:
        (stage / outputs.RESULT).write_text("now")
    assert keeping.files_in(folder) == sorted([outputs.RESULT, keeping.MANIFEST, *mine])
    assert all(name in told[0] for name in mine)
    # where a summary lists the files, they and no others are those of the run
    (folder / keeping.MANIFEST).unlink()
    (folder / outputs.SUMMARY).write_text(json.dumps({"files": [outputs.RESULT, "notes.txt"]}))
    with outputs.locked(folder), outputs.staged(folder, True, told.append) as stage:
        (stage / outputs.RESULT).write_text("again")
    left = [outputs.RESULT, keeping.MANIFEST, *mine[1:]]
    assert keeping.files_in(folder) == sorted(left)


def test_later_projections_and_notes_survive_another_fit(finished, made, tmp_path, run):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    later, mark = out / "projections" / "later", "of_an_earlier_model.txt"
    draw = ["project", out / "model.json", made / "future", "--no-similarity", "-o", later]
    assert run(*draw).exit_code == 0
    (out / "notes.txt").write_text("years of work")
    again = run(*_fit(made, out, "--no-maps", "--overwrite"))
    assert again.exit_code == 0, again.output
    told = again.output.replace("\n", " ")
    assert "kept in out, as no earlier run wrote it: notes.txt" in told
    assert "of the model that was there before: projections/later/cloglog.tif" in told
    assert (out / "notes.txt").read_text() == "years of work"
    assert _names(out / "projections") == ["later"]  # that of the first fit is replaced
    assert _names(later) == ["cloglog.tif", mark]
    assert (later / mark).read_text().endswith("\n\ncloglog.tif\n")
    assert run(*draw, "--overwrite").exit_code == 0
    assert _names(later) == ["cloglog.tif"]


def test_everything_is_on_the_disk_before_a_folder_appears(tmp_path, monkeypatch):
    synced, replace = [], os.replace
    fsync = os.fsync

    def watched(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def renamed(source, target):
        if str(source).endswith(".partial"):
            names = {Path(path).name for path in synced}
            assert {outputs.RESULT, "a.tif", "maps", "only_1", Path(source).name} <= names
            synced.clear()
        replace(source, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("looks for file names in /proc")
    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(os, "replace", renamed)
    _write(tmp_path / "out", "1")
    assert str(tmp_path.resolve()) in synced


# -- maps ------------------------------------------------------------------------------------------


@pytest.fixture
def draw(finished, made):
    model = species.load_model(finished / "model.json")

    def drawn(out, **options):
        with species.Layers.open(made / "future", categorical=["biome"]) as layers:
            return species.project(
                model.density, layers, out, outputs=("cloglog", "raw"), **options
            )

    return drawn


def test_what_a_killed_projection_left_is_cleared_away(draw, tmp_path):
    dead, live, moving = (tmp_path / f".maxent-{name}" for name in ("dead", "live", "moving"))
    for work in (dead, live, moving):
        work.mkdir()
        (work / "lock").write_text("")
    (dead / "cloglog.stage.tif").write_text("half a map")
    (moving / "old").mkdir()
    (moving / "mess.tif").write_text("of the killed run")
    lock = locks.take(live / "lock", "")
    draw(tmp_path, extras=())
    assert _names(tmp_path) == [".maxent-live", "cloglog.tif", "mess.tif", "raw.tif"]
    lock.release(live / "lock")
    draw(tmp_path, extras=())
    (live / "lock").write_text("")
    draw(tmp_path, extras=())
    assert _names(tmp_path) == ["cloglog.tif", "mess.tif", "raw.tif"]


@pytest.mark.slow
@pytest.mark.parametrize("how", KILLS)
def test_a_projection_that_is_killed_leaves_the_earlier_maps(how, finished, made, tmp_path, run):
    """A real process, killed while it draws."""
    layers, out = tmp_path / "layers", tmp_path / "maps"
    layers.mkdir()
    out.mkdir()
    for path in (made / "future").glob("*.tif"):  # the same, with many more cells
        with rasterio.open(path) as file:
            wide, _, west, _, high, north = file.transform[:6]
            finer = rasterio.Affine(wide / 100, 0, west, 0, high / 100, north)
            size = {"width": 100 * file.width, "height": 100 * file.height}
            with rasterio.vrt.WarpedVRT(file, transform=finer, **size) as vrt:
                rasterio.shutil.copy(vrt, layers / f"{path.stem}.vrt", driver="VRT")
    for name in ("cloglog.tif", "mess.tif"):
        (out / name).write_text("of before")
    draw = [str(a) for a in ("project", finished / "model.json", "-o", out, "--overwrite")]
    draw.append("--allow-vrt")
    process = subprocess.Popen([sys.executable, "-m", "maxent", *draw, str(layers)])
    _appear(out, ".maxent-*/*.tif", 1, process)
    process.send_signal(how)
    assert process.wait() == -how
    assert {p.read_text() for p in out.glob("*.tif")} == {"of before"}
    again = run(*draw, made / "future")
    assert again.exit_code == 0, again.output
    assert not list(out.glob(".*"))
    assert b"of before" not in _contents(out).values()


@pytest.mark.parametrize("last", range(6))
def test_new_maps_never_stand_beside_earlier_ones(last, draw, tmp_path, monkeypatch):
    for name in ("cloglog.tif", "raw.tif"):
        (tmp_path / name).write_text("of before")
    replace, calls, seen = os.replace, [], []

    def replaced(*args):
        calls.append(args)
        if len(calls) == last + 1 and last < 5:
            raise KeyboardInterrupt
        replace(*args)
        paths = [tmp_path / name for name in ("cloglog.tif", "raw.tif")]
        seen.append({path.read_bytes() == b"of before" for path in paths if path.exists()})

    monkeypatch.setattr(os, "replace", replaced)
    if last < 5:
        with pytest.raises(KeyboardInterrupt):
            draw(tmp_path, extras=())
        assert {p.read_text() for p in tmp_path.iterdir()} == {"of before"}
    else:
        draw(tmp_path, extras=())
        assert len(calls) == 5
        assert b"of before" not in _contents(tmp_path).values()
        assert all(len(kinds) < 2 for kinds in seen)
    assert _names(tmp_path) == ["cloglog.tif", "raw.tif"]


FORKED = """
import multiprocessing, sys
from pathlib import Path
import numpy as np
import pandas as pd
import rasterio
from maxent import MaxentDensity
from maxent.species import Layers, project

folder = Path(sys.argv[1])
values = np.random.default_rng(0).random((1100, 1100)).astype("float32")
profile = dict(driver="GTiff", width=1100, height=1100, count=1, dtype="float32")
transform = rasterio.Affine(0.01, 0, 0, 0, -0.01, 0)
with rasterio.open(folder / "a.tif", "w", crs="EPSG:4326", transform=transform, **profile) as file:
    file.write(values, 1)
table = pd.DataFrame({"a": values[0]})
model = MaxentDensity("l", verbose=0).fit(table, table["a"] > 0.7)

def draw(name):
    with Layers.open(folder / "a.tif") as layers:
        return project(model, layers, folder / name, extras=(), threads=2, verbose=0).n_cells

cells = draw("before")
with multiprocessing.get_context("fork").Pool(1) as pool:
    try:
        assert pool.map_async(draw, ["after"]).get(60) == [cells]
    except multiprocessing.TimeoutError:
        sys.exit(4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_process_projects_after_threads_have(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "after" / "cloglog.tif").exists()


def _timeless(out):
    """What a fit has written, without the times that it took."""
    found = _contents(out)
    for name in ("report.html", "result.json", "summary.json"):
        del found[out / name]
    model = json.loads(found[out / "model.json"])
    del (
        model["digest"],
        model["model"]["state"]["density"]["state"]["certificate"]["state"]["history"],
    )
    found[out / "model.json"] = model
    found[out / "manifest.json"] = json.loads(found[out / "manifest.json"])["files"]
    table = out / "tables" / "maxentResults.csv"
    rows = list(csv.DictReader(found[table].decode().splitlines()))
    found[table] = [{k: v for k, v in row.items() if k != "Seconds"} for row in rows]
    return {path.relative_to(out).as_posix(): content for path, content in found.items()}


@pytest.mark.slow
def test_files_are_the_same_with_any_number_of_threads(data, tmp_path, run, monkeypatch):
    written = []
    for threads in ("1", "2"):
        monkeypatch.setenv("MAXENT_NUM_THREADS", threads)
        args = _fit(data, tmp_path / threads, "-f", "lqph", "--permutations", "2", "--cv", "blocks")
        result = run(*args)
        assert result.exit_code == 0, result.output
        written.append(_timeless(tmp_path / threads))
    assert written[0] == written[1]


# -- Ctrl-C ----------------------------------------------------------------------------------------


INTERRUPTED = """
import runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["maxent", "info"]
runpy.run_module({entry!r}, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("entry", ["maxent", "maxent.cli"])
@pytest.mark.parametrize(
    "module", ["typer", "rich.table", "maxent.cli.species", "maxent._support.threads"]
)
def test_an_interrupt_while_importing(module, entry):
    command = [sys.executable, "-c", INTERRUPTED.format(module=module, entry=entry)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


ENDING = """
import atexit, signal, sys, time
from maxent._command import run
from maxent._support.interrupts import Insistent

class Last:
    def __del__(self, interrupt=signal.raise_signal, number=signal.SIGINT):
        interrupt(number)

when = sys.argv[1]
if when == "in the last moment":
    sys.last_of_all = Last()
elif when == "after all else":
    atexit.register(signal.raise_signal, signal.SIGINT)
else:
    import threading
    import maxent.cli.command as app

    def waited_for():
        while isinstance(signal.getsignal(signal.SIGINT), Insistent):
            time.sleep(0.01)
        time.sleep(0.2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(3600)

    main = app.main
    app.main = lambda: (threading.Thread(target=waited_for).start(), main())
sys.argv = ["maxent", "--version"]
run()
"""


@pytest.mark.parametrize(
    ("when", "code"),
    [("while threads are waited for", 130), ("after all else", 0), ("in the last moment", 0)],
)
def test_an_interrupt_at_the_end_is_130_or_too_late(when, code):
    command = [sys.executable, "-c", ENDING, when]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("maxent ")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="closes streams with a shell")
def test_a_fit_without_standard_streams(data, tmp_path):
    words = [sys.executable, "-m", "maxent", *_fit(data, tmp_path / "out", "--no-maps")]
    line = f"{shlex.join(map(str, words))} 2>&- >&-"
    assert subprocess.run(line, shell=True, check=False).returncode == 0
    assert (tmp_path / "out" / "report.html").exists()


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "maxent", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("maxent ")
