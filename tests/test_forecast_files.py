"""Files of forecasts as people have them: other names, other separators, other times, percent."""

import csv
import io
import json
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import parse_instant
from beforehand.errors import InputError
from beforehand.forecast.files import forecast_file
from beforehand.forecast.files.forecast_file import read_file, read_rows, reading
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs import score_file
from beforehand.score.evaluate import Settings
from beforehand.store.archive.reader import Archive
from test_score_file import own_file

FAST = Settings(draws=200, placebo=0)
NOON = "2025-03-01T12:00:00Z"


def one(content: str, tmp_path: Path, **how: object) -> forecast_file.Line:
    """The only line of a file."""
    path = tmp_path / "file.csv"
    path.write_text(content)
    stated = read_file(path, None, reading(**how))  # type: ignore[arg-type]
    assert stated.rejected.count == 0, stated.rejected.reasons
    (line,) = stated.lines
    return line


@pytest.mark.parametrize(
    "content",
    [
        f"id,time,probability\nA:b,{NOON},0.4\n",
        f"Market_ID,Timestamp,Prob\nA:b,{NOON},0.4\n",
        f"market_id;timestamp;prob\nA:b;{NOON};0,4\n",
        f"ticker\tdate\tp\nA:b\t{NOON}\t.4\n",
        f"slug|made_at|forecast|note\nA:b|{NOON}|0.4|x\n",
        "id,t,p\nA:b,1740830400,0.4\n",
        "id,t,p\nA:b,1740830400000,0.4\n",
        '"id","time","probability"\n"A:b","2025-03-01T13:00:00+01:00","0.4"\n',
        f'{{"market_id": "A:b", "timestamp": "{NOON}", "p": 0.4}}\n',
    ],
)
def test_usual_names_separators_and_times(content: str, tmp_path: Path) -> None:
    line = one(content, tmp_path)
    assert (line.id, line.t, line.probability) == ("A:b", parse_instant(NOON), 0.4)


def test_columns_that_are_stated(tmp_path: Path) -> None:
    content = f"contract,when,yes,who\nA:b,{NOON},0.4,me\n"
    line = one(content, tmp_path, columns="id=contract,time=When,probability=yes,forecaster=who")
    assert (line.id, line.probability, line.forecaster) == ("A:b", 0.4, "me")
    with pytest.raises(InputError, match="no column for id, time, probability among contract"):
        one(content, tmp_path)
    with pytest.raises(InputError, match="there is no column 'x'; it has contract, when"):
        one(content, tmp_path, columns="id=x")
    with pytest.raises(InputError, match="--columns: write id=…"):
        reading("contract=id", mark="--")


def test_a_time_zone_that_is_stated(tmp_path: Path) -> None:
    for stated, instant in (
        ("2025-07-01T12:00:00", "2025-07-01T10:00:00Z"),
        ("2025-07-01 12:00", "2025-07-01T10:00:00Z"),
        ("2025-07-01T12:00:00Z", "2025-07-01T12:00:00Z"),
        ("2025-07-01", "2025-07-01T21:59:59.999999Z"),
        # This hour comes twice. The second is taken: the market knows more then.
        ("2025-10-26T02:30:00", "2025-10-26T01:30:00Z"),
    ):
        content = f"id,time,probability\nA:b,{stated},0.4\n"
        line = one(content, tmp_path, timezone="Europe/Berlin")
        assert line.t == parse_instant(instant), stated
    with pytest.raises(InputError, match="timezone 'Mars/Base' is not known"):
        reading(timezone="Mars/Base")
    without = read_rows([{"id": "x", "time": "2025-07-01T12:00:00", "p": 0.1}], "n")
    assert "state timezone" in next(iter(without.rejected.reasons))


def test_percent_is_recognised_and_never_guessed(tmp_path: Path) -> None:
    said = [4, 40, 97.5, 0.5]
    table = [{"id": "x", "time": NOON, "probability": p} for p in said]
    with pytest.raises(InputError, match=r"3 of 4 probabilities lie above 1: .* --percent"):
        read_rows(table, "n", reading(mark="--"))
    stated = read_rows(table, "n", reading(percent=True))
    assert [line.probability for line in stated.lines] == [0.04, 0.4, 0.975, 0.005]
    low = read_rows([{**table[0], "probability": 0.4}], "n", reading(percent=True))
    assert [line.probability for line in low.lines] == [0.004]
    assert "0.4 was read as 0.004" in low.remarks[0]
    signed = [{**table[0], "probability": p} for p in ("1%", "0.35", "40 %")]
    assert [line.probability for line in read_rows(signed, "n").lines] == [0.01, 0.35, 0.4]
    # One slip among many is a row that is left out, not a file in percent.
    few = read_rows([{**table[0], "probability": p} for p in (0.1, 0.2, 0.3, 40)], "n")
    assert (len(few.lines), few.rejected.count) == (3, 1)


def test_ids_as_addresses_and_the_nearest_ones(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    n = own_file(archive, tmp_path / "mine.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "mine.csv").read_text())))
    for row in rows[: n // 2]:
        row["id"] = f"https://example.test/event/some-event/{row['id'].partition(':')[2]}?tab=all"
    rows[-1]["id"] += "9"
    done = score_file.run(
        read_rows(rows, "mine"), archive, tmp_path / "r", tmp_path / "t", settings=FAST
    )
    assert done.rejected.count == 1
    (text,) = done.rejected.unknown_ids
    assert rows[-1]["id"][:-1] in text
    assert "world list" in text


def test_no_verdict_where_most_rows_were_left_out(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    n = own_file(archive, tmp_path / "mine.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "mine.csv").read_text())))
    for row in rows:
        row["probability"] = str(0.9 * float(row["probability"]))
    strange = [{**row, "id": f"NO:{i}"} for i, row in enumerate(rows)]
    for share, refused in ((n // 2, False), (n + 1, True)):
        given = [*rows, *[*strange, *strange][:share]]
        done = score_file.run(
            read_rows(given, "mine"), archive, tmp_path / str(share), tmp_path / "t", settings=FAST
        )
        mine = next(r for r in done.summary["leaderboard"] if r["forecaster"] == "mine")
        found = done.summary["validity"]["share_of_rows_scored"]
        assert found["ok"] is not refused
        page = (done.folder.path / "report.html").read_text()
        assert ("No verdict: only" in page) is refused
        if refused:
            assert mine["verdict"] == "not shown"
            assert "of the file's rows could be scored" in mine["reasons"][0]


def test_the_options_of_the_command(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    own_file(Archive(sim), tmp_path / "mine.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "mine.csv").read_text())))
    lines = [f"{r['id']};{r['time']};{100 * float(r['probability'])}" for r in rows]
    mine = tmp_path / "odd.csv"
    mine.write_text("\n".join(["contract;when;yes", *lines]))
    asked = ["score", str(mine), "--archive", str(sim), "--draws", "200", "--placebo", "0"]
    assert cli(asked) == 2
    assert "--columns id=NAME" in capsys.readouterr().err
    asked += ["--columns", "id=contract,time=when,probability=yes"]
    assert cli(asked) == 2
    assert "--percent" in capsys.readouterr().err
    assert cli([*asked, "--percent", "--json"]) == 0
    board = json.loads(capsys.readouterr().out)["leaderboard"]
    assert next(row for row in board if row["forecaster"] == "odd")["n"] == len(rows)
    assert cli([*asked, "--percent", "--timezone", "Nowhere"]) == 2
    assert "Europe/Berlin" in capsys.readouterr().err


def test_the_list_of_markets(sim: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["world", "list", "--archive", str(sim)]
    assert cli([*asked, "--json", "--limit", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    assert (len(found["markets"]), found["total"]) == (3, len(view.markets()))
    row = found["markets"][0]
    assert row["from"] < row["until"]
    assert cli([*asked, "--like", row["title"].split()[2], "--ids", "--limit", "1000"]) == 0
    assert row["id"] in capsys.readouterr().out.split()
    assert cli([*asked, "--like", "no such words"]) == 0
    assert "no market fits" in capsys.readouterr().out
