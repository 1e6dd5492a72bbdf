"""A market of 10,000 prices on the page, in real Chromium: `python bench/pages.py`.

chart    from the last byte of the prices to the first picture that has them: thinned by the
         server to 1,000 points, as the page asks, against all 10,000. What the page takes with 10
         points is not the drawing's, and is taken off both; goal at least 2.5 times as fast. The
         three in turn, medians within one run.
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

TURNS, FEWEST = 9, 10
WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector('.recharts-line-curve')) return;
  watch.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
TOOK = """() => window.painted - performance.getEntriesByType('resource')
  .filter((one) => one.name.includes('/series/')).at(-1).responseEnd"""


def drawn(browser: Any, base: str, points: int) -> float:
    """Milliseconds until the prices are drawn, at most `points` of them."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(WATCH)

    def asked(route: Any) -> None:
        route.continue_(url=route.request.url.replace("points=1000", f"points={points}"))

    page.route("**/series/**", asked)
    page.goto(f"{base}/market/?id=SIMEX:m1")
    page.wait_for_function("() => window.painted")
    took = float(page.evaluate(TOOK))
    page.close()
    return took


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
            drawn(browser, base, 1000)
            sizes = (FEWEST, 1000, POINTS)
            turns = [[drawn(browser, base, n) for n in sizes] for _ in range(TURNS)]
            browser.close()
        least, thin, raw = (median(column) for column in zip(*turns, strict=True))
        print(
            f"chart, {POINTS:,} prices: {thin:.0f} ms thinned to 1,000 points, {raw:.0f} ms raw, "
            f"{least:.0f} ms with {FEWEST}: {(raw - least) / max(thin - least, 1):.1f} times as "
            "fast to draw [2.5]"
        )
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
