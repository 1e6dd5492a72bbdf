"""Nothing is read into a text: which of them is a probability, and which only holds a number."""

import pytest

from beforehand.errors import BadAnswer
from beforehand.forecast.answers import read_probability

GOOD = {
    "0.4": 0.4,
    "40%": 0.4,
    "0,4": 0.4,
    "about 0.6": 0.6,
    "I'd say 60 %": 0.6,
    "I’d say 60 %.": 0.6,
    "I'd say 7 in 10.": 0.7,
    "Probability: 0.35": 0.35,
    "My final answer is **0.7**.": 0.7,
    "p = 0.3": 0.3,
    "~0.4": 0.4,
    "probability 1": 1.0,
    "about 1e-3": 0.001,
    "It is likely: 80%": 0.8,
    '{"probability": 0.4}': 0.4,
    '```json\n{"probability": 0.4, "confidence": 0.9}\n```': 0.4,
    "```\n0.3\n```": 0.3,
    '{"YES": 0.3, "NO": 0.7}': 0.3,
}
BAD = (
    "Upstream timed out after 1 second, please come back later.",
    "Error: 0 results",
    "upstream error (code 0)",
    "HTTP 0.5",
    "I found 1 source",
    "step 0",
    "1 of my sources",
    "about 1",
    "Sorry, I cannot say.",
    '```json\n{"probability": null, "confidence": 0.9}\n```',
    '{"confidence": 0.9}',
    '{"probability": {"low": 0.1}}',
    "{0.4",
    "0.9 chance of failure",
    "Probability of NO: 0.2",
    "It won’t happen: 0.9",
    "unlikely, 0.2",
    "at most 0.3",
    "more than 0.3",
    "≤0.2",
    "<0.2",
    "0.6–0.7",
    "-0.1",
    "− 0.2",
    *(f"{minus}0.2" for minus in "\u2212\u2013\u2014\u2010\u2011\u2012\ufe63\uff0d\u207b"),
    "½",
    "70％",
    "$0.40",
    "0.4€",
    "[0.4]",
    "0.2 (low confidence)",
    "0.5 seconds",
    "1,000",
)


@pytest.mark.parametrize("text", GOOD)
def test_what_is_read(text: str) -> None:
    assert read_probability(text).p == pytest.approx(GOOD[text])


@pytest.mark.parametrize("text", BAD)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(BadAnswer):
        read_probability(text)
