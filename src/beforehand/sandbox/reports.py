"""Reading what untrusted code reports about itself. It may have written anything: the caller always
gets an error text and a value that can be passed on as JSON."""

import json
from dataclasses import dataclass
from typing import Any, TypedDict, TypeGuard

import orjson

from beforehand.sandbox.policy import Execution, Policy

LONGEST_ERROR = 4000
LONGEST_RESULT = 2**20


class Report(TypedDict, total=False):
    """What is reported about a run: `layers`, `refused` or `failed` by the jail before the code
    runs; `error` or `result` after it, when the code may have written anything."""

    layers: list[str]
    refused: str
    failed: object
    error: object
    result: object


def parse(raw: bytes) -> Report | None:
    """A report, or None if these bytes are not one."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if _is_object(found) else None


def _is_object(found: object) -> TypeGuard[Report]:
    """True for any JSON object: code that reads a key must accept any value there."""
    return isinstance(found, dict)


def error_of(report: Report | None) -> str | None:
    """The error that a report states, if it states one."""
    if report is None or "error" not in report:
        return None
    return clean(str(report["error"]) if report["error"] is not None else "unknown error")


def clean(text: str) -> str:
    """A text that fits and can be encoded."""
    return text[:LONGEST_ERROR].encode("utf-8", "replace").decode()


def plain(value: Any) -> Any:
    """A value that JSON can carry, or the beginning of its text."""
    try:
        if len(orjson.dumps(value)) <= LONGEST_RESULT:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return clean(repr(value))
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that cannot be shown"


def text(raw: bytes, limit: int) -> str:
    """Printed bytes as text of at most `limit` bytes; bytes that are not UTF-8 become a mark."""
    found = raw[:limit].decode("utf-8", "replace").encode()[:limit]
    return found.decode("utf-8", "ignore")


@dataclass(frozen=True)
class Ended:
    """How a run ended in an engine with a process, or an instance, of its own."""

    engine: str
    layers: tuple[str, ...]
    took: float

    def execution(
        self, printed: bytes, error: str | None, result: Any, policy: Policy
    ) -> Execution:
        """The Execution, within the limits of what may come out."""
        if len(printed) > policy.output:
            error = f"the output is longer than {policy.output:,} bytes: print less"
        return Execution(
            success=error is None,
            output=text(printed, policy.output),
            error=None if error is None else clean(error),
            execution_time_ms=self.took,
            engine=self.engine,
            layers=self.layers,
            result=plain(result),
        )
