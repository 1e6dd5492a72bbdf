"""Turn what a user asks for into ExperimentConfigs.

`order.py` turns these into a Plan. The walk keeps what each forecaster saw and said (IntervalData);
`score` reads those rows and the resolutions only.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import overload

from beforehand.clock import from_us, iso, to_us
from beforehand.errors import InputError
from beforehand.forecast.base import (
    Forecaster,
    ModelOptions,
    PanelForecaster,
    class_of,
    split_entry,
)
from beforehand.gateway.gateway import Gateway
from beforehand.jobs.backtest import grid
from beforehand.records.backtest import ExperimentConfig, SearchConfig
from beforehand.records.rows import Mode
from beforehand.records.world import Resolution
from beforehand.store.archive.endings import Endings, Numbers

DEFAULT = ModelOptions()
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass
class Selection:
    """The markets of a run with their endings, those that are still `open` with the time until
    which each is asked (microseconds, not included), the time of each first price, the markets that
    are asked once outside the grid, and counts of those left out, by reason."""

    markets: Endings = field(default_factory=Endings)
    open: dict[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """The markets left out, each with its reason."""

    @property
    def names(self) -> list[str]:
        """The markets, in order."""
        return sorted([*self.markets, *self.open])

    def over(self, name: str) -> int:
        """The instant from which a market is not asked any more, in microseconds."""
        until = self.open.get(name)
        return grid.over(*self.markets.times(name)) if until is None else until

    def skip(self, reason: str, name: str) -> None:
        """Note a market that is not walked."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
        self.skipped[name] = reason


def select(gateway: Gateway, wanted: Sequence[str] | None, still_open: bool = True) -> Selection:
    """All markets with prices, or the named ones (an unknown one raises). Which of them have ended
    by now depends on how they ended, so those that are `still_open` belong to them: until their
    last price on record, or the close that is stated now, if that comes first."""
    view = gateway.full_view()
    final, settled = view.endings(), list[str]()
    first = view.first_prices()
    selection = Selection(first=Numbers.of(first))
    if wanted is None:
        names: list[str] = sorted(first.keys() | final.keys())
    else:
        names = list(dict.fromkeys(view.resolve_id(name) for name in wanted))
    for name in names:
        if name not in first:
            selection.skip("without prices", name)
        elif name not in final and still_open:
            selection.open[name] = until(gateway, name)
        elif name not in final:
            selection.skip("unresolved", name)
        elif (said := final.says(name))[1] is None:
            selection.skip(said[0], name)
        else:
            settled.append(name)
    selection.markets = final.only(settled)
    return selection


def until(gateway: Gateway, name: str) -> int:
    """Until when an open market is asked (microseconds, not included)."""
    series, close = gateway.world.series(name), gateway.full_view().market(name).scheduled_close
    last = 0 if series is None else int(series.known_at[-1]) + 1
    return last if close is None else min(last, to_us(close))


class Experiments(Sequence[ExperimentConfig]):
    """Experiments that share nearly all but their market and times: these take a tenth of the
    memory of the records, and each record is made when it is asked for."""

    def __init__(self, kinds: Sequence[ExperimentConfig] = ()) -> None:
        self.kinds = [*kinds]
        """What they share: each has all but its market and times from one of these."""
        self.kind_of = array("l")
        """The place of each one's kind in `kinds`."""
        self.markets: list[str] = []
        """The market of each."""
        self._times = array("q")

    @classmethod
    def of(cls, configs: Sequence[ExperimentConfig]) -> "Experiments":
        """Given ones, each of a kind of its own."""
        if isinstance(configs, Experiments):
            return configs
        found = cls(configs)
        for kind, one in enumerate(configs):
            found.add(kind, one.market_id, to_us(one.start_time), to_us(one.end_time))
        return found

    def add(self, kind: int, market: str, start: int, end: int) -> None:
        """Put one at the end, from `start` to `end` (microseconds)."""
        self.kind_of.append(kind)
        self.markets.append(market)
        self._times.extend((start, end))

    def count(self, k: int) -> int:
        """How many instants an experiment has."""
        step = self.kinds[self.kind_of[k]].interval_minutes * 60_000_000
        return (self._times[2 * k + 1] - self._times[2 * k]) // step + 1

    def __len__(self) -> int:
        return len(self.markets)

    @overload
    def __getitem__(self, k: int) -> ExperimentConfig: ...
    @overload
    def __getitem__(self, k: slice) -> list[ExperimentConfig]: ...
    def __getitem__(self, k: int | slice) -> ExperimentConfig | list[ExperimentConfig]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        start, end = from_us(self._times[2 * k]), from_us(self._times[2 * k + 1])
        own = {"market_id": self.markets[k], "start_time": start, "end_time": end}
        return self.kinds[self.kind_of[k]].model_copy(update=own)


def experiments(
    selection: Selection,
    *,
    every: timedelta,
    forecasters: Mapping[str, Forecaster],
    kind: grid.Kind,
    start: datetime | None,
    stop: datetime | None,
    max_results: int,
    lookback_days: int | None = None,
    num_sims: int = 1,
    options: ModelOptions = DEFAULT,
) -> Experiments:
    """ExperimentConfigs for each market, its range clamped to the market's life: one for the
    baselines, and one for each forecaster that is asked, so that a context never shows what
    another forecaster decided."""
    together = [f for f in forecasters.values() if isinstance(f, PanelForecaster)]
    asked = [f for f in forecasters.values() if not isinstance(f, PanelForecaster)]
    groups: list[list[Forecaster]] = [[*together], *([one] for one in asked)]
    groups = [group for group in groups if group]
    configs = Experiments()
    for name in selection.names:
        first, end = selection.first[name], selection.over(name)
        life = grid.life(first, end, every, kind, start, stop)
        if not len(life.t):
            selection.skip("no instant in range", name)
            continue
        if life.short:
            selection.short.append(name)
        if not configs.kinds:
            configs.kinds = [
                ExperimentConfig(
                    market_id=name,
                    start_time=from_us(life.t[0]),
                    end_time=from_us(life.t[-1]),
                    interval_minutes=every // timedelta(minutes=1),
                    num_sims=1 if group == together else num_sims,
                    models=[one.entry for one in group],
                    mode=mode_of(group, options.mode),
                    search_config=SearchConfig(
                        max_results=max_results,
                        lookback_days=lookback_days,
                        query_mode=options.query_mode if _model(group) else "template",
                    ),
                )
                for group in groups
            ]
        for k in range(len(groups)):
            configs.add(k, name, int(life.t[0]), int(life.t[-1]))
    return configs


def mode_of(group: Iterable[Forecaster], wanted: Mode) -> Mode:
    """The mode of an experiment with these forecasters: `wanted` where there is a model."""
    kinds = {one.kind for one in group}
    return wanted if "model" in kinds else "external" if "external" in kinds else "baseline"


def _model(group: Iterable[Forecaster]) -> Forecaster | None:
    """The first language model among them."""
    return next((one for one in group if one.kind == "model"), None)


def named_by_mode(configs: Sequence[ExperimentConfig]) -> list[ExperimentConfig]:
    """The same, where one market is asked in several modes: a model that is asked so is named by
    its mode in each (`scripted-direct_llm`), and so has a row of its own for each."""
    modes = defaultdict[tuple[str, str], set[str]](set)
    for config in configs:
        for entry in config.models:
            modes[config.market_id, entry].add(config.mode)
    several = {entry for (_, entry), of in modes.items() if len(of) > 1 and _is_model(entry)}

    def named(entry: str, mode: str) -> str:
        if entry not in several:
            return entry
        name, rest = split_entry(entry)
        return f"{name or _UNFIT.sub('_', rest)}-{mode}={rest}"

    return [
        config.model_copy(update={"models": [named(entry, config.mode) for entry in config.models]})
        for config in configs
    ]


def _is_model(entry: str) -> bool:
    found = class_of(split_entry(entry)[1])
    return found is not None and issubclass(found, Forecaster) and found.kind == "model"


def check_twice(configs: Experiments, stands_in: Mapping[str, str]) -> None:
    """Refuse configurations if two of them ask the same forecaster about the same market, also
    after a fork has replaced models."""
    several, kinds = Counter(configs.markets), configs.kinds
    asked: dict[tuple[str, str], int] = {}
    for i, (market, kind) in enumerate(zip(configs.markets, configs.kind_of, strict=True)):
        if several[market] == 1:
            continue
        models = kinds[kind].models
        for name in [*models, *(stands_in.get(name, name) for name in models)]:
            if asked.setdefault((market, name), i) != i:
                raise InputError(
                    f"models: {name} is asked about {market} by two experiments: "
                    "name it in one of them"
                )


def check(
    config: ExperimentConfig,
    group: Sequence[Forecaster],
    first: int | None,
    resolution: Resolution | None,
) -> None:
    """Refuse an explicit range outside the market's life (`first` is when its first price was
    known), and what this version cannot run, with the field, the value and what is allowed."""
    if first is None:
        raise InputError(f"market_id: {config.market_id} has no recorded prices")
    if config.start_time < from_us(first):
        raise InputError(
            f"start_time: {iso(config.start_time)} lies before {config.market_id}'s first price, "
            f"known at {iso(from_us(first))}: start there or later"
        )
    if resolution is not None and config.end_time >= grid.end_of(resolution):
        raise InputError(
            f"end_time: {iso(config.end_time)} does not lie before the end of {config.market_id} "
            f"({iso(grid.end_of(resolution))}): end earlier"
        )
    model = _model(group)
    if config.mode in ("baseline", "external") and model is not None:
        raise InputError(
            f"mode: {config.mode!r} asks no language model, and models names "
            f"{model.entry}: use daytona_agent, direct_llm or hybrid"
        )
    if config.mode not in ("baseline", "external") and model is None:
        raise InputError(
            f"mode: {config.mode!r} needs a model: name scripted, local, openai:NAME, "
            "anthropic:NAME or NAME@http://host:port/v1; baselines run with mode baseline, "
            "addresses with external"
        )
    if config.num_sims != 1 and all(isinstance(one, PanelForecaster) for one in group):
        raise InputError(
            f"num_sims: {config.num_sims}: a baseline says the same every time; only 1 is allowed "
            "without a model or a forecaster at an address"
        )
    if config.search_config.query_mode != "template" and model is None:
        raise InputError("search_config.query_mode: 'llm_generated' needs a model; use 'template'")
