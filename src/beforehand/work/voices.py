"""Names of forecasters to model ids: baselines by name, forecasters by address."""

from collections.abc import Sequence

from beforehand.errors import InputError
from beforehand.forecast.baselines import Baseline, choose
from beforehand.forecast.external import check_address, is_address


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
        try:
            chosen = choose(raw, documents=documents, predictors=predictors)
        except InputError as error:
            raise InputError(f"models: {error}, or an address (http://host:port/path)") from None
        models.update({model.name: model for model in chosen})
        found += [f"baseline:{model.name}" for model in chosen]
    if not found:
        choose("", documents=documents, predictors=predictors)  # Says what may be named.
    return list(dict.fromkeys(found)), models
