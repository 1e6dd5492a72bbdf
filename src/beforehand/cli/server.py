"""Options that every server over HTTP shares: what it grants to its clients."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.serve.connections import Limits


@Parameter(name="*")
@dataclass
class ServerLimits:
    """Limits of a server over HTTP; what is left out is as usual."""

    head_timeout: Annotated[
        float | None, Parameter(help="Seconds in which the head of a request must arrive [10].")
    ] = None
    body_timeout: Annotated[float | None, Parameter(help="The same for its body [20].")] = None
    idle_timeout: Annotated[
        float | None, Parameter(help="Seconds that an idle connection is kept [5].")
    ] = None
    stall_timeout: Annotated[
        float | None, Parameter(help="Seconds that a client may not read what is sent [30].")
    ] = None
    per_peer: Annotated[
        int | None, Parameter(help="Connections of one address that showed no token [512].")
    ] = None
    unproven: Annotated[int | None, Parameter(help="The same of all addresses [1024].")] = None
    connections: Annotated[int | None, Parameter(help="Connections in all [4096].")] = None
    max_body: Annotated[int | None, Parameter(help="Bytes of a body [4194304].")] = None
    max_upload: Annotated[
        int | None, Parameter(help="Bytes of a file of forecasts [67108864].")
    ] = None
    rate: Annotated[float | None, Parameter(help="Requests a second of one user [200].")] = None
    at_once: Annotated[int | None, Parameter(help="Requests in progress of all [256].")] = None
    at_once_each: Annotated[
        int | None, Parameter(help="Requests in progress of one user [64].")
    ] = None


NAMES = {
    "head_timeout": "head",
    "body_timeout": "body",
    "idle_timeout": "idle",
    "stall_timeout": "stalled",
    "max_body": "largest",
    "max_upload": "largest_upload",
}


def server_limits(given: ServerLimits | None) -> "Limits":
    """The limits, checked. Raises InputError."""
    from beforehand.serve.connections import Limits

    found = {}
    for field in fields(given or ServerLimits()):
        value = getattr(given, field.name, None)
        if value is None:
            continue
        if not 0 < value < 10**12:
            raise InputError(f"--{field.name.replace('_', '-')} must lie above 0, not {value}")
        found[NAMES.get(field.name, field.name)] = value
    return Limits(**found)
