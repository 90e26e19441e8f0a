"""A door for browsers, which cannot name a token by themselves: it is typed once and kept as a cookie."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie

from accord.service.guard import OPEN_PATHS, App, Receive, Scope, Send

PATH = "/door"
COOKIE = "accord_door"
OPEN = OPEN_PATHS | {PATH}
"""What is served to whoever has not named the token."""


def opened_by(token: str) -> str:
    """What the cookie holds of whoever named the token; the token does not follow from it."""
    return hmac.new(token.encode(), b"accord door", hashlib.sha256).hexdigest()


def is_token(given: str, token: str) -> bool:
    """Whether this is the token, in a time that tells nothing."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


class Door:
    """An ASGI application around a `Guard`: whoever has the cookie has named the token; other browsers are asked."""

    def __init__(self, app: App, token: str) -> None:
        self.app, self.token, self.kept = app, token, opened_by(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or show it the door."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self._has_cookie(headers.get(b"cookie", "")):
            others = [(name, value) for name, value in scope["headers"] if name.lower() != b"authorization"]
            scope = {**scope, "headers": [*others, (b"authorization", b"Bearer " + self.token.encode())]}
        elif self._is_page(scope, headers):
            from starlette.responses import RedirectResponse

            await RedirectResponse(PATH, 303)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _has_cookie(self, header: str) -> bool:
        try:
            found = SimpleCookie(header).get(COOKIE)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self.kept.encode())

    def _is_page(self, scope: Scope, headers: dict[bytes, str]) -> bool:
        asks = scope["method"] == "GET" and "text/html" in headers.get(b"accept", "")
        return asks and b"authorization" not in headers and scope["path"] not in OPEN
