"""What untrusted code may do, and the result of a run: one policy for every engine.

Allowed are ten modules (code mode adds asyncio), 30 seconds, 512 MB. Nothing stays from one run to
the next. Inside, the clock answers `now` and random is seeded.
"""

import builtins
import json
import keyword
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from beforehand.errors import InputError

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
CODE_MODULES = (*MODULES, "asyncio")
TIMEOUT_S = 30.0
MEMORY = 512 * 2**20
OUTPUT = 2**20
LONGEST_CODE = 2**20
LONGEST_INPUT = 64 * 2**20
RESERVED = frozenset(dir(builtins)) | {"input_data"}
INSTEAD = {
    "numpy": "statistics and math",
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
        check_name(key)
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


def check_name(key: object) -> None:
    """InputError if a key of the input cannot become a global of the code."""
    if not isinstance(key, str):
        raise InputError(f"input_data: the key {key!r:.60} must be text")
    if not key.isidentifier() or keyword.iskeyword(key):
        raise InputError(
            f"input_data: the key {key!r:.60} is not a Python name, and each key becomes a global: "
            'rename it, or nest it one level down, as {"data": {…}}'
        )
    if key in RESERVED or key.startswith("__"):
        raise InputError(
            f"input_data: the key {key!r:.60} would hide the builtin of that name: rename it"
        )
