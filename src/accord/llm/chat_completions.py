"""The wire: chat completions through the official `openai` SDK, at any OpenAI-compatible base URL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accord.errors import ModelError
from accord.llm.model import CallFailed, Prompt, Reply, Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice

TIMEOUT_SECONDS = 60.0


class ChatCompletions:
    """A chat model behind an OpenAI-compatible endpoint.

    The key and the base URL come from `OPENAI_API_KEY` and `OPENAI_BASE_URL` unless given. The SDK retries
    connection failures, 408, 409, 429 and 5xx, and honours Retry-After.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = 2,
    ) -> None:
        """Prepare a client; nothing is sent before the first prompt.

        Raises:
            ModelError: No key is given and `OPENAI_API_KEY` is not set.
        """
        from openai import AsyncOpenAI, OpenAIError

        self.name = model
        try:
            self._client = AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=max_retries)
        except OpenAIError:
            raise ModelError(
                f"no key for {model!r}: set OPENAI_API_KEY (any text where the endpoint needs none)"
            ) from None

    @property
    def endpoint(self) -> str:
        """The base URL that requests go to."""
        return str(self._client.base_url)

    async def close(self) -> None:
        """Close the connections; the event loop that asked has to be running still."""
        await self._client.close()

    async def ask(self, prompt: Prompt) -> Reply:
        """Send one prompt.

        Raises:
            CallFailed: This call failed (`timeout`, `unreachable`, `rate-limited`, `server`, `rejected`, `refused`,
                `filtered`, `malformed`).
            ModelError: No call can succeed: wrong key, no permission, no such model.
        """
        completion = await self._send(prompt)
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

    async def _send(self, prompt: Prompt) -> ChatCompletion:
        import openai

        extra: dict[str, Any] = {"logprobs": True, "top_logprobs": prompt.top_logprobs} if prompt.top_logprobs else {}
        try:
            return await self._client.chat.completions.create(
                model=self.name,
                messages=[{"role": message.role, "content": message.content} for message in prompt.messages],  # type: ignore[misc]
                max_tokens=prompt.max_tokens,
                temperature=prompt.temperature,
                **extra,
            )
        except openai.APITimeoutError:
            raise CallFailed("timeout", f"{self.endpoint} did not answer in time") from None
        except openai.APIConnectionError:
            raise CallFailed("unreachable", f"no connection to {self.endpoint}") from None
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            # The body of a 401 may repeat the key; only its status is shown.
            raise ModelError(f"{self.endpoint} refused the key for {self.name!r} (HTTP {error.status_code})") from None
        except openai.NotFoundError:
            raise ModelError(f"{self.endpoint} has no model {self.name!r} (HTTP 404)") from None
        except openai.RateLimitError:
            raise CallFailed("rate-limited", f"{self.endpoint} still answers 429 after retries") from None
        except openai.APIStatusError as error:
            reason = "server" if error.status_code >= 500 else "rejected"
            raise CallFailed(reason, f"{self.endpoint} answered HTTP {error.status_code}") from None
        except (openai.APIResponseValidationError, ValueError, TypeError):
            raise CallFailed("malformed", f"{self.endpoint} answered something that is no chat completion") from None


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
