"""Full-text search as it would have answered at t.

Documents lie in the order in which they became known, so the documents visible at t are a
prefix. Every statistic (how many documents, how rare a word) is counted over that prefix alone:
a word that becomes common later does not change what a search at t returns. Ranking is BM25
with k1 → 0 (titles and single sentences: a word is there or it is not), after Robertson and
Zaragoza 2009, "The Probabilistic Relevance Framework".
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from beforehand.clock import to_us
from beforehand.records.bulk import DocumentRow
from beforehand.records.cutoff import document_known_at

Grade = Literal["captured", "published"]
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a about above after against all an and any are as at be been before between but by can "
    "did do does for from had has have he her his how if in into is it its more most new no "
    "not of off on or other our out over said say says she should so some than that the their "
    "them then there these they this those to under up was we were what when where which who "
    "whom will with would you your yes question market resolve resolves resolved".split()
)


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

    def search(self, query: str, t: int, limit: int, since: int | None = None) -> list[DocumentRow]:
        """The best documents known in [since, t] (microseconds), best first; ties go to the newer
        one.

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
        score = np.bincount(inverse, weights=np.concatenate(weights))
        score = np.where(shared >= min(2, len(terms)), score, -1.0)
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
