"""Models through one connection: names, keys, the traffic limits, the journal, bad answers, real exchanges."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from beforehand.config import Home, Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.driver import Outcome, drive
from beforehand.engine.plan import Step
from beforehand.errors import BadAnswer, InputError, Refused
from beforehand.forecast import prompts
from beforehand.forecast.base import CallCounter, class_of
from beforehand.forecast.prompts import Answer
from beforehand.forecast.schemes.model import Model
from beforehand.llm.ask import Models, usage
from beforehand.llm.names import CUTOFFS, parse_model
from beforehand.llm.prompt import Prompt
from beforehand.sources.base import Limit
from beforehand.store.journal.calls import Usage
from jobs import runtime, small
from modelserver import GOOD, Drip, completion, model_server, sensible

ASK = Prompt(prompts.DIRECT, '{"market": {"odds": 0.4, "description": "Rain?"}}', Answer)
CONTEXT = '{"market": {"odds": 0.4, "description": "Rain in Avaria?"}, "search_snippets": []}'


@pytest.fixture
def ask(home: Path) -> Iterator[Callable[..., Any]]:
    """Ask a model once, in a step of a run; returns what the run came to."""
    opened: list[Models] = []

    def go(name: str, prompt: Prompt = ASK, run_id: str = "r", **how: Any) -> tuple[Outcome, Any]:
        models = Models(
            [parse_model(name)],
            Workspace(Home(home), settings=os.environ),
            timeout=how.pop("timeout", 5.0),
            **how,
        )
        opened.append(models)
        said: list[Any] = []

        def action(_: Any, __: Any, context: StepContext) -> dict[str, Any]:
            said.append(models.ask(name, prompt, context))
            return {}

        with runtime(home, run_id) as made:
            outcome = drive(small({"a": action}, Step("a", "a", attempts=1), run_id=run_id), made)
        return outcome, said[0] if said else None

    yield go
    for models in opened:
        models.close()


def test_names() -> None:
    for name in ("scripted", "local", "openai:gpt-5", "anthropic:x", "m@http://h:1/v1"):
        assert class_of(name) is Model
        assert parse_model(name).id == name
    for name in ("market", "always:0.3", "http://h:1/p", "recorded:x"):
        assert class_of(name) is not Model
    for bad in (
        "openai:",
        "@http://h/v1",
        "m@http://",
        "m@http://u:p@h/v1",
        "m@http://h/v1?key=x",
        "m@http://h:99999/v1",
        "m@http://[",
        "openai:gpt-4o-search-preview",
        "openai:o3-deep-research",
    ):
        with pytest.raises(InputError):
            parse_model(bad)


def test_cutoffs() -> None:
    assert parse_model("openai:gpt-4o-mini").cutoff == datetime(2023, 10, 2, tzinfo=UTC)
    dated = parse_model("anthropic:claude-sonnet-4-5-20250929").cutoff
    assert dated == datetime(2025, 8, 1, tzinfo=UTC), "the longest name counts, and its whole day"
    for newer in ("openai:gpt-50", "anthropic:claude-opus-4-6", "openai:gpt-5.2", "openai:gpt-5-x"):
        assert parse_model(newer).cutoff is None, "a newer model does not inherit an older cutoff"
    assert parse_model("openai:gpt-4o-2024-08-06").cutoff == datetime(2023, 10, 2, tzinfo=UTC)
    assert parse_model("anthropic:claude-3-5-haiku-latest").cutoff is not None
    assert parse_model("scripted", {"scripted": date.max}).cutoff is not None
    assert parse_model("m@http://h/v1").cutoff is None
    stated = parse_model("m@http://h/v1", {"m@http://h/v1": date(2025, 1, 31)}).cutoff
    assert stated == datetime(2025, 2, 1, tzinfo=UTC)
    assert CUTOFFS["local"].year == 2024


def test_a_missing_key_says_what_works_without(
    home: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Any]
) -> None:
    for name, key in (("openai:gpt-5", "OPENAI_API_KEY"), ("anthropic:c", "ANTHROPIC_API_KEY")):
        monkeypatch.delenv(key, raising=False)
        outcome, _ = ask(name, run_id=key)
        assert outcome.status == "failed"
        assert key in outcome.reason
        assert "scripted and local" in outcome.reason


def test_scripted_says_the_same_every_time(home: Path) -> None:
    models = Models([parse_model("scripted")], Workspace(Home(home)))
    prompt = Prompt(prompts.CODE, CONTEXT, prompts.Written)
    meter = CallCounter()
    first, second = (models.ask("scripted", prompt, meter) for _ in range(2))
    assert first == second
    assert "import json" in first.code
    assert meter.usage == [Usage(0, 0.0)] * 2, "nothing is sent, nothing is paid"
    direct = models.ask("scripted", Prompt(prompts.DIRECT, CONTEXT, Answer), meter)
    assert direct.probability == 0.4
    found = models.ask("scripted", Prompt(prompts.QUERIES, CONTEXT, prompts.Queries), meter)
    assert found.queries == ["Rain Avaria", "Avaria"]
    models.close()


def test_an_answer_is_paid_once(home: Path, ask: Callable[..., Any]) -> None:
    with model_server() as server:
        for _ in range(3):
            outcome, said = ask(server.model())
            assert outcome.status == "success" or said is None
        assert len(server.log) == 1, "what the journal holds is not asked again"
        with runtime(home, "r") as made:
            (row,) = made.calls.rows("r")
        assert (row["tokens"], row["state"], row["provider"]) == (120, "done", server.model())
        assert row["duration_ms"] > 0 if "duration_ms" in row else True


def test_a_malformed_answer_is_asked_again_within_a_bound(ask: Callable[..., Any]) -> None:
    said = iter(['{"probability": 7}', "no JSON", json.dumps(GOOD)])
    with model_server(lambda body: completion(next(said))) as server:
        outcome, found = ask(server.model())
        assert outcome.status == "success"
        assert found.probability == 0.7
        assert len(server.log) == 3
        retold = json.dumps(server.log[1]["messages"])
        assert "probability" in retold, "it is told what was wrong"
    with model_server(lambda body: completion('{"probability": 7}')) as server:
        outcome, _ = ask(server.model(), run_id="never")
        assert outcome.status == "failed"
        assert len(server.log) == 3, "the first attempt and two repetitions"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("refusal", completion(None, refusal="I cannot help with that.")),
        ("filtered", completion(None, "content_filter")),
        ("truncated", completion('{"probability": 0.', "length")),
        ("empty", completion("")),
        ("no choices", {**completion("x"), "choices": []}),
        ("not JSON", b"<html>busy</html>"),
        ("half a body", b'{"id": "c-1", "choices": ['),
        ("another tool", completion(None, "tool_calls", tool_calls=[
            {"id": "t1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}
        ])),
        ("half a character", b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":'
         b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"\\ud800"}}],'
         b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'),
        ("bad request", 400),
    ],
)  # fmt: skip
def test_a_server_that_will_not_is_survived(
    name: str, answer: Any, ask: Callable[..., Any], home: Path
) -> None:
    with model_server(lambda body: answer) as server:
        outcome, said = ask(server.model(), run_id="x")
        assert outcome.status == "failed"
        assert said is None
        assert len(server.log) <= 3, "no endless repetition"
        before = len(server.log)
        ask(server.model(), run_id="x")
        assert len(server.log) == before, "a final answer is remembered: it is not paid for twice"


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_must_be_set_right_ends_the_run(status: int, ask: Callable[..., Any]) -> None:
    """Every question would fail alike: nothing is recorded as failed, and a resumed run asks."""
    with model_server(lambda body: status) as server:
        outcome, _ = ask(server.model())
        assert outcome.status == "failed"
        assert "correct this, then resume the run" in outcome.reason
        server.answer = sensible
        outcome, said = ask(server.model())
        assert outcome.status == "success", outcome.reason
        assert said.probability == 0.7


def test_what_may_pass_is_tried_again(ask: Callable[..., Any]) -> None:
    for number, bad in enumerate((500, 503, 429, (429, {"Retry-After": "0"}))):
        answers = iter([bad])
        with model_server(lambda body, a=answers: next(a, None) or sensible(body)) as server:
            outcome, said = ask(server.model(), run_id=f"r{number}")
            assert outcome.status == "success", outcome.reason
            assert said.probability == 0.7
            assert len(server.log) == 2


@pytest.mark.parametrize("slow", [3.0, Drip()], ids=["silent", "a byte at a time"])
def test_a_slow_server_runs_out_of_time(slow: Any, ask: Callable[..., Any]) -> None:
    with model_server(lambda body: slow) as server:
        outcome, _ = ask(server.model(), timeout=0.4)
        assert outcome.status == "stopped", "it may pass: the run can be resumed"
        assert "no answer within" in outcome.reason
        assert len(server.log) <= 3


def test_the_rate_limit_holds(ask: Callable[..., Any]) -> None:
    with model_server() as server:
        for number in range(3):
            ask(server.model(), run_id=f"r{number}", limits=(Limit(2, 600.0),))
            if number == 1:
                break
        assert len(server.log) == 2


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize(
    ("vendor", "name"),
    [
        ("openai", "test_openai_native_output"),
        ("openai", "test_openai_native_output_multiple"),
        ("openai", "test_openai_prompted_output"),
        ("openai", "test_openai_text_output_function"),
        ("openai", "test_openai_tool_output"),
        ("openai", "test_openai_web_search_tool"),
        ("openai", "test_valid_response"),
        ("openai", "test_invalid_response"),
        ("anthropic", "test_anthropic_model_thinking_part"),
        ("anthropic", "test_anthropic_prompted_output"),
        ("anthropic", "test_anthropic_tool_output"),
        ("anthropic", "test_anthropic_web_search_tool"),
        ("anthropic", "test_anthropic_code_execution_tool"),
        ("anthropic", "test_multiple_parallel_tool_calls"),
    ],
)
def test_recorded_exchanges_parse_through_the_same_path(
    vendor: str, name: str, data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor's real answers, served on loopback: parts and tokens as recorded."""
    tape = yaml.safe_load((data / "llm" / f"test_{vendor}" / f"{name}.yaml").read_text())
    answers = [entry["response"].get("parsed_body", {}) for entry in tape["interactions"]]
    chat = [a for a in answers if isinstance(a, dict) and ("choices" in a or "content" in a)]
    queue = iter(chat or answers)
    model = "openai:gpt-4o" if vendor == "openai" else "anthropic:claude-sonnet-4-5"
    with model_server(lambda body: next(queue, 400)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.port}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.port}")
        models, meter = (
            Models([parse_model(model)], Workspace(Home(home), settings=os.environ)),
            CallCounter(),
        )
        with suppress(BadAnswer, Refused):  # Calls of tools that are not ours, a body that is none.
            models.ask(model, Prompt("Answer.", "What?", None), meter)
        models.close()
    if name == "test_invalid_response":
        assert not meter.usage
        return
    recorded = chat[0]["usage"]
    expected = recorded.get("total_tokens") or recorded["input_tokens"] + recorded["output_tokens"]
    assert meter.usage[0].tokens == expected
    assert meter.usage[0].cost is not None
    assert meter.usage[0].cost > 0, "genai-prices knows the model"


def test_usage_of_nothing() -> None:
    with pytest.raises(ValueError):
        usage("no response")


def test_the_key_travels_and_is_nowhere_stored(
    home: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEFOREHAND_LLM_KEY", "s3cret-value")
    with model_server() as server:
        ask(server.model())
        assert server.headers[0]["Authorization"] == "Bearer s3cret-value"
    for path in home.rglob("*"):
        if path.is_file():
            assert b"s3cret-value" not in path.read_bytes(), path


def test_local_really_answers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gemma3-270m in this process: it obeys the schema, and is weak."""
    # Its threads wait for each other by counting: beside other tests, two take ten times as long.
    monkeypatch.setattr("beforehand.llm.ask.THREADS", 1)
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    models, meter = Models([parse_model("local")], Workspace(Home(home))), CallCounter()
    said = []
    for index in range(6):  # Now and then it writes until its tokens are used up.
        with suppress(BadAnswer):
            prompt = Prompt(prompts.DIRECT, CONTEXT, Answer, 200)
            said.append(models.ask("local", prompt, replace(meter, simulation=index)))
            break
    assert said
    assert 0.0 <= said[0].probability <= 1.0
    assert (meter.usage[0].tokens or 0) > 100
    models.close()


def test_the_local_model_answers_one_call_at_a_time(home: Path) -> None:
    """Who waits has sent nothing, and leaves when the run stops; the turn passes on."""
    spec = parse_model("local")
    models, stop, passed = Models([spec], Workspace(Home(home))), threading.Event(), list[bool]()
    turn = models.turn(spec)
    assert turn is not None
    turn(stop)

    def wait() -> None:
        turn(stop)
        passed.append(models._holds_turn())
        models.leave_turn()

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    stop.set()
    waiting.join(5)
    assert passed == [False]
    models.leave_turn()
    stop.clear()
    other = threading.Thread(target=wait)
    other.start()
    other.join(5)
    assert passed == [False, True]
    models.close()


@pytest.mark.parametrize(
    ("change", "tokens"),
    [
        ({}, (10, 5)),
        ({"object": None}, (10, 5)),
        ({"id": None}, (10, 5)),
        ({"created": None, "model": None}, (10, 5)),
        ({"usage": {"prompt_tokens": 10, "completion_tokens": 5}}, (10, 5)),
        ({"usage": {"prompt_tokens": 10}}, (0, 0)),
        ({"usage": None}, (0, 0)),
        ({"choices": [{"message": {"content": "0.42"}}]}, (10, 5)),
        ({"choices": [{"text": "0.42", "finish_reason": 7}]}, (10, 5)),
        ({"choices": [{"message": "0.42"}]}, (10, 5)),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "0.42"}]}}]}, (10, 5)),
        ({"choices": [{"message": {"content": "0.42", "audio": {}}, "logprobs": "no"}]}, (10, 5)),
        ({"choices": [{"message": {"content": "0.42", "annotations": [{"x": 1}]}}]}, (10, 5)),
        ({"id": 5, "created": 1.5, "system_fingerprint": 7, "service_tier": {}}, (10, 5)),
        ({"usage": {"prompt_tokens": 10.0, "completion_tokens": "5"}}, (10, 5)),
        (
            {"usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": "-"}},
            (10, 5),
        ),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": True}}, (0, 0)),
    ],
)
def test_an_answer_that_lacks_fields_is_read(
    change: dict[str, Any], tokens: tuple[int, int]
) -> None:
    """What is needed of a compatible server's answer is its text: the call was paid."""
    from openai.types.chat import ChatCompletion
    from pydantic_ai.providers.openai import OpenAIProvider

    from beforehand.llm.compatible import CompatibleModel

    whole = {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "0.42"}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }  # fmt: skip
    answered = {name: value for name, value in (whole | change).items() if value is not None}
    model = CompatibleModel("m", provider=OpenAIProvider(api_key="none"))
    found = model._process_response(ChatCompletion.construct(**answered))
    assert [part.content for part in found.parts if hasattr(part, "content")] == ["0.42"]
    assert (found.usage.input_tokens, found.usage.output_tokens) == tokens


@pytest.mark.parametrize("choices", [None, []])
def test_an_answer_without_a_choice_is_asked_again(choices: Any) -> None:
    from openai.types.chat import ChatCompletion
    from pydantic_ai.exceptions import UnexpectedModelBehavior
    from pydantic_ai.providers.openai import OpenAIProvider

    from beforehand.llm.compatible import CompatibleModel

    model = CompatibleModel("m", provider=OpenAIProvider(api_key="none"))
    with pytest.raises(UnexpectedModelBehavior, match="no choices"):
        model._process_response(ChatCompletion.construct(id="x", model="m", choices=choices))
