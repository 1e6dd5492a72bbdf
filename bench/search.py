"""Market search at 50,000 markets: relevance on a query set, and speed against its parts.

The markets: every question of the recorded histories (BEFOREHAND_DATA) among generated ones, many
of them close to the real ones. Run: python bench/search.py [n]
"""

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from beforehand.clock import to_us
from beforehand.gateway.search import MarketIndex, encoder
from beforehand.records.world import Market

AT = datetime(2026, 1, 1, tzinfo=UTC)
TEAMS = (
    "Lakers Celtics Bulls Knicks Warriors Heat Nuggets Bucks Chiefs Bills Packers Cowboys Ravens "
    "Yankees Dodgers Mets Cubs Braves Arsenal Chelsea Everton Milan Juventus Napoli Porto Ajax"
).split()
CUPS = (
    "NBA Finals|Super Bowl|World Series|FIFA World Cup|Champions League|Premier League|La Liga|"
    "Stanley Cup|Eastern Conference|Southeast Division"
).split("|")
NAMES = (
    "Emma Liam Noah Ava Mia Lucas Ethan Sofia Elena Marco Pierre Hans Ingrid Yuki Chen Wei Raj "
    "Priya Omar Fatima Ivan Olga Carlos Lucia"
).split()
LASTS = (
    "Garcia Schmidt Tanaka Novak Rossi Dubois Larsen Haddad Okafor Singh Petrov Silva Moreau Weber "
    "Kim Nguyen Ali Costa Jensen Murphy"
).split()
PLACES = (
    "France Spain Brazil Japan Kenya Chile Norway Turkey Egypt India Poland Peru Ghana Nepal Iraq "
    "Cuba Qatar Oman Laos Fiji Latvia Malta Serbia Georgia"
).split()
ASSETS = "Bitcoin Ethereum Solana gold silver oil copper wheat Tesla Nvidia Apple Amazon".split()
FILMS = "Hamnet Zootopia Avatar Superman Marty Weapons Arrival Gravity Parasite".split()
AWARDS = (
    "Best Picture|Best Actor|Best Actress|Best Director|Best Film Editing|Best Score|"
    "Best Supporting Actress"
).split("|")
MONTHS = "January February March April May June July August September October November".split()


def generated(n: int) -> list[str]:
    """Distractors from templates: sports, elections, prices, awards, wars, launches."""
    rng = np.random.default_rng(0)

    def pick(of: list[str]) -> str:
        return str(rng.choice(of))

    def one() -> str:
        year, day, month = int(rng.integers(2025, 2031)), int(rng.integers(1, 29)), pick(MONTHS)
        number = int(rng.integers(1, 999))
        person = f"{pick(NAMES)} {pick(LASTS)}"
        kinds = (
            lambda: f"Will the {pick(TEAMS)} win the {year} {pick(CUPS)}?",
            lambda: f"Will {pick(ASSETS)} reach ${number},000 by {month} {day}, {year}?",
            lambda: f"Will {pick(ASSETS)} dip to ${number}00 in {month} {year}?",
            lambda: f"Will {person} win the {year} election in {pick(PLACES)}?",
            lambda: f"Will {person} win {pick(AWARDS)} at the 1{day}th Academy Awards?",
            lambda: f"Will {pick(FILMS)} win {pick(AWARDS)} in {year}?",
            lambda: f"Will {pick(PLACES)} and {pick(PLACES)} sign a trade deal by {month} {year}?",
            lambda: f"Military clash of {pick(PLACES)} and {pick(PLACES)} before {month} {year}?",
            lambda: f"Will {pick(PLACES)} win the most gold medals in the {year} Olympics?",
            lambda: f"Will the central bank of {pick(PLACES)} cut rates in {month} {year}?",
            lambda: f"Will {person} step down as CEO by {month} {day}, {year}?",
            lambda: f"Will unemployment in {pick(PLACES)} exceed {rng.integers(3, 20)}% in {year}?",
            lambda: f"Will {person} reach {number} million subscribers in {year}?",
        )
        return kinds[int(rng.integers(0, len(kinds)))]()

    return [one() for _ in range(n)]


def markets(data: Path, n: int) -> tuple[list[Market], dict[str, str]]:
    """n markets, and the full id of each recorded question by its own."""
    texts, ids = [], {}
    for name in ("markets_resolved", "markets_open"):
        for line in (data / "forecastbench" / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            full = f"{row['source'].upper()}:{row['id']}"
            ids[str(row["id"])] = full
            texts.append((full, row["question"]))
    texts += [(f"GEN:{i}", text) for i, text in enumerate(generated(n - len(texts)))]
    made = [
        Market(id=i, venue=i.split(":")[0], native_id=i.split(":")[1], question=q, known_at=AT)
        for i, q in texts
    ]
    return made, ids


def rank(found: list[str], wanted: str) -> int:
    """The place of the wanted market, 0 where it is not among them."""
    return found.index(wanted) + 1 if wanted in found else 0


def main() -> None:
    data = Path(os.environ.get("BEFOREHAND_DATA") or "")
    if not (data / "forecastbench").is_dir():
        print("search relevance needs BEFOREHAND_DATA: skipped")
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    made, ids = markets(data, n)
    began = time.process_time()
    index = MarketIndex(made)
    assert index.vectors is not None
    print(f"index of {n:,} markets in {time.process_time() - began:.1f} s of CPU time")
    t = to_us(AT)
    count = index.count_until(t)

    def lexical(query: str) -> Any:
        return index.lexical(query, count)[0]

    def words(query: str) -> list[str]:
        score = lexical(query)
        order = np.lexsort((-np.arange(count), -score))[:10]
        return [index.rows[i].id for i in order if score[i] > 0]

    def meaning(query: str) -> list[str]:
        score = index.meaning(query, count)
        return [index.rows[i].id for i in np.argsort(-score, kind="stable")[:10]]

    def hybrid(query: str) -> list[str]:
        return [hit.market.id for hit in index.search(query, t, 10)[0]]

    queries = json.loads((Path(__file__).parent / "search_queries.json").read_text())
    asked = {k: v for k, v in queries.items() if k != "note"}
    encoder()
    for name, ask in (("words", words), ("meaning", meaning), ("hybrid", hybrid)):
        line = []
        for kind, pairs in asked.items():
            resolved = [
                (q, next(full for short, full in ids.items() if short.startswith(i)))
                for q, i in pairs
            ]
            places = [rank(ask(q), wanted) for q, wanted in resolved]
            hits = sum(p > 0 for p in places) / len(places)
            first = sum(p == 1 for p in places) / len(places)
            mrr = sum(1 / p for p in places if p) / len(places)
            line.append(f"{kind}: hit@10 {hits:.2f} hit@1 {first:.2f} MRR {mrr:.2f}")
        print(f"{name:8s} " + "   ".join(line))
    every = [q for pairs in asked.values() for q, _ in pairs]
    for name, ask, goal in (("lexical", lexical, 1), ("hybrid", hybrid, 10)):
        spent = []
        for query in every:
            start = time.perf_counter()
            ask(query)
            spent.append((time.perf_counter() - start) * 1e3)
        p95 = sorted(spent)[int(0.95 * len(spent))]
        print(f"{name:8s} p50 {median(spent):.2f} ms, p95 {p95:.2f} ms   goal p50 <= {goal} ms")


if __name__ == "__main__":
    main()
