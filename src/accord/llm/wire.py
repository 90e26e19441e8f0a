"""One client for every wire: the official `openai` SDK, and what its failures mean to us."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from accord.errors import ModelError
from accord.llm.model import CallFailed
from accord.urls import plain_url

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TIMEOUT_SECONDS = 60.0


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
        """See `open_client` for where the key and the base URL come from, and what is raised without a key."""
        self.name = model
        self.client = open_client(model, base_url, api_key, timeout)
        self.endpoint = plain_url(self.client.base_url)

    @abstractmethod
    async def ask(self, question: Any, /) -> Any:
        """Send one question.

        Raises:
            CallFailed: This call failed: what `failures` lists, or what the wire adds.
            ModelError: No call can succeed: wrong key, no permission, no such model.
        """

    async def close(self) -> None:
        """Close the connections; the event loop that asked has to be running still."""
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
