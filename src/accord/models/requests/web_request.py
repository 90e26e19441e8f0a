"""One HTTP request with limits on redirects, size and time: scores for hosts, alarms for webhooks, downloads of models.

Requests to models need more: see `client.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from accord.models.model import CallFailed
from accord.models.requests.flow import wait
from accord.models.requests.reply_parsing import MALFORMED
from accord.version import __version__

if TYPE_CHECKING:
    from ssl import SSLContext


class WebReply(NamedTuple):
    """Reply to a request.

    Attributes:
        status: Status of HTTP.
        headers: Headers, found by names in any case.
        content: Body as it was sent; empty if `write` received it.
        is_whole: False if the body was cut off, because it reached a limit or the connection broke.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    is_whole: bool


def send_request(
    method: str,
    url: str,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float,
    most_bytes: int,
    silence: float | None = None,
    redirects: int = 0,
    write: Callable[[bytes], object] | None = None,
) -> WebReply:
    """Send one request and return its reply, also if its status is an error.

    Proxies and certificates come from the environment. Redirects are not followed by default: body and keys of a
    request are for the address that the user confirmed.

    Args:
        method: `GET`, `POST` or `PATCH`.
        url: Address, http or https.
        content: Body of the request.
        headers: Headers of the request.
        seconds: Time limit of the whole exchange, which a slow server cannot extend.
        most_bytes: Maximum size of the body; the rest is not read.
        silence: Maximum seconds without a byte; None: `seconds`.
        redirects: Number of redirects to follow.
        write: Receives the body of a reply with a status of success in parts.

    Raises:
        CallFailed: No reply arrived. The message contains no part of the URL.
    """
    sent = {"Accept-Encoding": "identity", "User-Agent": f"accord/{__version__}", **(headers or {})}
    return wait(_exchange(method, url, content, sent, seconds, most_bytes, silence or seconds, redirects, write))


async def _exchange(
    method: str, url: str, content: bytes | None, headers: Mapping[str, str], seconds: float, most_bytes: int,
    silence: float, redirects: int, write: Callable[[bytes], object] | None,
) -> WebReply:  # fmt: skip
    import httpx2

    reply: WebReply | None = None
    body, size = bytearray(), 0
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(
                verify=_certificates(), timeout=silence, follow_redirects=redirects > 0, max_redirects=redirects
            ) as client,
            client.stream(method, url, content=content, headers=headers) as response,
        ):
            reply = WebReply(response.status_code, response.headers, b"", is_whole=False)
            keep = body.extend if write is None or not response.is_success else write
            async for part in response.aiter_raw():
                keep(part[: most_bytes - size])
                size += len(part)
                if size > most_bytes:
                    break
    except (httpx2.RequestError, httpx2.InvalidURL, ImportError, TimeoutError, ValueError) as error:
        if reply is None:
            raise _failure(error, seconds, silence) from None
        return reply._replace(content=bytes(body))
    return reply._replace(content=bytes(body), is_whole=size <= most_bytes)


def _failure(error: Exception, seconds: float, silence: float) -> CallFailed:
    """Return the error of a request without a reply; messages of the library may contain the URL."""
    import httpx2

    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        limit = seconds if isinstance(error, TimeoutError) else silence
        return CallFailed("timeout", f"no answer within {limit:g} s")
    if isinstance(error, httpx2.ConnectError):
        return CallFailed("unreachable", "cannot connect", is_sent=False)
    if isinstance(error, httpx2.TooManyRedirects):
        return CallFailed("unreachable", "too many redirects")
    if isinstance(error, ImportError):
        return CallFailed("unreachable", "the proxy of the environment needs pip install socksio", is_sent=False)
    if isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError):
        return CallFailed(MALFORMED, "the connection ended without a reply")
    return CallFailed(MALFORMED, f"no valid address, header or proxy ({type(error).__name__})", is_sent=False)


@cache
def _certificates() -> SSLContext:
    """Read the certificates of the system once: this takes tens of milliseconds."""
    import httpx2

    return httpx2.create_ssl_context()
