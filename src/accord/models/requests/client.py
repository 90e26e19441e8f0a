"""Client of OpenAI-compatible endpoints over HTTP, with the errors of the HTTP library converted to Accord's."""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from accord.edges import (
    AccordError,
    BadInput,
    ModelError,
    NotSent,
    check_address,
    is_web_address,
    one_line,
    redact_message,
    register_secret,
    register_url_secrets,
    strip_url_secrets,
)
from accord.models.model import DEFAULT_URL, NO_ADDRESS, URL_VARIABLE, CallFailed, Prompt, Reply
from accord.models.requests.reply_parsing import MALFORMED, TOO_LARGE, error_code, parse_json, read_chat_reply, shorten
from accord.models.requests.streaming import EVENTS, ReplyStream, StreamedReply
from accord.version import __version__

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import AsyncClient, Response


TIMEOUT_SECONDS = 60.0
NOT_IMPLEMENTED, LONGEST_REASON = 501, 200
MOST_BYTES = 16_000_000
"""Maximum bytes of one unpacked reply, a thousand times a long answer with token probabilities."""
ENCODINGS = "gzip"
"""Encodings that the client accepts."""
POOLED, POOLS = 16, 8
"""Requests in progress per client, and maximum number of clients. Several small pools are faster than one: for each
request the HTTP library checks every idle connection of its pool."""
KEPT_ALIVE = 100
"""Maximum idle connections of a client."""
KEY_VARIABLE = "OPENAI_API_KEY"
ACCOUNT_HEADERS = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
"""Environment variables of an account that is billed, and their headers."""


class NotFound(ModelError):
    """The endpoint answered HTTP 404: no such model, route, batch or file."""


def check_endpoint(base_url: str, api_key: str | None = None) -> None:
    """Check that the user has confirmed an endpoint and its key, if a project names the endpoint or the key.

    Raises:
        NotSent: The endpoint or the key is not confirmed.
    """
    check_address(base_url, [*([KEY_VARIABLE] if api_key is None else []), *ACCOUNT_HEADERS])


def open_client(
    model: str,
    base_url: str,
    api_key: str | None,
    timeout: float,
    most_bytes: int = MOST_BYTES,
    certificates: SSLContext | None = None,
) -> AsyncClient:
    """Open a client of an OpenAI-compatible endpoint, without sending a request.

    The key comes from `OPENAI_API_KEY` unless given. `Retrying` repeats requests, so the client never does.
    Replies are checked by `receiver`. Reading the system's certificates takes tens of milliseconds, so
    clients of one endpoint share them.

    Raises:
        NotSent: No key is given and `OPENAI_API_KEY` is not set, the key cannot be sent in a header, or a project names
            the address or has the key in its `.env`, and the user has not confirmed it.
    """
    check_endpoint(base_url, api_key)
    import httpx2

    key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
    if key is None:
        raise NotSent(
            f"no API key for model {model!r}: set {KEY_VARIABLE} in the environment (to any text if the endpoint needs "
            "no key)"
        )
    register_secret(key)
    if not (key.isascii() and key.isprintable()):
        raise NotSent(f"the API key for model {model!r} has characters that no header allows; copy it again")
    headers = {name: os.environ[variable] for variable, name in ACCOUNT_HEADERS.items() if os.environ.get(variable)}
    return httpx2.AsyncClient(
        base_url=base_url,
        timeout=timeout,
        headers={
            "Accept": "application/json",
            "Accept-Encoding": ENCODINGS,
            "User-Agent": f"accord/{__version__}",
            **({"Authorization": f"Bearer {key}"} if key else {}),
            **headers,
        },
        event_hooks={"request": [_trace_sending], "response": [receiver(most_bytes)]},
        follow_redirects=True,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_ALIVE),
        verify=True if certificates is None else certificates,
    )


@dataclass
class _Sending:
    """State of the request in a `failures` block; `is_sent` is True from its first byte on."""

    is_sent: bool = False


_SENDING: ContextVar[_Sending | None] = ContextVar("sending", default=None)


async def _trace_sending(request: Any) -> None:
    """Note when the HTTP library begins to write a request; before that, connecting may fail."""
    sending = _SENDING.get()
    if sending is None:
        return

    async def trace(event: str, _: object) -> None:
        if event.endswith(".send_request_headers.started"):
            sending.is_sent = True

    request.extensions = {**request.extensions, "trace": trace}


@dataclass(eq=False)
class _Pool:
    """A client with its connections and its number of requests in progress."""

    client: AsyncClient
    busy: int = 0


class Endpoint(ABC):
    """A model at an OpenAI-compatible endpoint; subclasses define the requests."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Store the options; the first request opens a client (see `open_client` for the key).

        The base URL comes from `OPENAI_BASE_URL` unless given. A request ends `timeout` seconds after it was sent.

        Raises:
            BadInput: The base URL is not a web address.
        """
        register_secret(api_key)
        url = (os.environ.get(URL_VARIABLE) or DEFAULT_URL) if base_url is None else base_url
        if not is_web_address(url):
            address = one_line(re.split("[?#]", url.rpartition("@")[2])[0], 200) or "empty"
            if base_url is None:
                raise BadInput(f"OPENAI_BASE_URL is {address}; it needs http:// or https:// in front")
            raise BadInput(f"the endpoint of {model!r} is {address}: {NO_ADDRESS}")
        register_url_secrets(url)
        self.name = model
        self.timeout = timeout
        self._options = (url, api_key, timeout, most_bytes)
        self._pools: list[_Pool] = []
        self.endpoint = strip_url_secrets(url).rstrip("/") + "/"

    @cached_property
    def _certificates(self) -> SSLContext:
        import httpx2

        return httpx2.create_ssl_context()

    def _opened(self) -> AsyncClient:
        return open_client(self.name, *self._options, self._certificates)

    async def fetch(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a POST request, or a GET request without a body, and return the JSON of the reply.

        Raises:
            CallFailed: This request failed; see `failures` for the reasons.
            ModelError: No request can succeed: wrong key, no permission, no such model.
        """
        if body is None:
            return parse_json(await self.send("GET", path))
        return parse_json(await self.send("POST", path, json=dict(body)))

    async def send(self, method: str, path: str, seconds: float | None = None, **request: Any) -> bytes:
        """Send one request and return the body of the response.

        Args:
            method: `GET` or `POST`.
            path: Path below the base URL.
            seconds: Time limit; None: `timeout`.
            request: Body and parameters, as in `httpx2.AsyncClient.request`.

        Raises:
            CallFailed, ModelError: See `fetch`.
        """
        with self._busy_client() as client, failures(self.endpoint, self.name):
            async with asyncio.timeout(self.timeout if seconds is None else seconds):
                return (await _response(client, client.build_request(method, path, **request))).content

    @contextmanager
    def _busy_client(self) -> Iterator[AsyncClient]:
        """Count a request of a client for the time of the block; see `open_client` for errors."""
        pool = self._free()
        pool.busy += 1
        try:
            yield pool.client
        finally:
            pool.busy -= 1

    def _free(self) -> _Pool:
        """Return a client with a free slot; open another one if all are busy."""
        free = next((pool for pool in self._pools if pool.busy < POOLED), None)
        if free is None and len(self._pools) < POOLS:
            free = _Pool(self._opened())
            self._pools.append(free)
        return free or min(self._pools, key=lambda pool: pool.busy)

    @abstractmethod
    async def ask(self, question: Any, /) -> Any:
        """Send one question.

        Raises:
            CallFailed: This request failed; subclasses add reasons to the reasons of `failures`.
            ModelError: No request can succeed: wrong key, no permission, no such model.
        """

    async def close(self) -> None:
        """Close the connections, in the event loop that opened them."""
        for pool in self._pools:
            await pool.client.aclose()


async def _response(client: AsyncClient, request: Any, is_streamed: bool = False) -> Response:
    """Send a request and return its response if the status is one of success.

    Raises:
        httpx2.HTTPStatusError: The status is not one of success.
        httpx2.TransportError: The request failed without a response.
    """
    import httpx2

    try:
        response = await client.send(request, stream=is_streamed)
    except (AccordError, TimeoutError, httpx2.TransportError):
        raise
    except Exception as error:  # for example an invalid URL of a redirect
        raise httpx2.TransportError(type(error).__name__) from error
    return response.raise_for_status()


@contextmanager
def failures(endpoint: str, model: str) -> Iterator[None]:
    """Convert exceptions of the HTTP library to Accord's.

    Messages quote neither the key nor the body, except a 501's reason. A failure to connect has `is_sent=False`.

    Raises:
        CallFailed: This request failed: `timeout`, `unreachable`, `rate-limited`, `server`, `too long`, `rejected`,
            `malformed`.
        ModelError: No request can succeed: wrong key, no permission, no such model, or not supported by the server.
    """
    import httpx2

    sending = _Sending()
    token = _SENDING.set(sending)
    try:
        yield
    except (httpx2.TimeoutException, TimeoutError):
        raise CallFailed("timeout", f"{endpoint} did not answer in time", is_sent=sending.is_sent) from None
    except httpx2.TransportError:
        problem = "lost the connection" if sending.is_sent else "cannot connect"
        detail = f"{problem} to {address_of(endpoint)} ({endpoint})"
        raise CallFailed("unreachable", detail, is_sent=sending.is_sent) from None
    except httpx2.HTTPStatusError as error:
        raise _status_failure(endpoint, model, error.response) from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError):
        raise CallFailed(MALFORMED, f"{endpoint} sent a reply in an unknown format") from None
    finally:
        _SENDING.reset(token)


def address_of(url: str) -> str:
    """Return host and port of a web address, without credentials."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _error_in(response: Response) -> Mapping[str, Any]:
    """Return the description of an error in a response, empty if there is none."""
    try:
        body = parse_json(response.content)
    except CallFailed:
        return {}
    error = body.get("error", body) if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _reason_in(error: Mapping[str, Any]) -> str:
    """Return the reason from an error's description on a single line without secrets, or an empty string."""
    reason = error.get("message")
    if not isinstance(reason, str) or not reason.strip():
        return ""
    return f": {one_line(redact_message(reason), LONGEST_REASON)}"


def _status_failure(endpoint: str, model: str, response: Response) -> AccordError:
    """Return the error of an HTTP status: see `failures`."""
    status = response.status_code
    if status in {401, 403}:  # the body of a 401 may repeat the key, so only the status is shown
        return ModelError(f"{endpoint} refused the key for {model!r} (HTTP {status})")
    if status == 404:
        return NotFound(f"{endpoint} has no model {model!r}, or no such route (HTTP 404)")
    if status == NOT_IMPLEMENTED:
        reason = _reason_in(_error_in(response))
        return ModelError(f"{endpoint} does not support this request to {model!r} (HTTP 501){reason}")
    if status == 429:
        return CallFailed("rate-limited", f"{endpoint} answered HTTP 429: too many requests", retry_after(response))
    if status >= 500 or status in {408, 409}:
        return CallFailed("server", f"{endpoint} answered HTTP {status}", retry_after(response))
    code = error_code(_error_in(response).get("code"))
    reason = "too long" if status == 413 or "context_length" in code else "rejected"
    return CallFailed(reason, f"{endpoint} answered HTTP {status}" + (f" ({code})" if code else ""))


def retry_after(response: Any) -> float | None:
    """Return the seconds of a Retry-After header, at least 0; a date counts from now."""
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
    """A chat model; a request can also fail as `refused` or `filtered`."""

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Send one prompt; see `Endpoint.ask` for errors."""
        body = await self.fetch("/chat/completions", {"model": self.name, **chat_request_of(prompt)})
        return read_chat_reply(body, self.name, with_tokens=bool(prompt.top_logprobs))

    async def stream(self, prompt: Prompt, /) -> ReplyStream:
        """Send one prompt and yield its reply as it arrives; see `StreamingChat.stream`.

        `timeout` covers the whole reply. An endpoint that does not stream sends the reply in one piece.
        """
        body: dict[str, Any] = {"model": self.name, **chat_request_of(prompt), "stream": True}
        body["stream_options"] = {"include_usage": True}  # hidden reasoning tokens are billed too
        headers = {"Accept": EVENTS, "Accept-Encoding": "identity"}
        reply = StreamedReply(self.name, self._options[3])
        until = asyncio.get_running_loop().time() + self.timeout
        with self._busy_client() as client:
            with failures(self.endpoint, self.name):
                async with asyncio.timeout_at(until):
                    request = client.build_request("POST", "/chat/completions", json=body, headers=headers)
                    response = await _response(client, request, is_streamed=True)
            try:
                if not response.headers.get("content-type", "").startswith(EVENTS):
                    whole = read_chat_reply(parse_json(await response.aread()), self.name, with_tokens=False)
                    yield whole.text
                    yield whole
                    return
                chunks = response.aiter_bytes()
                while (
                    not reply.has_ended and (chunk := await _next_of(chunks, until, reply, self.endpoint)) is not None
                ):
                    for text in reply.feed(chunk):
                        yield text
                yield reply.reply()
            finally:
                await response.aclose()


async def _next_of(chunks: AsyncIterator[bytes], until: float, reply: StreamedReply, endpoint: str) -> bytes | None:
    """Return the next bytes of a reply; None at its end."""
    try:
        async with asyncio.timeout_at(until):
            return await anext(chunks, None)
    except TimeoutError:
        raise CallFailed("timeout", f"{endpoint} did not finish in time") from None
    except (AccordError, asyncio.CancelledError):
        raise
    except Exception:  # an exception of the HTTP library, which has no name here
        raise reply.broken() from None


def chat_request_of(prompt: Prompt) -> dict[str, Any]:
    """Return the body of the request for a prompt, without the model's name."""
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


# --- checks of every reply before it is read --------------------------------------------------------------------------


def receiver(most: int = MOST_BYTES) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook of the HTTP client that raises for refused responses.

    A redirect to another origin would send the transcript there and store its answers under the endpoint's name. A
    compressed body is unpacked up to a bound, since a few kilobytes can unpack to gigabytes.

    Raises:
        ModelError: The endpoint redirects to another origin.
        CallFailed: The body has more than `most` bytes, or cannot be unpacked.
    """

    async def receive(response: Any) -> None:
        _stay_at_origin(response)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        is_packed = encoding not in {"identity", ""}
        if not is_packed and _is_stream(response):
            return  # `StreamedReply` reads it, with a bound of its own
        if is_packed and encoding not in {"gzip", "x-gzip"}:
            raise CallFailed(MALFORMED, f"the reply is packed as {shorten(encoding)}; allowed: {ENCODINGS}")
        unpacker, body, has_begun = zlib.decompressobj(zlib.MAX_WBITS | 16), bytearray(), False
        async for chunk in response.aiter_raw():
            has_begun = has_begun or bool(chunk)
            try:
                body += unpacker.decompress(chunk, most + 1 - len(body)) if is_packed else chunk
            except zlib.error:
                raise CallFailed(MALFORMED, "the reply cannot be unpacked") from None
            if len(body) > most:
                raise CallFailed(TOO_LARGE, f"the reply has more than {most / 1e6:g} MB")
        if is_packed and has_begun and not unpacker.eof:
            raise CallFailed(MALFORMED, "the packed reply is incomplete")
        # The client expects a read response: unpacked, with its content set.
        response.headers.pop("content-encoding", None)
        response._content = bytes(body)

    return receive


def _is_stream(response: Any) -> bool:
    """Return True if a stream of events was requested and arrives."""
    is_requested = response.request.headers.get("accept") == EVENTS and response.status_code == 200
    return bool(is_requested and response.headers.get("content-type", "").startswith(EVENTS))


def _stay_at_origin(response: Any) -> None:
    """Raise ModelError for a redirect to another scheme, host or port."""
    location = response.headers.get("location")
    if not 300 <= response.status_code < 400 or location is None:
        return
    requested = response.request.url
    try:
        target = _origin(requested.join(location))
    except Exception:  # for example InvalidURL of the HTTP library, which has no name here
        target = "(not a URL)"
    if target != _origin(requested):
        raise ModelError(
            f"{_origin(requested)} redirects to {target} (HTTP {response.status_code}), another origin; nothing was "
            "sent there. If it is the right endpoint, set base_url to it"
        )


def _origin(url: Any) -> str:
    """Return scheme, host and port, without user, path and query."""
    port = f":{url.port}" if url.port is not None else ""
    return shorten(f"{url.scheme}://{url.host}{port}")
