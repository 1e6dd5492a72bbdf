"""What tools answer is what their output schemas say, and every client can read the schemas."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from test_every_tool import ARGUMENTS, toolbox
from worlds import pair

from beforehand.config import Home
from beforehand.errors import BeforehandError, NotFound
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Tool, Toolbox
from beforehand.tools.servers.discovery_mode import (
    DISCOVERY,
    definition,
    desk_call,
    is_structured,
    listing_costs,
)
from live import Setup
from toolcalls import CALLS

REGISTRY = load_tools()
EVERY = {**REGISTRY, **DISCOVERY}
WORLDS = 40


def faults(tool: Tool, box: Toolbox, arguments: dict[str, Any]) -> Iterator[str]:
    """Where an answer breaks its schema, whole and cut as short as may be."""
    for short in ({}, {"max_tokens": 500}):
        try:
            content = box.call(tool.name, {**arguments, **short}).content
        except BeforehandError:
            continue
        for error in Draft202012Validator(tool.answer).iter_errors(content):
            yield f"{tool.name} {arguments}: {error.json_path}: {error.message[:200]}"


def test_answers_over_made_worlds(tmp_path: Path) -> None:
    found: list[str] = []
    answered = set()
    for seed in range(WORLDS):
        records, _, t = pair(90_000 + seed)
        box = toolbox(records, Home(tmp_path / str(seed)), t)
        for name, arguments in ARGUMENTS.items():
            if name == "execute-python-code" and seed:
                continue
            for given in arguments:
                found += faults(REGISTRY[name], box, given)
                answered |= {name} if _answers(box, name, given) else set()
    assert not found, "\n".join(found[:10])
    assert len(answered) > 25


def _answers(box: Toolbox, name: str, given: dict[str, Any]) -> bool:
    try:
        box.call(name, given)
    except BeforehandError:
        return False
    return True


def test_answers_of_services_in_every_shape(setup: Setup) -> None:
    box, _ = setup.box("live")
    found = [fault for name in CALLS for fault in faults(REGISTRY[name], box, CALLS[name])]
    assert not found, "\n".join(found[:10])


def test_a_wrong_answer_is_seen(setup: Setup) -> None:
    """The control: an answer without a key, or with another type, breaks its schema."""
    box, _ = setup.box("live")
    for name in ("get_market", "get_prices", "search"):
        content = box.call(name, CALLS[name]).content
        validator = Draft202012Validator(REGISTRY[name].answer)
        for key in REGISTRY[name].answer["required"]:
            assert not validator.is_valid({k: v for k, v in content.items() if k != key}), key
            assert not validator.is_valid({**content, key: {"not": "this"}}) or isinstance(
                content[key], dict
            )


def walk(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema; what stands under `properties` are names."""
    if not isinstance(value, dict):
        return
    yield path, value
    for name, entry in value.get("properties", {}).items():
        yield from walk(entry, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        yield from walk(value.get(key), f"{path}.{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, entry in enumerate(value.get(key, ())):
            yield from walk(entry, f"{path}.{key}{i}")


def name_is_short_and_plain(tool: Tool) -> bool:
    """Anthropic's and OpenAI's rule for names: 64 of these; Cursor counts the server's as well."""
    return bool(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name)) and len(tool.name) <= 40


def root_is_an_object(tool: Tool) -> bool:
    """OpenAI's and the specification's: a plain object at the root, no alternatives there."""
    roots = [tool.schema] if tool.returns is None else [tool.schema, tool.answer]
    return all(
        root["type"] == "object" and not root.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}
        for root in roots
    )


def nothing_refers(tool: Tool) -> bool:
    """Several clients do not follow references."""
    raw = json.dumps(definition(tool, is_structured(tool)))
    return "$ref" not in raw and "$defs" not in raw


def every_argument_has_a_type(tool: Tool) -> bool:
    """Gemini's: an argument is of one type, lists say what of, descriptions are there; no
    prefixItems, no type that is a list."""
    good = True
    for path, entry in walk(tool.schema):
        if path.endswith(".additionalProperties"):
            continue
        good &= isinstance(entry.get("type"), str) and "prefixItems" not in entry
        if entry.get("type") == "array":
            good &= isinstance(entry.get("items"), dict)
    return good and all(e.get("description") for e in tool.schema["properties"].values())


def defaults_fit(tool: Tool) -> bool:
    """A client that fills in defaults must not break the call by it."""
    return all(
        Draft202012Validator(entry).is_valid(entry["default"])
        for entry in tool.schema["properties"].values()
        if "default" in entry
    )


def drafts_agree(tool: Tool) -> bool:
    """Ajv reads draft 7 unless told otherwise: nothing may be there that only 2020-12 knows."""
    from jsonschema import Draft7Validator

    schemas = [tool.schema] if tool.returns is None else [tool.schema, tool.answer]
    for schema in schemas:
        Draft7Validator.check_schema(schema)
        Draft202012Validator.check_schema(schema)
    later = {"$dynamicRef", "unevaluatedProperties", "dependentSchemas", "minContains"}
    return not any(entry.keys() & later for s in schemas for _, entry in walk(s))


RULES: list[Callable[[Tool], bool]] = [
    name_is_short_and_plain,
    root_is_an_object,
    nothing_refers,
    every_argument_has_a_type,
    defaults_fit,
    drafts_agree,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rules_of_clients(rule: Callable[[Tool], bool]) -> None:
    assert [tool.name for tool in EVERY.values() if not rule(tool)] == []


def test_annotations() -> None:
    for tool in EVERY.values():
        assert definition(tool, False)["annotations"]["readOnlyHint"] is True
        assert definition(tool, False)["annotations"]["openWorldHint"] == tool.outside


def test_what_connecting_costs() -> None:
    rows = {row["server"]: row for row in listing_costs()}
    assert rows["all"]["discovery_tokens"] <= 1300, "the four tools; instructions come on top"
    assert rows["all"]["tokens"] > 10 * rows["all"]["discovery_tokens"], "what discovery saves"
    assert rows["all"]["tools"] == len(REGISTRY) + 1


def test_the_desk_reaches_every_tool(setup: Setup) -> None:
    box, _ = setup.box("live")
    names = desk_call(box, DISCOVERY["search_tools"], {}).content["tools"]
    assert {row["name"] for row in names} == set(REGISTRY)
    for name in REGISTRY:
        described = desk_call(box, DISCOVERY["get_tool_schema"], {"name": name}).content
        assert described["inputSchema"] == REGISTRY[name].schema
        given = {"name": name, "arguments": CALLS[name]}
        try:
            plain = set(box.call(name, CALLS[name]).content)
        except NotFound:  # Stored threads, before any was fetched.
            with pytest.raises(NotFound):
                desk_call(box, DISCOVERY["call_tool"], given)
        else:
            assert set(desk_call(box, DISCOVERY["call_tool"], given).content) == plain
