"""The one HTTP client of the package. Idempotent reads only, with a time limit and few retries."""

import time

import httpx2

from beforehand import __version__
from beforehand.errors import InputError, NotFound, Unavailable

TIMEOUT_S, ATTEMPTS, BACKOFF_S = 30.0, 3, 0.5
RETRIED = frozenset({429, 500, 502, 503, 504})


def download(url: str, *, attempts: int = ATTEMPTS, backoff: float = BACKOFF_S) -> bytes:
    """GET `url`; follows redirects, checks the length, retries on 429, 5xx and broken transfers.

    Raises NotFound on 404 and Unavailable (with what to do) on everything else that fails.
    """
    problem = "no attempt was made"
    headers = {"User-Agent": f"beforehand/{__version__}"}
    with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=True, headers=headers) as client:
        for attempt in range(attempts):
            if attempt:
                time.sleep(backoff * 2 ** (attempt - 1))
            try:
                response = client.get(url)
            except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
                raise InputError(f"{url!r} is no address to fetch from: {error}") from None
            except httpx2.HTTPError as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                continue
            if response.status_code == 404:
                raise NotFound(f"{url} does not exist (404)")
            if response.status_code in RETRIED:
                problem = f"the server answered {response.status_code}"
                continue
            if response.status_code != 200:
                raise Unavailable(f"{url}: the server answered {response.status_code}")
            return response.content
    raise Unavailable(
        f"{url} could not be fetched in {attempts} attempts ({problem}): check the network, or "
        "download the file yourself and import it"
    )
