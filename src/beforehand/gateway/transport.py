"""The one HTTP client of the package: sends a Request once, and resolves addresses and secrets.

An answer is whole or lost. The time limit covers the whole exchange (connecting, headers, trickling
bodies), and a body is bounded (unpacked). No secret appears in an error or in a recorded address.

Redirects are followed for reads of keyless sources alone, never for forecasters, models and what
carries a key: what they are sent is for them. Each hop is checked: it stays within the source's own
hosts, and does not lead from a public address to one of this machine or its network.
"""

import asyncio
import base64
import ipaddress
import re
import socket
import threading
import weakref
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from orjson import JSONDecodeError, dumps, loads

from beforehand import __version__
from beforehand.clock import stopwatch
from beforehand.errors import BadAnswer, InputError, NotConfigured, Unauthorized, Unavailable
from beforehand.sources.base import Provider, Request
from beforehand.sources.catalogue import PROVIDERS
from beforehand.tls import trust
from beforehand.traffic import Lost, Reply

REACH_S = 10.0
HOPS = 5
MAX_BODY, MAX_FILE = 64 * 2**20, 512 * 2**20
EXAMPLE = "http://127.0.0.1:8765"


def reach(address: str, what: str) -> None:
    """Open one connection to an address and close it; nothing is asked. Where a proxy stands in
    between, nothing is tried. Raises Unavailable, naming `what` is there."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if getproxies().get(parts.scheme) and not proxy_bypass(host):
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((host, port), REACH_S).close()
    except OSError as error:
        raise Unavailable(
            f"no connection to {what} at {address} ({error.strerror or error}): does its server "
            "run? Nothing was asked and nothing was written"
        ) from None


class HttpTransport:
    """Sends requests; safe for threads. `environment` holds keys and address overrides.

    The client runs on an event loop of its own: only there can a whole exchange be stopped at its
    time limit, whatever the server does.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        providers: Mapping[str, Provider] = PROVIDERS,
    ) -> None:
        self._environment = environment
        self._providers = providers
        self._loop = asyncio.new_event_loop()
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=True,
            verify=trust(),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
        )
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._lock = threading.Lock()
        self._reddit: tuple[str, float] | None = None
        weakref.finalize(self, _stop, self._loop, self._thread, self._client)

    def url(self, request: Request) -> str:
        """The full address, without secrets."""
        provider = self._providers[request.provider]
        base = self._environment.get(provider.override) or provider.base
        return base.rstrip("/") + request.path if base else request.path

    def send(self, request: Request, timeout: float) -> Reply:
        """One attempt within `timeout` seconds in all. Raises Lost, NotConfigured,
        InputError, BadAnswer."""
        provider = self._providers[request.provider]
        headers = {"User-Agent": f"beforehand/{__version__}", "Accept": "*/*"}
        headers |= dict(request.headers) | self._authorise(provider, timeout)
        try:
            reply = self._exchange(request, self.url(request), headers, timeout)
        except Lost as lost:
            raise Lost(self._redacted(str(lost)), lost.sent) from None
        if reply.status == 401 and provider.name == "reddit":
            self._reddit = None  # The token was revoked: the next call signs in again.
        if reply.status == 200:
            return reply
        safe = self._redacted(reply.text).encode()
        return Reply(reply.status, reply.headers, safe, reply.url)

    def _redacted(self, text: str) -> str:
        for provider in self._providers.values():
            for name in provider.keys if provider.auth != "contact" else ():
                secret = self._environment.get(name)
                if secret and len(secret.strip()) > 3:
                    text = text.replace(secret.strip(), "***")
        return text

    def _exchange(
        self, request: Request, url: str, headers: dict[str, str], timeout: float
    ) -> Reply:
        work = asyncio.run_coroutine_threadsafe(
            self._send(request, url, headers, timeout), self._loop
        )
        try:
            return work.result()
        except BaseException:
            work.cancel()
            raise

    async def _send(
        self, request: Request, url: str, headers: dict[str, str], timeout: float
    ) -> Reply:
        content = None
        if isinstance(request.body, bytes):
            content = request.body
        elif request.body is not None:
            content = urlencode(request.body).encode() if request.form else dumps(request.body)
            headers["Content-Type"] = (
                "application/x-www-form-urlencoded" if request.form else "application/json"
            )
        query = list[tuple[str, str | int | float | bool | None]](request.params) or None
        method, follows = "GET" if content is None else "POST", self._follows(request)
        try:
            async with asyncio.timeout(timeout):
                for hop in range(HOPS + 1):
                    async with self._client.stream(
                        method,
                        url,
                        params=query,
                        content=content,
                        headers=headers,
                        timeout=httpx2.Timeout(timeout),
                    ) as response:
                        body = await _whole(response)
                        if not (follows and response.is_redirect and hop < HOPS):
                            break
                        url, query = await _next_hop(response), None
        except TimeoutError:
            raise Lost(f"no whole answer within {timeout:.0f} s") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise InputError(f"{url!r} is not an address to fetch from: {error}") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Lost(f"no connection: {error}", sent=False) from None
        except httpx2.HTTPError as error:
            name = type(error).__name__
            raise Lost(f"{name}: {error}" if str(error) else name) from None
        found = {name.lower(): value for name, value in response.headers.items()}
        # An override may carry a password: it is not recorded.
        address = re.sub(r"//[^/@]*@", "//", str(response.url))
        if response.is_redirect:
            body = (
                f"redirects are not followed here (to {found.get('location', '?')[:100]})".encode()
            )
        return Reply(response.status_code, found, body, address)

    def _follows(self, request: Request) -> bool:
        """Whether a redirect of this request may be followed."""
        known = PROVIDERS.get(request.provider)
        return known is not None and known.auth == "none" and request.body is None

    def _authorise(self, provider: Provider, timeout: float) -> dict[str, str]:
        """The headers that identify us; NotConfigured names the missing variable."""
        missing = [name for name in provider.keys if not self._environment.get(name)]
        if missing:
            raise NotConfigured(
                f"{provider.title} needs {' and '.join(missing)} in the environment: "
                f"{provider.without}"
            )
        if provider.auth == "none":
            return {}
        for name in provider.keys:
            if not re.fullmatch(r"[\x20-\x7e]+", self._environment[name].strip()):
                raise NotConfigured(
                    f"{name} in the environment has characters that a header cannot carry: set it "
                    "again, without line breaks"
                )
        secret = self._environment[provider.keys[0]].strip()
        if provider.auth == "bearer":
            return {"Authorization": f"Bearer {secret}"}
        if provider.auth == "x-api-key":
            return {"x-api-key": secret}
        if provider.auth == "contact":
            return {"User-Agent": f"beforehand/{__version__} {secret}"}
        agent = f"python:beforehand:{__version__} (read-only research)"
        if provider.name == "reddit-auth":
            pair = f"{secret}:{self._environment[provider.keys[1]].strip()}".encode()
            return {
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
                "User-Agent": agent,
            }
        return {"Authorization": f"Bearer {self._reddit_token(timeout)}", "User-Agent": agent}

    def _reddit_token(self, timeout: float) -> str:
        """An app-only token (client_credentials), kept until shortly before it expires."""
        with self._lock:
            if self._reddit is None or self._reddit[1] < stopwatch():
                request = Request(
                    "reddit-auth",
                    "access_token",
                    "/api/v1/access_token",
                    body={"grant_type": "client_credentials"},
                    form=True,
                )
                reply = self.send(request, timeout)
                if reply.status == 429 or reply.status >= 500:
                    raise Lost(f"Reddit's sign-in answered {reply.status}", sent=False)
                try:
                    answer = loads(reply.body) if reply.status == 200 else {}
                    self._reddit = (
                        str(answer["access_token"]),
                        stopwatch() + float(answer["expires_in"]) - 60.0,
                    )
                except (JSONDecodeError, KeyError, TypeError, ValueError):
                    raise Unauthorized(
                        f"Reddit's sign-in answered {reply.status}: it grants tokens to approved "
                        "applications only; check REDDIT_CLIENT_ID and REDDIT_CLIENT_SECRET"
                    ) from None
            return self._reddit[0]


async def _whole(response: httpx2.Response) -> bytes:
    """The body. Raises BadAnswer for one that is too large."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            raise BadAnswer(f"the answer is larger than {MAX_BODY // 2**20} MiB")
    return b"".join(parts)


async def _next_hop(response: httpx2.Response) -> str:
    """Where a redirect leads. Raises BadAnswer for a hop that is not taken."""
    start, target = response.url, response.url.join(response.headers.get("location", ""))
    if target.scheme not in (start.scheme, "https"):
        raise BadAnswer(f"a redirect to {target.scheme}://{target.host} is not followed")
    if target.host == start.host:
        return str(target)
    if _owner(target.host) != _owner(start.host):
        raise BadAnswer(f"a redirect from {start.host} to {target.host} is not followed")
    if not await _is_public(target.host):
        raise BadAnswer(f"a redirect to {target.host}, which is no public address, is not followed")
    return str(target)


def _owner(host: str) -> str:
    """The last two labels of a host's name; an address stands for itself."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return ".".join(host.lower().split(".")[-2:])
    return host


async def _is_public(host: str) -> bool:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Lost(f"no connection: {error}", sent=False) from None
    return all(ipaddress.ip_address(row[4][0]).is_global for row in found)


def _stop(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, client: httpx2.AsyncClient
) -> None:
    """Close the connections, then the loop."""
    if thread.is_alive() and thread is not threading.current_thread():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


class ServerConnection:
    """A beforehand server at an address, asked with a token. Safe for threads; `close` it at the
    end."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InputError(f"{url!r} is not the address of a server, such as {EXAMPLE}")
        headers = {"User-Agent": f"beforehand/{__version__}"}
        if token is not None:
            if not re.fullmatch(r"[\x21-\x7e]+", token):
                raise InputError("a token is one word, as `beforehand token issue` prints it")
            headers["Authorization"] = f"Bearer {token}"
        self.url, self._timeout = url.rstrip("/"), timeout
        client = httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, verify=trust())
        self._client = client

    def ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int | float | bool] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request and its whole answer, whatever its status. Raises Unavailable where no server
        answers, BadAnswer for more than MAX_FILE bytes (unpacked)."""
        parts, size = list[bytes](), 0
        try:
            with self._client.stream(
                method, path, params=params, content=content, headers=dict(headers or {})
            ) as found:
                for part in found.iter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > MAX_FILE:
                        raise BadAnswer(f"{path} gave more than {MAX_FILE // 2**20} MiB")
        except httpx2.HTTPError as error:
            raise self._unreached(error) from None
        kept = {name.lower(): value for name, value in found.headers.items()}
        return Reply(found.status_code, kept, b"".join(parts), str(found.url))

    def lines(self, path: str, headers: Mapping[str, str]) -> Iterator[str]:
        """The lines of an answer that is told bit by bit; none where it has no content. Raises
        Unavailable where the server is gone, or silent for longer than it may be."""
        try:
            with self._client.stream("GET", path, headers=dict(headers)) as found:
                if found.status_code == 200:
                    yield from found.iter_lines()
        except httpx2.HTTPError as error:
            raise self._unreached(error) from None

    def _unreached(self, error: Exception) -> Unavailable:
        said = str(error) or type(error).__name__
        return Unavailable(f"the server at {self.url} does not answer ({said}): is it running?")

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def file_request(url: str) -> Request:
    """A request for a public file at a full address."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url!r} is not an address to fetch: it must begin with http or https")
    return Request("download", "file", url)
