"""A scored run as CSV for spreadsheets: the leaderboard, the questions, the bets, the pairs."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from beforehand.clock import from_us, iso
from beforehand.records.rows import PairWire
from beforehand.records.spreadsheet import spreadsheet_cell
from beforehand.score.bets import Profit
from beforehand.score.evaluate import Result
from beforehand.score.report.words import gained
from beforehand.score.scoreboard import Row
from beforehand.score.skill import MARKET, skill_columns
from beforehand.score.summary import BoardRow, ProfitWire, bet_wire
from beforehand.score.table import Floats, Ints, Table

CSV_COLUMNS = (
    "forecaster",
    "n",
    "n_questions",
    "missing",
    "answered",
    "brier",
    "brier_low",
    "brier_high",
    "market_brier",
    "log_loss",
    "els",
    "skill_vs_market",
    "skill_low",
    "skill_high",
    "leading",
    "gain",
    "gain_low",
    "gain_high",
    "gain_bound_low",
    "gain_bound_high",
    "effective_periods",
    "accuracy",
    "ece",
    "market_correlation",
    "effective_n",
    "kelly_bets",
    "kelly_staked",
    "kelly_fees",
    "kelly_unfunded",
    "kelly_final_wealth",
    "kelly_roi",
    "kelly_roi_low",
    "kelly_roi_high",
    "kelly_max_drawdown",
    "kelly_drawdown_at_prices",
    "kelly_by_chance",
    "kelly_best_by_chance",
    "kelly_roi_equal",
    "kelly_sharpe",
    "kelly_note",
    "verdict",
    "isolation",
    "order",
)


def leaderboard_csv(board: Sequence[BoardRow]) -> bytes:
    """The leaderboard as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    added = [name + end for name in board[0].get("added", {}) for end in ("", "_low", "_high")]
    columns = [*CSV_COLUMNS, *added]
    writer.writerow(columns)
    for row in board:
        cells = csv_cells(row)
        writer.writerow([spreadsheet_cell(cells[name]) for name in columns])
    return out.getvalue().encode()


def csv_cells(row: BoardRow) -> dict[str, object]:
    """One row of the leaderboard by the columns of the CSV: those of `CSV_COLUMNS`, then those of
    added metrics."""
    nested, whole = _flat(row), cast(Mapping[str, object], row)
    cells = {name: nested.get(name, whole.get(name)) for name in CSV_COLUMNS}
    return {**cells, **{name: cell for name, cell in nested.items() if name not in cells}}


def _flat(row: BoardRow) -> dict[str, object]:
    """The columns that JSON nests."""
    kelly = row["kelly"]
    (brier_low, brier_high), (skill_low, skill_high) = row["brier_ci"], row["skill_ci"]
    added = dict[str, object]()
    for name, metric in row.get("added", {}).items():
        added[name] = metric["value"]
        added[f"{name}_low"], added[f"{name}_high"] = metric["ci"]
    gain, (gain_low, gain_high), (bound_low, bound_high) = gained(row)
    return {
        **added,
        "gain": gain,
        "gain_low": gain_low,
        "gain_high": gain_high,
        "gain_bound_low": bound_low,
        "gain_bound_high": bound_high,
        "effective_periods": row["evidence"]["effective_periods"] if "evidence" in row else None,
        "brier_low": brier_low,
        "brier_high": brier_high,
        "skill_low": skill_low,
        "skill_high": skill_high,
        **_kelly(kelly),
    }


def _kelly(kelly: ProfitWire | str) -> dict[str, object]:
    """The columns of the bets: figures where there are any, and one sentence."""
    if isinstance(kelly, str):
        return {"kelly_note": kelly}
    names = ("bets", "staked", "fees", "unfunded", "final_wealth", "roi", "max_drawdown", "sharpe")
    low, high = kelly["roi_ci"]
    return {
        **{f"kelly_{name}": kelly[name] for name in (*names, "note")},  # type: ignore[literal-required]
        "kelly_roi_low": low,
        "kelly_roi_high": high,
        "kelly_drawdown_at_prices": kelly.get("drawdown_at_prices"),
        "kelly_by_chance": kelly.get("by_chance"),
        "kelly_best_by_chance": kelly.get("best_by_chance"),
        "kelly_roi_equal": kelly.get("roi_equal"),
    }


BET_COLUMNS = (
    "forecaster",
    "market_id",
    "time",
    "question",
    "venue",
    "side",
    "forecast",
    "market",
    "price",
    "wanted",
    "stake",
    "fee_rate",
    "fee",
    "gain",
    "wealth",
    "event",
    "outcome",
    "settled",
)
AT_ONCE = 4096
"""Rows of questions.csv that are made at once."""
QUESTION_COLUMNS = (
    "forecaster",
    "market_id",
    "question",
    "venue",
    "category",
    "outcome",
    "settled",
    "n",
    "brier",
    "skill_vs_market",
    "event",
    "month",
)
PAIR_COLUMNS = (
    "a",
    "b",
    "n",
    "n_questions",
    "n_events",
    "brier_a",
    "brier_b",
    "difference",
    "low",
    "high",
    "gain",
    "gain_low",
    "gain_high",
    "effective_periods",
    "verdict",
    "compared_by",
)


def bets_csv(rows: Sequence[Row], table: Table, texts: Mapping[str, str | None]) -> bytes:
    """Every Kelly bet of every forecaster as CSV, in the order in which they were made; `wealth` is
    that before the bet, `wanted` the share of it that the rule asks for (with the fee; less is
    staked where the cash does not reach), `event` numbers what counts as one. `texts` are the
    questions' by id."""
    out, table = io.StringIO(), table.whole
    writer = csv.DictWriter(out, BET_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        if isinstance(found := row.profit, Profit):
            for i in range(found.bets):
                bet = bet_wire(found, i, table, row.forecaster)
                market = bet["market_id"]
                place = int(found.question[i])
                named = {
                    "question": texts.get(market),
                    "venue": market.partition(":")[0],
                    "fee_rate": float(table.fee[place]),
                    "wealth": float(found.before[i]),
                    "wanted": float(found.wanted[i]),
                    "event": int(table.event[place]),
                }
                cells = {"forecaster": row.forecaster, **bet, **named}
                writer.writerow({name: spreadsheet_cell(cell) for name, cell in cells.items()})
    return out.getvalue().encode()


def questions_csv(result: Result, texts: Mapping[str, str | None]) -> Iterator[bytes]:
    """Every question of every forecaster as lines of CSV: its mean scores there, and which
    questions count as one: `event` and `month` number the clusters that intervals are drawn
    from."""
    yield _line(QUESTION_COLUMNS).encode()
    table = result.table
    about = [*_about_each(table, texts)]
    for row in result.rows:
        p = table.market if row.forecaster == MARKET else table.forecasts[row.forecaster]
        n, brier = _of_questions(table, p)
        skill, priced = skill_columns(table, p)
        who, there = _line([spreadsheet_cell(row.forecaster)])[:-1], np.flatnonzero(n)
        for start in range(0, len(there), AT_ONCE):
            at = there[start : start + AT_ONCE]
            columns = (n, brier, skill, priced, table.event, table.period)
            numbers = zip(at.tolist(), *(one[at].tolist() for one in columns), strict=True)
            yield "".join(
                f"{who},{about[i]},{many},{error},{gain if has else ''},{event},{month}\n"
                for i, many, error, gain, has, event, month in numbers
            ).encode()


def _about_each(table: Table, texts: Mapping[str, str | None]) -> Iterator[str]:
    """The cells of each question that are the same for every forecaster, as text: they are written
    once. What is text in them is safe to open."""
    cell = spreadsheet_cell
    categories = table.category or [""] * len(table.questions)
    each = zip(table.questions, categories, table.y, table.resolved_at, strict=True)
    for market, category, y, settled in each:
        venue, when = market.partition(":")[0], iso(from_us(int(settled))) if settled else ""
        words = map(cell, (market, texts.get(market), venue, category))
        yield _line([*words, float(y), when])[:-1]


def _line(cells: Sequence[object]) -> str:
    """A line of CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _of_questions(table: Table, p: Floats) -> tuple[Ints, Floats]:
    """How many forecasts each question has, and their mean Brier score."""
    counts, scores = list[Ints](), list[Floats]()
    for rows, part in table.blocks():
        mine, valid = p[rows], np.isfinite(p[rows])
        counts.append(np.bincount(part.q[valid], minlength=len(part.questions)))
        scores.append(part.question_means((mine - part.y[part.q]) ** 2, valid)[0])
    return np.concatenate(counts), np.concatenate(scores)


def pairs_csv(pairs: Sequence[PairWire]) -> bytes:
    """Every two forecasters against each other as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, PAIR_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for found in pairs:
        low, high = found["ci"]
        how = "Brier score on shared rows" if "skills" not in found else "skill at own instants"
        least, most = found["gain_bounds"]
        cells = {**found, "low": low, "high": high, "compared_by": how}
        cells |= {"gain_low": least, "gain_high": most}
        writer.writerow({name: spreadsheet_cell(cell) for name, cell in cells.items()})
    return out.getvalue().encode()
