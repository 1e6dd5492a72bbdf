"""One decision of a model, whole: what it was shown and told, what it wrote, what that printed, and
what each of its calls cost."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.clock import iso_us, to_us
from beforehand.errors import NotFound
from beforehand.forecast.prompts import prompt_of
from beforehand.front import tables as front
from beforehand.front.run import Run
from beforehand.jobs.checks import instant
from beforehand.records.rows import IntervalRow, label
from beforehand.runs.rows import read_traces
from beforehand.sandbox.policy import DEFAULT
from beforehand.serve.api.base import ApiDep, Unpinned
from beforehand.serve.api.markets import SeenContext
from beforehand.serve.api.runs import RunId
from beforehand.serve.api.tables import CallRow, Filter, TraceWire, groups, plain, there

router = APIRouter(prefix="/api/runs/{run_id}", tags=["rows"], dependencies=[Unpinned])


class PromptWire(TypedDict):
    """What a model was told, made again from the context on record. `arm` is code or direct."""

    arm: str
    instructions: str
    text: str


class SandboxLimits(TypedDict):
    """What bounds a program of a model: wall time in seconds, memory and output in bytes."""

    seconds: float
    memory: int
    output: int


class WholeTrace(TypedDict):
    """A decision of a model. `traces` holds each attempt in order (code, then a direct answer where
    code gave none), `prompts` what it was told in each, `calls` the requests on record."""

    run_id: str
    market_id: str
    time: str
    forecaster: str
    context: SeenContext
    traces: list[TraceWire]
    prompts: list[PromptWire]
    calls: list[CallRow]
    limits: SandboxLimits


@router.get("/trace", response_model=WholeTrace)
def trace(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    market_id: Annotated[str, Query(description="The market (VENUE:id).")],
    time: Annotated[str, Query(description="The instant (ISO 8601).")],
    forecaster: Annotated[str, Query(description="The forecaster.", max_length=200)],
    simulation: Annotated[int, Query(ge=0, le=1000, description="Which simulation.")] = 0,
) -> Response:
    """How a model came to one decision."""
    folder, at = api.folder(run_id), to_us(instant("time", time))

    def made() -> object:
        path = folder.path / "intervals.jsonl"
        run = Run(folder, api.workspace)
        chosen = there(run, Filter(market_id, forecaster, at, at))
        found_here = groups(path, chosen) if path.is_file() else ()
        mine = [row for _, group in found_here for row in group if _said(row, forecaster)]
        if not mine:
            raise NotFound(f"{forecaster} said nothing about {chosen.market} at {iso_us(at)}")
        found = [
            one
            for one in read_traces(folder.path / "traces.jsonl")
            if (one.market_id, one.time) == (chosen.market, mine[0].time)
            and label(one.model_id) == forecaster
            and one.simulation_index == simulation
        ]
        context = mine[0].context.wire()
        keys = {key for one in found for key in one.calls}
        journal = api.journal()
        calls = [
            row
            for row in (journal.calls.rows(folder.run_id) if journal is not None else ())
            if row["call_key"] in keys
        ]
        return {
            "run_id": folder.run_id,
            "market_id": chosen.market,
            "time": iso_us(at),
            "forecaster": forecaster,
            "context": context,
            "traces": [msgspec.to_builtins(one) for one in found],
            "prompts": [
                {"arm": one.arm, "instructions": prompt.instructions, "text": prompt.text}
                for one in found
                if one.arm == "code" or one.arm == "direct"
                for prompt in [prompt_of(one.arm, context)]
            ],
            "calls": plain(front.calls(calls)),
            "limits": {
                "seconds": DEFAULT.timeout,
                "memory": DEFAULT.memory,
                "output": DEFAULT.output,
            },
        }

    return api.answers.reply(request, made)


def _said(row: IntervalRow, forecaster: str) -> bool:
    names = [one.model_id for one in row.decisions] + [one.model_id for one in row.failures]
    return any(label(name) == forecaster for name in names)
