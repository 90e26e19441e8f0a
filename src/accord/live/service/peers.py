"""Which worker has which conversation, and what one of them asks the others.

Any worker takes any request in. A conversation belongs to one of them by a keyed hash of its id, so that its order and
what was said before are in one memory, whoever connects where, and nobody can aim at a worker who does not know the key
(which is drawn at each start). A batch is cut by owner, each part is scored where it belongs, and the rows are put
together in the order of the batch.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from accord.formats import Fields, decoded_json
from accord.live.ingest import Row, not_taken
from accord.live.messages import Message
from accord.live.service.app import Service
from accord.live.service.fair_queue import Busy, Late
from accord.live.service.links import Address, Link
from accord.live.service.prometheus import Levels

TAKE, TRACE, LEVELS, SETTLE, PING = "take", "trace", "levels", "settle", "ping"
PATIENCE = 2.0
"""Seconds beyond the owner's own limit until it is not waited for."""
ALIVE = 1.0
"""Seconds within which a worker that is well says so."""
_TAKEN = msgspec.msgpack.Decoder(tuple[list[Message], str])
_TRACED = msgspec.msgpack.Decoder(tuple[bytes, str])
_unpack = msgspec.msgpack.decode
Groups = Mapping[str, list[Fields]]
T = TypeVar("T")


class Peers:
    """The workers of one service, from the view of one of them.

    Args:
        own: Its number, from 0.
        addresses: Where each of them answers.
        secret: What they all know, and hash by.
        service: Its own.
    """

    def __init__(self, own: int, addresses: Sequence[Address], secret: bytes, service: Service) -> None:
        self.own, self.service, self._key = own, service, hashlib.sha256(secret + b"owner").digest()
        self._links = [Link(address, secret) for address in addresses]
        self._seconds = service.batcher.seconds + PATIENCE

    def owner(self, conversation: str) -> int:
        """The number of the worker that has a conversation."""
        name = conversation.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(name, key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") % len(self._links)

    # --- asking -------------------------------------------------------------------------------------------------

    async def take(self, batch: Sequence[Message], client: str) -> list[Row]:
        """A row per message; where the part of one worker was not done, its messages say so, and may be sent again.

        Raises:
            Busy, Late: Nothing was done.
            OSError: Scores cannot be kept.
        """
        places: dict[int, list[int]] = {}
        for place, said in enumerate(batch):
            places.setdefault(self.owner(said.conversation), []).append(place)
        parts = [[batch[place] for place in mine] for mine in places.values()]
        asked = (self._taken(owner, part, client) for owner, part in zip(places, parts, strict=True))
        found = await asyncio.gather(*asked, return_exceptions=True)
        failed = [each for each in found if isinstance(each, BaseException)]
        if failed and (len(failed) == len(found) or not all(isinstance(each, Busy | Late) for each in failed)):
            raise next((each for each in failed if not isinstance(each, Busy | Late)), failed[0])
        rows: list[Row] = [cast("Row", None)] * len(batch)
        for mine, part, done in zip(places.values(), parts, found, strict=True):
            if isinstance(done, BaseException):
                reason = str(done) or "too many messages wait; send it again"
                done = [not_taken(said, reason) for said in part]
            for place, row in zip(mine, done, strict=True):
                rows[place] = row
        return rows

    async def _taken(self, owner: int, part: Sequence[Message], client: str) -> list[Row]:
        if owner == self.own:
            return await self.service.take_here(part, client)
        answer = await self._links[owner].ask(TAKE, (part, f"{self.own} {client}"), self._seconds)
        return cast("list[Row]", _unpack(answer))

    async def trace(self, groups: Groups, client: str) -> tuple[list[Row], list[str]]:
        """The rows of what parts of an export tell, and why some tell nothing.

        Raises:
            Busy, Late, OSError: Of one worker; what others took in is recognised when it is sent again.
        """
        parts: dict[int, dict[str, list[Fields]]] = {}
        for name, group in groups.items():
            parts.setdefault(self.owner(name), {})[name] = group
        found = await asyncio.gather(
            *(self._traced(owner, part, client) for owner, part in parts.items()), return_exceptions=True
        )
        for each in found:
            if isinstance(each, BaseException):
                raise each
        done = [each for each in found if not isinstance(each, BaseException)]
        return [row for rows, _ in done for row in rows], [reason for _, bad in done for reason in bad]

    async def _traced(self, owner: int, part: Groups, client: str) -> tuple[list[Row], list[str]]:
        if owner == self.own:
            return await self.service.trace_here(part, client)
        packed = await self.service.aside(_packed, part)
        answer = await self._links[owner].ask(TRACE, (packed, f"{self.own} {client}"), self._seconds)
        return cast("tuple[list[Row], list[str]]", _unpack(answer))

    async def settle(self) -> None:
        """Have all of them put what was watched where reports find it."""
        await asyncio.gather(*self._of_all(SETTLE, self._seconds))

    async def health(self) -> list[dict[str, Any]]:
        """Of each worker whether it answers."""
        found = await asyncio.gather(*self._of_all(PING, ALIVE), return_exceptions=True)
        return [
            {"worker": number + 1, "status": "starting" if isinstance(each, BaseException) else "ok"}
            for number, each in enumerate(found)
        ]

    async def figures(self) -> bytes:
        """What all of them counted, those that ended too, and how much they hold at present, for Prometheus."""
        found = await asyncio.gather(*self._of_all(LEVELS, ALIVE), return_exceptions=True)
        levels = [each for each in found if not isinstance(each, BaseException)]
        return await asyncio.to_thread(_text, levels, self.service)

    def _of_all(self, what: str, seconds: float) -> Iterable[Any]:
        return (self._of(number, what, seconds) for number in range(len(self._links)))

    async def _of(self, number: int, what: str, seconds: float) -> Any:
        if number == self.own:
            return await self.answer(what, b"\xc0")
        return _unpack(await self._links[number].ask(what, None, seconds))

    # --- answering ----------------------------------------------------------------------------------------------

    async def answer(self, what: str, value: bytes) -> Any:
        """What another worker asks of this one."""
        if what == TAKE:
            return await self.service.take_here(*_TAKEN.decode(value))
        if what == TRACE:
            packed, client = _TRACED.decode(value)
            return await self.service.trace_here(await self.service.aside(_unpacked, packed), client)
        if what == SETTLE:
            await asyncio.to_thread(self.service.ingestor.settle)
        return {name: read() for name, (_, read) in self.service.gauges.levels.items()} if what == LEVELS else None

    def close(self) -> None:
        """Let go of connections."""
        for link in self._links:
            link.close()


def _text(levels: Sequence[Mapping[str, float]], service: Service) -> bytes:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    about = {
        name: (told, lambda name=name: sum(each[name] for each in levels))
        for name, (told, _) in service.gauges.levels.items()
    }
    registry.register(Levels(about, service.gauges.about))
    return generate_latest(registry)


def _packed(groups: Groups) -> bytes:
    """Parts of an export as JSON; `json` writes what the faster encoder refuses (half a surrogate pair)."""
    try:
        return msgspec.json.encode(groups)
    except (ValueError, OverflowError):
        return json.dumps(groups).encode("ascii")


def _unpacked(packed: bytes) -> dict[str, list[Fields]]:
    return cast("dict[str, list[Fields]]", decoded_json(packed))
