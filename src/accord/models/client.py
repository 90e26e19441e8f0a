"""One client for every wire: the official `openai` SDK, and what its failures mean to us."""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from urllib.parse import urlsplit

from accord.edges import (
    AccordError,
    BadInput,
    ModelError,
    NotSent,
    is_web_address,
    keep_secret,
    keep_url_secrets,
    one_line,
    plain_url,
    redacted_message,
)
from accord.models.http_safety import ENCODINGS, MOST_BYTES, receiver
from accord.models.model import CallFailed, Prompt, Reply, Usage
from accord.models.reply_parsing import (
    MALFORMED,
    a_list,
    a_whole,
    an_error_code,
    an_object,
    chat_reply,
    parsed,
    usage_of,
)
from accord.models.settings import NO_ADDRESS
from accord.models.streaming import EVENTS, Events, Pieces, Writing

if TYPE_CHECKING:
    from ssl import SSLContext

    from openai import AsyncOpenAI


TIMEOUT_SECONDS = 60.0
NOT_IMPLEMENTED, LONGEST_REASON = 501, 200
POOLED, POOLS = 16, 8
"""Requests under way per client, and the most clients: for each request the HTTP library asks the system about every
idle connection of its pool."""
KEY_VARIABLE = "OPENAI_API_KEY"
DEFAULT_URL = "https://api.openai.com/v1"
"""Where the SDK asks unless it is told otherwise."""


def open_client(
    model: str,
    base_url: str,
    api_key: str | None,
    timeout: float,
    most_bytes: int = MOST_BYTES,
    certificates: SSLContext | None = None,
) -> AsyncOpenAI:
    """A client of an OpenAI-compatible endpoint; nothing is sent yet.

    The key comes from `OPENAI_API_KEY` unless given. The SDK's own retries are off: `Retrying` does them, where they
    are counted. See `receiving` for what is refused of a reply. Reading the system's certificates takes tens of
    milliseconds: clients of one endpoint share them.

    Raises:
        NotSent: No key is given and `OPENAI_API_KEY` is not set.
    """
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

    try:
        http = DefaultAsyncHttpxClient(
            timeout=timeout,
            headers={"Accept-Encoding": ENCODINGS},
            event_hooks={"request": [_trace_sending], "response": [receiver(most_bytes)]},
            verify=True if certificates is None else certificates,
        )
        return AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0, http_client=http)
    except OpenAIError:
        raise NotSent(
            f"no API key for model {model!r}: set {KEY_VARIABLE} in the environment (to any text if the endpoint needs "
            "no key)"
        ) from None


@dataclass
class _Sending:
    """State of the request of a `failures` block; `is_sent` is True from its first byte on."""

    is_sent: bool = False


_SENDING: ContextVar[_Sending | None] = ContextVar("sending", default=None)


async def _trace_sending(request: Any) -> None:
    """Note when the HTTP library begins to write a request; before, it may fail to connect."""
    sending = _SENDING.get()
    if sending is None:
        return

    async def trace(event: str, _: object) -> None:
        if event.endswith(".send_request_headers.started"):
            sending.is_sent = True

    request.extensions = {**request.extensions, "trace": trace}


def _certificates() -> SSLContext:
    """What the HTTP library that the SDK is built on would read for each client."""
    from openai import DefaultAsyncHttpxClient

    built_on = next(kind.__module__ for kind in DefaultAsyncHttpxClient.__mro__ if kind.__module__[:6] != "openai")
    found: SSLContext = import_module(built_on.partition(".")[0]).create_ssl_context()
    return found


@dataclass(eq=False)
class _Pool:
    """A client with its connections, and how many requests it has under way."""

    client: AsyncOpenAI
    busy: int = 0


class Endpoint(ABC):
    """A model at an OpenAI-compatible endpoint; what is asked of it, and how, is up to the wire."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """See `open_client` for where the key comes from; it is needed once something is asked.

        The base URL comes from `OPENAI_BASE_URL` unless given. `timeout` seconds after it was sent a request is over,
        whatever arrived by then.

        Raises:
            BadInput: The base URL is no web address: nothing would ever answer.
        """
        keep_secret(api_key)
        url = (os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL) if base_url is None else base_url
        if not is_web_address(url):
            shown = one_line(re.split("[?#]", url.rpartition("@")[2])[0], 200) or "empty"
            if base_url is None:
                raise BadInput(f"OPENAI_BASE_URL is {shown}; it needs http:// or https:// in front")
            raise BadInput(f"the endpoint of {model!r} is {shown}: {NO_ADDRESS}")
        keep_url_secrets(url)
        self.name = model
        self.timeout = timeout
        self._options = (url, api_key, timeout, most_bytes)
        self._pools: list[_Pool] = []
        self.endpoint = plain_url(url).rstrip("/") + "/"

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The SDK's client, opened when something is first asked; see `open_client` for what is raised."""
        return self._opened()

    @cached_property
    def _certificates(self) -> SSLContext:
        return _certificates()

    def _opened(self) -> AsyncOpenAI:
        return open_client(self.name, *self._options, self._certificates)

    async def fetch(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON that the endpoint answers to a request under its address: a POST, or a GET without a body.

        Raises:
            CallFailed: This call failed: what `failures` lists.
            ModelError: No call can succeed: wrong key, no permission, no such model.
        """
        pool = self._free()  # the SDK takes a second to load, which is not the endpoint's
        pool.busy += 1
        try:
            with failures(self.endpoint, self.name):
                async with asyncio.timeout(self.timeout):
                    if body is None:
                        found = await pool.client.get(path, cast_to=bytes)
                    else:
                        found = await pool.client.post(path, body=dict(body), cast_to=bytes)
        finally:
            pool.busy -= 1
        return parsed(found)

    def _free(self) -> _Pool:
        """A client with room; another one is opened where all have as many requests under way as they should."""
        found = next((pool for pool in self._pools if pool.busy < POOLED), None)
        if found is None and len(self._pools) < POOLS:
            found = _Pool(self._opened() if self._pools else self.client)
            self._pools.append(found)
        return found or min(self._pools, key=lambda pool: pool.busy)

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
        for pool in self._pools[1:]:
            await pool.client.close()


@contextmanager
def failures(endpoint: str, model: str) -> Iterator[None]:
    """Turn the SDK's exceptions into ours; no message repeats a key, or a body but for the reason behind a 501.

    A failure has `is_sent=False` if the connection was never made.

    Raises:
        CallFailed: This call failed: `timeout`, `unreachable`, `rate-limited`, `server`, `too long`, `rejected`,
            `malformed`.
        ModelError: No call can succeed: wrong key, no permission, no such model, or the server does not do it at all,
            with the reason that it gives.
    """
    import openai

    sending = _Sending()
    token = _SENDING.set(sending)
    try:
        yield
    except (openai.APITimeoutError, TimeoutError):
        raise CallFailed("timeout", f"{endpoint} did not answer in time", is_sent=sending.is_sent) from None
    except openai.APIConnectionError as error:
        if isinstance(error.__cause__, AccordError):  # refused by `receiving`
            raise error.__cause__ from None
        happened = "lost the connection" if sending.is_sent else "cannot connect"
        detail = f"{happened} to {address_of(endpoint)} ({endpoint})"
        raise CallFailed("unreachable", detail, is_sent=sending.is_sent) from None
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        # The body of a 401 may repeat the key; only its status is shown.
        raise ModelError(f"{endpoint} refused the key for {model!r} (HTTP {error.status_code})") from None
    except openai.NotFoundError:
        raise ModelError(f"{endpoint} has no model {model!r}, or does not speak this wire (HTTP 404)") from None
    except openai.APIStatusError as error:
        if error.status_code == NOT_IMPLEMENTED:
            said = _reason_in(error.body)
            raise ModelError(f"{endpoint} cannot do what is asked of {model!r} (HTTP 501){said}") from None
        raise _status_failure(endpoint, error) from None
    except (
        openai.APIResponseValidationError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
        RecursionError,
    ):  # fmt: skip
        raise CallFailed(MALFORMED, f"{endpoint} answered something of another shape") from None
    finally:
        _SENDING.reset(token)


def address_of(url: str) -> str:
    """Host and port of a web address, without credentials."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason_in(body: object) -> str:
    """The reason that a server gives in an error's body, in a line without secrets; nothing where it gives none."""
    said = body.get("message") if isinstance(body, Mapping) else None
    return f": {one_line(redacted_message(said), LONGEST_REASON)}" if isinstance(said, str) and said.strip() else ""


def _status_failure(endpoint: str, error: Any) -> CallFailed:
    """What an HTTP status says: too much, broken over there, or a request that will never do."""
    status = error.status_code
    if status == 429:
        return CallFailed(
            "rate-limited", f"{endpoint} answered HTTP 429: too many requests", retry_after(error.response)
        )
    if status >= 500 or status in {408, 409}:
        return CallFailed("server", f"{endpoint} answered HTTP {status}", retry_after(error.response))
    code = an_error_code(getattr(error, "code", None))
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
    except (ValueError, TypeError, OverflowError):
        return None


class ChatCompletions(Endpoint):
    """A chat model; a call can also fail as `refused` or `filtered`."""

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Send one prompt; see `Endpoint.ask` for what is raised."""
        found = await self.fetch("/chat/completions", {"model": self.name, **chat_request_of(prompt)})
        return chat_reply(found, self.name, with_tokens=bool(prompt.top_logprobs))

    async def stream(self, prompt: Prompt, /) -> Pieces:
        """Send one prompt, and hear the reply as it is written; see `StreamingChat.stream`.

        `timeout` is for the whole of it. An endpoint that does not stream answers with all of it at once.
        """
        body: dict[str, Any] = {"model": self.name, **chat_request_of(prompt), "stream": True}
        body["stream_options"] = {"include_usage": True}  # what was thought and not said is billed too
        asked = self.client.chat.completions.with_streaming_response.create(
            **body, extra_headers={"Accept": EVENTS, "Accept-Encoding": "identity"}
        )
        events, writing = Events(self._options[3]), Writing(self.name)
        until = asyncio.get_running_loop().time() + self.timeout
        try:
            with failures(self.endpoint, self.name):
                async with asyncio.timeout_at(until):
                    response = await asked.__aenter__()
            if not response.headers.get("content-type", "").startswith(EVENTS):
                reply = chat_reply(parsed(await response.read()), self.name, with_tokens=False)
                yield reply.text
                yield reply
                return
            chunks = response.iter_bytes()
            while not events.has_ended and (chunk := await _next_of(chunks, until, writing, self.endpoint)) is not None:
                for event in events.of(chunk):
                    text = writing.take(event)
                    if text:
                        yield text
            yield writing.reply(events.has_ended)
        finally:
            await asked.__aexit__(None, None, None)


async def _next_of(chunks: AsyncIterator[bytes], until: float, writing: Writing, endpoint: str) -> bytes | None:
    """What comes next of a reply; `None` at its end.

    Raises:
        CallFailed: It does not come in time, or the connection breaks.
    """
    try:
        async with asyncio.timeout_at(until):
            return await anext(chunks, None)
    except TimeoutError:
        raise CallFailed("timeout", f"{endpoint} did not finish in time") from None
    except (AccordError, asyncio.CancelledError):
        raise
    except Exception:  # the HTTP library's own: it has no name here
        raise writing.broken() from None


class ChatRequest(TypedDict):
    """A prompt as the chat wire writes it, without the model's name."""

    messages: list[dict[str, str]]
    max_tokens: int
    temperature: float
    logprobs: NotRequired[bool]
    top_logprobs: NotRequired[int]
    response_format: NotRequired[dict[str, Any]]


def chat_request_of(prompt: Prompt) -> ChatRequest:
    """What is sent for a prompt."""
    request: ChatRequest = {
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
        body = {"model": self.name, "input": list(question.texts), "encoding_format": "float"}
        found = an_object(await self.fetch("/embeddings", body), "list of vectors")
        vectors: dict[int, tuple[float, ...]] = {}
        for row in a_list(found.get("data"), "list of vectors"):
            place = a_whole(an_object(row, "vector").get("index"), "place of a vector", len(question.texts))
            vectors[place] = _vector(row.get("embedding"))
        if len(vectors) < max(len(question.texts), len(found["data"])):
            raise CallFailed(MALFORMED, f"{self.endpoint} gave {len(vectors)} vectors of {len(question.texts)}")
        return Vectors(tuple(vectors[place] for place in range(len(question.texts))), usage_of(found.get("usage")))


def _vector(found: Any) -> tuple[float, ...]:
    numbers = a_list(found, "vector")
    if not numbers or any(isinstance(each, bool) or not isinstance(each, int | float) for each in numbers):
        raise CallFailed(MALFORMED, "a vector is a list of numbers")
    try:
        return tuple(map(float, numbers))
    except OverflowError:
        raise CallFailed(MALFORMED, "a vector's number is larger than any float") from None
