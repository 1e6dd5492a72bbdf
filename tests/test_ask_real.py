"""The orchestrator over real recorded data: fifteen questions and more, as of instants in the past.
The figures of an answer are those that SQL finds in the same archive, and each citation is there."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from beforehand.cli.app import run as cli
from beforehand.jobs.ask.answer import cited
from experiments import Out, told
from proofs import some

pytestmark = pytest.mark.real_data
RATES = "What is priced in for a rate cut in December, and how did it move this month?"
QUESTIONS: list[tuple[str, str, set[str]]] = [
    # One agent's kind of record.
    ("Will Bitcoin reach $100k?", "2025-11-25", {"market"}),
    ("Bitcoin predictions", "2025-11-25", {"market"}),
    ("Who will win the Super Bowl?", "2025-11-25", {"market"}),
    ("What do the markets say about OpenAI?", "2025-11-25", {"market"}),
    ("How likely is it that China invades Taiwan by March 31, 2026?", "2026-02-10", {"market"}),
    ('quotes of "ESM4 P5230" on 2024-05-09', "2025-11-25", {"quotes", "statistics"}),
    # Several agents, and tasks that depend on others.
    (RATES, "2025-11-25", {"market", "price history"}),
    ("How did the odds of 4 Fed rate cuts in 2025 change over the last 3 months?", "2025-11-25",
     {"market", "price history"}),
    ("Will Bitcoin dip to $50,000, and how did it move since October?", "2025-11-25",
     {"market", "price history"}),
    ("Why did the odds of a government shutdown move?", "2025-10-01", {"document"}),
    ("What is new on tariffs, and why?", "2025-11-25", {"document"}),
    # Nothing found, in part or at all.
    ("Will Trump win 2024?", "2025-11-25", set()),
    # The text of these markets was known from February on.
    ("How likely is it that China invades Taiwan by March 31, 2026?", "2026-01-15", {"document"}),
    ("Will the moon be sold to Liechtenstein?", "2025-11-25", set()),
    ("How did the price of Bitcoin move this month?", "2024-01-01", set()),
    # Ambiguous: more than one reading, each said with its own record.
    ("Trump", "2025-11-25", {"market"}),
    ("rates", "2025-11-25", {"market"}),
]  # fmt: skip


@pytest.fixture
def quotes(data: Path, home: Path, capsys: Out) -> Path:
    """The real quotes, in the market-data table of this home: each was known when it was made."""
    path = data / "_look_only" / "options" / "cme_glbx_bbo1m_rows.csv"
    if not path.is_file():
        pytest.skip("the recorded quotes are not there")
    made = home / "quotes.csv"
    duckdb.sql(
        "COPY (SELECT * RENAME (raw_symbol AS symbol, last_price AS price), timestamp AS "
        f"created_at FROM read_csv('{path}', all_varchar=true)) TO '{made}'"
    )
    assert cli(["world", "import", "market-data", str(made)]) == 0
    capsys.readouterr()
    return made


class Sql:
    """The archive's own files, read by DuckDB."""

    def __init__(self, archive: Path) -> None:
        self._db = duckdb.connect()
        for kind in ("price", "market", "document", "resolution"):
            files = f"{archive}/segments/{kind}-*.jsonl.gz"
            read = f"FROM read_json_auto('{files}', format='newline_delimited', union_by_name=true)"
            columns = "*"
            if kind == "price":  # A market's prices are columns there; times in microseconds.
                columns = (
                    "market_id, unnest(price) AS price, "
                    "make_timestamp(unnest(observed_at)) AS observed_at, "
                    "make_timestamp(unnest(known_at)) AS known_at"
                )
            self._db.execute(f"CREATE VIEW {kind} AS SELECT {columns} {read}")

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, list(values)).fetchall()

    def price(self, market: str, at: str) -> float:
        """The last price that was known at an instant."""
        (row,) = self.rows(
            "SELECT price FROM price WHERE market_id LIKE '%' || ? AND known_at <= ?::TIMESTAMP "
            "ORDER BY known_at DESC, observed_at DESC LIMIT 1", market, at,
        )  # fmt: skip
        return float(row[0])

    def days(self, market: str, start: str, end: str, at: str) -> list[float]:
        """The prices of the days of a range that were known at an instant, in order."""
        found = self.rows(
            "SELECT price FROM price WHERE market_id LIKE '%' || ? AND known_at <= ?::TIMESTAMP "
            "AND observed_at >= ?::DATE AND observed_at < ?::DATE + 1 "
            "ORDER BY observed_at", market, at, start, end,
        )  # fmt: skip
        return [float(row[0]) for row in found]


@pytest.fixture(scope="module")
def sql(real: Path) -> Sql:
    return Sql(real)


def check(found: dict[str, Any], sql: Sql, home: Path, quotes: Path) -> int:
    """Every citation is used and resolves, and every figure beside it is the archive's. Returns how
    many prices were compared."""
    at, compared = found["as_of"], 0
    assert set(cited(found["answer"])) == {one["n"] for one in found["citations"]}
    for one in found["citations"]:
        rows = json.loads((home / one["file"]).read_text())["data"]
        line = next(t for t in found["answer"].splitlines() if f"[{one['n']}]" in t)
        if one["kind"] == "market":
            stated = re.search(r"Yes (?:is|was last) at ([0-9.e-]+)", line)
            if stated is not None:
                assert float(stated[1]) == pytest.approx(sql.price(one["id"], at), rel=1e-5)
                compared += 1
            ended = re.search(r"ended (Yes|No) on", line)
            if ended is not None:
                (payout,) = sql.rows(
                    "SELECT payout FROM resolution WHERE market_id LIKE '%' || ? AND "
                    "known_at::TIMESTAMP <= ?::TIMESTAMP", one["id"], at,
                )[0]  # fmt: skip
                assert payout == (ended[1] == "Yes")
            (title,) = sql.rows("SELECT question FROM market WHERE id LIKE '%' || ?", one["id"])[:1]
            assert title[0] == one["title"]
        elif one["kind"] == "price history":
            (row,) = (row for row in rows if row["market_id"] == one["id"])
            days = sql.days(one["id"], one["start"], one["end"], at)
            assert (row["first"]["yes"], row["last"]["yes"]) == (days[0], days[-1])
            assert (row["low"], row["high"]) == (min(days), max(days))
            for figure in (days[0], days[-1], min(days), max(days)):
                assert f"{figure:g}" in line
            assert row["change"] == pytest.approx(days[-1] - days[0], abs=1e-6)
        elif one["kind"] == "document":
            (row,) = sql.rows(
                "SELECT title FROM document WHERE id = ? AND known_at::TIMESTAMP <= ?::TIMESTAMP",
                one["id"], at,
            )  # fmt: skip
            assert row[0] in line
        elif one["kind"] == "page":
            assert any(hit["url"] == one["id"] for hit in rows[0]["results"])
        elif one["kind"] == "statistics":
            (sides,) = sql.rows(
                "SELECT count(bid), min(bid), max(bid), avg(bid) FROM read_csv_auto(?) "
                "WHERE symbol = 'ESM4 P5230'", str(quotes),
            )  # fmt: skip
            stats = rows[0]["statistics"]
            assert stats["records_with_bid"] == sides[0] > 0
            assert (stats["bid_min"], stats["bid_max"]) == sides[1:3]
            assert stats["bid_avg"] == pytest.approx(sides[3])
    return compared


@pytest.mark.parametrize("model", ["", "scripted"])
def test_fifteen_questions(
    real: Path, sql: Sql, home: Path, quotes: Path, capsys: Out, model: str
) -> None:
    """Without a model the kinds of records are those of the question; a model that understands
    nothing may look for other things, and its figures are the archive's all the same."""
    assert len(QUESTIONS) >= 15
    compared = 0
    asked = some(
        f"questions over recorded markets{model and ', planned by a model'}",
        QUESTIONS[:: 8 if model else 5],
        QUESTIONS,
    )
    for question, at, kinds in asked:
        more = ("--model", model) if model else ()
        found = told(capsys, "ask", question, "--archive", str(real), "--as-of", at, *more)
        compared += check(found, sql, home, quotes)
        if model:
            assert found["planned_by"] == "scripted"
            continue
        assert {one["kind"] for one in found["citations"]} >= kinds, question
        if not kinds:
            assert "Nothing was found" in found["answer"], question
            assert found["not_found"], question
    assert cli(["bus", "verify"]) == 0
    assert compared >= ((1 if model else 4) if len(asked) < 15 else 20)


@pytest.mark.chaos
@pytest.mark.parametrize(("question", "at"), [(question, at) for question, at, _ in QUESTIONS])
def test_the_local_model_over_real_data(
    real: Path, sql: Sql, home: Path, quotes: Path, capsys: Out, question: str, at: str
) -> None:
    """A weak model plans and rates: whatever it says, the figures are the archive's."""
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    arguments = ("--archive", str(real), "--as-of", at, "--model", "local")
    found = told(capsys, "ask", question, *arguments)
    compared = check(found, sql, home, quotes)
    assert found["planned_by"] in ("local", "rules")
    assert ("note" in found) == (found["planned_by"] == "rules")
    kinds = sorted(one["kind"] for one in found["citations"])
    with capsys.disabled():
        print(f"{question}: planned by {found['planned_by']}, {compared} prices, {kinds}")
