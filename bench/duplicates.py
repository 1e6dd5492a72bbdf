"""A hundred thousand open candidates without those that are asked twice, against the floor of
embedding and sorting their texts in the same run. Goal: at most twice that."""

import random
import time

from beforehand.gateway.search import encoder
from beforehand.jobs.benchmark.duplicates import Question, duplicates

N, GOAL = 100_000, 2.0
WHO = "Bitcoin Ethereum Gold Tesla Nvidia France Brazil Germany Macron Starmer Trump Musk".split()
WHAT = (
    "reach ${n} by {month} {day}", "win the {year} World Cup", "close above {n} on {month} {day}",
    "resign before {year}", "fall below {n}% by the end of {year}", "be the first to visit Mars",
    "announce a new model in {month} {year}", "score more than {n} points in {month}",
)  # fmt: skip
MONTHS = "January March May June August October December".split()


def texts(seed: int = 1) -> list[str]:
    """Made questions, about a sixth of them again."""
    draw, found = random.Random(seed), list[str]()
    for _ in range(N):
        words = draw.choice(WHAT).format(
            n=draw.randrange(1, 400) * 5, month=draw.choice(MONTHS), day=draw.randrange(1, 29),
            year=draw.randrange(2026, 2031),
        )  # fmt: skip
        extra = draw.choice(
            ("", "", f" and {draw.choice(WHO)} agree", f" in round {draw.randrange(99)}")
        )
        found.append(f"Will {draw.choice(WHO)} {words}{extra}?")
    return found


def main() -> None:
    """One line."""
    asked, model = texts(), encoder()
    assert model is not None
    model.embed(["warm"])
    began = time.perf_counter()
    model.embed(asked)
    sorted(asked)
    floor = time.perf_counter() - began
    questions = [Question(f"X:{i}", text) for i, text in enumerate(asked)]
    began = time.perf_counter()
    found = duplicates(questions)
    took = time.perf_counter() - began
    print(
        f"{N:,} candidates, {len(found):,} asked twice: {took:.1f} s, embedding and sorting "
        f"{floor:.1f} s: {took / floor:.2f} of it [{GOAL:g}]"
    )


if __name__ == "__main__":
    main()
