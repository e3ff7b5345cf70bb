"""The server: on the loopback address alone, with a token in the link that it prints."""

from __future__ import annotations

import json
import re
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxent.app.folders import Folders
from maxent.species.input.file_access import limited, own_process

HOST = "127.0.0.1"
_FILE = "server.json"
_TOKEN = re.compile(r"[\w-]{16,}", re.ASCII)


def serve(
    folders: Folders,
    *,
    port: int = 0,
    browse: bool = True,
    tell: Callable[[str], None] = print,
    upload_limit: int | None = None,
) -> None:
    """Serve the app until Ctrl-C; ``tell`` gets the link."""
    try:
        import uvicorn
    except ImportError as error:
        raise ImportError("the app needs starlette and uvicorn: pip install maxent[app]") from error
    own_process()
    kept = _Kept.from_folders(folders)
    listening = _listen(port) if port else _listen_again(kept.port)
    number = listening.getsockname()[1]
    token = kept.token or secrets.token_urlsafe(24)
    _Kept(number, token).keep(folders)
    link = f"http://{HOST}:{number}/?token={token}"
    guard, served = guarded(folders, token, number, upload_limit)

    class Stoppable(uvicorn.Server):
        """Tells the streams of events, which never end by themselves, when it is to stop."""

        def handle_exit(self, sig: int, frame: Any) -> None:
            served.stopping.set()
            super().handle_exit(sig, frame)

    server = Stoppable(
        uvicorn.Config(
            guard, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=5
        )
    )
    later = threading.Timer(1.0, _prepare)  # once the page is there
    later.daemon = True
    later.start()
    tell(link)
    if browse:
        threading.Timer(0.3, webbrowser.open, (link,)).start()
    server.run(sockets=[listening])


@contextmanager
def served_in_a_thread(
    folders: Folders, token: str, port: int = 0, upload_limit: int | None = None
) -> Iterator[int]:
    """The port of a server beside the caller's own work, as tests and campaigns want it."""
    import uvicorn

    listening = _listen(port)
    number = listening.getsockname()[1]
    guard, served = guarded(folders, token, number, upload_limit)
    server = uvicorn.Server(
        uvicorn.Config(guard, log_level="critical", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield number
    finally:
        served.stopping.set()
        server.should_exit = True
        thread.join()
        listening.close()


@dataclass(frozen=True)
class _Kept:
    """Port and token of a folder: a page that is still open goes on after the server's restart."""

    port: int = 0
    token: str = ""

    @classmethod
    def from_folders(cls, folders: Folders) -> _Kept:
        """What this user's server wrote here: not a file that came with the folder."""
        path = folders.state / _FILE
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            port, token = int(held["port"]), str(held["token"])
            if held["place"] != _place(path) or not _TOKEN.fullmatch(token):
                return cls()
            return cls(port if 0 < port < 1 << 16 else 0, token)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
            return cls()

    def keep(self, folders: Folders) -> None:
        """For this user alone; not in a folder of results, nor where nothing may be written."""
        if folders.viewing:
            return
        with suppress(OSError):
            folders.state.mkdir(exist_ok=True)
            path = folders.state / _FILE
            path.unlink(missing_ok=True)
            path.touch(mode=0o600)
            held = {"port": self.port, "token": self.token, "place": _place(path)}
            path.write_text(json.dumps(held) + "\n")


def _place(path: Path) -> list[int]:
    """Where a file lies on this machine: a copy of it lies elsewhere."""
    held = path.stat()
    return [held.st_dev, held.st_ino, held.st_uid]


def _listen_again(port: int) -> socket.socket:
    """At the port of last time where it is free, else at any."""
    with suppress(OSError):
        return _listen(port)
    return _listen(0)


def guarded(
    folders: Folders, token: str, port: int, upload_limit: int | None = None
) -> tuple[Any, Any]:
    """The application behind its guard, and what it serves."""
    from maxent.app.routes import UPLOAD, Server
    from maxent.app.safety import Guard

    server = Server(folders, UPLOAD if upload_limit is None else upload_limit)
    app = server.app()

    @asynccontextmanager
    async def life(app: Any) -> Any:
        with limited(vrt=False, network=False, folders=folders.roots):  # jobs inherit it
            yield
        server.close()

    app.router.lifespan_context = life
    return Guard(app, token, port), server


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise OSError(
            f"port {port} is taken or may not be used ({error.strerror}); choose another with "
            "--port, or leave it out"
        ) from None
    return listening


def _prepare() -> None:
    """Load what the first map needs while the page is still being read."""
    import maxent.app.answers
    import maxent.app.surveys  # noqa: F401
    from maxent.app.tiles import load_rio_tiler

    load_rio_tiler()


def open_folders(given: list[Path]) -> Folders:
    """The folders to serve: those given, or the one that the command was started in."""
    return Folders.opened(given or [Path.cwd()])
