"""What is done with every HTTP reply before anybody reads it: no redirect to another origin, no endless body.

A redirect that kept its method would carry the whole transcript to whoever the endpoint names, whose answers would be
kept under the endpoint's own name. A compressed body is unpacked here, in steps, up to a bound: some kilobytes can
unpack to gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from accord.edges import ModelError
from accord.models.model import CallFailed
from accord.models.reply_parsing import short

MOST_BYTES = 16_000_000
"""Bytes of one reply, unpacked: a thousand times what a long answer with its token probabilities has."""
ENCODINGS = "gzip, deflate"
"""What the client says that it can unpack."""
TOO_LARGE = "too large"
_STEP = 2**16


def receiver(most: int = MOST_BYTES) -> Callable[[Any], Awaitable[None]]:
    """A hook on the client's responses; what it refuses is raised in place of the response.

    Raises:
        ModelError: The endpoint redirects to another origin.
        CallFailed: The body has more than `most` bytes, or cannot be unpacked.
    """

    async def receive(response: Any) -> None:
        stay_at_origin(response)
        if _is_heard(response):
            return  # whoever listens reads it, bounded too (`streaming.Events`)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        unpacked = Unpacking(encoding, most)
        async for chunk in response.aiter_raw():
            unpacked.add(chunk)
        # As the client's own reading leaves a response behind: unpacked, and to be read again.
        response.headers.pop("content-encoding", None)
        response._content = unpacked.body()

    return receive


def _is_heard(response: Any) -> bool:
    """Whether a reply was asked for as a stream of events, and comes as one that is not packed."""
    wants = response.request.headers.get("accept") == "text/event-stream"
    comes = response.headers.get("content-type", "").startswith("text/event-stream")
    packed = response.headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}
    return wants and comes and response.status_code == 200 and not packed


def stay_at_origin(response: Any) -> None:
    """Refuse a redirect whose scheme, host or port is another; see `receiver` for what is raised."""
    location = response.headers.get("location")
    if not 300 <= response.status_code < 400 or location is None:
        return
    asked = response.request.url
    try:
        target = _origin(asked.join(location))
    except Exception:  # the client's own InvalidURL among them, whichever HTTP library it is built on
        target = "(not a URL)"
    if target != _origin(asked):
        raise ModelError(
            f"{_origin(asked)} redirects to {target} (HTTP {response.status_code}), which was not asked: nothing was "
            "sent there. If it is the endpoint, name it: base_url"
        )


def _origin(url: Any) -> str:
    """Scheme, host and port: no user, no path, no query."""
    port = f":{url.port}" if url.port is not None else ""
    return short(f"{url.scheme}://{url.host}{port}")


class Unpacking:
    """A body as it arrives, unpacked in steps, so that no more than `most` bytes are ever held."""

    def __init__(self, encoding: str, most: int) -> None:
        """`encoding` is the reply's Content-Encoding."""
        self._most, self._parts, self._size, self._came = most, bytearray(), 0, False
        if encoding not in {"identity", "", "gzip", "x-gzip", "deflate"}:
            raise CallFailed("malformed", f"the reply is packed as {short(encoding)}, which was not asked for")
        self._is_deflate = encoding == "deflate"
        self._unpacker = None if encoding in {"identity", ""} else zlib.decompressobj(zlib.MAX_WBITS | 32)

    def add(self, chunk: bytes) -> None:
        """Take in what arrived.

        Raises:
            CallFailed: It is too much, or cannot be unpacked.
        """
        self._came = self._came or bool(chunk)
        if self._unpacker is None:
            self._keep(chunk)
            return
        try:
            while chunk and not self._unpacker.eof:
                self._keep(self._unpacker.decompress(chunk, _STEP))
                chunk = self._unpacker.unconsumed_tail
        except zlib.error:
            if not self._is_deflate or self._size:
                raise CallFailed("malformed", "the reply cannot be unpacked") from None
            self._is_deflate, self._unpacker = False, zlib.decompressobj(-zlib.MAX_WBITS)  # without zlib's header
            self.add(chunk)

    def body(self) -> bytes:
        """All of it.

        Raises:
            CallFailed: It ended before its end.
        """
        if self._unpacker is not None and self._came and not self._unpacker.eof:
            raise CallFailed("malformed", "the packed reply ends before its end")
        return bytes(self._parts)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._most:
            raise CallFailed(TOO_LARGE, f"the reply has more than {self._most / 1e6:g} MB")
        self._parts += part
