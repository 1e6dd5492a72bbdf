"""One reader a file format: lines in, records out. Nothing here writes."""

from beforehand.world.importers.lines import Rejects

__all__ = ["Rejects"]
