"""Market search as it would have answered at t: words, typing errors and meaning together.

Versions of market texts lie in the order in which they became known, so what was visible at t is
a prefix, and every statistic is taken over that prefix alone: document frequencies, the mean
length, the vocabulary that mistyped words are matched with. (An index library keeps these over
all it holds, so a later market would move today's ranking.) A vector of meaning depends on its
own text only; the weights ship in wordllama's wheel.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from beforehand.clock import to_us
from beforehand.records.world import Market

Method = Literal["hybrid_llm", "hybrid", "keyword", "top_volume"]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
POOL = 200
K1, B = 1.2, 0.5
SIMILAR = 0.7
"""OSA similarity from which a vocabulary word stands in for an unknown one."""
MEANING = 0.62
"""The share of meaning in the fused score; the rest is the share of the query's words found."""
LEAST = 0.3
"""Cosine below which a market that shares no word is no result."""
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a an and any are as at be been by can did do does for from had has have in into is it its "
    "of on or over than that the their this to was were what when where which who will with "
    "would you your".split()
)


def stems(text: str) -> list[str]:
    """Lower-case words without stop words; plurals lose their s (Harman's weak stemmer, 1991)."""
    return [_stem(w) for w in _WORD.findall(text.lower()) if w not in _STOP]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("us", "ss", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=1)
def encoder() -> Any | None:
    """The embedding model of the installed wheel, or None where it is missing."""
    try:
        import wordllama
    except ImportError:
        return None
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


@dataclass(frozen=True)
class Hit:
    """A market version with its fused score in [0, 1]."""

    market: Market
    score: float


class MarketIndex:
    """Built once over all text versions; each query reads the prefix known at its instant."""

    def __init__(self, versions: Sequence[Market], meaning: bool = True) -> None:
        texts = [v for v in versions if v.question]
        self.rows = sorted(texts, key=lambda v: (v.known_at, v.id))
        self.known_at = np.array([to_us(v.known_at) for v in self.rows], dtype=np.int64)
        self._meaning = meaning
        postings: dict[str, list[int]] = defaultdict(list)
        lengths = np.zeros(len(self.rows))
        for position, row in enumerate(self.rows):
            words = stems(row.question or "")
            lengths[position] = len(words)
            for word in dict.fromkeys(words):
                postings[word].append(position)
        self._lengths = lengths
        self._mean = np.cumsum(lengths) / np.arange(1, len(lengths) + 1)
        self._postings = {word: np.array(at, dtype=np.int64) for word, at in postings.items()}
        # In the order of first appearance: the vocabulary known at t is a prefix of this one.
        first = sorted((int(at[0]), word) for word, at in self._postings.items())
        self._vocabulary = [word for _, word in first]
        self._first = [position for position, _ in first]
        self._superseded = np.full(len(self.rows), len(self.rows), dtype=np.int64)
        last: dict[str, int] = {}
        for position, row in enumerate(self.rows):
            if row.id in last:
                self._superseded[last[row.id]] = position
            last[row.id] = position

    @cached_property
    def vectors(self) -> Floats | None:
        """One unit vector a version; None without the model."""
        model = encoder() if self._meaning else None
        if model is None:
            return None
        made = np.asarray(model.embed([row.question for row in self.rows]), dtype=np.float32)
        return _unit(made.reshape(len(self.rows), -1))

    def count_until(self, t: int) -> int:
        """How many versions were known at t (microseconds)."""
        return int(np.searchsorted(self.known_at, t, side="right"))

    def search(
        self, query: str, t: int, limit: int, venues: frozenset[str] | None = None
    ) -> tuple[list[Hit], Method]:
        """The best markets for a query and how they were found; empty where nothing fits."""
        n = self.count_until(t)
        if n == 0:
            return [], "keyword"
        lexical, coverage = self.lexical(query, n)
        allowed = self._allowed(n, venues)
        vectors = self.vectors
        if vectors is None:
            order = _top(np.where(allowed, lexical, 0.0), POOL)
            return self._hits(order, coverage, limit), "keyword"
        cosine = self.meaning(query, n)
        # Equal words in another order or with other numbers: the lexical score breaks the tie.
        fine = lexical / (lexical.max() or 1.0)
        score = MEANING * np.maximum(cosine, 0.0) + (1 - MEANING) * (0.8 * coverage + 0.2 * fine)
        fits = allowed & ((coverage > 0.0) | (cosine >= LEAST))
        order = _top(np.where(fits, score, 0.0), POOL)
        return self._hits(order, score, limit), "hybrid"

    def lexical(self, query: str, n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
        """(BM25, share of the query's weight that is found) of each of the first n versions
        (Robertson and Zaragoza 2009). A word unknown at t counts as the most similar known ones."""
        score, found = np.zeros(n), np.zeros(n)
        total = 0.0
        length = 1.0 - B + B * self._lengths[:n] / max(self._mean[n - 1], 1.0)
        for word in dict.fromkeys(stems(query)):
            best: dict[str, float] = {word: 1.0}
            if self._known(word, n) is None:
                best = self._similar(word, n)
            heaviest = 0.0
            matched = np.zeros(n)
            for candidate, similarity in best.items():
                at = self._known(candidate, n)
                if at is None:
                    continue
                weight = float(np.log1p((n - len(at) + 0.5) / (len(at) + 0.5)))
                heaviest = max(heaviest, weight)
                matched[at] = np.maximum(matched[at], similarity * weight)
            if not heaviest:
                heaviest = float(np.log1p(2.0 * n + 1.0))  # As rare as a word can be.
            total += heaviest
            at = np.flatnonzero(matched)
            found[at] += matched[at]
            score[at] += matched[at] * (K1 + 1) / (1 + K1 * length[at])
        return score, found / total if total else found

    def meaning(self, query: str, n: int) -> Floats:
        """Cosine of the query with each of the first n versions."""
        vectors, model = self.vectors, encoder()
        assert vectors is not None
        assert model is not None
        asked = _unit(np.asarray(model.embed(query), dtype=np.float32).reshape(1, -1))[0]
        # Rounded: the last bits of a product may depend on how many rows stand behind these.
        return np.asarray(np.round(vectors[:n] @ asked, 5), dtype=np.float32)

    def _known(self, word: str, n: int) -> Ints | None:
        at = self._postings.get(word)
        if at is None or at[0] >= n:
            return None
        return at[: np.searchsorted(at, n)]

    def _similar(self, word: str, n: int) -> dict[str, float]:
        if len(word) < 4 or word.isdigit():
            return {}
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        known = self._vocabulary[: bisect_left(self._first, n)]
        close = process.extract(
            word, known, scorer=OSA.normalized_similarity, score_cutoff=SIMILAR, limit=3
        )
        return {candidate: float(similarity) ** 2 for candidate, similarity, _ in close}

    def _allowed(self, n: int, venues: frozenset[str] | None) -> npt.NDArray[np.bool_]:
        latest = self._superseded[:n] >= n
        if venues is None:
            return latest
        return latest & np.isin(self._venue_codes[:n], [self._codes.get(v, -1) for v in venues])

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {venue: i for i, venue in enumerate(sorted({row.venue for row in self.rows}))}

    @cached_property
    def _venue_codes(self) -> Ints:
        return np.array([self._codes[row.venue] for row in self.rows], dtype=np.int64)

    def _hits(self, order: Ints, score: npt.NDArray[Any], limit: int) -> list[Hit]:
        return [
            Hit(self.rows[i], round(float(min(score[i], 1.0)), 4)) for i in order[:limit].tolist()
        ]


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _top(score: npt.NDArray[Any], pool: int) -> Ints:
    """Positions of the highest positive scores, best first; of equal ones the newest version."""
    n = len(score)
    if n > pool:
        cut = np.partition(score, n - pool)[n - pool]
        at = np.flatnonzero(score >= max(cut, 1e-12))
    else:
        at = np.flatnonzero(score > 0)
    return np.asarray(at[np.lexsort((-at, -np.round(score[at], 9)))], dtype=np.int64)
