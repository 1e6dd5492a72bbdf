"""What the scripted model says to the orchestrator and to the scout: plans, ratings, code and
reviews by rule. It tests the path; it understands nothing.
"""

import json
import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from beforehand.llm.names import LABEL

DAYS = 30
STOP = frozenset("how what when where which will would could should likely about their".split())
MOVES = re.compile(r"\b(?:how|did|move[ds]?|change[ds]?|over|since|last|this)\b", re.IGNORECASE)
CODE = """found = await search_polymarket_markets(query={query}, session_id="scripted", limit=3)
for market in found["markets"]:
    print(market["market_id"], market["title"], market["prices"])
if not found["markets"]:
    print("no market was found")
"""


def answered(wanted: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer to a request of the orchestrator, by the keys that it wants; None for others."""
    if "tasks" in wanted:
        return {"tasks": _tasks(str(shown["question"]))}
    if "inputs" in wanted:
        return _detail(shown, "tools" in wanted)
    if "market_1" in wanted:
        return {name: _rating(shown, name) for name in wanted}
    if "document_1" in wanted:
        return {name: _fit(shown, name) for name in wanted}
    if "remarks" in wanted and "best" in shown:
        return {"remarks": [{"text": LABEL, "documents": list(shown["best"])[:1]}]}
    if {"keywords", "tools"} <= wanted.keys():
        return _scouted(str(shown["subject"]), wanted["tools"])
    if "responds" in wanted:
        return {"responds": bool(shown["evidence"]), "not_borne_out": [], "remarks": LABEL}
    if "code" in wanted and "tools" in shown:
        return {"code": CODE.format(query=json.dumps(shown["question"]))}
    return None


def _tasks(question: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = [
        {"id": "markets", "agent": "polymarket-agent", "why": "markets on this", "after": []},
        {"id": "pages", "agent": "predictive-markets-agent", "why": "pages on this", "after": []},
        {"id": "looked-up", "agent": "code-agent", "why": "a look by code", "after": []},
    ]
    if MOVES.search(question):
        why = "how their prices moved"
        more = {"id": "moves", "agent": "price-history-agent", "why": why, "after": ["markets"]}
        tasks.append(more)
    return tasks


def _detail(shown: Mapping[str, Any], has_tools: bool) -> dict[str, Any]:
    end = date.fromisoformat(str(shown["as_of"])[:10])
    known: dict[str, Any] = {
        "query": _topic(str(shown["question"])),
        "question": shown["question"],
        "input_path": next(iter(shown["reads"]), None),
        "start_date": (end - timedelta(days=DAYS)).isoformat(),
        "end_date": end.isoformat(),
    }
    inputs = {name: known[name] for name in shown["inputs"] if known.get(name) is not None}
    return {"inputs": inputs, **({"tools": [shown["tools"][0]["tool"]]} if has_tools else {})}


def _topic(question: str) -> str:
    """The names, figures and long words of a question."""
    kept = [w for w in question.split() if w[:1].isupper() or len(w) > 4 or w[:1] in "$0123456789"]
    return " ".join(w.strip(",;:?!") for w in kept if w.lower() not in STOP) or question


def _rating(shown: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The share of the query's words that are in the title."""
    asked, title = _words(shown["query"]), _words(shown["markets"][name]["title"])
    shared = len(asked & title)
    reason = f"{shared} of {len(asked)} words of the query are in the title"
    return {"score": round(shared / max(len(asked), 1), 4), "reason": reason}


def _fit(shown: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The share of the subject's words that are in the document's title."""
    asked, title = _words(shown["subject"]), _words(shown["documents"][name]["title"])
    shared = len(asked & title)
    reason = f"{shared} of {len(asked)} words of the subject are in the title"
    return {"score": round(shared / max(len(asked), 1), 4), "reason": reason}


def _scouted(subject: str, tools: Mapping[str, Any]) -> dict[str, Any]:
    """The long words of a subject, and the tool that reads stored threads."""
    names = tools["items"]["enum"]
    kept = [word.strip(",;:?!").lower() for word in _topic(subject).split()]
    stored = next((name for name in names if name.startswith("reddit_search")), names[0])
    return {"keywords": list(dict.fromkeys(kept))[:8], "time_window": "all", "tools": [stored]}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
