"""The `beforehand` command. `--version` is answered before anything else loads."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from beforehand import __version__

        print(__version__)
        return
    try:
        from beforehand.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("beforehand: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
