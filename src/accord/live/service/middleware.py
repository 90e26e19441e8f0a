"""Layers around every application that listens: limits of requests, the token, and what a server needs to start.

`Guard` limits the size of requests and the time in which they arrive; `TokenGuard` also requires the token. Importing
this module does not need the extra `accord[serve]`.
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

BODY = 4 * 2**20
"""Bytes that a request may have."""
SECONDS = 10.0
"""For a request to arrive in."""
UNDER_WAY = 128 * 2**20
"""Bytes that all requests under way may have together; one may have a quarter of what is left, or `SMALL`."""
SMALL = 64 * 2**10
"""Bytes for which there is always room."""
DRAINED = 64 * 2**20
"""Bytes of a request that is too large which are read and thrown away, so that its sender reads why."""
OPEN_PATHS = frozenset({"/healthz", "/docs"})
"""Paths of live scoring that need no token: the health check, and the description of the API, which holds no data."""


class Refused(Exception):
    """A request that is not served; `wait` says after how many seconds it may be sent again."""

    def __init__(self, status: int, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if wait is not None:
            self.headers["Retry-After"] = str(ceil(wait))


def is_loopback(host: str) -> bool:
    """Return True if a host's name or address is of the loopback interface."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_local(scope: Scope) -> bool:
    """Return True if the client's address and the Host header of a request are loopback."""
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
    """Return the token of the live API, or a new random one for a server that only this machine reaches.

    Raises:
        BadInput: The token is too short, or there is none and other machines reach the server.
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
    """Say how to install what the service needs.

    Raises:
        MissingExtra: It is not there.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("the service", "serve") from None


FREE_GUESSES, LONGEST_WAIT, ADDRESSES = 20, 60.0, 4096
"""Wrong tokens of an address before it has to wait, its longest wait in seconds, and addresses that are remembered."""


class Guesses:
    """Wrong tokens by address: after some of them each doubles the time in which further ones are turned away.

    A right token never comes here: whoever has it is let in, whatever others at the same address try. What keeps a
    token from being guessed is its length; this keeps guesses few, cheap and visible.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and until when more have to wait

    def wrong(self, scope: Scope, reason: str) -> Refused:
        """What to say of a wrong token: 401, or 429 for as long as its address has to wait."""
        address, now = _network(scope), self._clock()
        count, until = self._wrong.pop(address, (0, now))
        is_early = now < until
        if not is_early:
            count += 1
            until = now + min(2.0 ** (count - FREE_GUESSES), LONGEST_WAIT) if count > FREE_GUESSES else now
        self._wrong[address] = count, until
        while len(self._wrong) > ADDRESSES:
            self._wrong.popitem(last=False)
        if is_early:
            told = "too many wrong tokens came from this address; wait, or name the right one"
            return Refused(429, told, until - now)
        return Refused(401, reason)


def _network(scope: Scope) -> str:
    """Whence a request comes: an address; of IPv6 the first half, since the other one is anybody's choice."""
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 or address.is_loopback else str(ipaddress.ip_network((host, 64), strict=False))


class Guard:
    """An ASGI application around another, which receives whole bodies of limited size.

    Args:
        app: The application.
        body: The maximum size of a request, in bytes.
        seconds: The time in which a request has to arrive.
    """

    def __init__(self, app: App, body: int = BODY, seconds: float = SECONDS) -> None:
        self.app, self.body, self.seconds = app, body, seconds
        self.room, self.held = max(UNDER_WAY, 4 * body), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or say why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        held = _Held(self)
        try:
            _check_headers(scope)
            self._check_sender(scope, headers)
            content = await self._content(receive, headers, held)
            await self.app(scope, _replayed(content, receive), send)
        except Refused as refused:
            from starlette.responses import JSONResponse

            closing = {"Connection": "close", **refused.headers}
            await JSONResponse({"error": refused.reason}, refused.status, closing)(scope, receive, send)
        finally:
            held.release()

    def _check_sender(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise `Refused` for a sender that is not allowed; a subclass decides."""

    async def _content(self, receive: Receive, headers: dict[bytes, bytes], held: _Held) -> bytes:
        """The request's body, unpacked."""
        try:
            async with asyncio.timeout(self.seconds):
                content = await self._body(receive, held)
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {self.seconds:g} seconds") from None
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").lower()
        if encoding == "identity":
            return content
        if encoding != "gzip":
            raise Refused(415, f"content encoding {encoding!r}; allowed: gzip, identity")
        found = self._unpacked(content)
        held.take(len(found))
        return found

    async def _body(self, receive: Receive, held: _Held) -> bytes:
        parts, size, more = [], 0, True
        while more and size <= DRAINED:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Refused(400, "the client went away")
            size += len(event.get("body", b""))
            if size <= self.body:
                held.take(len(event.get("body", b"")))
                parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        if size > self.body:
            raise Refused(413, f"the request is larger than {_megabytes(self.body)}; send less at once")
        return b"".join(parts)

    def _unpacked(self, content: bytes) -> bytes:
        packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            found = packed.decompress(content, self.body + 1)
        except zlib.error:
            raise Refused(400, "the request says it is gzip, and is not") from None
        if len(found) > self.body:
            raise Refused(413, f"the request unpacks to more than {_megabytes(self.body)}; send less at once")
        if content and not packed.eof:
            raise Refused(400, "the gzip body of the request is truncated; send it whole")
        if packed.unused_data:
            raise Refused(400, "the request holds other bytes after its gzip stream; send one stream")
        return found


class TokenGuard(Guard):
    """A guard that requires a token, except for open paths.

    Args:
        app: The application.
        token: The token, as in `Authorization: Bearer TOKEN`.
        body: The maximum size of a request, in bytes.
        seconds: The time in which a request has to arrive.
        loopback_only: Whether the client's address and the Host header must be loopback.
        open_paths: Paths that need no token.
        guesses: Wrong tokens so far.
    """

    def __init__(
        self,
        app: App,
        token: str,
        body: int = BODY,
        seconds: float = SECONDS,
        loopback_only: bool = False,
        open_paths: Collection[str] = OPEN_PATHS,
        guesses: Guesses | None = None,
    ) -> None:
        super().__init__(app, body, seconds)
        if not token:
            raise ValueError("an empty token would let every client in")
        self.token, self.loopback_only, self.open_paths = token, loopback_only, open_paths
        self.guesses = guesses or Guesses()

    def _check_sender(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self.loopback_only and not is_local(scope):
            raise Refused(421, "without ACCORD_TOKEN this service answers requests to this machine's own name alone")
        if scope["path"] in self.open_paths:
            return
        given, reason = headers.get(b"authorization"), "name the service's token: Authorization: Bearer TOKEN"
        if given is None:
            raise Refused(401, reason)
        if not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
            raise self.guesses.wrong(scope, reason)


_ONCE = (b"host", b"authorization", b"content-encoding", b"content-type", b"origin", b"x-accord-form")
"""Headers that decide who may ask and how a body is read; with two of one, each reader may take another."""


def _check_headers(scope: Scope) -> None:
    """Refuse a request that has one of these headers twice.

    Raises:
        Refused: With 400.
    """
    names = [name.lower() for name, _ in scope["headers"]]
    twice = next((name for name in _ONCE if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(400, f"the request has the header {twice.decode().title()} twice; send it once")


def host_name(headers: dict[bytes, bytes]) -> str:
    """Return the host that a request is addressed to, in lower case and without its port."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    name, _, port = host.rpartition(":")
    return host if parse_whole_number(port) is None else name


class _Held:
    """The bytes of one request, for as long as it is served."""

    def __init__(self, guard: Guard) -> None:
        self.guard, self.size = guard, 0

    def take(self, size: int) -> None:
        """Hold more.

        Raises:
            Refused: With 503, where all requests under way have too many.
        """
        if self.size + size > max(SMALL, (self.guard.room - self.guard.held + self.size) // 4):
            raise Refused(503, "too much is under way; send this again in a second", 1)
        self.size, self.guard.held = self.size + size, self.guard.held + size

    def release(self) -> None:
        """Hold nothing."""
        self.guard.held -= self.size
        self.size = 0


def _megabytes(count: int) -> str:
    return f"{count / 2**20:g} MB"


def _replayed(content: bytes, receive: Receive) -> Receive:
    """What the application receives: the whole body at once, then whatever else happens."""
    events = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def replay() -> MutableMapping[str, Any]:
        event = next(events, None)
        return await receive() if event is None else event

    return replay


SCORING = ("/v1/", "/metrics", "/docs", "/openapi.json", "/healthz")
"""What the addresses of live scoring begin with, where both are served."""


def together(scores: App, pages: App | None) -> App:
    """Serve live scoring and the pages of the workbench, if there are any, at one address."""
    if pages is None:
        return scores

    async def both(scope: Any, receive: Any, send: Any) -> None:
        is_scoring = scope["type"] == "lifespan" or scope.get("path", "").startswith(SCORING)
        await (scores if is_scoring else pages)(scope, receive, send)

    return both
