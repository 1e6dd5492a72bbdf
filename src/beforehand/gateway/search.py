"""Search as it would have answered at t: documents by words, markets by words and meaning.

Documents, and versions of market texts, are kept in the order in which they became known, so what
is visible at t is a prefix. Every statistic is taken over that prefix alone: how many texts, how
rare a word, the mean length, the vocabulary that mistyped words are matched with. So a word that
becomes common later does not change what a search at t returns. (An index library keeps these
statistics over all it holds, so a later market would change today's ranking.)

Documents are ranked by BM25 with k1 → 0 (titles and single sentences: a word is there or it is
not), after Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework", times a weight of
their age at t that falls exponentially (Li and Croft 2003, "Time-Based Language Models") to a
floor: of two that fit alike the newer comes first, and no age hides what fits best. Market search
combines words, corrected typing errors and a vector of meaning. The vector depends on its own text
only; the weights ship in wordllama's wheel.
"""

import logging
import re
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US, to_us
from beforehand.lazy import lazy
from beforehand.records.bulk import DocumentRow
from beforehand.records.cutoff import document_known_at
from beforehand.records.world import Market

Method = Literal["hybrid_llm", "hybrid", "keyword", "top_volume"]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
POOL = 200
K1, B = 1.2, 0.5
SIMILAR = 0.7
"""OSA similarity from which a vocabulary word stands in for an unknown one."""
MEANING = 0.7
"""The share of meaning in the fused score; the rest is for the words of the query that are
found."""
LEAST = 0.4
"""Where no word is shared and no cosine reaches this, nothing fits the query."""
HALF_LIFE = 30 * DAY_US
"""The age at which half of what recency gives to a document's score is gone."""
OLDEST = 0.8
"""The share of its score that a document keeps at any age."""
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a an and any are as at be been by can did do does for from had has have in into is it its "
    "of on or over than that the their this to was were what when where which who will with "
    "would you your".split()
)
_LOADING = threading.Lock()
Grade = Literal["captured", "published"]
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a about above after against all an and any are as at be been before between but by can "
    "did do does for from had has have he her his how if in into is it its more most new no "
    "not of off on or other our out over said say says she should so some than that the their "
    "them then there these they this those to under up was we were what when where which who "
    "whom will with would you your yes question market resolve resolves resolved".split()
)


def domain_of(url: str | None, domains: Sequence[str]) -> str | None:
    """Which of the domains an address lies in, itself or below; None where in none."""
    try:
        host = (urlsplit(url).hostname or "") if url else ""
    except ValueError:  # An address that is none.
        host = ""
    return next((d for d in domains if host == d or host.endswith(f".{d}")), None)


def stems(text: str) -> list[str]:
    """Lower-case words without stop words; plurals lose their s (Harman's weak stemmer, 1991)."""
    return [stem(w) for w in _WORD.findall(text.lower()) if w not in _STOP]


def stem(word: str) -> str:
    """A lower-case word without its plural s (Harman's weak stemmer, 1991)."""
    if len(word) > 4 and word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("us", "ss", "is")):
        return word[:-1]
    return word


def encoder() -> Any | None:
    """The embedding model of the installed wheel, or None where it is missing. Loaded once."""
    with _LOADING:
        return _encoder()


@lru_cache(maxsize=1)
def _encoder() -> Any | None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        import wordllama
    except ImportError:
        return None
    finally:  # It sets up logging for the whole program when it is imported.
        root.handlers[:] = handlers
        root.setLevel(level)
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


_NOWHERE = np.zeros(0, dtype=np.int32)


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

    @lazy
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
        if n == 0 or not _WORD.search(query):
            return [], "keyword"
        score, coverage = self.lexical(query, n)
        latest = self._allowed(n, venues)
        places = _best(score * latest, POOL)
        if self.vectors is None:
            places = places[np.lexsort((-places, -np.round(score[places], 9)))]
            return self._hits(places, coverage[places], limit), "keyword"
        cosine = self.meaning(query, n)
        places = np.union1d(places, _best(cosine * latest, POOL))
        if not coverage[places].any() and cosine[places].max(initial=0.0) < LEAST:
            return [], "hybrid"
        # Squared: sharing a few common words means little, sharing all words means a lot.
        fused = MEANING * np.maximum(cosine[places], 0.0) + (1 - MEANING) * coverage[places] ** 2
        order = np.lexsort((-places, -np.round(score[places], 9), -np.round(fused, 6)))
        return self._hits(places[order], fused[order], limit), "hybrid"

    def lexical(self, query: str, n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
        """(BM25, share of the query's weight that is found) of each of the first n versions
        (Robertson and Zaragoza 2009). A word unknown at t counts as the most similar known ones."""
        score, found = np.zeros(n), np.zeros(n)
        total = 0.0
        mean = max(self._mean[n - 1], 1.0)
        for word in dict.fromkeys(stems(query)):
            known = self._known(word, n)
            close = [(known, 1.0)] if known is not None else self._similar(word, n)
            heaviest = 0.0
            for at, similarity in close:
                weight = float(np.log1p((n - len(at) + 0.5) / (len(at) + 0.5)))
                heaviest = max(heaviest, weight)
                length = 1.0 - B + B * self._lengths[at] / mean
                found[at] += similarity * weight
                score[at] += similarity * weight * (K1 + 1) / (1 + K1 * length)
            total += heaviest or float(np.log1p(2.0 * n + 1.0))  # As rare as a word can be.
        return score, np.minimum(found / total, 1.0) if total else found

    def meaning(self, query: str, n: int) -> Floats:
        """Cosine of the query with each of the first n versions."""
        vectors, model = self.vectors, encoder()
        assert vectors is not None
        assert model is not None
        asked = _unit(np.asarray(model.embed(query), dtype=np.float32).reshape(1, -1))[0]
        return np.asarray(vectors[:n] @ asked, dtype=np.float32)

    def _known(self, word: str, n: int) -> Ints | None:
        at = self._postings.get(word)
        if at is None or at[0] >= n:
            return None
        return at[: np.searchsorted(at, n)]

    def _similar(self, word: str, n: int) -> list[tuple[Ints, float]]:
        """The known words that an unknown one may be a misspelling of, the most similar first."""
        if len(word) < 4 or word.isdigit():
            return []
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        known = self._vocabulary[: bisect_left(self._first, n)]
        close = process.extract(
            word, known, scorer=OSA.normalized_similarity, score_cutoff=SIMILAR, limit=3
        )
        ordered = sorted(close, key=lambda found: (-found[1], found[0]))
        places = [(self._known(found[0], n), float(found[1]) ** 2) for found in ordered]
        return [(at, similarity) for at, similarity in places if at is not None]

    def _allowed(self, n: int, venues: frozenset[str] | None) -> npt.NDArray[np.bool_]:
        latest = self._superseded[:n] >= n
        if venues is None:
            return latest
        return latest & np.isin(self._venue_codes[:n], [self._codes.get(v, -1) for v in venues])

    @lazy
    def _codes(self) -> dict[str, int]:
        return {venue: i for i, venue in enumerate(sorted({row.venue for row in self.rows}))}

    @lazy
    def _venue_codes(self) -> Ints:
        return np.array([self._codes[row.venue] for row in self.rows], dtype=np.int64)

    def _hits(self, places: Ints, score: npt.NDArray[Any], limit: int) -> list[Hit]:
        return [
            Hit(self.rows[place], round(float(min(value, 1.0)), 4))
            for place, value in zip(places[:limit].tolist(), score[:limit].tolist(), strict=True)
        ]


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _best(score: npt.NDArray[Any], pool: int) -> Ints:
    """Positions of the highest positive scores (all that tie with the last), ascending."""
    places = np.flatnonzero(score > 0)
    if len(places) <= pool:
        return places
    found = score[places]
    cut = np.partition(found, len(found) - pool)[len(found) - pool]
    return np.asarray(places[found >= cut], dtype=np.int64)


def words(text: str) -> list[str]:
    """Content words: lower case, no stop words, at least two characters."""
    return [w for w in _WORD.findall(text.lower()) if len(w) > 1 and w not in _STOP]


class SearchIndex:
    """Built once over all documents; each query reads the prefix known at its instant."""

    def __init__(self, documents: Sequence[DocumentRow], grade: Grade) -> None:
        keyed = [
            (known, row.id, row)
            for row in documents
            if (known := document_known_at(row.known_at, row.text_known_at, grade)) is not None
        ]
        keyed.sort(key=lambda item: (item[0], item[1]))
        self.rows = [row for _, _, row in keyed]
        self.known_at = np.array([to_us(known) for known, _, _ in keyed], dtype=np.int64)
        postings: dict[str, list[int]] = defaultdict(list)
        self._versions: dict[str, list[int]] = defaultdict(list)
        for position, row in enumerate(self.rows):
            self._versions[row.id].append(position)
            for word in set(words(row.title)) | set(words(row.text)):
                postings[word].append(position)
        self._postings: dict[str, npt.NDArray[np.int32]] = {
            word: np.array(places, dtype=np.int32) for word, places in postings.items()
        }

    def count_until(self, t: int) -> int:
        """How many documents were known at t (microseconds)."""
        return int(np.searchsorted(self.known_at, t, side="right"))

    def places(self, word: str) -> npt.NDArray[np.int32]:
        """The places in `rows` of the documents that have a word, in order."""
        return self._postings.get(word, _NOWHERE)

    def search(self, query: str, t: int, limit: int, since: int | None = None) -> list[DocumentRow]:
        """The best documents known in [since, t] (microseconds; None: since ever), best first; of
        two that fit alike the newer one.

        A document must share two content words with the query (one, where the query has one).
        """
        terms = sorted(set(words(query)))
        n = self.count_until(t)
        first = 0 if since is None else self.count_until(since - 1)
        hits, weights = [], []
        for term in terms:
            places = self._postings.get(term)
            if places is None:
                continue
            known = places[: np.searchsorted(places, n)]
            df = len(known)
            window = known[np.searchsorted(known, first) :]
            if len(window):
                hits.append(window)
                weights.append(np.full(len(window), np.log1p((n - df + 0.5) / (df + 0.5))))
        if not hits:
            return []
        places, inverse = np.unique(np.concatenate(hits), return_inverse=True)
        shared = np.bincount(inverse)
        fits = np.bincount(inverse, weights=np.concatenate(weights))
        recent = np.exp2((self.known_at[places] - t) / HALF_LIFE)
        weighed = fits * (OLDEST + (1 - OLDEST) * recent)
        score = np.where(shared >= min(2, len(terms)), weighed, -1.0)
        order = np.lexsort((-places, -np.round(score, 9)))
        found: list[DocumentRow] = []
        for i in order:
            if score[i] < 0 or len(found) >= limit:
                break
            row = self.rows[places[i]]
            if self._latest(row.id, n) == places[i]:
                found.append(row)
        return found

    def _latest(self, document_id: str, n: int) -> int:
        """The position of a document's last version among the first `n`."""
        versions = self._versions[document_id]
        return versions[bisect_left(versions, n) - 1]
