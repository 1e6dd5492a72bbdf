"""Does a tool show anything from after t? The same call in two worlds that differ after t alone."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import orjson

from beforehand.clock import FrozenClock, from_us, iso, to_us
from beforehand.config import Home
from beforehand.engine.plan import Progress
from beforehand.errors import BeforehandError, InputError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.probe.redraw import OtherFuture, all_records
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox, find_tool
from beforehand.tools.storage import Storage

INSTANTS = 5


@dataclass(frozen=True)
class ToolCheck:
    """What was found: the tool, the instants at which it was called, those at which the two worlds
    gave different answers, and how many of the calls were answered (others were errors)."""

    tool: str
    instants: list[datetime]
    leaks: list[datetime]
    answered: int

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "tool": self.tool,
            "instants": [iso(t) for t in self.instants],
            "leaks": [iso(t) for t in self.leaks],
            "answered": self.answered,
        }

    def __str__(self) -> str:
        n = len(self.instants)
        if self.leaks:
            return (
                f"{self.tool} LEAKS: at {len(self.leaks)} of {n} instants its answer depends on "
                f"what came later, first at {iso(self.leaks[0])}"
            )
        return (
            f"{self.tool}: 0 of {n} instants show anything from after t ({self.answered} calls "
            "were answered)"
        )


def check_tool(
    name: str,
    arguments: Mapping[str, object],
    archive: Path,
    instants: int = INSTANTS,
    progress: Progress = lambda step, done, total: None,
) -> ToolCheck:
    """Call a tool as of some instants of an archive's time, in the world as it is and in one with
    another future. Raises InputError where the archive is too small, NotFound for an unknown
    tool."""
    load_tools()
    found = find_tool(name)
    found.validate(arguments)
    kept = all_records(Archive(archive))
    known = sorted(to_us(r.known_at) for records in kept.values() for r in records)
    if len(known) < 2:
        raise InputError(f"{archive} holds too little to look before and after an instant")
    last, shares = from_us(known[-1]), np.linspace(0.1, 0.9, instants)
    cuts = [from_us(int(known[int(share * (len(known) - 1))])) for share in shares]
    leaks, answered = list[datetime](), 0
    with tempfile.TemporaryDirectory(prefix="beforehand-check-") as folder:
        for number, t in enumerate(cuts):
            progress("instants", number, len(cuts))
            said = []
            for future in ("as-it-is", "other"):
                path = Path(folder) / f"{future}-{number}"
                records = (r for some in kept.values() for r in some)
                ArchiveWriter(path).add(
                    records if future == "as-it-is" else OtherFuture(kept, t).records(),
                    importer="check",
                    source="check",
                    source_digest="check",
                    recorded_at=last,
                )
                gateway = Gateway(RecordedWorld(Archive(path)), FrozenClock(last))
                box = Toolbox(gateway, Storage(Home(Path(folder) / f"home-{future}-{number}")), t)
                try:
                    said.append(orjson.dumps(box.run(found, arguments).content))
                    answered += 1
                except BeforehandError as error:
                    said.append(f"{type(error).__name__}: {error}".encode())
            if said[0] != said[1]:
                leaks.append(t)
    return ToolCheck(name, cuts, leaks, answered)
