"""Forecasts that were sealed before the outcome: what counts of a file, and what is missing."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import orjson
from msgspec import structs

from beforehand.clock import parse_instant, to_us
from beforehand.errors import Corrupt, InputError, NotFound
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs.benchmark.evaluation import predictor_of
from beforehand.jobs.benchmark.events import market_of
from beforehand.records.benchmark import EventSpec, zoned
from beforehand.records.bulk import MetadataRow, PayloadRow, PredictionRow, decode_prediction
from beforehand.score.skill import MARKET
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_lines
from beforehand.store.seals import Record, Seal, check, read_seals


def records_of(path: Path) -> Iterator[Record]:
    """The PredictionRecords of a file, to be sealed. Raises InputError, which names file and
    line."""
    for number, line in read_lines(path):
        try:
            row = decode_prediction(zoned(line))
        except (msgspec.MsgspecError, ValueError) as error:
            raise InputError(f"{path}:{number}: {error}") from None
        made = row.metadata.timestamp if row.metadata else None
        yield Record(
            row.id, predictor_of(row), row.prediction.probability, made, orjson.loads(line)
        )


def against(lines: Sequence[Seal], path: Path) -> list[str]:
    """What differs between a log and a file of forecasts: changed, added, left out."""
    sealed = {line["record"]: line for line in lines}
    about = {(line["id"], line["predictor"]) for line in lines}
    problems, seen = list[str](), set[str]()
    for one in records_of(path):
        seen.add(one.mark)
        if one.mark not in sealed:
            what = "was changed" if (one.id, one.predictor) in about else "was never sealed"
            problems.append(
                f"{one.id}, {one.predictor}: its forecast of {one.probability:g} {what}"
            )
    last = {(line["id"], line["predictor"]): line for line in lines}
    problems += [
        f"{event}, {who}: the forecast of {line['probability']:g}, sealed at {line['sealed_at']}, "
        "is not in the file"
        for (event, who), line in last.items()
        if line["record"] not in seen
    ]
    return problems


def whole_log(path: Path) -> list[Seal]:
    """The lines of a log. Raises NotFound where there is none, Corrupt where it was changed."""
    if not path.is_file():
        raise NotFound(f"there is no sealed log at {path}: `beforehand bench seal` makes one")
    lines = read_seals(path)
    if problems := check(lines).problems:
        raise Corrupt(f"{path} is not as sealed: {problems[0]} (`beforehand bench verify`)")
    return lines


def open_log(path: Path, archive: Path) -> "SealedLog":
    """A log whose lines are whole, and the archive that knows the market's price at each sealing.
    Raises NotFound where there is no log, Corrupt where it was changed."""
    return SealedLog(whole_log(path), Gateway(RecordedWorld(Archive(archive))))


class SealedLog:
    """What was sealed, as scoring asks for it."""

    def __init__(self, lines: Sequence[Seal], gateway: Gateway) -> None:
        self.lines = lines
        self._at = {line["record"]: parse_instant(line["sealed_at"]) for line in lines}
        self.gateway = gateway
        self.ages = dict[tuple[str, int], float]()
        """How old the market's price was (days) at an event's instant (microseconds), as the
        archive knows it, for those of `prices`."""

    @property
    def predictors(self) -> set[str]:
        """Everyone who sealed a forecast: each is a try, whether it is handed in or not."""
        return {line["predictor"] for line in self.lines} - {MARKET}

    def of(self, events: Container[str]) -> dict[str, int]:
        """How many forecasts each predictor sealed about these events."""
        return Counter(line["predictor"] for line in self.lines if line["id"] in events)

    def left_out(self, specs: Mapping[str, EventSpec], settled: Container[str]) -> dict[str, int]:
        """How many each sealed about events that are not among `specs`, or that have ended by the
        archive and are not among the `settled` ones: whoever leaves them out did not answer."""
        endings, found = self.gateway.full_view().endings(), Counter[str]()
        for line in self.lines:
            name = line["id"]
            if name in settled:
                continue
            if (spec := specs.get(name)) is not None:
                market = market_of(spec)
                if market not in endings or endings.says(market)[1] is None:
                    continue  # It is open, or void.
            found[line["predictor"]] += 1
        return found

    def as_sealed(self, line: bytes, row: PredictionRow) -> PredictionRow | None:
        """The prediction, made when it was sealed, whatever time it states; None if it was not
        sealed."""
        at = self._at.get(digest(orjson.loads(line)))
        if at is None:
            return None
        made = row.metadata or MetadataRow("unnamed", at)
        return structs.replace(row, metadata=structs.replace(made, timestamp=at))

    def prices(
        self, specs: Iterable[EventSpec], rows: Iterable[PredictionRow]
    ) -> Iterator[PredictionRow]:
        """The market's price, known then, at each instant at which a prediction was sealed."""
        markets = {spec.id: market_of(spec) for spec in specs}
        instants = {(row.id, row.metadata.timestamp) for row in rows if row.metadata}
        for name, at in sorted(instants):
            if name not in markets:
                continue
            with suppress(NotFound):
                odds = self.gateway.at(at).odds(markets[name])
                self.ages[name, to_us(at)] = odds.price_age / 86400
                yield PredictionRow(name, PayloadRow(odds.price), MetadataRow(MARKET, at))
