"""Everything that opens is opened and closed, everything that can be pressed is pressed."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from apiserver import Api
from browsing import Screen
from test_screens import SCREENS, market_of

from proofs import some

WIDTHS = (320, 390, 720, 1440)
CASES = [(name, width) for name in SCREENS for width in WIDTHS]
SMOKE = [("overview", 320), ("leaderboard", 390), ("market", 1440), ("run", 720)]
CONTROLS = "button:visible, summary:visible, [role=tab]:visible, [role=checkbox]:visible"
STARTS = re.compile(r"^(Start|Stop|Resume|Remove|Fork|Ask|Score|Upload|Print|Copy|Save)", re.I)
"""What changes something, or hands something to the machine, is pressed by the flows."""


WIDER = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 300))"


def fine(seen: Screen, after: str = "") -> None:
    """Nothing has failed."""
    assert seen.page.locator("[data-failed]").count() == 0, seen.text("[data-failed]")
    assert [text for text in seen.said if "status of 404" not in text] == []
    assert seen.elsewhere == []
    assert not seen.sideways(), (after, seen.page.evaluate(WIDER))


@pytest.mark.parametrize("close", ["Escape", "outside"])
def test_a_search_is_closed(browse: Callable[..., Screen], serving: Api, close: str) -> None:
    """With its hits on the screen, by key and by click; and it opens anew, empty."""
    seen = browse("/")
    word = serving.json("/api/archives/sim/markets", limit=1)["items"][0]["question"].split()[2]
    for _ in range(2):
        seen.page.keyboard.press("/")
        box = seen.page.get_by_label("Search markets and runs")
        assert box.input_value() == ""
        box.fill(word)
        seen.page.locator("[aria-label=Found] button").first.wait_for()
        if close == "Escape":
            seen.page.keyboard.press("Escape")
        else:
            seen.page.mouse.click(5, 500)
        seen.page.locator("dialog[open]").wait_for(state="detached")
        fine(seen)
    assert "Overview" in seen.text("nav[aria-label=Main]")


def test_a_part_that_fails_leaves_the_rest(browse: Callable[..., Screen], serving: Api) -> None:
    """An answer that no page expects: what shows it says so, and there is a way back."""
    seen = browse("/")
    whole = serving.json("/api/runs/walk")
    broken = {**whole, "scores": {**whole["scores"], "leaderboard": [None]}}
    seen.page.route("**/api/runs/walk", lambda route: route.fulfill(json=broken))
    seen.page.goto(seen.url + "/leaderboard/?run=walk")
    seen.page.locator("[data-failed]").wait_for()
    assert "could not be drawn" in seen.text("[role=alert]")
    seen.page.unroute("**/api/runs/walk")
    seen.page.get_by_role("alert").get_by_role("link", name="Overview").click()
    seen.page.locator("[data-failed]").wait_for(state="detached")
    seen.ready()


@pytest.mark.parametrize(
    ("name", "width"), some("screens whose controls are pressed", SMOKE, CASES)
)
def test_everything_opens_and_closes(
    browse: Callable[..., Screen], serving: Api, name: str, width: int
) -> None:
    path = SCREENS[name].replace("MARKET", market_of(serving))
    seen = browse(path, "light", width)
    pressed = 0
    for place in range(seen.page.locator(CONTROLS).count()):
        controls: Any = seen.page.locator(CONTROLS)
        if place >= controls.count():
            break
        one = controls.nth(place)
        label = (one.get_attribute("aria-label") or one.inner_text()).strip()
        if STARTS.match(label) or one.is_disabled():
            continue
        one.focus()
        seen.page.keyboard.press("Space" if one.get_attribute("type") == "checkbox" else "Enter")
        pressed += 1
        seen.page.wait_for_timeout(60)
        fine(seen, label)
        for _ in range(2):
            if seen.page.locator("dialog[open]").count():
                seen.page.keyboard.press("Escape")
                seen.page.wait_for_timeout(60)
        assert seen.page.locator("dialog[open]").count() == 0, label
        if seen.page.url.partition("?")[0] != (seen.url + path).partition("?")[0]:
            seen.page.goto(seen.url + path)
            seen.ready()
        fine(seen)
    assert pressed >= 2
