"""What must hold between an archive's records, whatever their digests say: each rule broken with all
digests redone, and found."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import parse_instant
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.manifest import read_manifest, write_manifest
from beforehand.store.archive.reader import Archive
from experiments import Out


def forge(path: Path, kind: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the lines of a segment, and make every digest right again."""
    manifest = read_manifest(path)
    segment = next(s for s in manifest["segments"] if s["kind"] == kind)
    file = path / "segments" / f"{kind}-{segment['digest']}.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    change(rows)
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    packed = gzip.compress(content, mtime=0)
    file.chmod(0o644)
    file.unlink()
    segment["digest"] = hashlib.sha256(content).hexdigest()
    segment["file_digest"] = hashlib.sha256(packed).hexdigest()
    total = sum(len(r["price"]) for r in rows) if kind == "price" else len(rows)
    entry = next(e for e in manifest["imports"] if e["name"] == segment["import"])
    entry["new"][kind] = entry["new"][kind] - segment["records"] + total
    segment["records"] = total
    (path / "segments" / f"{kind}-{segment['digest']}.jsonl.gz").write_bytes(packed)
    write_manifest(path, manifest)


def _twice(rows: list[dict[str, Any]]) -> None:
    one = next(row for row in rows if row["status"] == "resolved")
    rows.append({**one, "payout": 1.0 - one["payout"]})


def _first(change: Callable[[dict[str, Any]], None]) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: change(rows[0])


BROKEN: dict[str, tuple[str, Callable[[list[dict[str, Any]]], None], str]] = {
    "unequal columns": (
        "price",
        _first(lambda r: r["known_at"].pop()),
        "columns of unequal length",
    ),
    "known before observed": (
        "price",
        _first(lambda r: r["known_at"].__setitem__(0, r["observed_at"][0] - 1)),
        "known before they were observed",
    ),
    "known before resolved": (
        "resolution",
        _first(lambda r: r.update(known_at="2024-01-01T00:00:00Z", first_published=None)),
        "known before it resolved",
    ),
    "void with a payout": ("resolution", _first(lambda r: r.update(status="void")), "payout"),
    "known before published": (
        "document",
        _first(lambda r: r.update(published_at="2027-01-01T00:00:00Z")),
        "known before it was published",
    ),
    "two outcomes": ("resolution", _twice, "outcomes that disagree"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found(name: str, sim: Path, tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "a"
    shutil.copytree(sim, path)
    assert Archive(path).verify() == []
    kind, change, said = BROKEN[name]
    forge(path, kind, change)
    assert any(said in problem for problem in Archive(path).verify()), name
    assert cli(["world", "verify", "--archive", str(path)]) == 1


def test_the_forgery_alone_is_not_found(sim: Path, tmp_path: Path) -> None:
    """The control: with digests redone and no rule broken, only an outside anchor would tell."""
    path = tmp_path / "a"
    shutil.copytree(sim, path)
    forge(path, "document", _first(lambda r: r.update(title="another")))
    assert Archive(path).verify() == []
    assert Archive(path).digest != Archive(sim).digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["imports"][0].update(recorded_at="2999-01-01T00:00:00Z"), "in the future"),
        (lambda m: m["imports"][0]["new"].update(price=1), "counts other records"),
        (lambda m: m["segments"][0].update({"import": "0007-none"}), "which is no import"),
    ],
)
def test_the_manifest_contradicts_itself(
    sim: Path, tmp_path: Path, change: Callable[[Any], None], said: str
) -> None:
    path = tmp_path / "a"
    shutil.copytree(sim, path)
    manifest = read_manifest(path)
    change(manifest)
    write_manifest(path, manifest)
    assert any(said in problem for problem in Archive(path).verify())


def test_prices_of_the_future(tmp_path: Path) -> None:
    """A price that is known later than it was stored is found, but for a simulated world."""
    rows, path = tmp_path / "p.csv", tmp_path / "a"
    rows.write_text("id,time,price\nX:1,2090-01-01T00:00:00Z,0.4\n")
    assert cli(["world", "import", "prices", str(rows), "--archive", str(path)]) == 0
    assert any("after it was recorded" in problem for problem in Archive(path).verify())


def test_two_outcomes_at_import_and_in_scoring(tmp_path: Path, capsys: Out) -> None:
    """The import says so and exits 3; the market is not scored, where the later one won before."""
    path = tmp_path / "a"
    lines = [
        {"id": "X:1", "outcome": y, "resolved_at": f"2025-03-0{y + 1}T00:00:00Z"} for y in (0, 1)
    ]
    for y, line in enumerate(lines):
        file = tmp_path / f"{y}.jsonl"
        file.write_text(json.dumps(line))
        code = cli(["world", "import", "predictions", str(file), "--archive", str(path)])
        assert code == (3 if y else 0)
    assert "X:1: outcomes that disagree (0 on 2025-03-01" in capsys.readouterr().err
    gateway = Gateway(RecordedWorld(Archive(path)))
    (ending,) = gateway.full_view().resolutions()
    assert (ending.status, ending.payout) == ("disputed", None)
    before = gateway.at(parse_instant("2025-03-01T12:00:00Z")).resolutions()
    assert [one.payout for one in before] == [0.0]


def test_a_price_known_before_it_was_observed(sim: Path, tmp_path: Path, capsys: Out) -> None:
    """The importer refuses it; a backtest refuses an archive that holds one all the same."""
    rows, path = tmp_path / "p.csv", tmp_path / "a"
    head = "id,time,price,known_at\n"
    rows.write_text(head + "X:1,2025-01-02T00:00:00Z,0.4,2025-01-01T00:00:00Z\n")
    assert cli(["world", "import", "prices", str(rows), "--archive", str(path)]) == 2
    assert "p.csv:2: known_at 2025-01-01T00:00:00Z lies before time" in capsys.readouterr().err

    def later(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["observed_at"] = [at + 400 * 86_400_000_000 for at in row["observed_at"]]

    path = tmp_path / "forged"
    shutil.copytree(sim, path)
    forge(path, "price", later)
    run = ["backtest", "run", "--archive", str(path), "--forecasters", "market", "--every", "56d"]
    assert cli(run) == 1
    assert "known before it was observed" in capsys.readouterr().err


def test_a_capture_before_the_publication_is_counted(tmp_path: Path, capsys: Out) -> None:
    line = {"id": "d", "title": "T", "published_at": "2025-01-03T00:00:00Z"}
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({**line, "captured_at": "2025-01-02T00:00:00Z"}))
    archive = tmp_path / "a"
    assert cli(["world", "import", "documents", str(path), "--archive", str(archive)]) == 0
    assert "captured before publication dated by the later: 1" in capsys.readouterr().out
    assert Archive(archive).verify() == []
