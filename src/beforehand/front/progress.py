"""A progress bar for long work: in a terminal, and in a notebook."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from beforehand.clock import stopwatch

QUIET_S = 20.0
Update = Callable[[str, int, int], None]
"""Called as (step, done, total)."""


@contextmanager
def progress(what: str, shown: bool = True) -> Iterator[Update]:
    """A bar on stderr, or in the notebook; where neither is there, a line now and then."""
    if shown and (display := _notebook()) is not None:
        yield from _in_notebook(what, display)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = not (shown and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True) as bar:
        task, said = bar.add_task(what, total=None), stopwatch()

        def update(step: str, done: int, total: int) -> None:
            nonlocal said
            bar.update(task, description=f"{what}: {step}", completed=done, total=total)
            if shown and hidden and stopwatch() - said > QUIET_S:
                said = stopwatch()  # In a log, so that work can be told from a hang.
                print(f"{what}: {step}, {done:,} of {total:,}", file=sys.stderr, flush=True)

        yield update


def in_notebook() -> bool:
    """True in a notebook."""
    return _notebook() is not None


def _notebook() -> Any:
    """IPython's display module in a notebook; None anywhere else."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    if found is None or not hasattr(found, "kernel"):
        return None
    from IPython import display

    return display


def _in_notebook(what: str, display: Any) -> Iterator[Update]:
    """HTML's own bar, so that no widget package is needed; a small word is left at the end."""
    handle = display.display(display.HTML(escape(what)), display_id=True)

    def update(step: str, done: int, total: int) -> None:
        text = f"{what}: {step}, {done:,} of {total:,}"
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress> {escape(text)}'
        handle.update(display.HTML(bar))

    try:
        yield update
    finally:
        handle.update(display.HTML(f"<small>{escape(what)}: ended</small>"))
