"""An outside service as one object of pure code: no sockets, no clock, no secret.

`THE_SOURCE = Source(...)` in a file of its own is found by `catalogue.py`: its providers with their
limits, which rows it answers for, how its recorded answers are read, what is checked live, and what
it would have answered in a simulated world.

Limits are the services' own where they state them, else a modest rate of ours; each file says
which. A limit holds in any rolling window and over all processes that share a home folder.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from beforehand.clock import iso
from beforehand.ids import digest
from beforehand.records.record import Record
from beforehand.records.world import Exchange, Observation

RATE_LIMITED = 429


@dataclass(frozen=True)
class Limit:
    """At most `calls` in any `seconds`; of these endpoints, or of all."""

    calls: int
    seconds: float
    endpoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provider:
    """One service. `timeout` bounds one attempt and `deadline` all of them, in seconds.

    `key` is the environment variable with the secret, sent as `auth` says; `without` says what
    works without it, `instead` what to do while the service is away, `uncertain` what to do where
    a request that must not be repeated got no answer. Answers with a status in `defer` are not
    retried: the poll waits for its next window. Without `circuit`, failures in a row do not block
    later calls: the caller has a rule of its own.
    """

    name: str
    title: str
    base: str
    limits: tuple[Limit, ...]
    timeout: float = 15.0
    deadline: float = 45.0
    attempts: int = 4
    defer: frozenset[int] = frozenset()
    window_seconds: float = 0.0
    auth: Literal["none", "bearer", "x-api-key", "reddit", "contact"] = "none"
    keys: tuple[str, ...] = ()
    without: str = ""
    instead: str = "use what is recorded (--mode replay)"
    uncertain: str = "check the account before you repeat it"
    circuit: bool = True

    @property
    def override(self) -> str:
        """The environment variable that replaces the address (a mirror, a proxy, a test)."""
        return f"BEFOREHAND_{self.name.upper().replace('-', '_')}_URL"


Params = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """One read of one endpoint. With a `body` it is a POST of JSON (of a form, with `form`; bytes
    are sent as they are, with the Content-Type among the `headers`).

    `repeatable` is False where a lost answer may have cost money: such a request is sent again
    only after the service itself said that it failed (429, 5xx). `window` names a poll that may
    happen once per `window_seconds`, across processes. `headers` are not part of the identity.
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
        body = digest(self.body) if isinstance(self.body, bytes) else self.body
        return digest([self.provider, self.path, list(self.params), body])[:32]

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


def params(values: Mapping[str, object]) -> Params:
    """Query parameters from a mapping: None is left out, a list repeats its name, booleans and
    instants get their wire form."""
    flat: list[tuple[str, str]] = []
    for name, value in values.items():
        items = value if isinstance(value, (list, tuple)) else [value]
        flat += [(name, _wire(item)) for item in items if item is not None]
    return tuple(flat)


def _wire(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return iso(value)
    return str(value)


def snapshot(
    source: str, kind: str, subject: str, found: list[Any], fetched_at: datetime
) -> Observation:
    """Rows that show one moment: known when fetched, replaced by the next fetch."""
    return Observation(
        source=source,
        kind=kind,
        subject=subject,
        id="@snapshot",
        data={"rows": found},
        snapshot=True,
        known_at=fetched_at,
    )


def fetch_mark(
    source: str, kind: str, subject: str, count: int, fetched_at: datetime
) -> Observation:
    """A record that a stream was asked for. It tells an empty answer from one that was never
    recorded."""
    return Observation(
        source=source,
        kind=kind,
        subject=subject,
        id="@fetch",
        data={"rows": count},
        snapshot=True,
        known_at=fetched_at,
    )


Parse = Callable[[Any, datetime], list[Any]]
"""(body, when it was fetched) to records."""


@dataclass(frozen=True)
class Further:
    """Among the records of an answer: another request that it names, with the rest of the rows."""

    request: "Request"
    parse: Parse


Ask = Callable[[str, datetime, bool], list[tuple[Request, Parse]]]
"""(subject, until, live) to the requests to send and how to read each. A subject is what the rows
are filed under, live and on record: a wallet, a condition id, a ticker, a search as it was
written."""
Recorded = Callable[[Any, datetime, str | None], list[Record]]
"""(any answer of the service, when it was fetched, the market if it names none) to records."""
Sample = Callable[[Any, datetime, datetime], Iterator[Record]]
"""(a numpy Generator, start, stop) to what the service would have said in a simulated world."""


@dataclass(frozen=True)
class Probe:
    """One question to ask of an endpoint, and the fields expected in a row of the answer.

    `ask` gets facts that earlier probes found (a market's ids); it returns None where one that it
    needs is missing.
    """

    name: str
    ask: Callable[[dict[str, str]], Request | None]
    rows: str
    expected: frozenset[str]
    server: str


@dataclass(frozen=True)
class Source:
    """One outside service. `name` is the source of its observations; `answers` says what to ask for
    each kind of them."""

    name: str
    providers: tuple[Provider, ...]
    answers: Mapping[str, Ask] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()
    recorded: Recorded | None = None
    sample: Sample | None = None


def words(text: str) -> frozenset[str]:
    """The names in a text: the fields that a probe expects."""
    return frozenset(text.split())


def known(name: str, make: Callable[[str], Request]) -> Callable[[dict[str, str]], Request | None]:
    """How a probe asks about a fact that an earlier one found."""
    return lambda facts: make(facts[name]) if name in facts else None


def rows_of(body: Any, place: str) -> list[dict[str, object]]:
    """The rows of an answer: a list itself (""), the answer itself ("-"), or under a key."""
    found = body if place == "" else [body] if place == "-" else body.get(place)
    return [row for row in found or [] if isinstance(row, dict)]
