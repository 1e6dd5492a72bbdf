"""The knowledge-cutoff guard: a model's weights lie outside the leak wall.

A model trained on text up to its cutoff may simply remember an answer that became known before it.
Such a question is refused or marked, by setting; the results say how many there were.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from beforehand.clock import iso, to_us
from beforehand.llm.names import ModelSpec
from beforehand.records.world import Resolution

Knowledge = Literal["mark", "refuse"]
REFUSED = "refused: the answer was known before the model's training ended"


@dataclass(frozen=True)
class Training:
    """The smallest share, over a run's models, of instants on questions whose answer came after the
    model's training ended; `made` is that of the instants that lie after it themselves (a model
    that is asked at an earlier one knows news that the market did not have). None if a cutoff is
    unknown."""

    share: float | None
    made: float | None = None


class CutoffGuard:
    """`answers` are how markets ended, `still_open` has those that had not until the instant given
    with them (microseconds): for the guard, never for a model."""

    def __init__(
        self,
        answers: Mapping[str, Resolution],
        setting: Knowledge = "mark",
        still_open: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._answers, self._setting, self._open = answers, setting, still_open

    def mark(self, spec: ModelSpec, market: str) -> Literal["after", "before", "unknown"]:
        """Where the answer lies: after the end of the training (fair), before it, or unknown."""
        answer, until = self._answers.get(market), self._open.get(market)
        if spec.cutoff is not None and until is not None:
            return "after" if until >= to_us(spec.cutoff) else "before"  # It may know the answer.
        if spec.cutoff is None or answer is None:
            return "unknown"
        return "after" if answer.known_at >= spec.cutoff else "before"

    def refusal(self, spec: ModelSpec, market: str) -> str | None:
        """Why the model is not asked, or None."""
        if self._setting == "refuse" and self.mark(spec, market) == "before":
            assert spec.cutoff is not None
            return f"{REFUSED} ({iso(spec.cutoff)[:10]})"
        return None

    def training(
        self, spoken: Iterable[tuple[ModelSpec, Mapping[str, Sequence[int]]]]
    ) -> Training | None:
        """The shares over the ranked models, each with its instants (microseconds) by market.
        Refused questions are left out. None without a ranked model."""
        ranked = [one for one in spoken if one[0].ranked]
        shares, made = list[float](), list[float]()
        for spec, instants in ranked:
            marks, later = Counter[str](), 0
            for market, at in instants.items():
                if self.refusal(spec, market) is None:
                    marks[self.mark(spec, market)] += len(at)
                    later += sum(spec.cutoff is not None and t >= to_us(spec.cutoff) for t in at)
            if marks["unknown"]:
                return Training(None)
            if marks.total():
                shares.append(marks["after"] / marks.total())
                made.append(later / marks.total())
        return Training(min(shares, default=1.0), min(made, default=1.0)) if ranked else None
