"""A backtest as a job: select, compile, walk, score. The engine runs it (`work/jobs.py`)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from beforehand import __version__
from beforehand.clock import Clock, iso
from beforehand.config import Home
from beforehand.engine.context import StepContext
from beforehand.engine.plan import Action, Plan
from beforehand.errors import InputError
from beforehand.forecast.baselines import Baseline
from beforehand.gateway import Audit, Gateway, RecordedWorld
from beforehand.ids import digest
from beforehand.llm.names import SCRIPTED, ModelSpec
from beforehand.records.backtest import ExperimentConfig
from beforehand.score.leaks import recheck
from beforehand.score.skill import MARKET
from beforehand.score.validity import SetFacts
from beforehand.store.archive import Archive
from beforehand.store.files import read_json, write_json, write_jsonl
from beforehand.store.runs import RunFolder, note_trials
from beforehand.work import backtest, grid, results
from beforehand.work.about import LEAK_NOTE, left_out_sentence, pictured, subtitle, world_kind
from beforehand.work.cast import calls_of, make_deciders
from beforehand.work.decisions import counts
from beforehand.work.kept import how_kept
from beforehand.work.order import NO_REPLACEMENT, Replacement, compile_plan
from beforehand.work.request import Fork, Minds, Request
from beforehand.work.scoring import build_table, evaluate
from beforehand.work.voices import is_asked, voices
from beforehand.work.walk import Walker


class BacktestJob:
    """One run over one archive: the same in whichever process it is opened. Opening it raises
    before anything is written if the request is bad."""

    kind = "backtest"

    def __init__(self, request: Request, run_id: str, clock: Clock) -> None:
        self.request = request
        home = Home(request.home)
        self.folder = RunFolder(home.runs, run_id)
        self._ledger = home.trials
        self.archive = Archive(request.archive)
        self.world = RecordedWorld(self.archive, request.grade)
        self.gateway = Gateway(self.world, clock)
        self.selection = backtest.select(self.gateway, self._wanted())
        self.configs, self.models, self.asked = self._compile()
        if not self.configs:
            left = ", ".join(f"{n} {why}" for why, n in self.selection.left_out.items())
            raise InputError(
                f"no market can be scored in {request.archive} ({left or 'it is empty'})"
            )
        if len(self.selection.short) == len({c.market_id for c in self.configs}):
            raise InputError(
                f"none of {len(self.selection.short):,} markets lives long enough to hold an "
                "instant of the grid: ask more often (--every), or use --grid own"
            )
        self.replacement = self._replacement()
        self.plan: Plan = compile_plan(run_id, self.configs, self.replacement)
        deciders = make_deciders(
            self.asked, self.models, home, request.effort, request.minds, self.selection.markets
        )
        self._specs, self._guard = list(deciders.models.values()), deciders.guard
        method = request.minds.method
        walker = self._walker = Walker(
            self.world, clock, self.folder, self.configs, deciders, self.replacement, method
        )
        walker.follow(self.plan.steps)
        self.actions: Mapping[str, Action] = {
            "walk": walker.walk,
            "settle": walker.settle,
            "collect": walker.collect,
            "score": self._score,
        }

    @property
    def fingerprint(self) -> str:
        """What makes this run this run: the request, without its effort and what is said of the
        forecasters (`fresh`), and the world."""
        asked = [config.wire() for config in self.configs]
        fork, settings = self.request.fork, self.request.settings
        left = [] if fork is None else [fork.parent, iso(fork.at), fork.models]
        minds = TypeAdapter(Minds).dump_python(self.request.minds, mode="json")
        how = [self.request.grade, repr(settings), self.variants(), left, minds]
        return digest([self.archive.digest, asked, how])

    @property
    def paid(self) -> dict[str, int]:
        """The calls that the run will make if nothing is in the journal yet, by whom is asked; of
        a model without fallbacks and repetitions."""
        counted = dict.fromkeys(self.asked, 0)
        for config in self.configs:
            for t in grid.instants(config).tolist():
                for name in self.replacement.apply(config.models, t):
                    if name in counted:
                        counted[name] += config.num_sims * calls_of(name, config.mode)
        return counted

    def prepare(self) -> None:
        """Write what is known before the first step; the same bytes at every start."""
        path = self.folder.path
        self.folder.claim()
        write_json(path / "config.json", self._config())
        write_json(path / "plan.json", self.plan.wire())
        used = {c.market_id for c in self.configs}
        endings = {name: r for name, r in self.selection.markets.items() if name in used}
        results.write_questions(path, self.gateway, endings)

    def seal(self) -> dict[str, str]:
        """The last file of a finished run; returns the digests that the journal keeps."""
        return self.folder.seal(self.kind, self.archive.digest)

    def close(self) -> None:
        """Close what was opened to ask."""
        self._walker.close()

    def summary(self) -> dict[str, Any]:
        """scores.json of the finished run."""
        found: dict[str, Any] = read_json(self.folder.path / "scores.json")
        return found

    def _replacement(self) -> Replacement:
        fork = self.request.fork
        return NO_REPLACEMENT if fork is None else Replacement(fork.at, fork.models)

    def _wanted(self) -> Sequence[str] | None:
        if self.request.configs is not None:
            return [config.market_id for config in self.request.configs]
        return self.request.markets

    def _compile(self) -> tuple[list[ExperimentConfig], dict[str, Baseline], list[str]]:
        counts = self.archive.counts()
        self._predictors = sorted({f.predictor for f in self.world.all_forecasts()})
        self._documents = bool(counts.get("document"))
        models = dict[str, Baseline]()
        if self.request.configs is None:
            names = self._voices(self.request.forecasters.split(","), models)
            configs = backtest.experiments(
                self.selection,
                every=self.request.every,
                models=names,
                kind=self.request.grid,
                start=self.request.start,
                stop=self.request.stop,
                max_results=self.request.max_results,
                num_sims=self.request.num_sims,
                minds=self.request.minds,
            )
        else:
            configs = self._given(self.request.configs, models)
        if self.request.fork is not None:
            self._check_fork(self.request.fork, configs, models)
        backtest.check_twice(configs, self._replacement().models)
        spoken = [n for c in configs for n in self._replacement().ever(c.models)]
        return configs, models, list(dict.fromkeys(filter(is_asked, spoken)))

    def _given(
        self, given: Sequence[ExperimentConfig], models: dict[str, Baseline]
    ) -> list[ExperimentConfig]:
        """The experiments of a configuration, each checked."""
        configs: list[ExperimentConfig] = []
        for config in given:
            name = self.gateway.hindsight().resolve_id(config.market_id)
            mine = self._voices(config.models, models)
            config = config.model_copy(update={"market_id": name, "models": mine})
            backtest.check(config, self.selection.first.get(name), self.selection.markets.get(name))
            if name in self.selection.markets:
                configs.append(config)
        return configs

    def _voices(self, names: Sequence[str], models: dict[str, Baseline]) -> list[str]:
        """Model ids for names of forecasters; the baselines are added to `models`."""
        found, chosen = voices(names, documents=self._documents, predictors=self._predictors)
        models.update(chosen)
        return found

    def _check_fork(
        self, fork: Fork, configs: Sequence[ExperimentConfig], models: dict[str, Baseline]
    ) -> None:
        known = {name for config in configs for name in config.models}
        for old, new in fork.models.items():
            if old not in known:
                raise InputError(
                    f"--model {old}: run {fork.parent} has no such model; it has "
                    f"{', '.join(sorted(known))}"
                )
            if is_asked(new) and new in known:
                raise InputError(
                    f"--model {old}={new}: {new} is asked in this run already, and its forecasts "
                    "are there: name another model"
                )
            if self._voices([new], models) != [new]:
                raise InputError(f"--model {old}={new}: name one model, in full")
        last = max(config.end_time for config in configs)
        first = min(config.start_time for config in configs)
        if not first <= fork.at <= last:
            raise InputError(
                f"--at {iso(fork.at)} lies outside the run, which goes from {iso(first)} to "
                f"{iso(last)}"
            )

    @property
    def _grid(self) -> str:
        return "configured" if self.request.configs is not None else self.request.grid

    def variants(self) -> list[str]:
        """Fingerprints of what is tried: the forecaster, its version, and how it was run."""
        request = self.request
        settings = sorted({(c.interval_minutes, c.search_config.max_results) for c in self.configs})
        how = [settings, request.grade, _stamp(request.start), _stamp(request.stop), self._grid]
        tried = [digest([m.name, m.version, how]) for m in self.models.values() if m.name != MARKET]
        sims = sorted({(config.num_sims, config.mode) for config in self.configs})
        return tried + [digest([name, sims, how]) for name in self.asked if name != SCRIPTED]

    def _spoken(self, spec: ModelSpec) -> dict[str, int]:
        """At how many instants of each market a model speaks."""
        apply, found = self.replacement.apply, Counter[str]()
        for c in self.configs:
            found[c.market_id] += sum(
                spec.id in apply(c.models, t) for t in grid.instants(c).tolist()
            )
        return dict(found)

    def _config(self) -> dict[str, Any]:
        request = self.request
        fork = request.fork
        found = {
            "archive_digest": self.archive.digest,
            "grade": request.grade,
            "seed": request.settings.seed,
            "draws": request.settings.draws,
            "placebo": request.settings.placebo,
            "grid": grid.statement(self._grid),
            "short": self.selection.short,
            "left_out": self.selection.left_out,
            "experiments": [config.wire() for config in self.configs],
        }
        if self._specs:
            found["models"] = {
                **TypeAdapter(Minds).dump_python(request.minds, mode="json"),
                "training_ends": {s.id: _stamp(s.cutoff) for s in self._specs},
            }
        if fork is not None:
            found["fork"] = {"parent": fork.parent, "at": iso(fork.at), "models": fork.models}
        return found

    def _score(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> dict[str, Any]:
        """Score from the run's files alone, and write what people look at."""
        path = self.folder.path
        audit = Audit()
        audit.add(outputs["collect"]["audit"])
        endings = {row["id"]: row for row in results.read_jsonl(path / "resolutions.jsonl")}
        events = list(results.read_jsonl(path / "events.jsonl"))
        questions = [results.question(event, endings.get(event["id"])) for event in events]
        rows = path / "intervals.jsonl"
        apart = set(self.selection.short)
        columns = results.columns_of(
            row for row in results.questions_of(rows) if row["market_id"] not in apart
        )
        table = build_table(columns, questions)
        planted = results.canaries(self.archive)
        leaks = results.leak_report(audit, self.archive)
        leaks.canaries_planted = len(planted)
        forecasts = recheck(leaks, results.read_jsonl(rows), planted)
        if forecasts:
            write_jsonl(path / "leaks.jsonl", forecasts)
        markets = [c.market_id for c in self.configs]
        tried = note_trials(self._ledger, "backtest", markets, self.variants())
        left_out = self.selection.left_out
        training = self._guard.training(self._specs, self._spoken)
        facts = SetFacts(
            documents=leaks.documents,
            void=left_out.get("void", 0),
            unresolved=left_out.get("unresolved", 0) + left_out.get("disputed", 0),
            variants=tried,
            short=len(apart),
            kept=how_kept(self.models, self.asked, outputs["collect"]["differs"], context),
            admitted_after_t=leaks.admitted_after_t,
            models=training is not None,
            share_after_training_cutoff=training.share if training else None,
        )
        result = evaluate(table, facts, replace(self.request.settings, variants=tried))
        name = pictured(results.read_jsonl(rows))
        shown = [row for row in results.questions_of(rows) if row["market_id"] == name]
        asked = next(event for event in events if event["id"] == name)
        write_json(path / "audit.json", audit.wire())
        traces = path / "traces.jsonl"
        made = counts(
            results.read_jsonl(rows),
            results.read_jsonl(traces) if traces.is_file() else (),
        )
        about = {
            "run_id": self.folder.run_id,
            "title": f"run {self.folder.run_id}",
            "version": __version__,
            "world_kind": world_kind(self.archive),
            "subtitle": subtitle(table.t, self.request.grade, float(table.strict.mean())),
            "grid": grid.statement(self._grid),
            "left_out": left_out_sentence(left_out),
            "leak_note": LEAK_NOTE,
            "decisions": made,
            "without_flagged": results.without_flagged(path, questions, self.request.settings),
            "short": results.short_wire(rows, apart, questions, self.request.settings),
            "pictured": {
                "id": name,
                "question": asked["question"],
                "settled": next(q.settled for q in questions if q.id == name),
            },
        }
        summary = results.store(path, result, leaks, about, shown)
        written = ["audit.json", "scores.json", "leaderboard.csv", "report.html"]
        written += ["leaks.jsonl"] if forecasts else []
        return {"rows": len(summary["leaderboard"]), "files": self.folder.digests(*written)}


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else iso(instant)
