"""Checks of every HTTP reply before it is read: redirects to other origins, size and compression.

A redirect to another origin would send the transcript there and store its answers under the endpoint's name. A
compressed body is unpacked in steps up to a bound, since a few kilobytes can unpack to gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from accord.edges import ModelError
from accord.models.model import CallFailed
from accord.models.reply_parsing import shorten

MOST_BYTES = 16_000_000
"""Maximum bytes of one unpacked reply, a thousand times a long answer with token probabilities."""
ENCODINGS = "gzip, deflate"
"""Encodings that the client accepts."""
TOO_LARGE = "too large"
_STEP = 2**16


def receiver(most: int = MOST_BYTES) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook of the HTTP client that raises for refused responses.

    Raises:
        ModelError: The endpoint redirects to another origin.
        CallFailed: The body has more than `most` bytes, or cannot be unpacked.
    """

    async def receive(response: Any) -> None:
        stay_at_origin(response)
        if _is_stream(response):
            return  # `streaming.EventParser` reads it, with a bound of its own
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        unpacked = Unpacking(encoding, most)
        async for chunk in response.aiter_raw():
            unpacked.add(chunk)
        # The client expects a read response: unpacked, with its content set.
        response.headers.pop("content-encoding", None)
        response._content = unpacked.body()

    return receive


def _is_stream(response: Any) -> bool:
    """Return True if a stream of events was requested and arrives uncompressed."""
    is_requested = response.request.headers.get("accept") == "text/event-stream"
    is_received = response.headers.get("content-type", "").startswith("text/event-stream")
    is_packed = response.headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}
    return is_requested and is_received and response.status_code == 200 and not is_packed


def stay_at_origin(response: Any) -> None:
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


class Unpacking:
    """Unpacks a body in steps as it arrives, and holds at most `most` bytes."""

    def __init__(self, encoding: str, most: int) -> None:
        """`encoding` is the reply's Content-Encoding."""
        self._most, self._parts, self._size, self._has_begun = most, bytearray(), 0, False
        if encoding not in {"identity", "", "gzip", "x-gzip", "deflate"}:
            raise CallFailed("malformed", f"the reply is packed as {shorten(encoding)}; allowed: {ENCODINGS}")
        self._is_deflate = encoding == "deflate"
        self._unpacker = None if encoding in {"identity", ""} else zlib.decompressobj(zlib.MAX_WBITS | 32)

    def add(self, chunk: bytes) -> None:
        """Add a chunk.

        Raises:
            CallFailed: The body is too large, or cannot be unpacked.
        """
        self._has_begun = self._has_begun or bool(chunk)
        if self._unpacker is None:
            self._append(chunk)
            return
        try:
            while chunk and not self._unpacker.eof:
                self._append(self._unpacker.decompress(chunk, _STEP))
                chunk = self._unpacker.unconsumed_tail
        except zlib.error:
            if not self._is_deflate or self._size:
                raise CallFailed("malformed", "the reply cannot be unpacked") from None
            self._is_deflate, self._unpacker = False, zlib.decompressobj(-zlib.MAX_WBITS)  # without zlib's header
            self.add(chunk)

    def body(self) -> bytes:
        """Return the whole body.

        Raises:
            CallFailed: The packed body is incomplete.
        """
        if self._unpacker is not None and self._has_begun and not self._unpacker.eof:
            raise CallFailed("malformed", "the packed reply is incomplete")
        return bytes(self._parts)

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._most:
            raise CallFailed(TOO_LARGE, f"the reply has more than {self._most / 1e6:g} MB")
        self._parts += part
