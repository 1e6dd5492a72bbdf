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


PLAIN = {
    "id": "abc", "title": "Rain?", "selftext": "Will it?", "subreddit": "Weather", "author": "ann",
    "created_utc": 1704067200, "score": 3, "num_comments": 2,
    "comments": [
        {"id": "c1", "body": "Yes.", "author": "bob", "created_at": "2024-01-02T00:00:00Z",
         "replies": [{"id": "c2", "body": "No.", "author": "cy"}]},
    ],
}  # fmt: skip


def test_a_plain_thread_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As docs/scout.md has it; what does not say when it was written is known from the file on."""
    (tmp_path / "abc.json").write_text(json.dumps({**PLAIN, "recorded_at": "2024-06-01T00:00:00Z"}))
    post, first, second = read_threads(tmp_path, NOW)
    assert caplog.text == ""
    assert (post.id, post.subject, post.data["title"]) == ("abc", "weather", "Rain?")
    assert [(one.id, one.subject, one.data["parent"]) for one in (first, second)] == [
        ("c1", "abc", "abc"), ("c2", "abc", "c1"),
    ]  # fmt: skip
    days = [f"{one.known_at:%Y-%m-%d}" for one in (post, first, second)]
    assert days == ["2024-01-01", "2024-01-02", "2024-06-01"], "a bare one is not of before"
    assert f"{post.now_known_at:%Y-%m-%d}" == "2024-06-01", "its score is of when it was stored"


@pytest.mark.parametrize(
    "change", [{"id": None}, {"comments": 7}, {"comments": [7]}, {"comments": [{"body": "x"}]},
               {"created_utc": "soon"}, {"created_at": "soon", "created_utc": None}]
)  # fmt: skip
def test_a_plain_thread_that_is_not_whole_is_named(
    change: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "abc.json").write_text(json.dumps({**PLAIN, **change}))
    assert list(read_threads(tmp_path, NOW)) == []
    assert "abc.json is left out" in caplog.text
