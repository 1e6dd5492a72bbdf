"""`--arg name=value`, as tools and agents take their arguments."""

from collections.abc import Iterable

from beforehand.errors import InputError


def pairs(given: Iterable[str]) -> dict[str, str]:
    """The values by their names. Raises InputError for what is no pair, or given twice."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError(f"--arg {text!r} must be name=value")
        if name in found:
            raise InputError(f"--arg {name} is given twice: write a list as {name}=a,b")
        found[name] = value
    return found
