"""Nine forecasters from nine places in one leaderboard, over recorded markets.

    python run.py DATA            # a folder with ForecastBench's markets and question sets

Makes what it needs in `work/` beside it: two environments (forecasting-tools, ai-prophet) and one
with inspect, a stub that stands in for the models' vendors, two services on this machine. Nothing
leaves it but what installs the packages.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = HERE / "work"
PYTHON = Path(sys.executable)
BEFOREHAND = [str(PYTHON), "-m", "beforehand"]
DUE, START, END, EVERY = "2025-10-26", "2025-10-27T00:00:00Z", "2025-12-08T00:00:00Z", "14d"
ENVIRONMENTS = {
    "forecasting-tools": ["forecasting-tools[agents]==0.3.5"],
    "prophet": ["ai-prophet==0.1.5", "fastapi", "uvicorn", "anthropic"],
    "inspect": ["inspect-ai"],
}


def environment(name: str) -> Path:
    """The interpreter of an environment of its own."""
    place = WORK / "envs" / name
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        uv = [str(PYTHON), "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--allow-existing", str(place)], check=True)
        install = [*uv, "pip", "install", "--quiet", "--python", str(python), *ENVIRONMENTS[name]]
        subprocess.run(install, check=True)
        (place / "ready").touch()
    return python


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def service(words: Sequence[str], port: int, env: dict[str, str]) -> Iterator[None]:
    """A program that listens, until the block ends."""
    with (WORK / f"{port}.log").open("wb") as log:
        running = subprocess.Popen(words, cwd=WORK, env=env, stdout=log, stderr=log)
        try:
            for _ in range(600):
                with socket.socket() as tried:
                    if tried.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if running.poll() is not None:
                    sys.exit(f"{words[0]} ended: see {log.name}")
                time.sleep(0.1)
            yield
        finally:
            running.kill()
            running.wait()


def said(words: Sequence[str], env: dict[str, str]) -> str:
    done = subprocess.run([*BEFOREHAND, *words], cwd=WORK, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return done.stdout


def files(data: Path, ids: list[str]) -> None:
    """A ForecastBench submission of the set's questions, and a task for inspect."""
    questions = json.loads((data / f"question_sets/{DUE}-llm.json").read_text())["questions"]
    rows = []
    for one in questions:
        name = one["id"] if isinstance(one["id"], str) else None
        if name is None or f"{one['source']}:{name}".lower() not in {i.lower() for i in ids}:
            continue
        p = 0.8 * float(one["freeze_datetime_value"]) + 0.1
        rows.append({"id": name, "source": one["source"], "forecast": p, "resolution_date": None})
    about = {"organization": "o", "model": "shrunk", "model_organization": "o"}
    sent = {**about, "question_set": f"{DUE}-llm.json", "forecast_due_date": DUE, "forecasts": rows}
    (WORK / "submission.json").write_text(json.dumps(sent))
    (WORK / "ids.json").write_text(json.dumps(ids))


INSPECT = """
import hashlib, json
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import solver

@solver
def stub():
    async def solve(state, generate):
        p = int(hashlib.sha256(state.sample_id.encode()).hexdigest(), 16) % 90 + 5
        state.output, state.completed = ModelOutput.from_content("mockllm/model", f"{p}%"), True
        return state
    return solve

@scorer(metrics=[mean()])
def noted():
    async def score(state, target):
        return Score(value=0.0, answer=state.output.completion)
    return score

ids = json.load(open("ids.json"))
rows = [Sample(id=i.replace(":", "_").replace("/", "_"), input="?", target="YES", metadata={"market_id": i, "as_of": AS_OF}) for i in ids]
(log,) = eval(Task(dataset=rows, solver=[stub()], scorer=noted()), model=get_model("mockllm/model"), log_format="eval", log_dir="logs", display="none")
assert log.status == "success", log.error
import pathlib; pathlib.Path("log.eval").write_bytes(pathlib.Path(log.location).read_bytes())
"""


def main() -> None:
    data = Path(sys.argv[1]).resolve()
    WORK.mkdir(exist_ok=True)
    env = {**os.environ, "BEFOREHAND_HOME": str(WORK)}
    stub_port, prophet_port, a2a_port = free_port(), free_port(), free_port()
    env |= {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
    env |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{stub_port}/v1"}
    env |= {"OPENAI_API_BASE": env["OPENAI_BASE_URL"]}
    env |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{stub_port}"}
    here = {name: environment(name) for name in ENVIRONMENTS}
    said(["world", "import", "markets", str(data / "markets_resolved.jsonl")], env)
    for kind, name in (("question", f"question_sets/{DUE}-llm.json"),):
        said(["world", "import", "forecastbench", str(data / name)], env)
        print(f"imported the {kind} set of {DUE}")
    listed = json.loads((data / f"question_sets/{DUE}-llm.json").read_text())["questions"]
    wanted = {f"{q['source']}:{q['id']}" for q in listed if isinstance(q["id"], str)}
    lines = (data / "markets_resolved.jsonl").read_text().splitlines()
    known = {f"{m['source']}:{m['id']}": m["resolution"]["date"] for m in map(json.loads, lines)}
    names = sorted(n for n in wanted & known.keys() if known[n] > "2025-11-03")
    ids = [f"{n.partition(':')[0].upper()}:{n.partition(':')[2]}" for n in names]
    files(data, ids)
    script = INSPECT.replace("AS_OF", repr("2025-10-26T12:00:00Z"))
    subprocess.run([str(here["inspect"]), "-c", script], cwd=WORK, env=env, check=True)
    bots = HERE / "bots"
    agent = HERE.parents[1] / "tests" / "servers" / "mcp_agent.py"
    configured = [
        "market",
        f"shell=command:{bots}/bot.sh",
        f"node=command:node {bots}/bot.js#p=result.p&why=result.why",
        f"prophets=http://127.0.0.1:{prophet_port}/predict#protocol=prophet",
        f"ftools=python:{bots}/ft_bot.py:Bot#python={here['forecasting-tools']}&as=forecasting-tools",
        f"purple=a2a:http://127.0.0.1:{a2a_port}",
        f"client=mcp:{PYTHON} {agent} 0.02",
        f"submitted=file:{WORK}/submission.json",
        f"inspected=file:{WORK}/log.eval",
    ]
    print(f"{len(ids)} markets; the configuration of each:")
    for one in configured:
        print(
            f"  {one.replace(str(WORK), 'work').replace(str(HERE), '.').replace(str(PYTHON), 'python')}"
        )
    with ExitStack() as opened:
        opened.enter_context(
            service([str(PYTHON), str(HERE / "stub.py"), str(stub_port)], stub_port, env)
        )
        app = "ai_prophet.forecast.example_agent:app"
        words = [str(here["prophet"]), "-m", "uvicorn", app, "--port", str(prophet_port)]
        opened.enter_context(service(words, prophet_port, env))
        words = [*BEFOREHAND, "a2a", "purple", "--port", str(a2a_port)]
        opened.enter_context(service(words, a2a_port, env))
        run = [
            "backtest",
            "run",
            "--markets",
            ",".join(ids),
            "--every",
            EVERY,
            "--start",
            START,
            "--end",
            END,
        ]
        run += ["--forecasters", ",".join(configured), "--run-id", f"nine-{os.getpid()}", "--draws", "1000", "--placebo", "0", "--timeout", "120"]  # fmt: skip
        began = time.monotonic()
        print(said(run, env))
        print(f"{time.monotonic() - began:.0f} s")
        print(said(["runs", "verify", f"nine-{os.getpid()}"], env))


if __name__ == "__main__":
    main()
