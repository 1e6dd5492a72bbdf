"""The tool registry: a tool is one decorated function, and everything else is derived from it.

    @tool("polymarket", example=…)
    def get_market(call: Call, *, id: Annotated[str, Field(description="…")]) -> dict: …

From the signature come the JSON schema, the validation, the help text, the page and the MCP form.
Each tool that touches outside data also takes `as_of`, which can only lie at or before the instant
the toolbox is pinned to; each that returns rows takes `limit` and `cursor`.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from beforehand.clock import iso, parse_instant
from beforehand.errors import BeforehandError, InputError, NotFound, Refused
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.view import View
from beforehand.ids import digest
from beforehand.tools.bounds import (
    MAX_TOKENS,
    AnswerMeta,
    Page,
    Rows,
    ToolAnswer,
    bound,
    decode_cursor,
)
from beforehand.tools.caller import OWNER, Caller, CallSignals, ToolLimit
from beforehand.tools.storage import Storage
from beforehand.traffic import counting

Evidence = Literal["recorded", "simulated", "offline"]
LEAST_TOKENS, MAX_ALLOWED_TOKENS = 500, 1_000_000
LONGEST_NAME = 100


@dataclass(frozen=True)
class Example:
    """What a tool was tried on: real captures, or a shape from a vendor's specification or SDK
    (`simulated`: "shape, not recorded"); with the date of either. `offline`: there is nothing
    outside to ask."""

    evidence: Evidence
    date: str
    source: str


@dataclass
class Call:
    """What a tool function is given: the View, what is stored beside the archive, and how many
    rows will be shown (`skip` were shown before). A tool that cuts its own rows sets `total`."""

    view: View
    storage: Storage
    toolbox: "Toolbox"
    wanted: int = 0
    skip: int = 0
    total: int | None = None
    notes: list[str] = field(default_factory=list)
    signals: CallSignals = field(default_factory=CallSignals)

    @property
    def at(self) -> datetime:
        """The instant of the answer."""
        return self.view.t

    @property
    def knows(self) -> datetime:
        """The latest instant that the caller may have seen, whatever instant the answer is for."""
        pinned = self.toolbox.pinned
        return self.toolbox.gateway.clock.now() if pinned is None else pinned

    def note(self, text: str) -> None:
        """A sentence for the answer's `_meta`."""
        self.notes.append(text)

    def progress(self, done: int, total: int | None, text: str) -> None:
        """Tell the client how far the call is. Raises Refused if the client no longer waits."""
        if self.signals.stop.is_set():
            raise Refused("the call was cancelled by its client")
        self.signals.progress(done, total, text)


class Schema(TypedDict, total=False):
    """A JSON schema without references: the keywords that are read here; others are kept."""

    type: str
    description: str
    properties: dict[str, "Schema"]
    required: list[str]
    items: "Schema"
    anyOf: list["Schema"]
    enum: list[str]
    default: object


@dataclass(frozen=True)
class Tool:
    """A registered tool. `services` are the providers it may ask; none for a pure tool."""

    name: str
    server: str
    function: Callable[..., Any]
    returns: Any
    example: Example
    rows: Rows | None
    services: tuple[str, ...]
    outside: bool
    limit: ToolLimit | None
    probe: str | None = None

    @property
    def instant(self) -> bool:
        """True if a call asks, waits for and counts nothing, so that it needs no thread."""
        return not self.outside and self.limit is None and self.returns is not None

    @cached_property
    def summary(self) -> str:
        """The first sentence of the docstring, on one line."""
        text = inspect.getdoc(self.function) or ""
        return " ".join(text.split("\n\n")[0].split())

    @cached_property
    def description(self) -> str:
        """The whole docstring."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def model(self) -> type[BaseModel]:
        """The arguments as a pydantic model."""
        fields: dict[str, Any] = {}
        hints = get_type_hints(self.function, include_extras=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name != "call":
                default = parameter.default
                fields[name] = (hints[name], ... if default is parameter.empty else default)
        if self.rows is not None:
            rows = self.rows
            limit = Annotated[
                int, Field(ge=1, le=rows.maximum, description=f"Rows, at most {rows.maximum:,}.")
            ]
            fields["limit"] = (limit, rows.default)
            if not rows.series:
                cursor = Annotated[str | None, Field(description="`next_cursor` of a cut answer.")]
                fields["cursor"] = (cursor, None)
        if self.outside:
            as_of = Annotated[
                str | None,
                Field(description="Answer as of this instant (ISO 8601 with a zone)."),
            ]
            fields["as_of"] = (as_of, None)
        tokens = Annotated[
            int,
            Field(ge=LEAST_TOKENS, le=MAX_ALLOWED_TOKENS, description="Longest answer, in tokens."),
        ]
        fields["max_tokens"] = (tokens, MAX_TOKENS)
        return create_model(
            f"{self.name.replace('-', '_')}_arguments",
            __config__=ConfigDict(extra="forbid"),
            **fields,
        )

    @cached_property
    def schema(self) -> Schema:
        """The JSON schema of the arguments."""
        return argument_schema(self.model)

    @cached_property
    def answer(self) -> Schema:
        """The JSON schema of an answer."""
        return answer_schema(self.returns)

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments."""
        return list(self.model.model_fields)

    def validate(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """The arguments as Python values; InputError names the first one that is wrong."""
        if unknown := [name for name in arguments if name not in self.model.model_fields]:
            raise InputError(
                f"unknown argument {unknown[0][:LONGEST_NAME]!r}: {self.name} takes "
                f"{', '.join(self.arguments)}"
            )
        try:
            made = self.model.model_validate(
                {k: v for k, v in arguments.items() if v is not None or k not in BOUNDS}
            )
        except ValidationError as error:
            raise InputError(f"{self.name}: {first_error(error)}") from None
        return {name: getattr(made, name) for name in self.arguments}


BOUNDS = ("limit", "max_tokens")
"""Arguments that may be null, as all others of which a tool has a default: then it is theirs."""


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong, with what was given."""
    first = error.errors()[0]
    name = ".".join(
        str(part) for part in first["loc"] if not isinstance(part, str) or part != "str"
    )
    if first["type"] == "missing":
        return f"the argument {name!r} is missing"
    given = repr(first.get("input"))
    given = given if len(given) <= 80 else given[:80] + "…"
    return f"{name}: {first['msg'][0].lower()}{first['msg'][1:]} (given {given})"


Row = dict[str, object]
"""A row that a vendor shapes, with that vendor's own keys."""
REGISTRY: dict[str, Tool] = {}
SERVERS: dict[str, str] = {}
"""What each server is for, by its name."""


def server(name: str, purpose: str) -> str:
    """Say what a server is for; returns its name."""
    SERVERS[name] = purpose
    return name


F = TypeVar("F", bound=Callable[..., Any])


def tool(
    server: str,
    *,
    example: Example,
    name: str | None = None,
    rows: Rows | None = None,
    services: tuple[str, ...] = (),
    outside: bool = True,
    limit: ToolLimit | None = None,
    probe: str | None = None,
) -> Callable[[F], F]:
    """Register a function as a tool of a server. The TypedDict that it returns is the shape of its
    answers: a key that may be absent is NotRequired, one that may be unknown at t is null. `probe`
    names the live check that covers it."""

    def register(function: F) -> F:
        made = Tool(
            name or function.__name__,
            server,
            function,
            get_type_hints(function)["return"],
            example,
            rows,
            services,
            outside,
            limit,
            probe,
        )
        if made.name in REGISTRY:
            raise ValueError(f"two tools are named {made.name}")
        REGISTRY[made.name] = made
        return function

    return register


def find_tool(name: str, caller: Caller = OWNER) -> Tool:
    """A tool by its name; NotFound names close ones, of those that the caller may use."""
    found = REGISTRY.get(name)
    if found is not None and caller.allows(found.server):
        return found
    names = [tool.name for tool in REGISTRY.values() if caller.allows(tool.server)]
    raise NotFound(f"no tool is named {name[:LONGEST_NAME]!r}: {close_to(name, names)}")


def close_to(name: str, names: list[str]) -> str:
    """The names that may have been meant; a very long name is not compared with any."""
    from rapidfuzz import process

    if len(names) <= 8 or len(name) > LONGEST_NAME:
        return f"there is {', '.join(names[:8])}{'…' if len(names) > 8 else ''}"
    found = process.extract(name, names, limit=3)
    return f"perhaps {' or '.join(match for match, _, _ in found)}"


class Toolbox:
    """Tools over one gateway, for one caller. With `pinned`, every call is answered as of that
    instant at the latest: the toolbox shows nothing later."""

    def __init__(
        self,
        gateway: Gateway,
        storage: Storage,
        pinned: datetime | None = None,
        caller: Caller = OWNER,
        bounded: bool = True,
    ) -> None:
        """Without `bounded` an answer is as long as it is, unless a call says `max_tokens`: for
        programs, which read no tokens."""
        self.gateway, self.storage, self.pinned, self.caller = gateway, storage, pinned, caller
        self.bounded = bounded

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        signals: CallSignals | None = None,
    ) -> ToolAnswer:
        """Validate, admit, run and bound one call. Raises our errors only."""
        return self.run(find_tool(name), arguments or {}, signals)

    def run(
        self, found: Tool, arguments: Mapping[str, object], signals: CallSignals | None = None
    ) -> ToolAnswer:
        """The same for a Tool instead of its name."""
        try:
            return self._run(found, arguments, signals)
        except BeforehandError as error:
            raise self.caller.told(error) from error.__cause__

    def _run(
        self, found: Tool, arguments: Mapping[str, object], signals: CallSignals | None
    ) -> ToolAnswer:
        values = found.validate(arguments)
        max_tokens = values.pop("max_tokens")
        if not self.bounded and "max_tokens" not in arguments:
            max_tokens = sys.maxsize
        view = self._view(values.pop("as_of", None))
        cursor = values.pop("cursor", None)
        limit = values.pop("limit", None)
        # A cursor belongs to a tool and its arguments: another question starts at the first row.
        pin = "" if view.live else iso(view.t)
        asked = f"{found.name}:{digest(repr((pin, sorted(values.items()))).encode())[:8]}"
        skip = decode_cursor(cursor, asked)
        self.caller.admit(found)
        call = Call(
            view, self.storage, self, wanted=limit or 0, skip=skip, signals=signals or CallSignals()
        )
        with counting() as spent:
            result = found.function(call, **values)
        meta: AnswerMeta = {"tool": found.name}
        if found.outside:
            meta["as_of"] = None if view.live else iso(view.t)
            meta["world"] = self.storage.mode
            if getattr(self.gateway.world, "simulated", False):
                meta["simulated"] = True
        if found.outside and view.live:
            meta["cost"] = {"requests": spent.requests, "usd": round(spent.usd, 6)}
            if spent.unread:
                call.note(f"{spent.unread} rows of the service could not be read and were left out")
        # No cost under a pin: how many pages a service needed may depend on what came after t.
        if call.notes:
            meta["notes"] = call.notes
        cursor_at = Page(limit or 0, skip, call.total)
        answer = bound(result, found.rows, cursor_at, max_tokens, meta, asked)
        return replace(answer, spent=spent)

    def _view(self, as_of: str | None) -> View:
        view = self.gateway.live() if self.pinned is None else self.gateway.at(self.pinned)
        if as_of is None:
            return view
        try:
            return view.narrow(parse_instant(as_of))
        except ValueError as error:
            raise InputError(f"as_of: {error}") from None


def coerce(found: Tool, texts: Mapping[str, str]) -> dict[str, object]:
    """Arguments from the command line: a text where a text is wanted, else JSON; a list may be
    written with commas."""
    return coerce_fields(found.model.model_fields, texts)


def coerce_fields(fields: Mapping[str, FieldInfo], texts: Mapping[str, str]) -> dict[str, object]:
    """The same for the fields of any model of arguments."""
    from orjson import JSONDecodeError, loads

    values: dict[str, object] = {}
    for name, text in texts.items():
        entry = fields.get(name)
        wanted = None if entry is None else _kinds(entry.annotation)
        if wanted is None or (str in wanted and not wanted & {list, dict, tuple}):
            values[name] = text
            continue
        try:
            values[name] = loads(text)
        except JSONDecodeError:
            values[name] = (
                [part.strip() for part in text.split(",") if part.strip()]
                if wanted & {list, tuple}
                else text
            )
            continue
        if wanted & {list, tuple} and not isinstance(values[name], list):
            values[name] = [text]
    return values


def _kinds(annotation: Any) -> set[type]:
    """The plain types in an annotation."""
    origin = get_origin(annotation)
    if origin is Literal:
        return {str}
    if origin in (Union, UnionType, Annotated):
        return set().union(*(_kinds(part) for part in get_args(annotation)))
    found = origin or annotation
    return {found} if isinstance(found, type) else set()


META: Schema = {
    "type": "object",
    "description": "As of when, from which world, what it cost, what was cut.",
}


def argument_schema(model: type[BaseModel]) -> Schema:
    """The schema of a tool's arguments."""
    found = _plain(model.model_json_schema())
    found["properties"] = {
        name: _without_null(entry) for name, entry in found.get("properties", {}).items()
    }
    return found


def answer_schema(shape: Any) -> Schema:
    """The schema of a tool's answer: the shape, and `_meta`."""
    found = _plain(TypeAdapter(shape).json_schema())
    found.pop("description", None)
    found.setdefault("properties", {})["_meta"] = META
    return found


def _without_null(entry: Schema) -> Schema:
    """`X or null, by default null` as X."""
    made = entry.copy()
    if made.get("default", ...) is None:
        del made["default"]
    if "anyOf" in made:
        kept = [part for part in made.pop("anyOf") if part.get("type") != "null"]
        made = {**kept[0], **made} if len(kept) == 1 else {"anyOf": kept, **made}
    return made


VERBATIM = frozenset({"default", "const", "enum", "examples"})


def _plain(schema: Any) -> Schema:
    """A schema without titles and references. (No tool has a recursive type.)"""
    definitions = schema.get("$defs", {})

    def walk(value: Any, names: bool = False) -> Any:
        """`names` is True among properties, where a key is a name and not a keyword."""
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

    made: Schema = walk(schema)
    return made
