"""Galileo's API, which takes what `runs export --format galileo` writes. Nothing is sent there but
the key, to see whether it logs in (`doctor --live`). Shape: galileo-core 4.5, not recorded."""

from typing import Any

from beforehand.sources.base import Limit, Provider, Request, Source
from beforehand.sources.fields import answer, mapping, required

KEY = "GALILEO_API_KEY"


def login_request(key: str) -> Request:
    """Log in with a key."""
    return Request("galileo", "login", "/login/api_key", body={"api_key": key})


@answer("a Galileo login")
def parse_login(raw: Any) -> None:
    """Raises BadAnswer where it gave no token."""
    required(mapping(raw, "the login"), "access_token")


THE_SOURCE = Source(
    "galileo",
    (
        Provider(
            "galileo",
            "Galileo",
            "https://api.galileo.ai",
            (Limit(5, 1.0),),  # Ours: it is asked once.
            without="an export is a file, and needs no key",
        ),
    ),
)
