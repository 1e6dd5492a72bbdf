"""The benchmark in three stages over files: ingest, predict, evaluate.

Each stage reads and writes documented files only, so that a foreign forecaster can stand in the
middle: take events.jsonl, write PredictionRecords, hand them to `evaluate`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from beforehand.clock import Clock, iso, parse_instant
from beforehand.config import Home
from beforehand.engine.context import StepContext
from beforehand.engine.plan import Action, Plan, Step
from beforehand.errors import InputError, NotFound
from beforehand.forecast.external import is_address, parse_rate
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.ids import digest
from beforehand.records.backtest import ExperimentConfig, SearchConfig
from beforehand.records.benchmark import EventSpec
from beforehand.store.archive import Archive
from beforehand.store.files import read_json, read_lines, write_json, write_jsonl
from beforehand.store.runs import RunFolder
from beforehand.work import backtest, grid, results
from beforehand.work.request import Effort
from beforehand.work.voices import voices
from beforehand.work.walk import Asker, Walker


def ingest(
    archive: Archive, horizon: timedelta, out: Path, textless: bool = False
) -> dict[str, int]:
    """Events, dated market snapshots and resolutions for every settled market that had a price
    `horizon` before its end. The event shows the *scheduled* close known then, never the end.
    A market whose wording was not on record by then is left out, unless `textless`."""
    world = RecordedWorld(archive)
    gateway = Gateway(world)
    selection = backtest.select(gateway, world, None)
    events, snapshots, endings = [], [], []
    for name, resolution in selection.markets.items():
        t = grid.end_of(resolution) - horizon
        view = gateway.at(t)
        try:
            market, odds = view.market(name), view.odds(name)
        except NotFound:
            selection.skip("no price that early")
            continue
        if market.question is None and not textless:
            selection.skip("no text that early")
            continue
        event = results.event_wire(market, None)
        days = int(horizon / timedelta(days=1))
        events.append(
            {
                **event,
                "forecast_horizon_days": days,
                "baseline_probability": odds.price,
                "forecast_at": iso(t),
            }
        )
        snapshots.append(
            {
                "id": name,
                "probability": odds.price,
                "observed_at": iso(odds.observed_at),
                "known_at": iso(odds.known_at),
                "price_age": odds.price_age,
            }
        )
        endings.append(results.resolution_wire(resolution))
    write_jsonl(out / "events.jsonl", events)
    write_jsonl(out / "events_snapshots.jsonl", snapshots)
    write_jsonl(out / "resolutions.jsonl", endings)
    return {"events": len(events), **{f"left out: {k}": n for k, n in selection.left_out.items()}}


@dataclass(frozen=True)
class PredictRequest:
    """Events to be forecast, each at its own instant."""

    archive: Path
    home: Path
    events: Path
    forecasters: str
    out: Path
    effort: Effort = field(default_factory=Effort)


class PredictJob:
    """The predict stage as a run: a walk of single instants, then the records of all events."""

    kind = "predict"

    def __init__(self, request: PredictRequest, run_id: str, clock: Clock) -> None:
        """Forecast every event at its `forecast_at` (else its resolution date less its horizon)."""
        if request.out.resolve() == request.events.resolve():
            raise InputError("--out names the events file itself: choose another")
        self._request = request
        home = Home(request.home)
        self.folder = RunFolder(home.runs, run_id)
        self._archive = Archive(request.archive)
        world = RecordedWorld(self._archive)
        gateway = Gateway(world, clock)
        self._specs = [spec for _, spec in load_events(request.events)]
        predictors = sorted({f.predictor for f in world.all_forecasts()})
        documents = bool(self._archive.counts().get("document"))
        names, models = voices(
            request.forecasters.split(","), documents=documents, predictors=predictors
        )
        self._asked: dict[tuple[str, str], list[str]] = {}
        self._names = names
        configs = []
        for spec in self._specs:
            config = _experiment(spec, gateway, names)
            key = (config.market_id, iso(config.start_time))
            if key not in self._asked:
                configs.append(config)
            self._asked.setdefault(key, []).append(spec.id)
        self._configs = configs
        walked = backtest.compile_plan(run_id, configs, score=False)
        write = Step("write", "write", {}, ("collect",), here=True)
        self.plan = Plan(run_id, [*walked.steps, write])
        effort = request.effort
        addresses = list(filter(is_address, names))
        asker = Asker(addresses, home, parse_rate(effort.rate), effort.timeout)
        walker = Walker(world, clock, self.folder, models, asker)
        self.actions: Mapping[str, Action] = {
            "walk": walker.walk,
            "collect": walker.collect,
            "write": self._write,
        }

    @property
    def fingerprint(self) -> str:
        """The events, the forecasters and the world."""
        asked = [config.wire() for config in self._configs]
        events = sorted(spec.id for spec in self._specs)
        return digest([self._archive.digest, asked, events, str(self._request.out.resolve())])

    @property
    def paid(self) -> dict[str, int]:
        """The calls that will be made, by address."""
        return {name: len(self._configs) for name in filter(is_address, self._names)}

    def prepare(self) -> None:
        """Write the plan."""
        self.folder.claim()
        write_json(self.folder.path / "plan.json", self.plan.wire())

    def _write(
        self, _: Mapping[str, Any], __: Mapping[str, Any], ___: StepContext
    ) -> dict[str, int]:
        """The PredictionRecords under the events' own ids."""
        rows = list(results.read_jsonl(self.folder.path / "predictions.jsonl"))
        lines = [
            {**row, "id": event}
            for row in rows
            for event in self._asked[row["id"], row["metadata"]["timestamp"]]
        ]
        write_jsonl(self._request.out, lines)
        expected = len(self._specs) * len(self._names)
        counts = {"events": len(self._specs), "predictions": len(lines)}
        counts["missing"] = expected - len(lines)
        write_json(self.folder.path / "counts.json", counts)
        return counts

    def seal(self) -> dict[str, str]:
        """The last file of a finished run."""
        return self.folder.seal(self.kind, self._archive.digest)

    def summary(self) -> dict[str, Any]:
        """How many events and predictions, and how many are missing."""
        found: dict[str, Any] = read_json(self.folder.path / "counts.json")
        return found


def _experiment(spec: EventSpec, gateway: Gateway, models: Sequence[str]) -> ExperimentConfig:
    """One instant of one market; an instant after the market's end is refused."""
    name = gateway.hindsight().resolve_id(_market_of(spec))
    t = _forecast_at(spec)
    ending = gateway.hindsight().resolution(name)
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
        models=list(models),
        mode="external" if any(map(is_address, models)) else "baseline",
        search_config=SearchConfig(),
    )


def _market_of(spec: EventSpec) -> str:
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
    """When an event is to be forecast, and its baseline_probability was read; None if unstated."""
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


def load_events(path: Path) -> list[tuple[int, EventSpec]]:
    """(line, EventSpec) of every line; a bad one, or a repeated id, raises InputError with file,
    line and reason."""
    found: list[tuple[int, EventSpec]] = []
    seen: set[str] = set()
    for number, line in read_lines(path):
        spec = valid(path, number, line, EventSpec)
        if spec.id in seen:
            raise InputError(f"{path}:{number}: the event {spec.id!r} is listed twice")
        seen.add(spec.id)
        found.append((number, spec))
    if not found:
        raise InputError(f"{path} holds no events")
    return found


def valid(path: Path, number: int, line: bytes, model: Any) -> Any:
    """One line as a record; InputError names file, line and reason."""
    try:
        return model.model_validate_json(line)
    except ValueError as error:
        from beforehand.world.importers.lines import reason

        raise InputError(f"{path}:{number}: {reason(error)}") from None
