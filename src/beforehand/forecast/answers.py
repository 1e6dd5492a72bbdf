"""The rules for what forecasters answer: which values are a probability of YES, and which are not.

A number from 0 to 1 is taken as it is. Others are read by a rule, whose name is counted, or refused
with one sentence: nothing is guessed where two readings are possible. docs/forecasters.md lists the
rules.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from beforehand.errors import BadAnswer

SIGN, COMMA, FRACTION, WORDS, OUTCOMES, TEXT, PERCENT = (
    "percent sign",
    "decimal comma",
    "fraction",
    "number in words",
    "outcome YES of several",
    "number as text",
    "percent, as stated",
)
OFF, LONGEST = 0.02, 200
"""How far the outcomes may be from adding up to 1, and the longest text that a number is sought in.
"""
YES, NO = frozenset({"yes", "true", "y"}), frozenset({"no", "false", "n"})
NAMES = ("outcome", "name", "label", "answer", "market", "option")
VALUES = ("probability", "p", "prob", "value", "p_yes")
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_PLAIN = re.compile(_NUMBER)
_COMMA = re.compile(r"[-+]?(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))")
_THOUSANDS = re.compile(r"[1-9]\d*,\d{3}(?!\d)")
_SIGNED = re.compile(rf"({_NUMBER}|\d+,\d+)\s*(?:%|percent\b|per cent\b)", re.IGNORECASE)
_PARTS = re.compile(
    r"(?<![-\w.,])(\d+(?:\.\d+)?)\s*(?:/|in\b|out of\b)\s*(\d+(?:\.\d+)?)(?![\w%]|[.,]\d|\s*%)",
    re.IGNORECASE,
)
_ANY = re.compile(rf"(?<![\w.,])(?:{_NUMBER}|\d+,\d+)(?!\w|[.,]\d)")


_SAID = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_NAMES = frozenset("probability probabilities chance chances likelihood prob p yes".split())
_BESIDE = _NAMES | frozenset(
    "a about an answer approx approximately around as at be believe ca circa currently estimate "
    "estimated event final forecast gut happen happening happens i i'd i'm in is it it's its "
    "likely me my now of on out overall per cent percent predict prediction put resolve resolves "
    "resolving roughly say so that that's the there there's think this to will with would".split()
)
"""What may stand beside the one number of a text: of any other word it may be the number."""
_EXPONENT = re.compile(r"(?<=\d)[eE](?=[-+]?\d)")
_SIGNS = re.compile(r"[^\w\s.,:;!?'’\"“”()*%~≈=+-]|(?<!\w)-\s+(?=\d)")
"""Signs that may make another number of it: a minus that is none, a bound, a bracket."""
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)


class LooksLikePercent(BadAnswer):
    """A number from 1 to 100, where nobody said that numbers are in percent."""


class Read(NamedTuple):
    """A probability, and the rule by which it was read; none for a plain number."""

    p: float
    rule: str | None = None


def read_probability(value: object, percent: bool = False) -> Read:
    """The probability of YES in an answer's value; `percent` says that its numbers are in percent.
    Raises BadAnswer that says what is wrong with it (without saying whose it is)."""
    if isinstance(value, bool):
        raise BadAnswer(f"{str(value).lower()} is no number")
    if isinstance(value, int) and abs(value) > 10**9:
        raise BadAnswer("the number is outside")
    if isinstance(value, (int, float)):
        return _in_range(float(value), PERCENT if percent else None, percent, value)
    if isinstance(value, str):
        return _of_text(value, percent)
    if isinstance(value, Mapping):
        return _of_outcomes(_named(value), percent)
    if isinstance(value, Sequence):
        return _of_outcomes(_listed(value), percent)
    raise BadAnswer(f"{_short(value)} is no number")


def _in_range(p: float, rule: str | None, percent: bool, value: object) -> Read:
    if percent:
        p /= 100
    if math.isfinite(p) and 0.0 <= p <= 1.0:
        return Read(p, rule)
    likely = not percent and 1 < p <= 100
    if likely:
        raise LooksLikePercent(f"{_short(value)} is percent, it seems")
    raise BadAnswer(f"{_short(value)} is outside")


def _of_text(value: str, percent: bool) -> Read:
    text = value.strip()
    if len(text) <= LONGEST and (fenced := _FENCE.fullmatch(text)):
        text = fenced[1]
    if len(text) <= LONGEST and text.startswith("{"):
        return _of_json(text, percent)
    if len(text) <= LONGEST and _THOUSANDS.search(text):
        raise BadAnswer(f"{_short(value)} holds a number in thousands")
    if _PLAIN.fullmatch(text):
        return _in_range(float(text), PERCENT if percent else TEXT, percent, value)
    if _COMMA.fullmatch(text):
        return _in_range(float(text.replace(",", ".")), COMMA, percent, value)
    if found := _SIGNED.fullmatch(text):
        return _in_range(float(found[1].replace(",", ".")), SIGN, True, value)
    if found := _PARTS.fullmatch(text):
        return _in_range(_quotient(found[1], found[2]), FRACTION, False, value)
    if len(text) > LONGEST:
        raise BadAnswer(f"{_short(value)} is a text of {len(text):,} characters, and no number")
    return _of_words(text)


def _of_json(text: str, percent: bool) -> Read:
    """An object that was written as text: its probability, or its outcomes."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BadAnswer(f"{_short(text)} is no number") from None
    given = [name for name in ("probability", "p") if isinstance(found, dict) and name in found]
    if not given:
        return read_probability(found, percent)
    if isinstance(found[given[0]], (dict, list)) or found[given[0]] is None:
        raise BadAnswer(f"{_short(text)} holds no number as its {given[0]}")
    return Read(read_probability(found[given[0]], percent).p, TEXT)


def _of_words(text: str) -> Read:
    """The one number of a short text, such as `about 0.6` or `I would say 60 %`."""
    signed, parts = list(_SIGNED.finditer(text)), list(_PARTS.finditer(text))
    numbers = _ANY.findall(text)
    if len(parts) == 1 and len(numbers) == 2:
        return _in_range(_quotient(parts[0][1], parts[0][2]), WORDS, False, text)
    if len(numbers) > 1 or len(signed) > 1:
        raise BadAnswer(f"{_short(text)} holds several numbers")
    if not numbers and not signed:
        raise BadAnswer(f"{_short(text)} is no number")
    said = _SAID.findall(_EXPONENT.sub(" ", text).lower().replace("’", "'"))
    strange = [*(word for word in said if word not in _BESIDE), *_SIGNS.findall(text)]
    if strange:
        raise BadAnswer(
            f"{_short(text)} says {strange[0]!r} beside the number: it may mean another"
        )
    if not signed and numbers[0].isdecimal() and not _NAMES & {*said}:
        raise BadAnswer(f"{_short(text)} may count something: write 'probability {numbers[0]}'")
    if signed:
        return _in_range(float(signed[0][1].replace(",", ".")), WORDS, True, text)
    return _in_range(float(numbers[0].replace(",", ".")), WORDS, False, text)


def _quotient(part: str, whole: str) -> float:
    if float(part) + float(whole) == 100 and float(whole) < 100:
        raise BadAnswer(f"{part} to {whole} may be odds: write one number")
    return float(part) / float(whole) if float(whole) else math.nan


def _named(value: Mapping[Any, object]) -> dict[str, object]:
    found = {str(name).strip().lower(): said for name, said in value.items()}
    if len(found) < len(value):
        raise BadAnswer(f"{_short(dict(value))} names an outcome twice")
    return found


def _listed(value: Sequence[Any]) -> dict[str, object]:
    """Outcomes that are listed as objects with a name and a number."""
    found = dict[str, object]()
    for item in value:
        if not isinstance(item, Mapping):
            if len(value) > 1 and all(isinstance(one, (int, float)) for one in value):
                raise BadAnswer(_DISTRIBUTION)
            raise BadAnswer(f"{_short(value)} is no number")
        name = next((item[key] for key in NAMES if isinstance(item.get(key), (str, bool))), None)
        said = next((item[key] for key in VALUES if key in item), None)
        if name is None or said is None:
            raise BadAnswer(f"{_short(item)} names no outcome with its probability")
        if (label := str(name).strip().lower()) in found:
            raise BadAnswer(f"the outcome {_short(name)} is listed twice")
        found[label] = said
    return found


_DISTRIBUTION = "a distribution over numbers was answered, and the question is YES or NO"


def _of_outcomes(found: Mapping[str, object], percent: bool) -> Read:
    if found and all(_PLAIN.fullmatch(name.strip("%")) for name in found):
        raise BadAnswer(_DISTRIBUTION)  # Percentiles, or values with their probabilities.
    if any(name in found for name in ("cdf", "continuous_cdf", "percentiles", "quantiles", "mean")):
        raise BadAnswer(_DISTRIBUTION)
    yes = [name for name in found if name in YES]
    if len(yes) != 1:
        what = "several outcomes" if yes else "no outcome YES"
        raise BadAnswer(f"{_short(dict(found))} has {what}")
    if any(isinstance(said, (Mapping, list)) for said in found.values()):
        raise BadAnswer(f"{_short(dict(found))} is no probability for each outcome")
    p = read_probability(found[yes[0]], percent).p
    rest = [read_probability(said, percent).p for name, said in found.items() if name not in YES]
    if rest and abs(p + sum(rest) - 1) > OFF:
        raise BadAnswer(f"the outcomes add up to {p + sum(rest):.3g}, not to 1")
    return Read(p, OUTCOMES)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
