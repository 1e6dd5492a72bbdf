"""Programs that this one starts: the one place for it, outside the sandbox."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from beforehand.errors import ExecutionFailed

LONGEST_ERROR = 2000


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


def own_environment() -> dict[str, str]:
    """The variables of this process."""
    return dict(os.environ)
