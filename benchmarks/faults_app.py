"""The campaign against the app: odd requests, strangers' folders, files that point elsewhere.

    python -m benchmarks.faults --part app                      for results/faults_app.csv and docs
    python -m benchmarks.faults --part app --replay folders:17  one case again, with what it did

A case is a function of its seed and returns the harm it saw: "faults" (an error of the program, no
answer, or a page that no longer begins), "outside" (bytes of a file outside the opened folder in an
answer, or a change there), "asked" (a request to a server), "ran" (a script with rights, or an
object where the page shows a text) and "mixed" (one upload or fit in the place of another). The
server is that of `maxent app`, on the loopback address; files that would ask a server name one of
this process, which notes who asks.
"""

from __future__ import annotations

import csv
import http.client
import http.server
import json
import os
import random
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from benchmarks.report import RESULTS

CSV = RESULTS / "faults_app.csv"
START, END = "<!-- faults of the app: start -->", "<!-- faults of the app: end -->"
HARMS = ("faults", "outside", "asked", "ran", "mixed")
TOKEN = "token-of-the-campaign"
SECRET = b"a-secret-of-the-user"
VALUE = 7717.125  # of the cells of a raster outside
ELEMENT = {"type": "script", "props": {"src": "/results/run/x.js"}, "key": None, "__k": None}
_PATIENCE = 120.0  # seconds for an answer


@dataclass(frozen=True)
class Kind:
    """Cases of one kind, as in ``benchmarks.faults``."""

    case: Callable[[int], Counter[str]]
    number: int
    what: str
    promise: str


# -- a server, a folder beside it, and someone who could be asked ----------------------------------


class Client:
    """Asks as the page does."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.headers = {"Cookie": f"maxent-token-{port}={TOKEN}", "X-Maxent": "1"}

    def ask(
        self, method: str, path: str, body: bytes | None = None, **more: str
    ) -> tuple[int, dict[str, str], bytes]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            line.request(method, path, body, self.headers | more)
            answer = line.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            line.close()

    def raw(self, request: bytes) -> bytes:
        """The first of the answer to bytes that no client would send, b"" where there is none."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as line:
            line.sendall(request)
            return line.recv(1 << 16)

    def json(self, path: str) -> Any:
        return json.loads(self.ask("GET", path)[2])


@contextmanager
def served(folder: Path) -> Iterator[Client]:
    """The server of `maxent app` for a folder, in a thread."""
    from maxent.app.folders import Folders
    from maxent.app.serving import served_in_a_thread

    opened = Folders.opened([folder])
    with served_in_a_thread(opened, TOKEN, upload_limit=1 << 20) as port:
        yield Client(port)


@cache
def someone() -> tuple[str, list[str]]:
    """The address of a server of this process, and what it was asked."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        do_HEAD = do_POST = do_GET

        def log_message(self, *words: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}", seen


@contextmanager
def beside() -> Iterator[tuple[Path, Path]]:
    """A folder to open with a fitted species in it, and one beside it with secrets."""
    with tempfile.TemporaryDirectory(prefix="maxent-app-faults-") as name:
        inside, outside = Path(name) / "inside", Path(name) / "outside"
        shutil.copytree(_study(), inside)
        outside.mkdir()
        (outside / "secret.csv").write_bytes(b"species,x,y\n" + SECRET + b",1,2\n")
        (outside / "secret.txt").write_bytes(SECRET * 50)
        _raster(outside / "secret.tif", VALUE)
        yield inside, outside


@cache
def _study() -> Path:
    """Records, layers and the results of a fit, once for all cases."""
    from benchmarks.faults import _landscape

    folder = Path(tempfile.mkdtemp(prefix="maxent-app-study-"))
    shutil.copytree(_landscape(), folder, dirs_exist_ok=True)
    (folder / "fitted").rename(folder / "run")
    return folder


def _raster(path: Path, value: float, **more: Any) -> None:
    import rasterio

    profile = {"driver": "GTiff", "width": 8, "height": 8, "count": 1, "dtype": "float32"}
    profile |= {"crs": "EPSG:4326", "transform": rasterio.transform.from_origin(0, 8, 1, 1)}
    with rasterio.open(path, "w", **(profile | more)) as file:
        file.write(np.full((8, 8), value, np.float32), 1)


def _contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def harm_of(answer: tuple[int, dict[str, str], bytes], path: str) -> Counter[str]:
    """What an answer alone shows."""
    status, headers, content = answer
    harm: Counter[str] = Counter()
    harm["faults"] += status >= 500 or b"a fault of maxent" in content
    numbers = np.frombuffer(content[: len(content) // 4 * 4], "<f4")
    secret = SECRET in content or b"7717.1" in content or bool((numbers == VALUE).any())
    harm["outside"] += secret or b"root:x:0:0" in content
    policy = headers.get("content-security-policy", "")
    if path.startswith("/results/"):
        inline = "unsafe-inline" in policy.partition("script-src")[2]
        harm["ran"] += status == 200 and (not policy.startswith("sandbox") or inline)
    else:
        harm["ran"] += "'unsafe-inline'" in policy.partition("script-src")[2].partition(";")[0]
    if headers.get("content-type", "").startswith("application/json"):
        harm["ran"] += b'"props"' in content
    place = headers.get("location", "/")
    harm["outside"] += not place.startswith("/") or place[1:2] in ("/", "\\")
    return harm


def _begins(client: Client) -> Counter[str]:
    """Whether the page still begins."""
    answer = client.ask("GET", "/api/state")
    return harm_of(answer, "/api/state") + Counter(faults=int(answer[0] != 200))


# -- requests --------------------------------------------------------------------------------------

GETS = (
    *("/", "/api/state", "/api/files?folder={text}&kind={text}", "/api/records", "/api/layers"),
    *(
        "/api/jobs/{number}",
        "/api/result?run={run}&of={text}",
        "/api/map?file={file}&band={number}",
    ),
    *("/api/map?run={run}&of={text}&variable={name}", "/api/why?run={run}&of={of}&x={number}"),
    *("/api/why?run={run}&of={of}&x={number}&y={number}", "/results/{file}", "/static/{text}"),
    *("/api/tile/{number}/{number}/{number}?file={file}&band={number}", "/{text}?token={token}"),
    *("/api/tile/0/0/{number}?run={run}&variable={name}", "/api/events/{text}", "/{text}"),
)
SENDS = (
    *(("PUT", "/api/draft"), ("PUT", "/api/draft"), ("PUT", "/api/draft"), ("POST", "/api/region")),
    *(("POST", "/api/fit"), ("POST", "/api/project"), ("POST", "/api/change")),
    *(("POST", "/api/jobs/{number}/stop"), ("PUT", "/api/upload/{text}/{upload}")),
)
TEXTS = (
    *("", ".", "..", "run", "layers", "../outside", "/etc/passwd", "//evil.example/", "\\\\evil"),
    *("x\0y", "\r\nSet-Cookie: a=b", "%0d%0a", "a" * 3000, "é", "\ud7ff", "-o", "--overwrite"),
    *("<img src=x onerror=alert(1)>", "{}", "link/secret.tif", "/proc/self/environ", "CON"),
    *("/dev/stdin", ".maxent-app/draft.json", "http://{someone}/", "/vsicurl/http://{someone}/x"),
)
NUMBERS = (
    *("0", "1", "-1", "99", "1e9", "nan", "inf", "x", "", "1" * 400, "0x1", " 1", "1.5", "٣"),
    *("9223372036854775808", "-0"),
)
FILES = (
    *("run/maps/cloglog.tif", "layers/temperature.tif", "run/report.html", "run/result.json"),
    *("occurrences.csv", "link/secret.tif", "link.tif", "../outside/secret.tif", "run/model.json"),
)
UPLOADS = ("a.csv", "a.tif", "..csv", "../a.csv", "a.csv\0", "a.py", "a\r\n.csv", "é.csv", ".csv")
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, 10**30, "", "x", "/etc/passwd", "../outside/secret.csv"),
    *([], ["x"], [5], [[]], {}, {"a": 1}, ELEMENT, "a=/etc/passwd", ["a=../outside/secret.tif"]),
    *("http://{someone}/crs", "\0", "\r\n", "-", "--help", ["--help"], "a" * 5000, [None] * 50),
)
BODIES = (
    *(b"", b"{", b"[]", b"null", b"5", b'"x"', b"NaN", b'{"out": NaN}', b"\xff\xfe", b"[" * 50_000),
    *(
        b'{"a":' * 50_000,
        b'{"out": "\\ud800"}',
        b'{"out": "a", "out": 5}',
        b"{}" * 3,
        b" " * 70_000,
    ),
)


def _text(draw: random.Random) -> str:
    return draw.choice(TEXTS).replace("{someone}", someone()[0].removeprefix("http://"))


def _address(draw: random.Random, pattern: str) -> str:
    kinds: dict[str, Callable[[], str]] = {
        "{text}": lambda: _text(draw),
        "{number}": lambda: draw.choice(NUMBERS),
        "{file}": lambda: draw.choice([*FILES, _text(draw)]),
        "{run}": lambda: draw.choice(["run", "run", ".", _text(draw)]),
        "{of}": lambda: draw.choice(["", "training layers", _text(draw)]),
        "{name}": lambda: draw.choice(["temperature", "biome", _text(draw)]),
        "{upload}": lambda: draw.choice(UPLOADS),
        "{token}": lambda: draw.choice([TOKEN, "guess", ""]),
    }
    for mark, value in kinds.items():
        while mark in pattern:
            said = value()
            shown = quote(said.encode("utf-8", "surrogatepass"), safe=draw.choice(["", "/"]))
            pattern = pattern.replace(mark, shown, 1)
    return pattern


def _body(draw: random.Random) -> bytes:
    """A body: bytes that are none, or a draft with a field of any kind in any place."""
    from dataclasses import fields

    from maxent.app.draft import _PARTS, Draft

    if draw.random() < 0.2:
        return draw.choice(BODIES)
    odd = draw.choice(ODD)
    odd = odd.replace("{someone}", someone()[0][7:]) if isinstance(odd, str) else odd
    names = [f.name for f in fields(Draft)]
    names += ["rings", "crs", "resume", "run", "layers", "future", "threshold", "name", "other"]
    made: dict[str, Any] = {}
    for name in draw.sample(names, draw.choice([1, 1, 2, 4])):
        if name in _PARTS and draw.random() < 0.8:
            inner = [f.name for f in fields(_PARTS[name])]
            made[name] = dict.fromkeys(draw.sample(inner, 1), odd)
        else:
            made[name] = draw.choice([odd, "run", [[[0, 0], [1, 0], [0, 1]]], 0.5])
    return json.dumps(made).encode()


class _Standing:
    """One server for many requests: starting one costs more than asking it."""

    def __init__(self) -> None:
        self._folders = beside()
        self.inside, self.outside = self._folders.__enter__()
        (self.inside / "link").symlink_to(self.outside)
        (self.inside / "link.tif").symlink_to(self.outside / "secret.tif")
        self._server = served(self.inside)
        self.client = self._server.__enter__()
        self.before = _contents(self.outside)

    def close(self) -> None:
        self._server.__exit__(None, None, None)
        self._folders.__exit__(None, None, None)


_standing: list[_Standing] = []


def requests(seed: int) -> Counter[str]:
    """One request, and whether the page still begins after it."""
    if not _standing:
        _standing.append(_Standing())
    held, draw = _standing[0], random.Random(seed)
    client, before = held.client, len(someone()[1])
    started = _without_fits()
    more: dict[str, str] = {}
    if draw.random() < 0.1:
        name = draw.choice(["Host", "Origin", "Cookie", "Sec-Fetch-Site"])
        more[name] = draw.choice(["evil.example", "null", "", "x" * 5000, "-1", "cross-site"])
    harm: Counter[str] = Counter()
    method = path = ""
    try:
        if draw.random() < 0.05:
            method, path = draw.choice(["GET", "PUT", "é", "G\0T", ""]), f"/{_text(draw)}"
            lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{client.port}"]
            lines.append(f"Cookie: {client.headers['Cookie']}")
            if draw.random() < 0.5:  # a length that is none, or that is another one
                lines.append(f"Content-Length: {draw.choice(['null', '-1', '', 'x' * 5000, '0'])}")
            request = "\r\n".join([*lines, "Connection: close", "", ""])
            told = client.raw(request.encode("utf-8", "surrogatepass"))
            harm["faults"] += not told.startswith(b"HTTP/1.1 ") or told[9:10] == b"5"
            answer = 200, {}, told
        elif draw.random() < 0.45:
            path = _address(draw, draw.choice(GETS))
            method = draw.choice(["GET"] * 8 + ["HEAD", "DELETE"])
            answer = client.ask(method, path, None, **more)
        else:
            method, pattern = draw.choice(SENDS)
            path = _address(draw, pattern)
            answer = client.ask(method, path, _body(draw), **more)
        harm += harm_of(answer, path)
    except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
        harm["faults"] += 1
        harm[f"said {type(error).__name__} for {method} {path[:200]}"] = 0
    finally:
        commands = started()
    harm["outside"] += any(_leads_out(words, held) for words in commands)
    if seed % 10 == 0:
        harm += _begins(client)
        harm["outside"] += _contents(held.outside) != held.before
    harm["asked"] += len(someone()[1]) != before
    return harm


def _leads_out(words: list[str], held: _Standing) -> bool:
    """Whether a command that would have been started names a file outside."""
    found = [word.rpartition("=")[2] for word in words]
    real = [os.path.realpath(held.inside / word) for word in found if "/" in word]
    return any(not path.startswith(str(held.inside)) for path in real)


def _without_fits() -> Callable[[], list[list[str]]]:
    """Keep commands from being started; the function returned says which would have been."""
    from maxent.app.jobs import Jobs

    asked: list[list[str]] = []
    real = Jobs.start

    def start(self: Any, argv: Any, out: str, draft: Any = None) -> Any:
        asked.append(list(argv))
        raise ValueError("not in this campaign")

    Jobs.start = start  # type: ignore[method-assign]

    def over() -> list[list[str]]:
        Jobs.start = real  # type: ignore[method-assign]
        return asked

    return over


# -- strangers' folders ----------------------------------------------------------------------------


def _spoiled(value: Any, draw: random.Random) -> Any:
    """JSON with something else in one place of it."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice(list(value))
        return {**value, name: _spoiled(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at = draw.randrange(len(value))
        return [*value[:at], _spoiled(value[at], draw), *value[at + 1 :]]
    return draw.choice([ELEMENT, [ELEMENT], {"type": "img", "props": {}}, 5, None, "x", [], 1e308])


def folders(seed: int) -> Counter[str]:
    """A folder of results with something else in its files, looked at as the page does."""
    draw = random.Random(seed)
    harm: Counter[str] = Counter()
    with beside() as (inside, outside):
        run, state = inside / "run", inside / ".maxent-app"
        before, asked = _contents(outside), len(someone()[1])
        for name in ("summary.json", "result.json", "model.json"):
            path = run / name
            if draw.random() < 0.6:
                spoiled = _spoiled(json.loads(path.read_text()), draw)
                path.write_text(json.dumps(spoiled))
        if draw.random() < 0.3:
            damaged = draw.choice([*run.rglob("*.*")])
            damaged.write_bytes(draw.choice(BODIES))
        for name in ("x.js", "x.svg", "x.html", "x.xhtml", "x.xml"):
            (run / name).write_text("<script>document.title = 'ran'</script>")
        state.mkdir()
        pid = draw.choice([f"{os.getpid()}", "0", "1", "-1", "x", f"{os.getpid()}\n1"])
        job = {"argv": ["project", "m", "../outside"], "out": "o", "started": 1.0, "home": "/"}
        files: dict[str, Any] = {
            "draft.json": {"records": {"path": str(outside / "secret.csv")}, "out": "x"},
            "server.json": {"port": 1, "token": TOKEN},
            "jobs/1/job.json": job,
            "jobs/1/events.jsonl": {"kind": "note", "at": 1.0, "text": "fine"},
        }
        for name, content in files.items():
            (state / name).parent.mkdir(parents=True, exist_ok=True)
            odd = _spoiled(content, draw) if draw.random() < 0.7 else content
            text = json.dumps(odd).encode() if draw.random() < 0.8 else draw.choice(BODIES)
            (state / name).write_bytes(text + b"\n")
        (state / "jobs" / "1" / "pid").write_text(pid)
        (run / "link").symlink_to(outside)
        with served(inside) as client:
            harm += _begins(client)
            paths = ["/api/result?run=run", "/api/records", "/api/layers", "/api/jobs/1"]
            paths += ["/api/why?run=run&x=0.5&y=0.5", "/api/map?file=run/maps/cloglog.tif"]
            paths += ["/api/map?run=run&variable=temperature", "/results/run/link/secret.txt"]
            paths += ["/api/tile/0/0/0?file=run/maps/cloglog.tif", "/api/files?folder=run/link"]
            paths += [f"/results/run/x.{kind}" for kind in ("js", "svg", "html", "xhtml", "xml")]
            paths += ["/results/run/report.html", "/results/run/summary.json"]
            for path in paths:
                try:
                    answer = client.ask("GET", path)
                except (ConnectionError, http.client.HTTPException, TimeoutError):
                    harm["faults"] += 1
                    continue
                harm += harm_of(answer, path)
            harm["faults"] += client.ask("POST", "/api/jobs/1/stop", b"{}")[0] >= 500
            harm += _begins(client)
        harm["outside"] += _contents(outside) != before
        harm["asked"] += len(someone()[1]) != asked
    return harm


# -- files that point elsewhere --------------------------------------------------------------------

_VRT = """<VRTDataset rasterXSize="8" rasterYSize="8"><SRS>EPSG:4326</SRS>
<GeoTransform>0,1,0,8,0,-1</GeoTransform><VRTRasterBand dataType="Float32" band="1"{more}>
{source}</VRTRasterBand></VRTDataset>"""
_RAW = "<SourceFilename>{0}</SourceFilename><ImageOffset>0</ImageOffset>"
_RAW += "<PixelOffset>4</PixelOffset><LineOffset>32</LineOffset>"
_WMS = """<GDAL_WMS><Service name="TMS"><ServerUrl>{0}/${{z}}/${{x}}/${{y}}.png</ServerUrl>
</Service><DataWindow><UpperLeftX>0</UpperLeftX><UpperLeftY>8</UpperLeftY><LowerRightX>8</LowerRightX>
<LowerRightY>0</LowerRightY><TileLevel>1</TileLevel><YOrigin>top</YOrigin></DataWindow>
<Projection>EPSG:4326</Projection><BandsCount>1</BandsCount></GDAL_WMS>"""
_OGR = """<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>{0}</SrcDataSource>
</OGRVRTLayer></OGRVRTDataSource>"""


def _mosaic(source: str) -> str:
    inner = f"<SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand>"
    return _VRT.format(more="", source=f"<SimpleSource>{inner}</SimpleSource>")


def _pointers(inside: Path, outside: Path, address: str) -> list[tuple[str, Any]]:
    """What is put into the folder, and the choices that lead to it; one after the other."""
    secret, layers = outside / "secret.tif", inside / "elsewhere"
    tag = '<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">{0}</MDI></Metadata>'
    tag += "</PAMDataset>"
    link = {"type": "link", "properties": {"href": f"{address}/crs", "url": f"{address}/crs"}}
    feature = {"type": "Feature", "properties": {}, "geometry": None}
    crs = json.dumps({"type": "FeatureCollection", "crs": link, "features": [feature]})
    raw = _VRT.format(
        more=' subClass="VRTRawRasterBand"', source=_RAW.format(outside / "secret.txt")
    )
    rasters = {"layers": {"sources": ["elsewhere"]}}
    table = {"records": {"path": "elsewhere/r{0}"}}
    region = {"study": {"polygons": "elsewhere/r{0}"}, "records": {"path": "occurrences.csv"}}
    region["layers"] = {"sources": ["layers"]}
    ways: list[tuple[str, Any]] = []
    for name in ("a.vrt", "a.tif", "a.asc", "a.nc"):
        ways.append((f"{name}: {_mosaic(str(secret))}", rasters))
    for name in ("a.vrt", "a.tif"):
        ways += [(f"{name}: {raw}", rasters)]
        ways += [(f"{name}: {_mosaic(f'/vsicurl/{address}/x.tif')}", rasters)]
    ways += [(f"a.tif: {_mosaic(f'/vsizip//vsicurl/{address}/x.zip/x.tif')}", rasters)]
    ways += [
        (f"a.tif: {_WMS.format(address)}", rasters),
        (f"a.img: {_WMS.format(address)}", rasters),
    ]
    for name in ("b.tif.ovr", "b.tif.msk"):
        ways.append((f"{name}: {_mosaic(str(secret))}", rasters))
    ways.append((f"b.tif.aux.xml: {tag.format(secret)}", rasters))
    ways += [(f"link {name}: {secret}", rasters) for name in ("a.tif", "b.tif.ovr", "b.prj")]
    for suffix in (".json", ".geojson", ".gpkg", ".shp"):
        source = f"/vsicurl/{address}/x.geojson"
        ways.append((f"r{suffix}: {_OGR.format(source)}", _filled(table, suffix)))
    ways.append((f"r.geojson: {_OGR.format(outside / 'secret.csv')}", _filled(table, ".geojson")))
    ways.append((f"r.geojson: {crs}", _filled(table, ".geojson")))
    ways.append((f"r.geojson: {crs}", _filled(region, ".geojson")))
    ways.append((f"r.gpkg: {_OGR.format(outside / 'secret.csv')}", _filled(region, ".gpkg")))
    ways.append((f"link r.csv: {outside / 'secret.csv'}", _filled(table, ".csv")))
    for text in (f"{address}/crs", str(outside / "secret.txt")):
        ways.append(("", {"layers": {"sources": ["layers"], "crs": text}}))
        ways.append(("", {"records": {"path": "occurrences.csv", "crs": text}}))
    ways.append((f"t.csv: name,file\na,{secret}\n", {"layers": {"layer": ["elsewhere/t.csv"]}}))
    ways.append(("", {"layers": {"layer": [f"a={secret}"], "sources": ["layers"]}}))
    assert layers.is_dir()
    return ways


def _filled(choices: Any, suffix: str) -> Any:
    return json.loads(json.dumps(choices).replace("{0}", suffix))


def pointers(seed: int) -> Counter[str]:
    """A file that leads elsewhere, chosen on the page, drawn, and given to the command."""
    from benchmarks.faults import _command

    harm: Counter[str] = Counter()
    address, seen = someone()
    asked = len(seen)
    with beside() as (inside, outside):
        (inside / "elsewhere").mkdir()
        _raster(inside / "elsewhere" / "b.tif", 1.0)
        ways = _pointers(inside, outside, address)
        what, choices = ways[seed % len(ways)]
        name, _, content = what.partition(": ")
        if name.startswith("link "):
            (inside / "elsewhere" / name[5:]).symlink_to(content)
        elif name:
            (inside / "elsewhere" / name).write_text(content)
        file = f"elsewhere/{name.removeprefix('link ')}"
        before = _contents(outside)
        with served(inside) as client:
            body = json.dumps(choices).encode()
            harm += harm_of(client.ask("PUT", "/api/draft", body), "/api/draft")
            for path in (
                *(
                    "/api/layers",
                    "/api/records",
                    f"/api/map?file={file}",
                    "/api/map?file=elsewhere/b.tif",
                ),
                *(f"/api/tile/0/0/0?file={file}", "/api/tile/0/0/0?file=elsewhere/b.tif"),
            ):
                harm += harm_of(client.ask("GET", path), path)
            harm += _begins(client)
        if name and not name.startswith("link "):  # links of one's own are one's own on a terminal
            _, said = _command("check", str(inside / "occurrences.csv"), str(inside / "elsewhere"))
            harm["outside"] += SECRET.decode() in said or "7717" in said
            harm["faults"] += "a fault of maxent" in said
        harm["outside"] += _contents(outside) != before
    harm["asked"] += len(seen) != asked
    return harm


# -- many at once ----------------------------------------------------------------------------------


def uploads(seed: int) -> Counter[str]:
    """Files of one name from several pages at once: each is told where its own bytes are."""
    draw = random.Random(seed)
    harm: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as client:
        contents = [draw.randbytes(draw.choice([0, 10, 1000, 200_000])) for _ in range(6)]
        sent = [draw.choice(contents) for _ in range(16)]

        def send(content: bytes) -> tuple[int, bytes]:
            status, _, told = client.ask("PUT", "/api/upload/records/r.csv", content)
            return status, told

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, sent))
        for content, (status, told) in zip(sent, answers, strict=True):
            harm["faults"] += status != 200
            if status == 200:
                harm["mixed"] += (Path(name) / json.loads(told)["path"]).read_bytes() != content
        harm["mixed"] += len(list(Path(name).rglob(".*.part")))
    return harm


def fits(seed: int) -> Counter[str]:
    """Several pages begin a fit at once: one runs, the others are told so; Stop ends that one."""
    harm: Counter[str] = Counter()
    with beside() as (inside, _), served(inside) as client:
        choices = {"records": {"path": "occurrences.csv"}, "out": "new"}
        choices |= {"layers": {"sources": ["layers"], "categorical": ["biome"]}}
        client.ask("PUT", "/api/draft", json.dumps(choices).encode())
        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(lambda _: client.ask("POST", "/api/fit", b"{}"), range(4)))
        statuses = sorted(status for status, _, _ in told)
        harm["mixed"] += statuses != [200, 409, 409, 409]
        jobs = client.json("/api/state")["jobs"]
        harm["mixed"] += len(jobs) != 1
        for job in jobs:
            end = time.monotonic() + 10 * _PATIENCE
            while client.json(f"/api/jobs/{job['number']}")["status"] == "running":
                client.ask("POST", f"/api/jobs/{job['number']}/stop", b"{}")
                time.sleep(0.2)
                harm["mixed"] += time.monotonic() > end
                if time.monotonic() > end:
                    break
        harm["mixed"] += bool(list(inside.glob(".new*.partial")))
        harm += _begins(client)
    return harm


KINDS = {
    "requests": Kind(
        requests,
        5200,
        "mutated requests to every address",
        "an answer in words; the page still begins; nothing outside is touched",
    ),
    "folders": Kind(
        folders, 50, "crafted folders of results", "shown or refused; nothing of them is run"
    ),
    "pointers": Kind(
        pointers,
        32,
        "rasters, tables and CRS that point elsewhere",
        "nothing outside is read, nobody is asked",
    ),
    "uploads": Kind(uploads, 40, "uploads of one name at once", "each has its own bytes, whole"),
    "fits": Kind(fits, 6, "fits begun at once, and stopped", "one runs, one ends, none is lost"),
}


# -- the campaign ----------------------------------------------------------------------------------


def replay(name: str, seed: int) -> Counter[str]:
    """The harm of one case; an exception counts as a fault."""
    return KINDS[name].case(seed)


def run(names: list[str], share: float, first: int) -> dict[str, Counter[str]]:
    """All cases of some kinds."""
    tally: dict[str, Counter[str]] = {}
    for name in names:
        counted = tally[name] = Counter()
        for seed in range(first, first + max(1, round(share * KINDS[name].number))):
            try:
                harm = replay(name, seed)
            except Exception as error:
                harm = Counter({"faults": 1, f"said {type(error).__name__}: {error}": 0})
            counted["cases"] += 1
            if any(harm[column] for column in HARMS):
                print(f"harm: {name}:{seed}: {dict(harm)}", flush=True)
            counted.update({column: int(bool(harm[column])) for column in HARMS})
        print(f"{KINDS[name].what:<46}{counted['cases']:>6} cases", dict(counted), flush=True)
    while _standing:
        _standing.pop().close()
    return tally


def write(tally: dict[str, Counter[str]]) -> None:
    """The results, among those of kinds that were not run."""
    known = {row["kind"]: row for row in rows()}
    for name, counted in tally.items():
        kind = KINDS[name]
        known[name] = {"kind": name, "what": kind.what, "cases": str(counted["cases"])}
        known[name] |= {"promise": kind.promise}
        known[name] |= {column: str(counted[column]) for column in HARMS}
    with CSV.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["kind", "what", "cases", "promise", *HARMS])
        writer.writeheader()
        writer.writerows(known[name] for name in KINDS if name in known)


def rows() -> list[dict[str, str]]:
    """The tracked results."""
    if not CSV.exists():
        return []
    with CSV.open() as file:
        return list(csv.DictReader(file))


def table() -> str:
    """The table of the docs."""
    head = ["what is done", "cases", "what must hold", "errors", "outside", "asked", "run", "mixed"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows():
        cells = [row["what"], row["cases"], row["promise"], *(row[column] for column in HARMS)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
