"""`beforehand bus list|show|verify|tail`: the files through which agents talk."""

import time
from pathlib import Path
from typing import Annotated

import orjson
from cyclopts import Parameter

from beforehand.cli.output import Json, emit, plain_table
from beforehand.config import Home
from beforehand.errors import EXIT_FAILED, EXIT_OK, InputError
from beforehand.store.bus import AgentFolder, Bus, read_log

LOOK_S = 0.5
AgentName = Annotated[str, Parameter(help="The agent's name.")]


def opened() -> Bus:
    """The bus of the home folder."""
    return Bus(Home.from_environment().bus)


def list_(*, json: Json = False) -> int:
    """Every agent that has written here, with its outputs and runs."""
    bus, rows = opened(), []
    for name in bus.agents():
        manifest = bus.agent(name).manifest.read()
        outputs = len(bus.agent(name).outputs())
        rows.append({"agent": name, "outputs": outputs, **manifest.model_dump(mode="json")})
    if json:
        emit({"agents": rows})
    elif rows:
        head = ("agent", "outputs", "next_id", "total_runs", "last_updated")
        print(plain_table([head, *([str(row[name]) for name in head] for row in rows)]))
    else:
        print("no agent has written here yet: `beforehand agent list` shows what there is")
    return EXIT_OK


def show(
    agent: AgentName,
    number: Annotated[int | None, Parameter(help="The output's number [the last].")] = None,
    /,
    *,
    log: Annotated[
        str | None, Parameter(help="Show the log of this run instead (`last` for the last one).")
    ] = None,
    json: Json = False,
) -> int:
    """One output of an agent, or the log of one of its runs."""
    folder = opened().known(agent)
    if log is not None and number is not None:
        raise InputError("name an output's number, or a run with --log, not both")
    if log is not None:
        path = _log(folder, log)
        emit(read_log(path).wire())
        return EXIT_OK
    outputs = folder.outputs()
    if number is None and not outputs:
        raise InputError(f"{agent} has no output yet: --log last shows its last run")
    if number is None:
        number = int(outputs[-1].stem)
    emit(opened().output(number, agent).wire())
    return EXIT_OK


def verify(
    agent: Annotated[str | None, Parameter(help="Only this agent [all].")] = None,
    /,
    *,
    repair: Annotated[
        bool,
        Parameter(negative="", help="Rebuild manifests that lag, remove what crashes left."),
    ] = False,
    json: Json = False,
) -> int:
    """Read every file: are all as documented, is each output's id claimed, are the manifests right?
    Exit code 1 if not."""
    bus = opened()
    names = bus.agents() if agent is None else [bus.known(agent).name]
    # The folders are opened one by one and not through the bus, which repairs what it opens.
    checked = [AgentFolder(bus.root / name, bus.clock).check(repair) for name in names]
    if json:
        emit({"agents": [vars(one) for one in checked]})
    for one in checked if not json else ():
        gaps = f", {one.gaps} ids claimed and not written" if one.gaps else ""
        print(f"{one.agent}: {one.outputs:,} outputs, {one.logs:,} logs{gaps}")
        for problem in one.problems:
            print(f"  {problem}")
    if not json and not checked:
        print("no agent has written here yet")
    return EXIT_FAILED if any(one.problems for one in checked) else EXIT_OK


def tail(
    agent: Annotated[str | None, Parameter(help="Only this agent [all].")] = None,
    /,
    *,
    n: Annotated[int, Parameter(name=["--lines", "-n"], help="How many runs to begin with.")] = 10,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", help="Wait for more.")
    ] = False,
    json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print each log as a line of JSON.")
    ] = False,
) -> int:
    """The last runs of all agents or of one, one line each; --follow waits for more."""
    bus = opened()
    if agent is not None:
        bus.known(agent)
    seen = set[Path]()
    while True:
        names = bus.agents() if agent is None else [agent]
        paths = [path for name in names for path in bus.agent(name).logs() if path not in seen]
        lines = sorted(_line(path, json) for path in paths)
        for _, text in lines if seen else lines[max(len(lines) - n, 0) :]:
            print(text, flush=True)
        seen |= set(paths)
        if not follow:
            return EXIT_OK
        time.sleep(LOOK_S)


def _line(path: Path, json: bool) -> tuple[str, str]:
    """(when, the line) of a run."""
    try:
        log = read_log(path).wire()
    except InputError as error:
        return "", str(error)
    if json:
        return log["timestamp"], orjson.dumps(log).decode()
    said = log.get("error") or log.get("output_path") or ""
    return log["timestamp"], "  ".join(
        [log["timestamp"], log["agent"], log["run_id"], log["status"], str(said)]
    )


def _log(folder: AgentFolder, run_id: str) -> Path:
    logs = folder.logs()
    if run_id == "last" and logs:
        return logs[-1]
    found = [path for path in logs if path.stem == run_id]
    if not found:
        raise InputError(f"{folder.name} has no run {run_id!r}: it has {len(logs):,} runs")
    return found[0]
