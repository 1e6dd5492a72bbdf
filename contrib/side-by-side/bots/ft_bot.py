"""A bot of forecasting-tools, as its own template is written: research, a prompt, a percentage."""

from forecasting_tools import BinaryQuestion, ForecastBot, GeneralLlm, ReasonedPrediction
from forecasting_tools.helpers.prediction_extractor import PredictionExtractor


class Bot(ForecastBot):
    async def run_research(self, question: BinaryQuestion) -> str:
        return ""

    async def _run_forecast_on_binary(
        self, question: BinaryQuestion, research: str
    ) -> ReasonedPrediction[float]:
        model = GeneralLlm(model="openai/stub", temperature=0)
        said = await model.invoke(f'{question.question_text}\nEnd with "Probability: ZZ%".')
        p = PredictionExtractor.extract_last_percentage_value(
            said, max_prediction=1, min_prediction=0
        )
        return ReasonedPrediction(prediction_value=p, reasoning=said)

    async def _run_forecast_on_multiple_choice(self, question, research):
        raise NotImplementedError

    async def _run_forecast_on_numeric(self, question, research):
        raise NotImplementedError
