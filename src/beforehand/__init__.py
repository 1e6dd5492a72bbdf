"""A *Forecaster* reads the world through a *View* pinned to an instant, may run code in a
*Sandbox*, and returns a *Decision*; a *Plan* of *Steps* says what to do, a *Journal* remembers
what was done, and a *Score* says how good it was.

Importing this package loads nothing heavy: its names are loaded when they are first used. The
nouns live in the subpackages: `records`, `gateway`, `world`, `forecast`, `jobs`, `runs`, `score`,
`store`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beforehand.forecast.base import Decision
    from beforehand.forecast.schemes.python import ShownContext as Context
    from beforehand.forecast.schemes.python import forecaster
    from beforehand.gateway.view import View

__version__ = "0.1.0"
__all__ = ["Context", "Decision", "View", "__version__", "forecaster"]
_PLACES = {
    "Context": ("beforehand.forecast.schemes.python", "ShownContext"),
    "Decision": ("beforehand.forecast.base", "Decision"),
    "View": ("beforehand.gateway.view", "View"),
    "forecaster": ("beforehand.forecast.schemes.python", "forecaster"),
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'beforehand' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
