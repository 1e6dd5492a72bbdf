"""What people do on the pages: arrive by a link, go back, use the keyboard alone, watch a run over a
restart of the server, take the files, meet an empty home and a server that is away."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from apiserver import Api, api
from browsing import Screen, screen
from test_screens import market_of

from modelserver import model_server
from proofs import some


def address(seen: Screen) -> str:
    return str(seen.page.evaluate("location.href")).removeprefix(seen.url)


def back(seen: Screen) -> None:
    """Back, once the page shows it."""
    seen.page.go_back()
    seen.page.wait_for_timeout(200)


def instant(seen: Screen, other_than: str | None = None) -> str:
    """The instant t that the page shows, once it is another one."""
    shown = seen.page.locator("aside [data-t]")
    end = time.monotonic() + 5
    while (found := shown.get_attribute("data-t")) == other_than and time.monotonic() < end:
        time.sleep(0.05)
    return str(found)


def test_a_link_holds_all_and_back_undoes(browse: Callable[..., Screen]) -> None:
    seen = browse("/leaderboard/?run=walk")
    boxes = seen.page.get_by_role("checkbox")
    boxes.nth(1).click()
    boxes.nth(2).click()
    seen.page.get_by_role("link", name="Open in Compare").wait_for()
    seen.page.get_by_role("button", name=re.compile("^Brier")).click()
    assert "sort=brier" in address(seen)
    seen.page.locator("th[aria-sort]", has_text="Brier").wait_for()
    held = seen.texts("tbody tr[aria-selected] .name")
    order = seen.texts("[role=region][aria-label=Leaderboard] tbody .name")
    seen.page.reload()
    seen.ready()
    assert seen.texts("tbody tr[aria-selected] .name") == held
    assert seen.texts("[role=region][aria-label=Leaderboard] tbody .name") == order
    back(seen)
    assert "sort=brier" not in address(seen)
    assert len(seen.texts("tbody tr[aria-selected]")) == 2
    back(seen)
    back(seen)
    assert "sel=" not in address(seen)
    seen.page.get_by_role("link", name="Open in Compare").wait_for(state="detached")


def test_back_undoes_a_jump_but_not_each_pixel(browse: Callable[..., Screen], serving: Api) -> None:
    market = market_of(serving)
    seen = browse(f"/market/?run=walk&id={market}&f=drift")
    slider = seen.page.get_by_role("slider", name="Instant t")
    box = slider.bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    seen.page.mouse.down()
    for share in (0.9, 0.7, 0.5, 0.4):
        seen.page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    seen.page.mouse.up()
    seen.page.wait_for_timeout(1000)
    dragged = instant(seen)
    seen.page.get_by_role("button", name="Previous forecast").first.click()
    jumped = instant(seen, dragged)
    assert jumped < dragged
    back(seen)
    assert instant(seen, jumped) == dragged


def test_keys_alone(browse: Callable[..., Screen], serving: Api) -> None:
    """From the overview to what was said of one market at one instant, without a mouse."""
    seen = browse("/")
    keys = seen.page.keyboard
    keys.press("?")
    seen.page.get_by_role("dialog", name="Keys").wait_for()
    keys.press("Escape")
    keys.press("/")
    seen.page.get_by_label("Search markets and runs").wait_for()
    keys.type("walk")
    seen.page.get_by_role("list", name="Found").get_by_role(
        "button", name=re.compile("^run walk")
    ).wait_for()
    keys.press("Enter")
    seen.page.wait_for_url(re.compile(r"/(run|market)/"))
    seen.ready()
    seen.go("/markets/?run=walk&f=drift")
    first = seen.page.locator("tbody tr[data-id]").nth(1).get_attribute("data-id")
    keys.press("j")
    keys.press("j")
    seen.page.locator(f'tr[data-id="{first}"][data-here]').wait_for()
    keys.press("Enter")
    seen.page.wait_for_url(re.compile("/market/"))
    seen.ready()
    seen.go(f"/market/?run=walk&id={market_of(serving)}&f=drift")
    before = instant(seen)
    keys.press("k")
    after = instant(seen, before)
    assert after < before
    seen.page.get_by_role("slider", name="Instant t").focus()
    keys.press("PageDown")
    assert instant(seen, after) < after
    keys.press("Home")
    seen.go("/leaderboard/?run=walk")
    for key in ("j", "j", "x", "j", "x"):
        keys.press(key)
    seen.page.locator("tr[aria-selected=true]").nth(1).wait_for()
    keys.press("c")
    seen.page.wait_for_url(re.compile("/compare/"))
    seen.ready()


def test_tab_reaches_all_and_the_focus_is_seen(browse: Callable[..., Screen]) -> None:
    seen = browse("/leaderboard/?run=walk")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.textContent") == "Skip to content"
    reached = set()
    for _ in range(80):
        seen.page.keyboard.press("Tab")
        name = seen.page.evaluate(
            "document.activeElement === document.body ? '' : document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
        )
        drawn = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if name:
            assert drawn != "none", name
            reached.add(str(name).strip())
    assert {"Overview", "Score mine", "Compare drift"} <= reached


def test_a_drawer_keeps_the_focus_and_gives_it_back(
    browse: Callable[..., Screen], serving: Api
) -> None:
    seen = browse(f"/market/?run=walk&id={market_of(serving)}&f=drift")
    badge = seen.page.get_by_role("button", name=re.compile("records from after t")).first
    badge.click()
    drawer = seen.page.get_by_role("dialog", name="Provenance")
    assert "0 records after t were shown" in drawer.inner_text()
    assert "rec=leaks" in address(seen)
    for _ in range(12):
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    seen.page.keyboard.press("Escape")
    drawer.wait_for(state="hidden")
    seen.page.wait_for_url(lambda url: "rec=" not in url)


@pytest.mark.parametrize(
    ("path", "name", "endpoint"),
    [
        ("/leaderboard/?run=walk", "CSV of walk-leaderboard", "/api/runs/walk/leaderboard?format=csv"),
        ("/score/?run=scored", "CSV of scored-rejected", "/api/runs/scored/rejected?format=csv"),
        ("/markets/?run=walk&f=drift", "CSV of walk-questions", "/api/comparisons/questions?a=walk:drift&b=walk:market&format=csv"),
        ("/leaderboard/?run=walk", "JSON of walk-leaderboard", "/api/runs/walk/leaderboard"),
    ],
)  # fmt: skip
def test_a_file_is_the_apis_answer(
    browse: Callable[..., Screen], serving: Api, path: str, name: str, endpoint: str
) -> None:
    seen = browse(path)
    with seen.page.expect_download() as saving:
        seen.page.get_by_role("link", name=name).first.click()
    assert Path(saving.value.path()).read_bytes() == httpx2.get(serving.url + endpoint).content


def test_a_file_of_probabilities_gets_its_verdict(
    browse: Callable[..., Screen], serving: Api
) -> None:
    seen = browse("/score/")
    mine = serving.home / "mine.csv"
    seen.page.get_by_label("File of probabilities").set_input_files(mine)
    seen.page.get_by_role("button", name="Score", exact=True).click()
    seen.page.wait_for_url(re.compile("run="))
    seen.ready()
    run = re.search("run=([^&]+)", address(seen))
    assert run
    found = serving.json(f"/api/runs/{run[1]}")
    assert f"1 of {found['card'][1]['value'] + 1:,} rows" in seen.text("body")
    assert found["status"] == "success"
    bad = serving.home / "bad.csv"
    bad.write_text("question,p\na,0.5\n")
    seen.go("/score/")
    seen.page.get_by_label("File of probabilities").set_input_files(bad)
    seen.page.get_by_role("button", name="Score", exact=True).click()
    assert "column" in seen.page.locator("main [role=alert]").inner_text()


def test_a_question_is_asked_and_answered(browse: Callable[..., Screen]) -> None:
    seen = browse("/ask/")
    seen.page.get_by_label("Question").fill("Will the Merovia timber index close above 993?")
    seen.page.get_by_role("button", name="Ask", exact=True).click()
    seen.page.locator("[data-answer]").wait_for(timeout=60_000)
    assert "Merovia" in seen.text("[data-answer]")
    seen.page.get_by_role("button", name=re.compile("^Record 1")).first.click()
    assert "Merovia" in seen.page.get_by_role("dialog", name="Record").inner_text()


@pytest.mark.chaos
def test_a_run_is_started_watched_over_a_restart_stopped_and_resumed(
    chromium: Any, with_worlds: Path
) -> None:
    """The server is killed while the page watches: the page says so, and when the server is back it
    has every event once. Then the run is stopped and goes on, and no call was asked twice."""
    with (
        model_server(lambda body: 0.5) as model,
        api(with_worlds, "--archive", "data/sim") as served,
    ):
        port = int(served.url.rpartition(":")[2])
        with screen(chromium, served.url) as opened:
            seen = opened(f"/new/?f={model.model()}&every=28d&name=watched&archive=sim&calls=5000")
            start = seen.page.get_by_role("button", name="Start")
            assert seen.texts("main [role=alert]") == []
            start.click()
            seen.page.wait_for_url(re.compile("run=watched"), timeout=30_000)
            log = seen.page.get_by_role("list", name="Events")
            log.locator("li[data-number]").nth(5).wait_for(timeout=60_000)
            served.kill()
            seen.page.locator("[data-away]").wait_for(timeout=20_000)
            with api(with_worlds, "--archive", "data/sim", port=port) as again:
                seen.page.locator("[data-away]").wait_for(state="detached", timeout=30_000)
                seen.page.get_by_role("button", name="Stop").click()
                resume = seen.page.get_by_role("button", name="Resume")
                resume.wait_for(timeout=60_000)
                assert again.json("/api/runs/watched")["status"] == "cancelled"
                resume.click()
                seen.page.locator("h1", has_text="finished").wait_for(timeout=120_000)
                seen.page.locator("[data-link=over]").wait_for(timeout=20_000)
                events = again.json("/api/runs/watched/log", limit=1000)["items"]
                end = time.monotonic() + 10
                while log.get_attribute("data-last") != str(len(events)) and time.monotonic() < end:
                    time.sleep(0.1)
                numbers = [int(one.get_attribute("data-number")) for one in log.locator("li").all()]
                assert numbers == list(range(max(1, len(events) - 199), len(events) + 1))
                assert seen.text("[data-count=repeated] dd") == "0"
                assert int(seen.text("[data-count=resumed] dd")) >= 1
                asked = [json.dumps(body, sort_keys=True) for body in model.log]
                answered = int(seen.text("[data-count=calls] dd").replace(",", ""))
                assert answered == again.json("/api/runs/watched")["calls"]
                assert len(asked) <= answered + int(seen.text("[data-count=again] dd")) + 4


EMPTY = [
    ("/", "beforehand demo"),
    ("/markets/", "beforehand world import"),
    ("/runs/", "beforehand backtest run"),
    ("/compare/", ""),
    ("/leaderboard/", "beforehand demo"),
    ("/market/?id=X:1", "beforehand demo"),
    ("/run/", "beforehand backtest run"),
    ("/trace/", "beforehand demo"),
    ("/calibration/", "beforehand demo"),
    ("/ask/", "beforehand demo"),
    ("/score/", "beforehand demo"),
    ("/new/", "beforehand demo"),
]


def test_an_empty_home(chromium: Any, tmp_path: Path) -> None:
    with api(tmp_path) as served, screen(chromium, served.url) as opened:
        for path, command in some("screens of an empty home", EMPTY[:4], EMPTY):
            seen = opened(path)
            assert command in seen.text("main"), path
            assert seen.violations() == [], path
            assert seen.said == [], path


def test_a_server_that_is_away(chromium: Any, with_worlds: Path) -> None:
    """A screen whose server has gone says so, and shows itself once the server is back."""
    with (
        api(with_worlds, "--archive", "data/sim") as served,
        screen(chromium, served.url) as opened,
    ):
        port = int(served.url.rpartition(":")[2])
        seen = opened("/leaderboard/?run=walk")
        served.kill()
        seen.page.get_by_role("checkbox").nth(1).click()
        seen.page.get_by_role("checkbox").nth(2).click()
        seen.page.locator(
            "section[aria-label='Paired comparison']", has_text="cannot be reached"
        ).wait_for()
        with api(with_worlds, "--archive", "data/sim", port=port):
            seen.page.reload()
            seen.ready()
            assert "Leaderboard" in seen.text("main")


def test_a_token_is_asked_for(chromium: Any, with_worlds: Path) -> None:
    from serving import command

    text = command(
        with_worlds, "token", "issue", "--user", "ann", "--scopes", "read", "--json"
    ).stdout
    token: Any = json.loads(text)["token"]
    with (
        api(with_worlds, "--archive", "data/sim", "--auth", "token") as served,
        screen(chromium, served.url) as opened,
    ):
        seen = opened("/leaderboard/?run=walk", wait=False)
        seen.page.get_by_label("Token").fill(token)
        seen.page.get_by_role("button", name="Go on").click()
        seen.page.locator("h2", has_text="Leaderboard").wait_for()
        seen.go("/new/")
        assert "may not start runs" in seen.text("main")
