"""A *Forecaster* reads the world through a *View* pinned to an instant, may run code in a
*Sandbox*, and returns a *Decision*; a *Plan* of *Steps* says what to do, a *Journal* remembers
what was done, and a *Score* says how good it was.

    import beforehand as bh

    world = bh.simulate(seed=0)

    @bh.forecaster
    def mine(context): return 0.9 * context.odds + 0.05

    run = bh.backtest(world, [mine, "market", "drift"])
    print(run["mine"].verdict, run["mine"].reasons)

Importing this package loads nothing: its names are loaded when they are first used. They make the
same calls as the command line; docs/python.md is their reference.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING would load typing.
if TYPE_CHECKING:
    from beforehand.forecast.base import Decision, ModelOptions
    from beforehand.forecast.callables import forecaster
    from beforehand.forecast.schemes.python import ShownContext as Context
    from beforehand.front.arrow import Table
    from beforehand.front.client import Client
    from beforehand.front.probe import check_tool, probe
    from beforehand.front.questions import AgentRun, Answer, ask, run_agent
    from beforehand.front.run import Run, Standing, Verification, compare, open_run
    from beforehand.front.start import backtest, score_forecasts
    from beforehand.front.world import (
        Toolbox,
        World,
        import_files,
        open_world,
        simulate,
        toolbox,
    )
    from beforehand.gateway.view import View
    from beforehand.jobs.probe.probe import Probe
    from beforehand.score.compare import Comparison
    from beforehand.store.journal.calls import Usage

__version__ = "0.1.0"
__all__ = [
    "AgentRun",
    "Answer",
    "Client",
    "Comparison",
    "Context",
    "Decision",
    "ModelOptions",
    "Probe",
    "Run",
    "Standing",
    "Table",
    "Toolbox",
    "Usage",
    "Verification",
    "View",
    "World",
    "__version__",
    "ask",
    "backtest",
    "check_tool",
    "compare",
    "forecaster",
    "import_files",
    "open_run",
    "open_world",
    "probe",
    "run_agent",
    "score_forecasts",
    "simulate",
    "toolbox",
]
_PLACES = {
    "AgentRun": "front.questions",
    "Answer": "front.questions",
    "Client": "front.client",
    "Comparison": "score.compare",
    "Context": "forecast.schemes.python:ShownContext",
    "Decision": "forecast.base",
    "ModelOptions": "forecast.base",
    "Probe": "jobs.probe.probe",
    "Run": "front.run",
    "Standing": "front.run",
    "Table": "front.arrow",
    "Toolbox": "front.world",
    "Usage": "store.journal.calls",
    "Verification": "front.run",
    "View": "gateway.view",
    "World": "front.world",
    "ask": "front.questions",
    "backtest": "front.start",
    "check_tool": "front.probe",
    "compare": "front.run",
    "forecaster": "forecast.callables",
    "import_files": "front.world",
    "open_run": "front.run",
    "open_world": "front.world",
    "probe": "front.probe",
    "run_agent": "front.questions",
    "score_forecasts": "front.start",
    "simulate": "front.world",
    "toolbox": "front.world",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'beforehand' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"beforehand.{module}"), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
