"""The server's protocol with an end to its patience: connections that ask nothing are let go of."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Gives a request some seconds to arrive in, from the connection or from its first byte on."""

    seconds = 10.0
    late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take in part of a request, and wait for the rest."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        if self.late is not None:
            self.late.cancel()

    def _wait(self) -> None:
        if self._is_asked():
            if self.late is not None:
                self.late.cancel()
            self.late = None
        elif self.late is None:
            self.late = self.loop.call_later(self.seconds, self._give_up)

    def _is_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        if not self._is_asked() and not self.transport.is_closing():
            self.transport.close()


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """The protocol with so many seconds."""
    return type("Impatient", (Impatient,), {"seconds": seconds})
