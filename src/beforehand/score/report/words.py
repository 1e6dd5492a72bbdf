"""What a report says in words: the verdict in one sentence, warnings, the card's fields."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, log10
from typing import TYPE_CHECKING, Any

from beforehand.records.rows import label

if TYPE_CHECKING:
    from beforehand.score.summary import (
        BoardRow,
        EvidenceAudit,
        Pair,
        ProfitWire,
        ResultWire,
        Summary,
    )

MOST_NAMED = 8
OWN = ("effective_periods", "share_of_gain_unsettled", "share_answered")
"""Bounds of the card that each forecaster meets or fails on its own."""
LOOKS_KNOWN = "looks like knowing the outcomes"
LOOKS_AHEAD = "looks like knowing later prices"
AS_STATED = "not asked (times as stated)"
"""The order of forecasts that came in a file."""
TILES: dict[str, tuple[str, str]] = {
    "n_questions": ("questions", "markets scored, each with one vote"),
    "n_forecasts": ("forecasts", "instants at which they were forecast"),
    "short_markets": ("short markets", "too short for the grid: scored apart"),
    "n_events": ("events", "groups of questions that share their fate"),
    "n_resolution_months": ("resolution months", "the other way to group them"),
    "effective_n": ("effective n", "independent questions' worth, for the best-ranked"),
    "effective_periods": (
        "effective periods",
        "equal ones' worth, on which the best-ranked's gain rests; it binds that forecaster alone",
    ),
    "leading_variance": ("what may be chance", "is judged, for the best-ranked's gain"),
    "heaviest_periods": (
        "heaviest periods",
        "that make most of the best-ranked's variance, and the market that moved its gain most",
    ),
    "share_of_gain_before_first_price": (
        "gained at once",
        "share of the best-ranked's gain made before the first price after each forecast",
    ),
    "share_of_gain_unsettled": (
        "gain still open",
        "share of the best-ranked's gain on open questions; it binds that forecaster alone",
    ),
    "assumption": ("assumption", "under which the best-ranked's verdict holds"),
    "share_of_rows_scored": ("rows scored", "of those in the file"),
    "share_answered": (
        "answered",
        "of what was asked: the least of those under test; it binds that forecaster alone",
    ),
    "price_age_days_p50": ("price age in days, median", "days since the price was observed"),
    "price_age_days_p90": ("price age in days, 90 % below", "days since the price was observed"),
    "share_price_older_than_7_days": (
        "stale prices",
        "share of forecasts at a price over 7 days old",
    ),
    "share_price_from_before_a_gap": (
        "prices over a gap",
        "share of forecasts at a price from before a gap of the record (`world coverage`)",
    ),
    "share_strict_text": ("with stored text", "share whose wording was on record by then"),
    "share_after_training_cutoff": ("after training", "share resolved after the model's cutoff"),
    "share_made_after_training": (
        "made after training",
        "share forecast after the cutoff: before it, a model knows news that the market did not",
    ),
    "evidence_documents": ("documents", "in the world"),
    "share_with_a_document": ("with a document", "share of forecasts that were shown one"),
    "share_nominated": (
        "nominated by today's search",
        "share of the documents shown whose text is dated, and whose choice may know the outcome",
    ),
    "variants_tried": ("variants tried", "on such a set, counted by the ledger"),
    "minimum_detectable_effect": ("detectable gain", "found with a power of 80 %, best-ranked"),
    "void_excluded": ("void", "markets left out"),
    "unresolved": ("open", "markets without a score: their positions count at the last price"),
    "undated_forecasts": ("undated", "forecasts without a time of their own"),
    "admitted_after_t": ("shown after t", "records: must be none"),
}
"""The card's fields in reading order: a short name and what it means."""


def headline(summary: "Summary") -> str:
    """The verdict in one sentence, and in another what was left out on request."""
    left = summary.get("leave_out") or {}
    rules = ", ".join(f"{rule} ({n:,} rows)" for rule, n in left.items())
    return f"{_verdict(summary)} Left out on request: {rules}." if left else _verdict(summary)


def _verdict(summary: "Summary") -> str:
    subjects = summary.get("subjects")
    others = [
        row
        for row in summary["leaderboard"]
        if row["forecaster"] != "market"
        and row["verdict"] != "not ranked"
        and (subjects is None or row["forecaster"] in subjects)
    ]
    card = summary["validity"]
    scored = card["share_of_rows_scored"]
    if scored["ok"] is False and "rows" in summary:
        counted = summary["rows"]
        total = counted["scored"] + counted["not_scored"]
        return f"No verdict: only {counted['scored']:,} of {total:,} rows could be scored."
    winners = [row["forecaster"] for row in others if row["verdict"] == "beats the market"]
    size = _size(summary, [row for row in others if not winners or row["forecaster"] in winners])
    if not others:
        return f"The market alone was scored, over {size}.{_silent(summary)}"
    if winners:
        verb = "beats" if len(winners) == 1 else "beat"
        return f"{_listed(winners)} {verb} the market over {size}{_by_what(others, winners)}."
    if len(others) == 1:
        verdict = {"not shown": "is not shown to beat the market", "is the market": "is the market"}
        said = verdict.get(others[0]["verdict"], "is worse than the market")
        return f"{others[0]['forecaster']} {said} over {size}."
    return f"None of {len(others)} forecasters is shown to beat the market over {size}."


def _size(summary: "Summary", rows: "Sequence[BoardRow]") -> str:
    """Over how many questions a verdict is: those that the forecasters themselves answered."""
    card = summary["validity"]
    everyone = (int(card["n_questions"]["value"] or 0), int(card["n_events"]["value"] or 0))
    own = {(row["n_questions"], row["n_events"]) for row in rows} or {everyone}
    parts = []
    for noun, counts in zip(("question", "event"), zip(*own, strict=True), strict=True):
        few, most = min(counts), max(counts)
        parts.append(_count(most, noun) if few == most else f"{few:,} to {most:,} {noun}s")
    return f"{parts[0]} ({parts[1]})"


def _by_what(rows: "Sequence[BoardRow]", winners: Sequence[str]) -> str:
    """What "beats" rests on besides the figures: nothing, where the future was out of reach."""
    held = [row for row in rows if row["forecaster"] in winners]
    if any(row["order"] == AS_STATED for row in held):
        return ", at the times stated in the file"
    if any((row["isolation"] or "").startswith("trusted") for row in held):
        return ", on trust alone"
    if any((row["isolation"] or "").startswith("probed") for row in held):
        return ", as far as a probe can tell"
    return ""


def gained(row: "BoardRow") -> "tuple[float | None, Pair, Pair]":
    """The mean gain of a forecaster's positions on the market, its 95 % interval, and the bounds
    that are widened for tries: what the verdict rests on. The market gains exactly 0 on itself."""
    if "evidence" in row:
        found = row["evidence"]
        return found["mean"], found["ci"], found["bounds"]
    if row["forecaster"] == "market":
        return 0.0, [0.0, 0.0], [0.0, 0.0]
    return None, [None, None], [None, None]


def verdict_text(row: "BoardRow") -> str:
    """A verdict for a table: beside "beats the market" what it rests on, beside "not shown" that
    the forecaster was caught, or looks like it."""
    verdict, isolation = row["verdict"], row.get("isolation") or ""
    if verdict == "beats the market":
        if row.get("order") == AS_STATED:
            return f"{verdict} (times as stated)"
        if isolation.startswith("trusted"):
            return f"{verdict} (on trust)"
        return f"{verdict} (probed)" if isolation.startswith("probed") else verdict
    if verdict == "not shown" and "caught" in isolation:
        return f"{verdict} (caught by a probe)"
    for looks in (LOOKS_KNOWN, LOOKS_AHEAD):
        if verdict == "not shown" and any(looks in why for why in row.get("reasons", ())):
            return f"{verdict} ({looks})"
    return verdict


def warnings(summary: "Summary") -> list[str]:
    """What has to be said beside the headline: what "beats" rests on, who answered too little, and
    what looks odd."""
    held = [row for row in summary["leaderboard"] if row["verdict"] == "beats the market"]
    stated = [row["forecaster"] for row in held if row["order"] == AS_STATED]
    trusted = [row for row in held if row["forecaster"] not in stated]
    said = list[str]()
    if stated:
        said.append(
            "nobody saw these forecasts being made: the verdict takes the times in the file as "
            "they stand"
        )
        if summary["validity"]["share_after_training_cutoff"]["value"] is None:
            said.append(
                "no end of training was stated: a model may remember answers, or know news from "
                "after a forecast's time (--training-cutoff DATE says how much of this that is)"
            )
    for row in trusted:
        isolation = row["isolation"] or "trusted"
        if isolation == "trusted":
            said.append(
                f"nothing kept {row['forecaster']} from the outcomes but trust (`beforehand "
                "backtest probe` tests Python callables; an address cannot be probed)"
            )
        elif not isolation.startswith("by construction"):
            said.append(
                f"{row['forecaster']} is {isolation}: outcomes that it has from "
                "elsewhere would not be seen"
            )
    notes = {
        row["kelly"]["note"] for row in summary["leaderboard"] if isinstance(row["kelly"], dict)
    }
    if any("the assumed spread changes nothing" in note for note in notes):
        said.append(
            "--spread changes nothing here: every market that is bet on has a recorded book"
        )
    if not held and (unreachable := _unreachable(summary)):
        said.append(unreachable)
    return [*said, *few_answers(summary), *summary.get("hints", [])]


def _unreachable(summary: "Summary") -> str | None:
    """Where a set is so small that nobody can be shown to beat the market on it."""
    least = summary["validity"]["minimum_detectable_effect"]["value"]
    market = next((r["brier"] for r in summary["leaderboard"] if r["forecaster"] == "market"), None)
    if not isinstance(least, int | float) or market is None or least <= market:
        return None
    return (
        f"this set can hardly show skill: {show(least)} is the least gain that is found with a "
        "power of 80 %, and nobody can better the market by more than its own Brier score, "
        f"{show(market)}"
    )


def few_answers(summary: "Summary") -> list[str]:
    """A warning for each forecaster that answered too few of what it was asked."""
    if not any(row["missing"] for row in summary["leaderboard"]):
        return []
    from beforehand.score.skill import MIN_ANSWERED

    did, why = "answered", ""
    if "rows" in summary:  # Of a file: what could not be scored counts as not answered.
        did = "could be scored on"
        why = " (the others have no price then, an odd id or time, or are another one's markets)"
    return [
        f"{row['forecaster']} {did} {row['n']:,} of {row['n'] + row['missing']:,} "
        f"({100 * row['answered']:.1f} %){why}: its figures are over these alone, and it cannot be "
        "said to beat the market"
        for row in summary["leaderboard"]
        if row["forecaster"] != "market" and row["answered"] < MIN_ANSWERED
    ]


def on_other_rows(board: "Sequence[BoardRow]") -> bool:
    """True where not all forecasters were scored on the same rows of the market."""
    return len({round(b, 9) for row in board if (b := row["market_brier"]) is not None}) > 1


def _silent(summary: "Summary") -> str:
    """Who was asked and never answered."""
    names = never_answered(summary)
    return f" No answer of {_listed(names)} came about." if names else ""


def unmet(summary: "ResultWire") -> list[str]:
    """The bounds of the card that the set does not meet, in words."""
    return [
        shortfall(name, check["value"], check["bound"])
        for name, check in summary["validity"].items()
        if check["ok"] is False and name not in OWN  # Each forecaster's reasons say it.
    ]


def shortfall(name: str, value: float | str | None, bound: str | None) -> str:
    """Why a bound of the card is not met, for people; `name` is the field, `value` its value."""
    if value is None:
        return {
            "share_after_training_cutoff": "when the model's training ended is not known, so it "
            "may remember the answers",
        }.get(name, f"{name} is not known")
    if isinstance(value, str):
        return f"{name} is {value}"
    share, count = f"{100 * value:.4g} %", f"{value:,.3g}" if value % 1 else f"{value:,.0f}"
    needed = bound_text(bound, name).rpartition("at least ")[2].rpartition("at most ")[2]
    one = value == 1
    return {
        "effective_periods": f"its gain rests on {count} effective "
        f"{'period' if one else 'periods'}, and {needed} are needed",
        "share_of_gain_unsettled": f"{share} of its gain rests on questions that are still open, "
        f"and at most {needed} may",
        "share_answered": f"{share} of what was asked was answered, and {needed} is needed",
        "share_of_rows_scored": f"{share} of the file's rows could be scored, and {needed} is "
        "needed",
        "share_price_older_than_7_days": f"{share} of the forecasts stand beside a price that is "
        f"more than 7 days old, and at most {needed} may",
        "share_after_training_cutoff": f"{share} of the answers came after the model's training "
        f"ended, and {needed} is needed",
        "share_made_after_training": f"{share} of the forecasts were made after the model's "
        f"training ended (before that it knows news that the market did not have), and {needed} is "
        "needed",
        "undated_forecasts": f"{count} {'forecast' if one else 'forecasts'} without a time of "
        f"{'its' if one else 'their'} own, and none may be",
        "admitted_after_t": f"{count} {'record' if one else 'records'} from after t "
        f"{'was' if one else 'were'} shown, and none may be",
    }.get(name, f"{name} is {count}")


def bound_text(bound: str | None, name: str) -> str:
    """A bound for people: shares in percent, as their values are."""
    word, _, number = (bound or "").rpartition(" ")
    if not name.startswith("share_"):
        return bound or ""
    return f"{word} {100 * float(number):g} %".strip()


def never_answered(summary: "Summary") -> list[str]:
    """The forecasters that were asked and failed each time."""
    decisions = summary.get("decisions")
    models = decisions["models"] if decisions else {}
    return [label(name) for name, made in models.items() if made["failed"] and not made["made"]]


RARELY = 0.05


def luck(name: str, kelly: "ProfitWire") -> str | None:
    """What chance alone would have won, counting all that was tried; None where nothing was won."""
    chance, best = kelly.get("by_chance"), kelly.get("best_by_chance")
    if chance is None or best is None or kelly["gain"] <= 0:
        return None
    tried = kelly.get("tried", 1)
    wealth = kelly.get("fair_wealth", kelly["final_wealth"])
    filled = "" if wealth == kelly["final_wealth"] else ", filled at the midnight after each,"
    said = f"if the market's prices are right, bets like {name}{filled} reach a wealth of "
    said += f"{wealth:,.2f} with a probability of at most {rare(chance)}"
    if tried > 1:
        said += f", and the best of the {tried:,} ways to bet that were tried of at most "
        said += rare(best)
    return f"{said}: luck {'alone rarely does that' if best <= RARELY else 'may explain it'}"


def rare(share: float) -> str:
    """A share that is never 0, in percent: a small one with another decimal."""
    return f"{100 * share:.1f} %" if share >= 0.001 else f"{100 * share:.2f} %"


def kept_from_the_future(
    board: "Sequence[BoardRow]", named: Callable[[str], str] = str
) -> list[str]:
    """How each forecaster was kept from the future, those alike together."""
    alike: dict[str, list[str]] = {}
    for row in board:
        if row["forecaster"] != "market" and row.get("isolation"):
            how = f"{row['isolation']}, {row['order']}"
            alike.setdefault(how, []).append(named(row["forecaster"]))
    return [
        f"{', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''}: {how}"
        for how, names in alike.items()
    ]


def _count(n: object, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def card_value(value: Any, name: str = "") -> str:
    """A field of the validity card for people."""
    if value is None:
        return "not applicable"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if name.startswith("share_"):
        return f"{100 * value:.1f} %"
    return f"{value:.3g}".replace("-", "−") if isinstance(value, float) else str(value)


def show(value: float | None, digits: int = 4) -> str:
    """A figure for people: fixed decimals, a true minus sign, a dash for none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return (text[1:] if float(text) == 0 and text[0] == "-" else text).replace("-", "−")


def digits_of(interval: "Sequence[float | None]", digits: int = 4) -> int:
    """How many decimals show on which side of 0 an interval lies: an end that is not 0 is not
    printed as 0."""
    low, high = interval
    if low is None or high is None or not (low > 0 or high < 0):
        return digits
    nearest = min(abs(low), abs(high))
    return digits if round(nearest, digits) else max(digits, ceil(-log10(nearest)))


def ends(interval: "Sequence[float | None]") -> str:
    """An interval in a table."""
    digits = digits_of(interval)
    return " to ".join(show(end, digits) for end in interval)


def audit_lines(audit: "EvidenceAudit") -> Iterator[str]:
    """The evidence audit in a few lines, each count with its denominator."""
    total = audit["total"]
    yield (
        f"evidence audit: {audit['passed']:,} of {total:,} forecasts pass; {audit['citing']:,} "
        f"cite evidence; {audit['leakage_passed']:,} have none from after their time"
    )
    if not audit["items"]:
        return
    if not audit["against_records"]:
        yield (
            f"  the dates of {audit['items']:,} items were checked; with --archive their sources "
            "are looked up, and their words and figures compared"
        )
    else:
        levels, precision = audit["levels"], audit["precision"]
        share = "" if precision is None else f" (attribution precision {100 * precision:.1f} %)"
        yield (
            f"  of {audit['items']:,} items {levels.get('supported', 0):,} say what their source "
            f"says, {levels.get('failed', 0):,} fail{share}, {levels.get('exists', 0):,} claim "
            "nothing that can be checked"
        )
    if audit["faults"]:
        yield "  " + ", ".join(f"{n:,} × {fault}" for fault, n in audit["faults"].items())
    if (without := audit["without_failing"]) is not None:
        for name, kept in without["kept"].items():
            same, whole = without["same_rows"].get(name), without["all"][name]
            if same is None or kept["n"] == whole["n"] or kept["brier"] is None:
                continue
            yield (
                f"  {name}: Brier {show(whole['brier'])} over {whole['n']:,} forecasts; without "
                f"those that fail {show(kept['brier'])} over {kept['n']:,}"
            )
