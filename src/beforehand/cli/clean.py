"""What reaches a terminal: control characters in names, texts and errors are shown, not obeyed."""

import codecs
import os
import sys
from typing import IO, Any

from beforehand.records.text import clean

PLAIN = {
    "↓": "v", "↑": "^", "→": "->", "←": "<-", "–": "-", "—": "-", "−": "-", "…": "...", "·": ".",
    "×": "x", "±": "+-", "≈": "~", "≤": "<=", "≥": ">=", "“": '"', "”": '"', "„": '"', "‘": "'",
    "’": "'", "€": "EUR", "¢": "c", "\u00a0": " ", "\u202f": " ",
}  # fmt: skip
"""What is written for a sign that a stream cannot hold; others are written as JSON writes them."""


def _plainly(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign) or _escaped(sign) for sign in signs), error.end


def _escaped(sign: str) -> str:
    pairs = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[k]:02x}{pairs[k + 1]:02x}" for k in range(0, len(pairs), 2))


codecs.register_error("beforehand", _plainly)


def open_streams() -> None:
    """Output goes where it can: a stream that is closed is none, and signs that one cannot hold
    (a console of Windows, a locale without UTF-8) are written as others."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure") and stream.errors in (
            "strict",
            "surrogateescape",  # That of the POSIX locale.
        ):
            stream.reconfigure(errors="beforehand")


class CleanStream:
    """A text stream that cleans what is written to it. `plain` is the stream itself, for tables
    whose words were cleaned one by one, so that their colours can stay."""

    def __init__(self, stream: IO[str]) -> None:
        self.plain = stream

    def write(self, text: str) -> int:
        """Write the cleaned text; returns the length of what was given."""
        self.plain.write(clean(text))
        return len(text)

    def isatty(self) -> bool:
        """False: whoever would colour what it writes here is cleaned too."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
