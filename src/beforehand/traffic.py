"""Every outside call goes through here: limits, time limits, retries, pauses, the circuit breaker.

Rules, in order. A gate that is shut (a feed's window, a pause the service asked for, an open
circuit) refuses at once and says until when. A limit makes the call wait for its turn. A request
answered with 429 or 5xx is sent again with exponential backoff and full jitter (or after
`Retry-After`); with any other status it is not. After a lost answer (timed out, dropped, cut short)
a request is sent again only if it may be repeated. All attempts end at the provider's deadline. The
waiting and counting is shared by every process of a home folder through the ledger.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from beforehand.clock import Clock, SystemClock, epoch
from beforehand.errors import Held, NotFound, RateLimited, Refused, Unauthorized, Unavailable
from beforehand.sources.base import Provider, Request
from beforehand.sources.catalogue import PROVIDERS
from beforehand.store.ledger import Ledger

BACKOFF_S = 0.5
LONGEST_PAUSE_S = 3600.0
GATEWAYS = (502, 504)
CIRCUIT_AFTER, CIRCUIT_S = 5, 30.0
"""This many failures in a row open the circuit for this many seconds; then one call is let
through."""


@dataclass(frozen=True)
class Reply:
    """A whole answer: status, headers in lower case, the body, where it came from."""

    status: int
    headers: dict[str, str]
    body: bytes
    url: str

    @property
    def text(self) -> str:
        """The body as text: UTF-8, or Latin-1 where it is not."""
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            return self.body.decode("latin-1")


@dataclass
class Spent:
    """What one tool call used: requests sent, dollars that services said they charged, rows of
    pages that could not be read."""

    requests: int = 0
    usd: float = 0.0
    unread: int = 0

    def add(self, other: "Spent") -> None:
        """Add what a call inside this one used; calls may run in parallel."""
        with _ADDING:
            self.requests += other.requests
            self.usd += other.usd
            self.unread += other.unread


_ADDING = threading.Lock()
_SPENT: ContextVar[Spent] = ContextVar("spent", default=Spent())  # noqa: B039 (it is never read)


@contextmanager
def counting() -> Iterator[Spent]:
    """Count what is sent in this context from now on, apart from all other contexts. At the end the
    count is added to the enclosing call."""
    outer, mine = _SPENT.get(), Spent()
    token = _SPENT.set(mine)
    try:
        yield mine
    finally:
        _SPENT.reset(token)
        outer.add(mine)


def spent() -> Spent:
    """The counter of the current call."""
    return _SPENT.get()


class Polled(RateLimited):
    """A feed was polled in this window already: its last poll is used."""


class Lost(Exception):
    """No whole answer came. `sent` is False where the request cannot have arrived."""

    def __init__(self, message: str, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


Send = Callable[[Request, float], Reply]
"""Sends once, within so many seconds; raises Lost."""


@dataclass
class _Exchange:
    """One request under way: its deadline, whether its turn was taken, whether the provider's last
    calls failed, and how the attempts ended."""

    request: Request
    provider: Provider
    end: float
    turn_taken: bool
    still: Callable[[], bool]
    failing: bool = False
    reached: bool = False
    unconnected: bool = False
    uncertain: bool = False
    status: int = 0


class Traffic:
    """Sends every outside request. Safe for threads."""

    def __init__(
        self,
        ledger: Ledger,
        send: Send,
        clock: Clock | None = None,
        providers: dict[str, Provider] = PROVIDERS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ledger, self._send, self._sleep = ledger, send, sleep
        self._clock = clock or SystemClock()
        self._providers = providers

    def turn(self, provider: str, endpoint: str, stop: threading.Event) -> None:
        """Wait, however long, until the limits allow one more call and take it, or until `stop` is
        set. `fetch(…, turn_taken=True)` then sends without waiting again."""
        found = self._providers[provider]
        limits = self._limits(found, endpoint)
        while limits and (wait := self._ledger.take(limits, self._now())) > 0:
            if stop.wait(wait):
                return

    def fetch(
        self,
        request: Request,
        turn_taken: bool = False,
        still: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """The answer to `request` (status 200). `still` is called before each attempt: if it
        returns False, another process may have taken the request over, and Held is raised.

        Raises NotFound (404), Unauthorized (401 to 403), Refused (any other 4xx), RateLimited and
        Unavailable, each saying what to do.
        """
        provider = self._providers[request.provider]
        way = _Exchange(request, provider, self._now() + provider.deadline, turn_taken, still)
        way.failing = self._check_gates(provider, way.end)
        if request.window is None:
            return self._attempts(way)
        window = f"window/{provider.name}/{request.window}"
        shut = self._ledger.claim(
            window, self._now(), provider.window_seconds, "it was polled in this window"
        )
        if shut is not None:
            raise Polled(
                f"{provider.title}: this feed is polled once in "
                f"{_span(provider.window_seconds)}; next in {_span(shut[0])} ({shut[1]})",
                shut[0],
            )
        try:
            return self._attempts(way)
        except BaseException as error:
            if not way.reached or isinstance(error, (Refused, Unauthorized, NotFound)):
                self._ledger.open(window)  # The feed was not polled.
            raise

    def _attempts(self, way: "_Exchange") -> Reply:
        """Send until an answer comes or the time is up. If one attempt was uncertain, the request
        stays uncertain, however the attempts end."""
        try:
            return self._try(way)
        except Unavailable as error:
            error.uncertain = error.uncertain or way.uncertain
            error.unreached = way.unconnected and not way.reached
            error.status = way.status
            raise

    def _try(self, way: "_Exchange") -> Reply:
        request, provider, end = way.request, way.provider, way.end
        problem, pause, tried = "no time was left to try", 0.0, 0
        for attempt in range(1, provider.attempts + 1):
            if pause:
                self._sleep(pause)
                self._check_gates(provider, end, probing=True)
            if attempt > 1 or not way.turn_taken:
                self._wait_for_turn(request, provider, end)
            left = end - self._now()
            if left <= 0:
                break
            if not way.still():
                raise Held(
                    f"{provider.title} was not asked: this process paused for too long, and "
                    "another one may be asking now"
                )
            tried = attempt
            try:
                spent().requests += 1
                reply = self._send(request, min(provider.timeout, left))
            except Lost as lost:
                problem, asked = str(lost), None
                way.reached, way.unconnected = way.reached or lost.sent, not lost.sent
                way.uncertain = way.uncertain or lost.sent
                self._failed(provider, problem)
                if lost.sent and not request.repeatable:
                    raise self._not_repeated(provider, problem) from None
            else:
                way.reached, way.status = True, reply.status
                if reply.status < 500 and (way.failing or attempt > 1):
                    self._ledger.succeeded(provider.name)
                if reply.status == 200:
                    return reply
                problem = f"it answered {reply.status}"
                if reply.status in GATEWAYS:  # The service behind it may have answered.
                    way.uncertain = True
                    if not request.repeatable:
                        raise self._not_repeated(provider, problem)
                asked = self._refusal(reply, request, provider)
            pause = max(asked or 0.0, _backoff(attempt))
            if self._now() + pause >= end:
                if asked is not None:
                    raise RateLimited(
                        f"{provider.title} {problem} and asks to wait {_span(asked)}: try again "
                        "then",
                        asked,
                    )
                break
        attempts = f"{tried} attempt{'' if tried == 1 else 's'}"
        if way.reached:
            raise Unavailable(
                f"{provider.title} gave no answer in {attempts}, {problem}: look at what it says "
                f"there and try again, or {provider.instead}"
            )
        raise Unavailable(
            f"{provider.title} could not be reached in {attempts} ({problem}): check the network "
            f"and try again, or {provider.instead}"
        )

    @staticmethod
    def _not_repeated(provider: Provider, problem: str) -> Unavailable:
        return Unavailable(
            f"{provider.title}: {problem}. The request may have been carried out, so it was not "
            f"sent again: {provider.uncertain}",
            uncertain=True,
        )

    def _refusal(self, reply: Reply, request: Request, provider: Provider) -> float | None:
        """What an answer other than 200 means: raises, or returns the pause it asks for."""
        status = reply.status
        where = f"{provider.title} ({request.path})" if request.path else provider.title
        if status in provider.defer:
            raise RateLimited(
                f"{where} answered {status}: deferred to the next window, in "
                f"{_span(provider.window_seconds)}",
                provider.window_seconds,
            )
        if status == 404:
            raise NotFound(f"{where} does not know this (404)")
        if status in (401, 402, 403):
            hint = f"check {' and '.join(provider.keys)}" if provider.keys else "it needs a key"
            if status == 402:
                hint = f"the credit is used up ({reply.text[:200].strip() or 'it says no more'})"
            raise Unauthorized(f"{where} answered {status}: {hint}", status)
        if status != 429 and status < 500:
            raise Refused(f"{where} refused the request ({status}): {reply.text[:200].strip()}")
        if status != 429:
            self._failed(provider, f"it answered {status}")
        asked = _retry_after(reply.headers.get("retry-after"), self._clock.now())
        if asked is not None and asked > 0:
            # Other callers wait as well.
            self._ledger.shut(
                f"pause/{provider.name}", self._now(), asked - 0.001, "it asked for a pause"
            )
        return asked

    def _wait_for_turn(self, request: Request, provider: Provider, end: float) -> None:
        limits = self._limits(provider, request.endpoint)
        while limits and (wait := self._ledger.take(limits, self._now())) > 0:
            if self._now() + wait >= end:
                raise RateLimited(
                    f"{provider.title}: its limit is used up for the next {_span(wait)} (all "
                    "processes of this home folder count together): try again then",
                    wait,
                )
            self._sleep(wait)

    def _limits(self, provider: Provider, endpoint: str) -> list[tuple[str, int, float]]:
        return [
            (f"{provider.name}/{'+'.join(limit.endpoints)}", limit.calls, limit.seconds)
            for limit in provider.limits
            if not limit.endpoints or endpoint in limit.endpoints
        ]

    def _check_gates(self, provider: Provider, end: float, probing: bool = False) -> bool:
        """Wait for a pause, refuse at an open circuit. True if the provider's last calls failed."""
        now = self._now()
        pause, shut, failures = self._ledger.standing(provider.name, now)
        if pause is not None:
            if now + pause[0] >= end:
                raise RateLimited(
                    f"{provider.title} asked for a pause: try again in {_span(pause[0])}", pause[0]
                )
            self._sleep(pause[0])
            now = self._now()
            _, shut, failures = self._ledger.standing(provider.name, now)
        if shut is None and failures >= CIRCUIT_AFTER and not probing:
            # Half open: one call at a time tries whether the service is back.
            shut = self._ledger.claim(
                f"probe/{provider.name}", now, provider.timeout, "one call is trying it now"
            )
        if shut is not None:
            raise Unavailable(
                f"{provider.title} failed {CIRCUIT_AFTER} times in a row (last: {shut[1]}): not "
                f"asked again for {_span(shut[0])}; {provider.instead}",
                shut[0],
            )
        return failures > 0

    def _failed(self, provider: Provider, problem: str) -> None:
        if not provider.circuit:
            return
        now = self._now()
        if self._ledger.failed(provider.name, now) >= CIRCUIT_AFTER:
            self._ledger.shut(f"circuit/{provider.name}", now, CIRCUIT_S, problem)

    def _now(self) -> float:
        return epoch(self._clock.now())


def _backoff(attempt: int) -> float:
    """Full jitter: uniform in (0, 2^n) half seconds (AWS Architecture Blog, 2015)."""
    return float(random.uniform(0.2, 1.0) * BACKOFF_S * 2 ** (attempt - 1))


def _retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header: a number or an HTTP date (RFC 9110, 10.2.3), an hour at
    most; None for anything else."""
    if not value:
        return None
    if re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        return min(float(value), LONGEST_PAUSE_S)
    try:
        stamp = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return min(max(0.0, (stamp - now).total_seconds()), LONGEST_PAUSE_S)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 else "a second"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
