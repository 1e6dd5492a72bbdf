"""Search at t over the real evidence: a decisive document is there one minute after its capture,
and not one minute before."""

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from beforehand.clock import to_us
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.search import Grade
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from experiments import Out, told
from proofs import count

pytestmark = pytest.mark.real_data
MINUTE = timedelta(minutes=1)
EXAMPLES = {
    "the Texas primary of May 2026": ("gn-ea8d57fecd98", "Ken Paxton Texas Senate primary runoff"),
    "the Venezuela strike of December 2025": ("gn-9f173f2ea2ba", "US strike inside Venezuela"),
    "the Fed minutes of November 2025": ("gn-0858ec024b5c", "Fed minutes December rate cut"),
    "the Oscar nominations of January 2026": ("gn-346771631cfd", "Oscar nominations best picture"),
    "the Fed decision of December 2025": ("gn-ab5ad089a271", "Fed cuts rates decision"),
}


@pytest.fixture(scope="module")
def gateways(real: Path) -> dict[str, Gateway]:
    grades: tuple[Grade, ...] = ("captured", "published")
    return {grade: Gateway(RecordedWorld(Archive(real), grade)) for grade in grades}


@pytest.mark.parametrize("grade", ["captured", "published"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_decisive_document(name: str, grade: str, gateways: dict[str, Gateway]) -> None:
    document, query = EXAMPLES[name]
    gateway = gateways[grade]
    known = gateway.full_view().document(document).known_at
    window = known - timedelta(days=3)

    def found(t: object) -> list[str]:
        return [d.id for d in gateway.at(t).search(query, 20, window)]  # type: ignore[arg-type]

    before, after = found(known - MINUTE), found(known + MINUTE)
    assert document not in before
    assert document in after
    assert before, "there was evidence before, only not this"


def test_it_reaches_the_context_of_its_market(gateways: dict[str, Gateway]) -> None:
    """The market on the Texas primary: its own question finds the report, once it is captured."""
    gateway = gateways["captured"]
    document, _ = EXAMPLES["the Texas primary of May 2026"]
    known = gateway.full_view().document(document).known_at
    name = next(
        m.id for m in gateway.full_view().markets()
        if m.question and "Ken Paxton win the 2026 Texas" in m.question
    )  # fmt: skip
    instants = np.array([to_us(known - MINUTE), to_us(known + MINUTE)], dtype=np.int64)
    panel = gateway.panel([(name, instants)], evidence=Evidence(20, 3))
    before, after = ([d.id for d in documents] for documents in panel.documents)
    assert document not in before
    assert document in after


def test_coverage_is_told_for_every_market(real: Path, home: Path, capsys: Out) -> None:
    """How many contexts had any document, and how many a relevant one, of how many."""
    arguments = ("--forecasters", "market", "--every", "56d", "--placebo", "0", "--draws", "100")
    told(capsys, "backtest", "run", *arguments, "--archive", str(real), "--run-id", "c")
    found = told(capsys, "runs", "leaks", "c")
    total = found["coverage_total"]
    assert len(found["coverage"]) == 542, "493 that have ended, and those that are open"
    assert (
        total["contexts"] > total["with_text"] > total["with_document"] > total["with_relevant"] > 0
    )
    assert found["admitted_after_t"] == 0
    print(json.dumps(total))


def test_scripted_over_sixty_real_markets(real: Path, home: Path, capsys: Out) -> None:
    n = count("real markets asked of written code", 20, 60)
    names = sorted(Gateway(RecordedWorld(Archive(real))).full_view().first_prices())[:n]
    arguments = ("--forecasters", "market,scripted", "--markets", ",".join(names), "--every", "28d")
    found = told(
        capsys,
        *("backtest", "run", *arguments, "--archive", str(real), "--run-id", "s"),
        *("--placebo", "0", "--draws", "100"),
    )
    made = found["decisions"]
    assert made["code"] + made["fallback"] + made["failed"] == made["baseline"] > n
    assert made["failed"] == 0
    assert made["models"]["scripted"]["requests"] == made["code"] + 2 * made["fallback"]
    assert told(capsys, "runs", "verify", "s")["sound"]
