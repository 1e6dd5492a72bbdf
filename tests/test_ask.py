"""The orchestrator without a model: plans that are checked, answers whose every figure is on record,
runs that are killed at every step, and nothing of the future in any byte."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock, parse_instant
from beforehand.errors import InputError, NotFound
from beforehand.jobs.ask import rules, wording
from beforehand.jobs.ask.answer import cited
from beforehand.jobs.ask.subject import Subject
from beforehand.jobs.ask.tasks import Task, check
from beforehand.jobs.probe.redraw import OtherFuture, all_records
from beforehand.records.world import Market, PricePoint, Resolution
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.bus import Bus
from experiments import Out, told

FULL = os.environ.get("BEFOREHAND_CHAOS") == "full"
T = "2025-02-20T00:00:00Z"
QUESTION = "How likely is it that the Jorvia reservoir index closes above 672, and how did it move "
QUESTION += "this month, and why?"


def asked(capsys: Out, sim: Path, question: str, *more: str, code: int = 0) -> dict[str, Any]:
    return told(capsys, "ask", question, "--archive", str(sim), *more, code=code)


@pytest.mark.parametrize(
    ("question", "topic", "agents"),
    [
        (
            "Will Trump win 2024?",
            "Will Trump win 2024",
            "polymarket market-details predictive-markets",
        ),
        (
            "Will Bitcoin reach $100k?",
            "Will Bitcoin reach $100k",
            "polymarket market-details predictive-markets",
        ),
        (
            "Bitcoin predictions",
            "Bitcoin predictions",
            "polymarket market-details predictive-markets",
        ),
        (
            "What is priced in for a rate cut in December, and how did it move this month?",
            "a rate cut in December",
            "polymarket market-details predictive-markets price-history",
        ),
        (
            "Why did the odds of a shutdown change last week?",
            "a shutdown",
            "polymarket market-details predictive-markets price-history documents",
        ),
        ("quotes of XCME.OZN.AUG25 on 2025-07-21", "", "market-data consumer"),
        ("bid and ask on 2025-07-21", "", "market-data consumer"),
        (
            "What do markets say about a ceasefire?",
            "a ceasefire",
            "polymarket market-details predictive-markets",
        ),
        (
            "What does Polymarket expect on rain?",
            "rain",
            "polymarket market-details predictive-markets",
        ),
        (
            "What happened with Taylor Swift?",
            "Taylor Swift",
            "polymarket market-details predictive-markets documents",
        ),
        (
            "How did the odds of a rate cut in December move in October?",
            "a rate cut in December",
            "polymarket market-details predictive-markets price-history",
        ),
        ('quotes of "ESM4 P5230" on 2024-05-09', "", "market-data consumer"),
    ],
)
def test_what_a_question_asks(question: str, topic: str, agents: str) -> None:
    at = parse_instant("2025-11-20T00:00:00Z")
    assert wording.read(question, at).topics == ((topic,) if topic else ())
    tasks = rules.plan(question, at, wording.Known())
    check(tasks)
    assert [task.agent for task in tasks] == [f"{name}-agent" for name in agents.split()]


@pytest.mark.parametrize(
    ("question", "topics"),
    [
        ("Compare Bitcoin and Ethereum", ("Bitcoin", "Ethereum")),
        ("Trump vs. Harris", ("Trump", "Harris")),
        ("What are the odds of a rate cut and of a recession?", ("a rate cut", "a recession")),
        ("Will it rain in Oslo? Will Bitcoin reach $100k?", (
            "Will it rain in Oslo", "Will Bitcoin reach $100k",
        )),
        ("Will Russia and Ukraine agree on a ceasefire?", (
            "Will Russia and Ukraine agree on a ceasefire",
        )),
        ("Compare rain, snow and hail with fog", ("rain", "snow", "hail")),
        ("Will NATO clash with Russia, and will gold rise?", (
            "Will NATO clash with Russia", "will gold rise",
        )),
        ("What are the headlines on the Fed?", ("the Fed",)),
        ("What is reported about Nvidia?", ("Nvidia",)),
        ("Show me everything about Venezuela: odds and news", ("Venezuela",)),
        ("Will Microsoft lead, and when did Bitcoin dip below 100k?", (
            "Will Microsoft lead", "Bitcoin dip below 100k",
        )),
        ('Did the odds of "Will the U.S. invade Oslo?" double?', ("Will the US invade Oslo?",)),
        ("Elon Musk richest on Polymarket versus Metaculus", ("Elon Musk richest",)),
        ("Why are Venezuela odds up?", ("Venezuela",)),
        ("What are the odds that gold hits 7000, and how have they moved the last two weeks?", (
            "gold hits 7000",
        )),
        ("Compare the odds of rain with those of snow", ("rain", "snow")),
        ("What was the highest and lowest price of gold in October?", ("gold in October",)),
    ],
)  # fmt: skip
def test_several_topics(question: str, topics: tuple[str, ...]) -> None:
    at = parse_instant("2025-11-20T00:00:00Z")
    assert wording.read(question, at).topics == topics
    tasks = rules.plan(question, at, wording.Known())
    check(tasks)
    asked = {task.inputs["query"] for task in tasks if task.agent == "polymarket-agent"}
    assert len(asked) == len(topics)


@pytest.mark.parametrize(
    ("topic", "title", "fits"),
    [
        (
            "Will Bitcoin reach 140k by the end of 2025",
            "Will Bitcoin reach $140,000 in 2025?",
            True,
        ),
        ("Bitcoin 140000", "Will Bitcoin reach $140,000 by December 31, 2025?", True),
        ("Bitcoin 140000", "Will Bitcoin reach $170,000 by December 31, 2025?", False),
        ("silver below $60", "Will Silver (SI) hit (LOW) $60 by end of June?", True),
        ("Philadelfia Eagels win", "Will the Philadelphia Eagles win Super Bowl 2026?", True),
        ("Trump win 2024", "Trump divorce in 2025?", False),
        ("a rate cut in December", "Will 4 Fed rate cuts happen in 2025?", True),
        ("a rate cut in December", "Will the Chiefs cut a player?", False),
        ("a rate cut in December", "Fed rate cut after the January meeting?", False),
        ("a rate cut in December", "Fed rate cut by Dec. 31?", True),
        ("the vote in May", "Will the vote fail in April?", False),
        ("the vote in May", "Will the vote mar the talks?", True),
        ("Taiwan invasion by March 31, 2026", "Taiwan invasion by March 31, 2026?", True),
        ("Taiwan invasion by March 31, 2026", "Taiwan invasion by June 30, 2026?", False),
        ("Ethereum 7000", "Will Ethereum hit $7,000 by May?", True),
        ("Ethereum 7000", "Will Ethereum hit $5,000 by May?", False),
        ("U.S. recession in 2025", "Will there be a US recession by EOY2025?", True),
        ("Starmer's odds", "Starmer out in 2025?", True),
        ("the NBA Eastern finals", "Will the Jazz win the NBA Western finals?", True),
    ],
)
def test_which_titles_fit_a_topic(topic: str, title: str, fits: bool) -> None:
    assert Subject.of(topic).fits(title) is fits


def test_the_days_that_are_asked_about() -> None:
    at = parse_instant("2025-11-20T08:00:00Z")
    for text, first, last in (
        ("this month", "2025-11-01", "2025-11-20"),
        ("this week", "2025-11-17", "2025-11-20"),
        ("this quarter", "2025-10-01", "2025-11-20"),
        ("over the last 10 days", "2025-11-10", "2025-11-20"),
        ("in the past 2 weeks", "2025-11-06", "2025-11-20"),
        ("since 2025-09-01", "2025-09-01", "2025-11-20"),
        ("from 2025-09-01 to 2025-10-01", "2025-09-01", "2025-10-01"),
        ("until 2026-10-01", "2025-10-21", "2025-11-20"),
        ("since October", "2025-10-01", "2025-11-20"),
        ("since December", "2024-12-01", "2025-11-20"),
        ("since March 2024", "2024-03-01", "2025-11-20"),
        ("in October", "2025-10-01", "2025-10-31"),
        ("in November", "2025-11-01", "2025-11-20"),
        ("since yesterday", "2025-11-19", "2025-11-20"),
        ("between 2025-09-01 and 2025-10-01", "2025-09-01", "2025-10-01"),
        ("from September 20 to October 5", "2025-09-20", "2025-10-05"),
        ("from December 20th to March 3, 2025", "2024-12-20", "2025-03-03"),
        ("since October 3", "2025-10-03", "2025-11-20"),
        ("since 2024", "2024-01-01", "2025-11-20"),
        ("", "2025-10-21", "2025-11-20"),
    ):
        found = wording.read(f"How did a recession move {text}?", at).days
        assert found is not None, text
        assert [day.isoformat() for day in found] == [first, last], text
    assert wording.read("Will there be a recession?", at).days is None
    for question, said in (
        ("?", "does not say what it is about"),
        ("What happened to it?", "does not say what it is about"),
        ("How did rain move since 2026-01-01?", "2026-01-01 lies after 2025-11-20"),
        ("How did rain move since 2025-02-30?", "2025-02-30"),
        ("How did rain move since 2027?", "2027-01-01 lies after 2025-11-20"),
        ("How did rain move between 2025-10-02 and 2025-10-01?", "is reversed"),
        ("How did rain move between 2026-10-02 and 2026-10-05?", "lies after 2025-11-20"),
        ("How did rain move from May 1 to May 5 and from June 1 to June 5?", "one range of days"),
        ("Which markets moved most this week?", "does not say what it is about"),
        ("How did rain move over the last 9999999 days?", "not on the calendar"),
        ("Will it rain \ud800?", "not Unicode"),
    ):
        with pytest.raises(InputError, match=said):
            wording.read(question, at)


def test_bad_plans_are_refused_before_anything_is_spent() -> None:
    good = Task("a", "polymarket-agent", "", {"query": "x"}, (), ("search_polymarket_markets",))
    read = {"input_path": {"task": "a"}}
    for tasks, said in (
        ([], "the plan has no task"),
        ([good, good], "two tasks of the plan have one id"),
        ([Task("answer", "consumer-agent", "")], "cannot be called 'answer'"),
        ([Task("a", "nobody", "")], "no agent is named 'nobody'"),
        ([Task("a", "polymarket-agent", "")], "task a: .*'query' is missing"),
        ([Task("a", "polymarket-agent", "", {"query": 5})], "task a: .*query"),
        ([Task("a", "polymarket-agent", "", {"query": "x"}, ("b",))], "'b', which is not in the"),
        ([Task("a", "polymarket-agent", "", {"query": "x"}, (), ("run_query",))], "may not use"),
        ([Task("a", "polymarket-agent", "", {"query": "x"})], "task a has no tool: polymarket-"),
        ([good, Task("c", "consumer-agent", "", read)], "must wait for it"),
        (
            [
                Task("a", "polymarket-agent", "", {"query": "x"}, ("b",), good.tools),
                Task("b", "polymarket-agent", "", {"query": "x"}, ("a",), good.tools),
            ],
            "wait for each other in a circle: a, b",
        ),
    ):
        with pytest.raises(InputError, match=said):
            check(tasks)
    check([good, Task("c", "consumer-agent", "", read, ("a",))])


def test_an_answer_with_citations(sim: Path, home: Path, capsys: Out) -> None:
    """Every citation resolves, and every figure is that of the View."""
    found = asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    assert found["as_of"] == T
    numbers = {one["n"] for one in found["citations"]}
    assert set(cited(found["answer"])) == numbers != set()
    view = bh.open_world(sim).at(T)
    kinds = {one["kind"] for one in found["citations"]}
    assert kinds >= {"market", "price history"}
    for one in found["citations"]:
        assert (Path(home) / one["file"]).is_file()
        if one["kind"] == "document":
            assert view._world.document(one["id"], view._at)
            continue
        market, odds = view.market(one["id"]), view.odds(one["id"])
        assert market.question == one["title"]
        line = next(text for text in found["answer"].splitlines() if f"[{one['n']}]" in text)
        assert f"{odds.price:g}" in line
        if one["kind"] == "price history":
            since = view.history(one["id"], start="2025-02-01")
            days = {point.observed_at.date(): point.price for point in since}
            assert f"low {min(days.values()):g}, high {max(days.values()):g}" in line
    assert cli(["runs", "verify", "r"]) == 0
    capsys.readouterr()
    assert cli(["bus", "verify"]) == 0
    capsys.readouterr()
    plan = asked(capsys, sim, QUESTION, "--as-of", T, "--plan")
    assert [task["id"] for task in plan["tasks"]] == [
        "markets", "markets-details", "sites", "markets-history", "documents",
    ]  # fmt: skip


def test_reports_are_those_of_the_topic(sim: Path, home: Path, capsys: Out) -> None:
    found = asked(capsys, sim, "What is reported about the Jorvia museum index?", "--as-of", T)
    reports = [one for one in found["citations"] if one["kind"] == "document"]
    assert reports
    view = bh.open_world(sim).at(T)
    for one in reports:
        title = view.document(one["id"]).title
        assert "Jorvia museum index" in title
        assert title in found["answer"]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What was the price of Starmer out on November 12?", "2025-11-12", "2025-11-12"),
        ("How did gold move since last Friday?", "2025-11-14", "2025-11-20"),
        ("How did gold move over the last fortnight?", "2025-11-06", "2025-11-20"),
        ("Is gold up, and how has it moved in the last two weeks?", "2025-11-06", "2025-11-20"),
        ("Why is gold up?", "2025-10-21", "2025-11-20"),
        ("Will the regime fall by March 31?", None, None),
        ("Which company will have the top model on December 31?", None, None),
    ],
)
def test_which_days_are_meant(question: str, first: str | None, last: str | None) -> None:
    days = wording.read(question, parse_instant("2025-11-20T08:00:00Z")).days
    assert days == (
        None if first is None else (date.fromisoformat(first), date.fromisoformat(last))
    )


def test_which_markets_come_first(tmp_path: Path, home: Path, capsys: Out) -> None:
    """Those that ask exactly this; the likeliest of "who", the winner of what has ended; near ones
    are called so, and a question's month and year are part of it."""
    at = parse_instant("2025-11-01T00:00:00Z")
    records: list[Any] = []
    for n, (name, price) in enumerate((("Ash", 0.1), ("Birch", 0.7), ("Cedar", 0.2))):
        known = at + timedelta(minutes=n)
        market = Market(
            id=f"POLYMARKET:m{n}", venue="POLYMARKET", native_id=f"m{n}", question=f"Will {name} win the Oslo race in 2025?",
            known_at=known, text_known_at=known,
        )  # fmt: skip
        price_at = PricePoint(market_id=market.id, price=price, observed_at=known, known_at=known)
        records += [market, price_at]
    records.append(
        Resolution(
            market_id="POLYMARKET:m2", status="resolved", payout=1.0,
            resolved_at=at + timedelta(days=9), known_at=at + timedelta(days=9),
        )
    )  # fmt: skip
    path = tmp_path / "race"
    ArchiveWriter(path).add(
        records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
    )
    early = asked(capsys, path, "Who will win the Oslo race?", "--as-of", "2025-11-05")
    titles = [one["title"] for one in early["citations"]]
    assert [title.split()[1] for title in titles] == ["Birch", "Cedar", "Ash"]
    assert "price of 2025-11-01" in early["answer"]
    assert "exactly" not in early["answer"]
    late = asked(capsys, path, "Oslo race in 2025", "--as-of", "2025-11-20")
    assert "Will Cedar win the Oslo race in 2025? ended Yes on 2025-11-10" in late["answer"]
    near = asked(capsys, path, "Will Birch win the Oslo race in December?", "--as-of", "2025-11-05")
    assert "No market asks exactly" in near["answer"]
    itself = asked(capsys, path, "Will Cedar win the Oslo race in 2025?", "--as-of", "2025-11-05")
    assert [one["title"] for one in itself["citations"]] == [
        "Will Cedar win the Oslo race in 2025?"
    ]
    none = asked(capsys, path, "Who will win the Oslo race in 2026?", "--as-of", "2025-11-05")
    assert none["citations"] == []


def test_what_agents_wrote_is_checked_again(sim: Path, home: Path, capsys: Out) -> None:
    found = asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    output = home / found["citations"][0]["file"]
    whole = output.read_bytes()
    output.write_bytes(whole + b"\n")
    assert cli(["runs", "verify", "r"]) == 1
    assert f"{output} is not what" in capsys.readouterr().out
    output.unlink()
    assert cli(["runs", "verify", "r"]) == 1
    assert "is missing" in capsys.readouterr().out
    output.write_bytes(whole)
    assert cli(["runs", "verify", "r"]) == 0
    for command in ("diff", "compare"):
        capsys.readouterr()
        assert cli(["runs", command, "r", "r"]) != 0
        assert "run r (ask) has no scores: `beforehand runs show r`" in capsys.readouterr().err
    with pytest.raises(NotFound, match="has no scores"):
        assert bh.open_run("r").summary


def test_what_stands_in_the_results_database(sim: Path, home: Path, capsys: Out) -> None:
    """`agent_name` is the agent, `output_file_path` its file on the bus."""
    import sqlite3

    asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    with sqlite3.connect(Path(home) / "workspace" / "orchestrator_results.db") as database:
        rows = database.execute(
            "SELECT task_id, agent_name, status, output_file_path FROM worker_runs WHERE "
            "run_id = 'r' ORDER BY task_id"
        ).fetchall()
    assert rows == [
        ("answer", "answer", "success", None),
        *(
            (task, agent, "success", f"workspace/agents/{agent}/out/000001.json")
            for task, agent in (
                ("documents", "documents-agent"),
                ("markets", "polymarket-agent"),
                ("markets-details", "market-details-agent"),
                ("markets-history", "price-history-agent"),
            )
        ),
        ("plan", "plan", "success", None),
        (
            "sites", "predictive-markets-agent", "success",
            "workspace/agents/predictive-markets-agent/out/000001.json",
        ),
    ]  # fmt: skip


def test_markets_named_by_their_ids(sim: Path, home: Path, capsys: Out) -> None:
    """A market's id is a topic of its own: its price, how old it is, and how it ended; one that
    came later is not known, and an id is no word to search for."""
    view = bh.open_world(sim).at("2026-01-01")
    ended = next(one for one in view.resolutions() if one.status == "resolved")
    name = ended.market_id.partition(":")[2]
    found = asked(capsys, sim, f"How did {name} move?", "--as-of", "2026-01-01T00:00:00Z")
    (line,) = [text for text in found["answer"].splitlines() if "ended" in text]
    outcome = "Yes" if ended.payout else "No"
    assert f"ended {outcome} on {ended.resolved_at:%Y-%m-%d}; Yes was last at" in line
    assert "closes" not in line
    assert next(one["id"] for one in found["citations"]) == name
    before = ended.known_at - timedelta(days=1)
    found = asked(capsys, sim, f"{name}?", "--as-of", f"{before:%Y-%m-%dT%H:%M:%SZ}")
    assert "ended" not in found["answer"]
    assert view.market(name).question in found["answer"]
    found = asked(capsys, sim, "SIM:nothing", "--as-of", T)
    assert found["not_found"][0] == "no market SIM:nothing was known then"
    at = parse_instant(T)
    unknown = rules.plan("m9999 rain", at, wording.Known(ids=frozenset({"m1"})))
    assert unknown[0].inputs["query"] == "m9999 rain"
    assert wording.read("39314 rain", at, wording.Known(ids=frozenset({"39314"}))).ids == ()


def test_every_venue_is_searched() -> None:
    """A venue that has markets is searched; simulated ones belong to every server."""
    known = wording.Known(frozenset({"POLYMARKET", "KALSHI", "MANIFOLD", "METACULUS", "SIM"}))
    tasks = rules.plan("Will it rain?", parse_instant(T), known)
    check(tasks)
    others = {task.id: task.inputs.get("venues") for task in tasks}
    assert others["venues"] == ["MANIFOLD", "METACULUS"]
    assert {"markets-details", "kalshi-details", "venues-details"} <= others.keys()


@pytest.mark.parametrize(
    ("question", "topic", "days"),
    [
        ("What did Polymarket say about Oslo a week before the vote on March 12?", "Oslo",
         ("2026-03-05", "2026-03-05")),
        ("What were the odds of a ceasefire two weeks ago?", "a ceasefire",
         ("2026-03-11", "2026-03-11")),
        ("How did Bitcoin move since a month ago?", "Bitcoin", ("2026-02-23", "2026-03-25")),
        ("What was the price of rain on 14 January 2026?", "rain", ("2026-01-14", "2026-01-14")),
        ("What was the price of rain on the 3rd?", "rain on the 3rd", None),
        ("What happened to the price of rain in March 2026?", "rain", ("2026-03-01", "2026-03-25")),
        ("What happened to the odds of rain in May 2026?", "rain", None),
        ("What are the chances Oslo sinks?", "Oslo sinks", None),
        ("How do things look for Oslo?", "Oslo", None),
        ("Did Polymarket get the Oslo vote right?", "the Oslo vote", None),
        ("Which markets about Oslo have ended and how?", "Oslo", None),
        ("Which Oslo markets ended in February 2026 and how?", "Oslo markets", None),
        ("Which Oslo markets resolved Yes in 2025?", "Oslo markets", None),
        ("Did the Oslo robbery show up in the news before May 2025?", "Did the Oslo robbery", None),
        ("What are people on Reddit saying about Oslo?", "Oslo", None),
        ("How have hopes of rain in Oslo changed since the start of the year?", "rain in Oslo",
         ("2026-01-01", "2026-03-25")),
        ("What do Manifold and Metaculus say about Oslo?", "Oslo", None),
        ("Who is favourite for the Oslo vote?", "the Oslo vote", None),
        ("What was in the news about Oslo?", "Oslo", None),
        ("What's going on with Oslo?", "Oslo", None),
        ("What was the chance of Oslo sinking a week before it rained?", "Oslo sinking", None),
    ],
)  # fmt: skip
def test_ordinary_wording(question: str, topic: str, days: tuple[str, str] | None) -> None:
    read = wording.read(question, parse_instant("2026-03-25T00:00:00Z"))
    assert read.topics == (topic,)
    assert read.days == (days and tuple(date.fromisoformat(day) for day in days))


def test_a_day_ahead_is_refused() -> None:
    at = parse_instant("2026-03-25T00:00:00Z")
    for question in (
        "What was the price of rain on April 5 2026?",
        "What were the odds of rain two days before the vote on April 5 2026?",
    ):
        with pytest.raises(InputError, match="lies after 2026-03-25"):
            wording.read(question, at)
    assert wording.read("Did it rain in Oslo on April 5 2026?", at).days is None


def test_documents_in_place_of_a_market() -> None:
    """On record they cost nothing: looked for always, and shown where no market fits."""
    at, free = parse_instant("2026-03-25T00:00:00Z"), wording.Known(documents=True)
    assert [t.id for t in rules.plan("Oslo robbery", at, wording.Known())][-1] == "sites"
    assert [t.id for t in rules.plan("Oslo robbery", at, free)][-1] == "instead"
    (asked,) = [t for t in rules.plan("news about Oslo in March 2026", at, free)
                if t.agent == "documents-agent"]  # fmt: skip
    assert asked.id == "documents"
    assert (asked.inputs["start_date"], asked.inputs["end_date"]) == ("2026-03-01", "2026-03-25")
    subject = Subject.of("Will there be a Kenyan election?")
    assert subject.meant_by("Kenyan election", "")
    assert not subject.meant_by("An election", "")


def test_written_in_two_ways() -> None:
    for topic, title in (
        ("the best actor Oscar", "Will she win Best Actor at the 98th Academy Awards?"),
        ("the Fed chair leaves", "Will the Federal Reserve chair leave?"),
        ("SpaceX goes public", "Will SpaceX IPO before the end of 2026?"),
        ("the best AI model", "Will Google have the top AI model?"),
        ("Oslo becoming dry", "Will Oslo become dry?"),
    ):
        assert Subject.of(topic).fits(title), topic
    assert not Subject.of("the best AI model").fits("Will xAI have the second best AI model?")
    dip = Subject.of("Will Bitcoin dip below $100k before 2026?")
    assert dip.fits("Will Bitcoin dip below $100k before 2026?")
    assert not dip.other_time("Bitcoin in 2025")
    assert dip.other_time("Bitcoin in 2027")
    assert not Subject.of("Leonardo DiCaprio wins Best Actor").fits(
        "Will Adam Sandler win Best Actor?"
    )
    assert not Subject.of("Starmer is out as prime minister").fits("Will Modi be out as PM?")


def test_one_day_by_the_last_price_until_then() -> None:
    at = parse_instant("2026-03-25T00:00:00Z")
    tasks = rules.plan("What was the price of rain on March 14?", at, wording.Known())
    (asked,) = [task for task in tasks if task.agent == "price-history-agent"]
    assert asked.id == "markets-on-a-day"
    assert (asked.inputs["start_date"], asked.inputs["end_date"]) == ("2026-03-07", "2026-03-14")


def test_what_no_agent_can_look_at() -> None:
    known = wording.Known(frozenset({"POLYMARKET"}))
    for question, said in (
        ("What were the odds of rain a week before he came?", "name the day"),
        ("What does Kalshi say about rain?", "no market of Kalshi's was on record then"),
        ("What does Reddit say about rain?", "reddit_search_and_fetch_threads"),
        ("Which filings has Nvidia made?", "list_company_filings"),
    ):
        (found,) = rules.absent(question, known, live=False)
        assert said in found
    assert rules.absent("What does Polymarket say about rain?", known, live=False) == []
    assert rules.absent("What does Kalshi say about rain?", wording.Known(), live=True) == []


def test_what_was_not_found_is_said(sim: Path, home: Path, capsys: Out) -> None:
    found = asked(capsys, sim, "Will the moon be sold to Liechtenstein?")
    assert "Nothing was found" in found["answer"]
    assert found["as_of_stated"] is False
    assert "the last instant on record, because none was named" in found["answer"]
    assert any("nothing fits" in text for text in found["not_found"])
    found = asked(capsys, sim, "quotes of XCME.OZN on 2025-07-21", "--as-of", T)
    assert any("there is no market-data table" in text for text in found["not_found"])
    assert any("skipped" in text or "quotes failed" in text for text in found["not_found"])
    asked_for = ["ask", "?", "--archive", str(sim)]
    assert cli(asked_for) == 2
    assert "does not say what it is about" in capsys.readouterr().err
    with pytest.raises(NotFound):
        bh.open_run("20990101_000000")


KILLED = """
import os, sys
from pathlib import Path
from beforehand.cli.app import run
from beforehand.store.journal.journal import Journal

number, when, left = int(sys.argv[1]), sys.argv[2], [int(sys.argv[1])]
real = Journal.finished

def finished(self, *arguments, **more):
    left[0] -= 1
    if left[0] == 0 and when == "before":
        os._exit(9)
    real(self, *arguments, **more)
    if left[0] == 0:
        os._exit(9)

Journal.finished = finished
sys.exit(run(sys.argv[3:]))
"""


def test_killed_at_every_step_and_resumed(sim: Path, tmp_path: Path) -> None:
    """Before a step is on record and after it: the same answer, one output a task, sound."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    arguments = ["ask", QUESTION, "--as-of", T, "--archive", str(sim), "--run-id", "r", "--json"]
    arguments += ["--concurrency", "1"]  # Steps that end together are one call.

    def files(root: Path) -> Mapping[str, bytes]:
        found = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("out/*.json")}
        return {**found, "answer": (root / "data/runs/r/answer.json").read_bytes()}

    def call(root: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        return subprocess.run(command, env=environment, capture_output=True, check=False)

    whole = tmp_path / "whole"
    whole.mkdir()
    assert call(whole, sys.executable, "-m", "beforehand", *arguments).returncode == 0
    wanted = files(whole)
    assert len(wanted) == 6
    places = [(step, when) for step in range(1, 8) for when in ("before", "after")]
    places = places if FULL else places[::3]  # Each kind of place, each third of them.
    for step, when in places:
        root = tmp_path / f"{step}-{when}"
        root.mkdir()
        done = call(root, sys.executable, str(script), str(step), when, *arguments)
        assert done.returncode == 9, (step, when, done.stderr)
        resumed = call(root, sys.executable, "-m", "beforehand", "runs", "resume", "r")
        assert resumed.returncode == 0, (step, when, resumed.stderr)
        assert files(root) == wanted, (step, when)
        checked = call(root, sys.executable, "-m", "beforehand", "runs", "verify", "r")
        assert checked.returncode == 0, (step, when, checked.stdout)
        assert Bus(root / "workspace" / "agents").agent("polymarket-agent").check().problems == []


def test_nothing_of_the_future_in_any_byte(sim: Path, tmp_path: Path) -> None:
    """Two worlds that differ after T alone: the same answers and the same files on the bus."""
    kept, said = all_records(Archive(sim)), []
    other = OtherFuture(kept, parse_instant(T))
    everything = (record for records in kept.values() for record in records)
    for name, records in (("a", everything), ("b", other.records())):
        root = tmp_path / name
        ArchiveWriter(root / "world").add(
            records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
        )
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        scripted = ["--model", "scripted", "--review", "--concurrency", "1"]
        for number, (question, model) in enumerate(
            ((QUESTION, []), ("Will the Avaria index close above 700?", []), (QUESTION, scripted))
        ):
            command = [sys.executable, "-m", "beforehand", "ask", question, "--as-of", T, *model]
            more = ["--archive", str(root / "world"), "--run-id", f"r{number}"]
            subprocess.run([*command, *more], env=environment, capture_output=True, check=True)
        found = {p.relative_to(root).as_posix(): p for p in root.rglob("out/*.json")}
        found |= {p.relative_to(root).as_posix(): p for p in root.rglob("answer.json")}
        said.append({place: json.loads(path.read_text()) for place, path in found.items()})
    assert other.changes, "the worlds do differ"
    assert said[0] == said[1]
    assert len(said[0]) == 16
