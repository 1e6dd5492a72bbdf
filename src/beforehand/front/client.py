"""A beforehand server from another machine: the same calls, and runs that look like local ones."""

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Unpack, cast
from urllib.parse import quote

import orjson

from beforehand.clock import iso
from beforehand.config import Home, Workspace
from beforehand.errors import (
    BadAnswer,
    BeforehandError,
    Corrupt,
    ExecutionFailed,
    InputError,
    NotFound,
    Stopped,
    Unavailable,
    error_named,
)
from beforehand.forecast.base import ModelOptions
from beforehand.front.arrow import Table
from beforehand.front.progress import progress as bar
from beforehand.front.questions import Answer, answer_of
from beforehand.front.run import Run, Standing, Verification
from beforehand.front.run import compare as compare_runs
from beforehand.front.start import Limits, Named, rows_of
from beforehand.gateway.transport import ServerConnection
from beforehand.ids import check_segment, digest
from beforehand.jobs.checks import Fees, instant, stakes
from beforehand.lazy import lazy
from beforehand.records.backtest import ExperimentConfig
from beforehand.runs.verify import RunCheck
from beforehand.score.bets import Kelly
from beforehand.score.compare import Comparison
from beforehand.store.files import read_bytes, write_atomic
from beforehand.store.run_folder import RunFolder

JSON = {"Content-Type": "application/json"}
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
TRIES = 20
"""How often a stream that broke is opened again, a second apart, without a new event."""
DONE = frozenset({"success", "stopped", "failed", "cancelled"})


class Client:
    """A server at `url` (`beforehand serve`), with a token from `beforehand token issue` where it
    needs one. Its methods are those of the front door; `timeout` is in seconds. Raises InputError
    for what is no address, and in every method what the server answers: InputError, NotFound,
    Unauthorized, Refused, Unavailable where it cannot be reached."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._connection = ServerConnection(url, token, timeout)
        self._folder = tempfile.TemporaryDirectory(prefix="beforehand-client-")

    @property
    def url(self) -> str:
        """The server's address."""
        return self._connection.url

    def close(self) -> None:
        """Close the connections, and delete what was fetched."""
        self._connection.close()
        self._folder.cleanup()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    @property
    def workspace(self) -> dict[str, Any]:
        """What is there, and what you may do."""
        return self.get("/api/workspace")

    def open_world(self, name: str | None = None) -> "RemoteWorld":
        """An archive of the server by its name; without one the default. Raises NotFound."""
        about = self.workspace
        chosen, known = name or about["default_archive"], about["archives"]
        if chosen is None:
            raise NotFound(f"the server at {self.url} has no archive yet")
        if chosen not in known:
            raise NotFound(f"the server has no archive {chosen!r}: it has {', '.join(known)}")
        return RemoteWorld(self, str(chosen))

    def open_run(self, run_id: str = "latest") -> "RemoteRun":
        """A run of the server; `latest` is the one started last. Raises NotFound."""
        found = self.get(f"/api/runs/{quote(run_id, safe='')}")
        return RemoteRun(self, str(found.get("run_id")))

    def runs(self) -> list[dict[str, Any]]:
        """Every run, newest first."""
        return list(self.pages("/api/runs"))

    def backtest(
        self,
        world: "RemoteWorld",
        forecasters: Named | Sequence[Named] = "all",
        *,
        every: str | timedelta = "7d",
        markets: str | Sequence[str] = "all",
        grid: str = "aligned",
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        sims: int = 1,
        evidence: int = 5,
        grade: str = "captured",
        configs: Sequence[ExperimentConfig] | None = None,
        models: ModelOptions | None = None,
        seed: int = 0,
        draws: int = 2000,
        placebo: int = 200,
        margin: float | None = None,
        spread: float | None = None,
        fees: Fees = None,
        kelly: float = 0.25,
        cap: float = 0.1,
        settle: Literal["known", "stated"] = "known",
        run_id: str | None = None,
        fresh: bool = False,
        progress: bool = True,
        **limits: Unpack[Limits],
    ) -> "RemoteRun":
        """`beforehand.backtest` on the server, by names of forecasters (a callable stays on the
        machine that has it). Waits for the end; the run goes on if you leave. Raises Stopped for a
        run that ended early: `open_run(...).resume()` continues it."""
        given = {
            "archive": _need(world).name,
            "forecasters": _names(forecasters),
            "every": _interval(every),
            "markets": None if markets == "all" else _listed(markets),
            "grid": grid,
            "start": None if start is None else iso(instant("start", start)),
            "end": None if end is None else iso(instant("end", end)),
            "sims": sims,
            "evidence": evidence,
            "grade": grade,
            "configs": None if configs is None else [one.wire() for one in configs],
            "models": _options(models),
            "seed": seed,
            "draws": draws,
            "placebo": placebo,
            "margin": margin,
            **_bets(stakes(spread, fees, kelly, cap, settle=settle)),
            "fresh": fresh,
            "limits": limits,
            "run_id": run_id,
        }
        return self._carried_out("/api/backtests", given, "backtest", progress)

    def score_forecasts(
        self,
        forecasts: object,
        world: "RemoteWorld",
        *,
        name: str | None = None,
        columns: Mapping[str, str] | None = None,
        timezone: str | None = None,
        percent: bool = False,
        dates: Literal["day-first", "month-first"] | None = None,
        training_cutoff: datetime | str | None = None,
        seed: int = 0,
        draws: int = 2000,
        placebo: int = 200,
        margin: float | None = None,
        spread: float | None = None,
        fees: Fees = None,
        kelly: float = 0.25,
        cap: float = 0.1,
        settle: Literal["known", "stated"] = "known",
        run_id: str | None = None,
    ) -> "RemoteRun":
        """`beforehand.score_forecasts` on the server: a verdict on a file (CSV, JSONL) or a table
        of probabilities."""
        if isinstance(forecasts, (str, Path)):
            path = Path(forecasts)
            content, media = read_bytes(path), "application/x-ndjson"
            if path.suffix == ".csv":
                media = "text/csv"
            name = name or path.stem
        else:
            rows = (orjson.dumps(row) for row in rows_of(forecasts))
            content, media = b"\n".join(rows), "application/x-ndjson"
        cutoff = None if training_cutoff is None else iso(instant("t", training_cutoff))
        given = {
            "archive": _need(world).name,
            "name": name,
            "columns": ",".join(f"{ours}={own}" for ours, own in (columns or {}).items()) or None,
            "timezone": timezone,
            "percent": percent or None,
            "dates": dates,
            "training_cutoff": cutoff,
            "seed": seed,
            "draws": draws,
            "placebo": placebo,
            "margin": margin,
            **_bets(stakes(spread, fees, kelly, cap, settle=settle)),
            "run_id": run_id,
        }
        params = {key: value for key, value in given.items() if value is not None}
        headers = {"Content-Type": media, "Idempotency-Key": secrets.token_hex(16)}
        found = self.request("POST", "/api/scores", params, content, headers)
        return RemoteRun(self, str(_object(found, "/api/scores").get("run_id")))

    def ask(
        self,
        question: str,
        world: "RemoteWorld",
        *,
        as_of: datetime | str | None = None,
        model: str | None = None,
        review: bool = False,
        run_id: str | None = None,
        progress: bool = True,
        **limits: Unpack[Limits],
    ) -> Answer:
        """`beforehand.ask` on the server: an answer with citations, as of an instant."""
        given = {
            "question": question,
            "archive": _need(world).name,
            "as_of": None if as_of is None else iso(instant("as_of", as_of)),
            "model": model,
            "review": review,
            "limits": limits,
            "run_id": run_id,
        }
        run = self._carried_out("/api/asks", given, "ask", progress)
        return answer_of(self.get(f"/api/runs/{run.id}")["answer"], run.id, run.path)

    def compare(
        self,
        a: Standing | Run,
        b: Standing | Run,
        *,
        draws: int = 2000,
        seed: int = 0,
        margin: float | None = None,
    ) -> Comparison:
        """`beforehand.compare`: also of a run here with one on the server."""
        return compare_runs(a, b, draws=draws, seed=seed, margin=margin)

    def toolbox(self, world: "RemoteWorld", t: datetime | str | None = None) -> "RemoteToolbox":
        """Every tool of the server as a method, as of an instant. It asks the archive that the
        server serves its tools from."""
        _need(world)
        return RemoteToolbox(self, None if t is None else iso(instant("t", t)))

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """The JSON of one resource. Raises BadAnswer for what is no JSON object."""
        return _object(self.request("GET", path, params), path)

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Every row of a list, page by page."""
        cursor: str | None = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            found = self.get(path, limit=1000, **params, **more)
            yield from found["items"]
            cursor = found["next"]
            if cursor is None:
                return

    def post(self, path: str, body: Mapping[str, Any], **params: Any) -> dict[str, Any]:
        """The JSON of an answer to what is sent. What starts a run has a key of its own, so that
        the same request sent again starts nothing."""
        headers = {**JSON, "Idempotency-Key": secrets.token_hex(16)}
        return _object(self.request("POST", path, params, orjson.dumps(body), headers), path)

    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The bytes of an answer. Raises the error that the server names."""
        found = self._connection.ask(method, path, params, content, headers)
        if found.status < 300:
            return found.body
        kind, said, wait = "", found.text[:500], None
        with suppress(orjson.JSONDecodeError, AttributeError):
            problem = orjson.loads(found.body)
            kind, said = str(problem.get("error", "")), str(problem.get("detail", said))
            wait = problem.get("retry_after")
        if not said or found.status < 400:
            raise BadAnswer(f"{self.url}{path} answered {found.status}: is it a beforehand server?")
        raised = error_named(kind)
        if found.status in (401, 403) and raised is BeforehandError:
            raised = error_named("unauthorized")
        if found.status in (429, 503) and not issubclass(raised, Unavailable):
            raised = Unavailable
        error = raised(said)
        if isinstance(error, Unavailable):
            error.retry_after = wait if isinstance(wait, (int, float)) else None
            error.status = found.status
        raise error

    def events(self, run_id: str, number: int = 0) -> Iterator[dict[str, Any]]:
        """Every event of a run after this number, in order, and each new one until the run has
        ended; also over a restart of the server."""
        tries = 0
        while tries < TRIES:
            try:
                for event in self._stream(run_id, number):
                    number, tries = event["number"], 0
                    yield event
                if self.get(f"/api/runs/{run_id}")["status"] in DONE:
                    return
            except Unavailable:
                tries += 1
                if tries == TRIES:
                    raise
                time.sleep(1.0)

    def _stream(self, run_id: str, number: int) -> Iterator[dict[str, Any]]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(number)}
        for line in self._connection.lines(f"/api/runs/{run_id}/events", headers):
            if line.startswith("data: "):
                yield orjson.loads(line[6:])

    def _carried_out(
        self, path: str, given: Mapping[str, Any], what: str, shown: bool
    ) -> "RemoteRun":
        """Start a run and wait for its end."""
        started = self.post(path, given)
        run = RemoteRun(self, str(started.get("run_id")))
        run.wait(what, shown)
        return run


class RemoteWorld:
    """An archive of a server."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name

    @lazy
    def _about(self) -> dict[str, Any]:
        return self._client.get(f"/api/archives/{quote(self.name, safe='')}")

    @property
    def digest(self) -> str:
        """The identity of what it holds."""
        return str(self._about["digest"])

    @property
    def counts(self) -> dict[str, int]:
        """How many records of each kind it holds."""
        return dict(self._about["counts"])

    @lazy
    def markets(self) -> list[str]:
        """The ids of all markets, sorted."""
        rows = self._client.pages(f"/api/archives/{self.name}/markets")
        return [row["id"] for row in rows if row["price"] is not None]

    def market(self, market_id: str, t: datetime | str | None = None) -> dict[str, Any]:
        """A market at t, as a forecaster could see it then."""
        at = {} if t is None else {"t": iso(instant("t", t))}
        name = quote(market_id, safe=":")
        found: dict[str, Any] = self._client.get(f"/api/archives/{self.name}/markets/{name}", **at)
        return found

    def __repr__(self) -> str:
        return f"RemoteWorld({self.name!r} at {self._client.url})"


class RemoteRun(Run):
    """A run on a server: its files are fetched when they are asked for, and checked against the
    digests of its seal. Everything else is as for a run of this machine."""

    def __init__(self, client: Client, run_id: str) -> None:
        try:
            check_segment(run_id)
        except InputError as error:
            raise BadAnswer(f"the server named a run that cannot be: {error}") from None
        root = Path(client._folder.name)
        folder = RunFolder(root / "data" / "runs", run_id)
        super().__init__(folder, Workspace(Home(root)))
        self._client, self._gone = client, set[str]()
        self._file("run.json")

    def _file(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file() and name not in self._gone:
            try:
                content = self._client.request("GET", f"/api/runs/{self.id}/files/{name}")
            except NotFound:
                self._gone.add(name)
            else:
                expected = self._folder.facts().get("files", {}).get(name)
                if expected is not None and digest(content) != expected:
                    raise Corrupt(
                        f"{name} is not what run {self.id} wrote: .verify() says what of the run "
                        "can be trusted"
                    )
                write_atomic(path, content)
        return path

    @property
    def status(self) -> str:
        """success, running, stopped, cancelled, failed, unfinished or damaged."""
        return str(self._client.get(f"/api/runs/{self.id}")["status"])

    @property
    def calls(self) -> Table:
        """One row per call on record: what was asked, answered and paid."""
        found = self._client.request("GET", f"/api/runs/{self.id}/calls", None, None, ARROW)
        return Table.from_ipc(found, "calls")

    @property
    def costs(self) -> Table:
        """One row per forecaster: its tokens, US dollars and mean latency in milliseconds."""
        found = self._client.request("GET", f"/api/runs/{self.id}/costs", None, None, ARROW)
        return Table.from_ipc(found, "costs")

    def verify(self) -> Verification:
        """The run checked again by the server, from its records alone."""
        found = self._client.get(f"/api/runs/{self.id}/verify")
        return Verification(self.id, [RunCheck(**check) for check in found["checks"]])

    def resume(
        self, *, fresh: bool = False, progress: bool = True, **limits: "Unpack[Limits]"
    ) -> "RemoteRun":
        """Continue a run that was stopped, killed, cancelled or failed; nothing is paid twice.
        `limits` replace those that it had."""
        number = max((event["number"] for event in self.log()), default=0)
        self._client.post(f"/api/runs/{self.id}/resume", {**limits, "fresh": fresh})
        self.wait("resume", progress, number)
        return self

    def cancel(self) -> str:
        """Ask the run to end; the status that it has then."""
        return str(self._client.post(f"/api/runs/{self.id}/cancel", {})["status"])

    def log(self) -> list[dict[str, Any]]:
        """The events of the run so far."""
        return list(self._client.pages(f"/api/runs/{self.id}/log"))

    def wait(self, what: str = "run", progress: bool = True, number: int = 0) -> None:
        """Wait for the run's end. Raises Stopped, or ExecutionFailed, where it did not reach it."""
        done, total = 0, 1
        with bar(f"{what} {self.id}", progress) as update:
            for event in self._client.events(self.id, number):
                total = int(event["detail"].get("total", total))
                done += event["what"] == "step ended"
                update(event["what"], min(done, total), max(total, 1))
        self._gone.clear()
        found = self._client.get(f"/api/runs/{self.id}")
        if found["status"] in ("stopped", "cancelled"):
            raise Stopped(
                f"run {self.id} was {found['status']}: {found['reason'] or ''}".rstrip(": ")
            )
        if found["status"] != "success":
            raise ExecutionFailed(f"run {self.id} {found['status']}: {found['reason']}")
        self._file("run.json")


class RemoteToolbox:
    """Every tool of a server as a method with keyword arguments: it returns the answer as a
    dict."""

    def __init__(self, client: Client, as_of: str | None) -> None:
        self._client, self._as_of = client, as_of
        rows = client.pages("/api/tools")
        self._tools = {row["name"].replace("-", "_"): row for row in rows}

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name.startswith("_") or name not in self._tools:
            raise AttributeError(f"no tool is named {name!r}: `dir(toolbox)` lists them")
        row = self._tools[name]

        def call(**arguments: object) -> dict[str, Any]:
            if self._as_of is not None and row["as_of"]:
                arguments.setdefault("as_of", self._as_of)
            return self._client.post(f"/api/tools/{row['name']}", arguments)

        call.__doc__ = row["summary"]
        return call

    def __dir__(self) -> list[str]:
        return sorted(self._tools)


def _object(content: bytes, path: str) -> dict[str, Any]:
    """A JSON object. Raises BadAnswer for anything else."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise BadAnswer(f"{path} was not answered with a JSON object: is it a beforehand server?")
    return found


def _bets(rules: Kelly) -> dict[str, object]:
    """The rules of the bets as a request states them."""
    fees = [f"{name}={rate:g}" for name, rate in rules.fees]
    return {
        "spread": rules.spread,
        "fee": fees,
        "kelly": rules.fraction,
        "cap": rules.cap,
        "settle": rules.settle,
    }


def _need(given: object) -> RemoteWorld:
    if not isinstance(given, RemoteWorld):
        raise InputError(f"{given!r} is not a world of the server: client.open_world() gives one")
    return given


def _names(given: Named | Sequence[Named]) -> list[str]:
    """Names of forecasters. Raises InputError for a callable, which the server does not have."""
    names = [given] if isinstance(given, str) or callable(given) else list(given)
    for one in names:
        if not isinstance(one, str):
            raise InputError(
                f"{one!r} is a callable of this machine, which the server cannot ask: serve it at "
                "an address (http://…), or run the backtest here"
            )
    return cast(list[str], names)


def _listed(markets: str | Sequence[str]) -> list[str]:
    return markets.split(",") if isinstance(markets, str) else list(markets)


def _interval(every: str | timedelta) -> str:
    """`6h` of a timedelta."""
    if isinstance(every, str):
        return every
    minutes = every.total_seconds() / 60
    return f"{int(minutes)}m" if minutes % 60 else f"{int(minutes / 60)}h"


def _options(models: ModelOptions | None) -> dict[str, Any]:
    if models is None:
        return {}
    found = dict(vars(models))
    return {**found, "cutoffs": {name: day.isoformat() for name, day in models.cutoffs.items()}}
