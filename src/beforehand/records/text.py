"""Texts of strangers where people read them: marks that are not seen are written out."""

import re

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff"
)
_CONTROL = re.compile(f"[{_HIDDEN}]")
"""The control characters but for tab and newline, and marks that turn or hide text."""
_IN_LINE = re.compile(f"[\t\n{_HIDDEN}\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _written(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"  # As JSON writes it: what is printed may be JSON.


def clean(text: str) -> str:
    """The text with each control character written out; tabs and newlines stay."""
    return text if text.isprintable() else _CONTROL.sub(_written, text)


def one_line(name: str) -> str:
    """A name with each control character, newline and tab written out: it stands in lines, cells
    and headings."""
    return name if name.isprintable() else _IN_LINE.sub(_written, name)


def storable(text: str) -> str:
    """The text with a mark in the place of what no database and no JSON holds: NUL, and half of a
    character (names of files that are not UTF-8, half an emoji)."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub("\ufffd", text)


def straight(text: str) -> str:
    """The text without the marks that turn what follows round."""
    return text if text.isascii() else _TURNS.sub("", text)
