"""The benchmark as runs: the predict stage over a file of events, and all stages in one Plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from msgspec import structs, to_builtins

from beforehand.clock import iso, to_us
from beforehand.config import Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.job import RunLimits, job
from beforehand.engine.plan import Action, Plan, Step
from beforehand.errors import InputError
from beforehand.forecast.base import PanelForecaster, open_forecasters
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs import results
from beforehand.jobs.backtest.order import compile_plan
from beforehand.jobs.backtest.walk import Walker
from beforehand.jobs.benchmark import evaluation
from beforehand.jobs.benchmark.events import (
    Asking,
    EventWorld,
    experiment,
    ingest,
    load_events,
)
from beforehand.jobs.benchmark.stored import ArchiveRecords
from beforehand.jobs.forecasters import check_all, how_kept, models_of, opening_of, unranked
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.benchmark import EventSpec
from beforehand.records.rows import PredictionLine
from beforehand.runs.rows import read_predictions
from beforehand.score.evaluate import Settings
from beforehand.score.summary import Summary
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_json, write_json, write_jsonl
from beforehand.store.run_folder import RunFolder


@dataclass(frozen=True)
class PredictRequest:
    """Events to be forecast, each at its own instant."""

    archive: Path
    events: Path
    forecasters: str
    out: Path
    limits: RunLimits = field(default_factory=RunLimits)
    folder: Path | None = None
    assume_utc: bool = False
    asking: Asking = field(default_factory=Asking)


@dataclass(frozen=True)
class BenchmarkRequest:
    """All stages over one archive: events `horizon` before each end, forecasts, scores. `fresh`
    states that the forecasters at addresses were restarted just before."""

    archive: Path
    forecasters: str = "all"
    horizon: timedelta = timedelta(days=7)
    textless: bool = False
    settings: Settings = Settings()
    limits: RunLimits = field(default_factory=RunLimits)
    fresh: bool = False
    folder: Path | None = None


class _Stage:
    """What both kinds of job share: events, each walked for a single instant."""

    kind: str
    plan: Plan
    actions: Mapping[str, Action]

    def __init__(
        self,
        request: PredictRequest | BenchmarkRequest,
        run_id: str,
        workspace: Workspace,
        archive: Archive,
        specs: Sequence[EventSpec],
    ) -> None:
        self.folder = RunFolder(workspace.home.runs, run_id)
        self._archive, self._specs = archive, specs
        world = EventWorld.of(archive, specs)
        answers = Gateway(world, workspace.clock).full_view().endings()
        asking = request.asking if isinstance(request, PredictRequest) else Asking()
        options, limits = asking.options, request.limits
        self._mode = options.mode
        opening = opening_of(world, archive, workspace, limits, options, answers)
        self._opening = replace(opening, folder=request.folder)
        self._forecasters = open_forecasters(request.forecasters.split(","), self._opening)
        self._sims = asking.sims
        self._asked: dict[tuple[str, str], list[str]] = {}
        self._configs: list[ExperimentConfig] = []
        for spec in specs:
            config = experiment(spec, world, self._forecasters, asking)
            key = (config.market_id, iso(config.start_time))
            if key not in self._asked:
                self._configs.append(config)
            self._asked.setdefault(key, []).append(spec.id)
        self._without_market = sum(
            len(self._asked[c.market_id, iso(c.start_time)])
            for c in self._configs
            if c.market_id in world.alone
        )
        check_all(self._forecasters.values(), self._opening)
        forecasters = self._forecasters
        self._walker = Walker(
            world, workspace.clock, self.folder, self._configs, forecasters, answers
        )
        self._walked = compile_plan(run_id, self._configs, forecasters, score=False).steps
        self._walker.follow(self._walked)

    @property
    def paid(self) -> dict[str, int]:
        """The calls that will be made, by forecaster."""
        return {
            one.entry: len(self._configs) * len(one.arms(self._mode)) * self._sims
            for one in self._forecasters.values()
            if not isinstance(one, PanelForecaster)
        }

    def ready(self) -> None:
        """Look whether every forecaster can be asked. Raises Unavailable."""
        for one in self._forecasters.values():
            one.ready()

    def close(self) -> None:
        """Close what was opened to ask."""
        self._walker.close()
        self._opening.close()

    def prepare(self) -> None:
        """Write the experiments, and the plan that names them by their place."""
        self.folder.claim()
        experiments = [config.wire() for config in self._configs]
        write_json(self.folder.path / "config.json", {"experiments": experiments})
        write_json(self.folder.path / "plan.json", self.plan.wire())

    def seal(self) -> dict[str, str]:
        """Write the last file of a finished run."""
        names = ", ".join(f.name for f in self._forecasters.values())
        return self.folder.seal(self.kind, self._archive.digest, {"subject": names})

    def _predictions(self) -> Iterator[PredictionLine]:
        """The PredictionRecords under the events' own ids."""
        for row in read_predictions(self.folder.path / "predictions.jsonl"):
            for event in self._asked[row.id, row.metadata.timestamp]:
                yield structs.replace(row, id=event)


class PredictCounts(TypedDict):
    """counts.json: how many events and predictions, how many predictions are missing, how many
    events no market of the archive asks, and which events nobody answered."""

    events: int
    predictions: int
    missing: int
    without_market: int
    unanswered: list[str]


@job("predict", PredictRequest)
class PredictJob(_Stage):
    """The predict stage as a run: a walk of single instants, then the records of all events."""

    kind = "predict"

    def __init__(self, request: PredictRequest, run_id: str, workspace: Workspace) -> None:
        """Forecast every event at its `forecast_at` (else its resolution date less its horizon)."""
        if request.out.resolve() == request.events.resolve():
            raise InputError("--out names the events file itself: choose another")
        self._out = request.out
        specs = [spec for _, spec in load_events(request.events, request.assume_utc)]
        super().__init__(request, run_id, workspace, Archive(request.archive), specs)
        write = Step("write", "write", {}, ("collect",), here=True)
        self.plan = Plan(run_id, [*self._walked, write])
        walker = self._walker
        self.actions = {**walker.actions, "write": self._write}

    @property
    def fingerprint(self) -> str:
        """The events, the forecasters and the world."""
        asked = [config.wire() for config in self._configs]
        events = sorted(spec.id for spec in self._specs)
        return digest([self._archive.digest, asked, events, str(self._out.resolve())])

    def summary(self) -> PredictCounts:
        """How many events and predictions, and how many are missing."""
        found: PredictCounts = read_json(self.folder.path / "counts.json")
        return found

    def _write(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        differs = outputs["collect"]["differs"]
        asked = [f for f in self._forecasters.values() if not isinstance(f, PanelForecaster)]
        kept = how_kept(asked, differs, context)
        orders = {one.model_id: kept[one.name].order for one in asked}
        lines = [_with_order(row, orders.get(row.metadata.model)) for row in self._predictions()]
        write_jsonl(self._out, map(to_builtins, lines))
        expected = len(self._specs) * len(self._forecasters)
        answered = {row.id for row in lines}
        counts: PredictCounts = {
            "events": len(self._specs),
            "predictions": len(lines),
            "missing": expected - len(lines),
            "without_market": self._without_market,
            "unanswered": [s.id for s in self._specs if s.id not in answered],
        }
        write_json(self.folder.path / "counts.json", counts)
        out = str(self._out.resolve())
        return {**counts, "files": self.folder.digests("counts.json", out)}


def _with_order(row: PredictionLine, order: str | None) -> PredictionLine:
    """The record with the order in which its forecaster was asked, if it was asked."""
    if order is None:
        return row
    return structs.replace(row, metadata=structs.replace(row.metadata, order=order))


@job("benchmark", BenchmarkRequest)
class BenchmarkJob(_Stage):
    """All stages as one run: ingest, a walk of single instants, the records, the evaluation. Its
    files are those that the single stages read and write."""

    kind = "benchmark"

    def __init__(self, request: BenchmarkRequest, run_id: str, workspace: Workspace) -> None:
        self._request = request
        archive = Archive(request.archive)
        self._events = ingest(archive, request.horizon, request.textless)
        if not self._events.events:
            raise InputError(
                f"no market of {request.archive} can be asked {request.horizon.days} days before "
                f"its end ({self._events.counts})"
            )
        specs = [EventSpec.model_validate(line) for line in self._events.events]
        super().__init__(request, run_id, workspace, archive, specs)
        first = Step("ingest", "ingest", here=True)
        walked = [
            Step(s.id, s.action, s.args, s.deps or ("ingest",), here=s.here) for s in self._walked
        ]
        last = Step("evaluate", "evaluate", {}, ("collect",), here=True)
        self.plan = Plan(run_id, [first, *walked, last])
        stages = {"ingest": self._ingest, "evaluate": self._evaluate}
        self.actions = {**self._walker.actions, **stages}

    @property
    def fingerprint(self) -> str:
        """The stages' settings, the forecasters and the world."""
        asked = [config.wire() for config in self._configs]
        request = self._request
        how = [request.horizon.total_seconds(), request.textless, repr(request.settings)]
        return digest([self._archive.digest, asked, how])

    def summary(self) -> Summary:
        """scores.json of the finished run."""
        found: Summary = read_json(self.folder.path / "scores.json")
        return found

    def _ingest(
        self, _: Mapping[str, Any], __: Mapping[str, Any], ___: StepContext
    ) -> Mapping[str, object]:
        self._events.write(self.folder.path)
        names = ("events.jsonl", "events_snapshots.jsonl", "resolutions.jsonl")
        return {**self._events.counts, "files": self.folder.digests(*names)}

    def _evaluate(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        path = self.folder.path
        events, said = path / "events.jsonl", path / "predictions.jsonl"
        endings = path / "resolutions.jsonl"
        instants = {c.market_id: [to_us(c.start_time)] for c in self._configs}
        models = models_of(self._forecasters.values())
        training = self._opening.guard.training([(one.spec, instants) for one in models])
        differs = outputs["collect"]["differs"]
        kept = how_kept(self._forecasters.values(), differs, context)
        forecasters = self._forecasters.values()
        settings = replace(self._request.settings, unranked=unranked(forecasters))
        records = ArchiveRecords(RecordedWorld(self._archive))
        done = evaluation.evaluate_files(
            events, said, endings, settings, training, kept, stored=records, gateway=records.gateway
        )
        evaluation.store(done, (events, said, endings), path, self._forecasters.values())
        files = self.folder.digests(*results.SCORED)
        return {"counts": done.counts, "audit": done.audit["passed"], "files": files}
