"""Models by name: who serves them, which key they need, and when their training ended; and the
addresses that users name, of forecasters and of model servers.

scripted                    deterministic, offline: tests the path, is not a forecaster
local                       gemma3-270m on this machine (extra `local`)
openai:NAME                 needs OPENAI_API_KEY
anthropic:NAME              needs ANTHROPIC_API_KEY
NAME@http://host:port/v1    any OpenAI-compatible address (BEFOREHAND_LLM_KEY, if it needs a key)
"""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, urlsplit

from beforehand.errors import InputError, NotConfigured

SCRIPTED, LOCAL = "scripted", "local"
LABEL = "a path test, not a forecaster"
"""The note beside scripted wherever it is shown."""
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
COMPATIBLE_KEY = "BEFOREHAND_LLM_KEY"
CUTOFFS = {
    "gpt-4o": date(2023, 10, 1),
    "gpt-4o-mini": date(2023, 10, 1),
    "gpt-4.1": date(2024, 6, 1),
    "gpt-4.1-mini": date(2024, 6, 1),
    "gpt-4.1-nano": date(2024, 6, 1),
    "gpt-5": date(2024, 9, 30),
    "gpt-5-mini": date(2024, 5, 31),
    "gpt-5-nano": date(2024, 5, 31),
    "o3": date(2024, 6, 1),
    "o3-mini": date(2023, 10, 1),
    "o4-mini": date(2024, 6, 1),
    "claude-3-5-haiku": date(2024, 7, 31),
    "claude-3-5-sonnet": date(2024, 4, 30),
    "claude-3-7-sonnet": date(2024, 11, 30),
    "claude-haiku-4-5": date(2025, 7, 31),
    "claude-opus-4": date(2025, 3, 31),
    "claude-opus-4-1": date(2025, 3, 31),
    "claude-sonnet-4": date(2025, 3, 31),
    "claude-sonnet-4-5": date(2025, 7, 31),
    LOCAL: date(2024, 8, 31),
}
"""The last day of the training data, as the vendors' model pages state it (a month: its last day).
A dated version of a listed model counts as that model. Any other name has no cutoff, because a
newer model must not inherit an older one's."""
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d|latest)")
_LOOKS_UP = re.compile(r"search|deep-research|online|sonar")
"""Names of models that search on their own: what they find cannot be limited to before t."""
LOOPBACK = frozenset({"localhost", "ip6-localhost", "ip6-loopback"})
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class ModelSpec:
    """A model as it was named. `cutoff` is the end of its training data, None where unknown."""

    id: str
    vendor: str
    name: str
    base: str = ""
    cutoff: datetime | None = None

    @property
    def ranked(self) -> bool:
        """False for scripted, which is never ranked."""
        return self.id != SCRIPTED

    @property
    def key(self) -> str | None:
        """The environment variable with its key."""
        return COMPATIBLE_KEY if self.vendor == "compatible" else KEYS.get(self.vendor)


def parse_model(name: str, cutoffs: Mapping[str, date] | None = None) -> ModelSpec:
    """The model of that name. Raises InputError if the name cannot be that of a model."""
    vendor, _, rest = name.partition(":")
    base = ""
    if name in (SCRIPTED, LOCAL):
        vendor = rest = name
    elif vendor not in KEYS:
        rest, at, base = name.partition("@")
        vendor = "compatible"
        if not at:
            raise InputError(
                f"there is no model {name!r}: write scripted, local, openai:NAME, anthropic:NAME "
                "or NAME@http://host:port/v1"
            )
        parts = split_address(base, f"model {rest}", "NAME@http://host:port/v1")
        if parts.query:
            raise InputError(
                f"model {rest} at {parts.hostname}: an address must hold no query, as it is stored "
                f"with the results: set {COMPATIBLE_KEY}"
            )
    if not rest:
        raise InputError(f"model {name!r} has no name: write {vendor}:NAME")
    if _LOOKS_UP.search(rest):
        raise InputError(
            f"model {name!r} searches on its own, and what it finds cannot be limited to before t: "
            "name a model without retrieval"
        )
    return ModelSpec(name, vendor, rest, base, _cutoff(name, rest, cutoffs or {}))


def need_key(spec: ModelSpec, settings: Mapping[str, str]) -> str | None:
    """The key, or None if none is needed. Raises NotConfigured if it is missing."""
    if spec.key is None:
        return None
    found = settings.get(spec.key)
    if not found and spec.vendor in KEYS:
        raise NotConfigured(
            f"{spec.id} needs {spec.key}; the models scripted and local run without a key"
        )
    return found


def need_price(spec: ModelSpec, limited: bool, cost_per_call: float | None) -> None:
    """Raises InputError for a budget in US dollars where nobody knows what a call costs."""
    if limited and spec.vendor == "compatible" and cost_per_call is None:
        raise InputError(
            f"--max-cost: the price of a call of {spec.id} is not known: state --cost-per-call, "
            "or limit --max-calls or --max-tokens"
        )


def _cutoff(name: str, rest: str, stated: Mapping[str, date]) -> datetime | None:
    day = stated.get(name)
    if day is None:
        day = CUTOFFS.get(_DATED.sub("", rest) if _DATED.fullmatch(rest[_stem(rest) :]) else rest)
    if day is None:
        return None
    end = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return end if day == date.max else end + timedelta(days=1)


def _stem(rest: str) -> int:
    """Where a date begins at the end of a name, or its length."""
    found = _DATED.search(rest)
    return len(rest) if found is None else found.start()


def service_of(address: str) -> str:
    """The host and port of an address, in one spelling; other text is returned as it is."""
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError:
        return address
    if parts.scheme not in PORTS or not host:
        return address
    return f"{'localhost' if loopback(host) else host}:{port or PORTS[parts.scheme]}"


def loopback(host: str) -> bool:
    """Whether a host is this machine, by any of its names and addresses: `localhost` and what lies
    below it, 127.0.0.0/8 as resolvers read it (127.1, 0x7f.1, 2130706433), ::1, the machine's own
    name."""
    name = host.lower().strip("[]").rstrip(".")
    if name in LOOPBACK or name.endswith(".localhost") or name == platform.node().lower():
        return True
    try:
        address: IPv4Address | IPv6Address = IPv6Address(name) if ":" in name else _as_read(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _as_read(name: str) -> IPv4Address:
    """An IPv4 address as the C library reads it: one to four numbers, the last of which fills the
    rest, in tens, octal (017) or hexadecimal (0x7f). Raises ValueError."""
    numbers = [
        int(part, 8) if re.fullmatch("0[0-7]+", part) else int(part, 0) for part in name.split(".")
    ]
    *first, last = numbers
    if len(numbers) > 4 or any(not 0 <= one < 256 for one in first):
        raise ValueError(name)
    if not 0 <= last < 256 ** (4 - len(first)):
        raise ValueError(name)
    return IPv4Address(sum(one << (24 - 8 * i) for i, one in enumerate(first)) + last)


def split_address(address: str, whose: str, shape: str) -> SplitResult:
    """The parts of an http address. Raises InputError if nothing can be sent there, or if it holds
    a secret. `whose` says what is at the address, `shape` how to write it (for the messages)."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{whose} {address!r} is not an address: {error}") from None
    if not parts.hostname:
        raise InputError(f"{whose} {address!r} names no host: write {shape}")
    if parts.username or parts.password or parts.fragment:
        raise InputError(
            f"{whose} at {parts.hostname}: an address must hold no user, password or fragment, "
            "as it is stored with the results"
        )
    return parts
