"""One client for every wire: the official `openai` SDK, and what its failures mean to us."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from accord.models.model import CallFailed, Prompt, Reply, Usage
from accord.values import ModelError, plain_url

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice


TIMEOUT_SECONDS = 60.0
DEFAULT_URL = "https://api.openai.com/v1"
"""Where the SDK asks unless it is told otherwise."""


def open_client(model: str, base_url: str | None, api_key: str | None, timeout: float) -> AsyncOpenAI:
    """A client of an OpenAI-compatible endpoint; nothing is sent yet.

    The key and the base URL come from `OPENAI_API_KEY` and `OPENAI_BASE_URL` unless given. The SDK's own retries are
    off: `Retrying` does them, where they are counted.

    Raises:
        ModelError: No key is given and `OPENAI_API_KEY` is not set.
    """
    from openai import AsyncOpenAI, OpenAIError

    try:
        return AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0)
    except OpenAIError:
        raise ModelError(f"no key for {model!r}: set OPENAI_API_KEY (any text where the endpoint needs none)") from None


class Endpoint(ABC):
    """A model at an OpenAI-compatible endpoint; what is asked of it, and how, is up to the wire."""

    def __init__(
        self, model: str, base_url: str | None = None, api_key: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """See `open_client` for where the key and the base URL come from; a key is needed once something is asked."""
        self.name = model
        self._options = (base_url, api_key, timeout)
        self.endpoint = plain_url(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL).rstrip("/") + "/"

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The SDK's client, opened when something is first asked; see `open_client` for what is raised."""
        base_url, api_key, timeout = self._options
        return open_client(self.name, base_url, api_key, timeout)

    @abstractmethod
    async def ask(self, question: Any, /) -> Any:
        """Send one question.

        Raises:
            CallFailed: This call failed: what `failures` lists, or what the wire adds.
            ModelError: No call can succeed: wrong key, no permission, no such model.
        """

    async def close(self) -> None:
        """Close the connections; the event loop that asked has to be running still."""
        if "client" in vars(self):
            await self.client.close()


@contextmanager
def failures(endpoint: str, model: str) -> Iterator[None]:
    """Turn the SDK's exceptions into ours; no message repeats a key or a body.

    Raises:
        CallFailed: This call failed: `timeout`, `unreachable`, `rate-limited`, `server`, `too long`, `rejected`,
            `malformed`.
        ModelError: No call can succeed: wrong key, no permission, no such model.
    """
    import openai

    try:
        yield
    except openai.APITimeoutError:
        raise CallFailed("timeout", f"{endpoint} did not answer in time") from None
    except openai.APIConnectionError:
        raise CallFailed("unreachable", f"no connection to {endpoint}") from None
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        # The body of a 401 may repeat the key; only its status is shown.
        raise ModelError(f"{endpoint} refused the key for {model!r} (HTTP {error.status_code})") from None
    except openai.NotFoundError:
        raise ModelError(f"{endpoint} has no model {model!r}, or does not speak this wire (HTTP 404)") from None
    except openai.APIStatusError as error:
        raise _status_failure(endpoint, error) from None
    except (openai.APIResponseValidationError, ValueError, TypeError, AttributeError, LookupError):
        raise CallFailed("malformed", f"{endpoint} answered something of another shape") from None


def _status_failure(endpoint: str, error: Any) -> CallFailed:
    """What an HTTP status says: too much, broken over there, or a request that will never do."""
    status = error.status_code
    if status == 429:
        return CallFailed(
            "rate-limited", f"{endpoint} answered HTTP 429: too many requests", retry_after(error.response)
        )
    if status >= 500 or status in {408, 409}:
        return CallFailed("server", f"{endpoint} answered HTTP {status}", retry_after(error.response))
    code = str(getattr(error, "code", "") or "")
    reason = "too long" if status == 413 or "context_length" in code else "rejected"
    return CallFailed(reason, f"{endpoint} answered HTTP {status}" + (f" ({code})" if code else ""))


def retry_after(response: Any) -> float | None:
    """Seconds that a Retry-After header asks for; a date counts from now, and no wait is negative."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


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


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts whose vectors are wanted together."""

    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of them, to estimate what they cost."""
        return "\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class Vectors:
    """A vector per text, in the order of the texts."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


class EmbeddingsEndpoint(Endpoint):
    """An embeddings model at an OpenAI-compatible endpoint."""

    async def ask(self, question: Texts, /) -> Vectors:
        """Send some texts.

        Raises:
            CallFailed: The call failed; `malformed` where there are not as many vectors as texts.
            ModelError: No call can succeed.
        """
        with failures(self.endpoint, self.name):
            found = await self.client.embeddings.create(
                model=self.name, input=list(question.texts), encoding_format="float"
            )
            ordered = sorted(found.data, key=lambda each: each.index)
            if len(ordered) != len(question.texts) or not all(each.embedding for each in ordered):
                raise CallFailed("malformed", f"{self.endpoint} gave {len(ordered)} vectors of {len(question.texts)}")
            used = Usage(found.usage.prompt_tokens, 0) if found.usage else Usage()
            return Vectors(tuple(tuple(map(float, each.embedding)) for each in ordered), used)
