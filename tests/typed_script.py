"""A user's script with every name of the front door: mypy (strict) and pyright read it, and it runs.

python typed_script.py FOLDER
"""

import sys
from datetime import timedelta
from pathlib import Path

import beforehand as bh

HOME = Path(sys.argv[1])


@bh.forecaster
def mine(context: bh.Context) -> float:
    """A function."""
    return 0.9 * (context.odds or 0.5) + 0.05


@bh.forecaster(name="patient", version=2, memoryless=True)
async def patient(context: bh.Context) -> bh.Decision:
    """An async function, with reasons."""
    seen: bh.View = context.view
    before = [p.price for p in seen.history(context.market.id, limit=3)]
    cited = [document.id for document in context.documents]
    return bh.Decision(sum(before) / len(before), rationale="their mean", evidence_ids=cited)


@bh.forecaster(free=True)
class Momentum:
    """A class with a memory."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    def decide(self, context: bh.Context) -> float:
        """The last change goes on."""
        price = context.odds or 0.5
        change = price - self.last.get(context.market.id, price)
        self.last[context.market.id] = price
        return min(max(price + change, 0.0), 1.0)


def main() -> None:
    """From a world to a verdict."""
    world: bh.World = bh.simulate(seed=2, path=HOME / "world", dates=12)
    assert bh.open_world(world.path).digest == world.digest
    tools: bh.Toolbox = bh.toolbox(world.at("2025-02-01"))
    answer = tools.get_market(id=world.markets[0])
    run: bh.Run = bh.backtest(
        world,
        [mine, patient, Momentum, "market", "drift"],
        every=timedelta(days=14),
        models=bh.ModelOptions(),
        draws=200,
        home=HOME,
        max_calls=100_000,
        progress=False,
    )
    standing: bh.Standing = run["mine"]
    reasons: list[str] = standing.reasons
    board: bh.Table = run.leaderboard
    first: dict[str, object] = next(run.forecasts.rows())
    checked: bh.Verification = run.verify()
    usage: bh.Usage = bh.Usage(tokens=1, cost=0.01)
    assert usage.tokens == 1
    found: bh.Comparison = bh.compare(run["mine"], run["drift"])
    low, high = found.ci
    rows = [
        {"id": row["market_id"], "time": row["time"], "probability": 0.5} for row in run.intervals
    ]
    scored: bh.Run = bh.score_forecasts(rows, world, name="half", home=HOME, progress=False)
    probed: bh.Probe = bh.probe(mine, world, n=10, home=HOME, progress=False)
    tool = bh.check_tool("get_odds_at", {"id": "m0003", "time": "2025-02-01T00:00:00Z"}, world)
    again: bh.Run = bh.open_run("latest", home=HOME)
    run.plot("calibration").save(run.path.parent / "calibration.svg")
    report: Path = run.report(HOME / "report.html")
    (HOME / "more.csv").write_text("id,time,price\nLOCAL:x,2025-01-01T00:00:00Z,0.5\n")
    more: bh.World = bh.import_files("prices", HOME / "more.csv", HOME / "other")
    print(bh.__version__, standing.verdict, reasons, board, first["market_id"], checked.sound)
    print(low <= found.difference <= high, scored.headline, probed.peeked, tool.leaks, again.id)
    said: bh.Answer = bh.ask("Will the Jorvia index close?", world, home=HOME, progress=False)
    then = world.at("2025-02-01")
    ran: bh.AgentRun = bh.run_agent("polymarket-agent", then, home=HOME, query="Jorvia index")
    far: type[bh.Client] = bh.Client
    assert far("http://127.0.0.1:9").url == "http://127.0.0.1:9"
    print(report.name, len(answer), more.counts, said.citations, ran.metadata["row_count"])


if __name__ == "__main__":
    main()
