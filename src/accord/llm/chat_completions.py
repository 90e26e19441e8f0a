"""The chat wire: chat completions, with token probabilities or JSON by schema where they are asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accord.llm.model import CallFailed, Prompt, Reply, Usage
from accord.llm.wire import Endpoint, failures

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice


class ChatCompletions(Endpoint):
    """A chat model; a call can also fail as `refused` or `filtered`."""

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Send one prompt; see `Endpoint.ask` for what is raised."""
        with failures(self.endpoint, self.name):
            completion = await self.client.chat.completions.create(**{"model": self.name, **request_of(prompt)})
            return reply_from(completion, self.name, with_tokens=bool(prompt.top_logprobs))


def reply_from(completion: Any, model: str, with_tokens: bool = True) -> Reply:
    """What a completion says; `with_tokens` where its token probabilities were asked for.

    Raises:
        CallFailed: It is refused, filtered, or holds no choice.
    """
    choice = _only_choice(completion)
    if choice.message.refusal:
        raise CallFailed("refused", choice.message.refusal)
    if choice.finish_reason == "content_filter":
        raise CallFailed("filtered", "the endpoint's content filter withheld the answer")
    return Reply(
        text=choice.message.content or "",
        model=completion.model or model,
        first_token=_first_token(choice) if with_tokens else None,
        usage=_usage(completion),
    )


def request_of(prompt: Prompt) -> dict[str, Any]:
    """A prompt as the chat wire writes it, without the model's name."""
    request: dict[str, Any] = {
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
