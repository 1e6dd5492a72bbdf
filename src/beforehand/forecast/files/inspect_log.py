"""Logs of inspect: `.eval` (a zip whose members are packed with zstd or deflate) and `.json`.

A sample's score gives the probability (`answer`), its metadata the
question (`market_id`, else the sample's id) and the instant (`as_of`); the forecaster is the model.
Epochs of one sample are draws of one forecaster: their mean counts.
"""

import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import orjson

from beforehand.errors import BadAnswer, InputError, NotConfigured
from beforehand.forecast.answers import read_probability
from beforehand.forecast.files.foreign import Foreign

KIND = "an inspect log"
IDS, TIMES = ("market_id", "question_id", "id"), ("as_of", "t", "time", "forecast_at")
KNOWN = ("id", "epoch", "scores", "metadata", "input", "target", "choices", "output", "messages")
HEADERS = ("header.json", "_journal/start.json")
"""A log that was not ended has the second alone."""
ZSTD, MOST_BYTES = 93, 1 << 31


def is_archive(path: Path) -> bool:
    """True for an `.eval`: a zip that holds a header, or the beginning of one."""
    try:
        if not path.is_file() or path.suffix == ".eval":  # A pipe would hold us up.
            return path.is_file()
        with zipfile.ZipFile(path) as opened:
            return bool({*HEADERS} & {*opened.namelist()})
    except (OSError, zipfile.BadZipFile):
        return False


def of_archive(path: Path) -> Foreign:
    """The forecasts of an `.eval`. Raises InputError for another zip or a damaged one,
    NotConfigured where zstd is not installed."""
    made = Foreign(KIND)
    try:
        with _zip(path).ZipFile(path) as opened:
            names = opened.namelist()
            first = next((name for name in HEADERS if name in names), None)
            if first is None:
                raise InputError(f"{path} is no log of inspect: it has no header.json")
            whole = sum(one.file_size for one in opened.infolist())
            if whole > MOST_BYTES:
                raise InputError(f"{path} unpacks to {whole:,} bytes: more than is read")
            header = orjson.loads(opened.read(first))
            samples = sorted(n for n in names if n.startswith("samples/") and n.endswith(".json"))
            body = {**header, "samples": [orjson.loads(opened.read(name)) for name in samples]}
            of_log(body, made)
    except (InputError, NotConfigured):
        raise
    except Exception as error:  # The errors of zip and zstd have no common name.
        raise InputError(f"{path} is a damaged log of inspect: {error}") from None
    if not made.rows and not made.rejected:
        raise InputError(f"{path} is {KIND} without any sample")
    return made


def _zip(path: Path) -> ModuleType:
    """What can unpack it: Python's own zipfile, or that of backports.zstd."""
    with zipfile.ZipFile(path) as opened:
        packed = any(one.compress_type == ZSTD for one in opened.infolist())
    if not packed or hasattr(zipfile, "ZIP_ZSTANDARD"):
        return zipfile
    try:
        from backports.zstd import zipfile as with_zstd
    except ImportError:
        raise NotConfigured(
            f"{path} is packed with zstd: pip install 'beforehand[inspect]', or write the log as "
            "JSON (inspect log convert)"
        ) from None
    found: ModuleType = with_zstd
    return found


def of_log(body: Mapping[str, Any], made: Foreign) -> None:
    """The forecasts of a log as one document."""
    told = body["eval"]
    who = str(told.get("model") or told.get("task") or KIND)
    drawn = defaultdict[tuple[object, object], list[tuple[int, float]]](list)
    for number, sample in enumerate(body.get("samples") or (), start=1):
        made.unread(sample, KNOWN, "sample.")
        meta, name = _metadata(sample), sample.get("id")
        name = next((meta[key] for key in IDS if meta.get(key)), name)
        time = next((meta[key] for key in TIMES if meta.get(key)), None)
        said = next(_answers(sample), None)
        row = {"id": name, "time": time, "probability": said}
        if said is None:
            why = "an error of the sample" if sample.get("error") else "a sample without a score"
            made.rejected.append((number, why, row))
            continue
        try:
            p = read_probability(said).p
        except BadAnswer as error:
            made.rejected.append((number, f"no probability: {error}", row))
        else:
            drawn[name, time].append((number, p))
    for (name, time), numbers in drawn.items():
        made.add(numbers[0][0], name, time, fmean(p for _, p in numbers), who)
    if (epochs := max(map(len, drawn.values()), default=0)) > 1:
        made.remarks.append(f"the mean of up to {epochs} epochs of a sample counts")


def _metadata(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a sample, and of its scores."""
    found = dict[str, Any]()
    scores = sample.get("scores")
    for one in scores.values() if isinstance(scores, Mapping) else ():
        if isinstance(one, Mapping) and isinstance(one.get("metadata"), Mapping):
            found |= one["metadata"]
    own = sample.get("metadata")
    return found | (dict(own) if isinstance(own, Mapping) else {})


def _answers(sample: Mapping[str, Any]) -> Iterator[object]:
    """What its scores took as the answer. (A `value` is how good it was, not what was said.)"""
    scores = sample.get("scores")
    every = scores.values() if isinstance(scores, Mapping) else ()
    listed = [one for one in every if isinstance(one, Mapping)]
    yield from (one["answer"] for one in listed if one.get("answer") not in (None, ""))
