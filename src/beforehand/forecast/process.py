"""Programs that this one starts: the one place for it, outside the sandbox."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from beforehand.errors import ExecutionFailed

LONGEST_ERROR = 2000
Program = subprocess.Popen
"""A program that was started."""


def run_python(
    module: str,
    request: bytes,
    folder: Path,
    environment: Mapping[str, str],
    timeout: float,
    called: str = "",
) -> bytes:
    """What `python -m module` answers on stdout to a request on stdin, in a folder and with these
    variables instead of ours. Raises ExecutionFailed where it takes too long or ends with an error,
    with the name that it is `called` by.
    """
    name = called or module
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=request,
            capture_output=True,
            cwd=folder,
            env=dict(environment),
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ExecutionFailed(f"{name} took longer than {timeout:g} s: allow more time") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-LONGEST_ERROR:]
        why = f": {said}" if said else ", and said nothing"
        raise ExecutionFailed(f"{name} ended its process with code {done.returncode}{why}")
    return done.stdout


def start_python(
    module: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> "Program[bytes]":
    """Start `python -m module …` in a session of its own, so that it goes on when this process
    ends; what it says goes to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )


def own_environment() -> dict[str, str]:
    """The variables of this process."""
    return dict(os.environ)
