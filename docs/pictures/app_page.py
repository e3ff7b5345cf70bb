"""The picture of docs/app.md, taken by hand: python docs/pictures/app_page.py (needs Chromium)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "app")]

from app_server import served  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from maxent.datasets import virtual_landscape, write_landscape  # noqa: E402


def main(path: Path) -> None:
    """Fit a virtual species in the app, ask its map why, and keep what is seen."""
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        folder = Path(temporary) / "my-study"
        folder.mkdir()
        write_landscape(virtual_landscape(height=120, width=160, n_occurrences=80, seed=8), folder)
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        with served(folder) as client:
            client.draft(
                records={"path": "occurrences.csv"},
                layers={"sources": ["layers"], "categorical": ["biome"]},
                settings={"features": "lqh", "bootstrap": 0, "permutations": 0},
                out="arbor",
            )
            assert client.ended(client.send("/api/fit")["number"])["status"] == "done"
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(client.link)
            page.goto(f"http://127.0.0.1:{client.port}/#result=arbor")
            page.locator(".map canvas").first.wait_for()
            page.wait_for_timeout(1500)
            page.locator(".map").first.click()  # its middle, which is land
            page.locator(".why table").wait_for()
            page.wait_for_timeout(1000)
            page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main(ROOT / "docs" / "_static" / "app.png")
