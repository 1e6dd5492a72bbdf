"""What reaches a terminal: control characters in names, texts and errors are shown, not obeyed."""

from typing import IO, Any

from beforehand.records.text import clean


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
