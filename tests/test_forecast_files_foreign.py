"""Files of other benchmarks: read as forecasts, as a forecaster in a backtest, and as worlds.

Their shapes are those that the packages write (forecasting-tools 0.3.5, ai-prophet 0.1.5, inspect
0.3): tests/others/ has the packages themselves write them, where they are installed.
"""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import parse_instant
from beforehand.errors import InputError
from beforehand.forecast.files.forecast_file import read_file
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from experiments import Out, intervals, told

T = "2025-02-03T00:00:00Z"


def sample(n: int, epoch: int = 1, **more: Any) -> dict[str, Any]:
    scores = {"brier": {"value": 0.1, "answer": f"0.{n + epoch}", "metadata": {"as_of": T}}}
    meta = {"market_id": f"SIMEX:m{n:04d}"}
    return {"id": f"q{n}", "epoch": epoch, "input": "?", "target": "YES", "scores": scores, "metadata": meta, "uuid": "x", **more}  # fmt: skip


def inspect_log() -> dict[str, Any]:
    samples = [sample(n, epoch) for n in range(3) for epoch in (1, 2)]
    samples += [sample(9, scores={}), sample(8, scores={"a": {"answer": "no idea"}})]
    return {"version": 2, "status": "success", "eval": {"model": "mock/m", "task": "t"}, "samples": samples}  # fmt: skip


def as_eval(path: Path, body: dict[str, Any]) -> Path:
    """The log as inspect packs it: a zip of members packed with zstd."""
    from backports.zstd import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_ZSTANDARD) as out:
        out.writestr("header.json", json.dumps({k: v for k, v in body.items() if k != "samples"}))
        for one in body["samples"]:
            out.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        out.writestr("summaries.json", "[]")
    return path


SUBMISSION = {
    "organization": "o", "model": "m1", "model_organization": "o", "question_set": "s", "extra": 1,
    "forecast_due_date": "2025-02-02",
    "forecasts": [
        {"id": "m0000", "source": "simex", "forecast": 0.3, "resolution_date": None, "reasoning": "r"},
        {"id": "x", "source": "fred", "forecast": 0.3, "resolution_date": "2025-03-01"},
        {"id": ["a", "b"], "source": "simex", "forecast": 0.3, "resolution_date": None},
        {"id": "m0001", "source": "simex", "forecast": None, "resolution_date": None},
    ],
}  # fmt: skip
PROPHET = {
    "timestamp": T,
    "predictions": [
        {"market_ticker": "KX-1", "p_yes": 0.2, "rationale": "r"},
        {"market_ticker": "KX-2", "p_yes": "70%", "confidence": 1},
    ],
}
BENCHMARK = [
    {
        "explicit_name": "mybot",
        "timestamp": "2025-02-04T00:00:00Z",
        "total_cost": 0.1,
        "forecast_reports": [
            {
                "question": {"id_of_post": 7, "date_accessed": T, "question_type": "binary"},
                "prediction": 0.2,
                "explanation": "# why",
            },
            {"question": {"id_of_post": 8, "question_type": "numeric"}, "prediction": {}},
            {"question": {"page_url": "https://x/9"}, "prediction": 0.4, "errors": []},
        ],
    }
]
METACULUS = (
    "Question ID,Forecaster ID,Start Time,End Time,Probability Yes,Continuous CDF\n"
    "12,3,2025-02-03 00:00:00+00:00,,0.25,\n12,4,2025-02-03 00:00:00 UTC,,,[]\n"
)


def test_an_inspect_log_in_both_forms(tmp_path: Path) -> None:
    plain = tmp_path / "log.json"
    plain.write_text(json.dumps(inspect_log()))
    for path in (plain, as_eval(tmp_path / "log.eval", inspect_log())):
        found = read_file(path)
        said = {line.id: line.probability for line in found.lines}
        assert said == pytest.approx({f"SIMEX:m000{n}": 0.1 * (n + 1.5) for n in range(3)})
        assert {line.forecaster for line in found.lines} == {"mock/m"}
        reasons = {why.partition(":")[0]: len(n) for why, n in found.rejected.reasons.items()}
        assert reasons == {"a sample without a score": 1, "no probability": 1}
        assert "the mean of up to 2 epochs of a sample counts" in found.remarks
        assert found.unread == ("sample.uuid",)


@pytest.mark.parametrize(
    ("body", "kind", "said", "left"),
    [
        (SUBMISSION, "a ForecastBench submission", {"SIMEX:m0000": 0.3}, {"combination": 1, "dataset": 1, "probability is missing": 1}),
        (PROPHET, "a Prophet submission", {"KALSHI:KX-1": 0.2, "KALSHI:KX-2": 0.7}, {}),
        (BENCHMARK, "forecasting-tools' benchmark", {"METACULUS:7": 0.2, "https://x/9": 0.4}, {"a numeric question": 1}),
        (METACULUS, "a Metaculus data download", {"METACULUS:12": 0.25}, {"another kind of question": 1}),
    ],
)  # fmt: skip
def test_each_kind(body: Any, kind: str, said: Any, left: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text(body if isinstance(body, str) else json.dumps(body, indent=1))
    found = read_file(path)
    assert f"read as {kind}" in found.remarks
    assert {line.id: line.probability for line in found.lines} == pytest.approx(said)
    assert all(line.t.isoformat() <= "2025-02-05" for line in found.lines)
    reasons = found.rejected.reasons
    for word, n in left.items():
        assert sum(len(lines) for why, lines in reasons.items() if word in why) == n, reasons
    assert found.rejected.count == sum(left.values())
    unread = {"extra": SUBMISSION, "confidence": PROPHET, "total_cost": BENCHMARK, "continuous cdf": METACULUS}  # fmt: skip
    assert next(name for name in unread if unread[name] is body) in found.unread


def test_ten_files_of_each_kind_broken_in_ten_ways(tmp_path: Path) -> None:
    """One sentence each, never a traceback; what is still whole may be read."""
    first = as_eval(tmp_path / "x.eval", inspect_log()).read_bytes()
    kinds = {
        "log.eval": first,
        "log.json": orjson.dumps(inspect_log()),
        "fb.json": orjson.dumps(SUBMISSION),
        "prophet.json": orjson.dumps(PROPHET),
        "ft.json": orjson.dumps(BENCHMARK),
        "metaculus.csv": METACULUS.encode(),
    }
    breaks = [
        lambda raw, n: raw[: len(raw) * (n + 1) // 12],
        lambda raw, n: raw[len(raw) * (n + 1) // 12 :],
        lambda raw, n: raw.replace(b'"forecasts"', b'"forecasts": 3, "f"')[: -n or None],
        lambda raw, n: raw.replace(b"[", b"{", 1),
        lambda raw, n: raw.replace(b"0.", b'"x', n + 1),
        lambda raw, n: raw.replace(b":", b":null,", n + 1),
        lambda raw, n: raw.replace(b"2025", b"20x5"),
        lambda raw, n: b"\xff\xfe" + raw[n:],
        lambda raw, n: bytes(b ^ (17 * n + 1) if i % 97 == n else b for i, b in enumerate(raw)),
        lambda raw, n: raw.replace(b'"samples"', b'"sample"').replace(b'"eval"', b'"eval":[],"e"'),
    ]  # fmt: skip
    refused = list[str]()
    for name, raw in kinds.items():
        for way in breaks:
            for n in range(10):
                path = tmp_path / name
                path.write_bytes(way(raw, n))
                try:
                    found = read_file(path)
                    assert all(0 <= line.probability <= 1 for line in found.lines)
                except InputError as error:
                    refused.append(str(error).replace(str(tmp_path), ""))
    assert len(refused) > 200, "of 600 broken files"
    assert not [text for text in refused if "\n" in text or len(text) > 500]


def test_a_file_beside_others_in_a_backtest(home: Path, wide: Path, capsys: Out) -> None:
    """The last forecast by t; none before the first; several forecasters in one file are named."""
    rows = ["id,time,probability,forecaster"]
    view = Gateway(RecordedWorld(Archive(wide))).full_view()
    names = sorted(r.market_id for r in view.resolutions() if r.payout is not None)
    for name in names:
        rows += [f"{name},2025-03-01T00:00:00Z,0.2,a", f"{name},2025-05-01T00:00:00Z,0.9,a"]
    (home / "f.csv").write_text("\n".join([*rows, f"{names[0]},{T},0.5,b"]))
    here = ("backtest", "run", "--archive", str(wide), "--every", "30d", "--draws", "100", "--placebo", "0")  # fmt: skip
    entry = f"mine=file:{home}/f.csv"
    assert cli([*here, "--forecasters", f"market,{entry}"]) == 2
    assert "say which with #who=NAME" in capsys.readouterr().err
    done = told(capsys, *here, "--forecasters", f"market,{entry}#who=a", "--run-id", "r")
    seen = set()
    for row in intervals(home, "r"):
        said = [d["probability"] for d in row["decisions"] if d["model_id"] == "mine"]
        t = row["time"]
        expected = [] if t < "2025-03-01" else [0.2] if t < "2025-05-01" else [0.9]
        assert said == expected
        seen.add(tuple(said))
    assert seen == {(), (0.2,), (0.9,)}
    kept = {row["forecaster"]: row for row in done["leaderboard"]}["mine"]["isolation"]
    assert kept == "trusted (a file states its own times)"
    (home / "h.csv").write_text(
        "market,when,p\n" + "".join(f"{name},2025-03-01 00:00,20\n" for name in names)
    )
    entry = f"mine=file:{home}/h.csv#percent&columns=id=market%2Ctime=when"
    assert cli([*here, "--forecasters", f"market,{entry}"]) == 2
    assert "#timezone Europe/Berlin" in capsys.readouterr().err
    told(capsys, *here, "--forecasters", f"market,{entry}&timezone=UTC", "--run-id", "h")
    assert {d["probability"] for row in intervals(home, "h") for d in row["decisions"] if d["model_id"] == "mine"} == {0.2}  # fmt: skip
    (home / "g.csv").write_text("id,time,probability\nNOPE:1,2025-03-01T00:00:00Z,0.2\n")
    assert cli([*here, "--forecasters", f"file:{home}/g.csv"]) == 2
    assert "none of its markets is in the archive" in capsys.readouterr().err


EVENT = {
    "slug": "fed", "title": "Will the Fed cut?", "category": "Economics", "criteria": "By vote.",
    "mutually_exclusive": True, "close_at": "2025-03-10T00:00:00Z", "odd": 1,
    "outcomes": [{"name": "Yes", "resolution": 1}, {"name": "No", "resolution": "no"}],
    "windows": [
        {"round": 1, "taken_at": "2025-03-01T00:00:00Z", "closes_at": "2025-03-02T00:00:00Z",
         "crowd": {"Yes": 0.4, "No": 0.6}, "context": [{"title": "News", "text": "They may.", "url": "https://n/1"}]},
        {"round": 2, "taken_at": "2025-03-05T00:00:00Z", "crowd": [{"name": "Yes", "p": 0.7}], "context": "They will."},
    ],
}  # fmt: skip


def test_prophets_dataset_is_a_world(home: Path, capsys: Out) -> None:
    raw, packed = orjson.dumps(EVENT) + b"\n", io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        member = tarfile.TarInfo("set/events.jsonl")
        member.size = len(raw)
        out.addfile(member, io.BytesIO(raw))
    (home / "set.tar.gz").write_bytes(packed.getvalue())
    done = told(capsys, "world", "import", "prophet", str(home / "set.tar.gz"))
    assert "field odd not read" in json.dumps(done)
    gateway = Gateway(RecordedWorld(Archive(home / "data/archive")))
    early, late = (
        gateway.at(parse_instant("2025-03-02T00:00:00Z")),
        gateway.at(parse_instant("2025-03-06T00:00:00Z")),
    )
    assert early.odds("PROPHET:fed/yes").price == 0.4
    assert late.odds("PROPHET:fed/yes").price == 0.7
    assert early.market("PROPHET:fed/yes").question == "Will the Fed cut?"
    assert late.market("PROPHET:fed/no").question == "Will the Fed cut?: No"
    assert [d.text for d in early.search("News", 5)] == ["They may."]
    assert early.resolution("PROPHET:fed/yes") is None
    ends = {r.market_id: r.payout for r in gateway.full_view().resolutions()}
    assert ends == {"PROPHET:fed/yes": 1.0, "PROPHET:fed/no": 0.0}


def test_futuresims_data_is_a_world(home: Path, capsys: Out) -> None:
    question = {"qid": "q1", "title": "Will it?", "resolution_date": "2025-03-10", "ground_truth_answer": "Yes", "options": []}  # fmt: skip
    article = {"title": "A", "source": "s", "date": "2025-03-01", "content": "It might."}
    (home / "q.jsonl").write_bytes(orjson.dumps(question))
    (home / "articles.jsonl").write_bytes(orjson.dumps(article))
    for name in ("q.jsonl", "articles.jsonl"):
        assert cli(["world", "import", "futuresim", str(home / name)]) == 0
    (home / "bad.jsonl").write_bytes(orjson.dumps({**question, "ground_truth_answer": "42"}))
    assert cli(["world", "import", "futuresim", str(home / "bad.jsonl")]) == 2
    assert "only questions that end with YES or NO" in capsys.readouterr().err
    gateway = Gateway(RecordedWorld(Archive(home / "data/archive")))
    assert not gateway.at(parse_instant("2025-03-01T12:00:00Z")).search("might", 5), (
        "a day is known at its end"
    )
    assert gateway.at(parse_instant("2025-03-02T00:00:00Z")).search("might", 5)
    assert (
        gateway.at(parse_instant("2025-03-02T00:00:00Z")).market("FUTURESIM:q1").question
        == "Will it?"
    )
