"""Results that no other document speaks of: the detector's rule for what a date cannot show.

A document whose date is too early says what nobody else says yet. It is flagged where it is about
the question, reports a result, and no other document known from around its own instant to t is
alike (near copies are no witnesses): what others report by t is no leak at t. Only what was known
at t is looked at: later documents, prices and the outcome are not. `docs/point-in-time.md` has what
the rule finds of real leaks.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.clock import parse_us
from beforehand.gateway.search import SearchIndex, encoder, words
from beforehand.records.rows import Context, Snippet
from beforehand.score.leaks.detector import UNWITNESSED, Flag

ABOUT, ALIKE, COPY = 0.4, 0.5, 88.0
"""A document is about a question above this cosine; it is a witness from this likeness on, and a
copy from this token-sort ratio on."""
AROUND = 2 * 86_400_000_000
CANDIDATES, LONGEST = 30, 300
RESULT = re.compile(
    r"\b(?:wins|won|beats|beat|defeats|defeated|elected|re-?elected|sworn in|signs|signed|approves|"
    r"approved|rejects|rejected|confirmed|confirms|resigns|resigned|dies|died|convicted|acquitted|"
    r"sentenced|eliminated|crowned|champions?|declared|declares|awarded|ousted|appointed|becomes|"
    r"became|passes|passed|victory|loses|lost)\b",
    re.IGNORECASE,
)
Vector = npt.NDArray[np.float32]


class Unwitnessed:
    """The rule over the documents of an index. Safe for threads; nothing is read before the first
    text that reports a result."""

    def __init__(self, index: Callable[[], SearchIndex]) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._vectors: dict[str, Vector] = {}
        self._texts: dict[int, tuple[str, list[str]]] = {}
        self._found: dict[tuple[str, str, int], bool] = {}

    def __call__(self, context: Context, snippet: Snippet) -> Flag | None:
        """The flag of a document that was shown in a context, or None."""
        said, question = RESULT.search(snippet.text), context.market.description
        model = encoder() if said and question else None
        if said is None or not question or model is None:
            return None
        asked = question.split("\n")[0]
        soon = min(context.t, parse_us(snippet.timestamp) + AROUND)
        with self._lock:
            for until in dict.fromkeys((soon, context.t)):  # Most have a witness soon.
                key = asked, snippet.id, until
                if key not in self._found:
                    self._found[key] = self._alone(model, asked, snippet, until)
                if not self._found[key]:
                    return None
            return Flag(UNWITNESSED, said.group())

    def _alone(self, model: Any, asked: str, snippet: Snippet, until: int) -> bool:
        """True if the document is about the question, and nobody else is alike."""
        text = snippet.text[:LONGEST]
        mine, question = self._vector(model, text), self._vector(model, asked)
        if float(mine @ question) <= ABOUT:
            return False
        from rapidfuzz import fuzz

        for weight, other in self._candidates(snippet, until):
            if fuzz.token_sort_ratio(text, other) >= COPY:
                continue
            if 0.5 * float(mine @ self._vector(model, other)) + 0.5 * weight >= ALIKE:
                return False
        return True

    def _candidates(self, snippet: Snippet, until: int) -> list[tuple[float, str]]:
        """The documents known around this one that share most with it: (cosine of their words,
        weighted by how few of the documents known until then have each; text)."""
        index = self._index()
        first = index.count_until(parse_us(snippet.timestamp) - AROUND - 1)
        last = index.count_until(until)
        weights = dict[str, float]()

        def weight(word: str) -> float:
            """The square of how rare a word is."""
            if word not in weights:
                known = int(index.places(word).searchsorted(last))
                weights[word] = log(1 + (1 + last) / (1 + known)) ** 2
            return weights[word]

        mine = sorted(set(words(snippet.text[:LONGEST])))
        shared = defaultdict[int, float](float)
        for word in mine:
            places = index.places(word)
            a, b = places.searchsorted([first, last]).tolist()
            for place in places[a:b].tolist():
                shared[place] += weight(word)
        length = sum(map(weight, mine)) ** 0.5
        found = list[tuple[float, str]]()
        for place in sorted(shared, key=lambda place: -shared[place])[: 2 * CANDIDATES]:
            if index.rows[place].id == snippet.id:
                continue
            text, said = self._said(index, place)
            other = sum(map(weight, said)) ** 0.5
            found.append((min(shared[place] / max(length * other, 1e-9), 1.0), text))
        return sorted(found, reverse=True)[:CANDIDATES]

    def _said(self, index: SearchIndex, place: int) -> tuple[str, list[str]]:
        """The beginning of a document, and its words."""
        if place not in self._texts:
            row = index.rows[place]
            text = (f"{row.title}. {row.text}" if row.text else row.title)[:LONGEST]
            self._texts[place] = text, sorted(set(words(text)))
        return self._texts[place]

    def _vector(self, model: Any, text: str) -> Vector:
        if text not in self._vectors:
            made = np.asarray(model.embed([text]), dtype=np.float32).reshape(-1)
            self._vectors[text] = made / max(float(np.linalg.norm(made)), 1e-9)
        return self._vectors[text]
