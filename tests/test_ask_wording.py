"""What a question asks, read by rules: its topics, its days, and which titles fit."""

from datetime import date

import pytest

from beforehand.clock import parse_instant
from beforehand.errors import InputError
from beforehand.jobs.ask import rules, wording
from beforehand.jobs.ask.subject import Subject
from beforehand.jobs.ask.tasks import check


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
