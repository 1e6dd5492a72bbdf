"""A predictor's stored forecasts, replayed: `recorded:PREDICTOR`."""

from beforehand.forecast.base import (
    NO_FORECAST,
    Context,
    Decision,
    Floats,
    Forecaster,
    NoDecision,
    Opening,
    PanelForecaster,
    scheme,
    unknown,
)
from beforehand.gateway.panel import Panel
from beforehand.records.rows import BASELINE


@scheme("recorded")
class RecordedForecaster(PanelForecaster):
    """The last forecast of a predictor that was known at t. It can be trusted only as far as the
    dates of its forecasts."""

    program = False
    isolation = "trusted"
    order = "not asked (its own dated forecasts)"

    rationale: str

    def __init__(self, predictor: str, name: str | None = None) -> None:
        super().__init__(f"{BASELINE}recorded:{predictor}", name)
        self.recorded = predictor
        self.rationale = f"The last forecast that {predictor} had made by t."

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """The predictor's forecasts. Raises InputError where the archive holds none."""
        predictor = rest.partition(":")[2]
        if predictor not in opening.predictors:
            raise unknown(rest, opening)
        return cls(predictor, name)

    def forecast(self, panel: Panel) -> Floats:
        """Its probability at each row, NaN before its first forecast."""
        assert self.recorded is not None
        return panel.recorded[self.recorded]

    def decision(self, p: float, context: Context) -> Decision:
        """The forecast; NoDecision where none is known at t."""
        if p != p:
            raise NoDecision(NO_FORECAST)
        return Decision(p, rationale=self.rationale, mode="baseline")
