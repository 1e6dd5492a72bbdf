"""What is asked of an outside service, as a value: no sockets here, and never a secret."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beforehand.clock import iso
from beforehand.ids import digest
from beforehand.records.world import Exchange

Params = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """One read of one endpoint. With a `body` it is a POST of JSON (of a form, with `form`).

    `repeatable` is False where a lost answer may have cost money: such a request is sent again
    only after the service itself said that it failed (429, 5xx). `window` names a poll that may
    happen once per `window_seconds`, across processes. `headers` are no part of the identity.
    """

    provider: str
    endpoint: str
    path: str
    params: Params = ()
    body: Any = None
    form: bool = False
    repeatable: bool = True
    window: str | None = None
    headers: Params = ()

    @property
    def key(self) -> str:
        """The digest that identifies the request; the base address and secrets are not in it."""
        return digest([self.provider, self.path, list(self.params), self.body])[:32]

    def exchange(self, url: str, body: str, fetched_at: datetime) -> Exchange:
        """This request with its answer, for the archive."""
        return Exchange(
            provider=self.provider,
            endpoint=self.endpoint,
            key=self.key,
            url=url,
            request=self.body,
            body=body,
            digest=digest(body.encode()),
            known_at=fetched_at,
        )


def params(values: Mapping[str, Any]) -> Params:
    """Query parameters from a mapping: None is left out, a list repeats its name, booleans and
    instants get their wire form."""
    flat: list[tuple[str, str]] = []
    for name, value in values.items():
        items = value if isinstance(value, (list, tuple)) else [value]
        flat += [(name, _wire(item)) for item in items if item is not None]
    return tuple(flat)


def _wire(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return iso(value)
    return str(value)
