"""Load for a service on this machine: so many clients, each asking again as soon as it is answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from harness import TOKEN
from numpy.typing import NDArray


@dataclass(frozen=True)
class Load:
    """What came of it.

    Attributes:
        seconds: From the first request to the last answer.
        latencies: (n,) seconds of each request, in the order of answers.
        statuses: How often each status was answered.
    """

    seconds: float
    latencies: NDArray[np.float64]
    statuses: dict[int, int]

    @property
    def refused(self) -> int:
        """Number of answers with another status than 200."""
        return sum(count for status, count in self.statuses.items() if status != 200)

    def milliseconds(self, share: float) -> float:
        """The latency that this share of the requests stay below."""
        return float(np.quantile(self.latencies, share) * 1e3) if len(self.latencies) else float("nan")


def post(
    port: int,
    bodies: Iterator[bytes],
    clients: int,
    path: str = "/v1/scores",
    kind: str = "application/json",
    repeats: bool = False,
) -> Load:
    """Post every body once, by so many clients with a connection each; `repeats` sends a refused body again."""
    about = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {kind}\r\n"
    head = f"POST {path} HTTP/1.1\r\n{about}Content-Length: ".encode()
    latencies, statuses = list[float](), Counter[int]()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in bodies:
            status = 0
            while not status or repeats and status != 200:
                if status:
                    await asyncio.sleep(1)
                start = time.perf_counter()
                writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
                answer = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(answer.split(b"content-length:")[1].split(b"\r\n")[0]))
                latencies.append(time.perf_counter() - start)
                status = int(answer.split(b" ", 2)[1])
                statuses[status] += 1
        writer.close()
        await writer.wait_closed()

    async def everybody() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return time.perf_counter() - start

    return Load(asyncio.run(everybody()), np.array(latencies), dict(statuses))
