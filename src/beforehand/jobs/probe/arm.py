"""One arm of a probe, in a process of its own, forked from `python -m beforehand.jobs.probe.arm`,
which has loaded this package and nothing of the forecaster's.

It is told what to do, hides what an arm must not see, opens the archive at its usual path,
shows the forecaster every context in order, and writes the answers to stdout.
"""

import ctypes
import os
import random
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np
import orjson
import time_machine

from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home, Workspace
from beforehand.errors import BeforehandError, InputError
from beforehand.forecast.base import Forecaster, NoDecision, Opening, PanelForecaster
from beforehand.forecast.base import open_forecaster as open_named
from beforehand.forecast.callables import REGISTERED, declare
from beforehand.forecast.files_opened import FilesOpened
from beforehand.forecast.process import answer_each
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.search import Grade
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.meter import CallCounter
from beforehand.records.rows import Context
from beforehand.store.archive.reader import Archive

NEW_NAMESPACE, NEW_USERS = 0x00020000, 0x10000000
BIND, RECURSIVE, PRIVATE = 4096, 16384, 1 << 18


class Hiding(TypedDict):
    """What is mounted, in a namespace of this process alone. `archive` is mounted at the archive's
    usual path; each of `copied` is a folder whose changes are lost with the process; each of
    `hidden` is shown empty. `scratch` is an empty folder for what is changed."""

    archive: str
    copied: list[str]
    hidden: list[str]
    scratch: str


class Order(TypedDict):
    """What an arm does. `entry` names the forecaster; `pickled` (base64) is one that no other
    process can import."""

    entry: str
    pickled: str | None
    name: str
    archive: str
    grade: Grade
    now: str
    contexts: list[Mapping[str, Any]]
    max_results: int
    path: list[str]
    hiding: Hiding | None
    home: str
    folder: str
    environment: dict[str, str]


def hide(hiding: Hiding, archive: Path) -> None:
    """Mount it all. Raises OSError where this machine allows no such thing."""
    libc = ctypes.CDLL(None, use_errno=True)

    def called(result: int) -> None:
        if result:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        given = [part.encode() for part in (source, target, kind)]
        called(libc.mount(*given, ctypes.c_ulong(flags), options.encode() or None))

    user, group = os.getuid(), os.getgid()
    if user:
        called(libc.unshare(NEW_NAMESPACE | NEW_USERS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    else:
        called(libc.unshare(NEW_NAMESPACE))
    mount("none", "/", "", RECURSIVE | PRIVATE)
    # Held open, because what is mounted next may cover their paths.
    shown = os.open(hiding["archive"], os.O_PATH)
    mount("none", hiding["scratch"], "tmpfs", 0)
    scratch = os.open(hiding["scratch"], os.O_PATH)
    working = os.getcwd()
    held = f"/proc/self/fd/{scratch}"
    places = [part for folder in hiding["copied"] for part in (folder, *_mounted_below(folder))]
    lower = {place: f"/proc/self/fd/{os.open(place, os.O_PATH)}" for place in places}
    for number, place in enumerate(places):
        if not os.path.isdir(place):  # A file that is mounted by itself.
            mount(lower[place], place, "", BIND)
            continue
        for name in (f"upper{number}", f"work{number}"):
            os.mkdir(f"{held}/{name}")
        # By number: a path may hold a comma or a colon, which mean something here.
        layers = (
            f"lowerdir={lower[place]},upperdir={held}/upper{number},workdir={held}/work{number}"
        )
        mount("overlay", place, "overlay", 0, layers + (",userxattr" if user else ""))
    for folder in hiding["hidden"]:
        mount("none", folder, "tmpfs", 0)
    os.chdir(working)
    archive.mkdir(parents=True, exist_ok=True)
    mount(f"/proc/self/fd/{shown}", str(archive), "", BIND)


def _mounted_below(folder: str) -> list[str]:
    """What is mounted below a folder, the outer first: a copy of the folder would not hold it."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), line.split()[4])
        if place.startswith(folder + "/") and os.path.exists(place):
            found.append(place)
    return sorted(set(found))


def opened(order: Order, world: RecordedWorld) -> Forecaster:
    """The forecaster, begun anew."""
    if order["pickled"] is not None:
        import base64

        import cloudpickle

        callee = cloudpickle.loads(base64.b64decode(order["pickled"]))
        known = declare(callee, order["name"])
        REGISTERED[known.name] = known
    clock = FrozenClock(parse_instant(order["now"]))
    workspace = Workspace(Home(Path(order["home"])), None, clock)
    predictors = list[str]()
    if "recorded:" in order["entry"]:  # To read them all takes a while.
        predictors = sorted({forecast.predictor for forecast in world.all_forecasts()})
    return open_named(order["entry"], Opening(workspace, predictors=predictors, world=world))


def answers(order: Order) -> list[list[object]]:
    """[probability, null] or [null, error] for each context, in order."""
    world = RecordedWorld(Archive(Path(order["archive"])), order["grade"])
    contexts = [msgspec.convert(row, Context) for row in order["contexts"]]
    one = opened(order, world)
    if isinstance(one, PanelForecaster):
        return _of_panel(one, world, contexts, order["max_results"])
    found = list[list[object]]()
    for context in contexts:
        try:
            found.append([one.decide(context, CallCounter()).probability, None])
        except (NoDecision, BeforehandError) as error:
            found.append([None, str(error)])
    return found


def _of_panel(
    one: PanelForecaster, world: RecordedWorld, contexts: Sequence[Context], most: int
) -> list[list[object]]:
    """The same for a function of a panel's rows."""
    pairs = [(c.market.id, np.array([c.t], dtype=np.int64)) for c in contexts]
    recorded = [one.recorded] if one.recorded is not None else []
    panel = Gateway(world).panel(pairs, recorded, Evidence(most))
    said = one.forecast(panel).tolist()
    return [[None, "no forecast"] if p != p else [p, None] for p in said]


def answer(request: bytes) -> None:
    """Read the order, answer it."""
    order: Order = orjson.loads(request)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # What the forecaster prints is not an answer.
        sys.argv[1:] = []
        sys.path[:] = order["path"]
        os.environ.update(order["environment"])
        os.chdir(order["folder"])
        random.seed(0)
        np.random.seed(0)
        now: datetime = parse_instant(order["now"])
        hiding = order["hiding"]
        try:
            if hiding is not None:
                hide(hiding, Path(order["archive"]))
        except OSError as error:
            out.write(orjson.dumps({"hidden": False, "error": str(error)}))
            return
        read = FilesOpened([Path(order["archive"])])
        read.watch_all()
        try:
            with time_machine.travel(now, tick=False):
                reply: dict[str, object] = {"answers": answers(order)}
            reply["files"] = list(read.found)
        except InputError as error:
            reply = {"error": str(error)}
        out.write(orjson.dumps(reply))


if __name__ == "__main__":
    answer_each(answer)
