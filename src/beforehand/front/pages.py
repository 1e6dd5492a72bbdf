"""The reference of the front door, written from the docstrings: `make docs` (python -m
beforehand.front.pages docs/python.md) writes the page, and a test compares the committed one with
it."""

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import beforehand
from beforehand.lazy import lazy
from beforehand.store.files import write_atomic

START = """\
# Python

Written from the docstrings by `make docs`. Importing `beforehand` loads nothing: its names are
loaded when they are first used. They make the same calls as the command line, and a run from
Python gives the same files as the same run from there. [notebooks/](notebooks/) has three to
start with (`pip install jupyterlab` beside it, or open them in your editor).

```python
import beforehand as bh

world = bh.simulate(seed=0)  # or bh.open_world("my-archive")


@bh.forecaster(free=True)
def mine(context):
    return 0.9 * context.odds + 0.05


run = bh.backtest(world, [mine, "market", "drift"], every="28d")
print(run["mine"].verdict, run["mine"].reasons)
print(bh.compare(run["mine"], run["drift"]))
print(run.forecasts.to_pandas().head())
assert run.verify().sound
```

Whatever is wrong with a request is said in one sentence: `beforehand.errors.InputError` for an
argument, `NotFound` for something that is not there, `NotConfigured` for a missing package or
key. All of them are `BeforehandError`. A run that was stopped (Ctrl-C, a budget) raises
`Interrupted` or `Stopped`, and `bh.open_run("latest").resume()` goes on with it, after a
spent budget with a larger one, `resume(max_calls=2000)`: nothing is paid for twice.

**How a callable is asked.** One question at a time, in order of time; a class may keep what it
likes, and begins each run as a new object. `memoryless=True` declares that it keeps nothing: it
is asked side by side. `free=True` declares that asking twice costs nothing: its answers are
recorded in batches, many times faster. `version=2` (raise it when the code changes) keeps
answers of old code apart. A callable of a module or of a file is found again by other
processes, so that `beforehand runs resume` goes on with its run; one of a notebook or of
`__main__` is known there alone: `bh.open_run(...).resume()` in that session, or the same
`bh.backtest(..., run_id=...)` in a new one. What raises is a recorded failure, with its
traceback in `run.failures`, and the run goes on.

What a callable pays for itself goes through its context: `context.meter.call(provider, request,
send, measure)` sends a request once, however often the run is resumed, and counts it against the
budget (`max_calls`, `max_cost`). `measure` reads from the answer what it cost: `lambda text:
bh.Usage(tokens=812, cost=0.0031)`. A probe asks for real: what a forecaster pays for is paid
there as well.

**How it is kept from the future.** Through its context, it sees what was known at t. It runs in
your process and could look elsewhere: the card says `trusted`. `bh.probe` finds out, and then
the card says `probed (0 of 200 futures)` or `caught by a probe`.

**Tables.** `leaderboard`, `forecasts`, `intervals`, `evidence`, `failures` and `calls` are
handed out by Arrow's PyCapsule interface: `polars.DataFrame(run.forecasts)`, `duckdb.sql("FROM
forecasts")` with `forecasts = run.forecasts`, `run.forecasts.to_pandas()`. Numbers are shared,
not copied. Times are in UTC, prices and probabilities from 0 to 1, ages in seconds, costs in US
dollars.
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "Worlds": ("open_world", "simulate", "import_files", "World", "View", "toolbox", "Toolbox"),
    "Forecasters": ("forecaster", "Context", "Decision", "ModelOptions"),
    "Runs": (
        "backtest",
        "score_forecasts",
        "open_run",
        "Run",
        "Standing",
        "Verification",
        "Table",
    ),
    "Questions and agents": ("ask", "Answer", "run_agent", "AgentRun"),
    "A server from another machine": ("Client",),
    "Comparing and probing": (
        "compare",
        "Comparison",
        "Usage",
        "probe",
        "Probe",
        "check_tool",
    ),
}


def page() -> str:
    """The whole page."""
    parts = [START]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _entry(name, getattr(beforehand, name))
    return "\n".join(parts).rstrip() + "\n"


def _entry(name: str, found: Any) -> Iterator[str]:
    """A function, or a class with what it has."""
    yield f"### `{name}`\n"
    if not inspect.isclass(found):
        yield f"```text\n{_call(f'bh.{name}', found)}\n```\n"
        yield _doc(found)
        return
    yield _doc(found)
    members = list(_members(found))
    if members:
        yield "| | |\n|---|---|"
        yield from (f"| `{call}` | {text} |" for call, text in members)
        yield ""


def _members(found: type[Any]) -> Iterator[tuple[str, str]]:
    """The public properties and methods of a class, with the first sentences of their docs."""
    for name, member in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(member, (property, cached_property, lazy)):
            yield name, _line(member.__doc__ or "")
        elif inspect.isfunction(member):
            yield _call(name, member, one_line=True), _line(inspect.getdoc(member) or "")


def _call(name: str, found: Any, one_line: bool = False) -> str:
    """How it is called; long calls are broken at their arguments."""
    signature = inspect.signature(found)
    shown = []
    star = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        if parameter.kind is parameter.VAR_KEYWORD:
            shown.append(f"**{parameter.name}")
            continue
        text = parameter.name if one_line else f"{parameter.name}{_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f"{'=' if one_line else ' = '}{parameter.default!r}"
        shown.append(text)
    result = "" if one_line else _type(signature.return_annotation, " -> ")
    flat = f"{name}({', '.join(shown)}){result}"
    if one_line or len(flat) <= 96:
        return flat.replace("|", "\\|") if one_line else flat
    return f"{name}(\n    " + ",\n    ".join(shown) + f",\n){result}"


def _type(annotation: Any, before: str = ": ") -> str:
    if annotation in (inspect.Parameter.empty, Any):
        return ""
    text = inspect.formatannotation(annotation).replace("typing.", "").replace("Union", "")
    return before + re.sub(r"\b(?:[a-z_0-9]+\.)+(?=\w)", "", text).replace("~", "")


def _doc(found: Any) -> str:
    return re.sub(r"(?m)^    (?=\S.*)", "    ", inspect.getdoc(found) or "") + "\n"


def _line(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split()).replace("|", "\\|")


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page().encode())
