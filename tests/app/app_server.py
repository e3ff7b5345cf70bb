"""A server of the app for tests: real uvicorn on a free port, and a client that knows the link."""

import http.client
import json
import shlex
import sys
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from maxent import cli
from maxent.app.folders import Folders
from maxent.app.serving import HOST, served_in_a_thread
from waiting import LIMIT, until

TOKEN = "token-of-tests"


class Client:
    """Asks as the page does: with the cookie, and a mark on what changes anything."""

    def __init__(self, port):
        self.port = port
        self.cookie = f"maxent-token-{port}={TOKEN}"

    @property
    def link(self):
        return f"http://{HOST}:{self.port}/?token={TOKEN}"

    def ask(self, path, method="GET", body=None, headers=None):
        """Status, headers and content."""
        line = http.client.HTTPConnection(HOST, self.port, timeout=LIMIT)
        given = {"Host": f"{HOST}:{self.port}", "Cookie": self.cookie, "X-Maxent": "1"}
        given |= headers or {}
        line.request(method, path, body, {k: v for k, v in given.items() if v is not None})
        answer = line.getresponse()
        content = answer.read()
        line.close()
        return answer.status, dict(answer.headers), content

    def get(self, path, status=200):
        got, _, content = self.ask(path)
        assert got == status, content
        return json.loads(content)

    def send(self, path, given=None, method="POST", status=200):
        got, _, content = self.ask(path, method, json.dumps(given or {}))
        assert got == status, content
        return json.loads(content)

    def draft(self, **changes):
        return self.send("/api/draft", changes, "PUT")

    def upload(self, into, name, content, status=200):
        got, _, said = self.ask(f"/api/upload/{into}/{quote(name)}", "PUT", content)
        assert got == status, said
        return json.loads(said)

    def ended(self, number):
        """The job once it has ended."""

        def ended():
            job = self.get(f"/api/jobs/{number}")
            return job if job["status"] != "running" else None

        return until(ended)


def typed(command, folder):
    """What a command prints that is typed in a folder: sooner than as a job of the page."""
    words = shlex.split(command)[1:]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["maxent", *words])
        told = CliRunner().invoke(cli.main, words)
    assert told.exit_code == 0, told.output
    return told.stdout


@contextmanager
def served(*folders, **how):
    """A client of a server for these folders."""
    with served_in_a_thread(Folders.opened(folders), TOKEN, **how) as port:
        yield Client(port)
