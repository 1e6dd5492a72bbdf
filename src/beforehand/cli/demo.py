"""`beforehand demo`: the main job from nothing, in seconds, without keys or network."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, note, scores_of
from beforehand.cli.tables import print_result
from beforehand.config import Workspace, recorded_data
from beforehand.engine.runs import Reporter, start
from beforehand.errors import EXIT_FAILED, EXIT_OK
from beforehand.front.progress import progress
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.world.render import store_world
from beforehand.world.simulate import DEMO_DATES, SimConfig


def demo(
    *,
    seed: Annotated[int, Parameter(help="Seed of the simulated world.")] = 0,
    json: Json = False,
) -> int:
    """Make a simulated world, backtest every baseline over it, and write the report.

    One more forecaster takes part: recorded:truth, which knows the world's latent probabilities.
    It must come out first, or the scoring is wrong.
    """
    workspace = Workspace.from_environment()
    home = workspace.home
    path = home.root / "data" / f"demo-world-{seed}"
    note(f"simulated world (seed {seed}) in {path}")
    store_world(SimConfig(seed=seed, dates=DEMO_DATES), path, workspace.clock)
    with progress("demo") as update:
        finished = start(BacktestRequest(path), workspace, report=Reporter(progress=update))
    found, report = scores_of(finished), finished.folder.path / "report.html"
    if json:
        emit({**found, "report": str(report)})
    else:
        print(f"run {finished.folder.run_id}")
        print_result(found, report)
        if recorded_data() is None:
            print(
                "\nyour own forecasts:  beforehand score mine.csv --archive "
                f"{path.relative_to(home.root)}   (id,time,probability)"
            )
    return EXIT_FAILED if found["leaks"]["admitted_after_t"] else EXIT_OK
