"""A Python forecaster in another interpreter's environment, for packages that clash with ours:
`python:./bot.py:Bot#python=./env/bin/python&as=forecasting-tools`.

`as` says what it is called with: `context` (ours), `prophet` (Prophet Arena's `predict(event)` or
an agent's `forecast`), `forecasting-tools` (a bot's `forecast_question`), `dspy` (a module, with
`question` and `context`). It is asked like any program (`command.py`).
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import orjson

from beforehand.errors import BadAnswer, InputError
from beforehand.forecast import host
from beforehand.forecast.base import Context, Opening
from beforehand.forecast.mapping import AnswerMap, split_options
from beforehand.forecast.schemes.command import Program

KINDS: Mapping[str, tuple[str, str]] = {
    "context": ("probability", "rationale"),
    "prophet": ("p_yes", "rationale"),
    "forecasting-tools": ("prediction", "explanation"),
    "dspy": ("probability", "reasoning"),
}
"""Where the answer of each stands, and its reason."""


class Elsewhere(Program):
    """A callable of another environment."""

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> "Elsewhere":
        """Raises InputError for a target that is none, or an interpreter that is not there."""
        plain, options = split_options(rest)
        target, kind = plain.partition(":")[2], options.get("as", "context")
        place, _, attribute = target.rpartition(":")
        if not place or not attribute:
            raise InputError(f"{rest[:100]!r}: write python:./file.py:NAME or python:MODULE:NAME")
        if kind not in KINDS:
            raise InputError(f"{rest[:100]!r}: as is one of {', '.join(KINDS)}")
        folder = opening.folder or Path.cwd()
        given = options.get("python", "")
        found = folder / given if os.sep in given else Path(shutil.which(given) or given)
        if not found.is_file():
            raise InputError(f"{rest[:100]!r}: there is no interpreter {found}")
        file = (folder / place).resolve()
        if place.endswith(".py") and not file.is_file():
            raise InputError(f"{rest[:100]!r}: there is no file {file}")
        if place.endswith(".py"):
            target = f"{file}:{attribute}"
        # Not resolved: a link to an interpreter is what makes an environment.
        words = (os.path.abspath(found), host.__file__, target, kind, str(folder.resolve()))
        return cls(rest, name, words, file, opening)

    @property
    def _answers(self) -> AnswerMap:
        """Where its kind of answer stands, unless the options say so."""
        said, options = self._map, split_options(self.provider)[1]
        p, why = KINDS[options.get("as", "context")]
        return AnswerMap(
            options.get("p", said.probability if "map" in options else p),
            options.get("why", said.rationale if "map" in options else why),
            said.percent,
        )

    def _plain(self) -> str:
        return f"python:{self._start.command[2]}"

    def _body(self, context: Context) -> Mapping[str, object]:
        return {**context.wire(), "question": self._questions(context)}

    def _is_answer(self, line: bytes) -> bool:
        return self._answers.answers(line)

    def _read(self, said: str) -> str:
        try:
            found = orjson.loads(said)
        except orjson.JSONDecodeError:
            raise BadAnswer("it did not answer with a JSON object") from None
        if isinstance(found, dict) and isinstance(found.get("error"), str):
            return orjson.dumps({"error": found["error"]}).decode()
        return self._answers.kept(said)
