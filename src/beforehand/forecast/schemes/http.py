"""A forecaster behind an address: the IntervalContext is posted as JSON, a probability comes back.

The request carries three headers. `Idempotency-Key` is the same for every attempt at one forecast,
so that a service that bills can tell a repetition from a new question. `Beforehand-Simulation` is
the simulation's number. `Beforehand-Run` is the run's id, so that a service that remembers can keep
runs apart. The answer is `{"probability": p}`, with optional `rationale` (text), `evidence_ids` (a
list), `tokens` (a number, or numbers by kind) and `cost` (US dollars). Other services are asked in
their own words, as a few options after the address say (`mapping.py`).
"""

import math
import re
import threading
from collections.abc import Mapping, Sequence
from functools import partial

import orjson
from msgspec import convert, structs, to_builtins

from beforehand.errors import BadAnswer, InputError
from beforehand.forecast.answers import read_probability
from beforehand.forecast.base import (
    TIMEOUT_S,
    Abstained,
    Context,
    Decision,
    Forecaster,
    Meter,
    Opening,
    scheme,
)
from beforehand.forecast.mapping import (
    OURS,
    Questions,
    answer_map,
    split_options,
)
from beforehand.gateway.opening import open_traffic
from beforehand.gateway.transport import reach
from beforehand.ids import digest
from beforehand.llm.names import split_address
from beforehand.records.rows import EvidenceLine
from beforehand.sources.base import Limit, Provider, Request
from beforehand.store.journal.calls import Usage
from beforehand.traffic import Traffic

LONGEST_TEXT, LONGEST_ERROR = 20_000, 500
ENDPOINT = "decide"
_SECRET = re.compile(r"(?:^|&)[^=&]*(?:key|token|secret|passw|auth|sig)[^=&]*=", re.IGNORECASE)


@scheme("http", "https")
class Address(Forecaster):
    """A forecaster at an address. It may keep something between two questions, so it is asked in
    order of time."""

    program = False
    stateful = False  # What it remembers lies elsewhere.

    def __init__(self, address: str, name: str | None, opening: Opening) -> None:
        super().__init__(address, name)
        plain, options = split_options(address)
        self._map = answer_map(address, options, opening.folder)
        self._questions = Questions(opening.world, opening.workspace.clock)
        self._service = provider(address, opening.limits, opening.timeout, plain)
        self.code = digest([address, self._map.code]) if self._map.code else None
        self._workspace = opening.workspace
        self._cost_per_call = opening.cost_per_call
        self._traffic: Traffic | None = None
        self._opening = threading.Lock()

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError if nothing can be posted to the address, or if it holds a secret."""
        parts = split_address(split_options(rest)[0], "forecaster", "http://host:port/path")
        if _SECRET.search(parts.query):
            raise InputError(
                f"the forecaster at {parts.hostname}: an address must hold no key, as it is stored "
                "with the results: let the service read it from its own environment"
            )
        return cls(rest, name, opening)

    def ready(self) -> None:
        """Raises Unavailable if nothing accepts a connection there."""
        reach(self._service.base, "the forecaster")

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Post the context, unless the journal has the answer."""
        body, limited = self._map.body(context, self._questions), bool(self._service.limits)

        def send(key: str) -> str:
            asked = request(self.provider, body, meter.simulation, key, meter.run_id)
            # A process that slept through its lease sends no context of an earlier instant.
            still = partial(meter.holds, key)
            answer = self._open().fetch(asked, turn_taken=limited, still=still).text
            return answer if self._map == OURS else self._map.kept(answer)

        def turn(stop: threading.Event) -> None:
            self._open().turn(self.provider, ENDPOINT, stop)

        # On record under the context, whatever was sent of it.
        asked = context.wire()
        answer = meter.call(self.provider, asked, send, self._measure, turn if limited else None)
        return parse(self.provider, answer)

    def _measure(self, answer: str) -> Usage:
        return measured(answer, self._cost_per_call)

    @staticmethod
    def usage(answer: str) -> Usage:
        """Tokens and US dollars that an answer states, as far as they make sense."""
        body = _object(answer) or {}
        tokens, cost = body.get("tokens"), body.get("cost")
        if isinstance(tokens, Mapping):
            found = [n for n in map(_amount, tokens.values()) if n is not None]
            counted = sum(found) if found else None
        else:
            counted = _amount(tokens)
        return Usage(None if counted is None else int(counted), _amount(cost))

    def _open(self) -> Traffic:
        with self._opening:
            if self._traffic is None:
                services = {self.provider: self._service}
                self._traffic = open_traffic(self._workspace, services)
            return self._traffic


def measured(answer: str, cost_per_call: float | None) -> Usage:
    """What an answer counts as: one that states no cost, such as one that is no JSON, counts as
    what a call is expected to cost."""
    found = Address.usage(answer)
    return Usage(found.tokens, cost_per_call) if found.cost is None else found


def provider(
    name: str, limits: Sequence[Limit] = (), timeout: float = TIMEOUT_S, address: str | None = None
) -> Provider:
    """The address [its name] as a service that the traffic layer knows, with its limits."""
    address = name if address is None else address
    return Provider(
        name=name,
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


def request(
    address: str, context: Mapping[str, object], index: int, key: str, run_id: str
) -> Request:
    """The POST of one context; `key` is the idempotency key. It is sent again only if the service
    itself says that it failed (429, 500, 503). If no answer came, the journal decides whether to
    ask again."""
    headers = (
        ("Idempotency-Key", key),
        ("Beforehand-Simulation", str(index)),
        ("Beforehand-Run", run_id),
    )
    return Request(address, ENDPOINT, "", body=context, repeatable=False, headers=headers)


def parse(address: str, answer: str) -> Decision:
    """The answer, checked; raises BadAnswer saying what is wrong with it."""
    where = f"the forecaster at {address}"
    body = _object(answer)
    if body is None:
        raise BadAnswer(f"{where} did not answer with a JSON object{_no_json(answer)}")
    p = body.get("probability")
    if "probability" not in body and isinstance(body.get("error"), str):
        raise BadAnswer(f"{where}: {str(body['error'])[:LONGEST_ERROR]}")
    if "probability" not in body:
        keys = ", ".join(map(str, body)) or "nothing"
        raise BadAnswer(
            f"{where} answered without a field `probability`: it has {keys[:120]} (say where it "
            "stands, as in #p=result.p)"
        )
    if p is None:
        raise Abstained(f"{where} answered no probability: null")
    try:
        read = read_probability(p)
    except BadAnswer as error:
        raise BadAnswer(f"{where} answered no probability from 0 to 1: {error}") from None
    rationale = body.get("rationale")
    if rationale is not None and not isinstance(rationale, str):
        raise BadAnswer(f"{where} answered a rationale that is not text")
    cited = body.get("evidence_ids")
    if cited is None:
        cited = []
    if not isinstance(cited, list) or not all(isinstance(c, (str, int)) for c in cited):
        raise BadAnswer(f"{where} answered evidence_ids that are not a list of ids")
    rule = read.rule or body.get("read_as")
    return Decision(
        read.p,
        rationale=(rationale or "")[:LONGEST_TEXT],
        evidence_ids=[str(c) for c in cited],
        read_as=rule if isinstance(rule, str) else None,
    )


def kept_text(said: Decision) -> str:
    """A decision as the journal keeps it."""
    body: dict[str, object] = {
        "probability": said.probability,
        "rationale": said.rationale,
        "evidence_ids": [str(cited) for cited in said.evidence_ids],
    }
    if said.confidence is not None:
        body["confidence"] = said.confidence
    if said.audit is not None:
        body["audit"] = said.audit
    if said.read_as is not None:
        body["read_as"] = said.read_as
    if said.evidence is not None:
        body["evidence"] = [to_builtins(line) for line in said.evidence]
    return orjson.dumps(body).decode()


def read_kept(name: str, text: str) -> Decision:
    """The decision that `kept_text` wrote. Raises BadAnswer where it is none."""
    found, body = parse(name, text), orjson.loads(text)
    return structs.replace(
        found,
        confidence=body.get("confidence"),
        audit=body.get("audit"),
        evidence=convert(body.get("evidence"), list[EvidenceLine] | None),
    )


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value < 1e12 else None


def _object(answer: str) -> dict[str, object] | None:
    try:
        body = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _no_json(answer: str) -> str:
    """Why a text is no JSON, where one of two common slips is seen."""
    if re.search(r":\s*-?(NaN|Infinity)\b", answer):
        return ": JSON has no NaN and no Infinity (write null where there is no probability)"
    return " (keys and texts stand in double quotes)" if answer.lstrip().startswith("{'") else ""


def parse_rate(text: str | None) -> tuple[Limit, ...]:
    """Limits from `10/s` or `600/min`; none for None. Raises InputError."""
    if not text:
        return ()
    count, _, unit = text.partition("/")
    seconds = {"s": 1.0, "min": 60.0, "h": 3600.0}.get(unit.strip())
    if seconds is None or not count.strip().isdecimal() or int(count) < 1:
        raise InputError(f"--rate {text!r}: write it as 10/s, 600/min or 1000/h")
    return (Limit(int(count), seconds),)
