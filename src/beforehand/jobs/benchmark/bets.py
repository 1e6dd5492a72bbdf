"""Reading bets and their terms."""

import math
from pathlib import Path
from typing import Any

import orjson

from beforehand.errors import InputError
from beforehand.store.files import read_bytes, read_lines


def load_bets(path: Path, order: str) -> list[dict[str, Any]]:
    """A JSON file with a list `bets`, a JSON list, or JSONL; each bet needs entry_price in
    (0, 1) and won, and resolved_ts to be ordered by time."""
    try:
        body = orjson.loads(read_bytes(path))
        rows = body.get("bets", [body]) if isinstance(body, dict) else body
    except orjson.JSONDecodeError:
        rows = [_json(path, number, line) for number, line in read_lines(path)]
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} holds no list of bets")
    for number, bet in enumerate(rows, start=1):
        price = bet.get("entry_price") if isinstance(bet, dict) else None
        if not isinstance(price, int | float) or isinstance(price, bool) or not 0 < price < 1:
            raise InputError(f"{path}: bet {number}: entry_price must lie between 0 and 1")
        if not isinstance(bet.get("won"), bool):
            raise InputError(f"{path}: bet {number}: won must be true or false")
        if order == "time" and not isinstance(bet.get("resolved_ts"), int | float):
            raise InputError(f"{path}: bet {number}: resolved_ts is needed for --order time")
    return rows


def _json(path: Path, number: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}:{number}: not JSON: {error}") from None


def parse_terms(stake: str, fee: str) -> tuple[float, float]:
    """(amount, fee rate) from `flat:AMOUNT` and `none` or `rate:R`."""
    kind, _, amount = stake.partition(":")
    if kind != "flat" or not _number(amount) or float(amount) <= 0:
        raise InputError(f"--stake {stake!r}: write flat:AMOUNT, such as flat:1")
    if fee == "none":
        return float(amount), 0.0
    kind, _, rate = fee.partition(":")
    if kind != "rate" or not _number(rate) or not 0 <= float(rate) <= 1:
        raise InputError(f"--fee {fee!r}: write none or rate:R with R in [0, 1], such as rate:0.05")
    return float(amount), float(rate)


def _number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
