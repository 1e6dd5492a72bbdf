"""Analysis scripts of the kind that a model writes, with what plain CPython prints for each.

Each is (source, input, exact output). A test runs every one in plain Python too, except for those
that read the clock: they are checked against NOW, which stands still.
"""

from datetime import UTC, datetime

from sandbox.scripts_analysis import ANALYSIS
from sandbox.scripts_language import LANGUAGE
from sandbox.scripts_text import TEXT
from sandbox.scripts_time import TIME

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
CLOCKED = frozenset({"clock"})
SCRIPTS = {**ANALYSIS, **LANGUAGE, **TEXT, **TIME}
