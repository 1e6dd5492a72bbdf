"""Asking the live services whether they still answer in the shapes we read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from beforehand.clock import Clock, iso
from beforehand.errors import BadAnswer, BeforehandError, InputError, NotConfigured, RateLimited
from beforehand.sources.base import Probe, rows_of
from beforehand.sources.catalogue import PROBES, PROVIDERS
from beforehand.sources.fields import decode_json
from beforehand.store.files import read_json, write_json
from beforehand.traffic import Traffic


def check(
    traffic: Traffic,
    clock: Clock,
    keep: Path,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    """One row a probe: ok, drift (with the fields that are missing), empty, or why it could not be
    asked. What answered is written down with its date: `tool list` and `doctor` show it (a mirror
    named by an override is no live service, and does not count)."""
    facts: dict[str, str] = {}
    found = []
    for i, probe in enumerate(PROBES):
        progress(probe.name, i, len(PROBES))
        found.append(_probe(traffic, probe, facts))
    progress("", len(PROBES), len(PROBES))
    earlier = read_checks(keep)
    for row in found:
        if row["state"] in ("ok", "drift"):
            earlier[row["name"]] = {"date": iso(clock.now())[:10], **row}
    write_json(keep, earlier)
    return found


def read_checks(path: Path) -> dict[str, Any]:
    """The checks that were kept; none where the file is missing or damaged."""
    try:
        kept = read_json(path)
    except InputError:
        return {}
    return kept if isinstance(kept, dict) else {}


def _probe(traffic: Traffic, probe: Probe, facts: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": probe.name, "server": probe.server}
    try:
        request = probe.ask(facts)
        if request is None:
            return row | {"state": "not asked", "detail": "an earlier probe found no market"}
        reply = traffic.fetch(request)
        if not reply.url.startswith(PROVIDERS[request.provider].base):
            row["mirror"] = reply.url.split("?")[0]  # An override: not the service itself.
        if probe.rows == "rss":
            items = [{n.tag: n.text for n in item} for item in _rss(reply.text)]
        else:
            items = rows_of(decode_json(reply.body, probe.name), probe.rows)
        _learn(items, facts)
    except NotConfigured as error:
        return row | {"state": "not configured", "detail": str(error)}
    except RateLimited as error:
        return row | {"state": "not asked", "detail": str(error)}
    except (BadAnswer, AttributeError) as error:
        return row | {"state": "drift", "detail": str(error)}
    except BeforehandError as error:
        return row | {"state": "not reachable", "detail": str(error)}
    if not items:
        return row | {"state": "empty", "detail": "no rows to compare"}
    missing = sorted(probe.expected - set().union(*(item.keys() for item in items)))
    if missing:
        return row | {"state": "drift", "detail": f"missing: {', '.join(missing)}"}
    return row | {"state": "ok", "detail": f"{len(probe.expected)} fields as expected"}


def _rss(body: str) -> list[Any]:
    if "<!DOCTYPE" in body:
        raise BadAnswer("the feed carries a document type")
    try:
        return list(ElementTree.fromstring(body).iter("item"))
    except ElementTree.ParseError as error:
        raise BadAnswer(f"the feed is not XML: {error}") from None


def _learn(items: list[dict[str, Any]], facts: dict[str, str]) -> None:
    """Ids that later probes ask about."""
    for item in items:
        if item.get("conditionId") and item.get("clobTokenIds"):
            tokens = item["clobTokenIds"]
            parsed = decode_json(tokens, "clobTokenIds") if isinstance(tokens, str) else tokens
            facts.setdefault("market", str(item["conditionId"]))
            if parsed:
                facts.setdefault("token", str(parsed[0]))
            parents = item.get("events") or []
            if parents:
                facts.setdefault("event", str(parents[0].get("id")))
        if item.get("ticker") and item.get("event_ticker"):
            facts.setdefault("ticker", str(item["ticker"]))
