"""The vendors' clients as pydantic-ai models. No client retries by itself: the traffic does."""

from pydantic_ai.models import Model

from beforehand.config import Workspace
from beforehand.llm.local import address
from beforehand.llm.names import LOCAL, SCRIPTED, ModelSpec, need_key

NO_KEY = "none"


def open_vendor(spec: ModelSpec, timeout: float, workspace: Workspace) -> Model:
    """The model behind a name. Raises NotConfigured where a key or an extra is missing."""
    if spec.vendor == SCRIPTED:
        from beforehand.llm.scripted import scripted_model

        return scripted_model()
    key = need_key(spec, workspace.settings)
    if spec.vendor == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        caller = AsyncAnthropic(api_key=key, max_retries=0, timeout=timeout)
        return AnthropicModel(spec.name, provider=AnthropicProvider(anthropic_client=caller))
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(
        api_key=key or NO_KEY,
        base_url=f"{address(workspace.home)}/v1" if spec.vendor == LOCAL else spec.base or None,
        max_retries=0,
        timeout=timeout,
    )
    return OpenAIChatModel(spec.name, provider=OpenAIProvider(openai_client=client))
