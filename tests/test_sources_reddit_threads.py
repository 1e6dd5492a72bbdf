"""Thread files: what is no thread is named and left out, and the rest still read."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beforehand.gateway.opening import read_threads, write_threads
from beforehand.records.world import Observation
from beforehand.sources.reddit import SOURCE

NOW = datetime(2025, 1, 1, tzinfo=UTC)
ODD = (
    "not json",
    "7",
    json.dumps({"post": {}, "comments": []}),
    json.dumps({"post": {}, "comments": None}),
    json.dumps({"body": 7, "uri": "x"}),
)


@pytest.mark.parametrize("text", ODD)
def test_a_file_that_is_no_thread_is_named(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    post = Observation(
        id="zzz", source=SOURCE, kind="post", subject="zzz", known_at=NOW, data={"title": "Rain?"}
    )
    write_threads(tmp_path, [post])
    (tmp_path / "bad.json").write_text(text)
    found = [row.id for row in read_threads(tmp_path, NOW)]
    assert found == ["zzz"]
    assert "bad.json is left out" in caplog.text
