"""RFC 3161 time stamps of a sealed log: a service signs that the digest of its last line, and with
it every line before, existed at its time. Whoever rewrites the log later has no such stamp.

Stamps lie beside the log, `sealed.jsonl.41.tsr` for its first 41 lines, as the service sent them.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from beforehand.clock import iso
from beforehand.config import Workspace
from beforehand.errors import BadAnswer, InputError, NotConfigured
from beforehand.gateway.opening import open_traffic
from beforehand.llm.names import split_address
from beforehand.sources.base import Provider, Request
from beforehand.store.files import read_bytes, write_atomic
from beforehand.store.seals import Seal

SERVICE = "BEFOREHAND_TSA"
"""The setting that names a service."""
QUERY = "application/timestamp-query"
GRANTED = (0, 1)


class Stamp(TypedDict):
    """A stamp: of how many lines, when they existed by it, and what is wrong with it (null:
    nothing). `signed` says whether its signature was checked against known roots."""

    file: str
    lines: int
    at: str | None
    signed: bool
    problem: str | None


def _library() -> Any:
    try:
        import rfc3161_client
    except ModuleNotFoundError:
        raise NotConfigured(
            "time stamps need a package: pip install 'beforehand[stamps]'"
        ) from None
    return rfc3161_client


def stamp(workspace: Workspace, service: str, log: Path, lines: Sequence[Seal]) -> Path:
    """Have the log's last line stamped; the stamp's file. Raises InputError for an empty log,
    NotConfigured without the package, BadAnswer where the service gives no stamp of it, and what
    `Traffic` raises where it cannot be reached."""
    library = _library()
    if not lines:
        raise InputError(f"{log} has no line to be stamped")
    split_address(service, "time stamp service", "http://host/path")
    head = lines[-1]["digest"].encode()
    builder = library.TimestampRequestBuilder().data(head)
    asked = builder.hash_algorithm(library.base.HashAlgorithm.SHA256).cert_request(
        cert_request=True
    )
    title = f"the time stamp service {service}"
    provider = Provider(service, title, service, (), attempts=3)
    traffic = open_traffic(workspace, {service: provider})
    request = Request(
        service, "stamp", "", body=asked.build().as_bytes(), headers=(("Content-Type", QUERY),)
    )
    answer = traffic.fetch(request).body
    path = log.with_name(f"{log.name}.{len(lines)}.tsr")
    if (problem := _problem(library, answer, head)) is not None:
        raise BadAnswer(f"{service} gave no stamp of {log}: {problem}")
    write_atomic(path, answer)
    return path


def stamps_of(log: Path, lines: Sequence[Seal], roots: Path | None = None) -> list[Stamp]:
    """Every stamp beside a log, looked at; with `roots` (a PEM file) its signature, too. Raises
    NotConfigured where there are some and the package is missing."""
    files = sorted(log.parent.glob(f"{log.name}.*.tsr"), key=lambda path: (len(path.name), path))
    return [_looked_at(path, log, lines, roots) for path in files]


def _looked_at(path: Path, log: Path, lines: Sequence[Seal], roots: Path | None) -> Stamp:
    library = _library()
    number = path.name.removeprefix(f"{log.name}.").removesuffix(".tsr")
    n = int(number) if number.isascii() and number.isdigit() and len(number) < 12 else 0
    found: Stamp = {"file": path.name, "lines": n, "at": None, "signed": False, "problem": None}
    if not 0 < n <= len(lines):
        return {**found, "problem": f"the log has no line {number}: it was cut short"}
    content, head = read_bytes(path), lines[n - 1]["digest"].encode()
    if (problem := _problem(library, content, head)) is not None:
        return {**found, "problem": problem}
    response = library.decode_timestamp_response(content)
    at: datetime = response.tst_info.gen_time
    found["at"] = iso(at)
    if roots is None:
        return found
    try:
        _check_signature(library, response, head, roots)
    except Exception as error:  # The package's own errors have no common class.
        return {**found, "problem": f"its signature does not hold: {error}"}
    return {**found, "signed": True}


def _problem(library: Any, content: bytes, head: bytes) -> str | None:
    """Why an answer is no stamp of these bytes."""
    import hashlib

    try:
        response = library.decode_timestamp_response(content)
        status, said = int(response.status), response.status_string
        if status not in GRANTED:
            return f"it was refused ({', '.join(map(str, said)) or status})"
        imprint = response.tst_info.message_imprint.message
    except Exception as error:  # Bytes that are no answer.
        return f"what it sent is no time stamp ({type(error).__name__})"
    if imprint not in (hashlib.sha256(head).digest(), hashlib.sha512(head).digest()):
        return "it stamps something else: the line is not the one that was stamped"
    return None


def _check_signature(library: Any, response: Any, head: bytes, roots: Path) -> None:
    from cryptography.x509 import load_pem_x509_certificates

    builder = library.VerifierBuilder()
    for certificate in load_pem_x509_certificates(read_bytes(roots)):
        builder = builder.add_root_certificate(certificate)
    builder.build().verify_message(response, head)
