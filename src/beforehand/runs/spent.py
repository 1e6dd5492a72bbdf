"""What each decision of a run cost, from the journal's calls."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from beforehand.errors import InputError
from beforehand.forecast.base import provider_of, split_entry
from beforehand.forecast.code_mode import MODES
from beforehand.records.rows import DecisionRow, FailureRow, IntervalRow, TraceRow, label
from beforehand.runs.rows import read_traces
from beforehand.store.files import read_bytes
from beforehand.store.journal.calls import Calls, call_key
from beforehand.store.run_folder import RunFolder


class _Experiment(Struct):
    models: msgspec.Raw


class _Fork(Struct):
    models: dict[str, str] = {}


class _Config(Struct):
    experiments: list[_Experiment] = []
    fork: _Fork | None = None


_decode = msgspec.json.Decoder(_Config).decode
_decode_names = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True)
class Cost:
    """Tokens, US dollars and milliseconds; None where that is not on record."""

    tokens: int | None = None
    cost: float | None = None
    latency_ms: float | None = None


Spent = Callable[[IntervalRow, DecisionRow | FailureRow], Cost | None]
"""What a decision or a failure of a row cost; None where no call of it is on record."""
_Key = tuple[str, str, str, int, str]


def providers(folder: RunFolder) -> dict[str, str]:
    """The providers that were asked, by the names in the rows."""
    path, found = folder.path / "config.json", dict[str, str]()
    try:
        config = _decode(read_bytes(path))
        # Of a hundred thousand experiments, most name the same ones: each list is read once.
        lists = {bytes(one.models) for one in config.experiments}
        entries = sorted(e for one in lists for e in _decode_names(one))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a run's configuration: {error}") from None
    for entry in (*entries, *(config.fork.models.values() if config.fork else ())):
        name, rest = split_entry(entry)
        found[name or rest] = provider_of(rest)
    return found


def spent(folder: RunFolder, calls: Calls | None) -> Spent:
    """What was paid for each decision of a run. A fork did not pay for what it inherited."""
    if calls is None or not calls.knows(folder.run_id):
        return lambda row, said: None
    paid = {
        row["call_key"]: Cost()
        if row["origin"] is not None
        else Cost(row["tokens"], row["cost"], row["latency_ms"])
        for row in calls.rows(folder.run_id)
    }
    asked, of_models = providers(folder), _of_models(folder, paid)

    def find(row: IntervalRow, said: DecisionRow | FailureRow) -> Cost | None:
        mode = said.mode if isinstance(said, DecisionRow) else "failed"
        key = (row.market_id, row.time, said.model_id, said.simulation_index, mode)
        if key in of_models:
            return of_models[key]
        provider = asked.get(said.model_id, said.model_id)
        return paid.get(call_key(provider, row.context.wire(), said.simulation_index))

    return find


@dataclass(frozen=True)
class ForecasterCost:
    """What a forecaster cost in a run. `asked` of its `forecasts` rest on a call on record; where
    none does, it cost nothing. `cost` is in US dollars, `latency_ms` the mean of a forecast; None
    where no call says it."""

    forecaster: str
    forecasts: int
    asked: int
    tokens: int | None
    cost: float | None
    latency_ms: float | None


def cost_by_forecaster(
    rows: Iterable[IntervalRow], folder: RunFolder, calls: Calls | None
) -> list[ForecasterCost]:
    """What each forecaster of a run cost, by name; failed forecasts count as well."""
    paid = spent(folder, calls)
    found: dict[str, list[Cost | None]] = {}
    for row in rows:
        for said in row.said:
            found.setdefault(label(said.model_id), []).append(paid(row, said))
    mine = [_summed(name, found[name]) for name in sorted(found)]
    return [*mine, *_besides(folder, calls)]


def _besides(folder: RunFolder, calls: Calls | None) -> list[ForecasterCost]:
    """What forecasters in Python paid for through their Meter, by the provider that they name: a
    call does not say for which decision it was made."""
    if calls is None or not calls.knows(folder.run_id):
        return []
    own, found = set(providers(folder).values()), dict[str, list[Cost | None]]()
    modelled = {key for one in read_traces(folder.path / "traces.jsonl") for key in one.calls}
    for row in calls.rows(folder.run_id):
        provider = row["provider"]
        inherited = row["origin"] is not None or row["call_key"] in modelled
        if inherited or provider in own or provider.partition("@")[0] in own:
            continue
        if row["tokens"] is not None or row["cost"] is not None:
            cost = Cost(row["tokens"], row["cost"], row["latency_ms"])
            found.setdefault(provider, []).append(cost)
    return [_summed(f"{name} (paid through meter.call)", found[name]) for name in sorted(found)]


def cost_so_far(run_id: str, calls: Calls) -> list[ForecasterCost]:
    """What an unfinished run has paid for so far, by provider."""
    found: dict[str, list[Cost | None]] = {}
    for row in calls.rows(run_id):
        if row["origin"] is None:
            cost = Cost(row["tokens"], row["cost"], row["latency_ms"])
            found.setdefault(row["provider"], []).append(cost)
    return [_summed(name, found[name]) for name in sorted(found)]


def _summed(name: str, costs: list[Cost | None]) -> ForecasterCost:
    asked = [one for one in costs if one is not None]
    sum_ = _total(asked) if asked else Cost(0, 0.0)
    known = sum(one.latency_ms is not None for one in asked)
    mean = None if sum_.latency_ms is None else sum_.latency_ms / known
    return ForecasterCost(name, len(costs), len(asked), sum_.tokens, sum_.cost, mean)


def _of_models(folder: RunFolder, paid: dict[str, Cost]) -> dict[_Key, Cost]:
    """A model's calls, summed by decision; a fallback's cost includes the code attempt before."""
    found: dict[_Key, Cost] = {}
    before = Cost()
    for trace in read_traces(folder.path / "traces.jsonl"):
        if trace.arm not in MODES:
            continue
        mine = _total(paid[key] for key in trace.calls if key in paid)
        if isinstance(trace.fallback_reason, str):
            mine = _total([before, mine])
        before = mine
        for mode in (MODES[trace.arm], "failed"):
            found[_key(trace, mode)] = mine
    return found


def _key(trace: TraceRow, mode: str) -> _Key:
    index = int(trace.simulation_index or 0)
    return trace.market_id, str(trace.time), trace.model_id, index, mode


def _total(costs: Iterable[Cost]) -> Cost:
    """Sums of what is known; None if nothing is."""
    costs = list(costs)
    tokens = [one.tokens for one in costs if one.tokens is not None]
    cost = [one.cost for one in costs if one.cost is not None]
    took = [one.latency_ms for one in costs if one.latency_ms is not None]
    return Cost(
        sum(tokens) if tokens else None, sum(cost) if cost else None, sum(took) if took else None
    )
