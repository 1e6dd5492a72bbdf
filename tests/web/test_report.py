"""The report that is sent by mail: one file, whole at 1280 px, and nothing that axe finds."""

from collections.abc import Callable

import pytest
from apiserver import Api
from browsing import Screen

from proofs import some

CUT = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => [e.ariaLabel, e.scrollWidth, e.clientWidth])"


CASES = [(r, *x) for r in ("walk", "scored", "benched") for x in (("light", 1280), ("dark", 390))]


@pytest.mark.parametrize(
    ("run", "theme", "width"), some("looks of reports", [CASES[0], CASES[3]], CASES)
)
def test_it_is_whole(
    browse: Callable[..., Screen], serving: Api, run: str, theme: str, width: int
) -> None:
    seen = browse("/api", theme, width, wait=False)
    path = next((serving.home / "data" / "runs" / run).glob("*.html"))
    kept = serving.home / f"{run}.html"  # Its own policy lets no script in, axe neither.
    text = path.read_text()
    policy = text.index("<meta http-equiv")
    kept.write_text(text[:policy] + text[text.index(">", policy) + 1 :])
    seen.page.goto(kept.as_uri())
    assert seen.violations() == []
    assert not seen.sideways()
    if width == 1280:
        assert seen.page.evaluate(CUT) == []
