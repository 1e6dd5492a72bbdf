"""Other people's packages: a package with one plugin of each kind, written by `new-plugin`, built and
installed, works from the command line, from Python and over MCP, and no file of ours is changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.plugins import GROUPS, Plugins
from experiments import QUICK, Out
from program import run_program

OURS = Path(__file__).resolve().parents[1] / "src"


class Installed:
    """An environment with the made package in it; each call is a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.site = folder, folder / "site"
        paths = [str(self.site), str(OURS)]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "BEFOREHAND_HOME": str(folder / "home"),
        }

    def install(self, source: Path) -> None:
        """Build and install as a user would."""
        uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
        self.run([*uv, "--target", str(self.site), str(source)])

    def run(self, command: list[str], code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_program(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr + done.stdout
        return done

    def cli(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-m", "beforehand", *arguments], code)

    def json(self, *arguments: str, code: int = 0) -> dict:  # type: ignore[type-arg]
        return json.loads(self.cli(*arguments, "--json", code=code).stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The package `acme`, as `new-plugin` writes it."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "home").mkdir()
    found = Installed(folder)
    found.cli("new-plugin", "acme")
    found.install(folder / "acme")
    found.cli("world", "simulate", "--dates", "12")
    readings = [{"time": f"2025-0{m}-01T00:00:00Z", "value": m} for m in range(1, 6)]
    (folder / "answer.json").write_text(json.dumps({"id": "A1", "readings": readings}))
    (folder / "notes.csv").write_text("id,time,title\nn1,2025-02-01T00:00:00Z,A note\n")
    return found


def test_all_five_from_the_command_line(acme: Installed) -> None:
    acme.cli("world", "import", "acme-notes", "notes.csv")
    acme.cli("world", "import", "acme", "answer.json")
    asked = ["--forecasters", "market,acme,ours=acme", "--every", "28d", "--run-id", "r", *QUICK]
    found = acme.json("backtest", "run", *asked)
    board = {row["forecaster"]: row for row in found["leaderboard"]}
    assert board.keys() >= {"market", "acme", "ours"}
    assert board["acme"]["added"]["acme_quartic"]["about"].startswith("The fourth power")
    recorded = {(row["group"], row["name"]): row for row in found["plugins"]}
    assert recorded.keys() == {("forecasters", "acme"), ("metrics", "acme")}
    assert {(row["package"], row["version"]) for row in found["plugins"]} == {("acme", "0.1.0")}
    assert all(len(row["digest"]) == 64 for row in found["plugins"])
    assert acme.json("runs", "verify", "r")["sound"]
    tool = ["tool", "get_acme_readings", "--arg", "station=A1", "--as-of", "2025-03-15T00:00:00Z"]
    assert [row["value"] for row in acme.json(*tool)["readings"]] == [3, 2, 1]
    assert "get_acme_readings" in acme.cli("tool", "list").stdout
    assert "get_acme_readings" in acme.cli("tool", "find", "acme readings").stdout
    checked = acme.json("tool", "check", "get_acme_readings", "--arg", "station=A1")
    assert checked["leaks"] == []
    assert checked["answered"] > 0
    acme.run([sys.executable, "-m", "beforehand.tools.pages", "docs", "acme"])
    page = (acme.folder / "docs" / "acme.md").read_text()
    assert "### `get_acme_readings`" in page
    assert sorted(p.name for p in (acme.folder / "docs").iterdir()) == ["acme.md"]


def test_a_benchmark_records_them_too(acme: Installed) -> None:
    asked = ["--forecasters", "market,acme", "--run-id", "b", *QUICK]
    found = acme.json("bench", "run", *asked)
    recorded = {(row["group"], row["name"]) for row in found["plugins"]}
    assert recorded == {("forecasters", "acme"), ("metrics", "acme")}


def test_from_python_with_its_own_tests(acme: Installed) -> None:
    """The tests that `new-plugin` writes: all of it through the front door."""
    # A folder of its own: at the shared one, it would shut other users out (and our Postgres is one).
    place = ["--basetemp", str(acme.folder / "inner")]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *place, "acme/tests"]
    assert "3 passed" in acme.run(tests).stdout


def test_over_mcp(acme: Installed) -> None:
    """The official client over stdio."""
    client = acme.folder / "client.py"
    client.write_text(
        "import asyncio, json, sys\n"
        "from mcp import ClientSession, StdioServerParameters\n"
        "from mcp.client.stdio import stdio_client\n"
        "import os\n"
        "async def main():\n"
        "    at = ['--as-of', '2025-03-15T00:00:00Z']\n"
        "    server = StdioServerParameters(command=sys.executable, env=dict(os.environ),\n"
        "        args=['-m', 'beforehand', 'mcp', 'acme', *at])\n"
        "    async with stdio_client(server) as streams, ClientSession(*streams) as session:\n"
        "        await session.initialize()\n"
        "        print([t.name for t in (await session.list_tools()).tools])\n"
        "        said = await session.call_tool('get_acme_readings', {'station': 'A1'})\n"
        "        print(said.content[0].text)\n"
        "asyncio.run(main())\n"
    )
    acme.cli("world", "import", "acme", "answer.json")
    done = acme.run([sys.executable, str(client)])
    assert "get_acme_readings" in done.stdout
    assert '"value":3' in done.stdout.replace(" ", "").replace(".0", "")
    assert '"value":4' not in done.stdout.replace(" ", "")


def test_doctor_lists_them(acme: Installed) -> None:
    checks = {row["name"]: row for row in acme.json("doctor")["checks"]}
    for group in GROUPS:
        name = "acme-notes" if group == "importers" else "acme"
        row = checks[f"plugin {name} ({group})"]
        assert row["ok"], row
        assert row["detail"].startswith("acme 0.1.0, acme.")


def test_a_broken_plugin_is_named_and_stops_nothing_else(acme: Installed, tmp_path: Path) -> None:
    """One of each kind that cannot be loaded, beside those that can."""
    broken = tmp_path / "bad"
    acme.cli("new-plugin", "bad", "--into", str(broken))
    for name, text in {
        "forecasters": "raise RuntimeError('no forecaster today')\n",
        "metrics": "import nothing_of_that_name\n",
        "importers": "read = 7\n",
        "sources": "THE_SOURCE = 'none'\n",
        "tools": "def get_bad_readings(): pass\n",
    }.items():
        (broken / "src" / "bad" / f"{name}.py").write_text(text)
    other = Installed(acme.folder)
    other.site = tmp_path / "more"
    other.install(broken)
    other.environment["PYTHONPATH"] = os.pathsep.join([str(acme.site), str(other.site), str(OURS)])
    checks = {row["name"]: row for row in other.json("doctor", code=1)["checks"]}
    for group, said in {
        "forecasters": "no forecaster today",
        "metrics": "nothing_of_that_name",
        "importers": "cannot be called",
        "sources": "is not a Source",
        "tools": "is not a tool",
    }.items():
        name = "bad-notes" if group == "importers" else "bad"
        row = checks[f"plugin {name} ({group})"]
        assert not row["ok"]
        assert said in row["detail"], row
        mine = "acme-notes" if group == "importers" else "acme"
        assert checks[f"plugin {mine} ({group})"]["ok"]
    asked = ["--forecasters", "acme", "--every", "28d", "--run-id", "beside", *QUICK]
    done = other.cli("backtest", "run", *asked, "--json")
    assert "bad 0.1.0 (bad.forecasters:calm) was left out" in done.stderr
    assert done.stderr.count("bad.forecasters:calm") == 1, "it is said once"
    assert {row["package"] for row in json.loads(done.stdout)["plugins"]} == {"acme"}
    refused = other.cli("backtest", "run", "--forecasters", "bad", *QUICK, code=2)
    assert "unknown forecaster 'bad'" in refused.stderr


def test_plugins_that_misbehave(acme: Installed, tmp_path: Path) -> None:
    """One that exits, one that prints, one with a name of ours, one with a name of theirs, a metric
    that fails: each is named or harmless, and the run and its JSON are whole."""
    broken = tmp_path / "rude"
    acme.cli("new-plugin", "rude", "--into", str(broken))
    project = broken / "pyproject.toml"
    text = project.read_text()
    text = text.replace('[project.entry-points."beforehand.forecasters"]\n',
        '[project.entry-points."beforehand.forecasters"]\n'
        'acme = "rude.forecasters:calm"\nmarket = "rude.forecasters:calm"\n'
        'http = "rude.forecasters:calm"\n')  # fmt: skip
    project.write_text(text)
    package = broken / "src" / "rude"
    (package / "importers.py").write_text("raise SystemExit(7)\n")
    (package / "metrics.py").write_text(
        "print('a metric that talks')\n" + (package / "metrics.py").read_text()
    )
    metrics = (package / "metrics.py").read_text()
    body = metrics.index("return")
    (package / "metrics.py").write_text(metrics[:body] + "raise ValueError('not today')\n")
    other = Installed(acme.folder)
    other.site = tmp_path / "more"
    other.install(broken)
    other.environment["PYTHONPATH"] = os.pathsep.join([str(acme.site), str(other.site), str(OURS)])
    checks = {row["name"]: row for row in other.json("doctor", code=1)["checks"]}
    assert "SystemExit: 7" in checks["plugin rude-notes (importers)"]["detail"]
    rows = {name: row["ok"] for name, row in checks.items() if "(forecasters)" in name}
    assert rows["plugin rude (forecasters)"]
    assert not rows["plugin market (forecasters)"]
    assert not rows["plugin http (forecasters)"]
    asked = ["--forecasters", "market,acme,rude", "--every", "28d", *QUICK]
    done = other.cli("backtest", "run", *asked, "--run-id", "rude", "--json")
    found = json.loads(done.stdout)
    assert "a metric that talks" in done.stderr
    assert "acme has one of that name" in done.stderr
    by_name = {(row["group"], row["name"]): row["package"] for row in found["plugins"]}
    assert by_name["forecasters", "acme"] == "acme"
    for row in found["leaderboard"]:
        assert row["brier"] is not None
        failed = row["added"]["rude_quartic"]
        assert failed["value"] is None
        assert failed["error"] == "the metric rude_quartic failed: ValueError: not today"
        assert row["added"]["acme_quartic"]["value"] is not None
    page = (acme.folder / "home" / "data" / "runs" / "rude" / "report.html").read_text()
    assert "the metric rude_quartic failed" in page
    shown = other.cli("backtest", "run", *asked)
    assert "the metric rude_quartic failed" in shown.stdout


def test_a_leaking_tool_is_caught(acme: Installed, tmp_path: Path) -> None:
    source = tmp_path / "leaky"
    acme.cli("new-plugin", "leaky", "--into", str(source))
    tools = source / "src" / "leaky" / "tools.py"
    text = tools.read_text().replace(
        'call.view.observations("leaky", "reading", station)',
        "call.view._gateway.full_view().history(station)[-1:]",
    )
    tools.write_text(
        text.replace("row.data for row in found", '{"price": row.price} for row in found')
    )
    other = Installed(acme.folder)
    other.site = tmp_path / "more"
    other.install(source)
    other.environment["PYTHONPATH"] = os.pathsep.join([str(other.site), str(OURS)])
    market = json.loads(other.cli("world", "info", "--json").stdout)
    assert market
    found = other.json("tool", "check", "get_leaky_readings", "--arg", "station=m0003", code=1)
    assert found["leaks"]
    honest = other.json(
        "tool", "check", "get_odds_at", "--arg", "id=m0003", "--arg", "time=2025-02-01T00:00:00Z"
    )
    assert honest["leaks"] == []


def test_new_plugin_refuses_what_cannot_be(capsys: Out, tmp_path: Path) -> None:
    for name in ("My-Plugin", "class", "beforehand", "json", "9lives"):
        assert cli(["new-plugin", name, "--into", str(tmp_path / "x")]) == 2
        assert "cannot be a package" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert cli(["new-plugin", "fine", "--into", str(tmp_path / "full")]) == 2
    assert "not empty" in capsys.readouterr().err


def test_where_there_are_none_nothing_is_loaded() -> None:
    code = (
        "import sys; from beforehand.plugins import PLUGINS; assert PLUGINS.found() == []; "
        "print('importlib.metadata' in sys.modules)"
    )
    done = run_program([sys.executable, "-c", code], fresh=True, capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.strip() == "False"
    assert Plugins().found() == []
