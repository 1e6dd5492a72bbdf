"""Runs as objects: opened, read, drawn, verified, compared."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Unpack, cast

from beforehand.config import Workspace
from beforehand.engine.job import RunLimits
from beforehand.engine.runs import resume
from beforehand.errors import InputError, NotFound
from beforehand.front import plot, tables
from beforehand.front.arrow import Table
from beforehand.front.paths import need_path
from beforehand.front.reporting import reporting, told_in_python
from beforehand.jobs.checks import checked, settings
from beforehand.lazy import lazy
from beforehand.records.rows import IntervalRow, label
from beforehand.runs.compare import Subject, compare_forecasters, subject_of
from beforehand.runs.interval_columns import IntervalColumns
from beforehand.runs.marks import MARKS
from beforehand.runs.query import find_journal, find_run, status_of
from beforehand.runs.rows import (
    InstantLine,
    columns_at,
    read_intervals,
    read_jsonl,
    read_predictions,
    read_traces,
)
from beforehand.runs.spent import cost_by_forecaster
from beforehand.runs.verify import RunCheck, sound, verdict
from beforehand.runs.verify import verify as verify_run
from beforehand.score.compare import Comparison
from beforehand.score.report.words import headline
from beforehand.score.skill import Options
from beforehand.score.summary import BoardRow, CheckWire, Pair, Summary
from beforehand.store.files import read_json
from beforehand.store.run_folder import RunFolder
from beforehand.store.run_folder import open_run as open_folder

if TYPE_CHECKING:
    from beforehand.front.start import Limits


@dataclass(frozen=True)
class Standing:
    """One forecaster of a run: its row of the leaderboard. `row` holds every figure of
    scores.json; the most used ones have names here."""

    run: "Run"
    row: BoardRow

    @property
    def name(self) -> str:
        """The forecaster's name."""
        return self.row["forecaster"]

    @property
    def verdict(self) -> str:
        """`beats the market`, `worse than the market`, `not shown`, `is the market`, `not
        ranked`."""
        return self.row["verdict"]

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is not a better one."""
        return list(self.row["reasons"])

    @property
    def n(self) -> int:
        """How many forecasts were scored."""
        return self.row["n"]

    @property
    def n_questions(self) -> int:
        """How many questions they are about; each has one vote."""
        return self.row["n_questions"]

    @property
    def brier(self) -> float | None:
        """Mean squared error, 0 best; lower is better."""
        return self.row["brier"]

    @property
    def skill(self) -> float | None:
        """The market's Brier score minus this one's, paired; higher is better, 0 is the market."""
        return self.row["skill_vs_market"]

    @property
    def skill_ci(self) -> Pair:
        """Its interval at 95 %: low, high."""
        return list(self.row["skill_ci"])

    @property
    def isolation(self) -> str | None:
        """How it was kept from the future: by construction, probed, trusted."""
        return self.row["isolation"]

    @property
    def order(self) -> str | None:
        """In which order it was asked, and whether it may remember."""
        return self.row["order"]

    def __repr__(self) -> str:
        figure = "–" if self.brier is None else f"{self.brier:.4f}"
        why = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        return f"{self.name}: {self.verdict}{why}, Brier {figure} over {self.n:,} forecasts"


@dataclass(frozen=True)
class Verification:
    """A run checked again from its records alone."""

    run_id: str
    checks: list[RunCheck]

    @property
    def sound(self) -> bool:
        """True if no check found a problem."""
        return sound(self.checks)

    @property
    def problems(self) -> list[str]:
        """What was found, one sentence each."""
        return [f"{check.name}: {text}" for check in self.checks for text in check.problems]

    def __repr__(self) -> str:
        rows = [f"{c.name}: {c.n:,} checked, {c.wrong:,} wrong ({c.what})" for c in self.checks]
        return "\n".join([*rows, *self.problems, f"run {self.run_id}: {verdict(self.checks)}"])


class Run:
    """A run of this home. A finished one has its verdicts and its tables; one that was stopped
    can be resumed."""

    def __init__(self, folder: RunFolder, workspace: Workspace) -> None:
        self._folder, self._workspace = folder, workspace
        self._checked = set[str]()

    def _file(self, name: str) -> Path:
        """Where a file of the run lies. (A run on another machine fetches it first.) Raises Corrupt
        where it was changed after the run."""
        if name not in self._checked:
            journal = find_journal(self._workspace)
            row = journal.run(self.id) if journal else None
            self._folder.check_file(name, row.seal if row else None)
            if self._folder.facts()["status"] == "success":
                self._checked.add(name)
        return self.path / name

    def folder_with(self, *names: str) -> RunFolder:
        """The run's folder, in which these files are if the run has them."""
        for name in names:
            self._file(name)
        return self._folder

    @property
    def id(self) -> str:
        """Its name."""
        return self._folder.run_id

    @property
    def path(self) -> Path:
        """The folder with its files."""
        return self._folder.path

    @property
    def status(self) -> str:
        """success, running, stopped, cancelled, failed, unfinished or damaged."""
        journal = find_journal(self._workspace)
        row = journal.run(self.id) if journal else None
        if row is None or journal is None:
            return self._folder.facts()["status"]
        return status_of(row, self._workspace.home, journal)

    @lazy
    def summary(self) -> Summary:
        """scores.json. Raises NotFound while the run is not finished."""
        scores = self._file("scores.json")
        if not scores.is_file():
            raise self._folder.without_scores(self.status)
        found: Summary = read_json(scores)
        if not isinstance(found, dict) or "leaderboard" not in found:
            raise InputError(f"{scores} is damaged: .verify() says what of the run can be trusted")
        return found

    @property
    def forecasters(self) -> list[str]:
        """Their names, best first."""
        return [row["forecaster"] for row in self.summary["leaderboard"]]

    def __getitem__(self, name: str) -> Standing:
        """One forecaster by its name. Raises KeyError naming those that there are."""
        for row in self.summary["leaderboard"]:
            if row["forecaster"] == name:
                return Standing(self, row)
        where = ".rejected" if self.summary.get("rows", {}).get("not_scored") else ".failures"
        failed = f" ({'; '.join(self._silent)}: see {where})" if self._silent else ""
        raise KeyError(
            f"run {self.id} has no scores of {name!r}: it has {', '.join(self.forecasters)}{failed}"
        )

    def __iter__(self) -> Iterator[Standing]:
        return (Standing(self, row) for row in self.summary["leaderboard"])

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return headline(self.summary)

    @property
    def card(self) -> dict[str, CheckWire]:
        """The validity card: each figure with its bound, and whether that is met."""
        return self.summary["validity"]

    @lazy
    def leaderboard(self) -> Table:
        """One row per forecaster, best first (the columns of leaderboard.csv)."""
        return tables.leaderboard(self.summary["leaderboard"])

    @lazy
    def forecasts(self) -> Table:
        """One row per forecast: market_id, time, forecaster, probability; `market` is the price
        then, `price_age` its age in seconds, `outcome` what the market settled at, `short` whether
        the market is scored apart, because it was too short for the grid. A scored file keeps
        market_id, time, forecaster, probability, market, price_age and outcome."""
        if self._finished() is None:
            said = read_predictions(self._file("predictions.jsonl"))
            beside = self._file("instants.jsonl")
            prices = read_jsonl(beside) if beside.is_file() else ()
            return tables.stated(said, self.outcomes, cast(Iterable[InstantLine], prices))
        return tables.forecasts(self._finished() or (), self.outcomes, self.apart)

    @lazy
    def intervals(self) -> Table:
        """One row per market and instant: what was shown, how many answered, how it ended."""
        return tables.intervals(self._finished() or (), self.outcomes)

    @lazy
    def bets(self) -> Table:
        """One row per Kelly bet: who bought what at which price, what it cost, gained, and when it
        settled (the columns of bets.csv; stake, fee and gain in units of the wealth at the
        start)."""
        _ = self.summary
        return tables.bets(self._file("bets.csv"))

    @lazy
    def questions(self) -> Table:
        """One row per forecaster and question: its mean scores there, and the clusters `event` and
        `month` that its intervals are drawn from (the columns of questions.csv)."""
        _ = self.summary
        return tables.questions(self._file("questions.csv"))

    @lazy
    def evidence(self) -> Table:
        """One row per document that was shown at an instant, and who cited it."""
        return tables.evidence(self._finished() or ())

    @lazy
    def failures(self) -> Table:
        """One row per forecast that did not come about, with the traceback of a callable."""
        return tables.failures(self._finished() or (), read_traces(self._file("traces.jsonl")))

    @property
    def calls(self) -> Table:
        """One row per call on record: what was asked, answered and paid."""
        journal = find_journal(self._workspace)
        return tables.calls(journal.calls.rows(self.id) if journal else ())

    @property
    def costs(self) -> Table:
        """One row per forecaster: how many forecasts, how many of them rest on a call on record
        (`asked`), its tokens, US dollars and mean latency in milliseconds."""
        journal = find_journal(self._workspace)
        folder = self.folder_with("config.json", "traces.jsonl")
        calls = None if journal is None else journal.calls
        return tables.costs(cost_by_forecaster(self._finished() or (), folder, calls))

    @lazy
    def rejected(self) -> Table:
        """The rows of a scored file that could not be scored, each with the reason."""
        path = self._file("rejected.jsonl")
        return tables.rejected(read_jsonl(path) if path.is_file() else ())

    def verify(self) -> Verification:
        """Check the run again from its records alone: digests, the cutoff, the journal."""
        return Verification(self.id, verify_run(self._folder, find_journal(self._workspace)))

    def report(self, path: str | Path | None = None) -> Path:
        """The HTML report: its path, or a copy at `path`."""
        made = self._file("report.html")
        if not made.is_file():
            raise NotFound(f"run {self.id} has no report yet: it is {self.status}")
        if path is None:
            return made
        try:
            copyfile(made, path)
        except OSError as error:
            raise InputError(f"the report cannot be copied to {path}: {error.strerror}") from None
        return Path(path)

    def plot(
        self, what: plot.What = "calibration", *, id: str | None = None, name: str | None = None
    ) -> plot.Plot:
        """A picture: `calibration` of one forecaster (`name`) or of the first six; the `gain` of
        one on the market through time; `wealth` through time, of their Kelly bets; `market` through
        time, of the market `id` (the one in the report, if none is given)."""
        if what == "calibration":
            return plot.calibration(self.summary["leaderboard"], name)
        if what == "gain":
            return plot.gain(self.summary["leaderboard"], name)
        if what == "wealth":
            return plot.wealth(self.summary["leaderboard"], name)
        if what != "market":
            raise InputError(
                f"no plot is called {what!r}: choose calibration, gain, wealth or market"
            )
        if self._finished() is None:
            raise NotFound(
                f"run {self.id} scored forecasts that were made elsewhere, and keeps no prices to "
                "draw: its report() has a picture"
            )
        shown = self._market(id)
        rows = self._rows or ()
        if isinstance(rows, IntervalColumns):
            rows = rows.rows(rows.places(shown, None, None))
        return plot.market(rows, shown, name, self.outcomes.get(shown))

    def resume(
        self, *, fresh: bool = False, progress: bool = True, **limits: "Unpack[Limits]"
    ) -> "Run":
        """Continue a run that was stopped, killed, cancelled or failed; nothing is paid twice.
        `limits` (max_calls, max_cost, timeout…) replace those that it had."""
        checked(RunLimits(**limits))
        with told_in_python(self.id), reporting(f"run {self.id}", progress) as report:
            resume(self._workspace, self.id, limits, report, fresh)
        return Run(self._folder, self._workspace)

    def _finished(self) -> Iterable[IntervalRow] | None:
        """The intervals of a finished run. Raises NotFound while it is not finished."""
        _ = self.summary
        return self._rows

    @lazy
    def apart(self) -> frozenset[str]:
        """The markets that are scored apart."""
        return frozenset(read_json(self._file("config.json")).get("short", ()))

    @property
    def _silent(self) -> list[str]:
        """Sentences about what has no place on the leaderboard: failures, rows left out."""
        said = []
        decisions = self.summary.get("decisions")
        for name, made in decisions["models"].items() if decisions else ():
            if made["failed"]:
                total = made["failed"] + made["made"]
                said.append(f"{label(name)}: {made['failed']:,} of {total:,} answers failed")
        for metric in self.summary["leaderboard"][0].get("added", {}).values():
            said += [metric["error"]] if "error" in metric else []
        if left := self.summary.get("rows", {}).get("not_scored"):
            total = left + self.summary["rows"]["scored"]
            said.append(f"{left:,} of {total:,} rows were not scored")
        return said

    @lazy
    def _rows(self) -> Iterable[IntervalRow] | None:
        """The intervals; None where the run only scored forecasts. Those of a large run are made
        each time anew: held, they would take gigabytes."""
        path = self._file("intervals.jsonl")
        if (columns := columns_at(path)) is not None:
            return columns
        return list(read_intervals(path)) if self._folder.wrote(path.name) else None

    @lazy
    def markets(self) -> list[str]:
        """The ids of the markets that it is about."""
        path = self._file("events.jsonl")
        return [row["id"] for row in read_jsonl(path)] if path.is_file() else []

    @lazy
    def asked(self) -> list[str]:
        """The names of all that forecast, also of those that have no score."""
        decisions = self.summary.get("decisions")
        made = [label(name) for name in decisions["models"]] if decisions else []
        return list(dict.fromkeys([*self.forecasters, *made]))

    @lazy
    def outcomes(self) -> dict[str, float]:
        """What each market settled at, by its id."""
        path = self._file("resolutions.jsonl")
        rows = read_jsonl(path) if path.is_file() else ()
        return {row["id"]: float(row.get("payout", row["outcome"])) for row in rows}

    def _market(self, id: str | None) -> str:
        """A market of this run by its id, bare or whole."""
        known = dict.fromkeys(row.market_id for row in self._rows or ())
        if id is None and "pictured" in self.summary:
            return self.summary["pictured"]["id"]
        found = [name for name in known if id in (name, name.partition(":")[2])]
        if len(found) != 1:
            few = ", ".join([*known][:5])
            raise NotFound(f"market {id!r} was not forecast in run {self.id}: there are {few}, …")
        return found[0]

    @property
    def _brief(self) -> Table:
        """The leaderboard's most used columns, and the added metrics."""
        board = self.leaderboard
        added = self.summary["leaderboard"][0].get("added", {})
        return Table({name: board.column(name) for name in (*BRIEF, *added)}, "leaderboard")

    def __repr__(self) -> str:
        if not self._file("scores.json").is_file():
            return f"Run({self.id!r}: {self.status})"
        return "\n".join([f"run {self.id}: {self.headline}", repr(self._brief), *self._silent])

    def _repr_html_(self) -> str:
        if not self._file("scores.json").is_file():
            return f"<p>run {escape(self.id)}: {escape(self.status)}</p>"
        return (
            f"<p><b>{escape(self.headline)}</b><br>run {escape(self.id)}, "
            f"{escape(self.summary['world_kind'])}</p>{self._brief._repr_html_()}"
            + "".join(f"<p>{escape(text)}</p>" for text in self._silent)
        )


BRIEF = (
    "forecaster",
    "n",
    "missing",
    "brier",
    "skill_vs_market",
    "skill_low",
    "skill_high",
    "verdict",
)


def open_run(run_id: str = "latest", *, home: str | Path | None = None) -> Run:
    """A run of the home folder (`home`, else BEFOREHAND_HOME, else the current folder); `latest` is
    the one started last. Raises NotFound where there is none."""
    if not isinstance(run_id, str):
        raise InputError(f"run_id is the name of a run, not {run_id!r}")
    workspace = workspace_of(home)
    journal = find_journal(workspace)
    name = find_run(run_id, workspace.home, journal)
    if journal is not None and journal.run(name) is not None:
        folder = RunFolder(workspace.home.runs, name)
        folder.check_form()
        return Run(folder, workspace)
    return Run(open_folder(workspace.home.runs, name), workspace)


def workspace_of(home: str | Path | None) -> Workspace:
    """The workspace of a home folder, else the environment's."""
    found = Workspace.from_environment()
    if home is None:
        return found
    root = need_path("home", home).resolve()
    if root.exists() and not root.is_dir():
        raise InputError(f"home {home} is a file: name a folder")
    return found.at(root)


def compare(
    a: Standing | Run,
    b: Standing | Run,
    *,
    draws: int = 2000,
    seed: int = 0,
    margin: float | None = None,
) -> Comparison:
    """Two forecasters, of one run or of two, on the rows that both forecast: what one gains on the
    other with its interval, the paired difference of their Brier scores, and what could have been
    found. `margin` is a difference that is stated beforehand to be none. A Run stands for its only
    forecaster under test. Raises InputError if they share no row."""
    checked = settings(seed, draws, 0, margin=margin)
    options = Options(draws=checked.draws, seed=checked.seed, margin=checked.margin)
    return compare_forecasters(_subject(a), _subject(b), options)


COMPARED = (
    "scores.json",
    "config.json",
    "intervals.jsonl",
    "predictions.jsonl",
    "instants.jsonl",
    "events.jsonl",
    "resolutions.jsonl",
    MARKS,
)
"""The files that a comparison reads."""


def _subject(one: Standing | Run) -> Subject:
    if isinstance(one, Run):
        return subject_of(one.folder_with(*COMPARED))
    if not isinstance(one, Standing):
        raise InputError(f'{one!r} cannot be compared: give a run, or run["NAME"]')
    return subject_of(one.run.folder_with(*COMPARED), one.name)
