"""Bearer tokens of the servers' users, in a table that holds their digests only.

A token is 256 random bits, too many to find it by trying values against its plain SHA-256. The
table says who uses it, what it allows, which servers it covers, until when, and the instant it is
pinned to and the quotas that replace the documented ones, if any.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from beforehand.clock import from_us, to_us
from beforehand.errors import BeforehandError, InputError, NotFound
from beforehand.store.database import Database

PREFIX = "bh_"
Scope = Literal["read", "start", "tools"]
SCOPES: frozenset[str] = frozenset(get_args(Scope))
"""What a token may allow: to read runs and worlds, to start and stop runs, to call tools."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, holder TEXT NOT NULL, servers TEXT NOT NULL,
  scopes TEXT NOT NULL, as_of BIGINT, created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL,
  quotas TEXT NOT NULL, revoked_at BIGINT
)
"""
_COLUMNS = "id, holder, servers, scopes, as_of, created_at, expires_at, quotas, revoked_at"
BUDGET, CENT = "budget", 100
"""The quota that caps what the runs of a user may cost, in US cents."""
QuotaPairs = tuple[tuple[str, int], ...]
"""Calls in a limit's window, by the limit's name."""


@dataclass(frozen=True)
class Token:
    """What is stored about a token; never the token itself. `servers` None covers all; `quotas`
    replace the usual ones."""

    id: str
    user: str
    servers: frozenset[str] | None
    scopes: frozenset[str]
    as_of: datetime | None
    created_at: datetime
    expires_at: datetime
    quotas: QuotaPairs = ()
    revoked_at: datetime | None = None

    def state(self, now: datetime) -> str:
        """valid, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else "valid"


class Tokens:
    """Safe for threads and processes."""

    def __init__(self, address: Path | str) -> None:
        """`address` is a SQLite file or a `postgresql://` URL."""
        self._database = Database(address)
        self._database.create(_SCHEMA)
        try:
            with self._database.read() as db:
                db.run(f"SELECT {_COLUMNS} FROM tokens LIMIT 0")
        except BeforehandError:
            raise InputError(
                f"{self._database.title} has tokens of an older beforehand: remove its table "
                "`tokens` (or the file) and issue them anew"
            ) from None
        if isinstance(address, Path) and not self._database.read_only:
            address.chmod(0o600)

    def issue(
        self,
        user: str,
        servers: frozenset[str] | None,
        now: datetime,
        expires_at: datetime,
        as_of: datetime | None = None,
        scopes: frozenset[str] = SCOPES,
        quotas: QuotaPairs = (),
    ) -> tuple[str, Token]:
        """Returns (the token's text, which is not stored anywhere, and what is stored about it)."""
        text = PREFIX + secrets.token_urlsafe(32)
        made = Token(secrets.token_hex(4), user, servers, scopes, as_of, now, expires_at, quotas)
        with self._database.write("tokens") as db:
            db.run(
                "INSERT INTO tokens VALUES (:id, :digest, :holder, :servers, :scopes, :as_of, "
                ":created, :expires, :quotas, NULL)",
                id=made.id,
                digest=_digest(text),
                holder=user,
                servers="*" if servers is None else ",".join(sorted(servers)),
                scopes=",".join(sorted(scopes)),
                as_of=None if as_of is None else to_us(as_of),
                created=to_us(now),
                expires=to_us(expires_at),
                quotas=",".join(f"{limit}={calls}" for limit, calls in quotas),
            )
        return text, made

    def find(self, text: str) -> Token | None:
        """The token of this text, in whatever state."""
        with self._database.read() as db:
            rows = db.run(
                f"SELECT {_COLUMNS} FROM tokens WHERE digest = :digest", digest=_digest(text)
            )
        return _token(rows[0]) if rows else None

    def all(self, user: str | None = None) -> list[Token]:
        """Every token, or a user's, newest first."""
        where = "" if user is None else "WHERE holder = :holder "
        values = {} if user is None else {"holder": user}
        with self._database.read() as db:
            rows = db.run(
                f"SELECT {_COLUMNS} FROM tokens {where}ORDER BY created_at DESC, id", **values
            )
        return [_token(row) for row in rows]

    def revoke(self, token_id: str, now: datetime) -> Token:
        """End a token; one that was revoked before stays so. Raises NotFound."""
        with self._database.write("tokens") as db:
            db.run(
                "UPDATE tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
                id=token_id,
                now=to_us(now),
            )
            rows = db.run(f"SELECT {_COLUMNS} FROM tokens WHERE id = :id", id=token_id)
        if not rows:
            raise NotFound(f"no token has the id {token_id!r}: `beforehand token list` shows all")
        return _token(rows[0])

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _token(row: tuple[Any, ...]) -> Token:
    name, user, servers, scopes, as_of, created, expires, quotas, revoked = row
    pairs = (part.partition("=") for part in quotas.split(",") if part)
    return Token(
        name,
        user,
        None if servers == "*" else frozenset(servers.split(",")),
        frozenset(scopes.split(",")),
        None if as_of is None else from_us(as_of),
        from_us(created),
        from_us(expires),
        tuple((limit, int(calls)) for limit, _, calls in pairs),
        None if revoked is None else from_us(revoked),
    )
