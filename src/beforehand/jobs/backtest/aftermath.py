"""The audit's score for documents that were shown: do others say the same only later?

For the audit alone, after scoring: it reads what came after t, which no forecaster, prompt or
ranking may. A document that was dated too early says what nobody else says around its date, and
many say some days on. The score is a logistic one over five features, fitted on real headlines that
state an outcome and were re-dated (`docs/point-in-time.md` has what it finds of them); it orders
the documents of a run, and its top is to be read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from beforehand.clock import DAY_US, parse_us
from beforehand.errors import InputError, NotConfigured
from beforehand.gateway.search import Grade, SearchIndex, encoder, words
from beforehand.jobs.backtest.unwitnessed import COPY, LONGEST
from beforehand.lazy import lazy
from beforehand.runs.rows import read_intervals, read_jsonl
from beforehand.store.archive.reader import Archive
from beforehand.store.run_folder import RunFolder

WEIGHTS = {"about": 9.34, "result": 1.45, "future": -0.59, "near": -6.82, "later": 1.16}
INTERCEPT = -4.82
SHARP, LEAST, SPREAD = 15.0, 0.02, 20.0
"""How much a likeness above a half counts, and what is added to counts so that few days of few
documents say little."""
HOME, FIRST_DAY, LAST_DAY, BURST = (-2, 3), 3, 45, (-1, 3)
"""Days around the date, and those later on of which the best four are taken."""
LOOKED_AT = 60
MOST_RESULTS, MOST_FUTURES = 2, 3
TOP = 0.01
"""The share of a run's documents that is to be read."""
RESULT = re.compile(
    r"\b(?:wins|won|beats|defeats|defeated|ousts|ousted|concedes|loses|elected|sworn in|crowned|"
    r"confirmed as|named|champions?|takes home|victory|defeat|strikes down|upholds|reject(?:s|ed)|"
    r"holds (?:\w+ ){0,3}steady|cuts (?:interest )?rates?|resigns|resignation|quits|drops out|"
    r"killed|dies|is dead|pass(?:es|ed)|approves|approved|declares|signs|signed|becomes|became|"
    r"married|convicted|acquitted|sentenced|eliminated|awarded)\b",
    re.IGNORECASE,
)
FUTURE = re.compile(
    r"\?|\b(?:will|would|could|may|might|can|should|expect(?:s|ed)?|set to|poised|likely|unlikely|"
    r"ahead of|before|looming|eyes|seeks?|plans?|planned|prepar(?:es|ing)|polls?|polling|lead(?:s|"
    r"ing)?|favou?rites?|odds|predict(?:s|ions?|ed)?|forecasts?|bid|hopes?|threatens?|consider(?:s|"
    r"ing)?|what to (?:know|expect)|why|if|whether|talks?|calls? for|demands?|urges?|wants?|"
    r"proposes?|risks?|fears?|chances?|race|runoff|upcoming|next week|close[rst]*|near(?:s|ing)?|"
    r"tight|undecided|reportedly|endorses?|campaign|warns?|pledges?|aims?|tries|trying)\b",
    re.IGNORECASE,
)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Showing:
    """A document as it was shown: what it says, since when it was said to be known (microseconds),
    for which question, and when."""

    document: str
    text: str
    claimed: int
    question: str
    t: int


class Aftermath:
    """The score over the documents of an index. Raises NotConfigured without the embedding
    model."""

    def __init__(self, index: SearchIndex) -> None:
        model = encoder()
        if model is None:
            raise NotConfigured("this audit compares texts by meaning: pip install wordllama")
        self._index, self._model = index, model

    def score(self, one: Showing) -> float:
        """How much a document looks as if it was written after its date: 0 is even odds."""
        found = self.features(one)
        return INTERCEPT + sum(weight * found[name] for name, weight in WEIGHTS.items())

    def features(self, one: Showing) -> dict[str, float]:
        """`about`: its likeness to the question; `result` and `future`: words that report, and that
        look ahead; `near`: the most alike document around its date; `later`: how much more often
        others say it some days on (log)."""
        text = one.text[:LONGEST]
        mine, asked = self._vectors([text, one.question])
        near, later = self._times(one, mine, text)
        return {
            "about": float(mine @ asked),
            "result": float(min(len(RESULT.findall(text)), MOST_RESULTS)),
            "future": float(min(len(FUTURE.findall(text)), MOST_FUTURES)),
            "near": near,
            "later": later,
        }

    def _times(self, one: Showing, mine: Any, text: str) -> tuple[float, float]:
        index, c = self._index, one.claimed
        day0 = c // DAY_US + HOME[0]
        first = index.count_until(min(c + HOME[0] * DAY_US, day0 * DAY_US) - 1)
        last = index.count_until((c // DAY_US + LAST_DAY + BURST[1] + 1) * DAY_US)
        alike = self._alike(one.document, mine, text, first, last)
        known = index.known_at[first:last]
        around = (known >= c - 2 * DAY_US) & (known < min(one.t, c + 2 * DAY_US))
        near = float(max(alike[around].max(), 0.0)) if around.any() else 0.0
        day = (known // DAY_US - day0).astype(np.int64)
        size = LAST_DAY + BURST[1] - HOME[0] + 2
        weight = np.where(alike > -1, np.exp(SHARP * (alike - 0.5)), 0.0)
        said = np.concatenate([[0.0], np.cumsum(np.bincount(day, weight, size)[:size])])
        every = np.concatenate([[0.0], np.cumsum(np.bincount(day, minlength=size)[:size])])

        def log_share(begin: int, end: int) -> float:
            a, b = begin - HOME[0], end - HOME[0]
            return float(np.log((said[b] - said[a] + LEAST) / (every[b] - every[a] + SPREAD)))

        bursts = [log_share(d + BURST[0], d + BURST[1]) for d in range(FIRST_DAY, LAST_DAY + 1)]
        return near, max(bursts) - log_share(*HOME)

    def _alike(self, document: str, mine: Any, text: str, first: int, last: int) -> Floats:
        """How alike the documents in [first, last) are, from 0 to 1; -1 for itself and its
        copies."""
        from rapidfuzz import fuzz

        index, rows = self._index, self._index.rows
        lexical = np.zeros(last - first)
        own = set(words(text))
        for word in own:
            places = index.places(word)
            a, b = np.searchsorted(places, [first, last])
            lexical[places[a:b] - first] += self._rarity(word) ** 2
        length = np.sqrt(sum(self._rarity(word) ** 2 for word in own)) or 1.0
        lexical /= length * self._lengths[first:last]
        alike = 0.5 * (self._embedded[first:last] @ mine) + 0.5 * lexical
        flat = " ".join(words(text))
        for place in np.argsort(-alike)[:LOOKED_AT].tolist():
            row = rows[first + place]
            other = " ".join(words(_text(row)))
            if row.id == document or fuzz.token_sort_ratio(flat, other) >= COPY:
                alike[place] = -1.0
        return np.asarray(alike, dtype=np.float64)

    def _rarity(self, word: str) -> float:
        n, known = len(self._index.rows), len(self._index.places(word))
        return float(np.log1p((n - known + 0.5) / (known + 0.5)))

    @lazy
    def _lengths(self) -> Floats:
        """The length of each document's vector of words."""
        squares = np.zeros(len(self._index.rows))
        for i, row in enumerate(self._index.rows):
            squares[i] = sum(self._rarity(word) ** 2 for word in set(words(_text(row))))
        return np.sqrt(np.maximum(squares, 1e-9))

    @lazy
    def _embedded(self) -> Any:
        return self._vectors([_text(row) for row in self._index.rows])

    def _vectors(self, texts: Sequence[str]) -> Any:
        made = np.asarray(self._model.embed(list(texts)), dtype=np.float32)
        return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)


def _text(row: Any) -> str:
    return (f"{row.title}. {row.text}" if row.text else row.title)[:LONGEST]


MEASURED = {"top 1 %": 55, "top 5 %": 78}
REAL_LEAKS, REAL_DOCUMENTS, REAL_PAIRS = 93, 78_835, 5_575
"""Of so many real headlines that tell an outcome, re-dated twelve days before they were written, in
an archive of so many documents: how many score above the top share of the pairs of a market and a
document that a backtest showed (tests/test_backtest_aftermath.py measures them)."""


class Suspect(TypedDict):
    """A document at the top of a run's list: for which market it was shown first, and when, its
    score, and the `harm` of believing it: the squared error of the market's price then (None where
    there was none, or no outcome)."""

    document: str
    market_id: str
    time: str
    text: str
    score: float
    harm: float | None


class InHindsight(TypedDict):
    """The audit of what a run showed: `documents` pairs of a market and a document were scored; the
    `suspects` are its top 1 %, by score, to be read; `says` what the score finds."""

    documents: int
    threshold: float | None
    suspects: list[Suspect]
    says: str


def in_hindsight(folder: RunFolder, archive: Path, grade: Grade) -> InHindsight:
    """Score every document that a finished run showed, once for each market. Raises InputError for
    another archive than the run's."""
    opened = Archive(archive)
    if opened.digest != folder.facts().get("archive_digest"):
        raise InputError(
            f"{archive} is not the archive of run {folder.run_id}, or it has grown since: name the "
            "one that it was made from"
        )
    index = SearchIndex(opened.documents(), grade)
    judge, shown = Aftermath(index), dict[tuple[str, str], tuple[Showing, str, float | None]]()
    for row in read_intervals(folder.path / "intervals.jsonl"):
        question = (row.context.market.description or "").split("\n")[0]
        for one in row.context.search_snippets if question else ():
            said = Showing(one.id, one.text, parse_us(one.timestamp), question, row.context.t)
            shown.setdefault((row.market_id, one.id), (said, row.time, row.context.odds))
    scores = {key: judge.score(said) for key, (said, _, _) in shown.items()}
    bound = threshold(scores.values())
    paid = {
        row["id"]: float(row.get("payout", row["outcome"]))
        for row in read_jsonl(folder.path / "resolutions.jsonl")
    }
    suspects = list[Suspect]()
    for key in sorted(scores, key=lambda key: -scores[key]):
        if scores[key] <= bound:
            break
        (market, document), (said, time, odds) = key, shown[key]
        known = odds is not None and market in paid
        suspects.append(
            {
                "document": document,
                "market_id": market,
                "time": time,
                "text": said.text[:LONGEST],
                "score": round(scores[key], 3),
                "harm": (paid[market] - float(odds or 0)) ** 2 if known else None,
            }
        )
    return {
        "documents": len(scores),
        "threshold": bound if scores else None,
        "suspects": suspects,
        "says": (
            f"of {REAL_LEAKS} real headlines that tell an outcome, re-dated twelve days early, "
            f"{MEASURED['top 1 %']} stand in the top 1 % and {MEASURED['top 5 %']} in the top 5 % "
            f"of such a list, among {REAL_DOCUMENTS:,} documents; in a thinner archive fewer"
        ),
    }


def threshold(scores: Iterable[float], top: float = TOP) -> float:
    """The score above which the top share of them lies."""
    found = np.fromiter(scores, dtype=np.float64)
    return float(np.quantile(found, 1 - top)) if len(found) else float("inf")
