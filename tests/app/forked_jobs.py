"""Jobs of the app from one process that has imported the package, where Linux can fork it.

To start Python and import takes a job's processes longer than most of what tests ask of them. What
becomes of real ones is for test_app_server.py and test_app_strangers.py. Reports draw no pictures.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

_IMPORTED = (
    *("maxent.cli.species.fitting", "maxent.cli.species.tuning", "maxent.species.batch.workflow"),
    *("maxent.species.judging.sites", "maxent.species.comparing.niches", "matplotlib.figure"),
    *("maxent.app.runner", "rasterio.warp", "scipy.stats"),
)


class Forks:
    """The process that jobs are forked from, started for the first of them."""

    def __init__(self):
        self._source = None

    def popen(self, words, cwd, **how):
        """In place of ``subprocess.Popen``, for the runner of a job."""
        if self._source is None:
            environment = os.environ | {"TERMINAL_WIDTH": "1000"}  # is read once, by an import
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._source = subprocess.Popen([sys.executable, __file__], env=environment, **pipes)
        self._source.stdin.write(json.dumps([words[-1], str(cwd), dict(os.environ)]) + "\n")
        self._source.stdin.flush()
        pid = int(self._source.stdout.readline())
        # who waits for its end holds no process of its own
        return SimpleNamespace(pid=pid, poll=lambda: None, wait=lambda: None)

    def end(self):
        if self._source is not None:
            self._source.stdin.close()
            self._source.wait()
            self._source.stdout.close()


def _forked(work, *given):
    """The number of a process that does this and ends with its exit code."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = work(*given)
    finally:
        os._exit(code)


def _files(*three):
    for number, file in enumerate(three):
        os.dup2(file, number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
    )


def _job(folder, home, environment):
    from maxent.app import runner

    os.environ.clear()
    os.environ.update(environment)

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(home)
    _files(*[os.open(os.devnull, os.O_RDWR)] * 3)
    runner.subprocess = SimpleNamespace(Popen=_command, DEVNULL=0)
    return runner.run(Path(folder)) and 1


def _command(words, cwd, env, stdin, stdout, stderr, pass_fds, preexec_fn):
    def work():
        from maxent import _command

        _files(stdin, stdout.fileno(), stderr.fileno())
        # the other end of the pipe is the runner's alone
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number not in pass_fds:
                with suppress(OSError):
                    os.close(number)
        os.chdir(cwd)
        os.environ.update(env)
        preexec_fn()
        sys.argv = ["maxent", *words[3:]]
        code = 0
        try:
            _command.run()
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    pid = _forked(work)
    return SimpleNamespace(wait=lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _ended(number, frame):
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main():
    """Fork a job for each line of standard input."""
    import importlib

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tools import draw_nothing

    for name in _IMPORTED:
        importlib.import_module(name)
    draw_nothing()
    signal.signal(signal.SIGCHLD, _ended)
    for line in sys.stdin:
        print(_forked(_job, *json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
