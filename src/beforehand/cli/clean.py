"""What reaches a terminal: control characters in names, texts and errors are shown, not obeyed."""

import re
from typing import IO, Any

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
"""The control characters but for tab and newline, and marks that turn or hide text."""


def clean(text: str) -> str:
    """The text with each control character written out."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class CleanStream:
    """A text stream that cleans what is written to it. Colours stay where it is a terminal: our own
    tables have them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._styled = stream, stream.isatty()

    def write(self, text: str) -> int:
        """Write the cleaned text; returns the length of what was given."""
        if self._styled:
            parts = _STYLE.split(text)
            parts[::2] = map(clean, parts[::2])
            self._stream.write("".join(parts))
        else:
            self._stream.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
