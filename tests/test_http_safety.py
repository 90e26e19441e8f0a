"""Refused HTTP replies: redirects to another origin, endless bodies, compression bombs."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from misbehaving_endpoint import answer_any

from accord import Store
from accord.edges import ModelError
from accord.models import (
    CallFailed,
    ChatMessage,
    ClientOptions,
    Prompt,
    Reply,
    wait,
)
from accord.models.factory import open_chat
from accord.models.requests.client import MOST_BYTES, ChatCompletions
from accord.models.requests.wrappers import reply_key
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import (
    Respond,
    Wire,
)

PROMPT = Prompt((ChatMessage("user", "the whole transcript"),))


@pytest.fixture(autouse=True)
def key(api_key: None) -> None:
    """Set an API key for every test."""


def asked(respond: Respond, timeout: float = 30.0) -> Reply:
    with ChatServer(respond) as server:
        model = ChatCompletions("m1", server.url, timeout=timeout)
        try:
            return wait(model.ask(PROMPT))
        finally:
            wait(model.close())


# --- redirects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.attack
def test_redirect_to_another_origin_sends_no_transcript(status: int, memory: Store) -> None:
    with ChatServer(answer_any) as other:
        at = other.url.replace("://", "://user:sk-secret-word@") + "/chat/completions?key=sk-secret-word"
        with ChatServer(lambda request: Wire({}, status, {"Location": at})) as server:
            model = open_chat("m1", server.url, memory, ClientOptions(attempts=3))
            with pytest.raises(ModelError, match=r"redirects to http://127.0.0.1:\d+ \(HTTP 30") as caught:
                wait(model.ask(PROMPT))
            wait(model.close())
    assert "secret" not in str(caught.value) and other.url.removesuffix("/v1") in str(caught.value)
    assert not other.requests and len(server.requests) == 1
    assert memory.reply(reply_key(f"{server.url}/", "m1", PROMPT)) is None


@pytest.mark.parametrize(
    "where", ["https://127.0.0.1:{port}/v1/x", "//localhost:{port}/v1/x", "http://[::1", "file:///etc"]
)
@pytest.mark.attack
def test_other_scheme_host_or_port_is_another_origin(where: str) -> None:
    def elsewhere(request: Mapping[str, Any]) -> Wire:
        return Wire({}, 307, {"Location": where.replace("{port}", "1")})

    with pytest.raises(ModelError, match="redirects to"):
        asked(elsewhere)


def test_redirect_within_the_origin_is_followed() -> None:
    def moved(request: Mapping[str, Any]) -> Wire:
        if request["_path"].startswith("/v2"):
            return answer_any(request)
        return Wire({}, 307, {"Location": "/v2/chat/completions"})

    assert asked(moved).text


# --- time and size ------------------------------------------------------------------------------------------------


@pytest.mark.attack
def test_slow_body_ends_at_the_timeout() -> None:
    """The endpoint sends a byte at a time, which would take a minute."""
    with pytest.raises(CallFailed, match="timeout"):
        asked(lambda request: Wire(completion("2").body, drip=0.1), timeout=0.5)


def packed(request: Mapping[str, Any], pack: Any, encoding: str) -> Wire:
    return Wire(pack(json.dumps(answer_any(request).body).encode()), headers={"Content-Encoding": encoding})


@pytest.mark.parametrize(("pack", "encoding"), [(gzip.compress, "gzip"), (bytes, "identity")])
def test_compressed_reply_is_unpacked(pack: Any, encoding: str) -> None:
    assert asked(lambda request: packed(request, pack, encoding)).text


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (Wire(b"x" * (MOST_BYTES + 1)), "too large"),
        (Wire(gzip.compress(b" " * (MOST_BYTES + 1), 1), headers={"Content-Encoding": "gzip"}), "too large"),
        (Wire(b"no gzip", headers={"Content-Encoding": "gzip"}), "malformed"),
        (Wire(gzip.compress(b"{}" * 99)[:-9], headers={"Content-Encoding": "gzip"}), "malformed"),
        (Wire(b"x", headers={"Content-Encoding": "br"}), "malformed"),
        (Wire(b"", 429, {"Content-Encoding": "gzip"}), "rate-limited"),
    ],
)
@pytest.mark.attack
def test_too_large_or_damaged_body_is_a_failure(wire: Wire, reason: str) -> None:
    with pytest.raises(CallFailed) as caught:
        asked(lambda request: wire)
    assert caught.value.failure.reason == reason


@pytest.mark.attack
def test_compression_bomb_is_stopped_early() -> None:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(bytes(2**20)) for _ in range(300)) + packer.flush()
    assert len(bomb) < 2**20
    tracemalloc.start()
    try:
        with pytest.raises(CallFailed, match="more than 16 MB"):
            asked(lambda request: Wire(bomb, headers={"Content-Encoding": "gzip"}))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * MOST_BYTES
