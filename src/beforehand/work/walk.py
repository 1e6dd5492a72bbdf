"""The `walk` and `collect` actions: forecast a chunk of markets through time, and join the chunks.

Baselines are computed for a whole chunk at once. Whoever is asked (a forecaster at an address, a
model) is asked interval by interval, since its context holds what was decided before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from beforehand.clock import Clock, from_us, iso, to_us
from beforehand.engine.context import StepContext
from beforehand.errors import BadAnswer, Refused
from beforehand.forecast import external
from beforehand.forecast.aggregate import Method, aggregate
from beforehand.forecast.answer import decide
from beforehand.gateway import Audit, Gateway, RecordedWorld
from beforehand.gateway.panel import Evidence, Panel, PanelBuilder, QueryMaker
from beforehand.ids import digest
from beforehand.records.backtest import ExperimentConfig, forecasts
from beforehand.records.world import Document, Market
from beforehand.store.files import write_atomic
from beforehand.store.runs import RunFolder
from beforehand.work.deciders import Decided, Deciders, bare
from beforehand.work.weigh import weigh

PREVIOUS = 10
LONGEST_TEXT = 600
KINDS = ("intervals", "predictions", "traces")


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


class Walker:
    """The actions of one run. Safe for threads: each step has a trail of its own."""

    def __init__(
        self,
        world: RecordedWorld,
        clock: Clock,
        folder: RunFolder,
        deciders: Deciders,
        replacement: Replacement = NO_REPLACEMENT,
        method: Method = "mean",
    ) -> None:
        self._world, self._clock, self._folder = world, clock, folder
        self._deciders, self._replacement, self._method = deciders, replacement, method
        names = deciders.baselines
        self._recorded = [n.removeprefix("recorded:") for n in names if n.startswith("recorded:")]

    def close(self) -> None:
        """Close what was opened to ask."""
        self._deciders.close()

    def walk(
        self, args: Mapping[str, Any], _: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        """Forecast one chunk of markets; keeps its intervals, predictions and traces as parts."""
        configs = [ExperimentConfig.model_validate(raw) for raw in args["experiments"]]
        first = configs[0]
        gateway = Gateway(self._world, self._clock)
        builder = PanelBuilder(gateway, self._recorded)
        pairs = [(config.market_id, instants(config)) for config in configs]
        traces = list[dict[str, Any]]()
        panel = builder.build(
            pairs,
            Evidence(first.search_config.max_results),
            self._queries(first, traces, context),
        )
        speakers = self._replacement.ever(first.models)
        baselines = {
            name: self._deciders.baselines[n].forecast(panel)
            for name in speakers
            if (n := bare(name))
        }
        intervals, predictions = list[bytes](), list[bytes]()
        ends = np.cumsum([len(t) for _, t in pairs]).tolist()
        starts = {0, *ends}
        previous: list[dict[str, Any]] = []
        for i in range(len(panel)):
            if i in starts:
                previous = []
            seen = _context(panel, i, previous)
            names = self._replacement.apply(first.models, int(panel.t[i]))
            said = {name: float(baselines[name][i]) for name in names if name in baselines}
            decided = self._deciders.decide(names, said, seen, first.mode, first.num_sims, context)
            interval = self._interval(panel, i, seen, decided, names)
            together = interval["aggregate"]["probability"]
            if together is not None:
                previous.append({"time": seen["time"], "aggregated_probability": together})
            intervals.append(orjson.dumps(interval))
            traces += decided.traces
            predictions += [
                orjson.dumps(row)
                for n in names
                if (row := self._prediction(panel, i, n, decided.by_model[n]))
            ]
        context.keep("intervals", b"\n".join(intervals))
        context.keep("predictions", b"\n".join(predictions))
        context.keep("traces", b"\n".join(map(orjson.dumps, traces)))
        return {
            "part": args["part"],
            "intervals": len(intervals),
            "audit": gateway.audit.wire(),
        }

    def _queries(
        self, config: ExperimentConfig, traces: list[dict[str, Any]], context: StepContext
    ) -> QueryMaker | None:
        """How the first model that may be asked words the search, for `llm_generated`: once for
        each wording of a question. Where it cannot, the question itself is searched for, and the
        trace says so."""
        agent = self._deciders.agent
        models, guard = self._deciders.models, self._deciders.guard
        writers = [
            name
            for name in config.models
            if name in models and guard.refusal(models[name], config.market_id) is None
        ]
        writer = writers[0] if writers else None
        if config.search_config.query_mode == "template" or agent is None or writer is None:
            return None
        known: dict[str, list[str]] = {}

        def make(text: Market) -> list[str]:
            asked = _description(text.question, text.rules)
            if asked not in known:
                trace: dict[str, Any] = {"market_id": config.market_id, "model_id": writer}
                trace |= {"arm": "queries", "calls": []}
                seen = {"market": {"description": asked}}
                try:
                    found = agent.queries(writer, seen, context, trace["calls"])
                    trace = {**trace, "queries": found}
                except (BadAnswer, Refused) as error:
                    found = []
                    trace = {**trace, "error": str(error)}
                known[asked] = found or [text.question or ""]
                traces.append(trace)
            return known[asked]

        return make

    def collect(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        """Join the parts in order into one file of each kind."""
        order = sorted(outputs, key=lambda task: outputs[task]["part"])
        written = list[str]()
        for kind in KINDS:
            content = [data for task in order if (data := context.part(task, kind))]
            if content or kind != "traces":
                written.append(f"{kind}.jsonl")
                lines = b"\n".join(content) + b"\n" * bool(content)
                write_atomic(self._folder.path / written[-1], lines)
        if self._method == "weighted":
            weigh(self._folder.path / "intervals.jsonl", self._deciders.answers)
        audit = Audit()
        for task in order:
            audit.add(outputs[task]["audit"])
        return {
            "intervals": sum(output["intervals"] for output in outputs.values()),
            "audit": audit.wire(),
            "files": self._folder.digests(*written),
        }

    def _interval(
        self, panel: Panel, i: int, seen: dict[str, Any], decided: Decided, names: Sequence[str]
    ) -> dict[str, Any]:
        rows = decided.rows(names)
        decisions = [d for d in rows if "error" not in d]
        spoken = [d["probability"] for d in decisions]
        together = aggregate(self._method, spoken)
        body: dict[str, Any] = {
            "market_id": panel.market[i],
            "time": seen["time"],
            "context": seen,
            "decisions": decisions,
            "failures": [d for d in rows if "error" in d],
            "aggregate": {
                "method": self._method,
                "probability": together,
                "decision": None if together is None else decide(together),
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
        baseline = self._deciders.baselines.get(bare(name))
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


def instants(config: ExperimentConfig) -> npt.NDArray[np.int64]:
    """The instants of one experiment, in microseconds."""
    step = config.interval_minutes * 60_000_000
    return np.arange(to_us(config.start_time), to_us(config.end_time) + 1, step, dtype=np.int64)


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
            {"id": d.id, "text": _snippet(d), "timestamp": iso(d.known_at)}
            for d in panel.documents[i]
        ],
        "previous_intervals": list(previous[-PREVIOUS:]),
    }


def _description(question: str | None, rules: str | None) -> str:
    return "\n\n".join(part for part in (question, rules) if part)


def _snippet(document: Document) -> str:
    """The title, and the beginning of the text where there is one."""
    return " ".join(part for part in (document.title, document.text[:LONGEST_TEXT]) if part)


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
