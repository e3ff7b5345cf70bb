"""The app in headless Chromium: how soon it is there, how it pans, how soon it says why.

    python -m benchmarks.app            for the csv in results; needs chromium and playwright

A usable page is one whose first button can be pressed, from the start of the command; the first
start of a machine also reads the programs from the disk, so the median is of five. Frames are
counted by the page itself while a map of 2000 x 2000 cells is dragged for three seconds. Answers
are clicks, timed by the page from the click to the table.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.report import Row, missing
from benchmarks.timing import median

SUITE, OURS = "app", "maxent app"
STARTS, CLICKS, SECONDS = 5, 20, 3.0
SIDE = 2000  # cells along a map
LARGE = (20_000, 10_000)  # 200 million cells
QUICK = ["--no-jackknife", "--bootstrap", "0", "--permutations", "0", "--cv", "none", "-f", "lqph"]

_FRAMES = """seconds => new Promise(done => {
  let n = 0; const start = performance.now();
  const tick = now => { n++; now - start < 1000 * seconds ? requestAnimationFrame(tick)
    : done(1000 * n / (now - start)); };
  requestAnimationFrame(tick);
})"""


def run(quick: bool = False) -> list[Row]:
    """All four measures."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        return [missing(SUITE, "a page", OURS, str(error))]
    browser_path = shutil.which("chromium")
    if browser_path is None:
        return [missing(SUITE, "a page", OURS, "chromium is not installed")]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        side = 400 if quick else SIDE
        write_study(folder, side)
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        rows = [usable(folder, browser, 2 if quick else STARTS)]
        rows += asked_and_panned(folder, browser, side, 3 if quick else CLICKS)
        rows.append(memory(folder, (2_000, 1_000) if quick else LARGE))
        browser.close()
    return rows


def write_study(folder: Path, side: int) -> None:
    """Six layers of side x side cells, records, and a fit of them."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    layers = {f"bio{k}": np.sin((k + 2) * x + k) + np.cos(k * y) for k in range(1, 7)}
    (folder / "layers").mkdir()
    for name, values in layers.items():
        write_raster(folder / "layers" / f"{name}.tif", values.astype(np.float32))
    rows, columns = rng.integers(side, size=(2, 3000))
    likely = np.exp(2 * layers["bio1"] - layers["bio2"] ** 2)[rows, columns]
    kept = rng.uniform(size=3000) < likely / likely.max()
    lines = ["species,x,y"]
    places = zip(rows[kept], columns[kept], strict=True)
    lines += [f"Aa bb,{c + 0.5},{side - r - 0.5}" for r, c in places]
    (folder / "records.csv").write_text("\n".join(lines) + "\n")
    words = ["fit", "records.csv", "layers", "--crs", "EPSG:6933", *QUICK, "-q", "-o", "results"]
    subprocess.run([sys.executable, "-m", "maxent.cli", *words], cwd=folder, check=True)


def write_raster(path: Path, values: Any) -> None:
    import rasterio

    height, width = values.shape
    profile = {"driver": "GTiff", "height": height, "width": width, "count": 1, "tiled": True}
    place = rasterio.transform.from_origin(0, height, 1, 1)
    with rasterio.open(
        path, "w", dtype="float32", crs="EPSG:6933", transform=place, **profile
    ) as raster:
        raster.write(values, 1)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str], float]]:
    """The link of a running `maxent app`, its process, and when it was started."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "maxent.cli", "app", "--no-browse"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http\S+", process.stdout.readline())
        assert found is not None
        yield found[0], process, start
    finally:
        process.terminate()
        process.wait(timeout=30)


def usable(folder: Path, browser: Any, starts: int) -> Row:
    times = []
    for _ in range(starts):
        with server(folder) as (link, _, start):
            page = browser.new_page()
            page.goto(link)
            page.get_by_role("button", name="Choose a file of records").wait_for()
            times.append(time.perf_counter() - start)
            page.close()
    return judged("from the command to a usable page", median(times), 3.0, "s", starts)


def asked_and_panned(folder: Path, browser: Any, side: int, clicks: int) -> list[Row]:
    with server(folder) as (link, _, _):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(link)
        page.goto(f"{link.partition('?')[0]}#result=results")
        page.locator(".map canvas").first.wait_for()
        page.wait_for_timeout(2000)
        box = page.locator(".map").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for _ in range(4):  # to about one cell per pixel, where tiles keep coming
            page.locator(".leaflet-control-zoom-in").click()
            page.wait_for_timeout(400)
        page.mouse.move(*middle)
        page.mouse.down()
        page.evaluate(f"window.frames_ = ({_FRAMES})({SECONDS})")
        end = time.perf_counter() + SECONDS
        step = 0
        while time.perf_counter() < end:
            step += 1
            across = 200 * np.sin(step / 15)
            page.mouse.move(middle[0] + across, middle[1] + across / 2)
        frames = float(page.evaluate("window.frames_"))
        page.mouse.up()
        page.wait_for_timeout(1000)  # it glides to a stop
        rng = np.random.default_rng(1)
        times = []
        for _ in range(clicks):
            at = rng.uniform(-0.25, 0.25, 2) * (box["width"], box["height"])
            with page.expect_response(lambda answer: "/api/why" in answer.url) as told:
                page.mouse.click(middle[0] + at[0], middle[1] + at[1])
            told.value.finished()
            page.wait_for_timeout(600)  # two clicks would be a double click
            timing = told.value.request.timing
            times.append(timing["responseEnd"] / 1000)
        page.close()
    return [
        judged(f"panning a map of {side} x {side} cells", 1 / frames, 1 / 30, "frames", 1),
        judged(
            f"an answer to a click, {side} x {side} cells, 6 layers",
            median(times),
            0.1,
            "s",
            clicks,
        ),
    ]


def memory(folder: Path, shape: tuple[int, int]) -> Row:
    """The most that the server holds while tiles of all zooms of a large raster are asked for."""
    import http.cookiejar
    import json
    import urllib.request

    import rasterio

    width, height = shape
    path = folder / "large.tif"
    profile = {"driver": "GTiff", "height": height, "width": width, "count": 1, "tiled": True}
    profile |= {"blockxsize": 512, "blockysize": 512, "compress": "deflate", "dtype": "float32"}
    place = rasterio.transform.from_origin(0, height, 1, 1)
    with rasterio.open(path, "w", crs="EPSG:6933", transform=place, **profile) as raster:
        row = np.sin(np.arange(width, dtype=np.float32) / 700)
        for start in range(0, height, 512):
            count = min(512, height - start)
            band = np.outer(np.cos(np.arange(start, start + count) / 500), row).astype(np.float32)
            raster.write(band[None], window=((start, start + count), (0, width)))
    with rasterio.open(path, "r+") as raster:
        raster.build_overviews([2, 4, 8, 16, 32, 64], rasterio.enums.Resampling.average)
    with server(folder) as (link, process, _):
        jar = http.cookiejar.CookieJar()
        client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        client.open(link).read()
        base = link.partition("/?")[0]
        facts = json.loads(client.open(f"{base}/api/map?file=large.tif").read())
        times = []
        rng = np.random.default_rng(2)
        for z in range(facts["zooms"] + 1):
            across = max(1, (width >> (facts["zooms"] - z)) // 256)
            down = max(1, (height >> (facts["zooms"] - z)) // 256)
            for _ in range(20):
                x, y = rng.integers(across), rng.integers(down)
                start = time.perf_counter()
                client.open(f"{base}/api/tile/{z}/{x}/{y}?file=large.tif").read()
                times.append(time.perf_counter() - start)
        status = Path(f"/proc/{process.pid}/status").read_text()
        held = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024
    cells = width * height / 1e6
    return Row(
        SUITE,
        f"a raster of {cells:.0f} million cells, tiles of all zooms",
        OURS,
        seconds=median(times),
        repeats=len(times),
        target="server under 1 GB",
        met="yes" if held < 1e9 else "no",
        note=f"peak {held / 1e6:.0f} MB; seconds: one tile",
    )


def judged(problem: str, seconds: float, limit: float, unit: str, repeats: int) -> Row:
    rate = unit == "frames"
    target = f"{1 / limit:.0f} frames per second" if rate else f"under {limit:g} s"
    note = f"{1 / seconds:.0f} frames per second" if rate else ""
    met = "yes" if seconds <= limit else "no"
    return Row(SUITE, problem, OURS, "OK", seconds, repeats=repeats, target=target, met=met,
               note=note)  # fmt: skip


if __name__ == "__main__":
    made = run("--quick" in sys.argv)
    report.show(made)
    if "--quick" not in sys.argv:
        print("written:", report.write(SUITE, made))
