"""A backtest as a job: what a user asks (as values that the journal can keep), and how it is
selected, compiled, walked and scored. The engine runs it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from beforehand import __version__
from beforehand.clock import MICROSECOND, iso, to_us
from beforehand.config import Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.job import RunLimits, job
from beforehand.engine.plan import Action, Plan
from beforehand.errors import InputError
from beforehand.forecast.base import (
    Forecaster,
    ModelOptions,
    PanelForecaster,
    open_forecasters,
)
from beforehand.forecast.schemes.model import Model
from beforehand.gateway.gateway import Audit, Gateway
from beforehand.gateway.search import Grade
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest, digest_around
from beforehand.jobs import hindsight, results
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest import select as backtest
from beforehand.jobs.backtest.grid import Kind, in_words
from beforehand.jobs.backtest.kept import Intervals, kept_at
from beforehand.jobs.backtest.large.bulk import Bulks
from beforehand.jobs.backtest.large.joined import PARTS, Form, form_of
from beforehand.jobs.backtest.order import (
    CHUNK,
    LARGE_CHUNK,
    NO_REPLACEMENT,
    Replacement,
    compile_plan,
)
from beforehand.jobs.backtest.select import Experiments
from beforehand.jobs.backtest.walk import Walker
from beforehand.jobs.checks import fees_apply
from beforehand.jobs.forecasters import (
    CHANGED,
    check_all,
    how_kept,
    models_of,
    opening_of,
    unranked,
)
from beforehand.jobs.results import LEAK_NOTE, left_out_sentence, subtitle, world_kind
from beforehand.memory import give_back, trim
from beforehand.records.backtest import ExperimentConfig
from beforehand.runs.columns import each_question
from beforehand.runs.marks import MARKS, write_marks
from beforehand.score.evaluate import Beside, Settings, evaluate, later, part_wire
from beforehand.score.leaks.report import LeakReport
from beforehand.score.scoreboard import Kept
from beforehand.score.skill import MARKET
from beforehand.score.summary import About, Summary
from beforehand.score.table import Table
from beforehand.score.validity import SetFacts
from beforehand.store.archive.manifest import licences_of
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_json, write_json, write_json_around, write_jsonl
from beforehand.store.run_folder import RunFolder
from beforehand.store.trials import note_trials

MOST_QUESTIONS = 5_000_000
"""The most questions (a market at an instant) of a run."""

MOST_BESIDE = 1_000_000
"""The most rows that a second process helps to score."""


@dataclass(frozen=True)
class Fork:
    """A run that repeats `parent` up to `at` and uses other models from there on. Each of `models`
    is OLD=NEW, where OLD is an entry or a name."""

    parent: str
    at: datetime
    models: list[str]


@dataclass(frozen=True)
class BacktestRequest:
    """What a user asked for. `configs` replaces markets, interval, grid and forecasters; `fresh`
    states that the forecasters at addresses were restarted just before; `folder` is where files of
    Python are named from."""

    archive: Path
    markets: list[str] | None = None
    every: timedelta = timedelta(days=7)
    grid: Kind = "aligned"
    forecasters: str = "all"
    num_sims: int = 1
    start: datetime | None = None
    stop: datetime | None = None
    max_results: int = 5
    lookback_days: int | None = None
    grade: Grade = "captured"
    configs: list[ExperimentConfig] | None = None
    settings: Settings = Settings()
    limits: RunLimits = field(default_factory=RunLimits)
    fork: Fork | None = None
    model_options: ModelOptions = field(default_factory=ModelOptions)
    fresh: bool = False
    folder: Path | None = None


@job("backtest", BacktestRequest)
class BacktestJob:
    """One run over one archive; it is the same in every process that opens it. If the request is
    bad, opening raises before anything is written."""

    def __init__(self, request: BacktestRequest, run_id: str, workspace: Workspace) -> None:
        self.request = request
        home = workspace.home
        self.folder = RunFolder(home.runs, run_id)
        self._ledger = home.trials
        self.archive = Archive(request.archive)
        self.world = RecordedWorld(self.archive, request.grade)
        self.gateway = Gateway(self.world, workspace.clock)
        self.selection = backtest.select(self.gateway, self._wanted())
        if request.settings.kelly.fees:
            view = self.gateway.full_view()
            there = [view.market(name) for name in self.selection.names]
            fees_apply(request.settings.kelly, there)
        self.forecasters: dict[str, Forecaster] = {}
        opening = opening_of(
            self.world,
            self.archive,
            workspace,
            request.limits,
            request.model_options,
            self.selection.markets,
            self.selection.open,
        )
        self._opening = replace(opening, folder=request.folder)
        self.configs = self._compile()
        if not self.configs:
            left = ", ".join(f"{n} {why}" for why, n in self.selection.left_out.items())
            raise InputError(
                f"no market can be scored in {request.archive} ({left or 'it is empty'})"
            )
        if len(self.selection.short) == len({*self.configs.markets}):
            raise InputError(
                f"none of {len(self.selection.short):,} markets lives long enough to hold an "
                "instant of the grid: ask more often (--every), or use --grid own"
            )
        form = self._form()
        self.plan: Plan = compile_plan(
            run_id,
            self.configs,
            self.forecasters,
            self.replacement,
            chunk=CHUNK if form is None else LARGE_CHUNK,
        )
        check_all(self.forecasters.values(), self._opening)
        walker = self._walker = Walker(
            self.world,
            workspace.clock,
            self.folder,
            self.configs,
            self.forecasters,
            self.selection.markets,
            self.replacement,
            request.model_options.method,
            form,
        )
        walker.follow(self.plan.steps)
        self._alone = bool(workspace.database) or request.limits.concurrency == 1
        walks = {
            name: self._noting(action) if self.asked else action
            for name, action in walker.actions.items()
        }
        self.actions: Mapping[str, Action] = {**walks, "score": self._score}
        self._noted = False
        self._first_codes: dict[str, str] = {}
        self.warnings: list[str] = []

    def _noting(self, action: Action) -> Action:
        """The same, after which those that are asked count as tried: a run that is stopped has
        answers on record as well."""

        def act(
            args: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
        ) -> object:
            made = action(args, outputs, context)
            if not self._noted:
                here = self.folder.run_id, context.journal.now(), self.archive.digest
                variants, markets = self.variants(asked_alone=True), {*self.configs.markets}
                note_trials(self._ledger, "backtest", markets, variants, *here)
                self._noted = True
            return made

        return act

    @classmethod
    def forked(
        cls,
        request: BacktestRequest,
        parent: str,
        at: datetime,
        models: Sequence[str],
        fresh: bool,
    ) -> BacktestRequest:
        """The request of a run that repeats `parent` up to `at`, with other models from there."""
        if request.fork is not None:
            raise InputError(f"run {parent} is a fork itself: fork {request.fork.parent} instead")
        return replace(request, fork=Fork(parent, at, list(models)), fresh=fresh)

    @property
    def parent(self) -> str | None:
        """The run that a fork repeats."""
        return None if self.request.fork is None else self.request.fork.parent

    @property
    def fingerprint(self) -> str:
        """Identifies the run: a digest of the world and of the request, without its limits and
        without `fresh`."""
        asked = (config.wire() for config in self.configs)
        fork, settings = self.request.fork, self.request.settings
        left = [] if fork is None else [fork.parent, iso(fork.at), dict(self.replacement.models)]
        options = TypeAdapter(ModelOptions).dump_python(self.request.model_options, mode="json")
        variants = list(self.variants(by_code=False))
        how = [self.request.grade, repr(settings), variants, left, options]
        how += [] if self._walker.form is None else [PARTS]
        return digest_around(self.archive.digest, asked, how)

    @property
    def paid(self) -> dict[str, int]:
        """The calls that the run will make if nothing is in the journal yet, by forecaster. A
        model's fallbacks and repetitions are not counted."""
        counted = dict.fromkeys((one.entry for one in self.asked), 0)
        for config in self.configs if counted else ():
            for t in grid.instants(config).tolist():
                for name in self.replacement.apply(config.models, t):
                    if name in counted:
                        arms = self.forecasters[name].arms(config.mode)
                        counted[name] += config.num_sims * len(arms)
        return counted

    def prepare(self) -> None:
        """Write what is known before the first step; the same bytes at every start."""
        path = self.folder.path
        self.folder.claim()
        if self._bulks is not None:
            self._bulks.begin()
        begun = read_json(path / "config.json") if (path / "config.json").is_file() else {}
        codes = self._codes
        self._first_codes = {**codes, **begun.get("code", {})} if begun else codes
        self.warnings = [
            f"{name}: {CHANGED}; begin a new run for answers of the new code alone"
            for name in self._changed
        ]
        experiments = (config.wire() for config in self.configs)
        write_json_around(path / "config.json", self._config(), "experiments", experiments)
        write_json(path / "plan.json", self.plan.wire())
        used, chosen = {*self.configs.markets}, self.selection
        results.write_questions(path, self.gateway, chosen.markets, sorted(used), chosen.open)
        if self.archive.by_market:
            self.world.forget()
            give_back()

    @property
    def _bulks(self) -> Bulks | None:
        """The two processes of a run in which every step is one of pure functions: others are
        carried out one by one, and a Postgres has workers of its own."""
        pure = self._walker.form is not None and not self._walker.form.lines
        return self._walker.bulks if pure and not self._alone else None

    @property
    def at_once(self) -> int:
        """How many steps are carried out at once where nobody is asked over the network."""
        return 1 if self._bulks is None else self._bulks.at_once

    def seal(self) -> dict[str, str]:
        """Write the last file of a finished run; returns the digests that the journal keeps."""
        told = results.told(self.folder, ", ".join(f.name for f in self.forecasters.values()))
        return self.folder.seal("backtest", self.archive.digest, told)

    def ready(self) -> None:
        """Look whether every forecaster can be asked. Raises Unavailable."""
        for one in self.forecasters.values():
            one.ready()

    def close(self) -> None:
        """Close what was opened to ask."""
        self._walker.close()
        self._opening.close()

    def summary(self) -> Summary:
        """scores.json of the finished run."""
        found: Summary = read_json(self.folder.path / "scores.json")
        return found

    def _wanted(self) -> Sequence[str] | None:
        if self.request.configs is not None:
            return [config.market_id for config in self.request.configs]
        return self.request.markets

    @property
    def asked(self) -> list[Forecaster]:
        """The forecasters that are asked interval by interval."""
        return [f for f in self.forecasters.values() if not isinstance(f, PanelForecaster)]

    def _compile(self) -> Experiments:
        if self.request.configs is None:
            self._bounded(self._expected())
            names = self._open(self.request.forecasters.split(","))
            configs = backtest.experiments(
                self.selection,
                every=self.request.every,
                forecasters={name: self.forecasters[name] for name in names},
                kind=self.request.grid,
                start=self.request.start,
                stop=self.request.stop,
                max_results=self.request.max_results,
                lookback_days=self.request.lookback_days,
                num_sims=self.request.num_sims,
                options=self.request.model_options,
            )
        else:
            self._bounded(sum(map(grid.count, self.request.configs)))
            given = backtest.named_by_mode(self.request.configs)
            configs = Experiments.of(self._given(given))
        self.replacement = NO_REPLACEMENT
        if (fork := self.request.fork) is not None and configs:
            self.replacement = Replacement(fork.at, self._stand_ins(fork, configs))
        backtest.check_twice(configs, self.replacement.models)
        spoken = {name for c in configs.kinds for name in self.replacement.ever(c.models)}
        self.forecasters = {name: f for name, f in self.forecasters.items() if name in spoken}
        return configs

    def _form(self) -> Form | None:
        """How a large run keeps its rows."""
        documents = bool(self.archive.counts().get("document"))
        how = self.replacement, self.request.model_options.method, documents
        return form_of(self.configs, self.forecasters, *how)

    def _expected(self) -> int:
        """About how many questions the grid asks; counted before any instant is made."""
        request, found = self.request, 0
        for name in self.selection.names:
            begin, end = self.selection.first[name], self.selection.over(name)
            begin = begin if request.start is None else max(begin, to_us(request.start))
            end = end if request.stop is None else min(end, to_us(request.stop))
            found += max(0, end - begin) // (request.every // MICROSECOND) + 1
        return found

    def _bounded(self, questions: int) -> None:
        """Raises InputError for more questions than memory is meant for."""
        if questions > MOST_QUESTIONS:
            raise InputError(
                f"that is {questions:,} questions, and a run has at most {MOST_QUESTIONS:,}: ask "
                "less often (every), about fewer markets, or over a shorter time (start, end)"
            )

    def _given(self, given: Sequence[ExperimentConfig]) -> list[ExperimentConfig]:
        """The experiments of a configuration, each checked."""
        configs: list[ExperimentConfig] = []
        for config in given:
            name = self.gateway.full_view().resolve_id(config.market_id)
            mine = self._open(config.models)
            config = config.model_copy(update={"market_id": name, "models": mine})
            asked = [self.forecasters[entry] for entry in mine]
            first, ending = self.selection.first.get(name), self.selection.markets.get(name)
            backtest.check(config, asked, first, ending)
            if name in self.selection.markets or name in self.selection.open:
                configs.append(config)
        return configs

    def _open(self, names: Sequence[str]) -> list[str]:
        """The entries of forecasters by name; each is opened once."""
        found = open_forecasters(names, self._opening, self.forecasters)
        self.forecasters.update(found)
        return list(found)

    def _stand_ins(self, fork: Fork, configs: Experiments) -> dict[str, str]:
        """Which model replaces which from the fork on, by entries. Raises InputError."""
        known = {name for config in configs.kinds for name in config.models}
        called = {self.forecasters[name].name: name for name in known} | {n: n for n in known}
        found: dict[str, str] = {}
        for text in fork.models:
            old = max((n for n in called if text.startswith(f"{n}=")), key=len, default=None)
            if old is None:
                raise InputError(
                    f"--model {text}: run {fork.parent} has no such model to replace; write "
                    f"OLD=NEW, where OLD is one of {', '.join(sorted(known))}"
                )
            made = self._open([text[len(old) + 1 :]])
            if len(made) != 1:
                raise InputError(f"--model {text}: give the full name of one model")
            (new,) = made
            if new in known and not isinstance(self.forecasters[new], PanelForecaster):
                raise InputError(
                    f"--model {text}: {new} is asked in this run already and has forecasts in it: "
                    "name another model"
                )
            found[called[old]] = new
        last = max(config.end_time for config in configs)
        first = min(config.start_time for config in configs)
        if not first <= fork.at <= last:
            raise InputError(
                f"--at {iso(fork.at)} lies outside the run, which goes from {iso(first)} to "
                f"{iso(last)}"
            )
        return found

    @property
    def _grid(self) -> str:
        return "configured" if self.request.configs is not None else self.request.grid

    def variants(self, by_code: bool = True, asked_alone: bool = False) -> dict[str, str]:
        """What is tried: the forecaster, its version, and how it was run; names by fingerprints. Or
        only those that are asked interval by interval."""
        request = self.request
        settings = sorted(
            {
                (c.interval_minutes, search.max_results)
                + (() if search.lookback_days is None else (search.lookback_days,))
                for c in self.configs.kinds
                for search in (c.search_config,)
            }
        )
        how = [settings, request.grade, _stamp(request.start), _stamp(request.stop), self._grid]
        sims = sorted({(config.num_sims, config.mode) for config in self.configs.kinds})
        pure = [f for f in self.forecasters.values() if isinstance(f, PanelForecaster)]
        tried = {
            digest([f.code or f.name, f.version, how]): f.name for f in pure if f.name != MARKET
        }
        # Changed code under the old name is another variant, the same code under a new name is not.
        asked = {
            digest([(f.code if by_code else None) or f.entry, sims, how]): f.entry
            for f in self.asked
            if f.ranked
        }
        return asked if asked_alone else {**tried, **asked}

    def _spoken(self, one: Model) -> dict[str, list[int]]:
        """At which instants of each market a model is asked."""
        apply, found = self.replacement.apply, dict[str, list[int]]()
        for c in self.configs:
            asked = [t for t in grid.instants(c).tolist() if one.entry in apply(c.models, t)]
            found.setdefault(c.market_id, []).extend(asked)
        return found

    @property
    def _codes(self) -> dict[str, str]:
        """The digest of the code of each callable, by its name."""
        every = self.forecasters.values()
        return {one.name: one.code for one in every if one.code is not None}

    @property
    def _changed(self) -> list[str]:
        """The callables that are not those that the run was begun with."""
        now, first = self._codes, self._first_codes
        return sorted(name for name in now if first.get(name, now[name]) != now[name])

    def _config(self) -> Mapping[str, object]:
        request = self.request
        fork = request.fork
        found: dict[str, object] = {
            "archive_digest": self.archive.digest,
            "grade": request.grade,
            "seed": request.settings.seed,
            "draws": request.settings.draws,
            "placebo": request.settings.placebo,
            "grid": grid.statement(self._grid),
            "short": self.selection.short,
            "left_out": self.selection.left_out,
        }
        if self._first_codes:
            found["code"] = self._first_codes
        if models := models_of(self.forecasters.values()):
            options = TypeAdapter(ModelOptions).dump_python(request.model_options, mode="json")
            ends = {one.entry: _stamp(one.spec.cutoff) for one in models}
            found["models"] = {**options, "training_ends": ends}
        if fork is not None:
            stand_in = dict(self.replacement.models)
            found["fork"] = {"parent": fork.parent, "at": iso(fork.at), "models": stand_in}
        return found

    def _score(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """Score from the run's files alone, and write the report."""
        path, settings = self.folder.path, self.request.settings
        audit = Audit()
        audit.add(outputs["collect"]["audit"])
        write_json(path / "audit.json", audit.wire())
        markets, apart = self.configs.markets, set(self.selection.short)
        said = kept_at(path, markets)
        questions = partial(each_question, path, settings.kelly)  # A large run has 40 MB of them.
        table = said.table(questions(), apart)
        every, stop = self.request.every, self.request.stop
        table = hindsight.marked(table, self.gateway, every, stop)
        write_marks(path, table)
        # A question outside the grid reveals that the end is near: such markets are scored apart.
        short = said.apart(questions(), apart) if apart else None
        if self.archive.by_market:
            give_back()
        leaks, written = self._leaks(audit, said)
        everyone, collected = self.forecasters.values(), outputs["collect"]
        kept = self._kept(collected, table, context)
        if self.archive.by_market:
            self.world.forget()  # From here on the table is enough.
        here = self.folder.run_id, context.journal.now(), self.archive.digest
        tried = results.with_trials(
            settings, self._ledger, "backtest", table, markets, self.variants(), *here
        )
        facts, paths = self._facts(leaks, kept, tried.variants), unranked(everyone)
        trim()
        with self._beside(len(table.q)) as beside:
            result = evaluate(table, facts, replace(tried, unranked=paths), beside)
        table.give_back()
        drawn = said.drawn()
        asked = next(q for q in questions() if q.id == drawn)
        about: About = {
            "run_id": self.folder.run_id,
            "title": f"run {self.folder.run_id}",
            "version": __version__,
            "world_kind": world_kind(self.archive),
            "licences": licences_of(self.archive.manifest),
            "subtitle": subtitle(table.t, self.request.grade, float(table.strict.mean())),
            "grid": f"{grid.statement(self._grid)}, every {in_words(self.request.every)}",
            "left_out": self._chosen() + left_out_sentence(self.selection.left_out),
            "leak_note": LEAK_NOTE,
            "training_ends": {
                one.name: iso(one.spec.cutoff) for one in models_of(everyone) if one.spec.cutoff
            },
            "decisions": said.counts(),
            "answers": collected.get("noted", {}),
            "without_flagged": said.without_flagged(questions, settings),
            "short": None if short is None else part_wire(short, settings),
            "pictured": {
                "why": "its price moved far"
                + (" while documents came in" if leaks.documents else ""),
                "id": drawn,
                "question": asked.text or drawn,
                "settled": asked.settled,
            },
        }
        summary = results.end_in_report(path, result, leaks, about, said.of(drawn), everyone)
        files = self.folder.digests("audit.json", MARKS, *results.SCORED, *written)
        return {"rows": len(summary["leaderboard"]), "files": files}

    def _beside(self, rows: int) -> AbstractContextManager[Beside]:
        """Who scores a large run beside this process. Of a very large one nobody does: two
        processes would have parts of it in memory at once."""
        if (bulks := self._bulks) is None:
            return nullcontext(later)
        if rows > MOST_BESIDE:
            bulks.close()
            return nullcontext(later)
        return bulks.beside()

    def _kept(
        self, collected: Mapping[str, Any], table: Table, context: StepContext
    ) -> dict[str, Kept]:
        """How each forecaster was kept from the future, and why it may not be said to beat the
        market."""
        codes = {**collected.get("codes", {}), **dict.fromkeys(self._changed, 2)}
        kept = how_kept(self.forecasters.values(), collected["differs"], context, codes)
        trusted = [name for name, one in kept.items() if one.isolation.startswith("trusted")]
        for name, why in hindsight.doubted(table, trusted, self.gateway).items():
            kept[name] = replace(kept[name], because=kept[name].because or why)
        return kept

    def _chosen(self) -> str:
        """Which markets were asked about, where that was not all of them."""
        wanted = self._wanted()
        if wanted is None:
            return ""
        endings = self.gateway.full_view().endings()
        settled = sum(endings.says(name)[1] is not None for name in endings)
        n = len({*self.configs.markets})
        return f"{n:,} of the {settled:,} settled markets of the archive were chosen. "

    def _leaks(self, audit: Audit, said: Intervals) -> tuple[LeakReport, list[str]]:
        """The leak report, and the files written for it: one if any forecast saw a document."""
        planted = results.canaries(self.archive)
        leaks = results.leak_report(audit, self.archive)
        leaks.canaries_planted = len(planted)
        if not (forecasts := said.leaks(leaks, planted, self._walker.unwitnessed)):
            return leaks, []
        write_jsonl(self.folder.path / "leaks.jsonl", forecasts)
        return leaks, ["leaks.jsonl"]

    def _facts(self, leaks: LeakReport, kept: Mapping[str, Kept], tried: int | None) -> SetFacts:
        """What the validity card needs beside the forecasts."""
        left_out = self.selection.left_out
        models = models_of(self.forecasters.values())
        training = self._opening.guard.training([(one.spec, self._spoken(one)) for one in models])
        return SetFacts(
            documents=leaks.documents,
            nominated=leaks.documents_nominated,
            shown=leaks.documents_shown,
            void=left_out.get("void", 0),
            unresolved=len(
                {*self.selection.open} & {*self.configs.markets} - {*self.selection.short}
            ),
            variants=tried or 0,
            short=len(self.selection.short),
            kept=kept,
            admitted_after_t=leaks.admitted_after_t,
            models=training is not None,
            share_after_training_cutoff=training.share if training else None,
            share_made_after_training=training.made if training else None,
            gaps=self.archive.gaps(),
        )


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else iso(instant)
