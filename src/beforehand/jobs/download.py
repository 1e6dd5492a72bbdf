"""Downloading public data sets, each file with its digest."""

from collections.abc import Sequence
from pathlib import Path

from beforehand.errors import BadAnswer, InputError
from beforehand.gateway.transport import file_request
from beforehand.ids import digest
from beforehand.store.files import write_atomic
from beforehand.traffic import Traffic

FORECASTBENCH = (
    "https://raw.githubusercontent.com/forecastingresearch/forecastbench-datasets/main/datasets"
)


def forecastbench(
    traffic: Traffic,
    due: str,
    out: Path,
    base: str = FORECASTBENCH,
    kind: str = "llm",
    sha256: Sequence[str] = (),
) -> list[dict[str, str]]:
    """The question set and the resolution set of a due date (YYYY-MM-DD) into `out`.

    With `sha256` given, in the order question set, resolution set, a file of another digest is
    refused and nothing of it is kept.
    """
    names = (f"question_sets/{due}-{kind}.json", f"resolution_sets/{due}_resolution_set.json")
    if sha256 and len(sha256) != len(names):
        raise InputError(f"--sha256 takes {len(names)} digests: question set, resolution set")
    found = []
    for i, name in enumerate(names):
        url = f"{base.rstrip('/')}/{name}"
        body = traffic.fetch(file_request(url)).body
        if body[:1] not in (b"{", b"\x1f"):
            raise BadAnswer(f"{url} did not answer with JSON")
        mark = digest(body)
        if sha256 and mark != sha256[i]:
            raise BadAnswer(f"{url} has the digest {mark}, expected {sha256[i]}: not kept")
        target = out / Path(name).name
        write_atomic(target, body)
        found.append({"url": url, "path": str(target), "sha256": mark})
    return found
