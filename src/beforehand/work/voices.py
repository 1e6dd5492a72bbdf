"""Names of forecasters to model ids: baselines by name, forecasters by address, models by name."""

from collections.abc import Sequence

from beforehand.errors import InputError
from beforehand.forecast.baselines import Baseline, choose
from beforehand.forecast.external import check_address, is_address
from beforehand.forecast.held import is_held
from beforehand.llm.names import is_model, parse_model


def voices(
    names: Sequence[str], *, documents: bool, predictors: list[str]
) -> tuple[list[str], dict[str, Baseline]]:
    """(model ids, the baselines among them by name). Raises InputError naming what is allowed."""
    found: list[str] = []
    models: dict[str, Baseline] = {}
    for raw in filter(None, (name.strip() for name in names)):
        if is_address(raw):
            found.append(check_address(raw))
            continue
        if is_held(raw):
            found.append(raw)
            continue
        if is_model(raw):
            found.append(parse_model(raw).id)
            continue
        try:
            chosen = choose(raw, documents=documents, predictors=predictors)
        except InputError as error:
            raise InputError(
                f"models: {error}; a model (scripted, local, openai:NAME, anthropic:NAME, "
                "NAME@http://host:port/v1), or an address (http://host:port/path)"
            ) from None
        models.update({model.name: model for model in chosen})
        found += [f"baseline:{model.name}" for model in chosen]
    if not found:
        choose("", documents=documents, predictors=predictors)  # Says what may be named.
    return list(dict.fromkeys(found)), models


def is_asked(name: str) -> bool:
    """True for whoever is asked interval by interval, and not for a whole chunk at once."""
    return remembers(name) or is_model(name)


def remembers(name: str) -> bool:
    """True for whoever may keep something between two questions. Models are declared memoryless
    (one request holds all that they see), and baselines are functions of one row."""
    return is_address(name) or is_held(name)


def mode_of(names: Sequence[str], wanted: str) -> str:
    """The mode of an experiment with these models: `wanted` where there is a language model."""
    if any(map(is_model, names)):
        return wanted
    return "external" if any(map(remembers, names)) else "baseline"
