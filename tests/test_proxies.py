"""Forwarded headers are trusted from configured proxies alone."""

from __future__ import annotations

import socket
import threading
import time
from http.client import HTTPConnection
from typing import Any

import pytest
from waiting import PATIENCE

from accord.edges import BadInput

pytest.importorskip("fastapi", reason="needs accord[serve]")
import uvicorn

from accord.live import checked_proxies
from accord.live.service.server import server_config


async def says(scope: Any, receive: Any, send: Any) -> None:
    """Return client address and scheme."""
    found = f"{scope['scheme']} {scope['client'][0]}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(found))]})
    await send({"type": "http.response.body", "body": found})


@pytest.mark.parametrize(
    ("proxies", "seen"),
    [
        ((), "http 127.0.0.1"), (("127.0.0.1",), "https 203.0.113.7"), (("127.0.0.0/8",), "https 203.0.113.7"),
        (("10.0.0.7",), "http 127.0.0.1"),
    ],
)  # fmt: skip
def test_forwarded_headers_are_trusted_from_configured_proxies(proxies: tuple[str, ...], seen: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as public:
        port = public.getsockname()[1]
        server = uvicorn.Server(server_config(says, "127.0.0.1", port, proxies))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [public]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("GET", "/", headers={"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"})
        answer = connection.getresponse().read().decode()
        connection.close()
        server.should_exit = True
        thread.join(PATIENCE)
    assert answer == seen


@pytest.mark.parametrize("proxy", ["*", "0.0.0.0/0", "::/0", "proxy.example", "", "127.0.0.1, 10.0.0.1"])
def test_wildcard_proxy_is_rejected(proxy: str) -> None:
    with pytest.raises(BadInput, match="--proxy"):
        checked_proxies([proxy])
