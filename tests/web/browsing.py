"""A page in real Chromium that keeps what must not be: messages on the console, requests elsewhere."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]  # fmt: skip
WAIT_MS = 15_000


@dataclass
class Screen:
    """One screen, and what went wrong on it."""

    page: Any
    url: str
    said: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def ready(self) -> "Screen":
        """Wait until the screen shows what it is about, and nothing is loading."""
        self.page.locator("[data-ready=true]").first.wait_for(timeout=WAIT_MS)
        self.page.locator("[role=status] .skeleton, .skeleton").first.wait_for(
            state="detached", timeout=WAIT_MS
        )
        self.page.wait_for_load_state("networkidle", timeout=WAIT_MS)
        return self

    def go(self, path: str) -> "Screen":
        """Open another address in the same tab."""
        self.page.goto(self.url + path)
        return self.ready()

    def text(self, selector: str) -> str:
        """The text of the first that fits."""
        found: str = self.page.locator(selector).first.inner_text()
        return found

    def texts(self, selector: str) -> list[str]:
        """The texts of all that fit."""
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found

    def sideways(self) -> bool:
        """True if the page scrolls sideways."""
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.page.evaluate(wide))

    def violations(self) -> list[str]:
        """What axe-core finds, best practices included."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]}: {json.dumps(node['any'][:1])[:300]}"
            for one in found["violations"]
            for node in one["nodes"]
        ]


@contextmanager
def screen(browser: Any, url: str) -> Iterator[Callable[..., Screen]]:
    """Opens screens in a browser; each has a context of its own."""
    contexts: list[Any] = []

    def opened(
        path: str, theme: str = "light", width: int = 1440, height: int = 900, wait: bool = True
    ) -> Screen:
        while contexts:
            contexts.pop().close()
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        made = Screen(page, url)
        page.on("console", lambda m: made.said.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda error: made.said.append(f"error: {error}"))
        page.on("request", lambda r: made.elsewhere.append(r.url) if not r.url.startswith((url, "data:", "blob:")) else None)  # fmt: skip
        page.goto(url + path)
        return made.ready() if wait else made

    yield opened
    for context in contexts:
        context.close()
