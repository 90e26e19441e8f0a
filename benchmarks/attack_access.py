"""Access under attack: strangers behind a proxy, other accounts of the machine, forged cookies, used links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attack_service import FORM, TOKEN, Served, listening, said
from attacking import Case, Workshop, accord

EXPOSED = {
    "the documented proxy": ("--proxy", "127.0.0.1", "--name", "scores.example"),
    "a proxy": ("--proxy", "127.0.0.1"),
    "a public name": ("--name", "scores.example"),
    "every address": ("--host", "0.0.0.0"),
}
PAGES = ("/", "/board", "/board.json", "/board/list.json", "/lead", "/lead.json", "/explore", "/rate/look",
         "/conversation/c1", "/conversation/c1.json")  # fmt: skip
SCORING = ("/metrics", "/v1/evaluator", "/v1/watch", "/v1/schema", "/v1/openapi.json")
COOKIE = f"Cookie: accord_session={'x' * 43}\r\n"
STRANGERS = {
    "nothing": "", "a made-up cookie": COOKIE, "a token that is empty": "Authorization: Bearer \r\n",
    "X-Forwarded-For": f"X-Forwarded-For: 127.0.0.1\r\n{COOKIE}",
}  # fmt: skip
PRIVATE = (b"It is fine.", b"Is it 1?")
"""Words of the project's transcripts."""


def access(shop: Workshop) -> Iterator[Case]:
    """No page, score or figure without a sign-in or a token; no server that others reach without a user."""
    study = {"studies": {"look": {"title": "Look"}}}
    for name, arguments in EXPOSED.items():
        for what, more in (("no token", {}), ("a token", {"ACCORD_TOKEN": TOKEN})):
            folder = shop.learned(**study)
            yield f"{name}, no user, {what}", partial(_is_refused, folder, arguments, more)
    folder = shop.learned(**study)
    with listening(folder, "serve") as served:
        for name, headers in STRANGERS.items():
            for path in (*PAGES, *SCORING):
                yield f"{name}: {path}", partial(_closed, served, path, headers)
            yield f"{name}: POST /lead/fit", partial(_posts_nothing, served, "/lead/fit", headers + FORM, b"form=x")
            yield f"{name}: POST /v1/scores", partial(_posts_nothing, served, "/v1/scores", headers, said())
            yield f"{name}: POST /v1/traces", partial(_posts_nothing, served, "/v1/traces", headers, b"{}")
        yield "the link of another name", lambda: _closed(served, _link(served), "", "scores.example", (421,))
        yield "the link twice", lambda: _works_once(served)
        yield "the session under another name", lambda: _session_elsewhere(served)
        yield "it ends quietly", served.end
    behind = ("serve", "--proxy", "127.0.0.1", "--name", "scores.example")
    with listening(shop.learned(), *behind, token=TOKEN) as served:
        for path in ("/", "/board", "/board.json", "/lead", "/conversation/c1"):
            yield f"behind a proxy, scoring alone: {path}", partial(_closed, served, path, "", "scores.example")


def _is_refused(folder: Path, arguments: tuple[str, ...], more: dict[str, str]) -> str:
    command = ("serve", "--port", "18799", *arguments)
    return accord(folder, *command, deadline=30, **more).fell(says="accord users add")


def _get(served: Served, path: str, headers: str, host: str = "localhost") -> bytes:
    about = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
    return served.send(about.encode("latin-1"))


def _closed(
    served: Served, path: str, headers: str, host: str = "localhost", codes: tuple[int, ...] = (401, 404, 421, 429)
) -> str:
    told = _get(served, path, headers, host)
    found = re.match(rb"HTTP/1\.[01] (\d{3})", told)
    status = int(found[1]) if found else 0
    if any(word in told for word in PRIVATE):
        return "a transcript is shown"
    return "" if status in codes else f"HTTP {status}: {told[-150:]!r}"


def _posts_nothing(served: Served, path: str, headers: str, body: bytes) -> str:
    kind = "" if "Content-Type" in headers else "Content-Type: application/json\r\n"
    about = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{kind}Origin: http://localhost\r\n"
    told = served.send(f"{about}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode("latin-1"), body)
    return "" if re.match(rb"HTTP/1\.[01] (401|403|429) ", told) else f"it is taken: {told[:150]!r}"


def _link(served: Served) -> str:
    return str(re.findall(r"/in/[\w-]{43}", served.said())[-1])


def _works_once(served: Served) -> str:
    first, second = _get(served, _link(served), ""), _get(served, _link(served), "")
    if b" 303 " not in first[:20] or b"accord_session=" not in first:
        return f"the printed link does not sign in: {first[:150]!r}"
    return "" if re.match(rb"HTTP/1\.[01] (401|429) ", second) else f"it works twice: {second[:150]!r}"


def _session_elsewhere(served: Served) -> str:
    link = accord(served.folder, "users", "link").out.strip()
    cookie = re.search(rb"accord_session=([\w-]{43})", _get(served, link.partition("/in/")[1] + link[-43:], ""))
    if cookie is None:
        return "a new link does not sign in"
    headers = f"Cookie: accord_session={cookie[1].decode()}\r\n"
    if b" 200 " not in _get(served, "/board", headers)[:20]:
        return "the session opens no page"
    return _closed(served, "/board", headers, "scores.example", (421,))
