"""Asking the live services whether they still answer in the shapes we read."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, NotRequired, TypedDict
from xml.etree import ElementTree

from beforehand.clock import Clock, iso
from beforehand.errors import BadAnswer, BeforehandError, InputError, NotConfigured, RateLimited
from beforehand.sandbox.daytona import Daytona
from beforehand.sources import galileo
from beforehand.sources.base import Probe, rows_of
from beforehand.sources.catalogue import PROBES, PROVIDERS
from beforehand.sources.fields import decode_json
from beforehand.store.files import read_json, write_json
from beforehand.traffic import Traffic


class CheckRow(TypedDict):
    """How a probe went. `state` is ok, drift, empty, not asked, not configured or not reachable;
    `mirror` is the address that an override named; `date` is the day, in stored rows only. `forms`
    says what was in each expected field."""

    name: str
    server: str
    state: str
    detail: str
    mirror: NotRequired[str]
    date: NotRequired[str]
    forms: NotRequired[dict[str, str]]


def check(
    traffic: Traffic,
    clock: Clock,
    keep: Path,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> list[CheckRow]:
    """One row per probe, and for Daytona and Galileo, whose keys are among the `settings`: ok,
    drift (with the fields that are missing, or that hold something else than at the last check),
    empty, or why it could not be asked. Services that answered are stored with the date, and `tool
    list` and `doctor` show it. (A mirror named by an override is not the live service, and does not
    count.)"""
    facts: dict[str, str] = {}
    found, earlier = list[CheckRow](), read_checks(keep)
    for i, probe in enumerate(PROBES):
        progress(probe.name, i, len(PROBES))
        found.append(_probe(traffic, probe, facts, _forms(earlier, probe.name)))
    found += [_daytona(settings), _galileo(traffic, settings)]
    progress("", len(PROBES), len(PROBES))
    for row in found:
        if row["state"] in ("ok", "drift"):
            forms = _forms(earlier, row["name"])
            kept: CheckRow = {**row, "date": iso(clock.now())[:10]}
            # What a field held before stays known until it is ok again: drift is told each time.
            kept["forms"] = {**row.get("forms", {}), **(forms if row["state"] == "drift" else {})}
            earlier[row["name"]] = kept
    write_json(keep, earlier)
    return found


def _forms(rows: Mapping[str, CheckRow], name: str) -> dict[str, str]:
    """What the fields of a probe held when they were last as expected."""
    return rows[name].get("forms", {}) if name in rows else {}


def _daytona(settings: Mapping[str, str]) -> CheckRow:
    """A small program in a remote sandbox."""
    row: CheckRow = {"name": "daytona sandbox", "server": "sandbox", "state": "ok", "detail": ""}
    try:
        done = Daytona(settings).run("6 * 7")
    except NotConfigured as error:
        return {**row, "state": "not configured", "detail": str(error)}
    except BeforehandError as error:
        return {**row, "state": "not reachable", "detail": str(error)}
    if done.error is not None or done.result != 42:
        return {**row, "state": "drift", "detail": f"a program gave {done.error or done.result}"}
    return {**row, "detail": "a program ran, without a network"}


def _galileo(traffic: Traffic, settings: Mapping[str, str]) -> CheckRow:
    """A login with the key; nothing else is sent."""
    row: CheckRow = {"name": "galileo login", "server": "export", "state": "ok", "detail": ""}
    key = settings.get(galileo.KEY)
    if not key:
        why = f"{galileo.KEY} is not set: an export is a file, and needs no key"
        return {**row, "state": "not configured", "detail": why}
    try:
        reply = traffic.fetch(galileo.login_request(key))
        galileo.parse_login(decode_json(reply.body, "a Galileo login"))
    except BadAnswer as error:
        return {**row, "state": "drift", "detail": str(error)}
    except BeforehandError as error:
        return {**row, "state": "not reachable", "detail": str(error)}
    return {**row, "detail": "the key logs in"}


def read_checks(path: Path) -> dict[str, CheckRow]:
    """The checks that were kept; none where the file is missing or damaged."""
    try:
        kept = read_json(path)
    except InputError:
        return {}
    return kept if isinstance(kept, dict) else {}


def _probe(
    traffic: Traffic, probe: Probe, facts: dict[str, str], before: Mapping[str, str]
) -> CheckRow:
    row: CheckRow = {"name": probe.name, "server": probe.server, "state": "", "detail": ""}
    row["state"], row["detail"] = _asked(traffic, probe, facts, row)
    changed = [
        f"{name} was {before[name]}, is {form}"
        for name, form in row.get("forms", {}).items()
        if before.get(name, form) != form
    ]
    if changed:
        missing = [row["detail"]] if row["state"] == "drift" else []
        row["state"], row["detail"] = "drift", "; ".join([*missing, *changed])
    return row


_SHARE = re.compile(r"price|bid|ask", re.IGNORECASE)
"""Fields in which another unit (cents for dollars) would be read as another price."""


def form_of(name: str, values: Sequence[object]) -> str | None:
    """What the rows hold in a field, in words; None where none holds anything."""
    kinds = {_kind(value) for value in values if value is not None and value != ""}
    if not kinds:
        return None
    said = " or ".join(sorted(kinds))
    if kinds <= {"number", "number as text"} and _SHARE.search(name):
        most = max(float(str(value)) for value in values if value is not None and value != "")
        said += " up to 1" if most <= 1 else " above 1"
    return said


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, list):
        return "list"
    if not isinstance(value, str):
        return "object"
    try:
        return "number as text" if isfinite(float(value)) else "text"
    except ValueError:
        return "text"


def _asked(traffic: Traffic, probe: Probe, facts: dict[str, str], row: CheckRow) -> tuple[str, str]:
    """The state and the detail of a probe; `row` takes note of a mirror and of forms."""
    try:
        request = probe.ask(facts)
        if request is None:
            return "not asked", "an earlier probe found no market"
        reply = traffic.fetch(request)
        if not reply.url.startswith(PROVIDERS[request.provider].base):
            row["mirror"] = reply.url.split("?")[0]  # An override: not the service itself.
        if probe.rows == "rss":
            items = _rss(reply.text)
        else:
            items = rows_of(decode_json(reply.body, probe.name), probe.rows)
        _learn(items, facts)
    except NotConfigured as error:
        return "not configured", str(error)
    except RateLimited as error:
        return "not asked", str(error)
    except (BadAnswer, AttributeError) as error:
        return "drift", str(error)
    except BeforehandError as error:
        return "not reachable", str(error)
    if not items:
        return "empty", "no rows to compare"
    row["forms"] = {
        name: form
        for name in sorted(probe.expected)
        if (form := form_of(name, [item.get(name) for item in items])) is not None
    }
    missing = sorted(probe.expected - set().union(*(item.keys() for item in items)))
    if missing:
        return "drift", f"missing: {', '.join(missing)}"
    return "ok", f"{len(probe.expected)} fields as expected"


def _rss(body: str) -> list[dict[str, object]]:
    if "<!DOCTYPE" in body:
        raise BadAnswer("the feed carries a document type")
    try:
        items = ElementTree.fromstring(body).iter("item")
        return [{node.tag: node.text for node in item} for item in items]
    except ElementTree.ParseError as error:
        raise BadAnswer(f"the feed is not XML: {error}") from None


def _learn(items: Sequence[Mapping[str, Any]], facts: dict[str, str]) -> None:
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
