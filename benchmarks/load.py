"""Load for a service on this machine: so many clients, each asking again as soon as it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOKEN = "a-token-that-nobody-guesses"
"""The token that served processes get in ACCORD_TOKEN, and that clients send."""


@dataclass(frozen=True)
class Load:
    """What came of it.

    Attributes:
        seconds: From the first request to the last answer.
        latencies: (n,) seconds of each answered request.
        statuses: How often each status was answered.
    """

    seconds: float
    latencies: NDArray[np.float64]
    statuses: dict[int, int]

    def milliseconds(self, share: float) -> float:
        """The latency that this share of the requests stay below."""
        return float(np.quantile(self.latencies, share) * 1e3) if len(self.latencies) else float("nan")


def post(port: int, bodies: Iterator[bytes], clients: int, path: str = "/v1/scores") -> Load:
    """Post every body once, by so many clients with a connection each."""
    return asyncio.run(_post(port, bodies, clients, path))


async def _post(port: int, bodies: Iterator[bytes], clients: int, path: str) -> Load:
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    start = time.perf_counter()
    await asyncio.gather(*(_client(port, bodies, path, latencies, statuses) for _ in range(clients)))
    return Load(time.perf_counter() - start, np.array(latencies), statuses)


async def _client(
    port: int, bodies: Iterator[bytes], path: str, latencies: list[float], statuses: dict[int, int]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    about = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    head = f"POST {path} HTTP/1.1\r\n{about}Content-Length: ".encode()
    for body in bodies:
        start = time.perf_counter()
        writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.split(b"content-length:")[1].split(b"\r\n")[0]))
        latencies.append(time.perf_counter() - start)
        status = int(answer.split(b" ", 2)[1])
        statuses[status] = statuses.get(status, 0) + 1
    writer.close()
    await writer.wait_closed()
