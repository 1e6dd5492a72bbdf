"""Every screen, in both themes and three widths: nothing that axe finds, an empty console, requests
to the own host alone, no scrolling sideways. `make chaos-ui` tries all of them, other runs
each screen once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from apiserver import Api
from browsing import Screen

from proofs import some

SCREENS = {
    "overview": "/",
    "leaderboard": "/leaderboard/?run=walk&sel=drift,shrunk",
    "leaderboard, scored file": "/leaderboard/?run=scored",
    "markets": "/markets/?run=walk",
    "market": "/market/?run=walk&id=MARKET",
    "market, drawer": "/market/?run=walk&id=MARKET&rec=market",
    "runs": "/runs/",
    "run": "/run/?run=walk",
    "trace": "/trace/?run=walk&f=scripted",
    "compare": "/compare/?a=walk:drift&b=walk:market",
    "calibration": "/calibration/?run=walk&f=drift",
    "ask": "/ask/",
    "answer": "/ask/?run=asked",
    "score": "/score/",
    "scored": "/score/?run=scored",
    "new": "/new/",
    "rounds": "/rounds/",
    "missing": "/market/?run=walk&id=nope",
}
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1440, 1024, 390)]
CASES = [(name, *look) for name in SCREENS for look in LOOKS]
REAL = [
    "/leaderboard/?run=over-real", "/compare/?a=over-real:drift&b=over-real:market", "/",
    "/markets/?run=over-real",
]  # fmt: skip
ONE_EACH = [CASES[i * len(LOOKS) + i % len(LOOKS)] for i in range(len(SCREENS))]
"""Each screen once, in the next of the looks."""


def market_of(serving: Api) -> str:
    """A market that the run forecast several times, with documents."""
    rows = serving.json("/api/comparisons/questions", a="walk:drift", b="walk:market", sort="n")
    return str(rows["items"][0]["market_id"])


@pytest.mark.parametrize(("name", "theme", "width"), some("looks of the screens", ONE_EACH, CASES))
def test_nothing_is_wrong(
    browse: Callable[..., Screen], serving: Api, name: str, theme: str, width: int
) -> None:
    path = SCREENS[name].replace("MARKET", market_of(serving))
    seen = browse(path, theme, width)
    assert seen.violations() == []
    expected = "status of 404" if name == "missing" else "status of 204"
    assert [text for text in seen.said if expected not in text] == []
    assert seen.elsewhere == []
    assert not seen.sideways()


def test_axe_finds_what_is_wrong(browse: Callable[..., Screen]) -> None:
    """The check itself can fail."""
    seen = browse("/")
    seen.page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=x><p style=color:#ccc>pale</p>')"
    )
    found = " ".join(seen.violations())
    assert "image-alt" in found
    assert "color-contrast" in found


@pytest.mark.real_data
@pytest.mark.parametrize("path", some("screens of recorded markets", REAL[:2], REAL))
def test_over_recorded_markets(browse: Callable[..., Screen], data: Path, path: str) -> None:
    seen = browse(path)
    assert "Recorded archive" in seen.text("body") or "compare" in path
    assert seen.violations() == []
    assert seen.said == []
    assert not seen.sideways()
