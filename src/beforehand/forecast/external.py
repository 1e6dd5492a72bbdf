"""A forecaster behind an address: the IntervalContext is posted as JSON, a probability comes back.

The request carries `Idempotency-Key`, the same for every attempt at one forecast, so that a
service that bills can tell a repetition from a new question, `Beforehand-Simulation`, and
`Beforehand-Run`, so that one that remembers can keep runs apart. The answer is
`{"probability": p}`, with optional `rationale` (text), `evidence_ids` (a list), `tokens`
(a number, or numbers by kind) and `cost` (US dollars).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from beforehand.errors import BadAnswer, InputError
from beforehand.sources.address import split_address
from beforehand.sources.providers import Limit, Provider
from beforehand.sources.request import Request

TIMEOUT_S = 60.0
LONGEST_TEXT = 20_000
VERSION = "1.0"
ENDPOINT = "decide"


@dataclass(frozen=True)
class Said:
    """One answer, checked."""

    probability: float
    rationale: str
    evidence_ids: list[str]


def is_address(name: str) -> bool:
    """True for what is meant as an address and not as a name."""
    return name.startswith(("http://", "https://"))


def check_address(name: str) -> str:
    """The address; InputError if nothing can be posted to it, or if it holds a secret."""
    split_address(name, "forecaster", "http://host:port/path")
    return name


def provider(address: str, limits: Sequence[Limit] = (), timeout: float = TIMEOUT_S) -> Provider:
    """The address as a service that the traffic layer knows, with its limits."""
    return Provider(
        name=address,
        title=f"the forecaster at {address}",
        base=address,
        limits=tuple(limits),
        timeout=timeout,
        deadline=3 * timeout,
        attempts=3,
        instead="resume the run once it answers",
        uncertain="the run's policy for calls in flight says what follows",
        circuit=False,  # The run stops by itself, and a resume asks at once.
    )


def request(address: str, context: Mapping[str, Any], index: int, key: str, run_id: str) -> Request:
    """The post of one context; `key` is the idempotency key. It is sent again only where the
    service itself says that it failed (429, 500, 503): whether an answer that never came is asked
    for again, the journal says."""
    headers = (
        ("Idempotency-Key", key),
        ("Beforehand-Simulation", str(index)),
        ("Beforehand-Run", run_id),
    )
    return Request(address, ENDPOINT, "", body=context, repeatable=False, headers=headers)


def parse(address: str, answer: str) -> Said:
    """The answer, checked; raises BadAnswer saying what is wrong with it."""
    where = f"the forecaster at {address}"
    body = _object(answer)
    if body is None:
        raise BadAnswer(f"{where} did not answer with a JSON object")
    p = body.get("probability")
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0.0 <= p <= 1.0:
        raise BadAnswer(
            f"{where} answered probability {_short(p)}: it must be a number from 0 to 1"
        )
    rationale = body.get("rationale")
    if rationale is not None and not isinstance(rationale, str):
        raise BadAnswer(f"{where} answered a rationale that is no text")
    cited = body.get("evidence_ids")
    if cited is None:
        cited = []
    if not isinstance(cited, list) or not all(isinstance(c, (str, int)) for c in cited):
        raise BadAnswer(f"{where} answered evidence_ids that are no list of ids")
    return Said(float(p), (rationale or "")[:LONGEST_TEXT], [str(c) for c in cited])


def usage(answer: str) -> tuple[int | None, float | None]:
    """(tokens, US dollars) that an answer states, as far as they make sense."""
    body = _object(answer) or {}
    tokens, cost = body.get("tokens"), body.get("cost")
    if isinstance(tokens, Mapping):
        found = [n for n in map(_amount, tokens.values()) if n is not None]
        counted = sum(found) if found else None
    else:
        counted = _amount(tokens)
    return None if counted is None else int(counted), _amount(cost)


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value < 1e12 else None


def _object(answer: str) -> dict[str, Any] | None:
    try:
        body = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_rate(text: str | None) -> tuple[Limit, ...]:
    """Limits from `10/s` or `600/min`; none for None. Raises InputError."""
    if not text:
        return ()
    count, _, unit = text.partition("/")
    seconds = {"s": 1.0, "min": 60.0, "h": 3600.0}.get(unit.strip())
    if seconds is None or not count.strip().isdecimal() or int(count) < 1:
        raise InputError(f"--rate {text!r}: write it as 10/s, 600/min or 1000/h")
    return (Limit(int(count), seconds),)
