"""`inspect-beforehand LOG`: a verdict of beforehand on a log."""

import argparse
import shlex
import subprocess
import sys


def main() -> None:
    """Ask `beforehand score` about the log; its exit code is ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", help="A log of inspect: .eval or .json.")
    parser.add_argument("--archive", help="The archive that holds the markets.")
    parser.add_argument("--command", default="beforehand", help="How beforehand is started here.")
    given, more = parser.parse_known_args()
    words = [*shlex.split(given.command), "score", given.log]
    words += ["--archive", given.archive] if given.archive else []
    try:
        done = subprocess.run([*words, *more], check=False)
    except FileNotFoundError:
        sys.exit(
            f"there is no command {words[0]!r} here: pip install 'inspect-beforehand[report]', or "
            "name it with --command"
        )
    sys.exit(done.returncode)
