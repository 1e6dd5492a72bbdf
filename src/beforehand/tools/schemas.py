"""JSON schemas as every client can read them: one object, no references, no titles.

Clients differ in what they accept. Some refuse `$ref`, some a `null` among an argument's types,
some an array without `items`. So references are written out, and an argument that may be left out
is simply not required (null is still taken as left out).
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

META = {
    "type": "object",
    "description": "As of when, from which world, what it cost, what was cut.",
}


def argument_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    found = _plain(model.model_json_schema())
    found["properties"] = {
        name: _without_null(entry) for name, entry in found.get("properties", {}).items()
    }
    return found


def answer_schema(shape: Any) -> dict[str, Any]:
    """The schema of a tool's answer: the shape, and `_meta`."""
    found = _plain(TypeAdapter(shape).json_schema())
    found.pop("description", None)
    found.setdefault("properties", {})["_meta"] = META
    return found


def _without_null(entry: dict[str, Any]) -> dict[str, Any]:
    """`X or null, by default null` as X."""
    made = dict(entry)
    if made.get("default", ...) is None:
        del made["default"]
    if "anyOf" in made:
        kept = [part for part in made.pop("anyOf") if part.get("type") != "null"]
        made = {**kept[0], **made} if len(kept) == 1 else {"anyOf": kept, **made}
    return made


VERBATIM = frozenset({"default", "const", "enum", "examples"})


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles and references. (No tool has a type that holds itself.)"""
    definitions = schema.get("$defs", {})

    def walk(value: Any, names: bool = False) -> Any:
        """`names` is True among properties, where a key is a name and no keyword."""
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if "$ref" in value and not names:
            beside = {key: item for key, item in value.items() if key != "$ref"}
            return {**walk(definitions[value["$ref"].rpartition("/")[2]]), **walk(beside)}
        return {
            key: item
            if key in VERBATIM and not names
            else walk(item, key == "properties" and not names)
            for key, item in value.items()
            if names or key not in ("title", "$defs")
        }

    return dict(walk(schema))
