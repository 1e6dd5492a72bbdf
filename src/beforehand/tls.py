"""Whom connections trust, read once for the process: that takes longer than most calls."""

import ssl
from functools import cache

import httpx2


@cache
def trust() -> ssl.SSLContext:
    """The certificates of this machine, or those that SSL_CERT_FILE or SSL_CERT_DIR name."""
    return httpx2.create_ssl_context()
