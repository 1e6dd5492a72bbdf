"""One decision of a model, whole: what it was shown and told, what it wrote, what that printed, and
what each of its calls cost."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.clock import iso_us, to_us
from beforehand.forecast.prompts import prompt_of
from beforehand.front import tables as front
from beforehand.front.run import Run
from beforehand.jobs.checks import instant
from beforehand.runs.traces.decision import traced
from beforehand.sandbox.policy import DEFAULT
from beforehand.serve.api.base import ApiDep, Unpinned
from beforehand.serve.api.markets import SeenContext
from beforehand.serve.api.runs import RunId
from beforehand.serve.api.tables import CallRow, Filter, TraceWire, plain, there

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
        chosen = there(Run(folder, api.workspace), Filter(market_id, forecaster, at, at))
        rows, found, calls = traced(
            folder, api.journal(), chosen.market or market_id, at, forecaster, simulation
        )
        context = rows[0].context.wire()
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
