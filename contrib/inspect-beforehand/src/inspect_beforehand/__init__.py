"""A scorer of probabilities for inspect, whose logs beforehand reads."""

import re

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

__all__ = ["last_probability", "probability"]
NONE = 0.25
"""The Brier score of an answer without a probability: that of one half."""
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(%|percent)?", re.IGNORECASE)


def last_probability(text: str) -> float | None:
    """The last number of a text that lies from 0 to 1, or is a percentage; None without one."""
    found = None
    for match in _NUMBER.finditer(text):
        p = float(match[1]) / (100 if match[2] else 1)
        if 0.0 <= p <= 1.0:
            found = p
    return found


@scorer(metrics=[mean(), stderr()])
def probability() -> Scorer:
    """The Brier score of the last probability of an answer, against a target of YES or NO. The
    sample's `market_id` and `as_of` (ISO 8601) are kept, for a verdict against the market."""

    async def score(state: TaskState, target: Target) -> Score:
        happened = target.text.strip().lower() in ("yes", "true", "1")
        p = last_probability(state.output.completion)
        known = {
            name: state.metadata[name] for name in ("market_id", "as_of") if name in state.metadata
        }
        if p is None:
            return Score(value=NONE, explanation="the answer holds no probability", metadata=known)
        return Score(value=(p - happened) ** 2, answer=f"{p}", metadata=known)

    return score
