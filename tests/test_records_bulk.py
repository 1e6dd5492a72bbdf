"""The fast structs accept and refuse what the records do."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from beforehand.records.benchmark import PredictionRecord, ResolutionRecord
from beforehand.records.bulk import decode_document, decode_prediction, decode_resolution
from beforehand.records.world import Document

numbers = st.one_of(
    st.floats(-0.5, 1.5),
    st.integers(-1, 2),
    st.booleans(),
    st.none(),
    st.text(max_size=2),
    st.sampled_from([0.0, 1.0, 0.5, 1]),
)
times = st.sampled_from(
    ["2026-01-05T12:00:00Z", "2026-01-05T12:00:00+02:00", "2026-01-05T12:00:00", "2026", None]
)
names = st.one_of(st.text(max_size=4), st.none(), st.integers())


def refused_by_bulk(decode: object, raw: dict[str, object]) -> bool:
    try:
        decode(json.dumps(raw).encode())  # type: ignore[operator]
    except msgspec.ValidationError:
        return True
    return False


def refused_by_record(model: type, raw: dict[str, object]) -> bool:
    try:
        model.model_validate_json(json.dumps(raw), strict=False)  # type: ignore[attr-defined]
    except ValidationError:
        return True
    return False


@given(names, numbers, times, st.booleans())
def test_predictions(name: object, p: object, time: object, meta: bool) -> None:
    raw: dict[str, object] = {"id": name, "prediction": {"probability": p}}
    if meta:
        raw["metadata"] = {"model": "m", "timestamp": time}
    if isinstance(p, str) or time == "2026":
        return  # The records also read numbers and instants written as text; bulk does not.
    assert refused_by_bulk(decode_prediction, raw) == refused_by_record(PredictionRecord, raw)


@given(names, st.one_of(st.integers(-1, 3), st.booleans(), st.none()), numbers, times)
def test_resolutions(name: object, outcome: object, payout: object, time: object) -> None:
    if isinstance(payout, str) or time == "2026":
        return
    raw = {"id": name, "outcome": outcome, "payout": payout, "resolved_at": time}
    fast, slow = (refused_by_bulk(decode_resolution, raw), refused_by_record(ResolutionRecord, raw))
    assert fast == slow
    if not fast:
        line = json.dumps(raw).encode()
        assert decode_resolution(line).settled == ResolutionRecord.model_validate_json(line).settled


@given(names, times, times)
def test_documents(name: object, known: object, text_known: object) -> None:
    if "2026" in (known, text_known):
        return
    raw = {"id": name, "title": "x", "known_at": known, "text_known_at": text_known}
    fast = refused_by_bulk(decode_document, raw)
    assert fast == refused_by_record(Document, raw)
    if not fast:
        line = json.dumps(raw).encode()
        assert decode_document(line).record() == Document.model_validate_json(line)


def test_the_comparison_can_fail() -> None:
    assert refused_by_bulk(decode_prediction, {"id": "x", "prediction": {"probability": 1.5}})
    with pytest.raises(msgspec.ValidationError):
        decode_prediction(b'{"id": "x"}')
