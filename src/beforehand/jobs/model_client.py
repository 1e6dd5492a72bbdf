"""One model that a job asks: opened at its first call, asked through a meter."""

from datetime import datetime
from typing import Any

from beforehand.clock import iso
from beforehand.config import Workspace
from beforehand.engine.job import RunLimits
from beforehand.forecast.schemes.http import parse_rate
from beforehand.lazy import lazy
from beforehand.llm.names import LABEL, need_key, need_price, parse_model
from beforehand.llm.prompt import Asks, ModelClient
from beforehand.meter import Meter


class OpenedModel:
    """Raises InputError for a name or a budget that cannot be, NotConfigured without its key."""

    def __init__(self, name: str, limits: RunLimits, workspace: Workspace) -> None:
        self._spec, self._limits, self._workspace = parse_model(name), limits, workspace
        need_key(self._spec, workspace.settings)
        need_price(self._spec, bool(limits.max_cost), limits.cost_per_call)

    def client(self, meter: Meter) -> ModelClient:
        """The model with a meter around its calls."""
        return ModelClient(self._models, self._spec.id, meter)

    def about(self, at: datetime) -> dict[str, Any]:
        """What an answer says of the model that helped with it: its name, and what it may know of
        the time after `at`. Every figure comes from a record all the same."""
        spec, ended = self._spec, self._spec.cutoff
        if not spec.ranked:
            return {"id": spec.id, "note": LABEL}
        if ended is not None and ended <= at:
            return {"id": spec.id, "training_ended": iso(ended)}
        known = "is not known" if ended is None else f"was {iso(ended)}"
        return {
            "id": spec.id,
            "note": f"the end of its training {known}: its words to search for and its ratings may "
            "rest on what came later; the figures do not",
        }

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        if "_models" in self.__dict__:
            self._models.close()
            del self.__dict__["_models"]

    @lazy
    def _models(self) -> Asks:
        from beforehand.llm.ask import Models  # The vendors' libraries take a second to load.

        limits = self._limits
        return Models(
            [self._spec],
            self._workspace,
            parse_rate(limits.rate),
            limits.timeout,
            limits.cost_per_call,
        )
