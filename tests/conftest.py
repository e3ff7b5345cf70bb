"""Shared rules of the tests.

What is missing skips with its reason, or fails with MAXENT_REQUIRE_ALL=1. The exceptions are a CUDA
device, which a machine may lack, and versions of two packages that are known not to work together:
these tests skip also there.
"""

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools import (
    draw_nothing,
    is_slow,
    needs,
    needs_program,
    renewed,
    shared_name,
    spread,
)

collect_ignore = ["project/user_code.py"]  # for type checkers alone

# CPU seconds and name of each test and each shared fixture that takes long, by `make slow`
SLOW = Path(__file__).with_name("slow.txt")

# two workers share the cores: threads of the linear algebra, which is not ours to test, only wait
for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# images of machines may say that no bytecode is kept: each worker would rewrite all asserts, and
# each command that a test starts would compile the package, every time
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="module")
def sketches():
    """Reports without drawing, most of a small fit's time: for tests that look at no picture."""
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        yield


@pytest.fixture
def kernels_alone(monkeypatch):
    """No small problems in numpy: the first of two calls would differ in its last digits."""
    from maxent._support.compiling import switches

    monkeypatch.setattr(switches, "spare_small_problems", False)


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    path = needs_program("chromium")
    with needs("playwright.sync_api").sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


# a cluster that only waits, for the rest of the tests, would take a tenth of a core
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "2s",
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.system-monitor.interval": "10s",
}


@pytest.fixture(scope="session")
def dask_cluster():
    """A real cluster of two processes of one thread each, on the loopback."""
    start = needs("distributed").LocalCluster
    two = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        needs("dask").config.set(QUIET),
        start(**two, dashboard_address=":0", silence_logs=60) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(dask_cluster):
    """Its client, which is dask's default for the tests of one file."""
    with needs("distributed").Client(dask_cluster) as client:
        yield client


def pytest_configure() -> None:
    """Ctrl-C and a hang-up reach this process and its children, also behind a shell or nohup."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """One that writes down which tests take long."""
    parser.addoption("--write-slow", action="store_true", help=f"renew {SLOW.name} for what runs")
    parser.addoption(
        "--few",
        type=int,
        metavar="N",
        help="of each test at most N parameter sets that are not slow",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests known to be slow; their files come first, the longest one at the head."""
    seconds = _known_costs()
    load: Counter[str] = Counter()
    for name, cost in seconds.items():
        load[name.split("::")[0]] += cost
    for item in items:
        if is_slow(item.nodeid, getattr(item, "fixturenames", ()), seconds):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: -load[item.nodeid.split("::")[0]])
    if few := config.getoption("--few"):
        _keep_few(config, items, few)


def _keep_few(config: pytest.Config, items: list[pytest.Item], few: int) -> None:
    """Leave out parameter sets of tests that have many; slow ones are not counted."""
    sets: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            sets.setdefault(item.nodeid.split("[")[0], []).append(item)
    out = {item for of_one in sets.values() for item in set(of_one) - set(spread(of_one, few))}
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = [item for item in items if item not in out]


def _known_costs() -> dict[str, float]:
    """CPU seconds of the tests and of the shared fixtures in slow.txt."""
    lines = (line.split(" ", 1) for line in SLOW.read_text().splitlines())
    return {name: float(seconds) for seconds, name in lines}


_costs: Counter[str] = Counter()
_left_out: set[str] = set()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Tests of the files that run which were not asked for."""
    _left_out.update(item.nodeid for item in items)


def _cpu_seconds() -> float:
    """Of this process and of children that have ended, however busy the machine is."""
    return sum(os.times()[:4])


_clock = 0.0
_shared: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest):
    """What several tests share belongs to none of them, and is counted under its own name."""
    begin = _cpu_seconds()
    result = yield
    if fixturedef.scope != "function":
        _shared[shared_name(fixturedef.baseid, fixturedef.argname)] += _cpu_seconds() - begin
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """What was imported up to here belongs to no test, and stays: nobody looks for garbage in it.

    Python would walk through all modules and items over and over, between small tests.
    """
    global _clock
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    _clock = _cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Reports of set-up, call and tear-down have the time since the report before."""
    global _clock
    report = yield
    now = _cpu_seconds()
    report.cpu_seconds, _clock = now - _clock - _shared.total(), now
    report.shared_cpu_seconds = dict(_shared)
    _shared.clear()
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up set-up, call and tear-down, of all workers."""
    _costs[report.nodeid] += getattr(report, "cpu_seconds", 0.0)  # a worker that crashed has none
    for name, seconds in getattr(report, "shared_cpu_seconds", {}).items():
        _costs[name] = max(_costs[name], seconds)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the tests that took long, where that was asked for; a worker says what it left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = sorted(_left_out)
    elif session.config.getoption("--write-slow"):
        found = renewed(_known_costs(), dict(_costs), _left_out)
        lines = [f"{t:.2f} {name}" for name, t in sorted(found.items())]
        SLOW.write_text("\n".join(lines) + "\n")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """What a worker left out; one that crashed says nothing."""
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", ()))
