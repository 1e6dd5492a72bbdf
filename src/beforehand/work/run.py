"""One backtest from options to files: select, compile, drive, score, seal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from beforehand import __version__
from beforehand.clock import Clock, SystemClock, iso, stopwatch
from beforehand.engine import driver
from beforehand.errors import InputError, NotFound
from beforehand.forecast.baselines import Baseline, choose
from beforehand.gateway import Audit, Gateway, RecordedWorld
from beforehand.gateway.search import Grade
from beforehand.ids import digest, new_run_id
from beforehand.records.backtest import ExperimentConfig
from beforehand.score.leaks import recheck
from beforehand.score.skill import MARKET
from beforehand.score.validity import SetFacts
from beforehand.store.archive import Archive
from beforehand.store.files import write_json
from beforehand.store.runs import LOG, RunFolder, note_trials
from beforehand.work import backtest, grid, results
from beforehand.work.scoring import Settings, build_table, evaluate


@dataclass(frozen=True)
class Request:
    """What a user asked for. `configs` replaces markets, interval and forecasters."""

    archive: Path
    runs: Path
    ledger: Path
    markets: Sequence[str] | None = None
    every: timedelta = timedelta(days=7)
    forecasters: str = "all"
    start: datetime | None = None
    stop: datetime | None = None
    max_results: int = 5
    grade: Grade = "captured"
    run_id: str | None = None
    configs: Sequence[ExperimentConfig] | None = None
    settings: Settings = Settings()


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and the summary of scores.json."""

    folder: RunFolder
    summary: dict[str, Any]


class _Job:
    """The state that the actions of one run share."""

    def __init__(self, request: Request, clock: Clock) -> None:
        self.request, self.clock = request, clock
        self.archive = Archive(request.archive)
        self.world = RecordedWorld(self.archive, request.grade)
        self.gateway = Gateway(self.world, clock)
        self.selection = backtest.select(self.gateway, self.world, self._wanted())
        self.configs, self.models = self._compile()
        if not self.configs:
            left = ", ".join(f"{n} {why}" for why, n in self.selection.left_out.items())
            raise InputError(
                f"no market can be scored in {request.archive} ({left or 'it is empty'})"
            )

    def _wanted(self) -> Sequence[str] | None:
        if self.request.configs is not None:
            return [config.market_id for config in self.request.configs]
        return self.request.markets

    def _compile(self) -> tuple[list[ExperimentConfig], dict[str, Baseline]]:
        counts = self.archive.counts()
        predictors = sorted({f.predictor for f in self.world.all_forecasts()})
        documents = bool(counts.get("document"))
        if self.request.configs is None:
            chosen = choose(self.request.forecasters, documents=documents, predictors=predictors)
            configs = backtest.experiments(
                self.world,
                self.selection,
                every=self.request.every,
                models=chosen,
                start=self.request.start,
                stop=self.request.stop,
                max_results=self.request.max_results,
            )
            return configs, {model.name: model for model in chosen}
        configs, models = [], dict[str, Baseline]()
        for config in self.request.configs:
            name = self.gateway.hindsight().resolve_id(config.market_id)
            if any(c.market_id == name for c in configs):
                raise InputError(f"market_id: {name} is listed twice: one experiment a market")
            mine = choose(",".join(config.models), documents=documents, predictors=predictors)
            config = config.model_copy(
                update={"market_id": name, "models": [f"baseline:{m.name}" for m in mine]}
            )
            backtest.check(config, self.world, self.selection.markets.get(name))
            if name in self.selection.markets:
                configs.append(config)
                models.update({m.name: m for m in mine})
        return configs, models

    def variants(self) -> list[str]:
        """Fingerprints of what is tried: the forecaster, its version, and how it was run."""
        request = self.request
        settings = sorted({(c.interval_minutes, c.search_config.max_results) for c in self.configs})
        how = [settings, request.grade, _stamp(request.start), _stamp(request.stop)]
        tried = [m for m in self.models.values() if m.name != MARKET]
        return [digest([m.name, m.version, how]) for m in tried]


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else iso(instant)


def run(
    request: Request, clock: Clock | None = None, progress: driver.Progress | None = None
) -> Finished:
    """Run a backtest to the end; raises before anything is written if the request is bad."""
    clock = clock or SystemClock()
    started, watch = clock.now(), stopwatch()
    job = _Job(request, clock)
    run_id = request.run_id or new_run_id(started, lambda n: (request.runs / n).exists())
    folder = RunFolder(request.runs, run_id)
    folder.create()
    plan = backtest.compile_plan(run_id, job.configs)
    write_json(folder.path / "config.json", _config(job))
    write_json(folder.path / "plan.json", plan.wire())
    used = {c.market_id for c in job.configs}
    endings = {name: r for name, r in job.selection.markets.items() if name in used}
    results.write_questions(folder.path, job.gateway, endings)
    job.gateway.audit = Audit()  # The trail starts here: naming the markets is not forecasting.
    walker = backtest.Walker(job.gateway, folder, job.models)
    summary: dict[str, Any] = {}

    def score(_: Mapping[str, Any], __: Mapping[str, Any]) -> dict[str, Any]:
        summary.update(_score(job, folder))
        return {"rows": len(summary["leaderboard"])}

    actions: dict[str, driver.Action] = {
        "walk": walker.walk,
        "collect": walker.collect,
        "score": score,
    }
    driver.run(plan, actions, progress)
    write_json(
        folder.path / LOG,
        {
            "started_at": iso(started),
            "finished_at": iso(clock.now()),
            "duration_s": round(stopwatch() - watch, 3),
        },
    )
    folder.seal("backtest", job.archive.digest)
    return Finished(folder, summary)


def _config(job: _Job) -> dict[str, Any]:
    return {
        "archive_digest": job.archive.digest,
        "grade": job.request.grade,
        "seed": job.request.settings.seed,
        "draws": job.request.settings.draws,
        "placebo": job.request.settings.placebo,
        "grid": grid.STATEMENT,
        "left_out": job.selection.left_out,
        "experiments": [config.wire() for config in job.configs],
    }


def _score(job: _Job, folder: RunFolder) -> dict[str, Any]:
    """Score from the run's files alone, and write what people look at."""
    path = folder.path
    endings = {row["id"]: row for row in results.read_jsonl(path / "resolutions.jsonl")}
    events = list(results.read_jsonl(path / "events.jsonl"))
    questions = [results.question(event, endings.get(event["id"])) for event in events]
    table = build_table(results.columns_of(results.read_jsonl(path / "intervals.jsonl")), questions)
    planted = results.canaries(job.archive)
    leaks = results.leak_report(job.gateway.audit, job.archive)
    leaks.canaries_planted = len(planted)
    recheck(leaks, results.read_jsonl(path / "intervals.jsonl"), planted)
    markets = [c.market_id for c in job.configs]
    tried = note_trials(job.request.ledger, "backtest", markets, job.variants())
    left_out = job.selection.left_out
    facts = SetFacts(
        documents=leaks.documents,
        void=left_out.get("void", 0),
        unresolved=left_out.get("unresolved", 0) + left_out.get("disputed", 0),
        variants=tried,
        admitted_after_t=leaks.admitted_after_t,
    )
    result = evaluate(table, facts, replace(job.request.settings, variants=tried))
    name = pictured(results.read_jsonl(path / "intervals.jsonl"))
    shown = [
        row for row in results.read_jsonl(path / "intervals.jsonl") if row["market_id"] == name
    ]
    asked = next(event for event in events if event["id"] == name)
    write_json(path / "audit.json", job.gateway.audit.wire())
    about = {
        "run_id": folder.run_id,
        "title": f"run {folder.run_id}",
        "version": __version__,
        "world_kind": world_kind(job.archive),
        "subtitle": subtitle(table.t, job.request.grade, float(table.strict.mean())),
        "grid": grid.STATEMENT,
        "left_out": left_out_sentence(left_out),
        "leak_note": LEAK_NOTE,
        "pictured": {
            "id": name,
            "question": asked["question"],
            "settled": next(q.settled for q in questions if q.id == name),
        },
    }
    return results.store(path, result, leaks, about, shown)


LEAK_NOTE = (
    "This says that no record after t was shown. A language model's own memory lies outside the "
    "wall: for that the card has the share of forecasts after the training cutoff."
)


def world_kind(archive: Archive) -> str:
    """`simulated world` or `recorded archive`, as every page must say."""
    importers = {entry["importer"] for entry in archive.manifest["imports"]}
    kind = "recorded archive" if "simulate" not in importers else "simulated world"
    if kind == "simulated world" and len(importers) > 1:
        kind = "simulated world with imported records"
    return f"{kind} {archive.digest[:12]}"


def subtitle(t: Any, grade: str, strict: float) -> str:
    """What was walked, and on what grade of text."""
    start = f"{len(t):,} forecasts. Text grade: {grade}; "
    if strict == 1.0:
        return (
            start + "every forecast had a question text whose stored version was no later than t."
        )
    return start + (
        f"{100 * strict:.0f} % of the forecasts had a question text whose stored version was no "
        "later than t, the others were made on the price alone."
    )


def left_out_sentence(left_out: Mapping[str, int]) -> str:
    """Markets not walked, with the reason."""
    if not left_out:
        return "Every market was walked."
    parts = [f"{n:,} {why}" for why, n in sorted(left_out.items())]
    return f"Markets not scored: {', '.join(parts)}."


def pictured(intervals: Any) -> str:
    """The market to draw: one whose price moved far while documents came in."""
    seen: dict[str, set[str]] = {}
    odds: dict[str, list[float]] = {}
    for row in intervals:
        name, context = row["market_id"], row["context"]
        seen.setdefault(name, set()).update(s["id"] for s in context["search_snippets"])
        if context["market"]["odds"] is not None:
            odds.setdefault(name, []).append(context["market"]["odds"])
    if not odds:
        raise NotFound("the run has no interval to draw")

    def interest(name: str) -> tuple[float, str]:
        moved = max(odds[name]) - min(odds[name])
        return (1 + min(len(seen[name]), 12)) * moved * min(len(odds[name]), 12), name

    return max(odds, key=interest)
