"""What all records share: frozen, unknown fields kept, UTC only, probabilities in [0, 1]."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from beforehand.clock import FIRST_YEAR, LAST_YEAR


class Record(BaseModel):
    """A frozen value. Unknown fields are kept on read: a newer file survives a round trip."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    def wire(self) -> dict[str, Any]:
        """The JSON-ready form with the documented key names and no empty optional fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number here")
    return value


def _utc(instant: datetime) -> datetime:
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise ValueError(f"the year {instant.year} lies outside {FIRST_YEAR} to {LAST_YEAR}")
    return instant.astimezone(UTC)


Utc = Annotated[AwareDatetime, AfterValidator(_utc)]
"""An instant with a zone, turned into UTC; a naive datetime is refused."""

Number = Annotated[float, BeforeValidator(_not_bool), Field(allow_inf_nan=False)]
Probability = Annotated[
    float, BeforeValidator(_not_bool), Field(ge=0.0, le=1.0, allow_inf_nan=False)
]
"""A float in [0, 1]; NaN, infinities and booleans are refused."""
