"""Paths as a user gives them."""

from pathlib import Path

from beforehand.errors import InputError


def need_path(name: str, given: object) -> Path:
    """A path. Raises InputError for anything that is none."""
    if not isinstance(given, (str, Path)) or not str(given):
        raise InputError(f"{name} is a path, not {given!r}")
    return Path(given)
