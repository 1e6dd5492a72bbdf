"""What a run says while it works: its name, its progress, and how a stopped one goes on."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from beforehand.engine.runs import Reporter
from beforehand.errors import InputError, Interrupted, Stopped
from beforehand.front.progress import in_notebook, progress


@contextmanager
def reporting(what: str, shown: bool = True) -> Iterator[Reporter]:
    """Progress, and sentences on stderr; a run's name as soon as it is known."""

    def say(text: str) -> None:
        if shown:  # A notebook shows stderr as an error, and the run names itself.
            print(text, file=sys.stdout if in_notebook() else sys.stderr)

    with progress(what, shown) as update:
        started = (lambda run_id: None) if in_notebook() else (lambda run_id: say(f"run {run_id}"))
        yield Reporter(started, update, say)


_RESUMED = re.compile(r"`beforehand runs resume (\S+)` goes on from here")
_OPTION = re.compile(r"(?<![\w./-])--([a-z][a-z-]+)")


@contextmanager
def told_in_python(run_id: str | None, here_alone: bool = False) -> Iterator[None]:
    """Errors in the words of Python: an option of the command line is an argument, and a stopped
    run says how it goes on. `here_alone`: its callables are known to this program alone."""
    try:
        yield
    except InputError as error:
        error.args = (_OPTION.sub(lambda m: m[1].replace("-", "_") + "=", str(error)),)
        raise
    except (Interrupted, Stopped) as error:
        named = _RESUMED.search(str(error))
        name = named[1] if named else run_id or "latest"
        if here_alone:
            again = f'run this program again with run_id="{name}": it goes on from here'
            error.args = (_RESUMED.sub(again, str(error)),)
        where = "in this session" if here_alone else "in Python"
        error.add_note(f'{where}: beforehand.open_run("{name}").resume()')
        raise
