"""The command tree, and the one place where errors become sentences and exit codes."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from beforehand import __version__
from beforehand.errors import EXIT_FAILED, EXIT_USAGE, BeforehandError, exit_code

HELP = "How good is this forecaster, really? Point-in-time backtests over prediction markets."


def build() -> App:
    """The whole tree; commands are import paths, so that only the one called is loaded."""
    app = App(
        name="beforehand",
        help=HELP,
        version=__version__,
        result_action="return_value",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    here = "beforehand.cli"
    app.command(f"{here}.demo:demo", name="demo")
    app.command(f"{here}.score:score", name="score")
    world = App(name="world", help="The recorded or simulated world: simulate, import, verify.")
    world.command(f"{here}.world:simulate", name="simulate")
    world.command(f"{here}.world:fetch", name="fetch")
    world.command(f"{here}.world:info", name="info")
    world.command(f"{here}.world:verify", name="verify")
    imports = App(name="import", help="Bring real data into the archive.")
    for kind in (
        "markets",
        "documents",
        "forecastbench",
        "polymarket",
        "kalshi",
        "prices",
        "predictions",
    ):
        imports.command(f"{here}.imports:{kind}", name=kind)
    world.command(imports)
    app.command(world)
    backtest = App(name="backtest", help="Walk markets through time, point in time.")
    backtest.command(f"{here}.backtest:run", name="run")
    app.command(backtest)
    bench = App(name="bench", help="The benchmark over files: ingest, predict, evaluate.")
    for name in ("ingest", "predict", "evaluate", "forecastbench"):
        bench.command(f"{here}.bench:{name}", name=name)
    app.command(bench)
    runs = App(name="runs", help="Finished runs.")
    runs.command(f"{here}.runs:list_", name="list")
    runs.command(f"{here}.runs:show", name="show")
    app.command(runs)
    app.command(f"{here}.doctor:doctor", name="doctor")
    app.register_install_completion_command()
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Errors leave one sentence on stderr."""
    try:
        result = build()(list(arguments), exit_on_error=False, print_error=True)
    except CycloptsError:
        return EXIT_USAGE
    except BeforehandError as error:
        print(f"beforehand: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as error:
        print("beforehand: interrupted", file=sys.stderr)
        return exit_code(error)
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAILED
    except OSError as error:
        print(f"beforehand: {error}", file=sys.stderr)
        return EXIT_FAILED
    return result if isinstance(result, int) else 0
