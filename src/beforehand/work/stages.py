"""The benchmark as runs: the predict stage over a file of events, and all stages in one Plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from beforehand.clock import Clock, iso
from beforehand.config import Home
from beforehand.engine.context import StepContext
from beforehand.engine.plan import Action, Plan, Step
from beforehand.errors import InputError
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.ids import digest
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.benchmark import EventSpec
from beforehand.store.archive import Archive
from beforehand.store.files import read_json, write_json, write_jsonl
from beforehand.store.runs import RunFolder
from beforehand.work import evaluation, results
from beforehand.work.benchmark import experiment, ingest, load_events
from beforehand.work.cast import calls_of, make_deciders
from beforehand.work.kept import how_kept
from beforehand.work.order import compile_plan
from beforehand.work.request import Effort, Minds
from beforehand.work.scoring import Settings
from beforehand.work.voices import is_asked, voices
from beforehand.work.walk import Walker


@dataclass(frozen=True)
class PredictRequest:
    """Events to be forecast, each at its own instant."""

    archive: Path
    home: Path
    events: Path
    forecasters: str
    out: Path
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True)
class BenchmarkRequest:
    """All stages over one archive: events `horizon` before each end, forecasts, scores. `fresh`
    states that the forecasters at addresses were restarted just before."""

    archive: Path
    home: Path
    forecasters: str = "all"
    horizon: timedelta = timedelta(days=7)
    textless: bool = False
    settings: Settings = Settings()
    effort: Effort = field(default_factory=Effort)
    fresh: bool = False


class _Stage:
    """What both kinds share: events, each walked for a single instant."""

    kind: str
    plan: Plan
    actions: Mapping[str, Action]

    def __init__(
        self,
        request: PredictRequest | BenchmarkRequest,
        run_id: str,
        clock: Clock,
        archive: Archive,
        specs: Sequence[EventSpec],
    ) -> None:
        home = Home(request.home)
        self.folder = RunFolder(home.runs, run_id)
        self._archive, self._specs = archive, specs
        world = RecordedWorld(archive)
        gateway = Gateway(world, clock)
        predictors = sorted({f.predictor for f in world.all_forecasts()})
        documents = bool(archive.counts().get("document"))
        self._names, models = voices(
            request.forecasters.split(","), documents=documents, predictors=predictors
        )
        self._asked: dict[tuple[str, str], list[str]] = {}
        self._configs: list[ExperimentConfig] = []
        for spec in specs:
            config = experiment(spec, gateway, self._names)
            key = (config.market_id, iso(config.start_time))
            if key not in self._asked:
                self._configs.append(config)
            self._asked.setdefault(key, []).append(spec.id)
        asked = self._asked_names = list(filter(is_asked, self._names))
        self._baselines = list(models)
        answers = {r.market_id: r for r in gateway.hindsight().resolutions()}
        deciders = make_deciders(asked, models, home, request.effort, Minds(), answers)
        self._guard, self._specs_of_models = deciders.guard, list(deciders.models.values())
        self._walker = Walker(world, clock, self.folder, self._configs, deciders)
        self._walked = compile_plan(run_id, self._configs, score=False).steps
        self._walker.follow(self._walked)

    @property
    def paid(self) -> dict[str, int]:
        """The calls that will be made, by whom is asked."""
        return {
            name: len(self._configs) * calls_of(name, Minds().mode) for name in self._asked_names
        }

    def close(self) -> None:
        """Close what was opened to ask."""
        self._walker.close()

    def prepare(self) -> None:
        """Write the experiments, and the plan that names them by their place."""
        self.folder.claim()
        experiments = [config.wire() for config in self._configs]
        write_json(self.folder.path / "config.json", {"experiments": experiments})
        write_json(self.folder.path / "plan.json", self.plan.wire())

    def seal(self) -> dict[str, str]:
        """The last file of a finished run."""
        return self.folder.seal(self.kind, self._archive.digest)

    def _predictions(self) -> list[dict[str, Any]]:
        """The PredictionRecords under the events' own ids."""
        return [
            {**row, "id": event}
            for row in results.read_jsonl(self.folder.path / "predictions.jsonl")
            for event in self._asked[row["id"], row["metadata"]["timestamp"]]
        ]


class PredictJob(_Stage):
    """The predict stage as a run: a walk of single instants, then the records of all events."""

    kind = "predict"

    def __init__(self, request: PredictRequest, run_id: str, clock: Clock) -> None:
        """Forecast every event at its `forecast_at` (else its resolution date less its horizon)."""
        if request.out.resolve() == request.events.resolve():
            raise InputError("--out names the events file itself: choose another")
        self._out = request.out
        specs = [spec for _, spec in load_events(request.events)]
        super().__init__(request, run_id, clock, Archive(request.archive), specs)
        write = Step("write", "write", {}, ("collect",), here=True)
        self.plan = Plan(run_id, [*self._walked, write])
        walker = self._walker
        self.actions = {
            "walk": walker.walk,
            "settle": walker.settle,
            "collect": walker.collect,
            "write": self._write,
        }

    @property
    def fingerprint(self) -> str:
        """The events, the forecasters and the world."""
        asked = [config.wire() for config in self._configs]
        events = sorted(spec.id for spec in self._specs)
        return digest([self._archive.digest, asked, events, str(self._out.resolve())])

    def summary(self) -> dict[str, Any]:
        """How many events and predictions, and how many are missing."""
        found: dict[str, Any] = read_json(self.folder.path / "counts.json")
        return found

    def _write(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        lines = self._predictions()
        differs = outputs["collect"]["differs"]
        for name, how in how_kept((), self._asked_names, differs, context).items():
            for line in lines:
                if line["metadata"]["model"] == name:
                    line["metadata"]["order"] = how.order
        write_jsonl(self._out, lines)
        expected = len(self._specs) * len(self._names)
        counts = {"events": len(self._specs), "predictions": len(lines)}
        counts["missing"] = expected - len(lines)
        write_json(self.folder.path / "counts.json", counts)
        out = str(self._out.resolve())
        return {**counts, "files": self.folder.digests("counts.json", out)}


class BenchmarkJob(_Stage):
    """All stages as one run: ingest, a walk of single instants, the records, the evaluation. Its
    files are those that the single stages read and write."""

    kind = "benchmark"

    def __init__(self, request: BenchmarkRequest, run_id: str, clock: Clock) -> None:
        self._request = request
        archive = Archive(request.archive)
        self._events = ingest(archive, request.horizon, request.textless)
        if not self._events.events:
            raise InputError(
                f"no market of {request.archive} can be asked {request.horizon.days} days before "
                f"its end ({self._events.counts})"
            )
        specs = [EventSpec.model_validate(line) for line in self._events.events]
        super().__init__(request, run_id, clock, archive, specs)
        first = Step("ingest", "ingest", here=True)
        walked = [
            Step(s.id, s.action, s.args, s.deps or ("ingest",), here=s.here) for s in self._walked
        ]
        last = Step("evaluate", "evaluate", {}, ("collect",), here=True)
        self.plan = Plan(run_id, [first, *walked, last])
        self.actions = {
            "ingest": self._ingest,
            "walk": self._walker.walk,
            "settle": self._walker.settle,
            "collect": self._walker.collect,
            "evaluate": self._evaluate,
        }

    @property
    def fingerprint(self) -> str:
        """The stages' settings, the forecasters and the world."""
        asked = [config.wire() for config in self._configs]
        request = self._request
        how = [request.horizon.total_seconds(), request.textless, repr(request.settings)]
        return digest([self._archive.digest, asked, how])

    def summary(self) -> dict[str, Any]:
        """scores.json of the finished run."""
        found: dict[str, Any] = read_json(self.folder.path / "scores.json")
        return found

    def _ingest(
        self, _: Mapping[str, Any], __: Mapping[str, Any], ___: StepContext
    ) -> dict[str, Any]:
        self._events.write(self.folder.path)
        names = ("events.jsonl", "events_snapshots.jsonl", "resolutions.jsonl")
        return {**self._events.counts, "files": self.folder.digests(*names)}

    def _evaluate(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        path = self.folder.path
        events, said = path / "events.jsonl", path / "predictions.jsonl"
        endings = path / "resolutions.jsonl"
        counted = {config.market_id: 1 for config in self._configs}
        training = self._guard.training(self._specs_of_models, lambda _: counted)
        differs = outputs["collect"]["differs"]
        kept = how_kept(self._baselines, self._asked_names, differs, context)
        settings = self._request.settings
        done = evaluation.evaluate_files(events, said, endings, settings, training, kept)
        evaluation.store(done, (events, said, endings), path)
        files = self.folder.digests("scores.json", "leaderboard.csv", "report.html")
        return {"counts": done.counts, "audit": done.audit["passed"], "files": files}
