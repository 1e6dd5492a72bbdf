"""Options that several commands share, and their checks."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.errors import InputError
from beforehand.score.kelly import Kelly
from beforehand.store.files import read_text
from beforehand.work.scoring import Settings

Seed = Annotated[int, Parameter(help="Seed of resampling and placebo.")]
Draws = Annotated[int, Parameter(help="Bootstrap draws.")]
PlaceboDraws = Annotated[int, Parameter(help="Placebo redraws; 0 leaves it out.")]
Spread = Annotated[
    float | None, Parameter(help="Assumed spread where no book was recorded, for Kelly.")
]
RunId = Annotated[str | None, Parameter(help="Name of the run [the time].")]


def market_names(text: str) -> list[str]:
    """Ids separated by commas, or those in a file (the first column of each line)."""
    if path := _file(text):
        names = [line.split(",")[0].strip() for line in read_text(path).splitlines()]
        names = [name for name in names if name and name.lower() != "id"]
    else:
        names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"--markets {text!r} names no market")
    return names


def _file(text: str) -> Path | None:
    try:
        return Path(text) if Path(text).is_file() else None
    except OSError:  # A long list of ids is no file name.
        return None


def between(option: str, value: int, low: int, high: int) -> int:
    """The value, or InputError naming the option and what is allowed."""
    if not low <= value <= high:
        raise InputError(f"{option} must lie between {low:,} and {high:,}, not {value:,}")
    return value


def settings(seed: int, draws: int, placebo: int, spread: float | None = None) -> Settings:
    """The scoring options that commands share, checked."""
    if spread is not None and not 0.0 <= spread < 1.0:
        raise InputError(f"--spread must lie in [0, 1), not {spread}")
    return Settings(
        seed=between("--seed", seed, 0, 2**31),
        draws=between("--draws", draws, 100, 100_000),
        placebo=between("--placebo", placebo, 0, 10_000),
        kelly=Kelly(spread=spread),
    )
