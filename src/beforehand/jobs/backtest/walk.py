"""The `walk`, `settle` and `collect` actions: forecast through time, and join the results.

A step is either a chunk of experiments walked through all their instants, or one instant of many
experiments (`order.py` says which). Baselines are computed for the whole step at once. Others are
asked interval by interval, because a context holds what was decided before.

Aggregates that are weighted by past score are computed after the walk, with what was known at each
instant. At t, a forecaster's past is its forecasts on other markets whose answer was known by t;
of each market, only the last forecast before the answer counts. Intervals are taken in time order
over all markets. (Contexts were written during the walk, so their previous intervals hold the plain
mean.)
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from beforehand.clock import Clock, iso, iso_us, parse_us, to_us
from beforehand.engine.context import StepContext
from beforehand.engine.plan import Action, Step
from beforehand.forecast.aggregate import Method, Past, aggregate
from beforehand.forecast.base import Context, Forecaster, PanelForecaster
from beforehand.forecast.schemes.model import Model
from beforehand.gateway.gateway import Audit, Gateway
from beforehand.gateway.panel import Evidence, Panel, QueryMaker
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.ask import (
    Answers,
    Asker,
    ByForecaster,
    Interval,
    meter_of,
    show_again,
)
from beforehand.jobs.backtest.grid import instants
from beforehand.jobs.backtest.large.bulk import Bulk, Bulks, Rows
from beforehand.jobs.backtest.large.joined import Form, Joined
from beforehand.jobs.backtest.order import NO_REPLACEMENT, Replacement, sort_key, unprefixed
from beforehand.jobs.backtest.select import Experiments
from beforehand.jobs.backtest.unwitnessed import Unwitnessed
from beforehand.memory import give_back
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.cutoff import visible_us
from beforehand.records.rows import (
    AggregateRow,
    DecisionRow,
    EvidenceLine,
    IntervalRow,
    MarketSeen,
    MetadataLine,
    PayloadLine,
    PredictionLine,
    Previous,
    Snippet,
    TraceRow,
    decode_interval,
    description,
    encode,
    forecasts,
    label,
    yes_or_no,
)
from beforehand.records.world import Document, Market, Resolution
from beforehand.runs.interval_columns import PREVIOUS
from beforehand.runs.rows import read_intervals
from beforehand.store.files import write_atomic
from beforehand.store.run_folder import RunFolder

LONGEST_TEXT = 600
KINDS = ("intervals", "predictions", "traces")
Aggregates = list[tuple[int, float]]
"""The last aggregates of an experiment: instant (microseconds) and probability."""


def apply_past_weights(path: Path, answers: Mapping[str, Resolution]) -> None:
    """Rewrite the aggregates of an intervals.jsonl with weights from what was known at each t."""
    rows = list(read_intervals(path))
    past = Past()
    latest: dict[str, dict[str, float]] = {}
    waiting = [
        (to_us(r.known_at), name, float(r.payout))
        for name, r in answers.items()
        if r.status == "resolved" and r.payout is not None
    ]
    heapq.heapify(waiting)
    order = sorted(range(len(rows)), key=lambda i: (rows[i].context.t, rows[i].market_id))
    for i in order:
        row = rows[i]
        while waiting and visible_us(waiting[0][0], row.context.t):
            _, name, answer = heapq.heappop(waiting)
            past.learn(latest.pop(name, {}), answer)
        rows[i] = _again(row, past)
        if row.decisions:
            latest.setdefault(row.market_id, {}).update(forecasts(row.decisions))
    write_atomic(path, b"".join(row.sealed() + b"\n" for row in rows))


def _again(row: IntervalRow, past: Past) -> IntervalRow:
    """The row with its decisions weighted by past score."""
    weights = past.weights([label(one.model_id) for one in row.decisions])
    together = aggregate("weighted", [one.probability for one in row.decisions], weights)
    decision = None if together is None else yes_or_no(together)
    found = AggregateRow(row.aggregate.method, together, decision, row.aggregate.n)
    return msgspec.structs.replace(row, aggregate=found)


class Walker:
    """The actions of one run. Safe for threads: each step has a trail of its own. With a `form`,
    intervals are kept as columns (`joined.py`). `answers` are only for the weights of past
    scores: each is used once it is known, and no forecaster sees it."""

    def __init__(
        self,
        world: RecordedWorld,
        clock: Clock,
        folder: RunFolder,
        configs: Sequence[ExperimentConfig],
        forecasters: Mapping[str, Forecaster],
        answers: Mapping[str, Resolution],
        replacement: Replacement = NO_REPLACEMENT,
        method: Method = "mean",
        form: Form | None = None,
    ) -> None:
        self._world, self._clock, self._folder = world, clock, folder
        self._configs, self._forecasters = Experiments.of(configs), forecasters
        self._answers = answers
        self._replacement, self._method, self.form = replacement, method, form
        self._recorded = [
            one.recorded
            for one in forecasters.values()
            if isinstance(one, PanelForecaster) and one.recorded is not None
        ]
        self.unwitnessed = Unwitnessed(lambda: world.index)
        self._asker = Asker(self.unwitnessed)
        asked = frozenset[str]() if form is None else form.asked
        pure = {
            entry: one
            for entry, one in forecasters.items()
            if isinstance(one, PanelForecaster) and one.model_id not in asked
        }
        bulk = Bulk(world, clock, method, pure, self._recorded)
        self.bulks = None if form is None else Bulks(bulk)
        self._asked: list[Step] = []
        self.actions: dict[str, Action] = {
            "walk": self.walk,
            "settle": self.settle,
            "collect": self.collect,
        }

    def close(self) -> None:
        """Close what was opened to ask."""
        self._asker.close()
        if self.bulks is not None:
            self.bulks.close()
        for one in self._forecasters.values():
            one.close()

    def follow(self, steps: Sequence[Step]) -> None:
        """Keep the plan's steps: a forecaster held in this process may have to be shown what
        another process asked it."""
        self._asked = [step for step in steps if "time" in step.args]

    def walk(
        self, args: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """Forecast one step's experiments; keeps intervals, predictions and traces as parts."""
        which: list[int] = args["experiments"]
        first = self._configs[which[0]]
        at = parse_us(args["time"]) if "time" in args else None
        pairs = [
            (c.market_id, instants(c) if at is None else np.array([at], dtype=np.int64))
            for c in map(self._configs.__getitem__, which)
        ]
        of = [i for i, (_, t) in zip(which, pairs, strict=True) for _ in range(len(t))]
        if self.form is not None and self.bulks is not None and self.form.in_bulk(which[0]):
            walked = self.bulks.walk(Rows(pairs, of, first.models), context.signals.stop.is_set)
            context.keep("columns", walked.columns)
            told = {"intervals": walked.rows, "audit": walked.audit, "columns": True}
            return told | self._told_of(which)
        gateway = Gateway(self._world, self._clock)
        kept: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
        written = list[TraceRow]()
        queries = self._queries(first, written, context)
        panel = gateway.panel(pairs, self._recorded, self._evidence(first, queries), queries)
        for n, trace in enumerate(written):
            start = to_us(first.start_time) if at is None else at
            _keep(kept, "traces", sort_key(start, first.market_id, which[0], n), trace)
        known = {
            one.entry: one.forecast(panel)
            for one in map(self._forecasters.__getitem__, self._replacement.ever(first.models))
            if isinstance(one, PanelForecaster)
        }
        previous = _previous(which, outputs)
        # One instant: all its questions at once. A chunk: each needs the aggregate before it.
        together = [range(len(panel))] if at is not None else [[k] for k in range(len(panel))]
        for rows in together:
            intervals = [
                self._interval(panel, k, self._configs[of[k]], previous[of[k]], known) for k in rows
            ]
            self._catch_up(intervals, context)
            answered = self._asker.ask(intervals, context)
            for k, interval, answers in zip(rows, intervals, answered, strict=True):
                made = self._row(interval, answers)
                if (p := made.aggregate.probability) is not None:
                    previous[of[k]] = [*previous[of[k]], (interval.t, p)][-PREVIOUS:]
                self._keep_rows(kept, panel, k, of[k], answers, made)
                for looked_up in (audit for mine in answers.values() for audit in mine.audits):
                    gateway.audit.add(looked_up)
        for kind, lines in kept.items():
            context.keep(kind, b"\n".join(lines))
        return {
            "intervals": len(panel),
            "audit": gateway.audit.wire(),
            "previous": {str(i): last for i, last in previous.items()} if at is not None else {},
        } | self._told_of(which)

    def _told_of(self, which: Sequence[int]) -> dict[str, object]:
        """What else a step's output says: the code of those that were asked, whose answers differ
        from those on record, and what was noted of them."""
        differs = {one.name: one.take_differing() for one in self._forecasters.values()}
        noted = {one.name: one.take_noted() for one in self._forecasters.values()}
        asked = {one.entry: one for config in which for one in self._ever(config)}
        codes = {one.name: one.code for one in asked.values() if one.code is not None}
        return {
            "codes": codes,
            "differs": {name: n for name, n in differs.items() if n},
            "noted": {name: found for name, found in noted.items() if found},
        }

    def _evidence(self, config: ExperimentConfig, queries: QueryMaker | None) -> Evidence:
        """How documents are looked up. Where there are none, nothing is searched."""
        silent = queries is None and not self._world.archive.counts().get("document")
        asked = config.search_config
        return Evidence(0 if silent else asked.max_results, asked.lookback_days)

    def settle(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], __: StepContext
    ) -> Mapping[str, object]:
        """Mark an instant as settled, with all its contexts: the steps that wait for it may run."""
        return {"intervals": sum(output["intervals"] for output in outputs.values()), "files": {}}

    def _ever(self, experiment: int) -> list[Forecaster]:
        """Every forecaster that an experiment asks at some time."""
        config = self._configs.kinds[self._configs.kind_of[experiment]]
        names = self._replacement.ever(config.models)
        return [self._forecasters[name] for name in names]

    def _interval(
        self,
        panel: Panel,
        k: int,
        config: ExperimentConfig,
        previous: Aggregates,
        known: Mapping[str, Any],
    ) -> Interval:
        t = int(panel.t[k])
        asked = [self._forecasters[name] for name in self._replacement.apply(config.models, t)]
        said = {one.entry: float(known[one.entry][k]) for one in asked if one.entry in known}
        return Interval(
            asked, said, t, context_of(panel, k, previous), config.mode, config.num_sims
        )

    def _catch_up(self, intervals: Sequence[Interval], context: StepContext) -> None:
        """Show each forecaster that this process holds, but has not asked yet, all the contexts
        that another process showed it, in order."""
        asked = {one.entry: one for interval in intervals for one in interval.forecasters}
        for _, one in sorted(asked.items()):
            if one.stateful:
                with one.asking:
                    self._show_past(one, context)

    def _show_past(self, one: Forecaster, context: StepContext) -> None:
        if one.caught_up:
            return
        for row in self._earlier(one, context):
            mine = [said for said in row.said if said.model_id == one.model_id]
            t = parse_us(row.time)
            past = Interval([one], {}, t, row.context, "external", len(mine))
            for said in sorted(mine, key=lambda said: said.simulation_index):
                meter = meter_of(one, said.simulation_index, past, context)
                show_again(one, row.context, said, meter)
        one.caught_up = True

    def _earlier(self, one: Forecaster, context: StepContext) -> Iterator[IntervalRow]:
        """The rows of the steps that asked it before this one, in the order of the plan."""
        for step in self._asked:
            if step.id == context.task_id:
                return
            if any(
                one.entry in self._replacement.ever(self._configs[i].models)
                for i in step.args["experiments"]
            ):
                for line in sorted(context.part(step.id, "intervals").splitlines()):
                    yield decode_interval(unprefixed(line))

    def _keep_rows(
        self,
        kept: dict[str, list[bytes]],
        panel: Panel,
        k: int,
        experiment: int,
        answers: ByForecaster,
        made: IntervalRow,
    ) -> None:
        """The lines of one interval, each with the key that sorts it."""
        t, market = int(panel.t[k]), panel.market[k]
        price = _price(panel, k)
        predictions = (
            self._prediction(panel, k, self._forecasters[entry], mine, price)
            for entry, mine in answers.items()
        )
        traces = (trace for mine in answers.values() for trace in mine.traces)
        kept["intervals"].append(sort_key(t, market, experiment, 0) + made.sealed())
        for kind, rows in (("predictions", predictions), ("traces", traces)):
            for n, row in enumerate(rows):
                if row is not None:
                    _keep(kept, kind, sort_key(t, market, experiment, n), row)

    def _queries(
        self, config: ExperimentConfig, traces: list[TraceRow], context: StepContext
    ) -> QueryMaker | None:
        """For `llm_generated`: the first model that may be asked writes the search queries, once
        for each wording of a question. If it writes none, the question itself is the query, and
        the trace says so."""
        asked = map(self._forecasters.__getitem__, config.models)
        models = [one for one in asked if isinstance(one, Model)]
        if config.search_config.query_mode == "template" or not models:
            return None
        known: dict[str, list[str]] = {}

        def make(text: Market) -> list[str]:
            asked = description(text.question, text.rules)
            seen = Context("", MarketSeen(text.id, asked))
            writer = next((one for one in models if one.refusal(seen) is None), None)
            if writer is None:
                return [text.question or ""]
            if asked not in known:
                trace = writer.queries(seen, context)
                found = trace.queries if isinstance(trace.queries, list) else []
                known[asked] = found or [text.question or ""]
                traces.append(trace)
            return known[asked]

        return make

    def collect(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """Join the parts in order into one file of each kind, or of columns."""
        written = [] if self.form is None else self._joined(self.form, outputs, context)
        for kind in KINDS if self.form is None else ("traces",):
            tasks = (task for task, output in outputs.items() if not output.get("columns"))
            lines = [line for task in tasks for line in context.part(task, kind).splitlines()]
            if lines or kind != "traces":
                written.append(f"{kind}.jsonl")
                content = b"".join(unprefixed(line) + b"\n" for line in sorted(lines))
                write_atomic(self._folder.path / written[-1], content)
        if self._method == "weighted":
            apply_past_weights(self._folder.path / "intervals.jsonl", self._answers)
        audit, differs = Audit(), Counter[str]()
        noted = defaultdict[str, Counter[str]](Counter)
        codes: dict[str, set[str]] = {}
        for output in outputs.values():
            for name, rules in output.get("noted", {}).items():
                noted[name].update(rules)
            for name, code in output.get("codes", {}).items():
                codes.setdefault(name, set()).add(code)
        for task in sorted(outputs):
            audit.add(outputs[task]["audit"])
            differs.update(outputs[task].get("differs", {}))
        return {
            "intervals": sum(output["intervals"] for output in outputs.values()),
            "audit": audit.wire(),
            "differs": dict(sorted(differs.items())),
            "noted": {name: dict(sorted(found.items())) for name, found in sorted(noted.items())},
            "codes": {name: len(found) for name, found in sorted(codes.items()) if len(found) > 1},
            "files": self._folder.digests(*written),
        }

    def _joined(self, form: Form, outputs: Mapping[str, Any], context: StepContext) -> list[str]:
        """Write the columns of a large run; returns the names of the files."""
        large = self._world.archive.by_market
        if large:
            self._world.forget()  # What was read of single markets is not needed any more.
            give_back()
        joined = Joined(self._folder.path, self._configs, form)
        for task, output in outputs.items():
            if output.get("columns"):
                joined.add(context.part(task, "columns"))
            else:
                parts = (context.part(task, kind) for kind in ("intervals", "predictions"))
                joined.add_rows(*(part.splitlines() for part in parts))
        written = joined.write(self._folder.run_id, self._method)
        del joined
        if large:
            give_back()
        return written

    def _row(self, interval: Interval, answers: ByForecaster) -> IntervalRow:
        context = interval.context
        decisions = [row for mine in answers.values() for row in mine.decisions]
        together = aggregate(self._method, [row.probability for row in decisions])
        return IntervalRow(
            run_id=self._folder.run_id,
            market_id=context.market.id,
            time=context.time,
            context=context,
            decisions=decisions,
            failures=[row for mine in answers.values() for row in mine.failures],
            aggregate=AggregateRow(
                self._method,
                together,
                None if together is None else yes_or_no(together),
                len(decisions),
            ),
        )

    def _prediction(
        self,
        panel: Panel,
        k: int,
        one: Forecaster,
        answers: Answers,
        price: list[EvidenceLine],
    ) -> PredictionLine | None:
        """A forecaster's PredictionRecord: the mean of its simulations, and what it cites."""
        made = answers.decisions
        if not made:
            return None
        return PredictionLine(
            panel.market[k],
            PayloadLine(
                next(iter(forecasts(made).values())),
                _cited(panel, k, made, price),
                made[0].rationale,
            ),
            MetadataLine(one.model_id, iso_us(int(panel.t[k])), one.version, one.name),
        )


def _keep(kept: dict[str, list[bytes]], kind: str, key: bytes, row: Struct) -> None:
    kept[kind].append(key + encode(row))


def _previous(which: Sequence[int], outputs: Mapping[str, Any]) -> dict[int, Aggregates]:
    """The last aggregates of each experiment, from the steps that asked it before."""
    found: dict[int, Aggregates] = {i: [] for i in which}
    for output in outputs.values():
        for i in which:
            last = [(t, p) for t, p in output.get("previous", {}).get(str(i), ())]
            if last and (not found[i] or last[-1][0] > found[i][-1][0]):
                found[i] = last
    return found


def context_of(panel: Panel, k: int, previous: Aggregates) -> Context:
    """Everything that a forecaster may use at t."""
    text, known_at = panel.text[k], int(panel.known_at[k])
    return Context(
        iso_us(int(panel.t[k])),
        MarketSeen(
            panel.market[k],
            None if text is None else description(text.question, text.rules),
            _known(panel.price[k]),
            _known(panel.price_age[k]),
            iso_us(known_at) if known_at >= 0 else None,
            None if text is None else iso(text.known_at),
            _known(panel.bid[k]),
            _known(panel.ask[k]),
        ),
        [Snippet(d.id, _snippet(d), iso(d.known_at)) for d in panel.documents[k]],
        [Previous(iso_us(t), p) for t, p in previous],
    )


def _snippet(document: Document) -> str:
    """The title, and the beginning of the text where there is one."""
    return " ".join(part for part in (document.title, document.text[:LONGEST_TEXT]) if part)


def _known(value: float) -> float | None:
    return None if value != value else float(value)


def _cited(
    panel: Panel, k: int, made: Sequence[DecisionRow], price: list[EvidenceLine]
) -> list[EvidenceLine]:
    """What a forecaster cites: its own typed items, else the price and the documents that it
    names."""
    if any(row.evidence is not None for row in made):
        return list(dict.fromkeys(line for row in made for line in row.evidence or ()))
    return [*price, *_documents(panel, k, made)]


def _price(panel: Panel, k: int) -> list[EvidenceLine]:
    """The price as an evidence item, once it is known."""
    known_at, price = int(panel.known_at[k]), f"price {panel.price[k]:g}"
    if known_at < 0:
        return []
    return [EvidenceLine("market_snapshot", panel.market[k], price, iso_us(known_at))]


def _documents(panel: Panel, k: int, made: Sequence[DecisionRow]) -> list[EvidenceLine]:
    """The cited documents as evidence items."""
    cited = {c for row in made for c in row.key_evidence_ids}
    return [
        EvidenceLine("document", d.url or d.id, d.title, iso(d.known_at))
        for d in panel.documents[k]
        if d.id in cited
    ]
