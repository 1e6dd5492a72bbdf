"""A model for single commands and servers: it rates searches and writes an agent's code, outside of
any run, through the journal and within its budget."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from beforehand.config import Workspace
from beforehand.engine.aside import aside
from beforehand.engine.context import StepContext
from beforehand.engine.job import RunLimits
from beforehand.errors import Refused, Stopped
from beforehand.jobs.model_client import OpenedModel
from beforehand.llm.prompt import ModelClient, Prompt
from beforehand.llm.rating import rate
from beforehand.records.world import Market
from beforehand.store.journal.schema import ASIDE


class _AsideClient(ModelClient):
    """There is no run to stop: once the budget is spent, a call is refused. A search then goes on
    without ratings, and says so."""

    def ask(self, prompt: Prompt) -> Any:
        meter = self.meter
        if isinstance(meter, StepContext) and meter.journal.known_run(ASIDE).status != "running":
            meter.journal.begin(ASIDE, 0, "run resumed")  # The model did not answer: it may now.
        try:
            return super().ask(prompt)
        except Stopped as error:
            said = str(error).removeprefix("skipped: ").replace("resume with", "a command with")
            raise Refused(said.replace("to go on", "raises it")) from None


class AsideModel:
    """Opened at its first call, which raises InputError for a name or a budget that cannot be, and
    NotConfigured without its key. Safe for threads."""

    def __init__(self, name: str, limits: RunLimits, workspace: Workspace, what: str) -> None:
        self._name, self._limits, self._workspace = name, limits, workspace
        self._what = what
        self._opened, self._opening = ExitStack(), threading.Lock()
        self._client: ModelClient | None = None

    def client(self) -> ModelClient:
        """The model, with the journal around its calls."""
        with self._opening:
            if self._client is None:
                model = OpenedModel(self._name, self._limits, self._workspace)
                meter = aside(self._workspace, self._limits, self._what)
                opened = model.client(self._opened.enter_context(meter))
                self._opened.callback(model.close)
                self._client = _AsideClient(opened.models, opened.name, opened.meter)
            return self._client

    def rate(self, query: str, markets: Sequence[Market]) -> list[tuple[float, str]]:
        """How well markets fit a query."""
        return rate(self.client(), query, markets)

    def close(self) -> None:
        """Close what was opened."""
        self._opened.close()
