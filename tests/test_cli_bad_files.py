"""Files that are not what they claim: each is refused with its own sentence, in bounded memory."""

import gzip
import json
import random
import sys
import zlib
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.cli.app import run as cli
from beforehand.errors import InputError
from beforehand.store import files
from beforehand.store.archive.reader import Archive
from experiments import Out
from program import run_program

HISTORY = {"source": "polymarket", "id": "0x1", "question": "Q?"}


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 GB of zeros in 2 MB."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=9) as out:
        for _ in range(200):
            out.write(b"0" * 10**7)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["world", "import", "markets"],
        ["world", "import", "documents"],
        ["world", "import", "prices"],
        ["world", "import", "polymarket"],
        ["world", "import", "forecastbench"],
        ["score"],
        ["bench", "published"],
    ],
)
def test_a_bomb_ends_in_a_sentence(
    bomb: Path, sim: Path, tmp_path: Path, command: list[str]
) -> None:
    """Exit 2, one sentence, and less than 600 MB although 2 GB are packed in it."""
    measured = (
        "import sys\nfrom beforehand.cli.app import run\n"
        "code = run(sys.argv[1:])\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith('VmHWM'):\n"
        "        print(line.split()[1])\n"
        "sys.exit(code)"
    )
    archive = sim if command[0] == "score" else tmp_path / "a"
    where = [] if command[0] == "bench" else ["--archive", str(archive)]
    done = run_program(
        [sys.executable, "-c", measured, *command, str(bomb), *where],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "BEFOREHAND_HOME": str(tmp_path)},
    )
    assert done.returncode == 2, done.stderr
    assert "BEFOREHAND_MAX_UNPACKED_MB" in done.stderr
    assert "Traceback" not in done.stderr
    assert int(done.stdout.split()[-1]) < 600_000


def test_the_bound_is_a_setting(
    bomb: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = tmp_path / "small.gz"
    small.write_bytes(gzip.compress(b"x" * 3_000_000))
    assert len(files.read_bytes(small)) == 3_000_000
    monkeypatch.setenv("BEFOREHAND_MAX_UNPACKED_MB", "2")
    with pytest.raises(InputError, match="unpacks to more than 3 MB"):
        files.read_bytes(small)
    plain = tmp_path / "plain"
    plain.write_bytes(b"x" * 3_000_000)
    with pytest.raises(InputError, match="at most 2 are read"):
        files.read_bytes(plain)
    monkeypatch.setenv("BEFOREHAND_MAX_UNPACKED_MB", "many")
    with pytest.raises(InputError, match="must be a whole number"):
        files.read_bytes(small)


def test_members_padding_and_damage(tmp_path: Path) -> None:
    one = gzip.compress(b"a" * 100_000) + gzip.compress(b"b")
    assert files.unpack(one + b"\0" * 7, "x") == b"a" * 100_000 + b"b"
    for cut in (one[:-3], one[:40], b"\x1f\x8b" + b"x" * 20, b"\x1f\x8b"):
        with pytest.raises(InputError, match="damaged gzip"):
            files.unpack(cut, "x")


@pytest.mark.parametrize("flags", [2, 4, 8, 16, 2 + 8, 4 + 8, 4 + 16, 2 + 4 + 8 + 16])
def test_a_header_may_lie_across_two_steps(flags: int) -> None:
    """At any of its bytes: a checksum, extra bytes, a name, a comment (RFC 1952, 2.3)."""
    extra, text = b"\x03\x00abc" * bool(flags & 4), b"name\0" * bool(flags & 8)
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\x03" + extra + text
    head += b"why\0" * bool(flags & 16)
    if flags & 2:
        head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    second = head + gzip.compress(b"b", mtime=0)[10:]
    assert gzip.decompress(second) == b"b"
    noise = random.Random(1).randbytes(files._STEP)
    for cut in range(len(head) + 1):
        for size in range(files._STEP - 200, files._STEP):
            first = gzip.compress(noise[:size], 0)
            if len(first) == files._STEP - cut:
                assert files.unpack(first + second, "x") == noise[:size] + b"b"
                break
        else:
            raise AssertionError("no first member of this size")


PIECES = [b"a", b"xyz", b"\n", b"\r", b"\r\n", b" ", b"\xef\xbb\xbf", b"\x0b", b"\x85"]


@pytest.mark.parametrize("part", [1, 2, 3, 2**20])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14), packed=st.booleans())
def test_lines_are_the_same_in_parts_of_any_size(
    part: int, tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], packed: bool
) -> None:
    content, path = b"".join(pieces), tmp_path_factory.getbasetemp() / f"parts-{part}"
    path.write_bytes(gzip.compress(content[:3]) + gzip.compress(content[3:]) if packed else content)
    whole = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_STEP", max(part, 2))
        patch.setattr(files, "_PART", part)
        found = list(files.read_lines(path))
    assert found == [(n, line) for n, line in enumerate(whole, start=1) if line.strip()]


def test_a_parquet_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    path = tmp_path / "q.parquet"
    duckdb.sql(
        f"COPY (SELECT 'S' AS symbol, repeat('x', 1000) AS note FROM range(40000)) TO '{path}'"
    )
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    monkeypatch.setenv("BEFOREHAND_MAX_UNPACKED_MB", "1")
    size = duckdb.sql(f"SELECT sum(total_uncompressed_size) FROM parquet_metadata('{path}')")
    stated = int(size.fetchall()[0][0])
    code = cli(["world", "import", "market-data", str(path)])
    assert code == 2
    assert ("unpacked" in capsys.readouterr().err) == (stated > 10**6)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        ("{}".encode("utf-16"), "is UTF-16: save it as UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"),
        (b'[{"id": "a"},\n{"id": "b"}]', "is one JSON document"),
        (b'{"id": "a",\n "source": "b"}', "is one JSON document"),
        (b"[" * 100_000, ":1:"),
    ],
)
def test_what_is_no_jsonl(tmp_path: Path, capsys: Out, content: bytes, said: str) -> None:
    path = tmp_path / "markets.jsonl"
    path.write_bytes(content)
    for importer in ("markets", "documents", "predictions"):
        assert cli(["world", "import", importer, str(path), "--archive", str(tmp_path / "a")]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"history": None}, "history is not a list"),
        ({"history": [["2025-01-01", 0.5]]}, "history, row 1: it is not [day, price, published"),
        ({"history": [["2025-01-01", "0.5", 1.7e9]]}, "history, row 1: '0.5' is not a number"),
        ({"history": [[20250101, 0.5, 1.7e9]]}, "history, row 1: the day 20250101 is not text"),
        ({"history": [["2025-01-01", 1.5, 1.7e9]]}, "is not from 0 to 1"),
        ({"history": [["9999-12-31", 0.5, 1.7e9]]}, "9999"),
        ({"history": [], "id": "a\0b"}, "cannot be printed"),
        ({"history": [], "rounds": ["9999-01-01"]}, "9999"),
    ],
)
def test_a_bad_market_history(tmp_path: Path, capsys: Out, changes: object, said: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({**HISTORY, **changes}))  # type: ignore[dict-item]
    archive = str(tmp_path / "a")
    assert cli(["world", "import", "markets", str(path), "--archive", archive]) == 2
    err = capsys.readouterr().err
    assert f"{path}:1: " in err
    assert said in err
    good = {**HISTORY, "history": [["2025-01-01", 0.5, 1.736e9]]}
    path.write_text(json.dumps({**HISTORY, **changes}) + "\n" + json.dumps(good))  # type: ignore[dict-item]
    assert cli(["world", "import", "markets", str(path), "--archive", archive, "--skip-bad"]) == 3
    assert Archive(tmp_path / "a").counts()["price"] == 1


def test_a_negative_horizon(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('{"id": "e", "question": "Q?", "forecast_horizon_days": -3}\n')
    command = ["bench", "evaluate", "--events", str(path), "--predictions", str(path)]
    assert cli([*command, "--resolutions", str(path)]) == 2
    assert "e.jsonl:1: forecast_horizon_days" in capsys.readouterr().err
