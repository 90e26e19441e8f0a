"""The chat wire: chat completions, with token probabilities or JSON by schema where they are asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accord.llm.model import CallFailed, Prompt, Reply, Usage
from accord.llm.wire import TIMEOUT_SECONDS, failures, open_client, plain_url

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice


class ChatCompletions:
    """A chat model behind an OpenAI-compatible endpoint."""

    def __init__(
        self, model: str, base_url: str | None = None, api_key: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """See `wire.open_client` for where the key and the base URL come from, and what is raised without a key."""
        self.name = model
        self._client = open_client(model, base_url, api_key, timeout)
        self.endpoint = plain_url(self._client.base_url)

    async def ask(self, prompt: Prompt) -> Reply:
        """Send one prompt.

        Raises:
            CallFailed: This call failed: what `wire.failures` lists, `refused`, or `filtered`.
            ModelError: No call can succeed: wrong key, no permission, no such model.
        """
        with failures(self.endpoint, self.name):
            completion = await self._client.chat.completions.create(**self._request(prompt))
            choice = _only_choice(completion)
            if choice.message.refusal:
                raise CallFailed("refused", choice.message.refusal)
            if choice.finish_reason == "content_filter":
                raise CallFailed("filtered", "the endpoint's content filter withheld the answer")
            return Reply(
                text=choice.message.content or "",
                model=completion.model or self.name,
                first_token=_first_token(choice) if prompt.top_logprobs else None,
                usage=_usage(completion),
            )

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            "max_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
        }
        if prompt.top_logprobs:
            request |= {"logprobs": True, "top_logprobs": prompt.top_logprobs}
        if prompt.schema is not None:
            shape = {"name": "answer", "schema": prompt.schema, "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
        return request

    async def close(self) -> None:
        """Close the connections; the event loop that asked has to be running still."""
        await self._client.close()


def _only_choice(completion: Any) -> Choice:
    """The completion's choice; endpoints that answer 200 with another body have none."""
    choices = getattr(completion, "choices", None)
    if not choices or choices[0].message is None:
        raise CallFailed("malformed", "the endpoint answered 200 without a choice")
    return choices[0]  # type: ignore[no-any-return]


def _first_token(choice: Choice) -> dict[str, float] | None:
    """Probabilities of the likeliest first tokens; equal texts (with and without a space) are kept apart."""
    content = choice.logprobs.content if choice.logprobs is not None else None
    if not content or not content[0].top_logprobs:
        return None
    return {top.token: math.exp(top.logprob) for top in content[0].top_logprobs}


def _usage(completion: ChatCompletion) -> Usage:
    usage = completion.usage
    return Usage() if usage is None else Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)
