"""The order in which questions are asked: the steps, and what each of them waits for.

Questions are sorted by (t, market, forecaster, simulation). A forecaster that is not `memoryless`
is asked about one instant at a time: a context at t is sent only when every context at an earlier
instant of the run is settled, that is answered, refused, or recorded as failed. In the plan this
is a dependency: the steps of an instant depend on those of the instant before. Within an instant
the calls run side by side. A context also waits for its own market's previous aggregate, which it
shows. All forecasters that can remember share one sequence of instants, because two addresses may
be one service.

A memoryless forecaster waits only for its own market's previous aggregate. Its markets are walked
one by one, each through all its instants.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from beforehand.clock import from_us, iso, to_us
from beforehand.engine.plan import Plan, Step
from beforehand.forecast.base import Forecaster, PanelForecaster
from beforehand.jobs.backtest.grid import instants
from beforehand.jobs.backtest.select import Experiments
from beforehand.records.backtest import ExperimentConfig

CHUNK = 25, 2000
"""The most markets and the most forecasts of a chunk. A chunk costs nothing to compute, so it is
one row of the journal."""
LARGE_CHUNK = 250, 20_000
"""The same for a large run: to write down a step takes as long as to walk a few markets."""
CALLS_A_STEP = 32
"""The most calls of one step, so that several processes can share an instant."""


@dataclass(frozen=True)
class Replacement:
    """From `at` on, some models are replaced by others: this is what a fork changes."""

    at: datetime
    models: Mapping[str, str] = field(default_factory=dict)

    def apply(self, models: Sequence[str], t: int) -> list[str]:
        """The models that are asked at `t` (microseconds)."""
        if t < to_us(self.at):
            return list(models)
        return list(dict.fromkeys(self.models.get(model, model) for model in models))

    def ever(self, models: Sequence[str]) -> list[str]:
        """Every model that is asked at some time."""
        return list(dict.fromkeys([*models, *(self.models.get(m, m) for m in models)]))


NO_REPLACEMENT = Replacement(from_us(0))


def compile_plan(
    run_id: str,
    configs: Sequence[ExperimentConfig],
    forecasters: Mapping[str, Forecaster],
    replacement: Replacement = NO_REPLACEMENT,
    score: bool = True,
    chunk: tuple[int, int] = CHUNK,
) -> Plan:
    """Ask about the markets in order, collect, score. The steps name experiments by their place
    in `configs`."""
    configs = Experiments.of(configs)
    kinds = [[forecasters[n] for n in replacement.ever(one.models)] for one in configs.kinds]
    spoken = [kinds[kind] for kind in configs.kind_of]
    free_kinds = [_memoryless(those) for those in kinds]
    waiting = [i for i, kind in enumerate(configs.kind_of) if not free_kinds[kind]]
    free = [i for i, kind in enumerate(configs.kind_of) if free_kinds[kind]]
    # First the experiments that wait for each other: they are the longest chain of the plan.
    steps = [*_instants(configs, waiting, spoken), *_walks(configs, free, spoken, chunk)]
    walked = tuple(step.id for step in steps if step.action == "walk")
    steps.append(Step("collect", "collect", {}, walked, here=True))
    if score:
        steps.append(Step("score", "score", {}, ("collect",), here=True))
    return Plan(run_id, steps)


def rounds(
    configs: Sequence[ExperimentConfig],
    forecasters: Mapping[str, Forecaster],
    replacement: Replacement,
) -> dict[str, dict[int, int]]:
    """For each forecaster, the number of calls at each instant that later instants wait for."""
    found = dict[str, dict[int, int]]()
    for config in configs:
        if _memoryless([forecasters[name] for name in replacement.ever(config.models)]):
            continue
        for t in instants(config).tolist():
            for name in replacement.apply(config.models, t):
                if _is_asked(forecasters[name]):
                    mine = found.setdefault(name, {})
                    mine[t] = mine.get(t, 0) + config.num_sims
    return found


def _memoryless(forecasters: Sequence[Forecaster]) -> bool:
    return all(one.memoryless for one in forecasters)


def _is_asked(one: Forecaster) -> bool:
    """True for a forecaster that is asked interval by interval, not for a whole chunk at once."""
    return not isinstance(one, PanelForecaster)


def sort_key(t: int, market: str, experiment: int, n: int) -> bytes:
    """The prefix by which stored lines sort into the order of the questions. It ends in a NUL,
    which JSON never contains."""
    return b"%020d\t%s\t%08d\t%08d\0" % (t, market.encode(), experiment, n)


def unprefixed(line: bytes) -> bytes:
    """A stored line without its `sort_key`."""
    return line.partition(b"\0")[2]


def _instants(
    configs: Experiments,
    waiting: Sequence[int],
    spoken: Sequence[Sequence[Forecaster]],
) -> Iterator[Step]:
    """The steps of forecasters that can remember, one instant after the other."""
    at: dict[int, list[int]] = {}
    for i in waiting:
        for t in instants(configs[i]).tolist():
            at.setdefault(t, []).append(i)
    before: tuple[str, ...] = ()
    asked_in: dict[int, str] = {}
    for t in sorted(at):
        time, made, held = iso(from_us(t)), list[str](), list[str]()
        for part in _parts(configs, at[t], spoken):
            here = any(one.stateful for one in spoken[part[0]])
            previous = [asked_in[i] for i in part if i in asked_in]
            # Held forecasters are shown one context after the other, within an instant as well.
            previous += held[-1:] if here else []
            step = Step(
                f"ask/{time}/{len(made)}",
                "walk",
                {"time": time, "experiments": part},
                tuple(dict.fromkeys([*before, *previous])),
                here=here,
            )
            yield step
            made.append(step.id)
            held += [step.id] if here else []
            asked_in |= dict.fromkeys(part, step.id)
        if len(made) == 1:
            before = tuple(made)
        else:
            settled = Step(f"settled/{time}", "settle", {}, tuple(made), here=True)
            yield settled
            before = (settled.id,)


def _parts(
    configs: Experiments,
    asked: Sequence[int],
    spoken: Sequence[Sequence[Forecaster]],
) -> list[list[int]]:
    """The experiments of one instant, divided into steps; those of a step share their settings."""
    parts: list[list[int]] = []
    for group in _groups(configs, asked):
        forecasters = spoken[group[0]]
        calls = configs.kinds[configs.kind_of[group[0]]].num_sims * max(
            sum(map(_is_asked, forecasters)), 1
        )
        size = max(CALLS_A_STEP // calls, 1)
        if any(one.stateful for one in forecasters):  # One process, one context after the other.
            size = len(group)
        parts += [group[k : k + size] for k in range(0, len(group), size)]
    return parts


def _walks(
    configs: Experiments,
    free: Sequence[int],
    spoken: Sequence[Sequence[Forecaster]],
    chunk: tuple[int, int],
) -> Iterator[Step]:
    """The steps of memoryless forecasters. A market is a step of its own if a forecaster is asked
    about it interval by interval."""
    number = 0
    for group in _groups(configs, free):
        alone = any(map(_is_asked, spoken[group[0]]))
        for part in [[i] for i in group] if alone else _chunks(configs, group, chunk):
            yield Step(f"walk/{number:04d}", "walk", {"experiments": part})
            number += 1


def _groups(configs: Experiments, which: Sequence[int]) -> list[list[int]]:
    """Experiments grouped by models, mode, simulations and search; sorted by market in a group."""
    alike = [f"{c.models} {c.mode} {c.num_sims} {c.search_config}" for c in configs.kinds]
    groups: dict[str, list[int]] = {}
    for i in sorted(which, key=lambda i: (configs.markets[i], i)):
        groups.setdefault(alike[configs.kind_of[i]], []).append(i)
    return list(groups.values())


def _chunks(configs: Experiments, group: Sequence[int], most: tuple[int, int]) -> list[list[int]]:
    chunks: list[list[int]] = [[]]
    size = 0
    for i in group:
        n = configs.count(i)
        if chunks[-1] and (len(chunks[-1]) == most[0] or size + n > most[1]):
            chunks.append([])
            size = 0
        chunks[-1].append(i)
        size += n
    return chunks
