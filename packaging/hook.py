"""Adds the bill of materials to the wheel, where `make wheel` has made one (PEP 770)."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SBOM = "packaging/sbom.cdx.json"


class Hook(BuildHookInterface):  # type: ignore[misc]
    """Found by hatchling through pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the file, if it is there."""
        if (Path(self.root) / SBOM).is_file():
            build_data.setdefault("sbom_files", []).append(SBOM)
