"""Takes the README's pictures: real pages over the demo's world, in real Chromium.

python web/pictures.py      after `make ui`; needs the extra `web` and chromium
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = [sys.executable, "-m", "beforehand"]


def take(page: Page, url: str, path: str, name: str, height: int) -> None:
    """One picture, once the page is complete."""
    page.set_viewport_size({"width": 1440, "height": height})
    page.goto(url + path)
    page.locator("[data-ready=true]").first.wait_for()
    page.locator(".skeleton").first.wait_for(state="detached")
    page.wait_for_load_state("networkidle")
    page.locator("aside[aria-busy=true]").wait_for(state="detached")
    page.screenshot(path=DOCS / name)


def main() -> None:
    """The demo, a server over it, and the pictures."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "BEFOREHAND_HOME": home}
        subprocess.run([*COMMAND, "demo"], env=environment, check=True, stdout=subprocess.DEVNULL)
        serve = [*COMMAND, "serve", "--port", "0", "--json"]
        served = subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert served.stdout is not None
            url = json.loads(served.stdout.readline())["url"]
            with urllib.request.urlopen(f"{url}/api/runs/latest") as answer:
                market = json.load(answer)["scores"]["pictured"]["id"]
            with sync_playwright() as playwright:
                found = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
                page = browser.new_page(color_scheme="light")
                take(page, url, "/leaderboard/", "leaderboard.png", 1000)
                at = f"/market/?id={market}&f=recorded:truth&t=2026-07-03T20:13:00Z"
                take(page, url, at, "market.png", 1130)
                browser.close()
        finally:
            served.terminate()
            served.wait(30)


if __name__ == "__main__":
    main()
