"""How far a tool is proven: live-verified, recorded or simulated, with a date."""

from typing import Any

from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.store.files import read_json
from beforehand.tools.registry import Tool


def label(tool: Tool, home: Home | None = None) -> dict[str, Any]:
    """{label, date, source}: live-verified where `doctor --live` saw the service answer as
    expected from this home, else what the tool was tried on."""
    if home is not None and tool.probe is not None:
        try:
            kept = read_json(home.live_checks)
            row = kept.get(tool.probe) if isinstance(kept, dict) else None
        except InputError:
            row = None
        if row is not None and row.get("state") == "ok" and "mirror" not in row:
            return {"label": "live-verified", "date": row["date"], "source": row["name"]}
    return {
        "label": tool.example.evidence,
        "date": tool.example.date,
        "source": tool.example.source,
    }
