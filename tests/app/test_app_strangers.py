"""Folders of strangers in the app: nothing of them is run, and nothing outside them is read."""

import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from app_server import TOKEN, served

from tools import needs, needs_program
from waiting import LIMIT, until

for name in ("starlette", "uvicorn", "rio_tiler", "pydantic"):
    needs(name)
rasterio = needs("rasterio")

from maxent.app import jobs, models, processes  # noqa: E402 - they need the packages above
from maxent.app.draft import Draft, read_draft  # noqa: E402
from maxent.app.folders import Folders, OutsideError  # noqa: E402
from maxent.app.schema import DamagedError, encode  # noqa: E402
from maxent.app.tuning import TuningChoices  # noqa: E402
from maxent.app.wording import _labels, for_page  # noqa: E402
from maxent.species.fitting.options import options_of  # noqa: E402
from maxent.species.fitting.settings import Settings  # noqa: E402
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles  # noqa: E402
from maxent.species.input.source_settings import SourceSettings  # noqa: E402

ELEMENT = {"type": "script", "props": {"src": "/results/x.js"}, "key": None, "__k": None}
STATE = ".maxent-app"


@pytest.fixture
def folder(tmp_path):
    """A folder that claims to hold a result, beside one that was not opened."""
    inside = tmp_path / "inside"
    (inside / "run").mkdir(parents=True)
    (inside / "run" / "result.json").write_text("{}")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "records.csv").write_text("species,x,y\na,1,2\n")
    profile = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8"}
    profile["transform"] = rasterio.transform.from_origin(0, 4, 1, 1)
    for path in (outside / "secret.tif", inside / "map.tif"):
        with rasterio.open(path, "w", **profile) as file:
            file.write(np.full((4, 4), 77, np.uint8), 1)
    return inside


def state(folder, name, content):
    (folder / STATE).mkdir(exist_ok=True)
    path = folder / STATE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# -- values ----------------------------------------------------------------------------------------


def test_an_element_is_no_name(folder):
    """A species of summary.json that the page would take for something to draw."""
    row = {"species": ELEMENT, "auc": {"type": "img"}, "n_records": "5"}
    (folder / "run" / "summary.json").write_text(json.dumps({"row": row}))
    with served(folder) as client:
        (run,) = client.get("/api/state")["runs"]
        assert run["species"] is None
        assert run["auc"] is None
        assert client.get("/api/result?run=run", 400)["error"]


@pytest.mark.parametrize("place", ["species", "notes", "command", "bound", "created"])
def test_no_object_is_told_in_place_of_a_text(place):
    with pytest.raises(DamagedError, match=place):
        encode(models.Result, {place: [ELEMENT] if place == "notes" else ELEMENT})


def test_every_answer_has_a_model():
    """No address answers with what no model has checked."""
    source = Path(sys.modules["maxent.app.jobs"].__file__).with_name("routes.py").read_text()
    assert "JSONResponse" not in source
    assert "json.dumps" not in source


# -- files of results ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["x.svg", "x.xhtml", "x.xml", "x.js", "x.html", "x.mjs", "x.pdf", "x.wasm", "x"]
)
def test_files_of_results_have_no_rights(folder, name):
    (folder / "run" / name).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    with served(folder) as client:
        status, headers, _ = client.ask(f"/results/run/{name}")
    assert status == 200
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox")
    assert "default-src 'none'" in policy
    assert "allow-same-origin" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    kind = headers["content-type"].partition(";")[0]
    assert kind in {"image/svg+xml", "text/html", "application/octet-stream"}
    if kind == "text/html":
        assert "'unsafe-inline'" not in policy.partition("script-src")[2]
    if kind == "application/octet-stream":
        assert headers["content-disposition"].startswith("attachment")


# -- paths of a draft ------------------------------------------------------------------------------

PARTS = {"records": RecordFile, "layers": LayerFiles, "study": StudyFiles, "settings": Settings}
PARTS |= {"tuning": TuningChoices, "sources": SourceSettings}
# texts that name no file: columns, layers, rows, words of a list, and options of the model
NO_PATHS = {
    *("records.species", "records.x", "records.y", "records.presence", "records.basis"),
    *("records.leave_out", "layers.categorical", "layers.align", "layers.resampling"),
    *("layers.without", "species", "background"),
    *(f"settings.{f.name}" for f in fields(Settings) if f.name != "extent"),
    *("tuning.partition", "tuning.column", "tuning.validation", "tuning.scoring"),
    *("tuning.features", "tuning.block_size"),
    *(f"sources.{f.name}" for f in fields(SourceSettings)),
}


def texts_of_a_draft():
    """Every field of the schema that can hold a text, with a draft that has it so."""
    for f in fields(Draft):
        if f.name not in PARTS:
            yield f.name, (lambda value, name=f.name: {name: value}), f.type
            continue
        for inner, hint in get_type_hints(PARTS[f.name]).items():
            if "str" in str(hint):
                yield (
                    f"{f.name}.{inner}",
                    (lambda value, part=f.name, name=inner: {part: {name: value}}),
                    str(hint),
                )


@pytest.mark.parametrize("way", ["{outside}/{file}", "../outside/{file}", "link/{file}"])
def test_every_path_of_a_draft_is_decided_in_one_place(folder, way):
    outside = folder.parent / "outside"
    (folder / "link").symlink_to(outside)
    folders, walked = Folders.opened([folder]), set()
    with served(folder) as client:
        for place, draft, kind in texts_of_a_draft():
            file = "records.csv" if place == "records.path" else "secret.tif"
            path = way.format(outside=outside, file=file)
            text = f"a={path}" if place == "layers.layer" else path
            given = draft([text] if "tuple" in kind else text)
            walked.add(place)
            if place in NO_PATHS:
                continue
            status = 400 if place.endswith("crs") else 403
            assert client.send("/api/draft", given, "PUT", status)["error"], place
            assert read_draft(folders) == Draft(), place
    assert {"layers.layer", "layers.sources", "study.ecoregions", "test", "out"} <= walked
    assert walked >= NO_PATHS - {
        f"{part}.{name}"
        for part in ("settings", "sources")
        for name, hint in get_type_hints(PARTS[part]).items()
        if "str" not in str(hint)
    }


def test_tables_of_layers_name_files_inside(folder):
    (folder / "table.csv").write_text(f"name,file\na,{folder.parent / 'outside' / 'secret.tif'}\n")
    with served(folder) as client:
        client.send("/api/draft", {"layers": {"layer": ["table.csv"]}}, "PUT", 403)


def test_a_draft_that_came_with_the_folder_is_checked(folder):
    path = state(folder, "draft.json", {"records": {"path": str(folder.parent / "outside")}})
    with served(folder) as client:
        told = client.get("/api/state")
        assert told["draft"]["choices"]["records"] == {}
        assert "draft.json is damaged" in told["notes"][0]
        assert not path.exists()
        assert path.with_name("draft.json.damaged").exists()


def test_rasters_of_a_folder_that_lead_out(folder):
    (folder / "layers").mkdir()
    (folder / "layers" / "a.tif").symlink_to(folder.parent / "outside" / "secret.tif")
    with served(folder) as client:
        client.draft(layers={"sources": ["layers"]})
        assert "leads out" in client.get("/api/layers", 400)["error"]
        (folder / "layers" / "a.tif").unlink()
        (folder / "layers" / "a.vrt").write_text("<VRTDataset/>")
        assert "GeoTIFF" in client.get("/api/layers", 400)["error"]


@pytest.mark.parametrize("name", [STATE, f"{STATE}/jobs"])
def test_what_the_page_keeps_is_kept_inside(folder, name):
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(folder.parent / "outside")
    with pytest.raises(OutsideError, match="is a link"):
        Folders.opened([folder])


def test_links_in_a_result_are_not_read(folder):
    outside = folder.parent / "outside"
    (outside / "summary.json").write_text(json.dumps({"row": {"species": "secret"}}))
    (outside / "draft.json").write_text(json.dumps({"out": "secret"}))
    (outside / "job.json").write_text(json.dumps({"argv": ["secret"], "out": "", "started": 1}))
    (folder / "run" / "summary.json").symlink_to(outside / "summary.json")
    (folder / "other").mkdir()
    (folder / "other" / "result.json").symlink_to(outside / "summary.json")
    (folder / STATE / "jobs" / "1").mkdir(parents=True)
    (folder / STATE / "draft.json").symlink_to(outside / "draft.json")
    (folder / STATE / "jobs" / "1" / "job.json").symlink_to(outside / "job.json")
    with served(folder) as client:
        told = client.get("/api/state")
        assert [run["run"] for run in told["runs"]] == ["run"]
        assert told["jobs"] == []
        assert "secret" not in json.dumps(told)
        client.get("/api/result?run=other", 403)


# -- damaged files, odd requests -------------------------------------------------------------------

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "null", '"x"', DEEP, '{"out": 5}', '{"settings": {"threshold": 0.5}}', "\xff"],
    ids=range(8),
)
def test_a_damaged_draft_is_put_aside(tmp_path, content):
    state(tmp_path, "draft.json", content)
    with served(tmp_path) as client:
        told = client.get("/api/state")
        assert told["draft"]["choices"]["out"] == "maxent-results"
        assert len(told["notes"]) == 1
        client.draft(out="other")
        assert client.get("/api/state")["draft"]["choices"]["out"] == "other"


@pytest.mark.parametrize(
    "content",
    ["{", "[]", DEEP, '{"argv": []}', '{"argv": ["fit"], "out": {"type": "b"}, "started": 1}'],
    ids=range(5),
)
def test_a_damaged_job_is_put_aside(tmp_path, content):
    state(tmp_path, "jobs/3/job.json", content)
    whole = {"argv": ["fit", "x"], "out": "o", "started": 1.0}
    state(tmp_path, "jobs/2/job.json", whole)
    state(tmp_path, "jobs/2/exit", "0")
    note = {"kind": "note", "at": 1.0, "text": "fine", "more": ELEMENT}
    lines = ["{", DEEP, json.dumps({**note, "text": ELEMENT}), json.dumps(note)]
    state(tmp_path, "jobs/2/events.jsonl", "\n".join(lines) + "\n")
    with served(tmp_path) as client:
        told = client.get("/api/state")
        assert [job["number"] for job in told["jobs"]] == [2]
        assert told["jobs"][0]["events"] == [{"kind": "note", "at": 1.0, "text": "fine"}]
        assert "jobs/3 is damaged" in told["notes"][0]
        assert (tmp_path / STATE / "jobs" / "3.damaged").is_dir()


@pytest.mark.parametrize(
    "given",
    [
        {"settings": {"threshold": 0.5}},
        {"settings": {"threshold": {}}},
        {"settings": {"thin": "5"}},
        {"settings": {"multiplier": "x"}},
        {"settings": {"multiplier": True}},
        {"settings": {"folds": 2.5}},
        {"study": {"polygons": 5}},
        {"study": {"buffer": "x"}},
        {"records": {"leave_out": [3]}},
        {"layers": {"sources": "layers"}},
        {"species": [["a"]]},
        {"out": ["x"]},
    ],
    ids=str,
)
def test_what_is_of_another_kind_is_not_kept(tmp_path, given):
    with served(tmp_path) as client:
        said = client.send("/api/draft", given, "PUT", 400)["error"]
        assert "--" not in said
        assert client.get("/api/state")["draft"]["choices"] == json.loads(
            json.dumps(Draft().__dict__)
        )
    assert not (tmp_path / STATE / "draft.json").exists()


@pytest.mark.parametrize("body", [DEEP, '{"a":' * 50_000, "NaN", '{"out": NaN}', "\xff", "5", "[]"])
@pytest.mark.parametrize("path", ["/api/draft", "/api/fit", "/api/region", "/api/project"])
def test_odd_bodies_are_refused_in_words(tmp_path, path, body):
    method = "PUT" if path == "/api/draft" else "POST"
    with served(tmp_path) as client:
        status, _, content = client.ask(path, method, body.encode("latin-1"))
    assert status == 400
    assert json.loads(content)["error"]


@pytest.mark.parametrize("token", [TOKEN, "guess"])
def test_a_refusal_comes_after_the_body(tmp_path, token):
    """One in the middle of it would be lost with the connection."""
    from maxent.app.serving import guarded

    app, _ = guarded(Folders.opened([tmp_path]), TOKEN, 80)
    chunks, order = [b"a", b"b", b"c"], []

    async def receive():
        order.append("read")
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    async def send(message):
        order.append(message["type"])

    headers = {"host": "127.0.0.1:80", "x-maxent": "1", "cookie": f"maxent-token-80={token}"}
    scope = {"type": "http", "method": "PUT", "path": "/api/nothing", "query_string": b""}
    scope |= {"headers": [(k.encode(), v.encode()) for k, v in headers.items()], "root_path": ""}
    asyncio.run(app(scope, receive, send))
    assert order[:4] == ["read"] * 3 + ["http.response.start"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("map?file=map.tif&band=99", 400),
        ("map?file=map.tif&band=x", 400),
        ("map?file=map.tif&band=-1", 400),
        ("map?file=map.tif&band=9999999999999999999999", 400),
        ("map", 404),
        ("tile/0/0/0?file=map.tif&band=99", 400),
        ("why?run=run&x=nan&y=1", 400),
        ("why?run=run", 400),
        ("why?x=1&y=1", 404),
        ("map?variable=a", 404),
        ("files?folder=map.tif", 404),
        ("files?folder=" + "x" * 5000, 400),
        ("jobs/99999999999999999999999", 404),
    ],
)
def test_odd_questions_are_no_faults(folder, query, status):
    with served(folder) as client:
        told = client.get(f"/api/{query}", status)
    assert "a fault of maxent" not in told["error"]


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example/", "///evil.example", "/x%0d%0aSet-Cookie:a=b"]
)
def test_the_link_leads_to_this_server_alone(tmp_path, path):
    with served(tmp_path) as client:
        status, headers, _ = client.ask(f"{path}?token={TOKEN}", headers={"Cookie": None})
    assert status == 303
    assert headers["location"].startswith("/")
    assert headers["location"][1:2] not in ("/", "\\")
    assert set(headers["location"]).isdisjoint("\r\n")


def test_a_token_that_came_with_the_folder_is_not_ours(tmp_path, monkeypatch):
    from maxent.app import serving

    path = state(tmp_path, "server.json", {"port": 1, "token": "known-to-a-stranger"})
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: sockets[0].close())
    links = []
    serving.serve(Folders.opened([tmp_path]), browse=False, tell=links.append)
    assert "known-to-a-stranger" not in links[0]
    content = path.read_bytes()  # ours, but brought along: another file of the same content
    path.rename(path.with_name("old"))
    path.write_bytes(content)
    serving.serve(Folders.opened([tmp_path]), browse=False, tell=links.append)
    assert links[0] != links[1]


# -- uploads ---------------------------------------------------------------------------------------


def test_uploads_of_one_name_at_once(tmp_path):
    """Both are sent in halves, so that they are under way together."""

    def half(client, letter):
        line = http.client.HTTPConnection("127.0.0.1", client.port, timeout=LIMIT)
        line.putrequest("PUT", "/api/upload/records/r.csv")
        for name, value in (("Cookie", client.cookie), ("X-Maxent", "1"), ("Content-Length", "8")):
            line.putheader(name, value)
        line.endheaders()
        line.send(letter * 4)
        return line

    with served(tmp_path) as client:
        lines = {letter: half(client, letter) for letter in (b"a", b"b", b"c")}
        uploads = tmp_path / "uploads" / "records"
        until(lambda: uploads.is_dir() and len(list(uploads.glob("*"))) + len(
            list(uploads.glob(".*"))) >= 3)  # fmt: skip
        places = {}
        for letter, line in lines.items():
            line.send(letter * 4)
        for letter, line in lines.items():
            answer = line.getresponse()
            assert answer.status == 200
            places[letter] = json.loads(answer.read())["path"]
            line.close()
        assert len(set(places.values())) == 3
        for letter, place in places.items():
            assert (tmp_path / place).read_bytes() == letter * 8
        assert not list(uploads.glob(".*"))


def test_many_uploads_at_once(tmp_path):
    with served(tmp_path) as client, ThreadPoolExecutor(8) as pool:
        contents = [b"%d" % (i % 5) * 1000 for i in range(24)]
        told = list(pool.map(lambda content: client.upload("r", "r.csv", content), contents))
    for content, said in zip(contents, told, strict=True):
        assert (tmp_path / said["path"]).read_bytes() == content


# -- processes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pid", ["{pid}", "{pid}\nsome other time", "0", "-1", "1", "x" * 9])
def test_stop_ends_no_stranger(tmp_path, pid):
    """A file of a job whose process has ended, and whose number another one got."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        process.stdout.readline()
        state(tmp_path, "jobs/1/job.json", {"argv": ["fit"], "out": "o", "started": 1.0})
        state(tmp_path, "jobs/1/pid", pid.format(pid=process.pid))
        with served(tmp_path) as client:
            assert client.get("/api/jobs/1")["status"] == "lost"
            client.send("/api/jobs/1/stop")
        assert process.poll() is None
    finally:
        process.stdin.close()
        assert process.wait(timeout=LIMIT) == 0
        process.stdout.close()


def test_a_process_is_known_by_when_it_began():
    began = processes.started_at(os.getpid())
    assert began
    assert began == processes.started_at(os.getpid())
    assert processes.started_at(0) is None
    assert processes.started_at(1 << 30) is None


class FakeKernel32:
    """What Windows says of one process."""

    def __init__(self, pid, *, ended=False, told=True):
        self.pid, self.open = pid, []

        def open_process(access, inherit, number):
            assert (access, inherit) == (0x101000, False)  # query limited information, wait
            self.open += [77] if number == pid else []
            return 77 if number == pid else None

        def wait(handle, milliseconds):
            assert (handle, milliseconds) == (77, 0)
            return 0 if ended else 0x102

        def times(handle, began, left, kernel, user):
            assert handle == 77
            began._obj.dwHighDateTime, began._obj.dwLowDateTime = 0x01DC, 0xFFFFFFFF
            return told

        self.OpenProcess, self.WaitForSingleObject = open_process, wait
        self.GetProcessTimes, self.CloseHandle = times, lambda handle: self.open.remove(handle)


def test_when_a_process_began_on_windows():
    began = (0x01DC << 32) + 0xFFFFFFFF
    for process, said in (
        (FakeKernel32(8), str(began)),
        (FakeKernel32(9), None),
        (FakeKernel32(8, ended=True), None),
        (FakeKernel32(8, told=False), None),
    ):
        assert processes._began_on_windows(8, process) == said
        assert process.open == []


def test_when_a_process_began_as_ps_tells(monkeypatch):
    needs_program("ps", package="procps")
    began = processes._began_by_ps(os.getpid())
    assert re.fullmatch(r"\w{3} \w{3} +\d+ [\d:]{8} \d{4}", began)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert processes._began_by_ps(os.getpid()) == began
    assert processes._began_by_ps(1 << 22) is None


def test_where_no_start_is_told_nothing_is_ended(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(jobs, "started_at", lambda pid: None)
    monkeypatch.setattr(jobs, "interrupt", ended.append)
    waits = "import time; time.sleep(3600)"
    popen = subprocess.Popen
    started = []

    def start(words, **how):
        started.append(popen([sys.executable, "-c", waits], **how))
        return started[0]

    monkeypatch.setattr(jobs.subprocess, "Popen", start)
    try:
        job = jobs.Jobs(Folders([tmp_path])).start(["fit"], "out")
        monkeypatch.setattr(jobs.subprocess, "Popen", popen)
        job.stop()
        assert ended == []
        story = job.story()
        assert story["status"] == "failed"
        assert f"process {started[0].pid} cannot be told" in story["error"]
        assert "Stop ends nothing" in story["error"]
        (job.folder / "exit").write_text("0\n")
        assert (job.status, job.error()) == ("done", "")
    finally:
        started[0].kill()
        started[0].wait()


@pytest.mark.skipif(os.name != "posix", reason="pipes are inherited on POSIX systems")
def test_a_command_ends_with_its_runner(tmp_path):
    """However the runner ends: it is killed, and nobody is left to tell the command."""
    folder = tmp_path / "job"
    folder.mkdir()
    waiting = tmp_path / "waiting.py"
    waiting.write_text(
        "import os, signal, sys, time\n"
        "from maxent import _command\n"
        "import maxent.cli.command as app\n"
        f"app.main = lambda: (open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())), "
        "time.sleep(3600))\n"
        "_command.run()\n"
    )
    code = (
        "import sys, subprocess, pathlib\n"
        "from maxent.app import runner\n"
        "real = subprocess.Popen\n"
        f"def started(words, **how): return real([sys.executable, {str(waiting)!r}], **how)\n"
        "subprocess.Popen = started\n"
        f"runner.run(pathlib.Path({str(folder)!r}))\n"
    )
    (folder / "job.json").write_text(json.dumps({"argv": ["fit"], "home": str(tmp_path)}))
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    held = tmp_path / "pid"
    until(lambda: held.exists() and held.read_text())
    command = int(held.read_text())
    assert processes.started_at(command)
    process.kill()
    process.wait(timeout=LIMIT)
    until(lambda: processes.started_at(command) is None)


# -- words -----------------------------------------------------------------------------------------


def test_settings_have_the_names_of_the_page():
    """Every option that the page has a field for is called by its label there."""
    pages = sorted((Path(__file__).parents[2] / "web" / "src").glob("*.ts*"))
    if not pages:
        pytest.skip("the sources of the page are not in an installed package")
    source = " ".join(" ".join(page.read_text().split()) for page in pages)
    generated = {name.replace("_", " ") for name in options_of(Settings)}
    for flag, label in _labels().items():
        assert label in generated or label in source, (flag, label)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("give it with crs= (--crs)", "give it with “Coordinate reference system”"),
        ("with x= and y= (--x, --y)", "with “Column of longitude or x”, “Column of latitude or y”"),
        ("use --buffer or --hull", "use “Buffer in km” or “convex hull of the records”"),
        ("multiplier must be a positive number", "Smoothness must be a positive number"),
        ("draw fewer (--background 1000)", "draw fewer (“How many cells”: 1000)"),
        ("see --output raw, of `maxent fit --clean`", "see “outputs” raw, of `maxent fit --clean`"),
        ("use --max-cells 12", "use the option --max-cells 12 of the command"),
    ],
)
def test_messages_speak_of_fields(said, shown):
    assert for_page(said) == shown


def test_a_failed_fit_speaks_of_fields(tmp_path):
    state(tmp_path, "jobs/1/job.json", {"argv": ["fit"], "out": "o", "started": 1.0})
    state(tmp_path, "jobs/1/exit", "1")
    state(tmp_path, "jobs/1/errors.txt", "error: there are none; hold some out (--test-share)\n")
    with served(tmp_path) as client:
        assert client.get("/api/jobs/1")["error"].endswith("(“test share”)")
