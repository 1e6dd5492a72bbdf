"""Limits, time limits, retries, pauses and the circuit, against a real server that misbehaves."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Thread

import pytest

from beforehand import traffic as traffic_module
from beforehand.clock import SystemClock
from beforehand.errors import (
    BadAnswer,
    BeforehandError,
    Corrupt,
    InputError,
    NotConfigured,
    NotFound,
    RateLimited,
    Refused,
    Unauthorized,
    Unavailable,
)
from beforehand.gateway.transport import HttpTransport, file_request
from beforehand.sources.base import Limit, Provider, Request
from beforehand.sources.catalogue import PROVIDERS
from beforehand.sources.google_news import build
from beforehand.store.ledger import MARGIN, Ledger
from beforehand.traffic import CIRCUIT_AFTER, Traffic, counting
from vendor import Asked, Vendor, serving

READ = Request("gamma", "markets", "/markets/keyset")
PAID = Request("exa", "search", "/search", body={"query": "x"}, repeatable=False)


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with serving(Vendor()) as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_module, "BACKOFF_S", 0.01)


def open_traffic(vendor: Vendor, path: Path, **changes: object) -> Traffic:
    """Traffic to the vendor with short time limits; `changes` go to every provider."""
    quick = {"timeout": 0.5, "deadline": 2.0, **changes}
    providers = {name: replace(p, **quick) for name, p in PROVIDERS.items()}  # type: ignore[arg-type]
    transport = HttpTransport(vendor.environment)
    return Traffic(Ledger(path / "traffic.db"), transport.send, providers=providers)


def turns(*answers: object) -> object:
    """Each call gets the next answer, the last one for ever."""
    left = list(answers)

    def answer(_: Asked) -> object:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


@pytest.mark.parametrize("fault", [429, 500, 502, 503, 504, "drop", "truncate", "drip"])
def test_a_repeatable_read_survives_a_fault(vendor: Vendor, tmp_path: Path, fault: object) -> None:
    vendor.route("gamma", "/markets", turns(fault, {"ok": 1}))
    reply = open_traffic(vendor, tmp_path).fetch(READ)
    assert (reply.body, len(vendor.log)) == (b'{"ok": 1}', 2)


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFound), (400, Refused), (422, Refused), (401, Unauthorized), (403, Unauthorized)],
)
def test_no_other_status_is_asked_again(
    vendor: Vendor, tmp_path: Path, status: int, error: type[Exception]
) -> None:
    vendor.route("gamma", "/markets", status)
    with pytest.raises(error):
        open_traffic(vendor, tmp_path).fetch(READ)
    assert len(vendor.log) == 1


def test_what_was_paid_is_not_asked_again_after_a_lost_answer(
    vendor: Vendor, tmp_path: Path
) -> None:
    traffic = open_traffic(vendor, tmp_path)
    for fault in ("drop", "truncate", "drip"):
        vendor.log.clear()
        vendor.route("exa", "/search", turns(fault, {"results": []}))
        with pytest.raises(Unavailable, match="may have been carried out"):
            traffic.fetch(PAID)
        assert len(vendor.log) == 1, fault
    vendor.route("exa", "/search", turns(503, 429, {"results": []}))
    vendor.log.clear()
    assert traffic.fetch(PAID).status == 200
    assert len(vendor.log) == 3


def test_a_request_that_never_left_may_be_sent_again(tmp_path: Path) -> None:
    nowhere = {p.override: "http://127.0.0.1:1" for p in PROVIDERS.values()} | {"EXA_API_KEY": "k"}
    traffic = Traffic(Ledger(tmp_path / "t.db"), HttpTransport(nowhere).send)
    with counting() as spent, pytest.raises(Unavailable, match="in 4 attempts"):
        traffic.fetch(PAID)
    assert spent.requests == 4


def test_the_deadline_covers_all_attempts(vendor: Vendor, tmp_path: Path) -> None:
    vendor.route("gamma", "/markets", "drip")
    traffic = open_traffic(vendor, tmp_path, timeout=0.4, deadline=1.0, attempts=10)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="gave no answer in"):
        traffic.fetch(READ)
    assert time.monotonic() - began < 2.0
    assert len(vendor.log) < 5


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(vendor: Vendor, tmp_path: Path, as_date: bool) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    header = {"Retry-After": at if as_date else "1"}
    vendor.route("gamma", "/markets", turns((429, header, {}), {"ok": 1}))
    open_traffic(vendor, tmp_path, deadline=5.0).fetch(READ)
    first, second = vendor.log
    assert second.at - first.at >= 0.9


def test_a_long_pause_is_told_and_shared(vendor: Vendor, tmp_path: Path) -> None:
    vendor.route("gamma", "/markets", (429, {"Retry-After": "600"}, {}))
    with pytest.raises(RateLimited, match="wait 10 min") as found:
        open_traffic(vendor, tmp_path).fetch(READ)
    assert found.value.retry_after == 600
    with pytest.raises(RateLimited, match="asked for a pause"):
        open_traffic(vendor, tmp_path).fetch(READ)
    assert len(vendor.log) == 1


def test_the_circuit_opens_and_closes(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_module, "CIRCUIT_S", 0.4)
    vendor.route("gamma", "/markets", 500)
    traffic = open_traffic(vendor, tmp_path, attempts=1)
    for _ in range(CIRCUIT_AFTER):
        with pytest.raises(Unavailable, match="answered 500"):
            traffic.fetch(READ)
    with pytest.raises(Unavailable, match="failed 5 times in a row"):
        open_traffic(vendor, tmp_path).fetch(READ)
    assert len(vendor.log) == CIRCUIT_AFTER
    time.sleep(0.5)
    vendor.route("gamma", "/markets", {"ok": 1})
    assert traffic.fetch(READ).status == 200
    assert traffic.fetch(READ).status == 200


def test_google_news_defers_to_the_next_window(vendor: Vendor, tmp_path: Path) -> None:
    request = build("fed rates").request()
    for status in (429, 503):
        vendor.log.clear()
        vendor.route("google-news", "/rss/search", status)
        traffic = open_traffic(vendor, tmp_path / str(status))
        with pytest.raises(RateLimited, match=r"deferred to the next window, in 3\.0 h"):
            traffic.fetch(request)
        with pytest.raises(RateLimited, match=r"polled once in 3\.0 h"):
            traffic.fetch(request)
        assert len(vendor.log) == 1
    vendor.log.clear()
    vendor.route("google-news", "/rss/search", 500)
    with pytest.raises(Unavailable):
        open_traffic(vendor, tmp_path / "two").fetch(request)
    assert len(vendor.log) == 2, "two attempts"
    assert PROVIDERS["google-news"].timeout == 10
    assert PROVIDERS["openai"].deadline == 15


def test_a_feed_is_polled_once_in_its_window(vendor: Vendor, tmp_path: Path) -> None:
    vendor.route("google-news", "/rss/search", b"<rss/>")
    traffic = open_traffic(vendor, tmp_path)
    traffic.fetch(build("fed rates").request())
    with pytest.raises(RateLimited, match="polled"):
        open_traffic(vendor, tmp_path).fetch(build("  fed   rates ").request())
    traffic.fetch(build("fed rates", edition="AE").request())
    assert len(vendor.log) == 2


def _hammer(url: str, path: str, calls: int, window: float = 0.5) -> None:
    environment = {p.override: f"{url}/{p.name}" for p in PROVIDERS.values()}
    providers = {"gamma": replace(PROVIDERS["gamma"], limits=(Limit(10, window),), deadline=90.0)}
    traffic = Traffic(Ledger(Path(path)), HttpTransport(environment).send, providers=providers)
    for _ in range(calls):
        traffic.fetch(READ)


def test_a_limit_holds_in_any_window_over_threads_and_processes(
    vendor: Vendor, tmp_path: Path
) -> None:
    vendor.route("gamma", "/markets", {"ok": 1})
    url, path = f"http://127.0.0.1:{vendor.port}", str(tmp_path / "t.db")
    Ledger(Path(path))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_hammer, args=(url, path, 12)) for _ in range(2)]
    threads = [Thread(target=_hammer, args=(url, path, 12)) for _ in range(2)]
    for worker in (*workers, *threads):
        worker.start()
    for worker in (*workers, *threads):
        worker.join(60)
    times = sorted(asked.at for asked in vendor.log)
    assert len(times) == 48
    for i, start in enumerate(times):  # Of the window of 0.5 s a fifth is left to a busy machine.
        assert sum(start <= t < start + 0.4 for t in times[i:]) <= 10
    assert times[-1] - times[0] >= 4 * 0.5


def test_without_the_ledger_the_limit_breaks(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "take", lambda *_: 0.0)
    vendor.route("gamma", "/markets", {"ok": 1})
    _hammer(f"http://127.0.0.1:{vendor.port}", str(tmp_path / "t.db"), 12, window=60.0)
    assert vendor.log[-1].at - vendor.log[0].at < 60.0, "with it, two of twelve would wait"


def test_a_used_up_limit_is_an_error_when_the_wait_is_too_long(tmp_path: Path) -> None:
    provider = Provider("gamma", "Gamma", "", (Limit(1, 100.0),), deadline=1.0)
    traffic = Traffic(
        Ledger(tmp_path / "t.db"),
        lambda r, t: traffic_module.Reply(200, {}, b"{}", ""),
        providers={"gamma": provider},
    )
    traffic.fetch(READ)
    with pytest.raises(RateLimited, match="used up for the next 100 s"):
        traffic.fetch(READ)


def test_the_ledger_survives_a_clock_that_steps_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "t.db")
    limit = [("b", 2, 10.0)]
    assert ledger.take(limit, 1000.0) == 0
    assert ledger.take(limit, 1001.0) == 0
    assert 0 < ledger.take(limit, 500.0) <= 10.0 + MARGIN
    assert ledger.take(limit, 510.3) == 0


def test_gates_keep_the_later_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "t.db")
    ledger.shut("g", 0.0, 10.0, "first")
    ledger.shut("g", 0.0, 5.0, "second")
    assert ledger.gate("g", 0.0) == (10.0, "first")
    assert ledger.gate("g", -100.0) == (10.0, "first"), "a clock stepped back waits no longer"
    assert ledger.gate("g", -90.0) is None
    ledger.shut("g", 0.0, 10.0, "first")
    assert ledger.gate("g", 10.0) is None
    assert ledger.claim("w", 0.0, 3.0, "x") is None
    assert ledger.claim("w", 1.0, 3.0, "x") == (2.0, "x")


def test_secrets_go_where_they_belong_and_nowhere_else(vendor: Vendor, tmp_path: Path) -> None:
    vendor.route("exa", "/search", {"results": []})
    vendor.route("openai", "/responses", {"output": []})
    vendor.route("reddit-auth", "/api", {"access_token": "tok", "expires_in": 3600})
    vendor.route("reddit", "/search", {"kind": "Listing", "data": {"children": []}})
    vendor.route("edgar", "/api", {})
    traffic = open_traffic(vendor, tmp_path)
    reply = traffic.fetch(PAID)
    assert vendor.log[-1].headers["x-api-key"] == "secret-exa_api_key"
    kept = PAID.exchange(reply.url, reply.text, SystemClock().now())
    assert "secret" not in kept.model_dump_json()
    traffic.fetch(Request("openai", "responses", "/responses", body={}, repeatable=False))
    assert vendor.log[-1].headers["Authorization"] == "Bearer secret-openai_api_key"
    traffic.fetch(Request("reddit", "search", "/search"))
    traffic.fetch(Request("reddit", "search", "/search"))
    assert [a.path for a in vendor.log[-3:]] == ["/api/v1/access_token", "/search", "/search"]
    assert vendor.log[-3].body == "grant_type=client_credentials"
    assert vendor.log[-1].headers["Authorization"] == "Bearer tok"
    traffic.fetch(Request("edgar", "companyfacts", "/api/x"))
    assert vendor.log[-1].headers["User-Agent"].endswith("secret-beforehand_contact")
    bare = Traffic(Ledger(tmp_path / "b.db"), HttpTransport({}).send)
    with pytest.raises(NotConfigured, match="EXA_API_KEY"):
        bare.fetch(PAID)
    with pytest.raises(NotConfigured, match="BEFOREHAND_CONTACT"):
        bare.fetch(Request("edgar", "companyfacts", "/api/x"))


def test_a_keyed_request_follows_no_redirect(vendor: Vendor, tmp_path: Path) -> None:
    elsewhere = f"http://127.0.0.1:{vendor.port}/gamma/stolen"
    vendor.route("exa", "/search", (302, {"Location": elsewhere}, {}))
    with pytest.raises(BeforehandError):
        open_traffic(vendor, tmp_path, attempts=1).fetch(PAID)
    assert [asked.path for asked in vendor.log] == ["/search"]


def test_a_lying_server_ends_in_our_own_error(vendor: Vendor, tmp_path: Path) -> None:
    import gzip

    bomb = gzip.compress(b" " * (80 * 2**20))
    vendor.route("gamma", "/markets", (200, {"Content-Encoding": "gzip"}, bomb))
    with pytest.raises(BadAnswer, match="64 MiB"):
        open_traffic(vendor, tmp_path, timeout=10.0, deadline=20.0, attempts=1).fetch(READ)
    vendor.route("gamma", "/markets", (200, {"Content-Encoding": "gzip"}, b"no gzip"))
    with pytest.raises(Unavailable):
        open_traffic(vendor, tmp_path, attempts=1).fetch(READ)


def test_files(vendor: Vendor, tmp_path: Path) -> None:
    vendor.route("files", "/a.gz", turns(503, "truncate", b"\x1f\x8bdata"))
    base = f"http://127.0.0.1:{vendor.port}/files"
    traffic = open_traffic(vendor, tmp_path)
    environment = {k: v for k, v in vendor.environment.items() if "DOWNLOAD" not in k}
    traffic = Traffic(Ledger(tmp_path / "f.db"), HttpTransport(environment).send)
    assert traffic.fetch(file_request(f"{base}/a.gz")).body == b"\x1f\x8bdata"
    with pytest.raises(NotFound):
        traffic.fetch(file_request(f"{base}/none"))
    with pytest.raises(InputError, match="http"):
        file_request("ftp://x")


@pytest.mark.parametrize("fault", ["slow head", "hints", "hollow"])
def test_the_time_limit_covers_the_whole_exchange(tmp_path: Path, fault: str) -> None:
    """A byte of the head at a time, interim answers without end, a body that unpacks to nothing."""
    import gzip
    import socket

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as peer:
            peer.recv(65536)
            block = gzip.compress(b"")
            if fault == "hollow":
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + block[:10])
            for i in range(100):
                if fault == "slow head":
                    peer.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: aaaaaaaaaa"[i : i + 1] or b"a")
                elif fault == "hints":
                    peer.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                else:
                    peer.sendall(b"\x00\x00\x00\xff\xff")
                time.sleep(0.1)

    serving_thread = Thread(target=serve, daemon=True)
    serving_thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    transport = HttpTransport({"BEFOREHAND_GAMMA_URL": url})
    began = time.monotonic()
    with pytest.raises(traffic_module.Lost):
        transport.send(READ, 0.6)
    assert time.monotonic() - began < 2.0
    listener.close()
    serving_thread.join(15)


def test_no_secret_stands_in_an_error_or_on_record(vendor: Vendor, tmp_path: Path) -> None:
    echo = {"error": "bad header Bearer secret-openai_api_key"}
    vendor.route("openai", "/responses", (400, {}, echo))
    traffic = open_traffic(vendor, tmp_path)
    asked = Request("openai", "responses", "/responses", body={}, repeatable=False)
    with pytest.raises(Refused) as refused:
        traffic.fetch(asked)
    assert "secret" not in str(refused.value)
    for key in ("SECRETKEY\nx", "SECRETKEY\x00", "SECRÉTKEY"):
        environment = vendor.environment | {"EXA_API_KEY": key}
        odd = Traffic(Ledger(tmp_path / "o.db"), HttpTransport(environment).send)
        with pytest.raises(NotConfigured) as told:
            odd.fetch(PAID)
        assert "SECR" not in str(told.value)
    vendor.route("exa", "/search", {"results": []})
    trimmed = HttpTransport(vendor.environment | {"EXA_API_KEY": " key\n"})
    assert trimmed.send(PAID, 1.0).status == 200
    assert vendor.log[-1].headers["x-api-key"] == "key"
    vendor.route("gamma", "/markets", {})
    address = f"http://me:PASSW0RD@127.0.0.1:{vendor.port}/gamma"
    reply = HttpTransport({"BEFOREHAND_GAMMA_URL": address}).send(READ, 1.0)
    assert "PASSW0RD" not in reply.url


def test_half_open_lets_one_call_through(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_module, "CIRCUIT_S", 0.2)
    vendor.route("gamma", "/markets", 500)
    traffic = open_traffic(vendor, tmp_path, attempts=1)
    for _ in range(CIRCUIT_AFTER):
        with pytest.raises(Unavailable):
            traffic.fetch(READ)
    time.sleep(0.3)
    vendor.log.clear()

    def attempt() -> None:
        with pytest.raises(Unavailable):
            traffic.fetch(READ)

    threads = [Thread(target=attempt) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(vendor.log) == 1


def test_only_failures_count_towards_the_circuit(vendor: Vendor, tmp_path: Path) -> None:
    vendor.route("gamma", "/markets", turns(500, 404, 500, 404, 500, 404, 500, 404, 500, 404))
    traffic = open_traffic(vendor, tmp_path, attempts=1)
    for _ in range(10):
        with pytest.raises((Unavailable, NotFound)) as found:
            traffic.fetch(READ)
        assert "in a row" not in str(found.value)
    ledger = Ledger(tmp_path / "old.db")
    for _ in range(4):
        ledger.failed("gamma", 1000.0)
    assert ledger.failed("gamma", 5000.0) == 1, "old failures are forgotten"


@pytest.mark.parametrize("value", ["inf", "1e400", "-5", "nan", "1_000", "٣", "soon", ""])
def test_odd_retry_after_values_mean_backoff(value: str) -> None:
    assert traffic_module._retry_after(value, datetime.now(UTC)) is None


def test_a_pause_has_a_ceiling() -> None:
    assert traffic_module._retry_after("999999999", datetime.now(UTC)) == 3600
    far = format_datetime(datetime(9999, 1, 1, tzinfo=UTC), usegmt=True)
    assert traffic_module._retry_after(far, datetime.now(UTC)) == 3600


def test_a_feed_that_was_not_reached_keeps_its_window(tmp_path: Path, vendor: Vendor) -> None:
    request = build("fed").request()
    nowhere = {p.override: "http://127.0.0.1:1" for p in PROVIDERS.values()}
    ledger = Ledger(tmp_path / "t.db")
    short = {n: replace(p, deadline=1.0) for n, p in PROVIDERS.items()}
    away = Traffic(ledger, HttpTransport(nowhere).send, providers=short)
    with pytest.raises(Unavailable):
        away.fetch(request)
    vendor.route("google-news", "/rss/search", b"<rss/>")
    back = Traffic(ledger, HttpTransport(vendor.environment).send)
    assert back.fetch(request).status == 200
    narrow = {"google-news": replace(PROVIDERS["google-news"], limits=(Limit(1, 90.0),))}
    busy = Traffic(
        Ledger(tmp_path / "n.db"), HttpTransport(vendor.environment).send, providers=narrow
    )
    busy.fetch(build("one").request())
    for _ in range(2):
        with pytest.raises(RateLimited, match="used up"):
            busy.fetch(build("two").request())


def test_a_damaged_ledger_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.db").write_bytes(b"not a database at all, but long enough" * 50)
    damaged = Ledger(tmp_path / "t.db")
    with pytest.raises(Corrupt, match="delete it"):
        damaged.take([("a", 1, 1.0)], 0.0)


def test_an_answer_survives_a_ledger_that_fails(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter of successes is best effort: what was paid for is handed on."""
    vendor.route("exa", "/search", {"results": []})
    traffic = open_traffic(vendor, tmp_path)
    real = Ledger._transaction
    calls = iter(range(100))

    def failing(self: Ledger):  # type: ignore[no-untyped-def]
        if next(calls) > 3:
            raise Unavailable("database is locked")
        return real(self)

    monkeypatch.setattr(Ledger, "_transaction", failing)
    assert traffic.fetch(PAID).status == 200


def test_old_calls_are_forgotten(tmp_path: Path) -> None:
    """What lies behind the window is deleted, however few calls there were: a clock that steps
    back later finds nothing to wait for, and users who left leave nothing behind."""
    ledger, limit, start = Ledger(tmp_path / "t.db"), [("b", 20, 600.0)], 1_000_000.0
    for _ in range(19):
        assert ledger.take(limit, start) == 0.0
    assert ledger.take(limit, start + 3600) == 0.0
    with ledger._database.read() as db:
        assert db.run("SELECT count(*) FROM traffic_calls") == [(1,)]
    assert ledger.take(limit, start + 300) == 0.0
    ledger.close()
