"""The only door to outside data: `Gateway(world).at(t)` gives a View pinned to t."""

from beforehand.gateway.gateway import Audit, Gateway
from beforehand.gateway.view import View
from beforehand.gateway.world import World
from beforehand.gateway.worlds.recorded import RecordedWorld

__all__ = ["Audit", "Gateway", "RecordedWorld", "View", "World"]
