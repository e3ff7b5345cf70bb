"""Species, candidates and maps on a real cluster of processes: the same files as without one."""

import csv
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from maxent import species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species.batch import workflow
from maxent.species.batch.cluster import ClusterSettings
from tools import draw_nothing, needs
from waiting import LIMIT, until

distributed = needs("distributed")
needs("rasterio")
psutil = needs("psutil")

from maxent.rows.dask import cluster as clusters  # noqa: E402 - after the check that dask is there
from maxent.rows.dask import tasks  # noqa: E402

pytestmark = pytest.mark.usefixtures("sketches")

QUICK = ["-f", "lq", "--permutations", "0", "--background", "400", "-c", "biome"]


class Counter(distributed.SchedulerPlugin):
    """Tasks of maxent that a cluster has done."""

    done = 0

    def transition(self, key, start, finish, *args, **kwargs):
        self.done += finish == "memory" and str(key).startswith("_task")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as made:
        made.counter = Counter()
        made.scheduler.add_plugin(made.counter)
        with distributed.Client(made) as client:
            client.run(draw_nothing)
        yield made


@pytest.fixture(scope="module")
def address(cluster):
    return cluster.scheduler_address


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    landscape = virtual_landscape(height=40, width=48, n_occurrences=60, n_group=300, seed=5)
    write_landscape(landscape, folder)
    rows = ["species,longitude,latitude"]
    for i, name in enumerate(("Arbor prima", "Arbor secunda")):
        where = slice(40 * i, 40 * i + 40)
        places = zip(landscape.group_x[where], landscape.group_y[where], strict=True)
        rows += [f"{name},{x},{y}" for x, y in places]
    rows += [f"Rara avis,{x},{y}" for x, y in zip(landscape.x[:2], landscape.y[:2], strict=True)]
    (folder / "many.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def without_times(value):
    """JSON without what a clock said, and without the digests that cover it."""
    if isinstance(value, dict):
        timed = ("seconds", "created", "digest", "sha256")
        return {k: without_times(v) for k, v in value.items() if k not in timed}
    if isinstance(value, list):
        timed = len(value) == 2 and value[0] == "seconds"
        return ["seconds"] if timed else [without_times(v) for v in value]
    return value


def results_table(folder):
    with open(folder / "maxentResults.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 2
    return [{k: v for k, v in row.items() if k != "Seconds"} for row in rows]


def assert_same_files(one, other, *patterns):
    compared = [p.relative_to(one) for pattern in patterns for p in sorted(one.rglob(pattern))]
    assert compared
    assert compared == [p.relative_to(other) for g in patterns for p in sorted(other.rglob(g))]
    for name in compared:
        left, right = (folder / name for folder in (one, other))
        if name.suffix == ".json":
            left, right = (without_times(json.loads(p.read_text())) for p in (left, right))
            assert left == right, name
        else:
            assert left.read_bytes() == right.read_bytes(), name


# -- connecting ------------------------------------------------------------------------------------


def test_nobody_at_the_address(monkeypatch):
    assert clusters._PATIENCE < 10
    monkeypatch.setattr(clusters, "_PATIENCE", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    words = f"no dask scheduler answers at '{place}'.*tcp://host:8786.*dask scheduler"
    with pytest.raises(ConnectionError, match=words), clusters.connect(place):
        pass
    with pytest.raises(ConnectionError, match=r"'somewhere'.*missing port"):
        clusters.connect("somewhere").__enter__()


def test_something_else_at_the_address(monkeypatch):
    monkeypatch.setattr(clusters, "_PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            line, _ = server.accept()
            with line:
                line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=greet, daemon=True).start()
        place = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="no dask scheduler answers at"):
            clusters.connect(place).__enter__()


def test_an_address_or_a_number():
    for given in ((None, None), ("tcp://127.0.0.1:1", 2)):
        with pytest.raises(ValueError, match="address of a scheduler or a number"):
            clusters.connect(*given).__enter__()
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        clusters.connect(workers=0).__enter__()


def test_workers_that_are_missing_or_lack_the_package(tmp_path):
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=True) as empty:
        place = empty.scheduler_address
        with pytest.raises(ConnectionError, match=f"{place} has no workers.*dask worker {place}"):
            clusters.connect(place).__enter__()
        for name, code in (
            ("without", "raise ModuleNotFoundError('no maxent', name='maxent')"),
            ("older", "__version__ = '0.0.1'"),
        ):
            package = tmp_path / name / "maxent"
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("")
            (package / "_version.py").write_text(code)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", place]
        worker += ["--no-nanny", "--no-dashboard"]
        started = [
            subprocess.Popen(
                [*worker, "--nthreads", "1", "--local-directory", str(tmp_path)],
                env=os.environ | {"PYTHONPATH": str(tmp_path / name)},
                stderr=subprocess.DEVNULL,
            )
            for name in ("without", "older")
        ]
        try:
            with distributed.Client(place) as client:
                client.wait_for_workers(2, timeout=LIMIT)
                at = client.run(os.getpid)
            lacking, older = ({pid: a for a, pid in at.items()}[p.pid] for p in started)
            with pytest.raises(ConnectionError) as refused:
                clusters.connect(place).__enter__()
            assert f"{lacking} has no such package" in str(refused.value)
            assert f"{older} has maxent 0.0.1" in str(refused.value)
            assert "pip install maxent==" in str(refused.value)
        finally:
            for process in started:
                process.terminate()
                process.wait(timeout=LIMIT)


def test_workers_have_one_thread_and_the_limit_of_cells(address, monkeypatch):
    monkeypatch.setenv("MAXENT_MAX_CELLS", "12345")

    def told():
        return [os.environ.get(f"MAXENT_{name}") for name in ("NUM_THREADS", "MAX_CELLS")]

    with distributed.Client(address) as other:
        before = other.run(told)
        with clusters.connect(address) as client:
            assert list(client.run(told).values()) == [["1", "12345"]] * 2
        assert other.run(told) == before


def test_workers_that_do_not_see_the_files(tmp_path):
    class Elsewhere:  # workers with other disks than the first has
        def run(self, function, probe, needed, on_error):
            moved = [path.replace("layer", "nolayer") for path in needed]
            return {
                "tcp://a:1": function(probe, needed),
                "tcp://b:2": function(probe, moved),
                "tcp://c:3": function(str(tmp_path / "no" / "such"), needed),
                "tcp://d:4": OSError("gone"),
            }

    layer = tmp_path / "layer.tif"
    layer.touch()
    with pytest.raises(ConnectionError) as refused:
        clusters.check_shared(Elsewhere(), tmp_path / "out", [layer])
    assert "tcp://a:1" not in str(refused.value)
    assert f"tcp://b:2 does not see {tmp_path / 'nolayer.tif'}" in str(refused.value)
    assert f"tcp://c:3 does not see {tmp_path / 'no'}" in str(refused.value)
    assert "tcp://d:4 has no answer (gone)" in str(refused.value)
    assert "file system that all of them share" in str(refused.value)
    assert [p.name for p in tmp_path.iterdir()] == ["layer.tif"]


# -- tasks -----------------------------------------------------------------------------------------


def test_a_killed_worker_takes_down_no_job(cluster, address, tmp_path, monkeypatch):
    """One that kills its worker once is run again; one that always does is given up, alone."""
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 1)

    def work(job, factor, folder):
        import os
        import signal

        if job == "always" or (job == "once" and not os.path.exists(f"{folder}/tried")):
            open(f"{folder}/tried", "a").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return job, factor, os.environ["MAXENT_NUM_THREADS"]

    common = (np.arange(5), str(tmp_path))
    with clusters.connect(address) as client:
        found = dict(tasks.in_workers(client, work, ["once", "a", "b", "c"], common))
        assert found.keys() == {"once", "a", "b", "c"}
        for job, (name, factor, threads) in found.items():
            assert (name, threads) == (job, "1")  # also on a worker that was started since
            assert factor.flags.writeable
            np.testing.assert_array_equal(factor, np.arange(5))
        (given_up,) = dict(tasks.in_workers(client, work, ["always"], common)).values()
        assert isinstance(given_up, tasks.Lost)
        assert "the 2 workers that ran it were killed" in str(given_up)
        # the cluster is as good as before
        client.wait_for_workers(2, timeout=LIMIT)
        assert dict(tasks.in_workers(client, work, ["d"], common))["d"][0] == "d"


def test_an_error_of_a_job_is_that_error(address):
    def work(job):
        raise ValueError(f"no {job}")

    with clusters.connect(address) as client:
        runner = tasks.ClusterRunner(client)
        with pytest.raises(ValueError, match="no job"):
            list(runner.as_they_end(work, ["job", "job"]))
        with pytest.raises(ValueError, match="no window"):
            list(runner.in_order(work, ["window"]))


def test_a_cluster_that_lost_all_workers(monkeypatch):
    monkeypatch.setattr(tasks, "_LOOK", 0.1)
    monkeypatch.setattr(tasks, "_LONELY", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=True) as empty,
        distributed.Client(empty) as client,
        pytest.raises(OSError, match="no worker was left, and none came in 0 s"),
    ):
        list(tasks.in_workers(client, len, ["job"]))


def test_a_lost_scheduler_is_said(tmp_path):
    code = (
        "import distributed, time\n"
        "if __name__ == '__main__':\n"
        "    made = distributed.LocalCluster(n_workers=1, dashboard_address=':0')\n"
        "    print(made.scheduler_address, flush=True)\n"
        "    time.sleep(3600)\n"
    )
    (tmp_path / "scheduler.py").write_text(code)
    process = subprocess.Popen([sys.executable, tmp_path / "scheduler.py"], stdout=subprocess.PIPE)

    def work(job, pid):
        import os
        import signal
        import time

        os.kill(pid, signal.SIGKILL)
        time.sleep(3600)

    try:
        place = process.stdout.readline().decode().strip()
        start = time.monotonic()
        with (
            pytest.raises(ConnectionError, match=f"scheduler at {place} is gone.*go on so"),
            ClusterSettings(dask=place).connected(print, "go on so") as client,
        ):
            list(tasks.in_workers(client, work, ["a", "b"], (process.pid,)))
        assert time.monotonic() - start < 20
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_species(cluster, address, data, run, tmp_path, monkeypatch):
    monkeypatch.chdir(data)  # relative paths mean the same to workers
    args = ["fit", "many.csv", "layers", *QUICK, "--no-jackknife", "--bootstrap", "1"]
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    before = cluster.counter.done
    plain, done = run(*args, "-o", alone), run(*args, "-o", shared, "--dask", address)
    for result in (plain, done):
        assert result.exit_code == 3, result.output
        assert "Rara avis: 2 of 2 records can be used" in result.output
    assert f"note: 2 workers at {address}" in done.output
    assert cluster.counter.done == before + 3  # one for each species
    assert_same_files(alone, shared, "model.json", "*.tif", "replicates*.csv")
    assert results_table(alone) == results_table(shared)
    # one species lost: the others are kept, and fewer than workers are not handed out
    kept = (shared / "Arbor_prima" / "report.html").stat().st_mtime_ns
    (shared / "Arbor_secunda" / "result.json").unlink()
    resumed = run(*args, "-o", shared, "--dask", address, "--resume")
    assert resumed.exit_code == 3, resumed.output
    assert resumed.output.count("(kept)") == 1
    assert (shared / "Arbor_prima" / "report.html").stat().st_mtime_ns == kept
    assert (shared / "Arbor_secunda" / "result.json").is_file()
    assert_same_files(alone, shared, "model.json", "*.tif")


def test_the_table_grows_with_the_run(address, data, run, tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "_EVERY", -1.0)
    real, sizes = workflow._write_batch, []

    def write(rows, out):
        real(rows, out)
        sizes.append((out / "maxentResults.csv").read_text().count("\n") - 1)

    monkeypatch.setattr(workflow, "_write_batch", write)
    args = ["fit", data / "many.csv", data / "layers", *QUICK, "--no-jackknife", "--no-maps"]
    args += ["--cv", "none", "--bootstrap", "0", "-s", "Arbor prima", "-s", "Arbor secunda"]
    assert run(*args, "-o", tmp_path / "out", "--dask", address).exit_code == 0
    assert sizes == [sizes[-1] // 2, sizes[-1], sizes[-1]]


def test_a_species_whose_worker_was_lost_after_it_was_written(
    address, data, run, tmp_path, monkeypatch
):
    marker = str(tmp_path / "killed")

    def dies_once(job, shared, lock):
        import os
        import signal

        from maxent.species.batch import workflow

        row = workflow._work(job, shared, lock)
        if row["status"] == "ok" and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    monkeypatch.setattr(workflow, "_work", dies_once)
    args = ["fit", data / "many.csv", data / "layers", *QUICK, "--no-jackknife", "--no-maps"]
    args += ["--cv", "none", "--bootstrap", "0", "-s", "Arbor prima", "-s", "Arbor secunda"]
    result = run(*args, "-o", tmp_path / "out", "--dask", address)
    assert os.path.exists(marker)
    assert result.exit_code == 0, result.output
    assert "(kept)" not in result.output
    assert len(list((tmp_path / "out").glob("*/model.json"))) == 2
    assert not list((tmp_path / "out").glob(".*"))


def test_one_species_in_parts(cluster, address, data, run, tmp_path):
    args = ["fit", data / "occurrences.csv", data / "layers", *QUICK, "--bootstrap", "2"]
    alone, parts = tmp_path / "alone", tmp_path / "parts"
    assert run(*args, "-o", alone).exit_code == 0
    before = cluster.counter.done
    done = run(*args, "-o", parts, "--dask", address)
    assert done.exit_code == 0, done.output
    assert cluster.counter.done > before + 4  # folds, jackknife, responses, windows
    assert_same_files(alone, parts, "model.json", "*.tif", "[!m]*.csv")


def test_tuning(cluster, address, data, run, tmp_path):
    args = ["tune", data / "occurrences.csv", data / "layers", "-c", "biome", "-f", "l,lq"]
    args += ["-m", "1,4", "--background", "400", "--folds", "3", "--null", "2"]
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    assert run(*args, "-o", alone).exit_code == 0
    before = cluster.counter.done
    done = run(*args, "-o", shared, "--dask", address)
    assert done.exit_code == 0, done.output
    assert cluster.counter.done == before + 2 * (1 + 3) + 2  # paths of two classes, null models
    assert_same_files(alone, shared, "*.csv", "*.json")


def _refused(address, context):
    """Whether the other side ends a connection instead of answering."""
    host, port = address.rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as plain:
        try:
            with plain if context is None else context.wrap_socket(plain) as connection:
                connection.sendall(bytes(64))
                return connection.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            return True


def test_workers_of_our_own_take_nobody_without_their_certificate():
    needs("cryptography")
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    other = distributed.Security.temporary().get_connection_args("client")["ssl_context"]
    with clusters.connect(workers=1) as client:
        about = client.scheduler_info()
        (worker,) = about["workers"]
        for address in (about["address"], worker, about["workers"][worker]["nanny"]):
            assert address.startswith("tls://127.0.0.1:")
            for context in (None, stranger, other):
                assert _refused(address, context)
        ports = [about["services"]["dashboard"], about["workers"][worker]["services"]["dashboard"]]
        for port, page in itertools.product(ports, ("status", "info/main/workers.html", "health")):
            with pytest.raises(urllib.error.HTTPError, match="404") as answer:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=LIMIT)
            answer.value.close()
        assert client.submit(sum, [1, 2]).result() == 3


def test_workers_are_started_with_a_certificate_everywhere():
    root = Path(__file__).parents[2]
    files = [
        p for part in ("src", "benchmarks", "experiments") for p in (root / part).rglob("*.py")
    ]
    assert len(files) > 100
    plain = [p.name for p in files if "LocalCluster(" in p.read_text(encoding="utf-8")]
    assert plain == ["cluster.py"]  # that of `connect`


def test_workers_that_cannot_be_started(monkeypatch):
    needs("cryptography")

    def fail(*args, **kwargs):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed.Nanny, "start_unsafe", fail)
    words = r"2 worker processes could not be started here \(.*: free memory or give fewer"
    with pytest.raises(ConnectionError, match=words), clusters.connect(workers=2):
        pass


def test_workers_of_our_own_need_cryptography(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    words = r"needs cryptography: pip install maxent\[dask\]"
    with pytest.raises(ImportError, match=words), clusters.connect(workers=1):
        pass


def test_projecting_with_workers_of_its_own(data, run, tmp_path, monkeypatch):
    from maxent.species.projecting import drawing

    out = tmp_path / "fit"
    args = ["fit", data / "occurrences.csv", data / "layers", *QUICK, "--no-jackknife", "--no-maps"]
    assert run(*args, "--cv", "none", "--bootstrap", "0", "-o", out).exit_code == 0
    monkeypatch.setattr(drawing, "_CELLS", 512)  # several windows
    project = ["project", out / "model.json", data / "future", "--output", "raw", "--threshold"]
    project += ["10 percentile"]
    assert run(*project, "-o", tmp_path / "alone").exit_code == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:  # the dashboard goes elsewhere
        monkeypatch.setattr(clusters, "_DASHBOARD", taken.getsockname()[1])
        done = run(*project, "-o", tmp_path / "shared", "--workers", "1", "--dashboard")
        assert done.exit_code == 0, done.output
        assert "1 worker, dashboard at http://127.0.0.1:" in done.output
        assert f":{taken.getsockname()[1]}/" not in done.output
    assert_same_files(tmp_path / "alone", tmp_path / "shared", "*.tif")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fit", "many.csv", "layers", "-j", "2", "--workers", "2"], "-j and --workers both"),
        (["tune", "many.csv", "layers", "-j", "2", "--dask", "tcp://a:1"], "-j and --dask both"),
        (["fit", "many.csv", "layers", "--dask", "tcp://a:1", "--workers", "2"], "two clusters"),
        (["fit", "many.csv", "layers", "--dashboard"], "--dashboard is that of workers"),
        (["fit", "many.csv", "layers", "--workers", "0"], "--workers must be at least 1, got 0"),
        (
            ["project", "model.json", "table.csv", "--swd", "-o", "o.csv", "--workers", "2"],
            "--workers has no effect with --swd",
        ),
    ],
)
def test_wrong_usage(args, words, data, run, monkeypatch, tmp_path):
    monkeypatch.chdir(data)
    monkeypatch.setattr("maxent.species.fitting.model.load_model", lambda path: species_model())
    for name in ("model.json", "table.csv"):
        (data / name).touch()
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.replace("│", " ").split())


def species_model():
    from types import SimpleNamespace

    checked = {"check_outputs": lambda outputs: None}
    return SimpleNamespace(density=None, reference=None, extrapolation=None, **checked)


def test_both_in_python(data, tmp_path):
    with pytest.raises(ValueError, match="jobs=2 and a cluster both fit the species"):
        species.fit_files(
            species.RecordFile(str(data / "many.csv")),
            species.LayerFiles((str(data / "layers"),)),
            tmp_path / "out",
            jobs=2,
            cluster=ClusterSettings(workers=1),
        )


@pytest.mark.slow
def test_an_interrupt_stops_the_workers(data, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "maxent", "fit", str(data / "many.csv")]
    command += [str(data / "layers"), *QUICK, "--bootstrap", "3000", "-o", str(out)]
    process = subprocess.Popen(
        [*command, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: list(out.glob(".*.partial")), process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, errors
    assert (
        errors.decode().splitlines()[-1]
        == "error: interrupted; nothing half-written was left behind"
    )
    assert b"Traceback" not in errors
    assert not psutil.wait_procs(children, timeout=LIMIT)[1]
    assert not out.exists()
