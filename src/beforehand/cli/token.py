"""`beforehand token issue|list|usage|revoke`: bearer tokens for the servers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, note, plain_table
from beforehand.clock import SystemClock, iso, parse_instant
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, InputError, NotFound
from beforehand.store.tokens import BUDGET, CENT, SCOPES, Token

if TYPE_CHECKING:
    from beforehand.tools.caller import ToolLimit

MOST_CALLS, MOST_TOKENS, MOST_DOLLARS = 1_000_000, 1_000, 1_000_000
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
LONGEST = timedelta(days=366)
USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


@Parameter(name="*")
@dataclass
class Several:
    """A token for each of several pins."""

    every: Annotated[
        str | None,
        Parameter(
            help="With --as-of and --count: a token for each of several instants, so far apart."
        ),
    ] = None
    count: Annotated[int, Parameter(help="How many tokens, with --every.")] = 1


@Parameter(name="*")
@dataclass
class Allowance:
    """What the token's user may use."""

    quota: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="How often its user may call what is limited, as executions=500 (within the "
            "documented time) [the documented number]. Repeat.",
        ),
    ] = None
    budget: Annotated[
        float | None,
        Parameter(help="Most US dollars that the runs of its user may cost, all together."),
    ] = None

    @property
    def pairs(self) -> tuple[tuple[str, int], ...]:
        """As the table of tokens keeps it. Raises InputError."""
        return (*_quotas(self.quota or ()), *_budget(self.budget))


def issue(
    *,
    user: Annotated[str, Parameter(help="The token's user; quotas count per user.")],
    servers: Annotated[str, Parameter(help="Servers it covers, separated by commas.")] = "all",
    scopes: Annotated[
        str,
        Parameter(
            help="What it allows: read (runs, worlds), start (and stop runs), tools; with commas."
        ),
    ] = "read,tools",
    expires: Annotated[str, Parameter(help="For how long: 12h, 30d, at most 366d.")] = "30d",
    as_of: Annotated[
        str | None, Parameter(help="Pin the token to this instant: its user sees nothing later.")
    ] = None,
    several: Several | None = None,
    allowance: Allowance | None = None,
    json: Json = False,
) -> int:
    """Issue a bearer token. Its text is printed once and stored nowhere.

    With `--every` and `--count` one for each of several pins: lines of the instant and its token.
    """
    from beforehand.serve.auth import open_tokens

    if not USER.fullmatch(user):
        raise InputError(
            f"--user {user!r} must be one word of letters, digits and . _ @ + -, at most 64"
        )
    clock = SystemClock()
    covered, allowed, pinned = _servers(servers), _scopes(scopes), _pin(as_of)
    quotas = () if allowance is None else allowance.pairs
    now = clock.now()
    ends, pins = now + _span(expires), _pins(pinned, several)
    with open_tokens(Workspace.from_environment()) as tokens:
        issued = [tokens.issue(user, covered, now, ends, pin, allowed, quotas) for pin in pins]
    if json:
        rows = [{"token": text, **_row(made, now)} for text, made in issued]
        emit(rows[0] if several is None else rows)
        return EXIT_OK
    made = issued[0][1]
    for said, one in issued:
        print(said if several is None or one.as_of is None else f"{iso(one.as_of)} {said}")
    if several is not None:
        note(f"{len(issued):,} tokens of {user}, shown this once; keep them like passwords")
        return EXIT_OK
    pin = "" if pinned is None else f", pinned to {iso(pinned)}"
    note(
        f"token {made.id} of {user}: {', '.join(sorted(allowed))}; {_covers(made)}, "
        f"until {iso(made.expires_at)}{pin}. It is shown this once; keep it like a password"
    )
    return EXIT_OK


def _pins(first: datetime | None, several: Several | None) -> list[datetime | None]:
    """The instants to pin tokens to. Raises InputError."""
    if several is None:
        return [first]
    every, count = several.every, several.count
    if not 1 <= count <= MOST_TOKENS:
        raise InputError(f"--count must lie between 1 and {MOST_TOKENS:,}, not {count:,}")
    if every is not None and count == 1:
        raise InputError("--every needs --count: for how many instants")
    if every is None:
        raise InputError("--count needs --as-of and --every: how far apart the instants lie")
    if first is None:
        raise InputError("--every needs --as-of: the first instant")
    from beforehand.jobs.backtest.grid import parse_interval  # It loads numpy.

    pins: list[datetime | None] = [first + k * parse_interval(every) for k in range(count)]
    past = sum(1 for pin in pins if pin is not None and pin <= SystemClock().now())
    if past < count:
        raise InputError(
            f"only {past:,} of these {count:,} pins lie in the past, and nobody can be pinned to "
            f"the future: ask for --count {past}"
        )
    return pins


def list_(
    *,
    user: Annotated[str | None, Parameter(help="Only this user's tokens.")] = None,
    json: Json = False,
) -> int:
    """List the tokens that were issued, never their text."""
    from beforehand.serve.auth import open_tokens

    now = SystemClock().now()
    with open_tokens(Workspace.from_environment()) as tokens:
        rows = [_row(token, now) for token in tokens.all(user)]
    if json:
        emit({"tokens": rows})
        return EXIT_OK
    if not rows:
        print("no token was issued: beforehand token issue --user NAME --servers all")
        return EXIT_OK
    names = ["id", "user", "scopes", "servers", "as_of", "expires_at", "state"]
    names += [name for name in ("quotas", "budget") if any(row[name] for row in rows)]
    print(plain_table([names, *([_cell(row[name]) for name in names] for row in rows)]))
    return EXIT_OK


def usage(
    *,
    user: Annotated[str | None, Parameter(help="Only this user.")] = None,
    json: Json = False,
) -> int:
    """What each user of a valid token has used of the quotas, and what is left.

    A user's tokens share what was used; where their limits differ, each limit is listed with its
    tokens. Who has paid for runs is listed also without a valid token. Of several budgets of a user
    the one that was stated last holds.
    """
    from beforehand.serve.auth import open_quotas, open_tokens, span
    from beforehand.serve.budgets import budget_of, payers_of

    workspace, now = Workspace.from_environment(), SystemClock().now()
    with open_tokens(workspace) as tokens:
        valid = [token for token in tokens.all(user) if token.state(now) == "valid"]
    payers = [name for name in payers_of(workspace) if user in (None, name)]
    quotas, rows = open_quotas(workspace), list[dict[str, object]]()
    for name in dict.fromkeys([*(token.user for token in valid), *payers]):
        mine = [token for token in valid if token.user == name]
        for limit in _limits().values() if mine else ():
            used, holders = quotas.used(name, limit), dict[int, list[str]]()
            for token in mine:
                most = dict(token.quotas).get(limit.name, limit.calls)
                holders.setdefault(most, []).append(token.id)
            rows += [
                {
                    "user": name,
                    "limit": limit.name,
                    "used": used,
                    "left": max(most - used, 0),
                    "of": most,
                    "seconds": limit.seconds,
                    "tokens": holders[most] if len(holders) > 1 else "all",
                }
                for most in sorted(holders, reverse=True)
            ]
        budget = budget_of(workspace, name)
        if budget is not None or name in payers:
            rows.append(_spent(workspace, name, budget))
    quotas.close()
    if json:
        emit({"usage": rows})
    elif not rows:
        whose = "no token is valid" if user is None else f"{user} has no valid token"
        print(f"{whose}, and no run was paid for: beforehand token issue --user NAME --servers all")
    else:
        head = ["user", "limit", "used", "left", "of", "in"]
        head += ["tokens"] if any(isinstance(row["tokens"], list) for row in rows) else []
        for row in rows:
            row["in"] = span(row["seconds"]) if isinstance(row["seconds"], int) else "all"
        print(plain_table([head, *([_cell(row[name]) for name in head] for row in rows)]))
    return EXIT_OK


def _spent(workspace: Workspace, user: str, budget: float | None) -> dict[str, object]:
    """What is left of a user's budget, where there is one: what the runs under way may still spend
    is taken."""
    from beforehand.serve.budgets import spoken_for

    used = spoken_for(workspace, user)
    return {
        "user": user,
        "limit": "US dollars for runs",
        "used": round(used, 6),
        "left": None if budget is None else round(max(budget - used, 0), 6),
        "of": budget,
        "seconds": None,
        "tokens": "all",
    }


def revoke(
    token_id: Annotated[str | None, Parameter(help="The token's id, from `token list`.")] = None,
    /,
    *,
    user: Annotated[str | None, Parameter(help="Revoke all tokens of this user instead.")] = None,
    json: Json = False,
) -> int:
    """End a token, or all of a user's. Running servers refuse it within a second."""
    from beforehand.serve.auth import open_tokens

    if (token_id is None) == (user is None):
        raise InputError("name a token's id, or --user NAME for all of a user's")
    now = SystemClock().now()
    with open_tokens(Workspace.from_environment()) as tokens:
        if token_id is not None:
            ended = [tokens.revoke(token_id, now)]
        else:
            valid = [t for t in tokens.all(user) if t.state(now) == "valid"]
            if not valid:
                raise NotFound(f"{user} has no valid token: `beforehand token list` shows all")
            ended = [tokens.revoke(token.id, now) for token in valid]
    if json:
        emit({"revoked": [_row(token, now) for token in ended]})
        return EXIT_OK
    for token in ended:
        print(f"token {token.id} of {token.user} is revoked")
    return EXIT_OK


def _servers(text: str) -> frozenset[str] | None:
    from beforehand.serve.backend import ALL, named

    names = [named(part.strip()) for part in text.split(",") if part.strip()]
    if not names:
        raise InputError("--servers names no server: give names separated by commas, or all")
    return None if ALL in names else frozenset(names)


def _scopes(text: str) -> frozenset[str]:
    names = {part.strip() for part in text.split(",") if part.strip()}
    if not names or names - SCOPES:
        raise InputError(f"--scopes {text!r} must be some of {', '.join(sorted(SCOPES))}")
    return frozenset(names)


def _limits() -> "dict[str, ToolLimit]":
    """What is limited, by name."""
    from beforehand.tools.discovery import load_tools

    found = (tool.limit for tool in load_tools().values())
    return {limit.name: limit for limit in found if limit is not None}


def _quotas(stated: Sequence[str]) -> tuple[tuple[str, int], ...]:
    if not stated:
        return ()
    known, found = _limits(), dict[str, int]()
    for text in stated:
        name, _, calls = text.partition("=")
        if name not in known or not calls.isdecimal() or not 0 < int(calls) <= MOST_CALLS:
            raise InputError(
                f"--quota {text!r}: write NAME=CALLS, where NAME is one of "
                f"{', '.join(sorted(known))}, such as executions=500"
            )
        found[name] = int(calls)
    return tuple(sorted(found.items()))


def _budget(dollars: float | None) -> tuple[tuple[str, int], ...]:
    if dollars is None:
        return ()
    if not 0 <= dollars <= MOST_DOLLARS:
        raise InputError(f"--budget must lie between 0 and {MOST_DOLLARS:,} US dollars")
    return ((BUDGET, round(dollars * CENT)),)


def _pin(as_of: str | None) -> datetime | None:
    try:
        pinned = None if as_of is None else parse_instant(as_of)
    except ValueError as error:
        raise InputError(f"--as-of: {error}") from None
    if pinned is not None and pinned > SystemClock().now():
        raise InputError(f"--as-of {as_of} lies in the future: a pin lies in the past")
    return pinned


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([mhd])", text.strip())
    if not found:
        raise InputError(f"--expires {text!r} must be a number with m, h or d, such as 12h or 30d")
    span = int(found[1]) * UNITS[found[2]]
    if not timedelta(0) < span <= LONGEST:
        raise InputError(f"--expires {text} must lie above 0 and at most {LONGEST.days} days")
    return span


def _row(token: Token, now: datetime) -> dict[str, object]:
    return {
        "id": token.id,
        "user": token.user,
        "scopes": sorted(token.scopes),
        "servers": "all" if token.servers is None else sorted(token.servers),
        "as_of": None if token.as_of is None else iso(token.as_of),
        "created_at": iso(token.created_at),
        "expires_at": iso(token.expires_at),
        "quotas": {name: n for name, n in token.quotas if name != BUDGET},
        "budget": next((n / CENT for name, n in token.quotas if name == BUDGET), None),
        "state": token.state(now),
    }


def _covers(token: Token) -> str:
    return "all servers" if token.servers is None else ", ".join(sorted(token.servers))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ",".join(f"{name}={n}" for name, n in value.items()) or "-"
    return ",".join(value) if isinstance(value, list) else str(value)
