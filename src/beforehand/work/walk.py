"""The `walk`, `settle` and `collect` actions: forecast through time, and join what was said.

A step is either a chunk of experiments walked through all their instants, or one instant of many
experiments (`work/order.py` says which). Baselines are computed for the whole step at once. Others
are asked interval by interval, since a context holds what was decided before.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from beforehand.clock import Clock, from_us, iso, parse_instant, to_us
from beforehand.engine.context import StepContext
from beforehand.engine.plan import Step
from beforehand.errors import BadAnswer, Refused
from beforehand.forecast import external
from beforehand.forecast.aggregate import Method, aggregate
from beforehand.forecast.answer import decide
from beforehand.forecast.held import is_held
from beforehand.gateway import Audit, Gateway, RecordedWorld
from beforehand.gateway.panel import Evidence, Panel, QueryMaker
from beforehand.ids import digest
from beforehand.records.backtest import ExperimentConfig, forecasts
from beforehand.records.world import Document, Market
from beforehand.store.files import write_atomic
from beforehand.store.runs import RunFolder
from beforehand.work.deciders import Decided, Deciders, Interval, bare
from beforehand.work.grid import instants
from beforehand.work.order import NO_REPLACEMENT, Replacement, sort_key, unprefixed
from beforehand.work.weigh import weigh

PREVIOUS = 10
LONGEST_TEXT = 600
KINDS = ("intervals", "predictions", "traces")
Aggregates = list[tuple[int, float]]
"""The last aggregates of an experiment: instant (microseconds) and probability."""


class Walker:
    """The actions of one run. Safe for threads: each step has a trail of its own."""

    def __init__(
        self,
        world: RecordedWorld,
        clock: Clock,
        folder: RunFolder,
        configs: Sequence[ExperimentConfig],
        deciders: Deciders,
        replacement: Replacement = NO_REPLACEMENT,
        method: Method = "mean",
    ) -> None:
        self._world, self._clock, self._folder = world, clock, folder
        self._configs, self._deciders = configs, deciders
        self._replacement, self._method = replacement, method
        names = deciders.baselines
        self._recorded = [n.removeprefix("recorded:") for n in names if n.startswith("recorded:")]
        self._asked: list[Step] = []

    def close(self) -> None:
        """Close what was opened to ask."""
        self._deciders.close()

    def follow(self, steps: Sequence[Step]) -> None:
        """Take note of the plan: a forecaster held in this process may have to be shown what it
        was asked in another one."""
        self._asked = [step for step in steps if "time" in step.args]

    def walk(
        self, args: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        """Forecast one step's experiments; keeps intervals, predictions and traces as parts."""
        which: list[int] = args["experiments"]
        first = self._configs[which[0]]
        gateway = Gateway(self._world, self._clock)
        at = to_us(parse_instant(args["time"])) if "time" in args else None
        pairs = [
            (c.market_id, instants(c) if at is None else np.array([at], dtype=np.int64))
            for c in map(self._configs.__getitem__, which)
        ]
        kept: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
        written = list[dict[str, Any]]()
        panel = gateway.panel(
            pairs,
            self._recorded,
            Evidence(first.search_config.max_results),
            self._queries(first, written, context),
        )
        for n, trace in enumerate(written):
            start = to_us(first.start_time) if at is None else at
            _keep(kept, "traces", sort_key(start, first.market_id, which[0], n), trace)
        baselines = {
            name: self._deciders.baselines[known].forecast(panel)
            for name in self._replacement.ever(first.models)
            if (known := bare(name))
        }
        previous = _previous(which, outputs)
        of = [i for i, (_, t) in zip(which, pairs, strict=True) for _ in range(len(t))]
        # One instant: all its questions at once. A chunk: each needs the aggregate before it.
        together = [range(len(panel))] if at is not None else [[k] for k in range(len(panel))]
        for rows in together:
            intervals = [
                self._ask(panel, k, self._configs[of[k]], previous[of[k]], baselines) for k in rows
            ]
            self._catch_up(intervals, context)
            for k, interval, decided in zip(
                rows, intervals, self._deciders.decide(intervals, context), strict=True
            ):
                made = self._interval(interval, decided)
                if (p := made["aggregate"]["probability"]) is not None:
                    previous[of[k]] = [*previous[of[k]], (interval.t, p)][-PREVIOUS:]
                self._keep_rows(kept, panel, k, of[k], interval, decided, made)
        for kind, lines in kept.items():
            context.keep(kind, b"\n".join(lines))
        return {
            "intervals": len(panel),
            "audit": gateway.audit.wire(),
            "previous": {str(i): last for i, last in previous.items()} if at is not None else {},
            "differs": holder.take_differing() if (holder := self._deciders.holder) else {},
        }

    def settle(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], __: StepContext
    ) -> dict[str, Any]:
        """Every context of an instant is settled: what waits for it may leave."""
        return {"intervals": sum(output["intervals"] for output in outputs.values()), "files": {}}

    def _ask(
        self,
        panel: Panel,
        k: int,
        config: ExperimentConfig,
        previous: Aggregates,
        baselines: Mapping[str, Any],
    ) -> Interval:
        t = int(panel.t[k])
        names = self._replacement.apply(config.models, t)
        said = {name: float(baselines[name][k]) for name in names if name in baselines}
        seen = _context(panel, k, previous)
        return Interval(names, said, t, seen, config.mode, config.num_sims)

    def _catch_up(self, intervals: Sequence[Interval], context: StepContext) -> None:
        """Show a forecaster that this process holds, and has not asked yet, what another process
        asked it: all its earlier contexts, in order."""
        holder = self._deciders.holder
        names = {name for interval in intervals for name in interval.names if is_held(name)}
        for name in sorted(names):
            assert holder is not None
            if holder.started(name):
                continue
            for row in self._earlier(name, context):
                for index in sorted(
                    said["simulation_index"]
                    for said in [*row["decisions"], *row["failures"]]
                    if said["model_id"] == name
                ):
                    holder.show_again(name, row["context"], index, context)

    def _earlier(self, name: str, context: StepContext) -> Iterator[dict[str, Any]]:
        """The rows of the steps that asked it before this one, in the order of the plan."""
        for step in self._asked:
            if step.id == context.task_id:
                return
            if any(
                name in self._replacement.ever(self._configs[i].models)
                for i in step.args["experiments"]
            ):
                for line in sorted(context.part(step.id, "intervals").splitlines()):
                    yield orjson.loads(unprefixed(line))

    def _keep_rows(
        self,
        kept: dict[str, list[bytes]],
        panel: Panel,
        k: int,
        experiment: int,
        interval: Interval,
        decided: Decided,
        made: dict[str, Any],
    ) -> None:
        """The lines of one interval, each with the key that sorts it."""
        market = panel.market[k]
        predictions = (
            self._prediction(panel, k, name, decided.by_model[name]) for name in interval.names
        )
        for kind, rows in (
            ("intervals", [made]),
            ("predictions", predictions),
            ("traces", decided.traces),
        ):
            for n, row in enumerate(rows):
                if row is not None:
                    _keep(kept, kind, sort_key(interval.t, market, experiment, n), row)

    def _queries(
        self, config: ExperimentConfig, traces: list[dict[str, Any]], context: StepContext
    ) -> QueryMaker | None:
        """How the first model that may be asked words the search, for `llm_generated`: once for
        each wording of a question. Where it cannot, the question itself is searched for, and the
        trace says so."""
        agent = self._deciders.agent
        models, guard = self._deciders.models, self._deciders.guard
        if config.search_config.query_mode == "template" or agent is None:
            return None
        known: dict[str, list[str]] = {}

        def make(text: Market) -> list[str]:
            asked = _description(text.question, text.rules)
            writer = next(
                (
                    name
                    for name in config.models
                    if name in models and guard.refusal(models[name], text.id) is None
                ),
                None,
            )
            if writer is None:
                return [text.question or ""]
            if asked not in known:
                trace: dict[str, Any] = {"market_id": text.id, "model_id": writer}
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
        written = list[str]()
        for kind in KINDS:
            lines = [line for task in outputs for line in context.part(task, kind).splitlines()]
            if lines or kind != "traces":
                written.append(f"{kind}.jsonl")
                content = b"".join(unprefixed(line) + b"\n" for line in sorted(lines))
                write_atomic(self._folder.path / written[-1], content)
        if self._method == "weighted":
            weigh(self._folder.path / "intervals.jsonl", self._deciders.answers)
        audit, differs = Audit(), Counter[str]()
        for task in sorted(outputs):
            audit.add(outputs[task]["audit"])
            differs.update(outputs[task]["differs"])
        return {
            "intervals": sum(output["intervals"] for output in outputs.values()),
            "audit": audit.wire(),
            "differs": dict(sorted(differs.items())),
            "files": self._folder.digests(*written),
        }

    def _interval(self, interval: Interval, decided: Decided) -> dict[str, Any]:
        rows, seen = decided.rows(interval.names), interval.seen
        decisions = [d for d in rows if "error" not in d]
        spoken = [d["probability"] for d in decisions]
        together = aggregate(self._method, spoken)
        body: dict[str, Any] = {
            "market_id": seen["market"]["id"],
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
                "timestamp": _time(int(panel.t[i])),
                "version": baseline.version if baseline else external.VERSION,
                "predictor_id": bare(name) or name,
            },
        }


def _keep(kept: dict[str, list[bytes]], kind: str, key: bytes, row: Mapping[str, Any]) -> None:
    kept[kind].append(key + orjson.dumps(row))


def _previous(which: Sequence[int], outputs: Mapping[str, Any]) -> dict[int, Aggregates]:
    """The last aggregates of each experiment, from the steps that asked it before."""
    found: dict[int, Aggregates] = {i: [] for i in which}
    for output in outputs.values():
        for i in which:
            last = [(t, p) for t, p in output.get("previous", {}).get(str(i), ())]
            if last and (not found[i] or last[-1][0] > found[i][-1][0]):
                found[i] = last
    return found


def _context(panel: Panel, i: int, previous: Aggregates) -> dict[str, Any]:
    """The IntervalContext: everything that a forecaster may use at t."""
    at, text = _time(int(panel.t[i])), panel.text[i]
    return {
        "time": at,
        "market": {
            "id": panel.market[i],
            "description": None if text is None else _description(text.question, text.rules),
            "odds": _known(panel.price[i]),
            "price_age": _known(panel.price_age[i]),
            "odds_known_at": _time(int(panel.known_at[i])) if panel.known_at[i] >= 0 else None,
            "text_known_at": None if text is None else iso(text.known_at),
            "bid": _known(panel.bid[i]),
            "ask": _known(panel.ask[i]),
        },
        "search_snippets": [
            {"id": d.id, "text": _snippet(d), "timestamp": iso(d.known_at)}
            for d in panel.documents[i]
        ],
        "previous_intervals": [
            {"time": _time(t), "aggregated_probability": p} for t, p in previous
        ],
    }


def _description(question: str | None, rules: str | None) -> str:
    return "\n\n".join(part for part in (question, rules) if part)


def _snippet(document: Document) -> str:
    """The title, and the beginning of the text where there is one."""
    return " ".join(part for part in (document.title, document.text[:LONGEST_TEXT]) if part)


@lru_cache(maxsize=65536)
def _time(t: int) -> str:
    """An instant as it stands in the documents; the same ones come up again and again."""
    return iso(from_us(t))


def _known(value: float) -> float | None:
    return None if value != value else float(value)


def _evidence(panel: Panel, i: int, cited: set[str]) -> list[dict[str, Any]]:
    """The price, and the cited documents, as evidence items."""
    snapshot = {
        "type": "market_snapshot",
        "source": panel.market[i],
        "snippet": f"price {panel.price[i]:g}",
        "timestamp": _time(int(panel.known_at[i])),
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
