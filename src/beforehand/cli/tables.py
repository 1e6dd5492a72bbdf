"""What people see in the terminal: leaderboard, validity card, leak report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beforehand.cli.screen import screen

if TYPE_CHECKING:
    from beforehand.records.rows import PairWire
    from beforehand.score.summary import (
        DecisionCounts,
        PartWire,
        ResultWire,
        Summary,
    )

NAME_WIDTH, MANY, MOST_NAMED, FOLDED, GAPS_FOLDED, WITH_SKILL = 18, 3, 8, 80, 100, 110


def table(
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[str | Text]],
    name_width: int = NAME_WIDTH,
) -> Table:
    """A rich table; `columns` are (name, justify)."""
    made = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None,
        pad_edge=False,
    )
    for i, (name, justify) in enumerate(columns):
        # Only the first column, a name, may be cut; words go on below, figures are never cut.
        limit = name_width if i == 0 and len(columns) > MANY else None
        figures, first = justify == "right", i == 0
        made.add_column(
            name,
            justify=justify,  # type: ignore[arg-type]
            no_wrap=figures or (first and "\n" not in str(rows[0][0] if rows else "")),
            max_width=limit,
            min_width=max(len(str(row[i])) for row in rows) if figures and rows else None,
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def figure(value: float | None, digits: int = 4) -> str:
    """A number for the terminal; a dash for none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def span(interval: Sequence[float | None], digits: int = 4) -> str:
    """An interval for the terminal."""
    low, high = interval
    if low is None or high is None:
        return "–"
    from beforehand.score.report.words import digits_of

    digits = digits_of(interval, digits)
    return f"[{figure(low, digits)}, {figure(high, digits)}]"


def duration(seconds: float) -> str:
    """Seconds for people: `0.4 s`, `12 min`, `3 h 13 min`, `2 days 4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def short(name: str) -> str:
    """A forecaster's name; a long address is cut to its end, where addresses differ."""
    if name.startswith(("http://", "https://")) and len(name) > NAME_WIDTH:
        return "…" + name[1 - NAME_WIDTH :]
    return name


MOST_REASONS = 5
_TONE = {"beats the market": "green", "worse than the market": "red"}


def leaderboard(summary: "ResultWire", width: int = 140) -> Table:
    """The table a run ends with; a narrow terminal gets fewer columns, and at last two lines a
    forecaster, never cut figures."""
    from beforehand.score.report.words import gained, on_other_rows, verdict_text

    board = summary["leaderboard"]
    gaps = any(row["missing"] for row in board if row["forecaster"] != "market")
    other = on_other_rows(board)
    # What the widest table without this part needs, so that no figure is cut.
    folded = width < (GAPS_FOLDED if gaps else FOLDED)
    columns = [("forecaster", "left"), ("Brier ↓", "right"), ("gain ↑", "right")]
    columns += [("95 %", "right"), ("verdict", "left")]
    if width >= WITH_SKILL:
        columns[2:2] = [("skill ↑", "right")]
    if (width >= 90 or gaps) and not folded:
        columns[1:1] = [("n", "right")]
    if gaps and not folded:
        columns[2:2] = [("of", "right")]
    if (gaps or other) and width >= 130:
        columns[2 + gaps : 2 + gaps] = [("market, same rows", "right")]
    if width >= (165 if gaps or other else 130):
        after = columns.index(("Brier ↓", "right")) + 1
        columns[after:after] = [("Brier 95 %", "right")]
        columns[-1:-1] = [("ECE ↓", "right"), ("wealth", "right")]
    if folded:
        columns = [column for column in columns if column[0] != "verdict"]
    added = board[0].get("added", {})
    arrows = {"lower": "↓", "higher": "↑"}
    marks = {name: f"{name} {arrows[metric['better']]}" for name, metric in added.items()}
    columns[-1:-1] = [(mark, "right") for mark in marks.values() if not folded]
    rows = list[Sequence[str | Text]]()
    for row in board:
        kelly = row["kelly"]
        verdict = Text(verdict_text(row), style=_TONE.get(row["verdict"], "default"))
        cells: dict[str, str | Text] = {
            "forecaster": short(row["forecaster"]),
            "n": f"{row['n']:,}",
            "of": f"{row['n'] + row['missing']:,}",
            "market, same rows": figure(row["market_brier"]),
            "Brier ↓": figure(row["brier"]),
            "Brier 95 %": span(row["brier_ci"]),
            "skill ↑": figure(row["skill_vs_market"]),
            "gain ↑": figure(gained(row)[0]),
            "95 %": span(gained(row)[2]),
            "ECE ↓": figure(row["ece"], 3),
            "wealth": "–" if isinstance(kelly, str) else f"{kelly['final_wealth']:,.2f}",
            "verdict": verdict,
        }
        for name, metric in row.get("added", {}).items():
            cells[marks[name]] = figure(metric["value"])
        if folded:
            cells["forecaster"] = Text.assemble(short(row["forecaster"]), "\n", verdict)
        rows.append([cells[name] for name, _ in columns])
    return table("", columns, rows, 24 if folded else NAME_WIDTH)


def explain(out: Console, summary: "ResultWire") -> None:
    """Why a forecaster is still "not shown" whose interval excludes 0, that of its skill or that of
    its gain; and the failed bounds."""
    from beforehand.score.report.words import gained, unmet

    for row in summary["leaderboard"]:
        if row["verdict"] == "not ranked":
            out.print(Text(f"{row['forecaster']}: {'; '.join(row['reasons'])}", style="dim"))
        off = any(
            low is not None and high is not None and (low > 0 or high < 0)
            for low, high in (row["skill_ci"], gained(row)[1])
        )
        surprising = off and row["verdict"] == "not shown"
        if surprising and row["reasons"]:
            out.print(Text(f"{row['forecaster']}: {'; '.join(row['reasons'])}"), soft_wrap=True)
    for metric in summary["leaderboard"][0].get("added", {}).values():
        if "error" in metric:
            out.print(Text(metric["error"], style="red"), soft_wrap=True)
    for text in unmet(summary):
        out.print(Text(f"bound not met: {text}", style="red"), soft_wrap=True)


def _made(found: "DecisionCounts | None") -> str:
    """How models made their decisions; None if there are only baselines."""
    if not found or not (found["code"] + found["fallback"] + found["direct"] + found["failed"]):
        return ""
    ways = {
        "code": found["code"],
        "fallback": found["fallback"],
        "direct": found["direct"],
        "external": found["external"],
    }
    parts = [f"{n:,} {way}" for way, n in ways.items() if n]
    said = f"{', '.join(parts) or 'none'}; {found['failed']:,} failed"
    why = {**found["reasons"], **found["failures"]}
    if why:
        most = sorted(why.items(), key=lambda pair: -pair[1])[:MOST_REASONS]
        more = f", and {len(why) - len(most):,} other reasons" if len(why) > len(most) else ""
        said += f" ({', '.join(f'{name}: {n:,}' for name, n in most)}{more})"
    marks = {
        "cite what was not in their context": found["unshown_evidence_ids"],
        "on a question whose answer is older than the model's training": found[
            "answer_in_training"
        ],
    }
    return said + "".join(f"; {n:,} {text}" for text, n in marks.items() if n)


def print_result(summary: "Summary", report: Path, verbose: bool = False) -> None:
    """For people: the verdict, the leaderboard, what it lacks, and the report's path; with
    `verbose` also the validity card, every pair, the bets and the leak report."""
    from beforehand.score.report.words import headline, warnings

    out, leaks = screen(), summary["leaks"]
    out.print()
    out.print(Text(headline(summary), style="bold"), soft_wrap=True)
    out.print()
    out.print(leaderboard(summary, out.width))
    out.print()
    explain(out, summary)
    for text in warnings(summary):
        out.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)
    pairs = summary["pairs"]
    if pairs and (verbose or len(pairs) == 1):
        _pairs(out, pairs)
    if leaks["admitted_after_t"]:
        out.print(Text(f"{leaks['admitted_after_t']:,} records after t were shown", style="red"))
    made = summary.get("decisions")
    _apart(out, summary.get("short"))
    if verbose:
        _all_of_it(out, summary)
    else:
        _money(out, summary)
        if made and made["failed"]:
            _say(out, "decisions", _made(made))
    for name, rules in summary.get("answers", {}).items():
        read_by = ", ".join(f"{n:,} {rule}" for rule, n in sorted(rules.items()))
        _say(out, "answers", f"of {name}: {read_by}")
    if "rows" in summary:
        counted = summary["rows"]
        left = "".join(f", {n:,} left out ({r})" for r, n in summary.get("leave_out", {}).items())
        _say(out, "rows", f"{counted['scored']:,} of {sum(counted.values()):,} scored{left}")
    _say(out, "report", str(report))
    if not verbose:
        name = summary.get("run_id", "latest")
        what = "the validity card, the leak report, the bets, parts of the rows"
        _say(out, "more", f"`beforehand runs show {name} --verbose`: {what}")


def _all_of_it(out: Console, summary: "Summary") -> None:
    """What --verbose adds."""
    from beforehand.score.report.words import kept_from_the_future

    _card(out, summary)
    if kept := kept_from_the_future(summary["leaderboard"], short):
        _say(out, "kept", "from the future: " + "; ".join(kept))
    leaks = summary["leaks"]
    _say(
        out,
        "leaks",
        f"{leaks['admitted_after_t']} records after t shown, of {leaks['rechecked']:,} checked "
        f"again ({leaks['checked']:,} at the wall, {leaks['refused']} refused); evidence: "
        f"{leaks['evidence']}; canaries: {leaks['canaries']}; detector: {leaks['detector']}",
    )
    if made := _made(summary.get("decisions")):
        _say(out, "decisions", made)
    if drawn := summary["placebo"]:
        _say(
            out,
            "placebo",
            f"by resampled scores alone “beats the market” in {100 * drawn['any_share']:.1f} % of "
            f"{drawn['draws']} redraws without skill",
        )
    else:
        _say(out, "placebo", "not drawn: left out, or a bound of the card is not met")
    if common := summary["common"]:
        _common(out, common)
    _bets(out, summary)
    _slices(out, summary)


def _pairs(out: Console, pairs: "Sequence[PairWire]") -> None:
    """Every two forecasters under test against each other."""
    columns = [("a", "left"), ("b", "left"), ("n", "right"), ("Brier of a", "right")]
    columns += [("of b", "right"), ("b − a", "right"), ("95 %", "right"), ("verdict", "left")]
    rows = [
        [
            *(short(found["a"]), short(found["b"]), f"{found['n']:,}"),
            *(figure(found[name]) for name in ("brier_a", "brier_b", "difference")),
            *(span(found["ci"]), found["verdict"]),
        ]
        for found in pairs
    ]
    title = "forecaster against forecaster, on the rows that both answered"
    out.print(table(title, columns, rows))
    if len(pairs) > 1:
        out.print(
            Text(
                "(intervals of each pair alone; verdicts corrected for the pairs, Holm)",
                style="dim",
            )
        )
    out.print()


def _common(out: Console, found: "PartWire") -> None:
    """The scores on the rows that every forecaster answered."""
    if not found["n_forecasts"]:
        _say(out, "common", "there is no row that all of them answered")
        return
    columns = [("forecaster", "left"), ("n", "right"), ("Brier ↓", "right"), ("skill ↑", "right")]
    rows = [
        [short(r["forecaster"]), f"{r['n']:,}", figure(r["brier"]), figure(r["skill_vs_market"])]
        for r in found["leaderboard"]
    ]
    out.print(table("on the rows that all of them answered", columns, rows))
    out.print()


def _bets(out: Console, summary: "Summary") -> None:
    """What Kelly bets on the forecasts would have won."""
    from beforehand.score.report.words import luck, rare

    named = summary.get("subjects")
    columns = [("Kelly bets", "left"), ("n", "right"), ("staked", "right"), ("fees", "right")]
    columns += [("wealth, from 1", "right"), ("ROI", "right"), ("95 %", "right")]
    columns += [
        ("drawdown", "right"),
        ("at prices", "right"),
        ("by chance", "right"),
        ("Sharpe a bet", "right"),
    ]
    rows, why, lucky = [], set[str](), list[str]()
    for row in summary["leaderboard"]:
        kelly = row["kelly"]
        if isinstance(kelly, str):
            why.add(kelly)
            continue
        why.add(f"{kelly['fraction']:g} of Kelly, at most {kelly['cap']:g} a bet, {kelly['note']}")
        if kelly["unfunded"]:
            n = kelly["unfunded"]
            why.add(f"{short(row['forecaster'])} had no cash for {n:,} more, which are no bets")
        if cut := kelly.get("cut"):
            why.add(
                f"{cut:,} bets of {short(row['forecaster'])} were cut to the cash that was left"
            )
        cells = [short(row["forecaster"]), f"{kelly['bets']:,}"]
        cells += [figure(kelly["staked"], 2), figure(kelly["fees"], 3)]
        cells += [figure(kelly["final_wealth"], 3)]
        cells += ["–" if kelly["roi"] is None else f"{100 * kelly['roi']:.1f} %"]
        low, high = kelly["roi_ci"]
        if low is None or high is None:
            cells.append("–")
        else:
            cells.append(f"[{100 * low:.1f} %, {100 * high:.1f} %]")
        cells += [f"{100 * kelly['max_drawdown']:.1f} %"]
        marked = kelly.get("drawdown_at_prices")
        cells += ["–" if marked is None else f"{100 * marked:.1f} %"]
        chance = kelly.get("by_chance")
        cells += ["–" if chance is None else rare(chance)]
        tested = named is None or row["forecaster"] in named
        if tested and (said := luck(f"those of {short(row['forecaster'])}", kelly)):
            lucky.append(said)
        cells += [figure(kelly["sharpe"], 3)]
        rows.append(cells)
    if rows:
        out.print(table("", columns, rows))
    for said in lucky[:MOST_NAMED]:
        _say(out, "luck", said)
    _say(out, "bets", "; ".join(sorted(why)) + (" (bets.csv has each bet)" if rows else ""))


def _money(out: Console, summary: "Summary") -> None:
    """What bets would have won, in a line for each forecaster under test; or why there are none."""
    from beforehand.score.report.words import luck

    named, board = summary.get("subjects"), summary["leaderboard"]
    tested = [row for row in board if named is None or row["forecaster"] in named]
    silent = [row for row in tested[MANY:] if isinstance(k := row["kelly"], dict) and k["bets"]]
    for row in tested[:MANY]:
        kelly = row["kelly"]
        if isinstance(kelly, str):
            hint = " (--spread 0.02 assumes a book)" if "no bid and ask" in kelly else ""
            _say(out, "bets", f"none: {kelly}{hint}")
            return
        if not kelly["bets"] or row["forecaster"] == "market":
            continue
        roi, (low, high) = kelly["roi"], kelly["roi_ci"]
        span = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
        gain = "–" if roi is None else f"{100 * roi:.1f}{span} % of what they cost"
        said = f"{short(row['forecaster'])}: {kelly['bets']:,} bets gained {gain}"
        worst = max(kelly["max_drawdown"], kelly.get("drawdown_at_prices", 0.0))
        fall = f"; largest drawdown {100 * worst:.1f} % (open bets at the market's price)"
        if n := kelly["unfunded"]:
            fall += f"; without cash for {n:,} question{'' if n == 1 else 's'} with an edge"
        if n := kelly.get("cut", 0):
            fall += f"; cut for {n:,} bet{'' if n == 1 else 's'}, as the cash did not reach"
        lucky = luck("these", kelly)
        _say(out, "bets", f"{said}{fall}" + (f"; {lucky}" if lucky else ""))
    if silent:
        _say(out, "bets", f"of {len(silent):,} more in --verbose and the report")


def _slices(out: Console, summary: "Summary") -> None:
    """Skill, gain and money on parts of the rows, for those under test."""
    named = summary.get("subjects")
    columns = [("by", "left"), ("part", "left"), ("forecaster", "left"), ("n", "right")]
    columns += [("skill ↑", "right"), ("gain ↑", "right"), ("bounds", "right"), ("", "left")]
    columns += [("bets", "right"), ("won", "right")]
    rows = []
    for part in summary["slices"]:
        money = {one["forecaster"]: one for one in part["money"]}
        gains = {one["forecaster"]: one for one in part.get("gains", ())}
        for row in part["leaderboard"]:
            name = row["forecaster"]
            if name == "market" or (named is not None and name not in named):
                continue
            bets, gain = money.get(name), gains.get(name)
            rows.append(
                [
                    "price (bets: paid)" if part["by"] == "price" else part["by"],
                    part["name"],
                    short(name),
                    f"{row['n']:,}",
                    figure(row["skill_vs_market"]),
                    "–" if gain is None else figure(gain["mean"]),
                    "–" if gain is None else span(gain["bounds"]),
                    "" if gain is None else gain["verdict"],
                    "–" if bets is None else f"{bets['bets']:,}",
                    "–" if bets is None else figure(bets["gain"], 3),
                ]
            )
    if rows:
        out.print(table("parts of the rows", columns, rows))


def _card(out: Console, summary: "ResultWire") -> None:
    from beforehand.score.report.words import TILES, card_value

    known = {name: check["value"] for name, check in summary["validity"].items()}
    parts = [
        f"{label} {card_value(known[name], name)}"
        for name, (label, _) in TILES.items()
        if known.get(name) is not None and (name != "short_markets" or known[name])
    ]
    _say(out, "validity", " · ".join(parts))


def _apart(out: Console, found: "PartWire | None") -> None:
    """The markets that were too short for the grid, with their own scores."""
    if found is None:
        return
    scores = ", ".join(
        f"{row['forecaster']} {figure(row['brier'])}" for row in found["leaderboard"][:MOST_NAMED]
    )
    more = ", …" if len(found["leaderboard"]) > MOST_NAMED else ""
    n = found["n_questions"]
    _say(
        out,
        "short",
        f"{n:,} {'market holds' if n == 1 else 'markets hold'} no instant of the grid: asked once, "
        f"at the first price, and scored apart (Brier: {scores}{more})",
    )


def print_evaluation(summary: "ResultWire") -> None:
    """Leaderboard, reasons and card of an evaluation that stores no run."""
    out = screen()
    out.print(leaderboard(summary, out.width))
    out.print()
    explain(out, summary)
    _card(out, summary)


def _say(out: Console, label: str, text: str) -> None:
    out.print(Text.assemble((f"{label:10s}", "bold"), text), soft_wrap=True)
