"""The one rule: a record is visible at t if and only if `known_at <= t`.

Both forms of the predicate live here and nowhere else: on one record, and on an array of
microseconds in bulk walks. The gateway applies them to what comes *back*; the audit applies
them again to what was written.
"""

from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt


def visible(known_at: datetime | None, t: datetime) -> bool:
    """True if what was known at `known_at` may be shown at `t` (inclusive).

    A record without `known_at` is never visible.
    """
    return known_at is not None and known_at <= t


def visible_us(known_at: npt.NDArray[np.int64] | int, t: npt.NDArray[np.int64] | int) -> Any:
    """The same rule on microseconds since 1970: elementwise, a bool or a boolean array."""
    return known_at <= t


def document_known_at(
    known_at: datetime, text_known_at: datetime | None, grade: Literal["captured", "published"]
) -> datetime | None:
    """When a document counts as known under a run's grade.

    `captured` (strict) asks for a stored version of the very wording; `published` trusts the
    date alone, although the text may have been edited since.
    """
    if grade == "published":
        return known_at
    return None if text_known_at is None else max(known_at, text_known_at)
