"""The scout: it plans what is collected, thinks about what was found, and acts: it says what there
is, every sentence with the documents it rests on.

Without a model all three follow rules. A model plans keywords and tools, rates how well documents
fit, and adds remarks that are marked as its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, create_model

from beforehand.clock import iso
from beforehand.errors import BadAnswer, InputError, Refused
from beforehand.gateway.search import words
from beforehand.ids import digest
from beforehand.jobs.ask.subject import Subject
from beforehand.jobs.scout.planning import Planner, composed, keywords_in
from beforehand.jobs.scout.reading import read_plan
from beforehand.llm.names import LABEL, SCRIPTED
from beforehand.llm.prompt import ModelClient, Prompt
from beforehand.llm.rating import Rating
from beforehand.records.plan import ScoutPlan, Window
from beforehand.runs.evidence import Document

MOST_EVIDENCE, MOST_TERMS, MOST_SHOWN, LONGEST_QUOTE = 50, 20, 5, 300
RATED, RATED_AT_ONCE, LONGEST_TEXT = 30, 10, 300
TOKENS_EACH, TOKENS_MORE = 60, 100
WINDOW: Window = "12m"
RATE = (
    "You are given the subject of a study and documents found for it. Rate how relevant each "
    "document is to the subject: score from 0 (about something else) to 1 (it says what is asked), "
    "and a reason of at most ten words."
)
REMARK = (
    "You are given the subject of a study and the documents that fit it best, by id. Write at most "
    "three remarks on what they say about the subject, one sentence each, with the ids of the "
    "documents that it rests on. Add no fact that is not in them."
)


class ScoutAgent:
    """The agent of a scout plan, called `scout` and `scout_agent`. `client` is the model that
    helps it; None: rules alone."""

    def __init__(self, client: ModelClient | None = None) -> None:
        self._client = client

    @property
    def name(self) -> str:
        """Who plans, rates and remarks."""
        return "rules" if self._client is None else self._client.name

    def plan(
        self,
        target_market: str,
        *,
        at: datetime,
        run_id: str,
        time_window: Window | None = None,
        keywords: Sequence[str] = (),
        subreddits: Sequence[str] = (),
    ) -> ScoutPlan:
        """A plan of the schema `scout_plan_v1` for a question or a subject. What is given is kept;
        the rest is chosen. Raises InputError with the faults where a model's second plan cannot be
        carried out either, and what its calls raise."""
        if self._client is not None:
            planner = Planner(self._client, target_market, at)
            return planner.plan(run_id, time_window, keywords, subreddits)
        chosen = list(keywords) or keywords_in(target_market)
        if not chosen:
            raise InputError("no keyword is in that text: name some with --keyword")
        return read_plan(composed(target_market, run_id, time_window or WINDOW, chosen, subreddits))

    def think(
        self, plan: ScoutPlan, found: Sequence[Document], calls: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The analysis of what was collected: how much, of when, by which keyword and place, and
        which documents fit best."""
        subject = Subject.of(plan.target_market)
        scored = [(round(subject.share_in(one.title, one.text), 4), one) for one in found]
        scored.sort(key=lambda pair: (-pair[0], _backwards(pair[1].known_at), pair[1].id))
        said = (text for call in calls for text in (*call.get("notes", ()), call.get("error")))
        notes = list(dict.fromkeys(filter(None, said)))
        reasons: dict[str, str] = {}
        if self._client is not None and scored:
            scored, reasons, more = self._rated(plan.target_market, scored)
            notes += more
        days = sorted(one.day for one in found)
        by_value: Counter[str] = Counter(value for one in found for value in one.found_by)
        asked = [str(call["value"]) for call in calls if call.get("value") is not None]
        return {
            "target_market": plan.target_market,
            "rated_by": self.name,
            "documents": len(found),
            "calls": len(calls),
            "first": days[0] if days else None,
            "last": days[-1] if days else None,
            "found_by": {value: by_value[value] for value in dict.fromkeys([*asked, *by_value])},
            "by_source": _counted(_place(one.url, one.source) for one in found),
            "by_month": dict(sorted(Counter(one.day[:7] for one in found).items())),
            "terms": _terms(found),
            "evidence": [
                {
                    **one.wire(),
                    "relevance": score,
                    **({"reason": reasons[one.id]} if one.id in reasons else {}),
                    "quote": _quote(one, subject),
                }
                for score, one in scored[:MOST_EVIDENCE]
            ],
            "left_out": max(0, len(scored) - MOST_EVIDENCE),
            "notes": notes,
        }

    def _rated(
        self, subject: str, scored: Sequence[tuple[float, Document]]
    ) -> tuple[list[tuple[float, Document]], dict[str, str], list[str]]:
        """The best of the documents in the model's order, the others after them by rule."""
        assert self._client is not None
        first, rest = scored[:RATED], list(scored[RATED:])
        made: list[tuple[float, Document]] = []
        reasons: dict[str, str] = {}
        for start in range(0, len(first), RATED_AT_ONCE):
            batch = first[start : start + RATED_AT_ONCE]
            named = {f"document_{n}": one for n, (_, one) in enumerate(batch, start=1)}
            shown = {
                name: {"title": one.title, "text": one.text[:LONGEST_TEXT]}
                for name, one in named.items()
            }
            fields: dict[str, Any] = dict.fromkeys(named, (Rating, ...))
            text = orjson.dumps({"subject": subject, "documents": shown}).decode()
            most = TOKENS_MORE + TOKENS_EACH * len(batch)
            try:
                said = self._client.ask(Prompt(RATE, text, create_model("Rated", **fields), most))
            except (BadAnswer, Refused) as error:
                note = f"{self._client.name} rated no documents ({error}): rules did"
                return list(scored), {}, [note[:300]]
            for name, one in named.items():
                rating: Rating = getattr(said, name)
                made.append((round(rating.score, 4), one))
                reasons[one.id] = rating.reason
        made.sort(key=lambda pair: (-pair[0], _backwards(pair[1].known_at), pair[1].id))
        notes = (
            [f"{self._client.name} rated {len(made)} of {len(scored)} documents"] if rest else []
        )
        return [*made, *rest], reasons, notes

    def act(self, plan: ScoutPlan, thought: Mapping[str, Any], at: datetime) -> dict[str, Any]:
        """What there is to say, each sentence with the ids of its documents, and the evidence."""
        evidence = thought["evidence"]
        found: dict[str, Any] = {
            "target_market": plan.target_market,
            "as_of": iso(at),
            "time_window": plan.time_window,
            "rated_by": thought["rated_by"],
            "sentences": list(_sentences(plan, thought, at)),
            "evidence": [
                {**{key: one[key] for key in one if key != "reason"}, "digest": digest(one)}
                for one in evidence
            ],
            "notes": thought["notes"],
        }
        if self._client is not None:
            found["model"] = self._client.name
            if self._client.name == SCRIPTED:
                found["notes"] = [*found["notes"], f"{SCRIPTED} is {LABEL}"]
            if evidence:
                found["remarks"] = self._remarks(plan.target_market, evidence[:MOST_SHOWN])
        return found

    def _remarks(self, subject: str, evidence: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The model's own words on the best documents; every one names documents that there are."""
        assert self._client is not None
        ids: Any = Literal[tuple(one["id"] for one in evidence)]
        remark = create_model(
            "Remark",
            text=(Annotated[str, Field(min_length=1, max_length=300)], ...),
            documents=(Annotated[list[ids], Field(min_length=1, max_length=MOST_SHOWN)], ...),
        )
        remarks: Any = Annotated[list[remark], Field(min_length=1, max_length=3)]
        output = create_model("Remarks", remarks=(remarks, ...))
        shown = {one["id"]: {"title": one["title"], "quote": one["quote"]} for one in evidence}
        text = orjson.dumps({"subject": subject, "best": shown}).decode()
        try:
            said: Any = self._client.ask(Prompt(REMARK, text, output, 400))
        except (BadAnswer, Refused) as error:
            return {"by": self._client.name, "error": str(error)[:300]}
        rows = [{"text": one.text, "documents": list(one.documents)} for one in said.remarks]
        return {"by": self._client.name, "remarks": rows}


def _backwards(instant: str) -> tuple[int, ...]:
    """Sorts later instants first."""
    return tuple(-ord(letter) for letter in instant)


def _place(url: str | None, source: str) -> str:
    """Where a document stands: a subreddit, else the server that found it."""
    parts = (url or "").split("/r/")
    return f"r/{parts[1].split('/')[0]}" if len(parts) > 1 else source


def _counted(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _terms(found: Sequence[Document]) -> dict[str, int]:
    """The words that most documents share."""
    counts = Counter(word for one in found for word in set(words(f"{one.title} {one.text}")))
    shared = [(word, n) for word, n in counts.items() if n > 1 and not word.isdigit()]
    return dict(sorted(shared, key=lambda pair: (-pair[1], pair[0]))[:MOST_TERMS])


def _quote(one: Document, subject: Subject) -> str:
    """The first passage of a text that has most of the subject's words, as it stands there."""
    parts = [part.strip() for part in one.text.split("\n") if part.strip()]
    if not parts:
        return ""
    best = max(parts, key=lambda part: subject.share_in(None, part))
    return best[:LONGEST_QUOTE]


def _sentences(plan: ScoutPlan, thought: Mapping[str, Any], at: datetime) -> Any:
    """What is said by rule."""
    n, evidence = thought["documents"], thought["evidence"]
    if not n:
        yield {"text": f"Nothing was found by {iso(at)}.", "documents": []}
    else:
        many = "document was" if n == 1 else "documents were"
        span = f"written from {thought['first']} to {thought['last']}"
        yield {"text": f"{n} {many} found by {iso(at)}, {span}.", "documents": []}
        places = [f"{name} ({k})" for name, k in list(thought["by_source"].items())[:MOST_SHOWN]]
        yield {"text": f"Most stand in {', '.join(places)}.", "documents": []}
    for one in evidence[:MOST_SHOWN]:
        quote = f': "{one["quote"]}"' if one["quote"] else ""
        place = _place(one["url"], one["source"])
        day = (one["published_at"] or one["known_at"])[:10]
        told = f'"{" ".join(one["title"].split())}" ({place}, {day}){quote}'
        yield {"text": told, "documents": [one["id"]]}
    empty = [value for value, k in thought["found_by"].items() if not k]
    if empty and n:
        yield {"text": f"Nothing was found by: {', '.join(empty)}.", "documents": []}
