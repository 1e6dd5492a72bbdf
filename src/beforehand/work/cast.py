"""Opening whoever decides in a run: one place for backtests and for the benchmark."""

from collections.abc import Mapping, Sequence

from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.forecast.baselines import Baseline
from beforehand.forecast.code_mode import ARMS, Agent
from beforehand.forecast.cutoff_guard import CutoffGuard
from beforehand.forecast.external import is_address, parse_rate
from beforehand.forecast.held import Holder, is_held
from beforehand.llm.names import is_model, need_key, parse_model
from beforehand.records.world import Resolution
from beforehand.sandbox.engines import Sandbox
from beforehand.work.deciders import Asker, Deciders
from beforehand.work.request import Effort, Minds


def make_deciders(
    asked: Sequence[str],
    baselines: Mapping[str, Baseline],
    home: Home,
    effort: Effort,
    minds: Minds,
    answers: Mapping[str, Resolution],
) -> Deciders:
    """The cast. Raises NotConfigured for a model whose key is missing and for an engine that cannot
    run here, before anything is asked; nothing is connected to yet."""
    limits = parse_rate(effort.rate)
    addresses, held = list(filter(is_address, asked)), list(filter(is_held, asked))
    specs = {name: parse_model(name, minds.cutoffs) for name in asked if is_model(name)}
    for spec in specs.values():
        need_key(spec)
        if spec.vendor == "compatible" and effort.max_cost and effort.cost_per_call is None:
            raise InputError(
                f"--max-cost: nobody knows what a call of {spec.id} costs: state --cost-per-call, "
                "or limit --max-calls or --max-tokens"
            )
    if unknown := [name for name in minds.cutoffs if name not in specs]:
        raise InputError(f"--cutoff {unknown[0]}: no such model is asked in this run")
    agent = None
    if specs:
        from beforehand.llm.ask import Models  # The vendors' libraries take a second to load.

        sandbox = Sandbox(minds.engine)
        sandbox.check()
        models = Models(list(specs.values()), home, limits, effort.timeout, effort.cost_per_call)
        agent = Agent(models, sandbox)
    known = {name: r.known_at for name, r in answers.items()}
    return Deciders(
        baselines,
        Asker(addresses, home, limits, effort.timeout) if addresses else None,
        agent,
        Holder(held) if held else None,
        CutoffGuard(known, minds.knowledge),
        specs,
        answers,
        minds.mode,
    )


def calls_of(name: str, mode: str) -> int:
    """How many calls one decision takes at least."""
    return len(ARMS[mode]) if is_model(name) and mode in ARMS else 1
