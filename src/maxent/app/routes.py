"""Addresses of the app: the page, and what it asks for."""

from __future__ import annotations

import asyncio
import filecmp
import json
import mimetypes
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from maxent._terminal import in_words
from maxent._version import __version__
from maxent.app.draft import Draft, command_script, drawn_region, read_draft, write_draft
from maxent.app.folders import Folders, OutsideError, fresh
from maxent.app.jobs import BusyError, Jobs
from maxent.app.listing import listed
from maxent.app.tiles import Tiles
from maxent.species.options import options_of
from maxent.species.outputs import RESULT
from maxent.species.settings import RULES, Settings

if TYPE_CHECKING:
    from maxent.app.answers import Answers

PAGE = Path(__file__).parent / "page"
_BODY = 4 << 20  # bytes of a question
UPLOAD = 2 << 30  # bytes of a file that is brought
_POLL = 0.25  # seconds between two looks at the folder
_LOOK = 1.0  # seconds between two searches for results
_QUIET = 15.0  # seconds after which a stream says that it is alive


class Server:
    """What the page can ask of the opened folders."""

    def __init__(self, folders: Folders, upload_limit: int = UPLOAD) -> None:
        self.folders, self.upload_limit = folders, upload_limit
        self.jobs, self.tiles = Jobs(folders), Tiles()
        # rasters are opened once per thread: one thread answers clicks
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._drafting, self._edits = threading.Lock(), 0  # one edit of the draft at a time
        self.stopping = threading.Event()
        self._runs: tuple[float, list[dict[str, Any]]] = (-_LOOK, [])

    # what reads records, layers and results takes a second to load: the page need not wait for it

    @cached_property
    def answers(self) -> Answers:
        """Why places are suitable."""
        from maxent.app.answers import Answers

        return Answers(self.folders, self.jobs)

    def app(self) -> Starlette:
        """The application, without its guard."""
        post, put = ["POST"], ["PUT"]
        routes = [
            Route("/", self.page),
            Route("/api/state", self.state),
            Route("/api/events", self.events),
            Route("/api/files", self.files),
            Route("/api/upload/{into}/{name}", self.upload, methods=put),
            Route("/api/draft", self.change_draft, methods=put),
            Route("/api/region", self.draw_region, methods=post),
            Route("/api/records", self.records),
            Route("/api/layers", self.layers),
            Route("/api/fit", self.fit, methods=post),
            Route("/api/project", self.project, methods=post),
            Route("/api/change", self.range_change, methods=post),
            Route("/api/jobs/{number:int}", self.job),
            Route("/api/jobs/{number:int}/stop", self.stop, methods=post),
            Route("/api/result", self.result),
            Route("/api/map", self.map_facts),
            Route("/api/tile/{z:int}/{x:int}/{y:int}", self.tile),
            Route("/api/why", self.why),
            Route("/results/{path:path}", self.file),
            Mount("/static", StaticFiles(directory=PAGE, check_dir=False)),
        ]
        handlers: dict[Any, Any] = {HTTPException: self._http_error}
        for kind in (ValueError, OSError, KeyError):
            handlers[kind] = self._refused
        handlers[BusyError] = self._refused
        handlers[Exception] = self._failed
        return Starlette(routes=routes, exception_handlers=handlers)

    # -- errors in words -----------------------------------------------------------------------

    async def _http_error(self, request: Request, error: Any) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code)

    async def _refused(self, request: Request, error: Exception) -> Response:
        """What was asked cannot be had, and why."""
        status = 400
        if isinstance(error, OutsideError):
            status = 403
        elif isinstance(error, BusyError):
            status = 409
        elif isinstance(error, FileNotFoundError):
            status = 404
        return JSONResponse({"error": self.folders.without_paths(in_words(error))}, status)

    async def _failed(self, request: Request, error: Exception) -> Response:
        return JSONResponse({"error": f"an error of the program: {type(error).__name__}"}, 500)

    # -- the page --------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def state(self, request: Request) -> Response:
        """All that the page begins with."""
        return JSONResponse(await run_in_threadpool(self._state))

    def _state(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "folders": [self.folders.without_paths(str(root)) for root in self.folders.roots],
            "viewing": self.folders.viewing,
            "draft": self._draft(),
            "options": _options(),
            "rules": list(RULES),
            "jobs": [job.story() for job in self.jobs.all()[:5]],
            "runs": listed(self.folders),
        }

    def _draft(self) -> dict[str, Any]:
        with self._drafting:
            return self._told(read_draft(self.folders))

    def _told(self, draft: Draft) -> dict[str, Any]:
        """A draft with its command and script, or what it lacks."""
        said: dict[str, Any] = {"choices": asdict(draft), "command": "", "script": "", "lacks": ""}
        said["edits"] = self._edits  # of two drafts that overtake each other, the page keeps one
        try:
            said |= {"command": draft.command(), "script": draft.script()}
        except (ValueError, TypeError) as error:
            said["lacks"] = self.folders.without_paths(str(error))
        return said

    async def events(self, request: Request) -> Response:
        """What changes in the folder, as it happens (server-sent events)."""
        return StreamingResponse(
            self._changes(request),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def _changes(self, request: Request) -> AsyncIterator[bytes]:
        seen: dict[str, Any] = {}
        idle = 0.0
        yield b"retry: 1000\n\n"
        while not self.stopping.is_set() and not await request.is_disconnected():
            now = await run_in_threadpool(self._pulse)
            told = False
            for name, value in now.items():
                if seen.get(name) != value:
                    data = json.dumps(value)
                    yield f"event: {name}\ndata: {data}\n\n".encode()
                    told = True
            seen, idle = now, 0.0 if told else idle + _POLL
            if idle >= _QUIET:
                yield b": alive\n\n"
                idle = 0.0
            await asyncio.sleep(_POLL)
        yield b"event: end\ndata: null\n\n"

    def _pulse(self) -> dict[str, Any]:
        """The draft, the latest job and the results; these are looked for now and then."""
        latest = next(iter(self.jobs.all()), None)
        return {
            "draft": self._draft(),
            "job": None if latest is None else self._story(latest),
            "runs": self._listed(),
        }

    def _listed(self) -> list[dict[str, Any]]:
        looked, found = self._runs
        if time.monotonic() - looked > _LOOK:
            found = listed(self.folders)
            self._runs = time.monotonic(), found
        return found

    def _story(self, job: Any) -> dict[str, Any]:
        story: dict[str, Any] = job.story()
        story["error"] = self.folders.without_paths(story["error"])
        for event in story["events"]:
            for name in ("text", "error"):
                if isinstance(event.get(name), str):
                    event[name] = self.folders.without_paths(event[name])
        return story

    # -- choosing ----------------------------------------------------------------------------------

    async def files(self, request: Request) -> Response:
        """What a folder holds."""
        asked = request.query_params
        return await self._json(
            self.folders.listing, asked.get("folder", "."), asked.get("kind", "records")
        )

    async def upload(self, request: Request) -> Response:
        """A file brought by the browser; it appears whole or not at all."""
        target = self.folders.place_for(request.path_params["name"], request.path_params["into"])
        size = request.headers.get("content-length", "")
        if size.isdecimal() and int(size) > self.upload_limit:
            raise HTTPException(413, self._too_large())
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        count = 0
        try:
            with open(part, "wb") as file:
                async for chunk in request.stream():
                    count += len(chunk)
                    if count > self.upload_limit:
                        raise HTTPException(413, self._too_large())
                    await run_in_threadpool(file.write, chunk)
            if not _same(part, target):  # a run of before may name the other file
                target = fresh(target)
                part.replace(target)
        except ClientDisconnect:
            return Response(status_code=499)
        finally:
            part.unlink(missing_ok=True)
        return JSONResponse({"path": self.folders.name(target), "bytes": count})

    def _too_large(self) -> str:
        return (
            f"a file may have {self.upload_limit >> 20} MB; put a larger one into the folder "
            "yourself and choose it there"
        )

    async def change_draft(self, request: Request) -> Response:
        """Other choices; answers with the command that they make."""
        given = await _body(request)
        return await self._json(self._change_draft, given)

    def _change_draft(self, given: dict[str, Any]) -> dict[str, Any]:
        with self._drafting:
            draft = read_draft(self.folders).changed(given)
            for name in draft.files():
                self.folders.find(name)
            if self.folders.find(draft.out) == self.folders.home:
                raise ValueError("give the results a folder of their own")
            self._keep(draft)
            return self._told(draft)

    def _keep(self, draft: Draft) -> None:
        write_draft(self.folders, draft)
        self._edits += 1

    async def draw_region(self, request: Request) -> Response:
        """A polygon drawn on the map becomes a file, and the study region of the draft."""
        given = await _body(request)
        rings = given.get("rings")
        if not isinstance(rings, list):
            raise ValueError("expected rings of corners")
        corners = [[[float(x), float(y)] for x, y in ring] for ring in rings]
        crs = given.get("crs")

        def draw() -> dict[str, Any]:
            path = drawn_region(self.folders, corners, None if crs is None else str(crs))
            return self._change_draft({"study": {"polygons": self.folders.name(path)}})

        return await self._json(draw)

    async def records(self, request: Request) -> Response:
        """The fate of every record of the draft."""
        return await self._json(self._records)

    async def layers(self, request: Request) -> Response:
        """The layers of the draft side by side."""
        return await self._json(self._layers)

    def _records(self) -> dict[str, Any]:
        from maxent.app.surveys import records_of

        return records_of(read_draft(self.folders), self.folders)

    def _layers(self) -> dict[str, Any]:
        from maxent.app.surveys import layers_of

        return layers_of(read_draft(self.folders), self.folders)

    # -- working -----------------------------------------------------------------------------------

    async def fit(self, request: Request) -> Response:
        """Run the command of the draft; its folder gets a number if there is one of its name."""
        given = await _body(request)
        return await self._json(self._fit, bool(given.get("resume")))

    def _fit(self, resume: bool) -> dict[str, Any]:
        with self._drafting:
            draft = read_draft(self.folders)
            for name in draft.files():
                if not self.folders.find(name).exists():
                    raise FileNotFoundError(f"{name}: no such file; choose it again")
            if not resume:
                out = fresh(self.folders.find(draft.out))
                draft = draft.changed({"out": self.folders.name(out)})
                self._keep(draft)
        words = [*draft.argv(), *(["--resume"] if resume else [])]
        return self._story(self.jobs.start(words, draft.out, asdict(draft)))

    async def project(self, request: Request) -> Response:
        """Draw a fitted model on another folder of layers."""
        given = await _body(request)
        run, layers = str(given.get("run", "")), str(given.get("layers", ""))
        name = str(given.get("name") or Path(layers).name)

        def start() -> dict[str, Any]:
            from maxent.app import runs

            model = self.folders.find(run) / "model.json"
            source = self.folders.find(layers)
            if not model.is_file() or not source.exists():
                raise FileNotFoundError(f"{run}: no model, or {layers}: no layers")
            out = self.folders.name(
                fresh(runs.later(self.folders, run, runs.PROJECTIONS) / Path(name).name)
            )
            words = ["project", self.folders.name(model), self.folders.name(source), "-o", out]
            return self._story(self.jobs.start(words, out))

        return await self._json(start)

    async def range_change(self, request: Request) -> Response:
        """What is lost, kept and gained between two maps of suitability."""
        given = await _body(request)
        run, future = str(given.get("run", "")), str(given.get("future", ""))
        threshold = float(given.get("threshold", "nan"))
        if not 0 <= threshold <= 1:
            raise ValueError("a threshold lies between 0 and 1")

        def start() -> dict[str, Any]:
            from maxent.app import runs

            maps = [self.folders.find(run) / "maps" / "cloglog.tif", self.folders.find(future)]
            names = [self.folders.name(path) for path in maps]
            made = runs.later(self.folders, run, runs.CHANGES) / maps[1].parent.name
            out = self.folders.name(fresh(made))
            words = ["change", *names, "-t", f"{threshold:.6g}", "-o", out]
            return self._story(self.jobs.start(words, out))

        return await self._json(start)

    async def job(self, request: Request) -> Response:
        """How a job goes."""
        job = self.jobs.find(request.path_params["number"])
        return await self._json(self._story, job)

    async def stop(self, request: Request) -> Response:
        """Ctrl-C for a job."""
        self.jobs.find(request.path_params["number"]).stop()
        return JSONResponse({"asked": True})

    # -- results -----------------------------------------------------------------------------------

    async def result(self, request: Request) -> Response:
        """All of a result but its maps."""
        run = request.query_params.get("run", "")
        answer = await self._json(self._result, run)
        of = request.query_params.get("of", "")
        self._asking.submit(_quietly, lambda: self.answers.warm(run, of))
        return answer

    def _result(self, run: str) -> dict[str, Any]:
        from maxent.app import runs

        told = runs.told(self.folders, run)
        return {**told, "script": self._script(run, str(told["command"]))}

    def _script(self, run: str, command: str) -> str:
        """The script of a run: from the choices of the page, or of the command itself."""
        for job in self.jobs.all():
            facts = job.facts
            if facts.get("draft") and (run == facts["out"] or run.startswith(f"{facts['out']}/")):
                return Draft.of(facts["draft"]).script()
        return command_script(command)

    async def map_facts(self, request: Request) -> Response:
        """Grid and range of a map, or of the layer of a variable."""
        return await self._json(lambda: self.tiles.facts(*self._raster(request)))

    async def tile(self, request: Request) -> Response:
        """Numbers of one tile."""
        place = request.path_params
        path, band = await run_in_threadpool(self._raster, request)
        content = await run_in_threadpool(
            self.tiles.tile, path, place["z"], place["x"], place["y"], band
        )
        return Response(
            content,
            media_type="application/octet-stream",
            headers={"cache-control": "private, max-age=300"},
        )

    def _raster(self, request: Request) -> tuple[Path, int]:
        asked = request.query_params
        if "variable" in asked:
            return self.answers.layer(asked["run"], asked.get("of", ""), asked["variable"])
        path = self.folders.find(asked["file"])
        if not path.is_file():
            raise FileNotFoundError(f"{asked['file']}: no such map")
        return path, int(asked.get("band", "1"))

    async def why(self, request: Request) -> Response:
        """Why a place is suitable."""
        asked = request.query_params
        x, y = float(asked["x"]), float(asked["y"])
        loop = asyncio.get_running_loop()
        told = await loop.run_in_executor(
            self._asking, lambda: self.answers.why(asked["run"], asked.get("of", ""), x, y)
        )
        return JSONResponse(told)

    async def file(self, request: Request) -> Response:
        """A file of a result; pages of results may not run what they like."""
        path = self.folders.find(request.path_params["path"])
        if not path.is_file():
            raise FileNotFoundError(f"{request.path_params['path']}: no such file")
        if not any((folder / RESULT).is_file() for folder in path.parents):
            raise OutsideError("only files of results are shown")
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        headers = {}
        if kind == "text/html":  # the report has its script and pictures inside
            headers["content-security-policy"] = (
                "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
                "script-src 'unsafe-inline'; sandbox allow-scripts allow-popups allow-downloads"
            )
        return FileResponse(path, media_type=kind, headers=headers)

    async def _json(self, work: Callable[..., Any], *args: Any) -> Response:
        return JSONResponse(await run_in_threadpool(work, *args))

    def close(self) -> None:
        """End what is open; jobs go on."""
        self.stopping.set()
        self._asking.shutdown(wait=False, cancel_futures=True)
        self.tiles.close()


def _same(one: Path, other: Path) -> bool:
    """Whether two files hold the same."""
    return other.is_file() and filecmp.cmp(one, other, shallow=False)


def _quietly(work: Callable[[], None]) -> None:
    """What is done beforehand may fail: the question itself will tell why."""
    with suppress(ValueError, OSError, KeyError):
        work()


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY:
            raise HTTPException(413, "too long a question")
    given = json.loads(content or b"{}")
    if not isinstance(given, dict):
        raise ValueError("expected an object")
    return given


def _options() -> dict[str, Any]:
    """The settings as the page asks for them: help, group, default and choices."""
    defaults = {f.name: f.default for f in fields(Settings)}
    return {
        name: {
            "help": asked.help,
            "group": asked.group,
            "default": defaults[name],
            "choices": list(asked.choices),
            "least": asked.least,
            "most": asked.most,
            "kind": type(defaults[name]).__name__,
        }
        for name, asked in options_of(Settings).items()
    }
