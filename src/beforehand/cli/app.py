"""The command tree, and the one place where errors become sentences and exit codes."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO, cast

from cyclopts import App, CycloptsError

from beforehand import __version__
from beforehand.cli.clean import CleanStream, open_streams
from beforehand.errors import EXIT_FAILED, EXIT_USAGE, BeforehandError, exit_code
from beforehand.records.text import clean

if TYPE_CHECKING:
    from rich.console import Console

HELP = "How good is this forecaster, really? Point-in-time backtests over prediction markets."


GROUPS = {
    "world": "The recorded or simulated world: simulate, import, verify.",
    "import": "Bring real data into the archive.",
    "backtest": "Forecast markets through time, point in time, and compare forecasters.",
    "bench": "The benchmark over files: ingest, predict, evaluate.",
    "runs": "Runs: see, follow, resume, verify, compare, export.",
    "scout": "Collect what was written about a subject, by a plan: plan, collect, think, act.",
    "bus": "The files through which agents talk: list, show, verify, tail.",
    "token": "Bearer tokens for the servers over HTTP.",
}
# Each command's one-line summary stands here because its module is loaded only when it is called.
SUMMARIES = {
    "demo": "Make a simulated world, backtest every baseline over it, and write the report.",
    "score": "Score your own probabilities against the market, at the times you state.",
    "world simulate": "Make a simulated world with known truth and store it as an archive.",
    "world fetch": "Fetch settled markets of Polymarket or Kalshi, or ForecastBench's sets.",
    "world record": "Record markets and news from the live services, at intervals.",
    "world info": "What the archive holds, and where it came from.",
    "world list": "The markets of the archive: ids, texts, and when each can be forecast.",
    "world coverage": "What the dumps in the archive cover, and where they have gaps.",
    "world compact": "Put what many small imports stored into few files; the digest stays.",
    "world prune": "Delete files that no import lists, or take whole imports out.",
    "world verify": "Check every stored byte and every record of the archive.",
    "world import markets": "Import market histories (JSONL): texts, prices, resolutions.",
    "world import documents": "Import dated documents (JSONL), known at captured_at.",
    "world import forecastbench": "Import ForecastBench question sets and resolution sets (JSON).",
    "world import prophet": "Import Prophet Arena's dataset: markets of events, crowd prices.",
    "world import futuresim": "Import FutureSim's custom data: questions and articles.",
    "world import polymarket": "Import recorded Polymarket responses (JSON).",
    "world import kalshi": "Import recorded Kalshi responses (JSON).",
    "world import edgar": "Import recorded EDGAR responses (JSON).",
    "world import reddit": "Import recorded Reddit responses (JSON).",
    "world import prices": "Import prices from CSV: id,time,price (bid, ask, volume, known_at).",
    "world import predictions": "Import PredictionRecord and ResolutionRecord JSONL.",
    "world import dump": "Import dumps of trades, quotes or order books (Parquet).",
    "world import market-data": "Load quotes (CSV, Parquet) into the market-data table.",
    "collect": "Gather the forecasts of an unmodified MCP client into a file, to be scored.",
    "backtest run": "Backtest forecasters point in time over the archive, and score them.",
    "backtest ab": "Compare configurations on the same markets: accuracy beside cost.",
    "backtest probe": "Find out whether a forecaster's answers depend on what came later.",
    "bench run": "Ingest, predict and evaluate in one run that can be resumed.",
    "bench ingest": "Make a round: events, dated snapshots and resolutions from the archive.",
    "bench crawl": "List what is open on the venues, and freeze a round; once, or every day.",
    "bench questions": "A round of ForecastBench's, Metaculus', Prophet's or EDGAR's questions.",
    "bench predict": "Forecast every event at its own instant, point in time.",
    "bench evaluate": "Score predictions with an evidence audit; or score bets.",
    "bench resolve": "Write how events ended, with the source of each.",
    "bench seal": "Seal forecasts before the outcome, in a log that shows any change.",
    "bench live": "Let a backtest's forecasters answer open events, sealed.",
    "bench rounds": "Every round: events, sealed, resolved; and the sealed log.",
    "bench gap": "Live against backtested skill, with its interval.",
    "bench verify": "Look whether a sealed log, and a file of forecasts, is what was sealed.",
    "bench published": "Other benchmarks' result files, scored again beside what they state.",
    "bench forecastbench": "ForecastBench's leaderboard columns, for constants and forecast sets.",
    "runs list": "Every run, newest first.",
    "runs show": "One run: its status, or its leaderboard, validity card and leak report.",
    "runs watch": "Follow a run until it ends.",
    "runs resume": "Continue a run that was stopped, killed, cancelled or failed.",
    "runs rm": "Remove runs from the list; `runs restore` undoes it, `--purge` deletes them.",
    "runs restore": "Bring back runs that were removed.",
    "runs cancel": "Ask a run to end: no new calls, those in flight are recorded.",
    "runs fork": "Repeat a run up to an instant at no cost, and continue with another model.",
    "runs verify": "Check a run again from its records alone.",
    "runs leaks": "A run's leak report, and how much missed leaks could improve a score.",
    "runs diff": "What differs between two runs.",
    "runs compare": "Two forecasters against each other: the difference, its interval, the power.",
    "runs calibration": "Of the forecasts near a value, how many came true, with intervals.",
    "runs trials": "What was tried on which markets, as the validity card counts it.",
    "runs trace": "One decision of a model, whole: what it was shown and told, and what it wrote.",
    "runs costs": "What each forecaster of a finished run cost.",
    "runs submission": "Write forecasts in the form of ForecastBench or Metaculus.",
    "runs export": "A finished run for other tools and for papers: tables, pictures, traces.",
    "worker": "Work on the runs of a shared Postgres until stopped.",
    "tool": "Call a tool by name; list, find and describe the tools.",
    "ask": "Answer a question from what was known at an instant, with citations.",
    "scout plan": "Make a scout plan for a subject, and carry nothing out.",
    "scout run": "Carry out a scout plan, or plan for a subject first: four artifacts.",
    "scout resume": "Continue a scout run, or make anew what was changed in a finished one.",
    "scout show": "A scout run's DAG and what it found, or the DAG of a plan's file.",
    "agent": "Run an agent, or list them: its output and its log go to the file bus.",
    "bus list": "Every agent that has written here, with its outputs and runs.",
    "bus show": "One output of an agent, or the log of one of its runs.",
    "bus verify": "Check every file of the bus; --repair rebuilds manifests that lag.",
    "bus tail": "The last runs of the agents, one line each; --follow waits for more.",
    "run-code": "Run Python from a file in the sandbox.",
    "a2a": "Serve the benchmark's purple or green agent over A2A.",
    "mcp": "Serve the tools to MCP clients, over stdio or HTTP.",
    "serve": "Serve the API, the web pages and the MCP tools over HTTP, on one port.",
    "token issue": "Issue a bearer token for the servers.",
    "token list": "List the tokens that were issued.",
    "token usage": "What users have used of their quotas, and what is left.",
    "token revoke": "End a token, or all of a user's.",
    "new-plugin": "Write a package with a forecaster, a metric, an importer, a source and a tool.",
    "doctor": "Check the installation, the archive, the tools, and (--live) the services.",
}
_MODULES = {
    "import": "imports",
    "list": "list_",
    "market-data": "market_data",
    "run-code": "run_code",
    "new-plugin": "new_plugin",
}
_FILES = {path: "imports" for path in SUMMARIES if path.startswith("world import")}
_FILES |= {
    "world info": "world_info",
    "world coverage": "world_info",
    "world list": "world_list",
    "world fetch": "world_fetch",
    "runs leaks": "leaks",
    "runs compare": "compare",
    "runs trials": "trials",
    "runs trace": "trace",
    "runs rm": "removing",
    "runs submission": "submission",
    "bench published": "published",
    "bench ingest": "ingest",
    "bench crawl": "crawl",
    "bench questions": "questions",
    "bench resolve": "resolve",
    "bench seal": "seal",
    "bench verify": "seal",
    "bench live": "live",
    "bench gap": "live",
    "bench rounds": "live",
    "runs restore": "removing",
    "runs calibration": "calibration",
    "backtest probe": "probe",
    "runs resume": "resume",
    "runs fork": "resume",
}
COMMANDS = {
    path: (
        _FILES.get(path) or path.split()[0].replace("-", "_"),
        _MODULES.get(path.split()[-1], path.split()[-1]),
    )
    for path in SUMMARIES
}


def build(asked: Sequence[str] = ()) -> App:
    """The command tree, or the part of it that these arguments call. Commands are registered by
    import path, so that only the called one is loaded."""
    app = App(
        name="beforehand",
        help=HELP,
        version=__version__,
        result_action="return_value",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    for path, (module, function) in _called(asked).items():
        *groups, name = path.split()
        parent = app
        for group in groups:
            if group not in parent:
                parent.command(App(name=group, help=GROUPS[group]))
            parent = parent[group]
        parent.command(
            f"beforehand.cli.{module}:{function}",
            name=name,
            help=SUMMARIES.get(
                path, f"Read files of {name}: recorded answers, or a package's own."
            ),
        )
    if not asked or asked[0].startswith("-"):  # Adds an option; its libraries take 8 ms.
        app.register_install_completion_command()
    return app


def _called(asked: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The commands that these arguments may mean. Registering all of them would take a third of
    the time of a short command."""
    if list(asked[:2]) == ["world", "import"] and " ".join(asked[:3]) not in COMMANDS:
        from beforehand.world.importers.named import all_names

        # Sources whose recorded answers can be read, and the importers of other packages.
        others = {f"world import {name}": ("imports", name) for name in all_names()}
        named = " ".join(asked[:3])
        return {named: others[named]} if named in others else {**others, **COMMANDS}
    for n in (2, 1):
        words = list(asked[:n])
        found = {path: place for path, place in COMMANDS.items() if path.split()[:n] == words}
        if found and len(words) == n:
            return found
    return COMMANDS


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. An error prints one sentence on stderr."""
    open_streams()
    out = sys.stdout
    sys.stdout = cast(TextIO, CleanStream(out))
    try:
        return _run(arguments)
    finally:
        sys.stdout = out


def _helping(arguments: Sequence[str]) -> "Console | None":
    """Where a help text goes, in its colours; None where none may be asked for (loading it takes
    time)."""
    if len(arguments) > 1 and not {"--help", "-h"} & set(arguments):
        return None
    from beforehand.cli.screen import screen

    return screen()


def _run(arguments: Sequence[str]) -> int:
    try:
        result = build(arguments)(
            list(arguments), console=_helping(arguments), exit_on_error=False, print_error=True
        )
    except CycloptsError:
        return EXIT_USAGE
    except BeforehandError as error:
        print(clean(f"beforehand: {error}"), file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as error:
        print("beforehand: interrupted", file=sys.stderr)
        return exit_code(error)
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAILED
    except OSError as error:
        print(clean(f"beforehand: {error}"), file=sys.stderr)
        return EXIT_FAILED
    return result if isinstance(result, int) else 0
