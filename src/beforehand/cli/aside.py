"""The option --model of single commands and servers, and its budget."""

from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from beforehand.config import Workspace
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.jobs.aside_model import AsideModel

Model = Annotated[
    str | None,
    Parameter(
        env_var="BEFOREHAND_MODEL",
        help="A model: scripted, local, openai:NAME, anthropic:NAME, NAME@http://host:port/v1.",
    ),
]


@Parameter(name="*")
@dataclass
class AsideFlags:
    """A model for a single command or a server, and what it may spend; the same for all of them."""

    model: Model = None
    max_calls: Annotated[
        int | None,
        Parameter(help="Most paid calls, over all commands outside of runs in this home."),
    ] = None
    max_tokens: Annotated[int | None, Parameter(help="The same for tokens.")] = None
    max_cost: Annotated[float | None, Parameter(help="The same for US dollars.")] = None
    cost_per_call: Annotated[
        float | None, Parameter(help="US dollars that a call is expected to cost.")
    ] = None


def aside_options(given: AsideFlags | None) -> list[str]:
    """The options that were given, as they are typed."""
    values = vars(given or AsideFlags()).items()
    named = [(f"--{name.replace('_', '-')}", value) for name, value in values if value is not None]
    return [text for name, value in named for text in (name, str(value))]


def aside_model(
    given: AsideFlags | None, workspace: Workspace, what: str
) -> "AbstractContextManager[AsideModel | None]":
    """The model of a single command or a server, closed at the end; None where none is named."""
    values = vars(given or AsideFlags()).copy()
    name = values.pop("model")
    if not name:
        if any(value is not None for value in values.values()):
            raise InputError("a budget goes with --model: without one nothing is paid for")
        return nullcontext()
    from beforehand.engine.job import RunLimits
    from beforehand.jobs.aside_model import AsideModel
    from beforehand.jobs.checks import checked

    limits = checked(RunLimits(**values), "--")
    return closing(AsideModel(name, limits, workspace, what))
