"""A few lines that say how a forecaster made elsewhere is asked, and where its answer stands.

They follow its name after a `#`, and are part of it: `http://host:port/ask#p=result.p&percent`,
`a2a:http://host:port#p=p_yes`. Longer ones stand in a file (`#map=mine.toml`):

    [request]                      # sent instead of the context; words in braces are filled in
    prompt = "{question} It ends on {close_time}. {rules}"
    [answer]
    probability = "choices.0.p"    # where it stands
    rationale = "choices.0.why"
    percent = true
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

import orjson

from beforehand.clock import Clock, iso
from beforehand.errors import BadAnswer, InputError, NotFound
from beforehand.forecast.answers import WORDS, LooksLikePercent, read_probability
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds import World
from beforehand.ids import digest
from beforehand.records.rows import Context
from beforehand.store.files import read_bytes

KEYS = (
    "protocol", "p", "why", "percent", "map", "python", "as", "each", "network", "memoryless",
    "who", "columns", "timezone", "dates",
)  # fmt: skip
_OPTIONS = re.compile(r"\s*#\s*([a-z]+(?:=[^&#]*)?(?:&[^&#]*)*)$")
"""What follows the last `#`: words, each with a value or by itself. `./a#b.sh` is a name."""
_WORD = re.compile(r"\{(\w+)\}")
LONGEST_TEXT = 20_000
QUESTION = (
    "id", "question", "background", "rules", "close_time", "category", "venue", "ticker",
    "event_ticker", "url", "odds", "time",
)  # fmt: skip
"""What a request may be filled in with."""


def split_options(rest: str) -> tuple[str, dict[str, str]]:
    """(the name, its options) of `scheme:rest#key=value&key`; in a value, %26 stands for `&` and
    %2C for a comma. Raises InputError for an option that does not exist."""
    found = _OPTIONS.search(rest)
    if found is None:
        return rest, {}
    options = dict[str, str]()
    for part in found[1].split("&"):
        key, given, value = part.strip().partition("=")
        if key not in KEYS:
            near = get_close_matches(key, KEYS, 1)
            meant = f" (do you mean {near[0]}?)" if near else ""
            raise InputError(
                f"{rest[:100]!r}: there is no option {key!r}{meant}; after a # may follow "
                f"{', '.join(KEYS)}"
            )
        options[key] = unquote(value) if given else "yes"
    return rest[: found.start()], options


_TAKEN_BY = {
    "protocol": r"(?:[^=:]+=)?(?:a2a:)?https?://",
    "python": r"(?:[^=:]+=)?python:",
}
"""The names to which an option that is stated for all of them goes."""


def with_options(forecasters: str, options: Mapping[str, str]) -> str:
    """A list of forecasters, where every address that states no protocol gets the `protocol`, and
    every `python:` one the `python`. Raises InputError for an option that none of them takes."""
    entries, used = list[str](), set[str]()
    for entry in forecasters.split(","):
        plain, own = split_options(entry.strip())
        for key, kind in _TAKEN_BY.items():
            if key in options and key not in own and re.match(kind, plain):
                own[key] = options[key]
                used.add(key)
        said = written(own)
        entries.append(f"{plain}#{said}" if said else entry.strip())
    if left := sorted(options.keys() - used):
        raise InputError(f"--{left[0]}: none of the forecasters {forecasters[:200]} takes it")
    return ",".join(entries)


def written(options: Mapping[str, str]) -> str:
    """Options as they follow a `#`."""
    return "&".join(f"{name}={quote(value, safe=_PLAIN)}" for name, value in options.items())


_PLAIN = "/:.=+-_~@ ()[]{}!?*'"
"""What needs no quoting in a value."""


def flag(options: Mapping[str, str], key: str, rest: str) -> bool:
    """An option that is on or off. Raises InputError for another word."""
    said = options.get(key, "no").lower()
    if said not in ("yes", "no", "true", "false", "on", "off"):
        raise InputError(f"{rest[:100]!r}: {key} is yes or no, not {said!r}")
    return said in ("yes", "true", "on")


@dataclass(frozen=True)
class AnswerMap:
    """How a forecaster is asked and read. `probability` and `rationale` are paths in its answer
    (`a.0.b`); `request` is sent instead of the context, with an empty text for what is not known
    among its `texts`; `code` is the digest of the file that says so."""

    probability: str = "probability"
    rationale: str = "rationale"
    percent: bool = False
    request: Mapping[str, Any] | None = None
    texts: tuple[str, ...] = ()
    code: str | None = None

    def body(self, context: Context, question: Callable[[Context], Mapping[str, Any]]) -> Any:
        """What is sent: the context, or the request with the question filled in."""
        if self.request is None:
            return context.wire()
        sent = _filled(self.request, question(context))
        return {**sent, **{name: sent[name] or "" for name in self.texts if name in sent}}

    def answers(self, line: bytes) -> bool:
        """Whether a line of a program is an answer: an object with a probability where it stands,
        or a value by itself that is not merely a text with a number in it."""
        found = _json(line.decode("utf-8", "replace"))
        if isinstance(found, Mapping):
            try:
                _at(found, self.probability)
            except BadAnswer:
                return "error" in found
            return True
        if not isinstance(found, str):
            return True
        try:
            return read_probability(found, self.percent).rule != WORDS
        except BadAnswer:
            return False

    def kept(self, answer: str) -> str:
        """An answer in our words, beside itself: `{"probability": p, "rationale": text, "answer":
        …}`, with the tokens and the cost that it states; `{"error": …}` where it has no
        probability."""
        said = _json(answer)
        kept = stated(said) if isinstance(said, Mapping) else {}
        try:
            found = _at(said, self.probability)
            read = None if found is None else read_probability(found, self.percent)
        except BadAnswer as error:
            seen = isinstance(error, LooksLikePercent)
            hint = " (#percent, where all its numbers are in percent)" if seen else ""
            return _dumps({**kept, "error": f"no probability: {error}{hint}", "answer": said})
        kept["probability"] = None if read is None else read.p
        kept |= {} if read is None or read.rule is None else {"read_as": read.rule}
        try:
            why = _at(said, self.rationale)
        except BadAnswer:
            why = None
        kept["rationale"] = why[:LONGEST_TEXT] if isinstance(why, str) else ""
        return _dumps({**kept, "answer": said})


OURS = AnswerMap()
"""Our own words, both ways."""
PROPHET = AnswerMap(
    "p_yes",
    "rationale",
    request=MappingProxyType(
        {
            "event_ticker": "{event_ticker}",
            "market_ticker": "{ticker}",
            "title": "{question}",
            "subtitle": None,
            "description": "{background}",
            "category": "{category}",
            "rules": "{rules}",
            "close_time": "{close_time}",
        }
    ),
    texts=("category", "close_time"),  # Its schema takes no null there.
)
"""Prophet Arena's `/predict`."""
PROTOCOLS: Mapping[str, AnswerMap] = {"beforehand": OURS, "prophet": PROPHET}


def answer_map(rest: str, options: Mapping[str, str], folder: Path | None = None) -> AnswerMap:
    """How the forecaster with these options is asked and read; a `map` is a file as seen from a
    folder [that of this process]. Raises InputError for what cannot be."""
    name = options.get("protocol", "beforehand")
    if name not in PROTOCOLS:
        raise InputError(
            f"{rest[:100]!r}: no protocol {name!r}: there are {', '.join(PROTOCOLS)}, or state "
            "where the answer stands (p=path.to.it)"
        )
    found = PROTOCOLS[name]
    if "map" in options:
        found = _of_file((folder or Path.cwd()) / options["map"], found)
    return replace(
        found,
        probability=options.get("p", found.probability),
        rationale=options.get("why", found.rationale),
        percent=flag(options, "percent", rest) if "percent" in options else found.percent,
    )


def _of_file(path: Path, found: AnswerMap) -> AnswerMap:
    raw = read_bytes(path)
    try:
        body = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML: {error}") from None
    said, request = body.get("answer", {}), body.get("request")
    known = {"answer": said, "request": {} if request is None else request}
    if body.keys() - known.keys() or not all(isinstance(part, dict) for part in known.values()):
        raise InputError(f"{path}: write the tables [request] and [answer]")
    for name, kind in (("probability", str), ("rationale", str), ("percent", bool)):
        if not isinstance(said.get(name, kind()), kind):
            raise InputError(f"{path}: answer.{name} is a {kind.__name__}, not {said[name]!r}")
    if other := said.keys() - {"probability", "rationale", "percent"}:
        raise InputError(
            f"{path}: [answer] has probability, rationale and percent, no {min(other)}"
        )
    if unknown := sorted(set(_words(request)) - set(QUESTION)):
        raise InputError(
            f"{path}: {{{unknown[0]}}} is nothing that a question has: {', '.join(QUESTION)}"
        )
    return replace(found, request=request or found.request, code=digest(raw), **said)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _WORD.findall(value)
    for part in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _words(part)


def _filled(value: Any, question: Mapping[str, Any]) -> Any:
    """The request with its words in braces replaced. A text that is one word takes its value, as a
    number or null too."""
    if isinstance(value, str):
        if whole := _WORD.fullmatch(value):
            return question.get(whole[1])
        return _WORD.sub(lambda word: _told(question.get(word[1])), value)
    if isinstance(value, Mapping):
        return {name: _filled(part, question) for name, part in value.items()}
    return [_filled(part, question) for part in value] if isinstance(value, list) else value


def _told(value: object) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Questions:
    """The questions behind contexts, in the wording known at t."""

    world: World | None
    clock: Clock

    def __call__(self, context: Context) -> dict[str, Any]:
        """What there is of QUESTION; None where it is not known at t."""
        seen, market = context.market, None
        if self.world is not None:
            with suppress(NotFound):
                market = Gateway(self.world, self.clock).at(context.t).market(seen.id)
        venue, _, native = seen.id.rpartition(":")
        event = market.event_id if market and market.event_id else seen.id
        description = (seen.description or seen.id).partition("\n")
        found: dict[str, Any] = {
            "id": seen.id,
            "question": description[0],
            "background": None,
            "rules": description[2].strip() or None,
            "close_time": None,
            "category": None,
            "venue": venue or None,
            "ticker": native,
            "event_ticker": event.rpartition(":")[2],
            "url": None,
            "odds": seen.odds,
            "time": context.time,
        }
        if market is None or market.question is None:
            return found
        close = market.scheduled_close
        return found | {
            "question": market.question,
            "background": market.background,
            "rules": market.rules,
            "close_time": None if close is None else iso(close),
            "category": market.domain,
            "url": market.url,
        }


def stated(said: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens, the cost and the evidence that an answer states."""
    return {name: said[name] for name in ("tokens", "cost", "evidence_ids") if name in said}


def _json(answer: str) -> Any:
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError:
        return answer.strip()


def _at(said: Any, path: str) -> Any:
    """What stands at a path. An answer that is no object is the value itself."""
    if not isinstance(said, (Mapping, list)):
        return said
    for step in path.split("."):
        if isinstance(said, Mapping) and step in said:
            said = said[step]
        elif isinstance(said, list) and step.isdecimal() and int(step) < len(said):
            said = said[int(step)]
        else:
            there = ", ".join(map(str, said)) if isinstance(said, Mapping) else _kind(said)
            raise BadAnswer(
                f"there is no `{path}` in it: it has {there[:120] or 'nothing'} (say where it "
                "stands, as in #p=result.p)"
            )
    return said


def _kind(said: object) -> str:
    return f"{len(said)} items" if isinstance(said, list) else type(said).__name__


def _dumps(kept: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(kept).decode()
    except (TypeError, ValueError):  # It nests deeper than JSON can be written.
        return orjson.dumps({"error": "its answer nests too deeply to be kept"}).decode()
