"""Addresses that users name: forecasters and model servers."""

from urllib.parse import SplitResult, urlsplit

from beforehand.errors import InputError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
PORTS = {"http": 80, "https": 443}


def service_of(address: str) -> str:
    """The host and port behind an address, in one spelling; what is no address, as it is."""
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError:
        return address
    if parts.scheme not in PORTS or not host:
        return address
    return f"{'localhost' if host in LOOPBACK else host}:{port or PORTS[parts.scheme]}"


def split_address(address: str, whose: str, shape: str) -> SplitResult:
    """The parts of an http address; InputError if nothing can be sent there, or if it holds a
    secret. `whose` is who stands behind it, `shape` how it is written."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{whose} {address!r} is no address: {error}") from None
    if not parts.hostname:
        raise InputError(f"{whose} {address!r} names no host: write {shape}")
    if parts.username or parts.password or parts.fragment:
        raise InputError(
            f"{whose} at {parts.hostname}: an address must hold no user, password or fragment, "
            "as it is stored with the results"
        )
    return parts
