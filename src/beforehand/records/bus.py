"""The file bus: output envelope, run log, manifest, and the prediction query row."""

from typing import Any, Literal

from pydantic import Field, model_validator

from beforehand.records.record import Number, Record, Utc


class EnvelopeMetadata(Record):
    """What every output file says about itself; further keys (`search_method`…) are kept."""

    query: str
    timestamp: Utc
    row_count: int = Field(ge=0)
    agent: str
    version: str


class OutputEnvelope(Record):
    """`workspace/agents/{agent}/out/{id:06d}.json`: rows and their metadata."""

    data: list[dict[str, Any]]
    metadata: EnvelopeMetadata

    @model_validator(mode="after")
    def _counted(self) -> "OutputEnvelope":
        if self.metadata.row_count != len(self.data):
            raise ValueError(
                f"row_count is {self.metadata.row_count}, but data has {len(self.data)} rows"
            )
        return self


class RunLog(Record):
    """`…/logs/{run_id}.json`, written on success and on failure. What the agent was asked
    (sql and params, input_path, or query and session_id) stands beside as further keys."""

    run_id: str
    status: Literal["success", "failed"]
    timestamp: Utc
    duration_ms: Number
    agent: str
    version: str
    output_path: str | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _explained(self) -> "RunLog":
        if self.status == "failed" and not self.error:
            raise ValueError("a failed run log needs its error")
        return self


class Manifest(Record):
    """`…/meta.json`. `next_id` is one above the highest id ever claimed."""

    next_id: int = Field(ge=1)
    last_updated: Utc
    total_runs: int = Field(ge=0)


class PredictionQuery(Record):
    """A row of `prediction_queries`. `avg_probability` is in percent, on the wire only."""

    id: int | None = None
    session_id: str
    user_query: str
    expanded_keywords: list[str] = Field(default_factory=list)
    timestamp: Utc
    results: list[dict[str, Any]]
    platform: str = "polymarket"
    market_ids: list[str] = Field(default_factory=list)
    avg_probability: float | None = Field(default=None, ge=0, le=100, allow_inf_nan=False)
    total_volume: int | None = None
    result_count: int = Field(ge=0)
    created_at: Utc
