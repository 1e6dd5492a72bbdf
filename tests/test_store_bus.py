"""The file bus: ids that nobody gets twice, whole files, a manifest that is right, fields enforced."""

import json
import threading
from datetime import datetime
from pathlib import Path

import pytest

from beforehand.clock import FrozenClock, parse_instant
from beforehand.errors import InputError, NotFound, Unavailable
from beforehand.records.bus import EnvelopeMetadata, OutputEnvelope, RunLog
from beforehand.store.bus import Bus, Manifest, read_log, read_output
from beforehand.store.files import write_atomic

NOW = parse_instant("2025-11-11T12:00:00Z")


def envelope(n: int = 1, agent: str = "a", at: datetime = NOW) -> OutputEnvelope:
    meta = EnvelopeMetadata(query="q", timestamp=at, row_count=n, agent=agent, version="1.0")
    return OutputEnvelope(data=[{"k": k} for k in range(n)], metadata=meta)


def log(run_id: str, **more: object) -> RunLog:
    body = {"status": "success", "timestamp": NOW, "duration_ms": 1.5, "agent": "a"}
    return RunLog.model_validate({"run_id": run_id, "version": "1.0", **body, **more})


def test_as_documented(tmp_path: Path) -> None:
    bus = Bus(tmp_path, FrozenClock(NOW))
    agent = bus.agent("a")
    assert not agent.path.exists(), "a folder is made when it is first written to"
    run = agent.begin()
    assert run == "20251111_120000"
    assert agent.begin() == "20251111_120000_2"
    path = agent.write(envelope(2))
    assert path == tmp_path / "a" / "out" / "000001.json"
    body = json.loads(path.read_text())
    assert body == {
        "data": [{"k": 0}, {"k": 1}],
        "metadata": {
            "query": "q", "timestamp": "2025-11-11T12:00:00Z", "row_count": 2, "agent": "a",
            "version": "1.0",
        },
    }  # fmt: skip
    agent.log(log(run, output_path=str(path)))
    assert json.loads((tmp_path / "a" / "meta.json").read_text()) == {
        "next_id": 2, "last_updated": "2025-11-11T12:00:00Z", "total_runs": 1,
    }  # fmt: skip
    manifest = Manifest(tmp_path / "a", FrozenClock(NOW))
    assert [manifest.increment(), manifest.increment()] == [2, 3]
    assert manifest.read().next_id == 4
    assert agent.write(envelope()).name == "000004.json"
    agent.log(log("20251111_120000_2", status="failed", error="Invalid template: xyz"))
    assert manifest.read().total_runs == 2, "failed runs count too"
    assert [p.name for p in agent.outputs()] == ["000001.json", "000004.json"]
    assert [p.stem for p in agent.logs()] == [run, "20251111_120000_2"]
    checked = agent.check()
    assert (checked.outputs, checked.logs, checked.gaps, checked.problems) == (2, 2, 2, [])


def test_must_include_is_enforced(tmp_path: Path) -> None:
    """On write and on read: a field that is missing, a count that is wrong."""
    agent = Bus(tmp_path).agent("a")
    path = agent.write(envelope(1))
    body = json.loads(path.read_text())
    for field in ("query", "timestamp", "row_count", "agent", "version"):
        less = {name: value for name, value in body["metadata"].items() if name != field}
        path.write_text(json.dumps({**body, "metadata": less}))
        with pytest.raises(InputError, match=f"metadata.{field}: Field required"):
            read_output(path)
        with pytest.raises(ValueError, match=field):
            OutputEnvelope.model_validate({**body, "metadata": less})
    path.write_text(json.dumps({**body, "data": []}))
    with pytest.raises(InputError, match="row_count is 1, but data has 0 rows"):
        read_output(path)
    path.write_text(json.dumps({**body, "data": {}}))
    with pytest.raises(InputError, match="valid list"):
        read_output(path)
    path.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_output(path)
    assert any("is not JSON" in problem for problem in agent.check().problems)
    written = agent.log(log("20251111_120000"))
    kept = json.loads(written.read_text())
    for field in ("run_id", "status", "timestamp", "duration_ms", "agent", "version"):
        written.write_text(json.dumps({k: v for k, v in kept.items() if k != field}))
        with pytest.raises(InputError, match=f"{field}: Field required"):
            read_log(written)
    with pytest.raises(ValueError, match="needs its error"):
        log("x", status="failed")
    with pytest.raises(InputError, match="b does not write for a"):
        agent.write(envelope(agent="b"))
    for name in ("..", "a/b", ""):
        with pytest.raises(InputError, match="one plain path segment"):
            Bus(tmp_path).agent(name)
    with pytest.raises(NotFound, match="no agent named 'x' has written here: there is a"):
        Bus(tmp_path).known("x")
    with pytest.raises(NotFound, match="a has no output 77"):
        Bus(tmp_path).output(77, "a")


def test_a_manifest_that_lags_is_made_anew(tmp_path: Path) -> None:
    """From claims, outputs and logs; an id that was claimed and never written is not used again."""
    agent = Bus(tmp_path).agent("a")
    for _ in range(3):
        agent.log(log(agent.begin(), output_path=str(agent.write(envelope()))))
    claimed = agent.manifest.increment()
    assert claimed == 4
    meta = tmp_path / "a" / "meta.json"
    right = json.loads(meta.read_text())
    for damage in ('{"next_id": 1, "last_updated": "2025-01-01T00:00:00Z", "total_runs": 0}', "{"):
        meta.write_text(damage)
        assert not Manifest(tmp_path / "a").true()
        assert any("lags behind" in text for text in agent.check().problems)
        Bus(tmp_path).agent("a")  # Opening it is enough.
        found = json.loads(meta.read_text())
        assert (found["next_id"], found["total_runs"]) == (right["next_id"], 3)
    meta.unlink()
    (tmp_path / "a" / "out" / "000003.json").unlink()
    assert agent.write(envelope()).name == "000005.json", "neither 3 nor 4 again"
    checked = agent.check()
    assert any("000003.json is missing" in text for text in checked.problems)
    assert checked.gaps == 2
    assert agent.manifest.true()


def test_a_killed_change_is_found_by_the_next(tmp_path: Path) -> None:
    """A process that dies between the log and the manifest leaves its mark in the lock file."""
    agent = Bus(tmp_path).agent("a")
    agent.log(log(agent.begin()))
    write_atomic(tmp_path / "a" / "logs" / "20200101_000000.json", b"{}")
    (tmp_path / "a" / ".lock").write_bytes(b"1")
    agent.log(log(agent.begin()))
    assert agent.manifest.true(), "the run of the killed process is counted as well"
    (tmp_path / "a" / "out").mkdir(exist_ok=True)
    (tmp_path / "a" / "out" / ".000009.claim").touch()
    (tmp_path / "a" / ".lock").write_bytes(b"1")
    assert agent.write(envelope()).name == "000010.json", "9 was claimed by it"


def test_four_threads_on_one_file(tmp_path: Path) -> None:
    """They once took each other's temporary name: 193 errors in 400 writes."""
    errors, folder = list[BaseException](), tmp_path / "folder"

    def write() -> None:
        for _ in range(100):
            try:
                write_atomic(folder / "one", b"x" * 1000)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [p.name for p in folder.iterdir()] == ["one"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file where a folder is wanted")
    with pytest.raises(Unavailable, match="cannot be written"):
        Bus(tmp_path).agent("a").write(envelope())
