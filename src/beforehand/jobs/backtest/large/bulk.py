"""The work of a large run of pure functions, in this process and in one beside it.

What a step holds depends on the archive and on nothing else, so either process may make it, and the
bytes are the same; so it is with parts of the scoring. The other one is only a second core: it
reads the archive by itself, keeps nothing, and ends when this one does.
"""

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from beforehand.clock import Clock
from beforehand.forecast.aggregate import Method
from beforehand.forecast.base import PanelForecaster
from beforehand.forecast.process import Helper, answer_all, cores
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.large.joined import columns_of
from beforehand.memory import give_back
from beforehand.score.evaluate import Beside

T = TypeVar("T")
IN_FLIGHT = 3
"""Steps at once with two processes: one for each, and one that waits while another is recorded."""


class Rows(NamedTuple):
    """What a step asks: markets and their instants (microseconds), the experiment of each row, and
    the entries of the forecasters."""

    pairs: Sequence[tuple[str, npt.NDArray[np.int64]]]
    experiments: Sequence[int]
    entries: Sequence[str]


class Walked(NamedTuple):
    """A step: its columns, how many rows it has, and its audit (`Audit.wire`)."""

    columns: bytes
    rows: int
    audit: Mapping[str, object]


@dataclass(frozen=True)
class Bulk:
    """Pure functions over one world. Documents are not shown; forecasts of the predictors in
    `recorded` are read."""

    world: RecordedWorld
    clock: Clock
    method: Method
    forecasters: Mapping[str, PanelForecaster]
    recorded: Sequence[str] = ()

    def walk(self, asked: Rows) -> Walked:
        """One step. Raises CutoffViolation and Corrupt."""
        gateway = Gateway(self.world, self.clock)
        with gateway.guard.together():
            panel = gateway.panel(asked.pairs, self.recorded, Evidence(0))
        mine = [self.forecasters[entry] for entry in asked.entries]
        columns = columns_of(panel, asked.experiments, mine, self.method)
        return Walked(columns, len(panel), gateway.audit.wire())

    def answer(self, question: Rows | Callable[[], object]) -> object:
        """One step, or other work, for which what was read of the archive is let go of."""
        if isinstance(question, Rows):
            return self.walk(question)
        self.world.forget()
        give_back()
        return question()


class Bulks:
    """One `Bulk` in this process, and after `begin` a second one in another. Safe for threads."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk, self._here, self._beside = bulk, threading.Lock(), threading.Lock()
        self._helper: Helper | None = None

    @property
    def at_once(self) -> int:
        """How many steps are worth being begun at once."""
        return 1 if self._helper is None else IN_FLIGHT

    def begin(self) -> None:
        """Start the other process, where there is a second core and what it needs can be sent. Else
        one process does all."""
        if self._helper is not None or cores() < 2:
            return
        # A forecaster of another package may hold what cannot be sent; a limit may be reached.
        with suppress(Exception):
            self._helper = Helper(__name__, pickle.dumps(self._bulk))

    def walk(self, asked: Rows, stopped: Callable[[], bool] = lambda: False) -> Walked:
        """One step, by whoever is free; the other process is not waited for."""
        if (helper := self._helper) is None:
            return self._bulk.walk(asked)
        with self._free(helper) as other:
            return self._bulk.walk(asked) if other is None else other.ask(asked, stopped)

    @contextmanager
    def _free(self, helper: Helper) -> Iterator[Helper | None]:
        """Hold a process that has nothing to do: None for this one."""
        mine = self._here.acquire(blocking=False)
        if not mine and self._beside.acquire(blocking=False):
            try:
                if helper.ready:
                    yield helper
                    return
            finally:
                self._beside.release()
        if not mine:
            self._here.acquire()
        try:
            yield None
        finally:
            self._here.release()

    @contextmanager
    def beside(self) -> Iterator[Beside]:
        """Gives work to the other process, one after the other, once no step is walked any more.
        What it cannot do is done here."""
        pool = ThreadPoolExecutor(1)

        def begin(work: Callable[[], T]) -> Callable[[], T]:
            if (helper := self._helper) is None or not helper.ready:
                return work
            asked = pool.submit(helper.ask, work)

            def result() -> T:
                try:
                    return cast(T, asked.result())
                except Exception:  # It could not be sent, or has ended; or it fails here too.
                    return work()

            return result

        try:
            yield begin
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """End the other process."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None


if __name__ == "__main__":
    answer_all(lambda whole: pickle.loads(whole).answer)
