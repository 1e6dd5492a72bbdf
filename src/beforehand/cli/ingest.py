"""`beforehand bench ingest`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, InputError
from beforehand.jobs.backtest.grid import parse_interval
from beforehand.jobs.benchmark import events, rounds
from beforehand.store.archive.reader import Archive
from beforehand.store.files import write_jsonl

FILTERS = Group("Which markets", sort_key=1)


@Parameter(name="*", group=FILTERS)
@dataclass
class Filters:
    """Which markets become events; without a bound all do."""

    venue: Annotated[list[str] | None, Parameter(help="Only of this venue. Repeat.")] = None
    category: Annotated[list[str] | None, Parameter(help="Only of this category. Repeat.")] = None
    min_volume: Annotated[float | None, Parameter(help="At least so much was traded.")] = None
    min_liquidity: Annotated[float | None, Parameter(help="At least so much liquidity.")] = None
    min_days: Annotated[float | None, Parameter(help="Days to the scheduled close, least.")] = None
    max_days: Annotated[float | None, Parameter(help="Days to the scheduled close, most.")] = None
    min_price: Annotated[float, Parameter(help="The least price, from 0 to 1.")] = 0.0
    max_price: Annotated[float, Parameter(help="The highest price.")] = 1.0
    limit: Annotated[int | None, Parameter(help="At most so many events.")] = None
    not_in: Annotated[
        list[Path] | None, Parameter(help="Not those of this earlier round (a folder). Repeat.")
    ] = None

    with_rules: Annotated[
        bool, Parameter(negative="", help="Only markets that say how they resolve.")
    ] = False
    repeated: Annotated[
        bool,
        Parameter(
            negative="",
            help="Open markets: keep a question that an earlier round or another venue asks in "
            "other words.",
        ),
    ] = False

    def wanted(self) -> rounds.Wanted:
        """The bounds. Raises InputError for ones that nothing meets."""
        found = rounds.Wanted(
            venues=tuple(self.venue or ()),
            categories=tuple(self.category or ()),
            min_volume=self.min_volume,
            min_liquidity=self.min_liquidity,
            min_days=self.min_days,
            max_days=self.max_days,
            min_price=self.min_price,
            max_price=self.max_price,
            limit=self.limit,
            with_rules=self.with_rules,
            repeated=self.repeated,
            seen=rounds.seen_in(self.not_in or ()),
        )
        found.check()
        return found


def ingest(
    *,
    out: Annotated[Path, Parameter(help="Folder for events, snapshots and resolutions.")],
    horizon: Annotated[str, Parameter(help="Settled ones: how long before their end.")] = "7d",
    open: Annotated[
        bool, Parameter(negative="", help="Markets that are open now: a round to be sealed.")
    ] = False,
    textless: Annotated[
        bool, Parameter(negative="", help="Keep markets whose wording was not on record by then.")
    ] = False,
    filters: Filters | None = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Make a round: write events.jsonl, events_snapshots.jsonl and resolutions.jsonl.

    left_out.jsonl has every market that is no event, with the reason. With --open the events are
    markets that have not ended, to be forecast now, and the round is frozen in round.json: answer
    it (`bench predict`), seal the answers (`bench seal`), and once they end `bench resolve` and
    `bench evaluate --sealed`.
    """
    path = archive_path(archive)
    wanted, world = (filters or Filters()).wanted(), Archive(path)
    now = Workspace.from_environment().clock.now()
    rounds.refuse_frozen(out)
    made = events.ingest(world, parse_interval(horizon), textless, wanted, now if open else None)
    if not made.events:
        raise InputError(f"no market of {path} becomes an event ({made.why()})")
    made.write(out)
    write_jsonl(out / "left_out.jsonl", made.left)
    frozen = rounds.freeze(out, world.digest, now, wanted, made.left) if open else None
    if json:
        emit({"out": str(out), "counts": made.counts, "round": frozen})
    else:
        print(f"{out}: " + ", ".join(f"{n:,} {what}" for what, n in made.counts.items()))
        if frozen:
            print(f"frozen: {frozen['digest']}")
    return EXIT_OK
