"""`scout_plan_v1.json`: the machine-readable schema of the scout plan, generated from the model."""

import json
from pathlib import Path

from beforehand.records.plan import ScoutPlan

SCOUT_PLAN = Path(__file__).resolve().parents[1] / "schemas" / "scout_plan_v1.json"


def scout_plan_schema() -> str:
    """The schema file's text; a test holds the shipped file to it."""
    schema = ScoutPlan.model_json_schema(by_alias=True)
    return json.dumps({"$id": "scout_plan_v1", **schema}, indent=2, sort_keys=True) + "\n"
