"""`beforehand backtest run --fetch`: the markets of a request, fetched before it runs."""

from dataclasses import replace

from beforehand.cli.output import note
from beforehand.config import Workspace
from beforehand.errors import InputError
from beforehand.front.progress import progress
from beforehand.gateway.opening import connect
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.jobs.backtest.fetching import Wanted, fetch_named

KEY = "EXA_API_KEY"


def fetched(request: BacktestRequest, workspace: Workspace, ask: bool) -> BacktestRequest:
    """The request for the markets as they are on record now. Raises InputError where none is named
    or none can be had. With `ask` False nothing that costs money is asked."""
    if not request.markets or request.configs is not None:
        raise InputError("--fetch needs --markets: ids of Polymarket or Kalshi (KALSHI:TICKER)")
    pages = request.max_results
    if pages and not workspace.settings.get(KEY):
        note(f"no pages are searched for: {KEY} is not set (Exa); texts and prices need no key")
        pages = 0
    wanted = Wanted(
        tuple(request.markets), request.every, request.grid, pages, request.start, request.stop
    )
    connection = connect(workspace, "record", request.archive)
    with progress("fetch") as update:
        done = fetch_named(
            connection, wanted, workspace.home, request.archive, request.limits.max_cost, ask, note,
            update,
        )  # fmt: skip
    for failure in done.failures:
        note(failure)
    if not ask:
        note("a dry run fetches texts, prices and endings, which cost nothing, and no page")
    found = f"{len(done.markets):,} markets ({done.new:,} new)"
    searched = f", {done.searches:,} searches (${done.usd:.2f}), {done.present:,} on record"
    note(
        f"fetched: {found}{searched if pages else ''}; texts and prices count from their own dates"
    )
    return replace(request, markets=done.markets, grade="published")
