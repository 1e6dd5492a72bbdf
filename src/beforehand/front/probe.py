"""Probe a forecaster: does its answer at t depend on anything after t?"""

import base64
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from beforehand.config import Workspace
from beforehand.errors import InputError
from beforehand.forecast.base import Opening, class_of, open_forecaster, split_entry
from beforehand.forecast.callables import (
    code_digest,
    declare,
    entry_of,
    file_of,
    load,
    place_of,
)
from beforehand.forecast.schemes.command import Program
from beforehand.front.progress import progress as bar
from beforehand.front.run import workspace_of
from beforehand.front.world import World, need_world
from beforehand.gateway.search import Grade
from beforehand.jobs.checks import between, interval, one_of
from beforehand.jobs.probe.arms import Place, Subject
from beforehand.jobs.probe.check_tool import INSTANTS, ToolCheck
from beforehand.jobs.probe.check_tool import check_tool as run_check
from beforehand.jobs.probe.probe import DRAWS, Probe
from beforehand.jobs.probe.probe import probe as run_probe
from beforehand.store.run_folder import ProbeNote, note_probe


def probe(
    forecaster: str | Callable[..., Any],
    world: World,
    n: int = 200,
    *,
    every: str | timedelta = "7d",
    evidence: int = 5,
    grade: Grade = "captured",
    draws: int = DRAWS,
    seed: int = 0,
    timeout: float = 300.0,
    swap: bool = False,
    home: str | Path | None = None,
    progress: bool = True,
) -> Probe:
    """Whether a forecaster's answers depend on anything after the instant that is asked about:
    `beforehand backtest probe` from Python.

    At `n` / 10 instants, two worlds are made that are the same until then and different after it;
    the forecaster is begun anew in each, in a process of its own, and shown the same contexts; if
    its answers differ each time, they depend on the future. `forecaster` is a callable,
    `python:...`, or a baseline: what runs in our process and could look. `draws` is how often one
    with chance of its own is asked in each world; `timeout` is in seconds and for each process;
    `swap` moves the worlds to the archive's path instead of mounting them there.

    What was found stands on the card of later backtests with the same code (`data/probes.jsonl` of
    the home folder).

    Returns a Probe: `.peeked`, `.n`, `.because`, `.undetected_below`. Raises InputError for what is
    not probed (addresses and models) and for a world that is too small.
    """
    between("n", n, 10, 10_000)
    between("draws", draws, 2, 1_000)
    workspace = workspace_of(home)
    one_of("grade", grade, ("captured", "published"))
    where = Place(
        need_world(world).path.parent.resolve() / world.path.name,
        workspace.home,
        grade,
        between("evidence", evidence, 0, 20),
        timeout,
    )
    subject, code, called = _subject(forecaster, workspace)
    apart = interval("every", every)
    with bar("probe", progress) as update:
        found = run_probe(
            subject,
            where,
            n=n,
            every=apart,
            draws=draws,
            seed=seed,
            mounts=False if swap else None,
            progress=update,
        )
    if code is not None:
        note = _noted(code, called, found, world, grade, apart)
        note_probe(workspace.home.probes, note)
    return found


def _noted(
    code: str, place: str | None, found: Probe, world: World, grade: Grade, every: timedelta
) -> ProbeNote:
    note: ProbeNote = {
        "code": code,
        "n": found.n,
        "peeked": found.peeked,
        "why": "; ".join(found.because),
        "archive": world.digest,
        "grade": grade,
        "every_s": int(every.total_seconds()),
    }
    if place is not None:
        note["place"] = place
    if found.files:
        note["files"] = found.files
    return note


def check_tool(
    name: str,
    arguments: Mapping[str, object],
    world: World,
    *,
    instants: int = INSTANTS,
    progress: bool = True,
) -> ToolCheck:
    """Whether a tool shows anything from after t: `beforehand tool check` from Python. It is called
    with these arguments as of some instants of the world's time, in the world as it is and in one
    with another future; `.leaks` are the instants at which the answers differ. Raises InputError
    for bad arguments, NotFound for an unknown tool."""
    path, instants = need_world(world).path, between("instants", instants, 1, 1_000)
    with bar("tool check", progress) as update:
        return run_check(name, arguments, path, instants, update)


def _subject(
    given: str | Callable[..., Any], workspace: Workspace
) -> tuple[Subject, str | None, str | None]:
    """What is probed, as another process finds it; the digest of its code, and its place."""
    if not isinstance(given, str):
        return _callable(given)
    name, rest = split_entry(given.strip())
    scheme, found = rest.partition(":")[0], class_of(rest)
    if found is not None and found.kind == "baseline":
        return Subject(given, name or rest), None, None
    if scheme == "command" or (scheme == "python" and "#" in rest):
        return _program(given.strip(), workspace)
    if scheme != "python":
        raise InputError(
            f"{given!r} is not probed: a probe starts the code itself, so it takes a callable "
            "(python:module:name, python:./file.py:name), a program (command:./bot.sh) or a "
            "baseline"
        )
    target = rest.partition(":")[2]
    declared = load(target)
    place, _, attribute = target.rpartition(":")
    called = f"{name}=" if name else ""
    folder, code = file_of(declared.callee), code_digest(declared.callee)
    entry = f"python:{Path(place).resolve()}:{attribute}" if place.endswith(".py") else rest
    found_at = place_of(declared.callee)
    return Subject(f"{called}{entry}", name or declared.name, folder=folder), code, found_at


def _program(given: str, workspace: Workspace) -> tuple[Subject, str | None, str | None]:
    """A program, named so that another folder finds it too."""
    one = open_forecaster(given, Opening(workspace))
    assert isinstance(one, Program)
    one.check()
    return Subject(one.anywhere, one.name, folder=one.place.parent), one.code, str(one.place)


def _callable(given: Callable[..., Any]) -> tuple[Subject, str | None, str | None]:
    declared, entry = declare(given), entry_of(given)
    folder, code = file_of(given), code_digest(given)
    if entry.count(":") == 2:
        return Subject(entry, declared.name, folder=folder), code, place_of(given)
    import cloudpickle

    try:
        copy = base64.b64encode(cloudpickle.dumps(given)).decode()
    except Exception as error:
        raise InputError(
            f"{declared.name} cannot be taken to another process ({error}): write it to a file, "
            "and probe python:./file.py:name"
        ) from None
    return Subject(f"python:{declared.name}", declared.name, copy, folder), code, place_of(given)
