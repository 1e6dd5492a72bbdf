"""The terminal as rich sees it: its colours are ours alone."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from beforehand.records.text import clean


class Screen(Console):
    """A console that cleans every word before it is coloured, and then writes past the cleaning of
    stdout: a colour in a stranger's name is shown as text."""

    def __init__(self, width: int | None = None) -> None:
        out = getattr(sys.stdout, "plain", sys.stdout)
        super().__init__(file=out, highlight=False, width=width)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        cleaned = (s if s.control else Segment(clean(s.text), s.style) for s in buffer)
        return super()._render_buffer(cleaned)


def screen() -> Console:
    """Stdout for tables; as wide as the table where it is not a terminal."""
    out = Screen()
    return out if out.is_terminal else Screen(width=140)
