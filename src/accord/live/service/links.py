"""What workers say to each other: questions with their answers over one connection, and whole requests over another.

A frame is its length in four bytes and MessagePack. A connection begins with the secret that the processes of one
service share, and with what it is for. Everything stays on this machine: the loopback interface, on every system.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from accord.edges import AccordError, BadInput
from accord.live.service.fair_queue import Busy, Late
from accord.live.service.middleware import App, Receive, Scope, Send

ASKING, FORWARDING = "asking", "forwarding"
"""What a connection is for."""
MOST = 1 << 30
"""Bytes that a frame may have; requests are bounded long before."""
GONE = "the worker that has this conversation ended meanwhile; send it again"
_PASSED_ON: dict[str, Callable[[str], Exception]] = {
    "busy": lambda text: Busy(),
    "late": Late,
    "disk": lambda text: OSError(0, text),
    "input": BadInput,
    "error": AccordError,
}
"""Failures that the asking worker answers with as if they were its own."""
_FRAME = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])
_pack = msgspec.msgpack.encode
Address = tuple[str, int]
Answer = Callable[[str, bytes], Awaitable[Any]]
"""What answers a question: its name and its packed value to a value."""


async def read_frame(reader: asyncio.StreamReader, most: int = MOST) -> bytes:
    """The next frame.

    Raises:
        IncompleteReadError: The connection ended.
    """
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > most:
        raise asyncio.IncompleteReadError(b"", size)
    return await reader.readexactly(size)


def write_frame(writer: asyncio.StreamWriter, packed: bytes) -> None:
    """Put a frame on its way."""
    writer.writelines((len(packed).to_bytes(4, "big"), packed))


class Link:
    """Questions to one process, many under way at once; connects when it is first asked, and anew when it was cut off.

    A process that has just ended is started again, and whoever connects meanwhile waits in its queue.
    """

    def __init__(self, address: Address, secret: bytes) -> None:
        self.address, self.secret = address, secret
        self._numbers = count()
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def ask(self, what: str, value: Any, seconds: float) -> bytes:
        """The packed answer.

        Raises:
            Busy, OSError, AccordError: What the other one failed with.
            Late: It did not answer in time, or ended.
        """
        number = next(self._numbers)
        try:
            async with asyncio.timeout(seconds):
                writer = await self._connected()
                answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                self._pending[number] = answered
                write_frame(writer, _pack((number, what, value)))
                return await answered
        except TimeoutError:
            raise Late(f"not scored within {seconds:g} seconds; send it again") from None
        except ConnectionError:
            raise Late(GONE) from None
        finally:
            self._pending.pop(number, None)

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, writer = await asyncio.open_connection(*self.address)
                write_frame(writer, _pack((self.secret, ASKING)))
                self._writer = writer
                self._reading = asyncio.create_task(self._read(reader, writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            while True:
                number, how, value = _FRAME.decode(await read_frame(reader))
                waits = self._pending.pop(number, None)
                if waits is None or waits.done():
                    continue
                if how == "":
                    waits.set_result(bytes(value))
                else:
                    waits.set_exception(_PASSED_ON[how](msgspec.msgpack.decode(value, type=str)))
        self._writer = None
        writer.close()
        pending, self._pending = self._pending, {}
        for waits in pending.values():
            if not waits.done():
                waits.set_exception(Late(GONE))

    def close(self) -> None:
        """Let go of the connection."""
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()


class Listener:
    """Answers what other processes ask, and serves whole requests that they pass on.

    Args:
        secret: What they all know.
        answer: Answers a question.
        app: Serves requests; without one none are taken.
    """

    def __init__(self, secret: bytes, answer: Answer | None = None, app: App | None = None) -> None:
        self.secret, self.answer, self.app = secret, answer, app
        self._tasks = set[asyncio.Task[None]]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            with suppress(OSError, EOFError, msgspec.MsgspecError, asyncio.CancelledError):
                async with asyncio.timeout(10):
                    secret, wanted = msgspec.msgpack.decode(await read_frame(reader, 1024), type=tuple[bytes, str])
                if hmac.compare_digest(secret, self.secret):
                    if wanted == ASKING and self.answer is not None:
                        await self._answer_all(reader, writer, self.answer)
                    elif wanted == FORWARDING and self.app is not None:
                        await _serve(reader, writer, self.app)
        finally:
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
        while True:
            number, what, value = _FRAME.decode(await read_frame(reader))
            task = asyncio.create_task(_answered(answer, writer, number, what, bytes(value)))
            self._tasks.add(task)  # the loop itself keeps no task
            task.add_done_callback(self._tasks.discard)


async def _answered(answer: Answer, writer: asyncio.StreamWriter, number: int, what: str, value: bytes) -> None:
    how, found = "", None
    try:
        found = await answer(what, value)
    except Busy:
        how, found = "busy", ""
    except Late as error:
        how, found = "late", str(error)
    except OSError as error:
        how, found = "disk", error.strerror or str(error)
    except AccordError as error:
        how, found = ("input" if isinstance(error, BadInput) else "error"), str(error)
    except Exception as error:
        how, found = "error", f"{type(error).__name__}, which is a bug; please report it"
    with suppress(OSError):
        write_frame(writer, _pack((number, how, found)))


# --- whole requests -------------------------------------------------------------------------------------------------

_PASSED = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers",
           "client", "server")  # fmt: skip


class Forwarded:
    """An ASGI application that another process serves, event by event."""

    def __init__(self, address: Address, secret: bytes) -> None:
        self.address, self.secret = address, secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back as it comes."""
        if scope["type"] != "http":
            return
        begun = False
        sending: asyncio.Task[None] | None = None
        try:
            reader, writer = await asyncio.open_connection(*self.address)
            write_frame(writer, _pack((self.secret, FORWARDING)))
            write_frame(writer, _pack({name: scope[name] for name in _PASSED if name in scope}))
            sending = asyncio.create_task(_pass_on(receive, writer))
            while True:
                event = msgspec.msgpack.decode(await read_frame(reader))
                begun = True
                await send(event)
                if event["type"] == "http.response.body" and not event.get("more_body"):
                    break
        except (OSError, EOFError):
            if not begun:
                from starlette.responses import JSONResponse

                told = {"error": "the pages are not served at this moment; ask again in a second"}
                await JSONResponse(told, 503, {"Retry-After": "1"})(scope, receive, send)
        finally:
            if sending is not None:
                sending.cancel()
                writer.close()


async def _pass_on(receive: Receive, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while True:
            event = await receive()
            write_frame(writer, _pack(dict(event)))
            await writer.drain()
            if event["type"] == "http.disconnect":
                return


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, app: App) -> None:
    """Serve one request that was passed on."""
    scope = msgspec.msgpack.decode(await read_frame(reader))
    scope["headers"] = [tuple(each) for each in scope["headers"]]
    for name in ("client", "server"):
        if scope.get(name) is not None:
            scope[name] = tuple(scope[name])
    scope["asgi"] = {"version": "3.0", "spec_version": "2.3"}
    scope["extensions"] = {}

    async def receive() -> Any:
        try:
            return msgspec.msgpack.decode(await read_frame(reader))
        except (OSError, EOFError):
            return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        write_frame(writer, _pack(dict(event)))
        await writer.drain()

    await app(scope, receive, send)
