"""Who sits where: a person's name, the slot it took, and the digest of the random key that only its browser has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock

from accord.values import BadInput, canonical_json, read_card, write_whole

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)


@dataclass(frozen=True)
class Participant:
    """A person's place.

    Attributes:
        name: As it stands beside the answers.
        slot: Which of the plan's slots it took, from 0.
        digest: SHA-256 of the person's key; empty where the place waits for its person to come back.
    """

    name: str
    slot: int
    digest: str


class Participants:
    """The seats of one plan, kept in a file that a restarted server reads again; one process at a time uses it.

    Keys are random and never stored: whoever reads the file cannot answer as somebody else.
    """

    def __init__(self, path: Path, slots: int) -> None:
        """Read the seats.

        Raises:
            BadInput: The file cannot be read, is none of seats, or has seats that this plan has not.
        """
        self.path, self.slots = path, slots
        self._lock = Lock()
        self._seats, self._stamp = _read(path), _stamp(path)
        if any(not 0 <= seat.slot < slots for seat in self._seats):
            raise BadInput(f"{path} has seats beyond the {slots} of the plan; name the file of this plan's seats")

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[Participant]:
        return iter(list(self._seats))

    def of(self, key: str) -> Participant | None:
        """The seat of whoever has this key."""
        self._read_again()
        digest = _digest(key)
        return next((seat for seat in self._seats if seat.digest == digest), None) if key else None

    def take(self, name: str, key: str) -> Participant:
        """Seat a person on the next free slot; the same person again gets the same.

        Raises:
            BadInput: The name is no clean id, or somebody else's; this browser has another name; no slot is free.
        """
        if not NAME.fullmatch(name):
            raise BadInput(
                f"the name {name[:60]!r}; allowed: 1 to 40 letters a-z, digits, '.', '_' and '-', beginning with a "
                "letter or a digit. Choose such a name."
            )
        with self._lock:
            mine = self.of(key)
            if mine is not None:
                if mine.name != name:
                    raise BadInput(f"you began as {mine.name!r}; go on under that name, or use another browser")
                return mine
            return self._seated(name, key)

    def _seated(self, name: str, key: str) -> Participant:
        taken = next((seat for seat in self._seats if seat.name.lower() == name.lower()), None)
        if taken is not None and taken.digest:
            raise BadInput(
                f"the name {name!r} is taken; if it is yours, go on in the browser where you began, else choose another"
            )
        if taken is not None:
            return self._keep([seat for seat in self._seats if seat is not taken], replace(taken, digest=_digest(key)))
        free = sorted(set(range(self.slots)) - {seat.slot for seat in self._seats})
        if not free:
            raise BadInput(f"all {self.slots} places are taken; ask whoever invited you for another study")
        return self._keep(self._seats, Participant(name, free[0], _digest(key)))

    def release(self, name: str) -> Participant:
        """Let a person come back from another browser: the next who gives this name takes its seat.

        Raises:
            BadInput: Nobody has this name.
        """
        with self._lock:
            self._read_again()
            found = next((seat for seat in self._seats if seat.name == name), None)
            if found is None:
                raise BadInput(f"nobody is called {name!r}; seated are: {[seat.name for seat in self._seats]}")
            return self._keep([seat for seat in self._seats if seat is not found], replace(found, digest=""))

    def _keep(self, others: list[Participant], seat: Participant) -> Participant:
        """What is on disk first, then what is in memory: a seat that cannot be kept is not given."""
        participants = [*others, seat]
        write_whole(self.path, canonical_json({"seats": [asdict(each) for each in participants]}) + "\n")
        self._seats, self._stamp = participants, _stamp(self.path)
        return seat

    def _read_again(self) -> None:
        """Take in what another command has changed: a seat that was released while pages are served."""
        stamp = _stamp(self.path)
        if stamp != self._stamp:
            self._seats, self._stamp = _read(self.path), stamp


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is put in the place of another; `None` where there is none."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_ino


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def _read(path: Path) -> list[Participant]:
    if not path.exists():
        return []
    try:
        rows = read_card(path)["seats"]
        return [Participant(row["name"], row["slot"], row["digest"]) for row in rows]
    except (OSError, BadInput, KeyError, TypeError) as error:
        raise BadInput(f"{path} holds no seats ({type(error).__name__}); restore it, or name another file") from None
