"""The `walk` and `collect` actions: forecast a chunk of markets through time, and join the chunks.

Baselines are computed for a whole chunk at once. A forecaster at an address is asked interval by
interval, since its context holds what was decided before; within an interval all addresses and
simulations are asked side by side.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from beforehand.clock import Clock, from_us, iso, to_us
from beforehand.config import Home
from beforehand.engine.context import StepContext
from beforehand.errors import BadAnswer, Refused
from beforehand.forecast import external
from beforehand.forecast.baselines import Baseline
from beforehand.gateway import Audit, Gateway, RecordedWorld
from beforehand.gateway.opening import open_traffic
from beforehand.gateway.panel import Evidence, Panel, PanelBuilder
from beforehand.ids import digest
from beforehand.records.backtest import ExperimentConfig, forecasts
from beforehand.sources.providers import Limit
from beforehand.store.calls import Usage
from beforehand.store.files import write_atomic
from beforehand.store.runs import RunFolder
from beforehand.traffic import Traffic

PREVIOUS = 10
SIDE_BY_SIDE = 32
"""Threads that ask within one interval; the run's concurrency caps the calls."""
KINDS = ("intervals", "predictions")


@dataclass(frozen=True)
class Replacement:
    """From `at` on, other models stand in for some: what a fork changes."""

    at: datetime
    models: Mapping[str, str] = field(default_factory=dict)

    def apply(self, models: Sequence[str], t: int) -> list[str]:
        """The models that speak at `t` (microseconds)."""
        if t < to_us(self.at):
            return list(models)
        return list(dict.fromkeys(self.models.get(model, model) for model in models))

    def ever(self, models: Sequence[str]) -> list[str]:
        """Every model that speaks at some time."""
        return list(dict.fromkeys([*models, *(self.models.get(m, m) for m in models)]))


NO_REPLACEMENT = Replacement(from_us(0))


class Asker:
    """Asks forecasters at addresses, through the traffic limits and the journal."""

    def __init__(
        self, addresses: Sequence[str], home: Home, limits: tuple[Limit, ...], timeout: float
    ) -> None:
        self._providers = {name: external.provider(name, limits, timeout) for name in addresses}
        self._home = home
        self._traffic: Traffic | None = None
        self._opening = threading.Lock()

    def ask(
        self, address: str, body: Mapping[str, Any], index: int, context: StepContext
    ) -> external.Said:
        """One answer; raises Refused or BadAnswer where there is none and never will be."""
        traffic = self._open()
        repeatable, limited = context.policy == "resend", bool(self._providers[address].limits)

        def send(key: str) -> str:
            asked = external.request(address, body, index, key, repeatable)
            return traffic.fetch(asked, turn_taken=limited).text

        def turn(stop: threading.Event) -> None:
            traffic.turn(address, external.ENDPOINT, stop)

        answer = context.call(address, body, index, send, _usage, turn if limited else None)
        return external.parse(address, answer)

    def _open(self) -> Traffic:
        with self._opening:
            if self._traffic is None:
                self._traffic = open_traffic(self._home, providers=self._providers)
            return self._traffic


def _usage(answer: str) -> Usage:
    return Usage(*external.usage(answer))


class Walker:
    """The actions of one run. Safe for threads: each step has a trail of its own."""

    def __init__(
        self,
        world: RecordedWorld,
        clock: Clock,
        folder: RunFolder,
        models: Mapping[str, Baseline],
        asker: Asker | None = None,
        replacement: Replacement = NO_REPLACEMENT,
    ) -> None:
        self._world, self._clock, self._folder = world, clock, folder
        self._models, self._asker, self._replacement = models, asker, replacement
        self._recorded = [n.removeprefix("recorded:") for n in models if n.startswith("recorded:")]

    def walk(
        self, args: Mapping[str, Any], _: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        """Forecast one chunk of markets; keeps its intervals and predictions as parts."""
        configs = [ExperimentConfig.model_validate(raw) for raw in args["experiments"]]
        gateway = Gateway(self._world, self._clock)
        builder = PanelBuilder(gateway, self._recorded)
        pairs = [(config.market_id, instants(config)) for config in configs]
        panel = builder.build(pairs, Evidence(configs[0].search_config.max_results))
        speakers = self._replacement.ever(configs[0].models)
        baselines = {
            name: self._models[n].forecast(panel) for name in speakers if (n := bare(name))
        }
        intervals, predictions = list[bytes](), list[bytes]()
        ends = np.cumsum([len(t) for _, t in pairs]).tolist()
        starts = {0, *ends}
        previous: list[dict[str, Any]] = []
        for i in range(len(panel)):
            if i in starts:
                previous = []
            seen = _context(panel, i, previous)
            names = self._replacement.apply(configs[0].models, int(panel.t[i]))
            said = {name: float(baselines[name][i]) for name in names if name in baselines}
            asked = [name for name in names if name not in baselines]
            decided = self._decide(panel, i, names, said)
            if asked:
                decided |= self._ask(asked, configs[0].num_sims, seen, context)
            interval = self._interval(panel, i, seen, [d for n in names for d in decided[n]])
            mean = interval["aggregate"]["probability"]
            if mean is not None:
                previous.append({"time": seen["time"], "aggregated_probability": mean})
            intervals.append(orjson.dumps(interval))
            predictions += [
                orjson.dumps(row)
                for n in names
                if (row := self._prediction(panel, i, n, decided[n]))
            ]
        context.keep("intervals", b"\n".join(intervals))
        context.keep("predictions", b"\n".join(predictions))
        return {
            "part": args["part"],
            "intervals": len(intervals),
            "audit": gateway.audit.wire(),
        }

    def collect(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        """Join the parts in order into intervals.jsonl and predictions.jsonl."""
        order = sorted(outputs, key=lambda task: outputs[task]["part"])
        for kind in KINDS:
            content = [data for task in order if (data := context.part(task, kind))]
            write_atomic(
                self._folder.path / f"{kind}.jsonl", b"\n".join(content) + b"\n" * bool(content)
            )
        audit = Audit()
        for task in order:
            audit.add(outputs[task]["audit"])
        return {
            "intervals": sum(output["intervals"] for output in outputs.values()),
            "audit": audit.wire(),
            "files": self._folder.digests(*(f"{kind}.jsonl" for kind in KINDS)),
        }

    def _decide(
        self, panel: Panel, i: int, names: Sequence[str], said: Mapping[str, float]
    ) -> dict[str, list[dict[str, Any]]]:
        """The baselines' decisions, each a list of one."""
        at, decided = iso(from_us(panel.t[i])), {}
        cited = [d.id for d in panel.documents[i]]
        for name in names:
            if name not in said:
                continue
            p, model = said[name], self._models[bare(name)]
            decided[name] = [
                {**_who(name, 0), "error": "no forecast known at t"}
                if p != p
                else _decision(name, 0, "baseline", p, model.says, cited if model.cites else [], at)
            ]
        return decided

    def _ask(
        self, names: Sequence[str], sims: int, seen: dict[str, Any], context: StepContext
    ) -> dict[str, list[dict[str, Any]]]:
        """The decisions of forecasters at addresses, in a fixed order whoever answers first."""
        questions = [(name, index) for name in names for index in range(sims)]

        def one(question: tuple[str, int]) -> dict[str, Any]:
            name, index = question
            assert self._asker is not None
            try:
                answer = self._asker.ask(name, seen, index, context)
            except (Refused, BadAnswer) as error:
                return {**_who(name, index), "error": str(error)}
            shown = {snippet["id"] for snippet in seen["search_snippets"]}
            cited = [c for c in answer.evidence_ids if c in shown]
            decision = _decision(
                name, index, "external", answer.probability, answer.rationale, cited, seen["time"]
            )
            if unshown := [c for c in answer.evidence_ids if c not in shown]:
                decision["unshown_evidence_ids"] = unshown
            return decision

        if len(questions) == 1:
            found = [one(questions[0])]
        else:
            with ThreadPoolExecutor(min(len(questions), SIDE_BY_SIDE)) as pool:
                found = list(pool.map(one, questions))
        decided: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for (name, _), decision in zip(questions, found, strict=True):
            decided[name].append(decision)
        return decided

    def _interval(
        self, panel: Panel, i: int, seen: dict[str, Any], decided: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        decisions = [d for d in decided if "error" not in d]
        spoken = [d["probability"] for d in decisions]
        mean = sum(spoken) / len(spoken) if spoken else None
        body: dict[str, Any] = {
            "market_id": panel.market[i],
            "time": seen["time"],
            "context": seen,
            "decisions": decisions,
            "failures": [d for d in decided if "error" in d],
            "aggregate": {
                "method": "mean",
                "probability": mean,
                "decision": None if mean is None else ("YES" if mean >= 0.5 else "NO"),
                "n": len(spoken),
            },
        }
        return {"run_id": self._folder.run_id, **body, "digest": digest(body)}

    def _prediction(
        self, panel: Panel, i: int, name: str, decided: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """A model's PredictionRecord: the mean of its simulations, and what it cites."""
        made = [d for d in decided if "error" not in d]
        if not made:
            return None
        cited = {c for d in made for c in d["key_evidence_ids"]}
        baseline = self._models.get(bare(name))
        return {
            "id": panel.market[i],
            "prediction": {
                "probability": next(iter(forecasts(made).values())),
                "rationale": _evidence(panel, i, cited),
                "analysis": made[0]["rationale"],
            },
            "metadata": {
                "model": name,
                "timestamp": iso(from_us(panel.t[i])),
                "version": baseline.version if baseline else external.VERSION,
                "predictor_id": bare(name) or name,
            },
        }


def bare(name: str) -> str:
    """A baseline's own name; empty for what is no baseline."""
    return name.removeprefix("baseline:") if name.startswith("baseline:") else ""


def instants(config: ExperimentConfig) -> npt.NDArray[np.int64]:
    """The instants of one experiment, in microseconds."""
    step = config.interval_minutes * 60_000_000
    return np.arange(to_us(config.start_time), to_us(config.end_time) + 1, step, dtype=np.int64)


def _who(name: str, index: int) -> dict[str, Any]:
    return {"model_id": name, "simulation_index": index}


def _decision(
    name: str, index: int, mode: str, p: float, rationale: str, cited: list[str], at: str
) -> dict[str, Any]:
    return {
        **_who(name, index),
        "mode": mode,
        "decision": "YES" if p >= 0.5 else "NO",
        "confidence": round(abs(p - 0.5) * 2, 12),
        "probability": p,
        "rationale": rationale,
        "key_evidence_ids": cited,
        "created_at": at,
    }


def _context(panel: Panel, i: int, previous: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The IntervalContext: everything that a forecaster may use at t."""
    at, text = iso(from_us(panel.t[i])), panel.text[i]
    return {
        "time": at,
        "market": {
            "id": panel.market[i],
            "description": None if text is None else _description(text.question, text.rules),
            "odds": _known(panel.price[i]),
            "price_age": _known(panel.price_age[i]),
            "odds_known_at": iso(from_us(panel.known_at[i])) if panel.known_at[i] >= 0 else None,
            "text_known_at": None if text is None else iso(text.known_at),
            "bid": _known(panel.bid[i]),
            "ask": _known(panel.ask[i]),
        },
        "search_snippets": [
            {"id": d.id, "text": d.title, "timestamp": iso(d.known_at)} for d in panel.documents[i]
        ],
        "previous_intervals": list(previous[-PREVIOUS:]),
    }


def _description(question: str | None, rules: str | None) -> str:
    return "\n\n".join(part for part in (question, rules) if part)


def _known(value: float) -> float | None:
    return None if value != value else float(value)


def _evidence(panel: Panel, i: int, cited: set[str]) -> list[dict[str, Any]]:
    """The price, and the cited documents, as evidence items."""
    snapshot = {
        "type": "market_snapshot",
        "source": panel.market[i],
        "snippet": f"price {panel.price[i]:g}",
        "timestamp": iso(from_us(panel.known_at[i])),
    }
    documents = [
        {
            "type": "document",
            "source": d.url or d.id,
            "snippet": d.title,
            "timestamp": iso(d.known_at),
        }
        for d in panel.documents[i]
        if d.id in cited
    ]
    return [*([snapshot] if panel.known_at[i] >= 0 else []), *documents]
