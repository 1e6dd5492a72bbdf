"""The events of runs, followed once for all who watch them.

One poll a run reads the journal while anybody watches it; each watcher gets every event after the
last one that it has, in order, so that a connection that is opened again neither loses nor repeats
one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio.to_thread

from beforehand.errors import BeforehandError
from beforehand.store.journal.events import RunEvent, events_after
from beforehand.store.journal.journal import Journal

LOOK_S, HEARTBEAT_S = 0.25, 10.0
KEPT, BATCH = 5000, 1000
ENDED = frozenset({"success", "failed", "stopped", "cancelled"})


class _Feed:
    """One run that is watched: its newest events, and a condition that wakes the watchers."""

    def __init__(self) -> None:
        self.events: deque[RunEvent] = deque(maxlen=KEPT)
        self.latest = 0
        self.status = "running"
        self.changed = asyncio.Event()
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Feeds:
    """The feeds of one server; used on its event loop."""

    def __init__(self, journal: Callable[[], Journal | None]) -> None:
        self._journal = journal
        self._feeds: dict[str, _Feed] = {}
        self._stopped = False

    def stop(self) -> None:
        """End every stream: the server stops. Safe in a signal handler."""
        self._stopped = True

    async def follow(self, run_id: str, number: int) -> AsyncIterator[RunEvent | None]:
        """The events of a run after this number, as they come, until the run has ended; None is a
        heartbeat."""
        journal = self._journal()
        if journal is None:
            return
        feed = self._feeds.setdefault(run_id, _Feed())
        feed.watchers += 1
        if feed.task is None:
            feed.task = asyncio.create_task(self._poll(run_id, feed, journal))
        try:
            quiet = 0.0
            while not self._stopped:
                changed = feed.changed
                found = await self._after(run_id, feed, journal, number)
                for event in found:
                    yield event
                    number = event.number
                if found:
                    quiet = 0.0
                    continue
                if feed.status in ENDED and feed.latest <= number:
                    return
                try:
                    await asyncio.wait_for(changed.wait(), LOOK_S * 4)
                except TimeoutError:
                    quiet += LOOK_S * 4
                    if quiet >= HEARTBEAT_S:
                        quiet = 0.0
                        yield None
        finally:
            feed.watchers -= 1
            if not feed.watchers and feed.task is not None:
                feed.task.cancel()
                self._feeds.pop(run_id, None)

    async def _after(
        self, run_id: str, feed: _Feed, journal: Journal, number: int
    ) -> list[RunEvent]:
        if feed.latest <= number and feed.latest:
            return []
        if feed.events and feed.events[0].number <= number + 1:
            return [event for event in feed.events if event.number > number]
        return await anyio.to_thread.run_sync(events_after, journal.database, run_id, number)

    async def _poll(self, run_id: str, feed: _Feed, journal: Journal) -> None:
        """Read what is new, again and again; the status is read before the events, so that a run
        that is said to have ended has told them all."""
        while not self._stopped:
            try:
                row = await anyio.to_thread.run_sync(journal.run, run_id)
                found = await anyio.to_thread.run_sync(
                    events_after, journal.database, run_id, feed.latest, BATCH
                )
            except BeforehandError:  # The database is busy: the next look may succeed.
                await asyncio.sleep(LOOK_S)
                continue
            feed.events.extend(found)
            behind = len(found) >= BATCH  # There may be more: it has not ended for us yet.
            status = feed.status if row is None or behind else row.status
            if found or status != feed.status:
                feed.latest = found[-1].number if found else feed.latest
                feed.status = status
                feed.wake()
            if not behind:
                await asyncio.sleep(LOOK_S)
        feed.wake()
