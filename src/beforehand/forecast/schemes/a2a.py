"""A forecaster behind an A2A agent (`a2a:http://host:port`): the event and its context go out as a
message, a PredictionRecord comes back.

Protocol: Agent2Agent over JSON-RPC, 1.0 or 0.3, as the agent's card says (a2a-protocol.org). The
message has the JSON as a data part, and once more as text for agents that read text. An answer is a
message, or a task whose artifacts hold it; a task that works on is asked for until it ends. On
record are the probability, the reason and the evidence of the answer, and the answer itself.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson
from pydantic import ValidationError

from beforehand.clock import iso
from beforehand.errors import BadAnswer, InputError, RateLimited, Refused, Unavailable
from beforehand.forecast.base import Context, Decision, Forecaster, Meter, Opening, scheme
from beforehand.forecast.mapping import OURS, AnswerMap, split_options
from beforehand.forecast.schemes.http import Address, provider, read_kept
from beforehand.gateway.transport import reach
from beforehand.records.benchmark import EvidenceItem
from beforehand.sources.base import Request
from beforehand.store.journal.calls import Usage

PREFIX, CARD = "a2a:", "/.well-known/agent-card.json"
LOOK_S, MOST_ITEMS, LONGEST_TEXT = 1.0, 100, 20_000
WORKING = ("submitted", "working")
DEEPEST = 8
"""Levels of an answer that are looked through for its parts."""


@dataclass(frozen=True)
class Place:
    """Where an agent takes messages, and whether it speaks the protocol's version 0.3."""

    path: str
    old: bool


@scheme("a2a", shown=("a2a:http://HOST:PORT",))
class A2AAgent(Address):
    """An agent that speaks A2A. It may keep something between two questions, so it is asked in
    order of time."""

    def __init__(self, entry: str, name: str | None, opening: Opening) -> None:
        super().__init__(entry, name, opening)
        self.url = split_options(entry)[0].removeprefix(PREFIX)
        parts = urlsplit(self.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        service = provider(origin, opening.limits, opening.timeout)
        self._service = replace(service, name=entry, title=f"the agent at {self.url}")
        self._waits, self._place = opening.timeout, None

    _place: Place | None

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError if nothing can be posted to the address, or if it holds a secret."""
        Address.open(rest.removeprefix(PREFIX), name, opening)
        return cls(rest, name, opening)

    def ready(self) -> None:
        """Read the agent's card. Raises Unavailable where nothing accepts a connection, InputError
        for a card that names no JSON-RPC address of this host."""
        reach(self.url, "the agent")
        self._found()

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Send the event, unless the journal has the answer."""
        body, limited = context.wire(), bool(self._service.limits)

        def send(key: str) -> str:
            said = self._exchange(self._message(context, key, meter), key, meter)
            return _as_text(_kept(said, None if self._map == OURS else self._map))

        turn = (lambda stop: self._open().turn(self.provider, "", stop)) if limited else None
        answer = meter.call(self.provider, body, send, self._measure, turn)
        if (error := orjson.loads(answer).get("error")) is not None:
            raise BadAnswer(f"the agent at {self.url}: {error}")
        return read_kept(self.provider, answer)

    @staticmethod
    def usage(answer: str) -> Usage:
        """Tokens and US dollars that the answer's metadata states."""
        return Address.usage(answer)

    def _message(self, context: Context, key: str, meter: Meter) -> dict[str, Any]:
        if self._map.request is None:
            return message_of(context, key, meter)
        return _worded(self._map.body(context, self._questions), key)

    def _exchange(self, message: Mapping[str, Any], key: str, meter: Meter) -> Any:
        """The result of SendMessage, once it is final; `{"error": …}` where there is none."""
        place = self._found()
        pause, waited = min(LOOK_S, self._waits / 4), 0.0
        method = "message/send" if place.old else "SendMessage"
        found = self._rpc(
            place, method, {"message": _old(message) if place.old else message}, key, meter
        )
        while (task := _task(found)) is not None and _state(task) in WORKING:
            if waited >= self._waits:
                return {"error": f"it works on after {self._waits:g} s"}
            time.sleep(pause)
            waited += pause
            method = "tasks/get" if place.old else "GetTask"
            try:
                found = self._rpc(place, method, {"id": task["id"]}, key, meter, again=True)
            except (BadAnswer, RateLimited, Refused, Unavailable):
                continue  # The message was taken: it is not sent again, whatever a look says.
        return found

    def _rpc(
        self, place: Place, method: str, params: Any, key: str, meter: Meter, again: bool = False
    ) -> Any:
        body = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        headers = (("A2A-Version", "0.3" if place.old else "1.0"), ("Idempotency-Key", key))
        asked = Request(self.provider, "", place.path, body=body, repeatable=again, headers=headers)
        limited = bool(self._service.limits)
        reply = self._open().fetch(asked, turn_taken=limited, still=partial(meter.holds, key)).text
        try:
            found = _json(reply, self.provider)
        except BadAnswer:
            return {"error": "it did not answer with a JSON object"}
        if (error := found.get("error")) is not None:
            said = error.get("message") if isinstance(error, Mapping) else error
            return {"error": f"it refused the message: {str(said)[:300]}"}
        return found.get("result")

    def _found(self) -> Place:
        with self._opening:
            if self._place is not None:
                return self._place
        text = self._open().fetch(Request(self.provider, "card", CARD)).text
        place = place_of(_json(text, self.provider), self.url)
        with self._opening:
            self._place = place
        return place


def place_of(card: Mapping[str, Any], url: str) -> Place:
    """Where messages go, as a card says. Raises InputError where it names another host, or no
    JSON-RPC."""
    listed, elsewhere = card.get("supportedInterfaces") or card.get("additionalInterfaces"), ""
    first = {"url": card.get("url"), "protocolBinding": card.get("preferredTransport", "JSONRPC"),
             "protocolVersion": card.get("protocolVersion")}  # fmt: skip
    for one in [*(listed if isinstance(listed, list) else []), first]:
        if not isinstance(one, Mapping) or not isinstance(one.get("url"), str):
            continue
        kind = one.get("protocolBinding") or one.get("transport")
        if str(kind).upper() != "JSONRPC":
            continue
        try:
            given = urlsplit(one["url"])
        except ValueError:
            continue
        if given.netloc != urlsplit(url).netloc:
            elsewhere = elsewhere or given.netloc
            continue
        version = str(one.get("protocolVersion") or card.get("protocolVersion") or "0.3")
        query = f"?{given.query}" if given.query else ""
        return Place(f"{given.path or '/'}{query}", version.startswith("0."))
    if elsewhere:
        raise InputError(
            f"the agent at {url} says that it takes messages at {elsewhere[:100]!r}: name that "
            "address, if it is meant"
        )
    raise InputError(f"the agent at {url} names no address for A2A over JSON-RPC in its card")


def message_of(context: Context, key: str, meter: Meter) -> dict[str, Any]:
    """The message: the event and its context as data and as text."""
    said = {"event": event_of(context), "context": context.wire(), "run": meter.run_id}
    return _worded(said, key)


def _worded(said: Any, key: str) -> dict[str, Any]:
    return {
        "messageId": key,
        "role": "ROLE_USER",
        "parts": [{"text": orjson.dumps(said).decode()}, {"data": said}],
    }


def event_of(context: Context) -> dict[str, Any]:
    """The context's market as an EventSpec that is asked at its instant."""
    market = context.market
    venue, _, native = market.id.rpartition(":")
    event: dict[str, Any] = {
        "id": market.id,
        "question": (market.description or market.id).partition("\n")[0],
        "source": {"type": venue.title() or "Market", "market_id": native},
        "forecast_at": context.time,
    }
    return event if market.odds is None else {**event, "baseline_probability": market.odds}


def _old(message: Mapping[str, Any]) -> dict[str, Any]:
    """The same message in the words of version 0.3."""
    parts = [{"kind": next(iter(part)), **part} for part in message["parts"]]
    return {**message, "kind": "message", "role": "user", "parts": parts}


def _task(result: Any) -> Mapping[str, Any] | None:
    if not isinstance(result, Mapping):
        return None
    found = result.get("task") if "task" in result else result
    return found if isinstance(found, Mapping) and "status" in found and "id" in found else None


def _state(task: Mapping[str, Any]) -> str:
    status = task["status"]
    state = status.get("state") if isinstance(status, Mapping) else status
    return str(state).lower().replace("-", "_").removeprefix("task_state_")


def _objects(result: Any) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in the parts of a result, those of data before those in texts."""
    texts = list[str]()
    for part in _parts(result):
        if isinstance(data := part.get("data"), Mapping):
            yield data
        if isinstance(text := part.get("text"), str):
            texts.append(text)
    for text in texts:
        if (found := object_in_text(text)) is not None:
            yield found


def object_in_text(text: str) -> Mapping[str, Any] | None:
    """The JSON object between the first and the last brace of a text; None where there is none."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = orjson.loads(text[start : end + 1]) if 0 <= start < end else None
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, Mapping) else None


def _parts(value: Any, deep: int = 0) -> Iterator[Mapping[str, Any]]:
    if not isinstance(value, Mapping) or deep > DEEPEST:
        return
    for key in ("task", "message", "status", "artifacts", "parts"):
        inner = value.get(key)
        if key == "parts" and isinstance(inner, list):
            yield from (part for part in inner if isinstance(part, Mapping))
        elif isinstance(inner, list):
            for one in inner:
                yield from _parts(one, deep + 1)
        else:
            yield from _parts(inner, deep + 1)


def _kept(result: Any, mapped: AnswerMap | None = None) -> dict[str, Any]:
    """What is kept of a result: the answer in our words, beside the result itself."""
    if isinstance(result, Mapping) and "error" in result:
        return {"error": str(result["error"])}
    kept: dict[str, Any] = {"result": result}
    told = list[str]()
    for found in _objects(result):
        if mapped is not None:
            read: dict[str, Any] = orjson.loads(mapped.kept(orjson.dumps(found).decode()))
            if "error" not in read:
                return kept | read
            told.append(read["error"])
            continue
        inner, meta = found.get("prediction"), found.get("metadata")
        said = inner if isinstance(inner, Mapping) else found
        if "probability" not in said:
            told += [str(found["error"])[:300]] if "error" in found else []
            continue
        if isinstance(meta, Mapping):
            kept |= {name: meta[name] for name in ("tokens", "cost") if name in meta}
        reason = said.get("analysis")
        kept["probability"] = said["probability"]
        kept["rationale"] = reason[:LONGEST_TEXT] if isinstance(reason, str) else ""
        kept["evidence"] = list(_evidence(said.get("rationale")))
        return kept
    return {**kept, "error": told[0]} if told else kept


def _as_text(kept: dict[str, Any]) -> str:
    try:
        return orjson.dumps(kept).decode()
    except (TypeError, ValueError):  # It nests deeper than JSON can be written.
        return orjson.dumps({"error": "its answer nests too deeply to be kept"}).decode()


def _evidence(items: Any) -> Iterator[dict[str, Any]]:
    """The cited items. One of which another field is none of an EvidenceItem keeps its type and
    source, and has no time: it fails the audit, as it should."""
    for item in items[:MOST_ITEMS] if isinstance(items, list) else ():
        if not isinstance(item, Mapping):
            continue
        try:
            found = EvidenceItem.model_validate(item)
        except ValidationError:
            kind, source = item.get("type"), item.get("source")
            if not isinstance(kind, str) or not isinstance(source, str):
                continue
            found = EvidenceItem(type=kind[:300], source=source[:300])
        line = {"type": found.type, "source": found.source, "snippet": found.snippet,
                "timestamp": iso(found.timestamp) if found.timestamp else None}  # fmt: skip
        figure = {"value": found.value, "unit": found.unit, "period": found.period}
        yield line | {name: value for name, value in figure.items() if value is not None}


def _json(text: str, who: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, Mapping):
        raise BadAnswer(f"{who} did not answer with a JSON object")
    return found
