"""What untrusted code may do, and the result of a run: one policy for every engine.

Allowed are ten modules (where a model's own code runs also what else of the standard library only
computes, and numpy where it is asked for), 30 seconds, 512 MB. Nothing stays from one run to the
next. Inside, the clock answers `now` and random is seeded.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from beforehand.errors import InputError
from beforehand.sandbox.program import global_names

MODULES = (
    "json",
    "math",
    "datetime",
    "statistics",
    "itertools",
    "functools",
    "collections",
    "re",
    "string",
    "random",
)
STANDARD = (
    *("abc", "array", "base64", "bisect", "calendar", "cmath", "contextlib", "copy", "csv"),
    *("dataclasses", "decimal", "difflib", "enum", "fractions", "graphlib", "heapq", "numbers"),
    *("operator", "pprint", "textwrap", "types", "typing", "unicodedata"),
)
"""What else of the standard library only computes: for code mode and for models' decisions."""
PURE_MODULES = (*MODULES, *STANDARD)
CODE_MODULES = (*PURE_MODULES, "asyncio")
ON_REQUEST = ("numpy",)
"""What `run-code --allow` adds."""
TIMEOUT_S = 30.0
MEMORY = 512 * 2**20
OUTPUT = 2**20
LONGEST_CODE = 2**20
LONGEST_INPUT = 64 * 2**20
INSTEAD = {
    "numpy": "statistics and math (or run-code --allow numpy)",
    "pandas": "collections and statistics",
    "scipy": "statistics",
    "time": "datetime",
    "calendar": "datetime",
    "decimal": "math",
    "fractions": "math",
    "operator": "functools",
    "secrets": "random",
    "textwrap": "string",
    "csv": "json and str.split",
    "os": "input_data (there are no files and no environment)",
    "pathlib": "input_data (there are no files)",
    "io": "input_data (there are no files)",
    "requests": "input_data (there is no network)",
    "urllib": "input_data (there is no network)",
    "http": "input_data (there is no network)",
    "socket": "input_data (there is no network)",
}
"""What to use in place of a module that is asked for often and is not allowed."""

Tools = Mapping[str, Callable[..., Any]]
"""What the code may await, by name. The functions run outside, on threads, and take keywords."""


@dataclass(frozen=True)
class Policy:
    """The limits of one run. `timeout` in seconds of wall time, `memory` and `output` in bytes;
    `now` is what the clock answers (None: the real time), `seed` starts random; `stop`, once set,
    ends a run in the jail."""

    timeout: float = TIMEOUT_S
    memory: int = MEMORY
    output: int = OUTPUT
    now: datetime | None = None
    seed: int = 0
    modules: tuple[str, ...] = MODULES
    stop: threading.Event | None = field(default=None, compare=False)


DEFAULT = Policy()


@dataclass(frozen=True)
class Execution:
    """The result of a run. `output` is what was printed, `result` the value of a last expression
    (JSON, else its text). `layers` are the security layers that were active while the code ran."""

    success: bool
    output: str
    error: str | None
    execution_time_ms: float
    engine: str = ""
    layers: tuple[str, ...] = ()
    result: Any = None
    peak_mb: float | None = None
    notes: tuple[str, ...] = field(default=())

    def wire(self) -> dict[str, Any]:
        """The documented four keys; engine, layers and the rest under `_meta`."""
        meta: dict[str, object] = {"engine": self.engine, "layers": list(self.layers)}
        if self.result is not None:
            meta["result"] = self.result
        if self.peak_mb is not None:
            meta["peak_mb"] = round(self.peak_mb, 1)
        if self.notes:
            meta["notes"] = list(self.notes)
        return {
            "success": self.success,
            "output": self.output,
            "error": self.error,
            "execution_time_ms": round(self.execution_time_ms, 3),
            "_meta": meta,
        }


def check(code: object, input_data: object, policy: Policy) -> tuple[bytes, bytes]:
    """(the code, the input as JSON), or InputError: what cannot be run in any engine.

    The code is not parsed here: a hostile source is compiled where it runs.
    """
    if not isinstance(code, str):
        raise InputError(f"code must be text, not {type(code).__name__}")
    if not 0 < policy.timeout <= TIMEOUT_S:
        raise InputError(
            f"the timeout must lie above 0 and at most {TIMEOUT_S:g} s, not {policy.timeout:g}"
        )
    try:
        source = code.encode()
    except UnicodeEncodeError:
        raise InputError("the code is not valid Unicode (it holds a lone surrogate)") from None
    if len(source) > LONGEST_CODE:
        raise InputError(
            f"the code has {len(source):,} bytes, and may have {LONGEST_CODE:,}: pass data as "
            "input_data"
        )
    if input_data is None:
        input_data = {}
    if not isinstance(input_data, Mapping):
        raise InputError(
            f"input_data must be an object of names and values, not {input_data!r:.60}"
        )
    for key in input_data:
        if not isinstance(key, str):
            raise InputError(f"input_data: the key {key!r:.60} must be text")
    try:
        raw = orjson.dumps(dict(input_data))
        if b"null" in raw:  # Or what orjson makes of NaN and infinities.
            raw = json.dumps(dict(input_data)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"input_data is not JSON: {error}") from None
    if len(raw) > LONGEST_INPUT:
        raise InputError(
            f"input_data has {len(raw):,} bytes as JSON, and may have {LONGEST_INPUT:,}: pass less"
        )
    return source, raw


def not_global(input_data: object, functions: Iterable[str]) -> str | None:
    """A note on the keys that are in `input_data` alone, or None where all are globals too."""
    if not isinstance(input_data, Mapping):
        return None
    left = {*input_data} - {*global_names(input_data, functions)}
    if not left:
        return None
    shown = ", ".join(f"{key!r:.40}" for key in sorted(left)[:5])
    more = f" and {len(left) - 5} more" if len(left) > 5 else ""
    return f"in input_data, but not globals: {shown}{more}"
