"""The benchmark's files: the events, and what each stage makes of them.

Each stage reads and writes documented files only, so an outside forecaster can replace the middle
stage: it reads events.jsonl, writes PredictionRecords, and hands them to `evaluate`.
`benchmark_job.py` runs the stages as Plans.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from beforehand.clock import iso, parse_instant
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import Forecaster, ModelOptions
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.search import Grade
from beforehand.gateway.view import View
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import market_id, split_market_id
from beforehand.jobs import results
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest import select as backtest
from beforehand.jobs.backtest.select import mode_of
from beforehand.jobs.benchmark.rounds import EVERY, Candidate, LeftOut, Wanted, beyond, open_markets
from beforehand.records.backtest import ExperimentConfig, SearchConfig
from beforehand.records.benchmark import EventSpec, zoned
from beforehand.records.settles import rule_of
from beforehand.records.world import Market
from beforehand.runs.rows import EventLine, ResolutionLine
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_lines, write_jsonl


class BenchmarkEvent(EventLine):
    """An EventSpec that was ingested: asked at `forecast_at`, with the market's price then."""

    forecast_horizon_days: NotRequired[int]
    baseline_probability: float
    forecast_at: str


class SnapshotLine(TypedDict):
    """A line of events_snapshots.jsonl: the dated price behind `baseline_probability`."""

    id: str
    probability: float
    observed_at: str
    known_at: str
    price_age: float


@dataclass(frozen=True)
class Ingested:
    """What the first stage makes of an archive, as lines of its three files, and the counts."""

    events: list[BenchmarkEvent]
    snapshots: list[SnapshotLine]
    resolutions: list[ResolutionLine]
    counts: dict[str, int]
    left: list[LeftOut] = field(default_factory=list)
    """The markets that are no events, and why."""

    def add(self, one: Candidate, t: datetime, days: int | None) -> None:
        """Add a market as an event that is asked at `t`."""
        odds = one.odds
        event = {
            **results.event_wire(one.market, None),
            "baseline_probability": odds.price,
            "forecast_at": iso(t),
        }
        if days is not None:
            event["forecast_horizon_days"] = days
        self.events.append(event)  # type: ignore[arg-type]
        self.snapshots.append(
            {
                "id": one.market.id,
                "probability": odds.price,
                "observed_at": iso(odds.observed_at),
                "known_at": iso(odds.known_at),
                "price_age": odds.price_age,
            }
        )

    def why(self) -> str:
        """How many were left out for what reason."""
        said = ", ".join(f"{n:,} {what}" for what, n in self.counts.items() if what != "events")
        return said or "the archive holds none"

    def write(self, out: Path) -> None:
        """events.jsonl, events_snapshots.jsonl and resolutions.jsonl."""
        write_jsonl(out / "events.jsonl", self.events)
        write_jsonl(out / "events_snapshots.jsonl", self.snapshots)
        write_jsonl(out / "resolutions.jsonl", self.resolutions)


def ingest(
    archive: Archive,
    horizon: timedelta,
    textless: bool = False,
    wanted: Wanted = EVERY,
    now: datetime | None = None,
) -> Ingested:
    """Events, dated market snapshots and resolutions for every settled market that had a price
    `horizon` before its end; or, with `now`, for those that are open then (and have no
    resolutions). The event shows the *scheduled* close known then, never the end. A market whose
    wording was not on record by then is left out, unless `textless`. Raises InputError for bounds
    that nothing meets."""
    wanted.check()
    gateway = Gateway(RecordedWorld(archive))
    made = Ingested([], [], [], {})
    if now is not None:
        chosen, left = open_markets(gateway, now, wanted, textless)
        made.left.extend(left)
        for one in chosen:
            close = one.market.scheduled_close
            days = None if close is None else max((close - now).days, 0)
            made.add(one, now, days)
    else:
        _settled(made, gateway, horizon, textless, wanted)
    reasons = Counter(one["reason"] for one in made.left)
    made.counts["events"] = len(made.events)
    made.counts.update({f"left out: {why}": n for why, n in reasons.most_common()})
    return made


def _settled(
    made: Ingested, gateway: Gateway, horizon: timedelta, textless: bool, wanted: Wanted
) -> None:
    """Add every settled market that is wanted, in the order of the ids."""
    selection = backtest.select(gateway, None, still_open=False)
    made.left.extend({"id": name, "reason": why} for name, why in selection.skipped.items())
    found = list[tuple[Candidate, datetime, ResolutionLine]]()
    for name, resolution in selection.markets.items():
        t = grid.end_of(resolution) - horizon
        view = gateway.at(t)
        try:
            market, odds = view.market(name), view.odds(name)
        except NotFound:
            made.left.append({"id": name, "reason": "no price that early"})
            continue
        reason = None if market.question is not None or textless else "no text that early"
        reason = reason or wanted.refusal(market, odds, view)
        if reason is not None:
            made.left.append({"id": name, "reason": reason})
            continue
        line = results.resolution_wire(resolution)
        assert line is not None  # Selected markets are settled.
        found.append((Candidate(market, odds), t, line))
    made.left.extend(beyond(wanted, [one.market.id for one, _, _ in found]))
    for one, t, line in found[: wanted.limit]:
        made.resolutions.append(line)
        made.add(one, t, int(horizon / timedelta(days=1)))


@dataclass(frozen=True)
class Asking:
    """How models are asked: the options of a backtest, simulations, and what is looked up."""

    options: ModelOptions = field(default_factory=ModelOptions)
    sims: int = 1
    search: SearchConfig = field(default_factory=SearchConfig)


class EventWorld(RecordedWorld):
    """An archive, and beside it the events that no market of it asks: each is a market without a
    price, whose question is known from its own instant on."""

    def __init__(
        self, archive: Archive, grade: Grade = "captured", alone: Iterable[Market] = ()
    ) -> None:
        super().__init__(archive, grade)
        self._alone = {market.id: market for market in alone}

    @classmethod
    def of(cls, archive: Archive, specs: Sequence[EventSpec]) -> "EventWorld":
        """The archive, with those of the events that no market of it asks."""
        view = Gateway(RecordedWorld(archive)).full_view()
        return cls(archive, alone=[made for one in specs if (made := _alone(one, view))])

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process loads what it needs itself."""
        return EventWorld, (self.archive, self.grade, [*self._alone.values()])

    def market_versions(self, market_id: str | None, until: int) -> Sequence[Market]:
        """Those of the archive, or an event's own wording."""
        one = None if market_id is None else self._alone.get(market_id)
        return super().market_versions(market_id, until) if one is None else [one]

    @property
    def alone(self) -> frozenset[str]:
        """The ids of those without a market."""
        return frozenset(self._alone)


def _alone(spec: EventSpec, view: View) -> Market | None:
    """An event as a market without a price; None where the archive has its market."""
    name = _own_id(spec)
    try:
        view.resolve_id(market_of(spec))
    except NotFound:
        try:
            rule = rule_of(spec)
            if rule is not None and rule.kind == "xbrl_fact":
                rule.fact()
        except InputError as error:
            raise InputError(f"event {spec.id!r}: {error}") from None
        more = {} if rule is None else {"resolves_by": rule.wire()}
        venue, _, native = name.partition(":")
        return Market(
            id=name,
            venue=venue,
            native_id=native,
            question=spec.question,
            known_at=_forecast_at(spec),
            **more,
        )
    return None


def _own_id(spec: EventSpec) -> str:
    """What an event without a market is called in a run."""
    venue, native = split_market_id(spec.id)
    return market_id(venue or "EVENT", native)


def experiment(
    spec: EventSpec,
    world: EventWorld,
    forecasters: Mapping[str, Forecaster],
    asking: Asking,
) -> ExperimentConfig:
    """One instant of one market; an instant after the market's end is refused."""
    gateway, name = Gateway(world), _own_id(spec)
    if name not in world.alone:
        name = gateway.full_view().resolve_id(market_of(spec))
    t = _forecast_at(spec)
    ending = gateway.full_view().resolution(name)
    if ending is not None and t >= grid.end_of(ending):
        raise InputError(
            f"event {spec.id!r}: forecast_at {iso(t)} does not lie before the market's end "
            f"({iso(grid.end_of(ending))})"
        )
    return ExperimentConfig(
        market_id=name,
        start_time=t,
        end_time=t,
        interval_minutes=1,
        models=list(forecasters),
        mode=mode_of(forecasters.values(), asking.options.mode),
        num_sims=asking.sims,
        search_config=asking.search,
    )


def market_of(spec: EventSpec) -> str:
    """The id of an event's market."""
    source = spec.source
    if ":" in spec.id or source is None or source.market_id is None:
        return spec.id
    return f"{source.type.upper()}:{source.market_id}"


def _forecast_at(spec: EventSpec) -> datetime:
    t = deadline(spec)
    if t is None:
        raise InputError(
            f"event {spec.id!r} does not say when to forecast: it needs forecast_at, or "
            "resolution_date and forecast_horizon_days"
        )
    return t


def deadline(spec: EventSpec) -> datetime | None:
    """When to forecast an event, and when its baseline_probability was read; None if not stated."""
    stated = (spec.model_extra or {}).get("forecast_at")
    try:
        if stated is not None:
            return parse_instant(str(stated))
        if spec.resolution_date is None or spec.forecast_horizon_days is None:
            return None
        return spec.resolution_date - timedelta(days=spec.forecast_horizon_days)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"event {spec.id!r}: the time to forecast is not usable: {error}"
        ) from None


def load_events(path: Path, assume_utc: bool = False) -> list[tuple[int, EventSpec]]:
    """(line, EventSpec) of every line; a bad one, or a repeated id, raises InputError with file,
    line and reason."""
    found: list[tuple[int, EventSpec]] = []
    seen: set[str] = set()
    for number, line in read_lines(path):
        spec = valid(path, number, line, EventSpec, assume_utc)
        if spec.id in seen:
            raise InputError(f"{path}:{number}: the event {spec.id!r} is listed twice")
        seen.add(spec.id)
        found.append((number, spec))
    if not found:
        raise InputError(f"{path} holds no events")
    return found


def valid(path: Path, number: int, line: bytes, model: Any, assume_utc: bool = False) -> Any:
    """One line as a record; InputError names file, line and reason."""
    try:
        return model.model_validate_json(zoned(line, assume_utc))
    except ValueError as error:
        from beforehand.world.importers.lines import reason

        raise InputError(f"{path}:{number}: {reason(error)}") from None
