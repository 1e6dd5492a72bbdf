"""Small readers that every vendor's JSON needs: numbers in strings, JSON in strings, dates."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import orjson

from beforehand.errors import BadAnswer, BeforehandError

P = ParamSpec("P")
T = TypeVar("T")


MALFORMED = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    OverflowError,
    OSError,
    RecursionError,
)
"""What a parser runs into where an answer is not as expected."""
_LEFT_OUT: ContextVar[list[str] | None] = ContextVar("rows left out", default=None)


@contextmanager
def noting() -> Iterator[list[str]]:
    """The rows that are left out in this context, each as the reason."""
    noted = list[str]()
    token = _LEFT_OUT.set(noted)
    try:
        yield noted
    finally:
        _LEFT_OUT.reset(token)


def each(items: Iterable[object], read: Callable[[Any], T]) -> list[T]:
    """What is read of each row. An odd row costs itself alone, and is noted; an answer of which no
    row can be read has another form than is known here: raises BadAnswer."""
    found, failed = list[T](), list[str]()
    for item in items:
        try:
            found.append(read(item))
        except (BadAnswer, *MALFORMED) as error:
            failed.append(str(error).splitlines()[0][:200] if str(error) else type(error).__name__)
    if failed and not found:
        raise BadAnswer(failed[0])
    if (noted := _LEFT_OUT.get()) is not None:
        noted += failed
    return found


def answer(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a parser: an error caused by a malformed answer is raised as BadAnswer."""

    def decorate(parse: Callable[P, T]) -> Callable[P, T]:
        @wraps(parse)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return parse(*args, **kwargs)
            except BadAnswer as error:
                text = str(error)
                raise BadAnswer(text if text.startswith(what) else f"{what}: {text}") from None
            except BeforehandError:
                raise
            except MALFORMED as error:
                reason = str(error).splitlines()[0][:200] if str(error) else ""
                raise BadAnswer(
                    f"{what} does not have the expected shape ({type(error).__name__}: {reason})"
                ) from None

        return guarded

    return decorate


def number(value: Any) -> float | None:
    """A float from a number or a numeric string; None for null and ""."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise BadAnswer(f"{value!r} is not a number") from None
    if result != result or result in (float("inf"), float("-inf")):
        raise BadAnswer(f"{value!r} is not a finite number")
    return result


def probability(value: object) -> float | None:
    """A number in [0, 1]; None for null and ""."""
    result = number(value)
    if result is not None and not 0.0 <= result <= 1.0:
        raise BadAnswer(f"{value!r} is not a price in [0, 1]")
    return result


def instant(value: object) -> datetime | None:
    """ISO 8601 as vendors write it: `Z`, `+00`, a space for the T; without a zone it is UTC."""
    if value is None or value == "":
        return None
    text = str(value).strip().replace(" ", "T", 1)
    if len(text) > 3 and text[-3] in "+-" and text[-2:].isdigit():
        text += ":00"
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise BadAnswer(f"{value!r} is not an ISO 8601 time") from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def seconds(value: object) -> datetime:
    """Seconds since 1970, within the years we know."""
    stamp = number(value)
    if stamp is None or not 0 <= stamp < 253_402_214_400:
        raise BadAnswer(f"{value!r} is not a time in seconds since 1970")
    return datetime.fromtimestamp(stamp, UTC)


def text(value: object) -> str | None:
    """A string from a string or a number; None for null and ""."""
    if value is None or value == "":
        return None
    if isinstance(value, (dict, list)):
        raise BadAnswer(f"a text was expected, not a {type(value).__name__}")
    return str(value)


def decode_json(body: str | bytes, what: str) -> Any:
    """The JSON in an answer, or BadAnswer."""
    try:
        return orjson.loads(body)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        start = body[:60] if isinstance(body, str) else body[:60].decode("utf-8", "replace")
        raise BadAnswer(f"{what} did not answer with JSON but with {start!r}") from None


def embedded(value: Any) -> list[Any]:
    """A list that may itself be JSON inside a string; [] for null and ""."""
    if value is None or value == "":
        return []
    if isinstance(value, list):
        return value
    try:
        parsed = orjson.loads(value)
    except (orjson.JSONDecodeError, TypeError):
        raise BadAnswer(f"{value!r} is not a JSON list") from None
    if not isinstance(parsed, list):
        raise BadAnswer(f"{value!r} is not a JSON list")
    return parsed


def required(raw: Mapping[str, object], key: str) -> object:
    """A key that must be there and not empty."""
    value = raw.get(key)
    if value is None or value == "":
        raise BadAnswer(f"the field {key!r} is missing")
    return value


def mapping(value: object, what: str) -> Mapping[str, object]:
    """A JSON object, or BadAnswer."""
    if not isinstance(value, dict):
        raise BadAnswer(f"{what} should be a JSON object, not {type(value).__name__}")
    return value


def rows(value: object, what: str) -> list[Any]:
    """A JSON list; null counts as empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadAnswer(f"{what} should be a list, not {type(value).__name__}")
    return value
