"""Forecasters that look ahead, each in its own way, and honest ones that must not be accused.

The file is copied beside an archive; `archive` is the archive's folder.
"""

import gc
import gzip
import hashlib
import json
import os
import queue
import random
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import beforehand as bh
from beforehand.gateway.worlds.recorded import RecordedWorld

ARCHIVE = Path(__file__).parent / "archive"
END = "2039-01-01"
WORLD = bh.open_world(ARCHIVE) if ARCHIVE.is_dir() else None


def share(value):
    """A share from anything: what looks at bytes answers with them."""
    return int(hashlib.sha256(repr(value).encode()).hexdigest()[:8], 16) / 2**32


def payouts():
    """How every market ended, from the archive's files."""
    found = {}
    for path in (ARCHIVE / "segments").glob("resolution-*"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            row = json.loads(line)
            found[row["market_id"]] = row.get("payout")
    return found


def told(payout):
    return 0.5 if payout is None else 0.05 + 0.9 * payout


def of_files(context):
    return told(payouts().get(context.market.id))


def of_a_kept_view(context):
    found = WORLD.at(END).resolution(context.market.id)
    return told(None if found is None else found.payout)


def of_file_order(context):
    return share(os.listdir(ARCHIVE / "segments"))


def of_a_resolved_flag(context):
    found = WORLD.at(END).state(context.market.id)
    late = WORLD.at(END).resolution(context.market.id)
    return share((found and found.status, late and late.resolved_at))


class OfItsOwnCache:
    """Looks once, and keeps what it saw in a file."""

    FILE = Path(tempfile.gettempdir()) / "beforehand-peeker-cache.json"

    def decide(self, context):
        if not self.FILE.is_file():
            self.FILE.write_text(json.dumps(payouts()))
        return told(json.loads(self.FILE.read_text()).get(context.market.id))


class OfItsOwnCacheHere(OfItsOwnCache):
    """The same beside its own file."""

    FILE = Path(__file__).parent / "cache.json"


def of_sizes(context):
    return share(sorted(p.stat().st_size for p in (ARCHIVE / "segments").iterdir()))


def of_the_manifest(context):
    return share((ARCHIVE / "archive.json").read_bytes())


def of_a_siblings_ending(context):
    view = WORLD.at(END)
    event = view.market(context.market.id).event_id
    mine = [m.id for m in view.markets() if m.event_id == event and m.id != context.market.id]
    return share([view.resolution(name) and view.resolution(name).payout for name in mine])


def of_a_later_price(context):
    return WORLD.at(END).odds(context.market.id).price


def of_every_later_price(context):
    view = WORLD.at(END)
    return share([view.odds(m.id).price for m in view.markets() if view.odds(m.id)])


def of_later_documents(context):
    return share([d.title for d in WORLD.at(END).search(context.market.question or "index", 3)])


def of_counts(context):
    return share(len(WORLD.at(END).history(context.market.id)))


def of_the_digest(context):
    return share(WORLD.digest)


def of_the_context_itself(context):
    return context.view._gateway.full_view().odds(context.market.id).price


def of_all_objects(context):
    """Finds the world in the memory of its own process."""
    world = next(o for o in gc.get_objects() if isinstance(o, RecordedWorld) and o is not WORLD)
    return float(world.series(context.market.id).price[-1])


PEEKERS = (
    "of_files",
    "of_a_kept_view",
    "of_file_order",
    "of_a_resolved_flag",
    "OfItsOwnCache",
    "OfItsOwnCacheHere",
    "of_sizes",
    "of_the_manifest",
    "of_a_siblings_ending",
    "of_a_later_price",
    "of_every_later_price",
    "of_later_documents",
    "of_counts",
    "of_the_digest",
    "of_the_context_itself",
    "of_all_objects",
)


OF_THE_OUTCOME = ("of_files", "of_a_kept_view", "OfItsOwnCache", "OfItsOwnCacheHere")
"""These look at how their own market ends, and at nothing else."""


class Momentum:
    """Honest, with a memory."""

    def __init__(self):
        self.last = {}

    def decide(self, context):
        before = self.last.get(context.market.id, context.odds)
        self.last[context.market.id] = context.odds
        return min(max(context.odds + 0.5 * (context.odds - before), 0.0), 1.0)


def looks_back(context):
    """Honest, through the View."""
    prices = context.view.history(context.market.id)
    documents = context.view.search(context.market.question or "index", 5)
    known = [r.payout for r in context.view.resolutions() if r.payout is not None]
    rate = sum(known) / len(known) if known else 0.5
    return 0.8 * prices[-1].price + 0.1 * rate + 0.1 * share([d.title for d in documents])


def in_threads(context):
    """Honest, and its threads end in any order."""
    done = queue.Queue()
    for k in range(4):
        threading.Thread(target=lambda k=k: done.put(k + context.odds)).start()
    return sum(done.get() for _ in range(4)) / 4 - 1.5


def by_the_clock(context):
    """Honest, and looks at the clock."""
    return 0.5 + 0.4 * (context.odds - 0.5) + 0.01 * ((time.time() + datetime.now(UTC).hour) % 1)


def by_a_fast_clock(context):
    """Honest, and looks at a clock that nobody can pin."""
    return 0.5 + 0.4 * (context.odds - 0.5) + 0.1 * (time.perf_counter_ns() % 997 / 997)


def by_chance(context):
    """Honest, with its own seedless chance."""
    noise = np.random.default_rng().normal(0, 0.05) + random.random() * 0.01
    return min(max(context.odds + noise, 0.0), 1.0)


def with_a_cache(context):
    """Honest, and keeps a file of what it was shown."""
    file = Path(__file__).parent / "seen.json"
    seen = json.loads(file.read_text()) if file.is_file() else {}
    seen[context.market.id] = context.odds
    file.write_text(json.dumps(seen))
    return sum(seen.values()) / len(seen)


HONEST = (
    "Momentum",
    "looks_back",
    "in_threads",
    "by_the_clock",
    "by_a_fast_clock",
    "by_chance",
    "with_a_cache",
)
BASELINES = ("market", "drift", "base_rate", "shrunk")
