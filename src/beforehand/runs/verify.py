"""Check a run again from its records alone: digests, manifests, the cutoff, the journal.

Nothing here trusts a total: each file is hashed against `run.json`, `run.json` against the journal,
each row against its own digest and the predicate, each forecast of an outside forecaster against
the answer that was paid for.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel

from beforehand.engine.plan import Step, files_of
from beforehand.errors import BeforehandError, InputError, NotConfigured
from beforehand.forecast.base import class_of, usage_of
from beforehand.forecast.code_mode import policy_of
from beforehand.forecast.prompts import Answer, code_in, from_output
from beforehand.forecast.schemes.http import parse
from beforehand.ids import digest
from beforehand.records.backtest import IntervalData
from beforehand.records.benchmark import EventSpec, PredictionRecord, ResolutionRecord
from beforehand.records.cutoff import visible
from beforehand.runs.interval_columns import IntervalColumns
from beforehand.runs.leaks import recheck_run
from beforehand.runs.rows import columns_at, has_intervals, read_intervals
from beforehand.runs.scouted import faults, is_scouted
from beforehand.runs.spent import providers
from beforehand.sandbox.engines import Sandbox
from beforehand.score.leaks.report import LeakReport, on_record
from beforehand.store.files import file_digest
from beforehand.store.journal.calls import CallRow, Calls, call_key
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import RunRow
from beforehand.store.run_folder import LOG, STEPS, RunFolder

UNFINISHED = "run"
MOST = 20
"""The most problems that are listed per check; all are counted."""
_FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
MOST_RERUN = 500
"""The most programs that one verification runs again."""
ARM_OF = {"daytona_agent": "code", "direct_llm": "direct"}


@dataclass
class RunCheck:
    """One check: what was checked, how many of it, and the problems."""

    name: str
    what: str
    n: int = 0
    wrong: int = 0
    problems: list[str] = field(default_factory=list)

    def found(self, problem: str) -> None:
        """Count a problem, and keep it if there is room."""
        self.wrong += 1
        if len(self.problems) < MOST:
            self.problems.append(problem)


def verify(folder: RunFolder, journal: Journal | None) -> list[RunCheck]:
    """Every check of one run; the run is sound if none has a problem."""
    row = None if journal is None else journal.run(folder.run_id)
    if row is not None and journal is not None and row.status != "success":
        said = f"it is not finished: `beforehand runs resume {folder.run_id}` continues it"
        unfinished = RunCheck(UNFINISHED, "that it is finished", 1, 1, [said])
        if row.status in ("running", "cancelling"):
            return [unfinished]
        intervals = folder.path / "intervals.jsonl"
        return [unfinished, _calls(row, journal.calls, intervals, _asked(folder))]
    checks = [_files(folder, None if row is None else row.seal, row is not None)]
    intervals = folder.path / "intervals.jsonl"
    columns = columns_at(intervals) if has_intervals(intervals) else None
    if has_intervals(intervals):
        checks.append(
            _intervals(folder, intervals) if columns is None else _columns(folder, columns)
        )
        checks.append(_cutoff(intervals, folder.path / "leaks.jsonl"))
    for name, model in (
        ("predictions", PredictionRecord),
        ("events", EventSpec),
        ("resolutions", ResolutionRecord),
    ):
        path = folder.path / f"{name}.jsonl"
        if path.is_file() or (name == "predictions" and _lines_kept(path)):
            checks.append(_records(path, model))
    if is_scouted(folder):
        n, wrong = faults(folder)
        check = RunCheck("evidence", "documents against their files and the instant, quotes", n)
        for problem in wrong:
            check.found(problem)
        checks.append(check)
    if journal is None:
        checks.append(
            RunCheck("journal", "there is none here, so run.json is not checked against it")
        )
    elif row is None and journal.database.postgres:
        checks.append(
            RunCheck(
                "journal",
                "this database does not know the run, so run.json is not checked against it "
                "(a run made without BEFOREHAND_DATABASE_URL is known to its home's own journal)",
            )
        )
    elif row is None:
        lost = (
            "the journal here has no such run (one made with BEFOREHAND_DATABASE_URL set is known "
            "to that database: set it, and verify again)"
        )
        checks.append(RunCheck("journal", "the run's row", 1, 1, [lost]))
    else:
        checks += [_tasks(folder, journal, row), *_bus(journal, row)]
        pure = columns is not None and not columns.asked
        asked = {} if pure else _asked(folder)  # Of a large run that is a large file.
        checks.append(_calls(row, journal.calls, intervals, asked))
        traces = folder.path / "traces.jsonl"
        if traces.is_file():
            checks.append(_models(row, journal.calls, traces, intervals, asked))
    return checks


def _files(folder: RunFolder, seal: Mapping[str, str] | None, known: bool) -> RunCheck:
    check = RunCheck("files", "files against run.json, run.json against the journal")
    facts = folder.facts()
    if facts["status"] in ("unfinished", "damaged"):
        check.found(f"run.json: the run is {facts['status']}")
        return check
    listed = facts.get("files")
    if not isinstance(listed, dict):
        check.found("run.json lists no files")
        return check
    there = {
        path.relative_to(folder.path).as_posix(): path
        for path in sorted(folder.path.rglob("*"))
        if path.is_file()
    }
    for name, expected in sorted(listed.items()):
        check.n += 1
        if name not in there:
            check.found(f"{name} is missing")
        elif file_digest(there[name]) != expected:
            check.found(f"{name} does not have the digest that run.json gives")
    if known and not seal:
        check.found("the journal holds no seal of this run")
    for name, expected in sorted((seal or {}).items()):
        check.n += 1
        if name not in there:
            check.found(f"{name} is missing")
        elif file_digest(there[name]) != expected:
            check.found(f"{name} does not have the digest that the journal gives")
    for name in sorted(there.keys() - listed.keys() - {"run.json", LOG}):
        check.found(f"{name} is not in run.json")
    return check


def _intervals(folder: RunFolder, path: Path) -> RunCheck:
    check = RunCheck("intervals", "rows against their schema and their own digest")

    def row(value: Mapping[str, Any]) -> None:
        IntervalData.model_validate(value)
        body = {k: v for k, v in value.items() if k not in ("run_id", "digest")}
        if digest(body) != value["digest"]:
            raise ValueError("the row does not have its digest")
        if value["run_id"] != folder.run_id:
            raise ValueError(f"the row is of run {value['run_id']}")

    _each(check, path, row)
    return check


def _columns(folder: RunFolder, columns: IntervalColumns) -> RunCheck:
    """What `_intervals` checks of rows: that each column has its length, that what one names in
    another is there, that probabilities are such, and the aggregates again."""
    check = RunCheck("intervals", "columns against each other, aggregates against forecasts")
    check.n = len(columns)
    if columns.run_id != folder.run_id:
        check.found(f"the columns are of run {columns.run_id}")
    try:
        for problem in columns.problems():
            check.found(problem)
    except InputError as error:
        check.found(str(error))
    return check


def _cutoff(path: Path, stored: Path) -> RunCheck:
    check = RunCheck("cutoff", "timestamps against their instant, once more")
    report = LeakReport()
    try:
        also = on_record(_lines(stored)) if stored.is_file() else None
        found = recheck_run(report, columns_at(path) or read_intervals(path), also=also)
        kept = [{**row, "canaries": []} for row in _lines(stored)] if stored.is_file() else found
        if kept != found:
            check.found("leaks.jsonl is not what the rows give")
    except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
        check.found(f"a row cannot be read: {error}")
    check.n = report.rechecked
    for problem in report.found:
        check.found(problem)
    return check


def _records(path: Path, model: type[BaseModel]) -> RunCheck:
    check = RunCheck(path.stem, "records against their schema, evidence against the cutoff")

    def row(value: Mapping[str, Any]) -> None:
        record = model.model_validate(value)
        if not isinstance(record, PredictionRecord) or record.metadata is None:
            return
        for item in record.prediction.rationale or ():
            if item.timestamp is None or not visible(item.timestamp, record.metadata.timestamp):
                raise ValueError(f"evidence {item.source!r} is not dated before the forecast")

    _each(check, path, row)
    return check


def _tasks(folder: RunFolder, journal: Journal, row: RunRow) -> RunCheck:
    check = RunCheck("journal", "steps of the plan against worker_runs and task_outputs")
    run_id = folder.run_id
    if not row.total:  # A scored file has no plan.
        return check
    outputs: dict[str, str] = {}
    inputs: dict[str, str] = {}
    for task, data, metadata in journal.outputs(run_id):
        try:
            facts = orjson.loads(metadata)
            outputs[task], inputs[task] = digest(data.encode()), facts["inputs"]
            if outputs[task] != facts["digest"]:
                check.found(f"the output of {task} does not have its digest")
            for name in folder.differing(files_of(orjson.loads(data))):
                check.found(f"{name} is not what {task} wrote")
        except (KeyError, TypeError, ValueError) as error:
            check.found(f"the metadata of {task} cannot be read: {error!r}")
    ended = {task.task_id: task.status for task in journal.tasks(run_id)}
    done = {name for name, status in ended.items() if status == "success"}
    name = STEPS if folder.wrote(STEPS) else "plan.json"
    try:
        plan = orjson.loads((folder.path / name).read_bytes())
        steps = [_step(one) for one in plan["steps"]]
    except (OSError, KeyError, TypeError, ValueError) as error:
        check.found(f"{name} cannot be read: {error!r}")
        return check
    may_fail = {dep for step in steps if step.tolerant for dep in step.deps}
    for step in steps:
        check.n += 1
        if step.id in may_fail and ended.get(step.id) == "failed":
            continue  # It is on record as failed, and what follows goes on without it.
        if step.id not in done or step.id not in outputs:
            check.found(f"step {step.id} has no success on record")
            continue
        whole = step.tolerant or all(dep in outputs for dep in step.deps)
        if whole and step.inputs(outputs) != inputs[step.id]:
            check.found(f"step {step.id} was not given the inputs that the plan states")
    return check


def _step(found: Any) -> Step:
    """A step as a plan's file has it. Raises KeyError, TypeError or ValueError for what is none."""
    deps, args = found["deps"], found["args"]
    if not isinstance(args, dict) or not isinstance(deps, list):
        raise ValueError("a step's args are an object, and its deps a list")
    if not all(isinstance(text, str) for text in (found["id"], found["action"], *deps)):
        raise ValueError("a step's id, action and deps are text")
    return Step(
        found["id"], found["action"], args, tuple(deps), tolerant=bool(found.get("tolerant"))
    )


def _bus(journal: Journal, row: RunRow) -> list[RunCheck]:
    """What agents wrote to the file bus, against what their steps say they wrote."""
    check = RunCheck("bus", "outputs of agents against the digests that their steps gave")
    for task, data, _ in journal.outputs(row.run_id):
        said = orjson.loads(data)
        if not isinstance(said, dict) or "output_file_path" not in said:
            continue
        check.n += 1
        path = Path(row.home) / said["output_file_path"]
        if not path.is_file():
            check.found(f"{path}, which {task} wrote, is missing")
        elif digest(path.read_bytes()) != said.get("digest"):
            check.found(f"{path} is not what {task} wrote")
    return [check] if check.n else []


def _calls(run: RunRow, calls: Calls, intervals: Path, asked: Mapping[str, str]) -> RunCheck:
    """Every answer against its digest, and its cost against what it says; the totals; every
    forecast from an address against its answer."""
    check = RunCheck("calls", "answers against their digest, costs and forecasts against answers")
    rows = {row["call_key"]: row for row in calls.rows(run.run_id)}
    for key, row in rows.items():
        check.n += 1
        if row["state"] != "done":
            continue
        if digest(row["answer"].encode()) != row["answer_digest"]:
            check.found(f"the answer to call {key[:12]} does not have its digest")
        elif not _as_answered(row):
            check.found(f"the tokens or the cost of call {key[:12]} are not what the answer says")
    own = [row for row in rows.values() if row["origin"] is None and row["state"] == "done"]
    tokens, cost = sum(r["tokens"] or 0 for r in own), sum(r["cost"] or 0.0 for r in own)
    if tokens != run.tokens or not math.isclose(cost, run.cost, abs_tol=1e-9):
        check.found(f"the run's totals ({run.tokens} tokens, ${run.cost:g}) are not its calls'")
    if intervals.is_file() or _lines_kept(intervals):
        _each(check, intervals, lambda row: _said_so(check, row, rows, asked))
    return check


def _as_answered(row: Mapping[str, Any]) -> bool:
    """Whether the tokens and the cost of a call are what its answer says, as far as it says
    something. (A model's answer states no cost: it was computed from the prices of that day. Where
    another states none, the call counts as what one was expected to cost, or as what a forecaster's
    own `measure` read from it.)"""
    found = usage_of(row["provider"], row["answer"])
    priced = class_of(row["provider"])
    states_cost = found.cost is not None and (priced is None or priced.kind != "model")
    tokens = found.tokens is None or found.tokens == row["tokens"]
    return tokens and (not states_cost or found.cost == row["cost"])


def _models(
    run: RunRow, calls: Calls, traces: Path, intervals: Path, asked: Mapping[str, str]
) -> RunCheck:
    """Every trace of a model against what it answered, every decision against its trace."""
    check = RunCheck("models", "traces against answers, decisions against traces")
    answered = Answered(calls.rows(run.run_id), asked)
    _each(check, traces, answered.check)
    rerun = Rerun()
    kept = keyed(row for row in _lines(traces) if isinstance(row, dict))

    def row(value: Mapping[str, Any]) -> None:
        check.n -= 1  # Decisions are counted, not rows.
        for decision in value["decisions"]:
            if decision.get("mode") in ARM_OF:
                check.n += 1
                check_decision(value, decision, kept, rerun)

    try:
        _each(check, intervals, row)
    finally:
        rerun.close()
    check.what += f"; {rerun.ran:,} programs run again"
    return check


def _said_so(
    check: RunCheck,
    row: Mapping[str, Any],
    rows: Mapping[str, CallRow],
    asked: Mapping[str, str],
) -> None:
    """Compare one interval's forecasts from addresses with what was answered."""
    check.n -= 1  # Forecasts are counted, not rows.
    for decision in row["decisions"]:
        if decision.get("mode") != "external":
            continue
        check.n += 1
        model, index = decision["model_id"], decision["simulation_index"]
        found = rows.get(call_key(asked.get(model, model), row["context"], index))
        where = f"{row['market_id']} at {row['time']}: {model}, simulation {index}"
        if found is None or found["state"] != "done":
            raise ValueError(f"{where}: no answered call is on record")
        said = parse(model, found["answer"]).probability
        if said != decision["probability"]:
            raise ValueError(f"{where}: {decision['probability']} stored, {said} answered")


def _each(check: RunCheck, path: Path, test: Callable[[Mapping[str, Any]], None]) -> None:
    try:
        for number, value in enumerate(_lines(path), start=1):
            check.n += 1
            try:
                if not isinstance(value, dict):
                    raise ValueError("the line is not a JSON object")
                test(value)
            except (BeforehandError, AttributeError, KeyError, TypeError, ValueError) as error:
                text = str(error).splitlines()[0] if str(error) else repr(error)
                check.found(f"{path.name}:{number}: {text}")
    except InputError as error:  # Columns that are damaged.
        check.found(str(error))


def _lines_kept(path: Path) -> bool:
    """True for a run that keeps columns, and lines of those who were asked."""
    try:
        columns = columns_at(path)
    except InputError:  # `_columns` names it.
        return False
    return columns is not None and columns.asked


def _lines(path: Path) -> Iterator[Any]:
    """Each line as JSON; None for a line that is not JSON."""
    if (columns := columns_at(path)) is not None:
        rows = columns.predictions() if path.stem == "predictions" else columns.rows()
        yield from map(msgspec.to_builtins, rows)
        return
    with path.open("rb") as lines:
        for line in lines:
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                yield None


def _asked(folder: RunFolder) -> dict[str, str]:
    """The providers on record, by the forecasters' names; empty if they cannot be read."""
    try:
        return providers(folder)
    except (BeforehandError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def verdict(checks: Sequence[RunCheck]) -> str:
    """sound, NOT sound, or not finished yet."""
    wrong = {check.name for check in checks if check.wrong}
    if wrong == {UNFINISHED}:
        return "not finished yet; its calls are sound"
    return "NOT sound" if wrong else "sound"


def sound(checks: Iterable[RunCheck]) -> bool:
    """True if no check found a problem."""
    return not any(check.wrong for check in checks)


class Answered:
    """The answers of a run's models on record, by the keys of their calls in the journal."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], asked: Mapping[str, str]) -> None:
        """`asked` gives the providers on record, by name."""
        self._rows = {row["call_key"]: row for row in rows if row["state"] == "done"}
        self._asked = asked

    def check(self, trace: Mapping[str, Any]) -> None:
        """Raises ValueError if the trace holds anything that is not in the answers it names."""
        where = f"{trace['market_id']} at {trace.get('time')}: {trace['model_id']}"
        provider = self._asked.get(trace["model_id"], trace["model_id"])
        texts = [
            unfenced(text)
            for key in trace["calls"]
            if (row := self._rows.get(key)) and row["provider"] == provider
            for text in _texts(row["answer"])
        ]
        if "code" in trace and trace["code"] not in map(_code, texts):
            raise ValueError(f"{where}: no answer on record holds this code")
        answer = trace.get("answer")
        if answer is not None and _plain(answer) not in map(_answer, texts):
            raise ValueError(f"{where}: no answer on record says this")


class Rerun:
    """Runs the code of traces once more, in the jail: same context, clock and seed."""

    def __init__(self) -> None:
        self._sandbox = Sandbox("jail")
        self.ran = 0

    def check(self, trace: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Raises ValueError if the code now prints something else than is stored. Without a jail,
        and after MOST_RERUN programs, nothing is checked."""
        if self.ran >= MOST_RERUN or trace["engine"] == "daytona":
            return
        policy = policy_of(context, trace["simulation_index"])
        try:
            done = self._sandbox.run(trace["code"], dict(context), policy)
        except NotConfigured:
            return
        self.ran += 1
        if done.output != trace["output"]:
            raise ValueError(
                f"{trace['market_id']} at {trace['time']}: {trace['model_id']}: its code prints "
                "something else than is stored"
            )

    def close(self) -> None:
        """End the jail."""
        self._sandbox.close()


def check_decision(
    row: Mapping[str, Any],
    decision: Mapping[str, Any],
    traces: Mapping[Any, Mapping[str, Any]],
    rerun: Rerun,
) -> None:
    """Raises ValueError if a model's decision is not the one in its trace."""
    arm = ARM_OF[decision["mode"]]
    key = (row["market_id"], row["time"], decision["model_id"], decision["simulation_index"], arm)
    where = f"{row['market_id']} at {row['time']}: {decision['model_id']}"
    trace = traces.get(key)
    if trace is None:
        raise ValueError(f"{where}: no trace of its {arm} arm")
    if arm == "code":
        said = from_output(trace["output"], trace.get("result")).probability
        rerun.check(trace, row["context"])
    else:
        said = trace["answer"]["probability"]
    if said != decision["probability"]:
        raise ValueError(f"{where}: {decision['probability']} stored, {said} in its trace")


def keyed(traces: Iterable[Mapping[str, Any]]) -> dict[Any, Mapping[str, Any]]:
    """Traces of arms by market, time, model, simulation and arm."""
    return {
        (t["market_id"], t["time"], t["model_id"], t["simulation_index"], t["arm"]): t
        for t in traces
        if "simulation_index" in t
    }


def _texts(answer: str) -> Iterable[str]:
    """The texts, and the arguments of tool calls, of a stored response."""
    for message in orjson.loads(answer):
        for part in message.get("parts", ()):
            if part.get("part_kind") == "text":
                yield part["content"]
            elif part.get("part_kind") == "tool-call":
                args = part.get("args")
                yield args if isinstance(args, str) else orjson.dumps(args).decode()


def unfenced(text: str) -> str:
    """A text without the fence that some models put around JSON."""
    found = _FENCE.fullmatch(text.strip())
    return found.group(1) if found else text


def _code(text: str) -> str | None:
    try:
        return code_in(str(orjson.loads(text)["code"]))
    except (ValueError, KeyError, TypeError):
        return None


def _answer(text: str) -> bytes | None:
    try:
        return _plain(Answer.model_validate(orjson.loads(text)).model_dump(mode="json"))
    except ValueError:
        return None


def _plain(answer: Mapping[str, Any]) -> bytes:
    return orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)
