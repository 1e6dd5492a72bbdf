"""A market of 10,000 prices on the page, in real Chromium: `python bench/pages.py`.

chart    one redraw of the page with 10,000 prices: thinned by the server to 1,000 points, as the
         page asks, against all of them; goal at least 2.5 times as fast. Main-thread time of the
         browser while the window changes its width (every change draws the whole chart anew). A
         page with 10 points gives what is not the prices' drawing, taken off both. The three in
         turn, medians within one run.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from api import POINTS, world

TURNS, REDRAWS, FEWEST = 9, 20, 10
DRAWN = "() => document.querySelector('.recharts-line-curve')"
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def opened(browser: Any, base: str, points: int) -> tuple[Any, Any]:
    """A page that has drawn the prices, at most `points` of them, and the browser's meter of it."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})

    def asked(route: Any) -> None:
        route.continue_(url=route.request.url.replace("points=1000", f"points={points}"))

    page.route("**/series/**", asked)
    page.goto(f"{base}/market/?id=SIMEX:m1")
    page.wait_for_function(DRAWN)
    page.wait_for_load_state("networkidle")
    meter = page.context.new_cdp_session(page)
    meter.send("Performance.enable")
    return page, meter


def busy(meter: Any) -> float:
    """Seconds of main-thread work so far."""
    metrics = meter.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def redraw(page: Any, meter: Any) -> float:
    """Milliseconds of main-thread work for one redraw, over `REDRAWS` of them."""
    before = busy(meter)
    for turn in range(REDRAWS):
        page.set_viewport_size({"width": 1400 + 20 * (turn % 2), "height": 900})
        page.evaluate(PAINTED)
    return 1000 * (busy(meter) - before) / REDRAWS


def main() -> None:
    """Print the figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("pages: not measured, it needs chromium and the extra `web`")
        return
    folder = tempfile.mkdtemp(prefix="bench-pages-")
    world(Path(folder))
    command = [str(Path(sys.executable).with_name("beforehand")), "serve", "--port", "0", "--json"]
    server = subprocess.Popen(
        command, env={**os.environ, "BEFOREHAND_HOME": folder}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        base = json.loads(server.stdout.readline())["url"]
        with sync_playwright() as playwright:
            flags = ["--no-sandbox", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=chromium, args=flags)
            pages = [opened(browser, base, points) for points in (FEWEST, 1000, POINTS)]
            turns = [[redraw(*page) for page in pages] for _ in range(TURNS)]
            browser.close()
        least, thin, raw = (median(column) for column in zip(*turns, strict=True))
        print(
            f"chart, {POINTS:,} prices: {thin:.1f} ms a redraw thinned to 1,000 points, {raw:.1f} "
            f"ms raw, {least:.1f} ms with {FEWEST}: {(raw - least) / max(thin - least, 0.01):.1f} "
            f"times as fast to draw [2.5], {raw / thin:.1f} for the whole page"
        )
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
