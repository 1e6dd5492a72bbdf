"""Agents over A2A: the purple agent, which answers events, and the green one, which plays a whole
round with any purple agent and scores it.

Purple is sent an EventSpec (as data or as text; alone, or as `event`) and answers with a
PredictionRecord, as of the event's `forecast_at`, or now. Green is sent `{"participants":
{"purple": URL}, "config": {"horizon": "7d", …}}`, asks that agent about every event of the archive,
and answers with `{"winner", "detail"}`. Both are for programs of this machine.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from a2a.helpers import get_data_parts, get_text_parts, new_data_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    UnsupportedOperationError,
)
from msgspec import to_builtins
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware

from beforehand import __version__
from beforehand.clock import iso
from beforehand.config import Workspace
from beforehand.engine.runs import start
from beforehand.errors import BeforehandError, InputError, NotFound
from beforehand.forecast.base import Context, Decision, Opening
from beforehand.forecast.schemes.a2a import object_in_text
from beforehand.forecast.schemes.agent import PURPLE, PurpleAgent
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds import World
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.grid import parse_interval
from beforehand.jobs.benchmark.benchmark_job import BenchmarkRequest
from beforehand.jobs.benchmark.events import deadline, market_of
from beforehand.jobs.checks import settings
from beforehand.meter import CallCounter
from beforehand.records.benchmark import EventSpec, PredictionRecord
from beforehand.records.rows import MarketSeen
from beforehand.records.settles import rule_of
from beforehand.runs.query import shown
from beforehand.score.report.words import headline
from beforehand.serve.connections import USUAL
from beforehand.serve.guards import Body, LocalOnly
from beforehand.store.archive.reader import Archive

JSON = "application/json"
Answers = Callable[[Mapping[str, Any]], dict[str, Any]]
Log = Callable[[str], None]


@dataclass(frozen=True)
class Purple:
    """Answers events as of their instants, from a world."""

    agent: PurpleAgent
    world: World
    workspace: Workspace

    def __call__(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """A PredictionRecord for an EventSpec. Raises InputError for what is none, NoDecision where
        nothing is known to forecast from."""
        event, now = said.get("event", said), self.workspace.clock.now()
        try:
            spec = EventSpec.model_validate(event)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "it"
            raise InputError(f"no EventSpec was sent: {place}: {first['msg']}") from None
        t = deadline(spec) or now
        if t > now:
            raise InputError(f"event {spec.id!r} is to be forecast at {iso(t)}, which is not yet")
        gateway = Gateway(self.world, self.workspace.clock)
        view = gateway.at(t)
        text, price, name = spec.question, None, None
        try:
            name = view.resolve_id(market_of(spec))
            market = view.market(name)
            text = "\n\n".join(part for part in (market.question, market.rules) if part) or text
            price = view.odds(name).price
        except NotFound:
            pass  # A question that no market of this archive asks.
        context = Context(iso(t), MarketSeen(name or spec.id, text, price))
        try:
            rule = rule_of(spec)
        except InputError as error:
            raise InputError(f"event {spec.id!r}: {error}") from None
        made = self.agent.answer(context, CallCounter(), rule, known=name is not None)
        return _record(spec, t, made, self.agent)


def _record(spec: EventSpec, t: Any, made: Decision, agent: PurpleAgent) -> dict[str, Any]:
    record = PredictionRecord.model_validate(
        {
            "id": spec.id,
            "prediction": {
                "probability": made.probability,
                "rationale": [to_builtins(line) for line in made.evidence or ()],
                "analysis": made.rationale,
            },
            "metadata": {
                "model": agent.model_id,
                "timestamp": iso(t),
                "version": agent.version,
                "predictor_id": agent.name,
            },
        }
    )
    return dict(record.wire())


@dataclass(frozen=True)
class Green:
    """Plays a round: every settled market of the archive some time before its end, asked of a
    purple agent, scored and audited as `beforehand bench run` does."""

    archive: Path
    workspace: Workspace
    log: Log

    def __call__(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """`{"winner", "detail"}` for an EvalRequest. Raises InputError for what is none, and what a
        run raises."""
        asked, config = said.get("participants"), said.get("config") or {}
        if not isinstance(asked, Mapping) or not asked or not isinstance(config, Mapping):
            raise InputError('send {"participants": {"purple": "http://HOST:PORT"}, "config": {}}')
        names = _participants(asked)
        unknown = set(config) - {"horizon", "seed", "draws", "placebo"}
        if unknown:
            raise InputError(f"config: {', '.join(sorted(unknown))} is not known here")
        seed, draws, placebo = (_whole(config, key, usual) for key, usual in _USUAL.items())
        request = BenchmarkRequest(
            archive=self.archive,
            forecasters=",".join(["market", *names]),
            horizon=parse_interval(str(config.get("horizon", "7d"))),
            settings=settings(seed, draws, placebo),
        )
        done = start(request, replace(self.workspace, programs=False))
        run_id = done.folder.run_id
        self.log(f"run {run_id} is done")
        scores = shown(run_id, self.workspace, None)["scores"]
        rows = {row["forecaster"]: row for row in scores["leaderboard"]}
        beating = [row for row in rows.values() if row["verdict"] == "beats the market"]
        best = max(beating, key=_skill, default=None)
        return {
            "winner": "market" if best is None else best["forecaster"],
            "detail": {
                "run_id": run_id,
                "headline": headline(scores),
                "leaderboard": [_brief(row) for row in rows.values()],
                "audit": scores.get("audit"),
            },
        }


_USUAL = {"seed": 0, "draws": 2000, "placebo": 200}


_ADDRESS = re.compile(r"https?://[^\s,]+")


def _participants(asked: Mapping[str, Any]) -> list[str]:
    """The agents as forecasters. Raises InputError for anything but one address each: a name that
    came over the wire must not open anything else."""
    found = dict[str, str]()
    for role, url in asked.items():
        if not isinstance(url, str) or not _ADDRESS.fullmatch(url):
            raise InputError(f"participants: {role!r} needs one address, http://HOST:PORT")
        if (name := _name(role)) in found:
            raise InputError(f"participants: two would be called {name!r}")
        found[name] = f"{name}=a2a:{url}"
    return list(found.values())


def _whole(config: Mapping[str, Any], key: str, usual: int) -> int:
    value = config.get(key, usual)
    if type(value) is float and value.is_integer():  # As numbers come over A2A.
        value = int(value)
    if type(value) is not int:
        raise InputError(f"config: {key} must be a whole number, not {str(value)[:50]!r}")
    return value


def _name(role: object) -> str:
    name = "".join(c if c.isalnum() else "_" for c in str(role))[:60] or "purple"
    return name if name[0].isalpha() else f"p{name}"


def _skill(row: Mapping[str, Any]) -> float:
    found = row.get("skill_vs_market")
    return -1.0 if found is None else float(found)


def _brief(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("forecaster", "n", "missing", "brier", "skill_vs_market", "verdict", "isolation")
    return {name: row.get(name) for name in names}


class _Executor(AgentExecutor):
    """Answers a message with one object; what goes wrong is said as `{"error"}`."""

    def __init__(self, answers: Answers, log: Log) -> None:
        self._answers, self._log = answers, log

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Find the object in the message, answer it in a thread."""
        message = context.message
        try:
            said = None if message is None else object_in(message.parts)
            if said is None:
                raise InputError("the message holds no JSON object, neither as data nor as text")
            made = await asyncio.to_thread(self._answers, said)
        except BeforehandError as error:
            made = {"error": str(error)}
        except Exception as error:
            self._log(f"a message could not be answered: {error!r}")
            made = {"error": "this could not be answered: see the server's log"}
        await event_queue.enqueue_event(new_data_message(made, JSON, context.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """An answer is made at once: nothing can be cancelled."""
        raise UnsupportedOperationError


def object_in(parts: Any) -> Mapping[str, Any] | None:
    """The JSON object of a message: a data part, else one in its texts."""
    for data in get_data_parts(parts):
        if isinstance(data, Mapping):
            return data
    for text in get_text_parts(parts):
        if (found := object_in_text(text)) is not None:
            return found
    return None


SKILLS = {
    "purple": AgentSkill(
        id="forecast",
        name="Forecast an event",
        description="An EventSpec in, a PredictionRecord with typed, dated evidence out.",
        tags=["forecasting", "prediction-markets"],
        examples=['{"id": "POLYMARKET:0x…", "question": "…", "forecast_at": "2026-01-01T00:00Z"}'],
    ),
    "green": AgentSkill(
        id="evaluate",
        name="Play a round with a purple agent",
        description="Asks it about settled markets as they stood before their end, scores, audits.",
        tags=["evaluation", "forecasting"],
        examples=['{"participants": {"purple": "http://127.0.0.1:9010"}, "config": {}}'],
    ),
}


def card(kind: str, url: str) -> AgentCard:
    """An agent's card."""
    skill = SKILLS[kind]
    versions = ("1.0", "0.3")
    return AgentCard(
        name=f"beforehand {kind} agent",
        description=skill.description,
        version=__version__,
        default_input_modes=[JSON, "text/plain"],
        default_output_modes=[JSON],
        capabilities=AgentCapabilities(),
        skills=[skill],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=one)
            for one in versions
        ],
    )


def opened(kind: str, archive: Path, workspace: Workspace, model: str | None, log: Log) -> Answers:
    """What answers for an agent. Raises NotFound without an archive, and what the model raises."""
    world = RecordedWorld(Archive(archive))
    if kind == "green":
        return Green(archive.resolve(), workspace, log)
    entry = PURPLE if model is None else f"{PURPLE}:{model}"
    agent = PurpleAgent.open(entry, None, Opening(workspace, world=world))
    agent.check()
    assert isinstance(agent, PurpleAgent)
    return Purple(agent, world, workspace)


def application(kind: str, answers: Answers, url: str, log: Log) -> Starlette:
    """The server of one agent: its card, and JSON-RPC of both versions at `/`."""
    described = card(kind, url)
    handler = DefaultRequestHandler(
        agent_executor=_Executor(answers, log),
        task_store=InMemoryTaskStore(),
        agent_card=described,
    )
    return Starlette(
        routes=[
            *create_agent_card_routes(described),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
        ],
        middleware=[Middleware(LocalOnly), Middleware(Body, USUAL)],
    )
