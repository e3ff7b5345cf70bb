"""Addresses of the app: the page, and what it asks for."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from maxent._support.terminal import in_words
from maxent._version import __version__
from maxent.app import models, schema, tuning
from maxent.app.analyses import Analyses
from maxent.app.aside import Aside
from maxent.app.draft import Draft, command_script, drawn_region, read_draft, write_draft
from maxent.app.example import example_draft, is_example
from maxent.app.files import KINDS, OTHER, headers_of, result_file
from maxent.app.folders import Folders, OutsideError, fresh
from maxent.app.jobs import BusyError, Jobs
from maxent.app.listing import listed
from maxent.app.tiles import Tiles
from maxent.app.uploads import receive
from maxent.app.wording import for_page
from maxent.species.fitting.options import options_of
from maxent.species.fitting.settings import RULES, Settings
from maxent.species.input.source_settings import COUNTS, SourceSettings

if TYPE_CHECKING:
    from maxent.app.answers import Answers

PAGE = Path(__file__).parent / "page"
_BODY = 4 << 20  # bytes of a question
UPLOAD = 2 << 30  # bytes of a file that is brought
_POLL = 0.25  # seconds between two looks at the folder
_LOOK = 1.0  # seconds between two searches for results
_AROUND = 0.5  # of a map's sides, to be drawn beyond them
_QUIET = 15.0  # seconds after which a stream says that it is alive


class Server:
    """What the page can ask of the opened folders."""

    def __init__(self, folders: Folders, upload_limit: int = UPLOAD) -> None:
        self.folders, self.upload_limit = folders, upload_limit
        self.aside = Aside(folders)
        self.jobs, self.tiles = Jobs(folders, self.aside), Tiles()
        # rasters are opened once per thread: one thread answers clicks
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._drafting, self._edits = threading.Lock(), 0  # one edit of the draft at a time
        self.stopping = threading.Event()
        self.analyses = Analyses(
            folders,
            self.jobs,
            self._locked,
            self._json,
            _body,
            self._story,
            lambda: self.answers,
        )
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
            Route("/api/example", self.example, methods=post),
            Route("/api/region", self.draw_region, methods=post),
            Route("/api/records", self.records),
            Route("/api/visits", self.visits),
            Route("/api/visits", self.add_visits, methods=post),
            Route("/api/layers", self.layers),
            Route("/api/extent", self.extent),
            Route("/api/fit", self.fit, methods=post),
            Route("/api/project", self.project, methods=post),
            Route("/api/change", self.range_change, methods=post),
            Route("/api/jobs/{number:int}", self.job),
            Route("/api/jobs/{number:int}/stop", self.stop, methods=post),
            Route("/api/result", self.result),
            Route("/api/richness", self.richness),
            Route("/api/map", self.map_facts),
            Route("/api/world", self.world, methods=post),
            Route("/api/tile/{z:int}/{x:int}/{y:int}", self.tile),
            Route("/api/why", self.why),
            Route("/results/{path:path}", self.file),
            *self.analyses.routes(),
            Mount("/static", StaticFiles(directory=PAGE, check_dir=False)),
        ]
        handlers: dict[Any, Any] = {HTTPException: self._http_error}
        for kind in (ValueError, OSError, KeyError):
            handlers[kind] = self._refused
        handlers[BusyError] = self._refused
        handlers[Exception] = self._failed
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    # -- errors in words -----------------------------------------------------------------------

    async def _http_error(self, request: Request, error: Any) -> Response:
        return _said(models.Error, {"error": str(error.detail)}, error.status_code)

    async def _refused(self, request: Request, error: Exception) -> Response:
        """What was asked cannot be had, and why."""
        status = 400
        if isinstance(error, OutsideError):
            status = 403
        elif isinstance(error, BusyError):
            status = 409
        elif isinstance(error, FileNotFoundError):
            status = 404
        return _said(models.Error, {"error": self._in_words(in_words(error))}, status)

    def _in_words(self, text: str) -> str:
        """A message of the command as the page says it."""
        return for_page(self.folders.without_paths(text))

    async def _failed(self, request: Request, error: Exception) -> Response:
        said = f"an error of the program: {type(error).__name__}"
        return _said(models.Error, {"error": said}, 500)

    # -- the page --------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def state(self, request: Request) -> Response:
        """All that the page begins with."""
        return await self._json(models.State, self._state)

    def _state(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "folders": [self.folders.without_paths(str(root)) for root in self.folders.roots],
            "viewing": self.folders.viewing,
            "draft": self._draft(),
            "options": _options(Settings),
            "source_options": _options(SourceSettings, without=("kind",)),
            "rules": list(RULES),
            "jobs": [self._story(job) for job in self.jobs.all()[:5]],
            "runs": listed(self.folders),
            "notes": list(self.aside.notes),
        }

    def _draft(self) -> dict[str, Any]:
        with self._drafting:
            return self._describe_draft(self._chosen())

    def _chosen(self) -> Draft:
        return read_draft(self.folders, self.aside)

    def _locked(self) -> Draft:
        with self._drafting:
            return self._chosen()

    def _describe_draft(self, draft: Draft) -> dict[str, Any]:
        """A draft with its command and script, or what it lacks."""
        said: dict[str, Any] = {"choices": asdict(draft), "command": "", "script": "", "lacks": ""}
        said["example"] = is_example(draft)
        said["edits"] = self._edits  # of two drafts that overtake each other, the page keeps one
        compared = tuning.describe_draft(draft)
        compared["lacks"] = self._in_words(compared["lacks"])
        said["tuning"] = compared | {"notes": [self._in_words(n) for n in compared["notes"]]}
        try:
            said |= {"command": draft.command(), "script": draft.script()}
        except (ValueError, TypeError) as error:
            said["lacks"] = self._in_words(str(error))
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
                    data = schema.encode(_EVENTS[name], value)
                    yield b"event: %s\ndata: %s\n\n" % (name.encode(), data)
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
            "notes": list(self.aside.notes),
        }

    def _listed(self) -> list[dict[str, Any]]:
        looked, found = self._runs
        if time.monotonic() - looked > _LOOK:
            found = listed(self.folders)
            self._runs = time.monotonic(), found
        return found

    def _story(self, job: Any) -> dict[str, Any]:
        story: dict[str, Any] = job.story()
        story["error"] = self._in_words(story["error"])
        for event in story["events"]:
            for name in ("text", "error"):
                if name in event:
                    event[name] = self._in_words(event[name])
        return story

    # -- choosing ----------------------------------------------------------------------------------

    async def files(self, request: Request) -> Response:
        """What a folder holds."""
        asked = request.query_params
        folder, kind = asked.get("folder", "."), asked.get("kind", "records")
        return await self._json(models.Listing, self.folders.listing, folder, kind)

    async def upload(self, request: Request) -> Response:
        """A file brought by the browser; it appears whole or not at all."""
        target = self.folders.place_for(request.path_params["name"], request.path_params["into"])
        size = request.headers.get("content-length", "")
        if size.isdecimal() and int(size) > self.upload_limit:
            raise HTTPException(413, self._too_large())
        try:
            place, count = await receive(request.stream(), target, self.upload_limit)
        except ClientDisconnect:
            return Response(status_code=499)
        if place is None:
            raise HTTPException(413, self._too_large())
        return _said(models.Uploaded, {"path": self.folders.name(place), "bytes": count})

    def _too_large(self) -> str:
        return (
            f"a file may have {self.upload_limit >> 20} MB; put a larger one into the folder "
            "yourself and choose it there"
        )

    async def change_draft(self, request: Request) -> Response:
        """Other choices; answers with the command that they make."""
        given = from_json(await _body(request) or b"{}", allow_inf_nan=False)
        return await self._json(models.Draft, self._change_draft, given)

    def _change_draft(self, given: Any) -> dict[str, Any]:
        with self._drafting:
            draft = self._chosen().changed(given)
            draft.check_paths(self.folders)
            self._keep(draft)
            return self._describe_draft(draft)

    def _keep(self, draft: Draft) -> None:
        write_draft(self.folders, draft)
        self._edits += 1

    async def example(self, request: Request) -> Response:
        """Data to try the page with: they are written to the folder, and chosen."""
        schema.asked(models.AskNothing, await _body(request))
        return await self._json(models.Draft, self._example)

    def _example(self) -> dict[str, Any]:
        with self._drafting:
            draft = example_draft(self.folders)
            draft.check_paths(self.folders)
            self._keep(draft)
            return self._describe_draft(draft)

    async def draw_region(self, request: Request) -> Response:
        """A polygon drawn on the map becomes a file, and the study region of the draft."""
        given = schema.asked(models.AskRegion, await _body(request))

        def draw() -> dict[str, Any]:
            path = drawn_region(self.folders, given.rings, given.crs)
            return self._change_draft({"study": {"polygons": self.folders.name(path)}})

        return await self._json(models.Draft, draw)

    async def records(self, request: Request) -> Response:
        """The fate of every record of the draft."""
        return await self._json(models.Records, self._records)

    async def visits(self, request: Request) -> Response:
        """Surveys and counts of the draft: what was recognised in each file."""
        return await self._json(models.Visits, self._visits)

    async def add_visits(self, request: Request) -> Response:
        """Another file of visits; whether a survey or counts is by its columns."""
        given = schema.asked(models.AskVisits, await _body(request))
        return await self._json(models.Draft, self._add_visits, given.path)

    async def layers(self, request: Request) -> Response:
        """The layers of the draft side by side."""
        return await self._json(models.Layers, self._layers)

    async def extent(self, request: Request) -> Response:
        """The polygons that the maps of the draft are cut to."""
        return await self._json(models.Extent, self._extent)

    def _extent(self) -> dict[str, Any]:
        from maxent.app.surveys import extent_of

        return extent_of(self._chosen(), self.folders)

    def _records(self) -> dict[str, Any]:
        from maxent.app.surveys import records_of

        return records_of(self._chosen(), self.folders)

    def _visits(self) -> dict[str, Any]:
        from maxent.app.surveys import visits_of

        return visits_of(self._chosen(), self.folders)

    def _add_visits(self, path: str) -> dict[str, Any]:
        from maxent.app.surveys import kind_of_visits

        name = "counts" if kind_of_visits(path, self.folders) == COUNTS else "surveys"
        with self._drafting:
            draft = self._chosen()
            if path not in (*draft.surveys, *draft.counts):
                draft = draft.changed({name: [*getattr(draft, name), path]})
                draft.check_paths(self.folders)
                self._keep(draft)
            return self._describe_draft(draft)

    def _layers(self) -> dict[str, Any]:
        from maxent.app.surveys import layers_of

        return layers_of(self._chosen(), self.folders)

    # -- working -----------------------------------------------------------------------------------

    async def fit(self, request: Request) -> Response:
        """Run the command of the draft; its folder gets a number if there is one of its name."""
        given = schema.asked(models.AskFit, await _body(request))
        return await self._json(models.Job, self._fit, given.resume)

    def _fit(self, resume: bool) -> dict[str, Any]:
        with self._drafting:
            draft = self._chosen()
            draft.check_files(self.folders)
            if not resume:
                out = fresh(self.folders.find(draft.out))
                draft = draft.changed({"out": self.folders.name(out)})
                self._keep(draft)
        words = [*draft.argv(), *(["--resume"] if resume else [])]
        return self._story(self.jobs.start(words, draft.out, asdict(draft)))

    async def project(self, request: Request) -> Response:
        """Draw a fitted model on another folder of layers."""
        given = schema.asked(models.AskProjection, await _body(request))
        run, layers = given.run, given.layers
        name = given.name or Path(layers).name

        def start() -> dict[str, Any]:
            from maxent.app import afterwards, runs

            model = self.folders.find(run) / "model.json"
            source = self.folders.find(layers)
            if not model.is_file() or not source.exists():
                raise FileNotFoundError(f"{run}: no model, or {layers}: no layers")
            place = runs.later(self.folders, run, runs.PROJECTIONS) / Path(name).name
            out = self.folders.name(fresh(self.folders.find(str(place))))
            asked = given.model_fields_set & {"extent", "mask"}
            drawn = {setting: getattr(given, setting) for setting in asked}
            words = afterwards.project_words(self.folders, run, source, out, drawn)
            return self._story(self.jobs.start(words, out))

        return await self._json(models.Job, start)

    async def range_change(self, request: Request) -> Response:
        """What is lost, kept and gained between two maps of suitability."""
        given = schema.asked(models.AskChange, await _body(request))
        run, future, threshold = given.run, given.future, given.threshold

        def start() -> dict[str, Any]:
            from maxent.app import runs

            maps = [self.folders.find(run) / "maps" / "cloglog.tif", self.folders.find(future)]
            names = [self.folders.name(path) for path in maps]
            made = runs.later(self.folders, run, runs.CHANGES) / maps[1].parent.name
            out = self.folders.name(fresh(made))
            words = ["change", *names, "-t", repr(threshold), "-o", out]
            return self._story(self.jobs.start(words, out))

        return await self._json(models.Job, start)

    async def job(self, request: Request) -> Response:
        """How a job goes."""
        number = request.path_params["number"]
        return await self._json(models.Job, lambda: self._story(self.jobs.find(number)))

    async def stop(self, request: Request) -> Response:
        """Ctrl-C for a job."""
        await run_in_threadpool(self.jobs.find(request.path_params["number"]).stop)
        return _said(models.Asked, {"asked": True})

    # -- results -----------------------------------------------------------------------------------

    async def result(self, request: Request) -> Response:
        """All of a result but its maps."""
        run = request.query_params.get("run", "")
        answer = await self._json(models.Result, self._result, run)
        of = request.query_params.get("of", "")
        self._asking.submit(_quietly, lambda: self.answers.warm(run, of))
        return answer

    def _result(self, run: str) -> dict[str, Any]:
        from maxent.app import runs

        told = runs.describe_result(self.folders, run)
        return {**told, "script": self._script(run, str(told["command"]))}

    def _script(self, run: str, command: str) -> str:
        """The script of a run: from the choices of the page, or of the command itself."""
        for job in self.jobs.all():
            facts = job.facts
            if facts.draft and (run == facts.out or run.startswith(f"{facts.out}/")):
                with suppress(ValueError):
                    return Draft.from_page(facts.draft).script()
        return command_script(command)

    async def richness(self, request: Request) -> Response:
        """The sums over the species of a run."""

        def found() -> dict[str, Any]:
            from maxent.app import runs

            return runs.richness_of(self.folders, request.query_params.get("batch", ""))

        return await self._json(models.Richness, found)

    async def map_facts(self, request: Request) -> Response:
        """Grid and range of a map, or of the layer of a variable."""
        return await self._json(models.MapFacts, lambda: self.tiles.facts(*self._raster(request)))

    async def world(self, request: Request) -> Response:
        """Coasts, borders and graticule under a map; null where the map may lie anywhere."""
        given = schema.asked(models.AskWorld, await _body(request))

        def drawn() -> Any:
            from maxent.species.input.layers.grid import Grid
            from maxent.species.report.world import world

            transform = tuple(given.transform)
            found = world(Grid(given.definition, transform, given.width, given.height), _AROUND)
            return None if found is None else found.told()

        return await self._json(models.World | None, drawn)

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
            run, of = asked.get("run", ""), asked.get("of", "")
            return self.answers.layer(run, of, asked["variable"])
        name = asked.get("file", "")
        path = self.folders.find(name)
        if not path.is_file():
            raise FileNotFoundError(f"{name!r}: no such map")
        return path, _whole("band", asked.get("band", "1"))

    async def why(self, request: Request) -> Response:
        """Why a place is suitable."""
        asked = request.query_params
        x, y = (_number(name, asked.get(name, "")) for name in ("x", "y"))
        run, of = asked.get("run", ""), asked.get("of", "")
        loop = asyncio.get_running_loop()
        told = await loop.run_in_executor(self._asking, lambda: self.answers.why(run, of, x, y))
        return _said(models.Why if told["known"] else models.Unknown, told)

    async def file(self, request: Request) -> Response:
        """A file of a result, of a few kinds, without the rights of the page."""
        path = await run_in_threadpool(result_file, self.folders, request.path_params["path"])
        kind = KINDS.get(path.suffix.lower(), OTHER)
        return FileResponse(path, media_type=kind, headers=headers_of(path.name, kind))

    async def _json(self, kind: Any, work: Callable[..., Any], *args: Any) -> Response:
        """What a question is answered with, checked in the thread that answers it."""
        content = await run_in_threadpool(lambda: schema.encode(kind, work(*args)))
        return Response(content, media_type="application/json")

    def close(self) -> None:
        """End what is open; jobs go on."""
        self.stopping.set()
        self._asking.shutdown(wait=False, cancel_futures=True)
        self.tiles.close()


_EVENTS: dict[str, Any] = {
    "draft": models.Draft,
    "job": models.Job | None,
    "runs": list[models.ListedRun],
    "notes": list[str],
}


def _said(kind: Any, value: Any, status: int = 200) -> Response:
    return Response(schema.encode(kind, value), status, media_type="application/json")


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= 100_000:
        raise ValueError(f"{name} is a number from 1 on, got {text!r:.40}")
    return int(text[:9])


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not math.isfinite(value):
        raise ValueError(f"{name} is a coordinate, got {text!r:.40}")
    return value


def _quietly(work: Callable[[], None]) -> None:
    """What is done beforehand may fail: the question itself will tell why."""
    with suppress(ValueError, OSError, KeyError):
        work()


async def _body(request: Request) -> bytes:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY:
            raise HTTPException(413, "too long a question")
    return content


def _kind(default: Any, hint: Any) -> str:
    """What is typed for an option: also where it is nothing by default."""
    if default is not None:
        return type(default).__name__
    others = [kind for kind in get_args(hint) if kind is not type(None)]
    return getattr(others[0], "__name__", "str") if len(others) == 1 else "str"


def _options(cls: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Settings as the page asks for them: help, group, default and choices."""
    defaults, hints = {f.name: f.default for f in fields(cls)}, get_type_hints(cls)
    return {
        name: {
            "help": asked.help,
            "group": asked.group,
            "default": defaults[name],
            "choices": list(asked.choices),
            "least": asked.least,
            "most": asked.most,
            "kind": _kind(defaults[name], hints[name]),
        }
        for name, asked in options_of(cls).items()
        if name not in without
    }
