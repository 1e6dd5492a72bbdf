"""`beforehand new-plugin NAME`: a package with one plugin of each kind, as a start."""

from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit
from beforehand.errors import EXIT_OK, InputError
from beforehand.store.files import write_atomic

PLACES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "test_plugins.py": "tests/test_plugins.py",
    "notes.csv": "examples/notes.csv",
    "answer.json": "examples/answer.json",
    "forecasters.py": "src/NAME/forecasters.py",
    "metrics.py": "src/NAME/metrics.py",
    "importers.py": "src/NAME/importers.py",
    "sources.py": "src/NAME/sources.py",
    "tools.py": "src/NAME/tools.py",
}


def new_plugin(
    name: Annotated[str, Parameter(help="The package's name: small letters, digits, _.")],
    /,
    *,
    into: Annotated[Path | None, Parameter(help="The folder to make [NAME].")] = None,
    json: Json = False,
) -> int:
    """Write a package with a forecaster, a metric, an importer, a source and a tool.

    Each is as small as it can be and works as it is: `pip install -e NAME`, then `beforehand
    doctor` lists them. Keep what you need.
    """
    if not name.isidentifier() or name != name.lower() or iskeyword(name):
        raise InputError(f"{name!r} cannot be a package: use small letters, digits and _")
    if find_spec(name) is not None:
        raise InputError(f"{name!r} cannot be a package: one of that name is installed already")
    folder = into or Path(name)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is there already and not empty: name another with --into")
    made = []
    for source, place in PLACES.items():
        text = files("beforehand").joinpath(f"skeleton/{source}.in").read_text("utf-8")
        path = folder / place.replace("NAME", name)
        write_atomic(path, text.replace("NAME", name).encode())
        made.append(str(path))
    init = folder / "src" / name / "__init__.py"
    write_atomic(init, f'"""Plugins for beforehand: {name}."""\n'.encode())
    if json:
        emit({"folder": str(folder), "files": [*made, str(init)]})
    else:
        print(f"{folder}: a package with five plugins; next: pip install -e {folder}")
        print("then `beforehand doctor` lists them, and README.md says how each is used")
    return EXIT_OK
