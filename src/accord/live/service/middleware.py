"""ASGI middleware of every server: request limits and access tokens.

`Guard` limits the size of requests and the time in which they arrive. `TokenGuard` also requires a token. This module
does not need the extra `accord[serve]`.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from math import ceil
from time import monotonic
from typing import Any

from accord.edges import BadInput, MissingExtra, parse_whole_number

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 4 * 2**20
REQUEST_SECONDS = 10.0
"""Time in which a request has to arrive."""
MAX_TOTAL_BYTES = 128 * 2**20
"""Maximum size of all requests under way; one request may take a quarter of the free part, or `SMALL_BYTES`."""
SMALL_BYTES = 64 * 2**10
"""Size that a request may always have."""
MAX_DRAINED_BYTES = 64 * 2**20
"""Bytes of an oversized request that are read and discarded, so that the client reads the error."""
OPEN_PATHS = frozenset({"/healthz", "/docs"})
"""Paths of live scoring that need no token: the health check and the API description, which contain no data."""
SCORING_PREFIXES = ("/v1/", "/metrics", "/docs", "/openapi.json", "/healthz")
"""Path prefixes of live scoring; all other paths are pages."""


class Refused(Exception):
    """A refused request.

    Args:
        status: HTTP status.
        reason: Message of the response.
        retry_after: Seconds after which the client may retry.
    """

    def __init__(self, status: int, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(ceil(retry_after))


def is_loopback(host: str) -> bool:
    """Return True if a host name or address belongs to the loopback interface."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_local(scope: Scope) -> bool:
    """Return True if the client address and the Host header of a request are loopback."""
    client, headers = scope.get("client"), {name.lower(): value for name, value in scope["headers"]}
    return client is not None and is_loopback(client[0]) and is_loopback(host_name(headers))


def exposure(host: str, names: Sequence[str] = (), proxies: Sequence[str] = ()) -> str:
    """Return the option that makes a server reachable from other machines; empty if only this machine reaches it.

    >>> exposure("127.0.0.1", ["localhost"])
    ''
    >>> exposure("127.0.0.1", ["scores.example"], ["127.0.0.1"])
    '--proxy 127.0.0.1'
    """
    if proxies:
        return f"--proxy {proxies[0]}"
    if not is_loopback(host):
        return f"--host {host}"
    return next((f"--name {name}" for name in names if not is_loopback(name)), "")


def checked_token(token: str | None, exposure: str = "") -> str:
    """Return the token of the live API, or a new random token for a server that only this machine reaches.

    Raises:
        BadInput: The token is too short, or missing on a server that other machines reach.
    """
    if token is None and exposure:
        raise BadInput(
            f"{exposure} makes live scoring reachable from other machines, and no token protects it; set ACCORD_TOKEN "
            "to 16 or more random characters (openssl rand -hex 32)"
        )
    if token is not None and len(token) < 16:
        raise BadInput(f"the token has {len(token)} characters; it needs 16 or more: openssl rand -hex 32")
    return token or secrets.token_urlsafe(24)


def check_installed() -> None:
    """Check that the packages of the extra `accord[serve]` are installed.

    Raises:
        MissingExtra: A package is missing.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("the service", "serve") from None


FREE_ATTEMPTS, MAX_WAIT_SECONDS, MAX_ADDRESSES = 20, 60.0, 4096
"""Wrong tokens of an address before it has to wait, the longest wait, and the number of addresses in memory."""


class AttemptLimiter:
    """Rate limit of wrong tokens by client address: after `FREE_ATTEMPTS`, each wrong token doubles the wait.

    Requests with the right token are never limited, even if other clients share the address. The length of a token
    protects it against guessing; the limit keeps attempts cheap and visible.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._attempts: OrderedDict[str, tuple[int, float]] = OrderedDict()  # count, and time until which to wait

    def record(self, scope: Scope, reason: str) -> Refused:
        """Count a wrong token; return the error for the client: 401, or 429 while its address has to wait."""
        address, now = _client_network(scope), self._clock()
        count, until = self._attempts.pop(address, (0, now))
        is_early = now < until
        if not is_early:
            count += 1
            wait = min(2.0 ** (count - FREE_ATTEMPTS), MAX_WAIT_SECONDS) if count > FREE_ATTEMPTS else 0.0
            until = now + wait
        self._attempts[address] = count, until
        while len(self._attempts) > MAX_ADDRESSES:
            self._attempts.popitem(last=False)
        if is_early:
            return Refused(429, "too many wrong tokens from this address; wait, or send the right token", until - now)
        return Refused(401, reason)


def _client_network(scope: Scope) -> str:
    """Return the client address; of IPv6 the /64 network, because a client can choose the rest freely."""
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 or address.is_loopback else str(ipaddress.ip_network((host, 64), strict=False))


class Guard:
    """ASGI middleware that passes on complete request bodies of limited size.

    Args:
        app: Inner application.
        body: Maximum size of a request in bytes.
        seconds: Time in which a request has to arrive.
    """

    def __init__(self, app: App, body: int = MAX_BODY_BYTES, seconds: float = REQUEST_SECONDS) -> None:
        self.app, self.body, self.seconds = app, body, seconds
        self.max_total, self.total = max(MAX_TOTAL_BYTES, 4 * body), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the reason of the refusal."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        reservation = _Reservation(self)
        try:
            _check_headers(scope)
            self._check_sender(scope, headers)
            content = await self._read_content(receive, headers, reservation)
            await self.app(scope, _replay(content, receive), send)
        except Refused as refused:
            from starlette.responses import JSONResponse

            response_headers = {"Connection": "close", **refused.headers}
            await JSONResponse({"error": refused.reason}, refused.status, response_headers)(scope, receive, send)
        finally:
            reservation.release()

    def _check_sender(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise `Refused` if the sender is not allowed; subclasses override this check."""

    async def _read_content(self, receive: Receive, headers: dict[bytes, bytes], reservation: _Reservation) -> bytes:
        """Return the decompressed body of a request."""
        try:
            async with asyncio.timeout(self.seconds):
                content = await self._read_body(receive, reservation)
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {self.seconds:g} seconds") from None
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").lower()
        if encoding == "identity":
            return content
        if encoding != "gzip":
            raise Refused(415, f"content encoding {encoding!r}; allowed: gzip, identity")
        decompressed = self._decompress(content)
        reservation.add(len(decompressed))
        return decompressed

    async def _read_body(self, receive: Receive, reservation: _Reservation) -> bytes:
        parts, size, has_more = [], 0, True
        while has_more and size <= MAX_DRAINED_BYTES:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Refused(400, "the client disconnected")
            part = event.get("body", b"")
            size += len(part)
            if size <= self.body:
                reservation.add(len(part))
                parts.append(part)
            has_more = event.get("more_body", False)
        if size > self.body:
            raise Refused(413, f"the request is larger than {_megabytes(self.body)}; send smaller requests")
        return b"".join(parts)

    def _decompress(self, content: bytes) -> bytes:
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            decompressed = decompressor.decompress(content, self.body + 1)
        except zlib.error:
            raise Refused(400, "the request declares gzip encoding, and its body is not gzip") from None
        if len(decompressed) > self.body:
            raise Refused(413, f"the request unpacks to more than {_megabytes(self.body)}; send smaller requests")
        if content and not decompressor.eof:
            raise Refused(400, "the gzip body of the request is truncated; send it whole")
        if decompressor.unused_data:
            raise Refused(400, "the request holds other bytes after its gzip stream; send one stream")
        return decompressed


class TokenGuard(Guard):
    """Guard that requires the header `Authorization: Bearer TOKEN`, except for `open_paths`.

    With `loopback_only`, it refuses requests whose client address or Host header is not loopback.
    """

    def __init__(
        self,
        app: App,
        token: str,
        body: int = MAX_BODY_BYTES,
        seconds: float = REQUEST_SECONDS,
        loopback_only: bool = False,
        open_paths: Collection[str] = OPEN_PATHS,
        attempts: AttemptLimiter | None = None,
    ) -> None:
        super().__init__(app, body, seconds)
        if not token:
            raise ValueError("an empty token would let every client in")
        self.token, self.loopback_only, self.open_paths = token, loopback_only, open_paths
        self.attempts = attempts or AttemptLimiter()

    def _check_sender(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self.loopback_only and not is_local(scope):
            raise Refused(421, "without ACCORD_TOKEN the service accepts requests to a loopback address only")
        if scope["path"] in self.open_paths:
            return
        header, reason = headers.get(b"authorization"), "send the service's token: Authorization: Bearer TOKEN"
        if header is None:
            raise Refused(401, reason)
        if not hmac.compare_digest(header, b"Bearer " + self.token.encode()):
            raise self.attempts.record(scope, reason)


_SINGLE_HEADERS = (
    b"host",
    b"authorization",
    b"content-encoding",
    b"content-type",
    b"origin",
    b"x-accord-form",
    b"x-conversation-id",
)
"""Headers that may occur once: with two values, proxy and server could each read another one."""


def _check_headers(scope: Scope) -> None:
    """Check that no header of `_SINGLE_HEADERS` occurs twice.

    Raises:
        Refused: With status 400.
    """
    names = [name.lower() for name, _ in scope["headers"]]
    repeated = next((name for name in _SINGLE_HEADERS if names.count(name) > 1), None)
    if repeated is not None:
        raise Refused(400, f"the request has the header {repeated.decode().title()} twice; send it once")


def host_name(headers: dict[bytes, bytes]) -> str:
    """Return the host of the Host header, in lower case and without the port."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    name, _, port = host.rpartition(":")
    return host if parse_whole_number(port) is None else name


class _Reservation:
    """Share of `MAX_TOTAL_BYTES` that one request takes while it is served."""

    def __init__(self, guard: Guard) -> None:
        self.guard, self.size = guard, 0

    def add(self, size: int) -> None:
        """Reserve more bytes.

        Raises:
            Refused: With status 503 if all requests together are too large.
        """
        if self.size + size > max(SMALL_BYTES, (self.guard.max_total - self.guard.total + self.size) // 4):
            raise Refused(503, "the server holds too many large requests; send this again in a second", 1)
        self.size, self.guard.total = self.size + size, self.guard.total + size

    def release(self) -> None:
        """Release all reserved bytes."""
        self.guard.total -= self.size
        self.size = 0


def _megabytes(count: int) -> str:
    return f"{count / 2**20:g} MB"


def _replay(content: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives the whole body first, then all further events."""
    events = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def replay() -> MutableMapping[str, Any]:
        event = next(events, None)
        return await receive() if event is None else event

    return replay


def combine_apps(scores: App, pages: App | None) -> App:
    """Return an application that serves live scoring and pages at one address."""
    if pages is None:
        return scores

    async def combined(scope: Any, receive: Any, send: Any) -> None:
        is_scoring = scope["type"] == "lifespan" or scope.get("path", "").startswith(SCORING_PREFIXES)
        await (scores if is_scoring else pages)(scope, receive, send)

    return combined
