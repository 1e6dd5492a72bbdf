"""A stranger's file: every row scored or listed, and a verdict that can be defended."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from beforehand.clock import from_us, iso
from beforehand.errors import InputError
from beforehand.forecast.files import forecast_file
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs import score_file
from beforehand.jobs.backtest import grid
from beforehand.runs.rows import read_jsonl
from beforehand.score.evaluate import Settings
from beforehand.store.archive.reader import Archive
from experiments import Out, told

FAST = Settings(draws=200, placebo=20)


def rows(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return list(read_jsonl(path))


def own_file(archive: Archive, path: Path, change: str = "") -> int:
    """The market's own weekly prices, as a stranger's CSV."""
    world = RecordedWorld(archive)
    lines = ["id,time,probability"]
    for record in Gateway(world).full_view().resolutions():
        if record.payout is None:
            continue
        series = world.series(record.market_id)
        first, end = int(series.known_at[0]), grid.end_of(record)
        for t in grid.life(first, end, timedelta(days=7), "own").t:
            price = series.price[series.position(int(t))]
            lines.append(f"{record.market_id},{iso(from_us(t))},{price}")
    path.write_text("\n".join(lines) + "\n" + change)
    return len(lines) - 1


def test_a_stranger_brings_the_market_itself(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    n = own_file(archive, tmp_path / "mine.csv")
    done = score_file.run(
        forecast_file.read_file(tmp_path / "mine.csv"),
        archive,
        tmp_path / "runs",
        tmp_path / "t.jsonl",
        settings=FAST,
        run_id="s",
    )
    mine = next(r for r in done.summary["leaderboard"] if r["forecaster"] == "mine")
    assert (mine["n"], mine["skill_vs_market"], mine["verdict"]) == (n, 0.0, "is the market")
    assert done.rejected.count == 0
    assert done.summary["validity"]["variants_tried"]["value"] == 0


def test_every_row_is_scored_or_listed(wide: Path, tmp_path: Path) -> None:
    archive = Archive(wide)
    world = RecordedWorld(archive)
    ends = Gateway(world).full_view().resolutions()
    good = next(r for r in ends if r.payout is not None)
    void = next(r for r in ends if r.status == "void")
    name, end = good.market_id, grid.end_of(good)
    first = from_us(world.series(name).known_at[0])
    ok = iso(end - timedelta(microseconds=1))
    bad = [
        ("NO:where", ok, "0.5", "no such market"),
        (name, "2035-01-01T00:00:00Z", "0.5", "at or after the market's end"),
        (name, iso(end), "0.5", "not on record yet"),
        (name, iso(first - timedelta(microseconds=1)), "0.5", "before the market's first"),
        (name, ok, "1.5", "not a number in"),
        (name, ok, "nan", "not a number in"),
        (name, ok, "yes", "not a number in"),
        (name, ok, "", "not a number in"),
        (name, "2026-01-01T00:00:00", "0.5", "states no zone"),
        (name, "23.08.2025 13:01", "0.5", "the day or the month first"),
        (name, "soon", "0.5", "not ISO 8601"),
        (void.market_id, ok, "0.5", "is void"),
        ("", ok, "0.5", "id is missing"),
        (name, ok, "0.6", "second forecast"),
        (name, ok, "0,6", "4 cells under 3 columns (a decimal comma?)"),
        (name, ok, '"0.6', "not CSV"),
        (name, ok, "0_1", "not a number in"),
        (name, "9999-12-31", "0.5", "states no zone"),
    ]
    own_file(
        archive,
        tmp_path / "m.csv",
        f"{name},{ok},0.5\n" + "".join(f"{a},{b},{c}\n" for a, b, c, _ in bad),
    )
    done = score_file.run(
        forecast_file.read_file(tmp_path / "m.csv"),
        archive,
        tmp_path / "runs",
        tmp_path / "t.jsonl",
        settings=FAST,
    )
    assert done.rejected.count == len(bad)
    said = "; ".join(done.rejected.reasons)
    assert all(reason in said for *_, reason in bad), said
    listed = rows(done.folder.path / "rejected.jsonl")
    assert len(listed) == len(bad)
    page = (done.folder.path / "report.html").read_text()
    assert 'id="rejected"' in page


def test_yardstick_names_and_rejected_forecasters(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    own_file(archive, tmp_path / "mine.csv")
    lines = (tmp_path / "mine.csv").read_text().splitlines()
    text = "\n".join(
        [
            lines[0] + ",forecaster",
            *(line + ",shrunk" for line in lines[1:]),
            lines[1] + ",a",
            lines[2] + ",market",
            "NO:x,2026-01-01T00:00:00Z,0.5,b",
        ]
    )
    (tmp_path / "two.csv").write_text(text)
    done = score_file.run(
        forecast_file.read_file(tmp_path / "two.csv"),
        archive,
        tmp_path / "runs",
        tmp_path / "t.jsonl",
        settings=FAST,
    )
    assert done.summary["subjects"] == ["a", "shrunk"]
    assert done.rejected.count == 2
    assert done.summary["rows"] == {"scored": len(lines), "not_scored": 2}
    board = {r["forecaster"]: r for r in done.summary["leaderboard"]}
    assert board["shrunk"]["skill_vs_market"] == 0.0, "the file's own, not the yardstick"
    # It forecast one market once; of the others it left out all that the other forecaster made.
    market = lines[1].split(",")[0]
    others = sum(not line.startswith(f"{market},") for line in lines[1:])
    assert (board["a"]["n"], board["a"]["missing"]) == (1, others)
    kept = {name: (row["isolation"], row["order"]) for name, row in board.items()}
    assert kept["shrunk"] == kept["a"] == ("trusted", "not asked (times as stated)")
    assert kept["base_rate"] == kept["market"] == ("by construction", "memoryless")
    assert done.summary["leaks"]["evidence"].startswith("not applicable")


def test_a_variant_is_what_was_said(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    own_file(archive, tmp_path / "copy.csv")
    text = (tmp_path / "copy.csv").read_text()
    bold = re.sub(r",(0\.\d+)$", lambda m: f",{float(m[1]) * 0.8:.4f}", text, flags=re.M)
    tried = []
    for name, content in (("copy", text), ("bold", bold), ("renamed", bold)):
        (tmp_path / f"{name}.csv").write_text(content)
        done = score_file.run(
            forecast_file.read_file(tmp_path / f"{name}.csv"),
            archive,
            tmp_path / "runs",
            tmp_path / "t.jsonl",
            settings=FAST,
            run_id=name,
        )
        tried.append(done.summary["validity"]["variants_tried"]["value"])
    assert tried == [0, 1, 1]


def test_a_file_with_nothing_to_score_says_why(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    for text, reason in (
        ("id,time,probability\nNO:x,2026-01-01T00:00:00Z,0.5\n", "no such market"),
        ("id,when,p\n", "no column for time among id, when, p"),
        ("", "empty"),
    ):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(InputError, match=reason):
            score_file.run(
                forecast_file.read_file(tmp_path / "x.csv"),
                archive,
                tmp_path / "runs",
                tmp_path / "t.jsonl",
            )
    assert not (tmp_path / "runs").exists()


def test_jsonl_and_prediction_records_score_alike(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    own_file(archive, tmp_path / "a.csv")
    plain, wrapped = [], []
    for line in (tmp_path / "a.csv").read_text().splitlines()[1:]:
        name, time, p = line.rsplit(",", 2)
        plain.append({"id": name, "time": time, "probability": float(p) * 0.9})
        wrapped.append(
            {
                "id": name,
                "prediction": {"probability": float(p) * 0.9},
                "metadata": {"model": "b", "timestamp": time},
            }
        )
    boards = []
    for stem, lines in (("b", plain), ("c", wrapped)):
        path = tmp_path / f"{stem}.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines))
        done = score_file.run(
            forecast_file.read_file(path, "b"),
            archive,
            tmp_path / "runs",
            tmp_path / "t.jsonl",
            settings=FAST,
            run_id=stem,
        )
        boards.append(done.summary["leaderboard"])
    assert boards[0] == boards[1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b'\xef\xbb\xbf{"id": "NO:x", "time": "2026-01-01T00:00:00Z", "probability": 0.5}',
            "no such market",
        ),
        (b'[{"id": "x"}]', "JSON list"),
        (b'"id,time,probability\nx,y,z\n', "header is not CSV"),
        (b"id,time,probability,probability\n", "occurs twice"),
        (b"id;time;probability\n", "it has no rows"),
        (b"id,when,probability\n", "no column for time among id, when, probability.*columns time="),
        (b"id,time,date,p,prob\n", "p and prob could both be the probability|prob and p could"),
        (
            b'{"id": "x", "time": "2026-01-01T00:00:00Z", "probability": 0.5, "forecaster": {"a": 1}}',
            "not a name",
        ),
        (b"x" * 200_000, "no column for id, time"),
    ],
)
def test_odd_files_get_a_sentence(content: bytes, reason: str, sim: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        score_file.run(
            forecast_file.read_file(path), Archive(sim), tmp_path / "runs", tmp_path / "t.jsonl"
        )


def test_what_a_server_of_ours_collected_is_read(sim: Path, tmp_path: Path, capsys: Out) -> None:
    """Its lines of days are no forecasts, users are forecasters, and the last submission counts."""
    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    first, second = [r.market_id for r in view.resolutions() if r.payout is not None][:2]
    at = {name: iso(from_us(view.first_prices()[name] + 60_000_000)) for name in (first, second)}

    def row(user: str | None, name: str, p: float) -> dict[str, object]:
        return {"user": user, "id": name, "time": at[name], "probability": p, "rationale": "", "received_at": at[name]}  # fmt: skip

    rows: list[dict[str, object]] = [
        {"user": "a", "day": "2025-01-20T00:00:00Z"},
        row("a", first, 0.1),
        row("a", first, 0.3),
        row("b", first, 0.6),
        row("a", second, 0.4),
        {"user": "a", "day": "2025-01-21T00:00:00Z"},
    ]
    path = tmp_path / "ans.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = told(capsys, "score", str(path), "--archive", str(sim), "--draws", "100", "--placebo", "0")  # fmt: skip
    board = {one["forecaster"]: one for one in found["leaderboard"]}
    assert (board["a"]["n"], board["b"]["n"]) == (2, 1)
    paid = [view.resolution(name).payout for name in (first, second)]  # type: ignore[union-attr]
    squared = [(p - y) ** 2 for p, y in zip((0.3, 0.4), paid, strict=True)]  # type: ignore[operator]
    assert board["a"]["brier"] == pytest.approx(sum(squared) / 2)
