"""Logs that are rotated: however many times, under whatever names, packed or copied; every line once, or said to be lost."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from waiting import until

from accord.edges import BadInput
from accord.live import Follower, Ingestor, Message, RowLog, rotation
from accord.live import log_files as logfiles
from accord.live import log_follower as room

PACKS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
NAMES: dict[str, Callable[[int], str]] = {
    "number": lambda turn: "log.jsonl.1",
    "date": lambda turn: f"log.jsonl-202611{turn:02}",
    "time": lambda turn: f"log.jsonl.2026-11-23_10-{turn:02}",
    "infix": lambda turn: f"log-202611{turn:02}.jsonl",
    "short": lambda turn: "log.1",
}


class Scorer:
    """Scores nothing, and says of each reply which turn of its conversation it is."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        self.room = None  # what the log keeps is not counted here

    @property
    def scorer(self) -> Scorer:
        return self

    def settle(self) -> None:
        """There is nothing to settle."""

    def take(self, batch: Sequence[Message]) -> list[dict[str, Any]]:
        rows = []
        for said in batch:
            turn = self.turns[said.conversation] = self.turns.get(said.conversation, -1) + 1
            status = "scored" if said.role == "assistant" else "heard"
            rows.append({"status": status, "conversation": said.conversation, "turn": turn, "id": said.content})
        return rows


class World:
    """A log, who writes to it, and who rotates it."""

    def __init__(self, folder: Path, naming: str = "number", pack: str = "", first: str = "") -> None:
        self.folder, self.naming, self.pack, self.first = folder, naming, pack, first
        self.log, self.said, self.turn, self.told = folder / "log.jsonl", 0, 0, list[str]()

    def line(self) -> str:
        row = {"conversation": f"c{self.said // 3}", "role": "assistant", "content": str(self.said)}
        self.said += 1
        return json.dumps(row) + "\n"

    def write(self, count: int, mode: str = "a") -> None:
        is_new = not self.log.exists() or self.log.stat().st_size == 0
        text = (self.first if is_new or mode == "w" else "") + "".join(self.line() for _ in range(count))
        with self.log.open(mode) as log:
            log.write(text)

    def shift(self) -> None:
        """Older files make room for the first number."""
        for path in sorted(self.folder.glob("log*.[0-9]*"), key=lambda path: -number(path)):
            before, ending = path.name.removesuffix(self.pack).rsplit(".", 1)
            path.rename(self.folder / f"{before}.{int(ending) + 1}{self.pack if path.name.endswith(self.pack) else ''}")

    def rotate(self, packed: bool = True) -> Path:
        self.turn += 1
        if self.naming in ("number", "short"):
            self.shift()
        found = self.log.rename(self.folder / NAMES[self.naming](self.turn))
        return packed_away(found, self.pack) if packed else found

    def copy(self) -> Path:
        """What logrotate's copytruncate does, up to the cut."""
        self.turn += 1
        if self.naming == "number":
            self.shift()
        found = self.folder / NAMES[self.naming](self.turn)
        found.write_bytes(self.log.read_bytes())
        return found

    def follower(self, rows: RowLog, **more: Any) -> Follower:
        ingestor = cast(Ingestor, Scorer())
        return Follower(self.log, ingestor, rows, self.folder / "place", say=self.told.append, **more)

    def once(self) -> int:
        """What a fresh process does: read to the present end, and say how often something was lost."""
        with RowLog(self.folder / "rows") as rows:
            follower = self.follower(rows)
            follower.run(once=True)
        return follower.gaps

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "rows").read_text().splitlines()]

    def found(self) -> list[int]:
        return [int(row["id"]) for row in self.rows() if row["status"] == "scored"]


def number(path: Path) -> int:
    return int(next(part for part in reversed(path.name.split(".")) if part.isdigit()))


def packed_away(path: Path, ending: str) -> Path:
    """The file packed, as gzip does it: its time is kept, and the plain file goes last."""
    if not ending:
        return path
    found, seen = path.with_name(path.name + ending), path.stat()
    found.write_bytes(PACKS[ending](path.read_bytes()) if ending in PACKS else b"\x28\xb5\x2f\xfd" + bytes(20))
    os.utime(found, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    path.unlink()
    return found


@pytest.fixture(autouse=True)
def _everything_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfiles, "GRACE", 0.0)


@pytest.mark.parametrize("pack", ["", ".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("naming", NAMES)
def test_any_number_of_rotations_between_two_looks(tmp_path: Path, naming: str, pack: str) -> None:
    world = World(tmp_path, naming, pack)
    for rotations in (0, 1, 2, 3, 5, 0, 1):
        for _ in range(rotations):
            world.write(4)
            world.rotate()
        world.write(3)
        assert world.once() == 0
        assert world.found() == list(range(world.said))
    assert not world.told


@pytest.mark.parametrize("naming", ["number", "date"])
def test_the_newest_rotated_file_is_packed_one_rotation_late(tmp_path: Path, naming: str) -> None:
    world, late = World(tmp_path, naming), Path()
    for _ in range(6):
        world.write(2)
        world.once()
        world.write(2)
        if late.name:
            packed_away(late, ".gz")
            world.pack = ".gz"
        late = world.rotate(packed=False)
        if naming == "number":
            late = tmp_path / "log.jsonl.1"
        world.write(1)
    assert world.once() == 0 and world.found() == list(range(world.said)) and not world.told


def test_a_hundred_rotated_files_are_read_in_their_order_and_the_place_stays_small(tmp_path: Path) -> None:
    world = World(tmp_path, "number", ".gz")
    world.write(1)
    os.utime(world.log, (0, 0))
    world.once()
    for _ in range(100):
        world.write(2)
        moment = time.time() - 10_000 + world.turn
        os.utime(world.log, (moment, moment))
        world.rotate()
    world.write(1)
    assert world.once() == 0 and world.found() == list(range(world.said))
    assert (tmp_path / "place").stat().st_size < 10_000
    assert world.once() == 0 and world.found() == list(range(world.said))


def test_what_was_rotated_before_the_log_was_first_read_is_none_of_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.write(2)
        world.rotate()
    before = world.said
    if not world.log.exists():
        world.log.touch()
    assert world.once() == 0 and (tmp_path / "place").exists()
    world.write(2)
    world.rotate()
    world.write(2)
    assert world.once() == 0 and world.found() == list(range(before, world.said))


@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("read_first", [0, 1, 2, 4])
def test_files_that_begin_alike(tmp_path: Path, pack: str, read_first: int) -> None:
    """With a first line that all have in common, down to files that hold nothing else."""
    head = json.dumps({"conversation": "boot", "role": "user", "content": "started"}) + "\n"
    world = World(tmp_path, "number", pack, head)
    for count in (3, 0, 2):
        world.write(count)
        world.rotate()
    world.write(read_first)
    assert world.once() == 0
    start = world.said - read_first
    for count in (2, 0, 3, 0, 1):
        world.write(count)
        world.rotate()
    world.write(2)
    assert world.once() == 0
    assert world.found() == list(range(start, world.said))


def test_empty_files_are_no_gap(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(2)
    world.once()
    for count in (1, 0, 0, 2, 0):
        world.log.touch()
        world.write(count)
        world.rotate()
    world.log.touch()
    assert world.once() == 0 and world.found() == list(range(world.said)) and not world.told


@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_a_line_that_stands_in_two_files_is_one(tmp_path: Path, how: str) -> None:
    world = World(tmp_path)
    world.write(2)
    world.once()
    line = world.line()
    with world.log.open("a") as log:
        log.write(line[:30])
    if how == "renamed":
        world.rotate()
    else:
        world.copy()
    world.log.write_text(line[30:])
    world.write(2)
    world.once()
    world.write(1)
    world.once()
    assert world.found() == list(range(world.said)) and all(row["status"] == "scored" for row in world.rows())


def test_a_line_that_is_never_finished_is_said_once_and_one_that_is_late_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfiles, "GRACE", 60.0)
    world = World(tmp_path)
    world.write(1)
    half = world.line()
    with world.log.open("a") as log:
        log.write(half[:30])
    world.once()
    path = world.rotate()
    world.write(1)
    world.once()
    assert world.found() == [0, 2]
    with path.open("a") as log:
        log.write(half[30:])
    world.once()
    assert world.found() == [0, 2, 1]
    torn = world.line()
    with world.log.open("a") as log:
        log.write(torn[:30])
    world.rotate()
    world.write(1)
    world.once()
    assert world.found() == [0, 2, 1, 4]
    monkeypatch.setattr(logfiles, "GRACE", 0.0)
    for _ in range(3):
        world.once()
    assert world.found() == [0, 2, 1, 4]
    assert [row["error"] for row in world.rows() if row["status"] == "refused"] == ["the line is no JSON"]


@pytest.mark.parametrize("pack", ["", ".gz"])
def test_a_copy_of_what_was_cut_short_is_read_on_and_the_cut_is_said(tmp_path: Path, pack: str) -> None:
    world = World(tmp_path)
    world.write(3)
    world.once()
    for _ in range(2):
        world.write(2)
        packed_away(world.copy(), pack)
        world.pack = pack
        world.write(1, "w")
    assert world.once() > 0 and world.found() == list(range(world.said))
    assert len(world.told) == 1 and "was copied and cut short" in world.told[0]
    assert world.once() == 0 and world.found() == list(range(world.said))


@pytest.mark.parametrize("pack", ["", ".gz"])
def test_copies_of_a_log_that_was_empty_when_it_was_looked_at_are_read(tmp_path: Path, pack: str) -> None:
    world = World(tmp_path, "number", pack)
    world.log.touch()
    assert world.once() == 0
    for _ in range(3):
        world.write(2)
        packed_away(world.copy(), pack)
        os.truncate(world.log, 0)
    world.write(1)
    assert world.once() == 1 and "was copied and cut short" in world.told[0]
    assert world.once() == 0 and world.found() == list(range(world.said))


@pytest.mark.parametrize("count", [0, 1, 40])
def test_a_log_that_was_cut_short_is_said_and_read_anew(tmp_path: Path, count: int) -> None:
    world = World(tmp_path)
    world.write(10)
    world.once()
    world.write(count, "w")  # shorter than it was, or longer by now
    assert world.once() == 1 and "up to byte" in world.told[0] and "cut short" in world.told[0]
    assert world.once() == 0 and world.found() == list(range(world.said)) and len(world.told) == 1


@pytest.mark.slow
@pytest.mark.parametrize("gone", [(1,), (2,), (1, 2), (3,), (1, 2, 3)])
def test_rotated_files_that_are_gone_are_said_and_counted(tmp_path: Path, gone: tuple[int, ...]) -> None:
    world = World(tmp_path)
    world.write(2)
    world.once()
    for _ in range(3):
        world.write(2)
        world.rotate()
    world.write(2)
    lost = set[int]()
    for which in gone:
        path = tmp_path / f"log.jsonl.{which}"
        lost |= {int(json.loads(line)["content"]) for line in path.read_text().splitlines()} - {0, 1}
        path.unlink()
    assert world.once() > 0
    assert world.found() == [each for each in range(world.said) if each not in lost]
    unread = [which for which in gone if which != 3]
    if unread and 3 not in gone:
        assert f"rotated files that were never read are gone, {len(unread)} in all" in world.told[0]
        assert all(f"log.jsonl.{which}" in world.told[0] for which in unread)
    else:
        assert "is gone; what followed" in world.told[0]
    assert world.once() == 0


def test_files_that_were_read_may_be_deleted(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(5):
        world.write(2)
        world.rotate()
        world.write(1)
        world.once()
        for path in tmp_path.glob("log.jsonl.*"):
            path.unlink()
    assert not world.told or "gone" not in " ".join(world.told)
    assert world.found()[-1] == world.said - 1


@pytest.mark.parametrize("naming", ["number", "date"])
def test_what_cannot_be_unpacked_is_waited_for(tmp_path: Path, naming: str) -> None:
    world = World(tmp_path, naming)
    world.write(2)
    world.once()
    world.write(2)
    plain = world.rotate()
    world.write(2)
    content = plain.read_bytes()
    found = packed_away(plain, ".zst")
    place = (tmp_path / "place").read_bytes()
    with pytest.raises(BadInput, match=r"\.zst is packed .* unzstd unpacks it.* move it away to go on without it"):
        world.once()
    assert (tmp_path / "place").read_bytes() == place and world.found() == [0, 1]
    found.unlink()
    plain.write_bytes(content)
    assert world.once() == 0 and world.found() == list(range(world.said))


def test_a_file_that_was_read_whole_may_be_packed_in_any_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(2)
    path = world.folder / "log.jsonl.1"
    world.once()
    world.rotate()
    packed_away(path, ".zst")
    world.write(2)
    assert world.once() == 0 and world.found() == list(range(world.said)) and not world.told


def test_a_broken_archive_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, "number", ".gz")
    world.write(2)
    world.once()
    world.write(400)
    path = world.rotate()
    whole = path.read_bytes()
    world.write(2)
    path.write_bytes(whole[:-200])
    with pytest.raises(BadInput, match=r"log\.jsonl\.1\.gz is a broken gzip file: .* move it away"):
        world.once()
    path.write_bytes(whole)
    assert world.once() == 0 and world.found() == list(range(world.said))


def test_half_an_archive_beside_the_file_it_is_made_of_is_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(2)
    world.once()
    world.write(2)
    path = world.rotate()
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes())[:20])
    world.write(1)
    assert world.once() == 0 and world.found() == list(range(world.said))


def test_other_logs_and_folders_beside_it_are_none_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(1)
    world.once()
    row = json.dumps({"conversation": "x", "role": "assistant", "content": "999"}) + "\n"
    world.rotate()
    for name in (
        "log-2.jsonl",
        "log2.jsonl",
        "log-of-another.jsonl",
        "log.jsonl.backup",
        "other.jsonl.1",
        "log.json.2",
    ):
        (tmp_path / name).write_text(row)
    (tmp_path / "log.jsonl.2").mkdir()
    (tmp_path / "log.jsonl.3").symlink_to(world.folder / "log.jsonl.1")
    os.mkfifo(tmp_path / "log.jsonl.4")
    world.write(1)
    assert world.once() == 0 and world.found() == [0, 1]


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link to a pipe"])
def test_only_regular_files_are_followed(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    if kind == "folder":
        world.log.mkdir()
    elif kind == "device":
        world.log = Path("/dev/null")
    else:
        os.mkfifo(tmp_path / "pipe" if "link" in kind else world.log)
        if "link" in kind:
            world.log.symlink_to(tmp_path / "pipe")
    what = {"folder": "a folder", "device": "a device"}.get(kind, "a named pipe")
    with pytest.raises(BadInput, match=f"is {what}, not a file; name a file"):
        world.once()


def test_a_link_is_followed_to_where_its_files_are_rotated(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    world, link = World(tmp_path / "real"), tmp_path / "link.jsonl"
    link.symlink_to(world.log)
    with RowLog(tmp_path / "real" / "rows") as rows:
        for _ in range(3):
            world.write(2)
            world.rotate()
            world.write(1)
            Follower(link, cast(Ingestor, Scorer()), rows, tmp_path / "place", say=world.told.append).run(once=True)
    assert world.found() == list(range(2, world.said)) and not world.told


@pytest.mark.parametrize("killed", range(1, 8))
def test_killed_anywhere_each_line_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int) -> None:
    """The process ends between rows and place, within a file and between files, and more is rotated meanwhile."""
    monkeypatch.setattr(room, "AT_ONCE", 2)
    monkeypatch.setattr(room, "SECONDS", 0.0)
    world = World(tmp_path, "number", ".gz")
    world.write(3)
    world.once()
    for _ in range(3):
        world.write(3)
        world.rotate()
    world.write(3)
    note, noted = room.Place.write, list[int]()

    def dies(place: room.Place, path: Path) -> None:
        noted.append(1)
        if len(noted) == killed:
            raise KeyboardInterrupt
        note(place, path)

    monkeypatch.setattr(room.Place, "write", dies)
    with pytest.raises(KeyboardInterrupt):
        world.once()
    monkeypatch.setattr(room.Place, "write", note)
    world.write(2)
    world.rotate()
    world.write(2)
    assert world.once() == 0 and world.found() == list(range(world.said))
    assert world.once() == 0 and world.found() == list(range(world.said))


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("seconds_apart", [0, 2])
@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("batches", range(1, 10))
def test_follower_stopped_while_catching_up_resumes_with_the_unread_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int, pack: str, seconds_apart: int, is_killed: bool
) -> None:
    """Stop after each batch of rows; a kill also loses the place of the last batch."""
    monkeypatch.setattr(room, "AT_ONCE", 2)
    monkeypatch.setattr(room, "SECONDS", 0.0)
    world, start = World(tmp_path, "number", pack), time.time() - 1000
    world.write(3)
    os.utime(world.log, (start, start))
    world.once()
    for rotations in range(4):
        modified = start + seconds_apart * rotations
        os.utime(world.log, (modified, modified))
        world.rotate()
        world.write(4)
    os.utime(world.log, (start + seconds_apart * 4,) * 2)
    write, written, stop = RowLog.write, list[int](), threading.Event()

    def write_and_stop(rows: RowLog, found: Sequence[dict[str, Any]]) -> None:
        write(rows, found)
        written.extend([1] * bool(found))
        if len(written) == batches:
            if is_killed:
                raise KeyboardInterrupt
            stop.set()

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt), RowLog(tmp_path / "rows") as rows:
        patched.setattr(RowLog, "write", write_and_stop)
        world.follower(rows, stop=stop).run(once=True)
    assert len(written) == min(batches, 8)
    assert world.once() == 0 and world.found() == list(range(world.said)) and not world.told


def killed_with_its_first_rows(world: World, monkeypatch: pytest.MonkeyPatch, are_written: bool) -> None:
    """A follower that dies right before or right after its first rows are on the disk."""
    monkeypatch.setattr(room, "AT_ONCE", 2)
    write = RowLog.write

    def dies(rows: RowLog, found: Sequence[dict[str, Any]]) -> None:
        if are_written:
            write(rows, found)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RowLog, "write", dies)
        world.once()


@pytest.mark.parametrize("are_written", [True, False])
@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("naming", NAMES)
def test_follower_killed_with_its_first_rows_resumes_in_the_rotated_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, naming: str, pack: str, are_written: bool
) -> None:
    world = World(tmp_path, naming, pack)
    world.write(100)
    killed_with_its_first_rows(world, monkeypatch, are_written)
    world.rotate()
    world.write(2)
    assert world.once() == 0 and world.found() == list(range(102)) and not world.told


@pytest.mark.parametrize("are_written", [True, False])
def test_follower_killed_with_its_first_rows_resumes_in_the_truncated_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_written: bool
) -> None:
    world = World(tmp_path)
    world.write(100)
    killed_with_its_first_rows(world, monkeypatch, are_written)
    world.copy()
    world.write(2, mode="w")
    world.once()
    assert world.found() == list(range(102))


def test_conversations_go_on_across_files_and_processes(tmp_path: Path) -> None:
    """Rows that repeat the conversation so far are told apart by what stands in files of before."""
    world = World(tmp_path, "number", ".gz")
    turns: list[dict[str, str]] = []
    for place in range(8):
        turns += [{"role": "user", "content": f"q{place}"}, {"role": "assistant", "content": str(place)}]
        with world.log.open("a") as log:
            log.write(json.dumps({"id": "c", "messages": turns}) + "\n")
        world.once()
        if place % 2:
            world.rotate()
    assert world.found() == list(range(8))
    assert [row["turn"] for row in world.rows()] == list(range(1, 16, 2))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[[World], None]]:
    """Follows a world in a thread until the test ends."""
    stop, threads = threading.Event(), list[threading.Thread]()

    def start(world: World) -> None:
        def run() -> None:
            with RowLog(world.folder / "rows") as rows:
                world.follower(rows, stop=stop).run(every=0.02)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[0].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()


def wait_for(world: World, count: int) -> None:
    until(lambda: (world.folder / "rows").exists() and len(world.found()) >= count, lambda: (world.found(), world.told))


@pytest.mark.parametrize("pack", ["", ".gz", ".zst"])
@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_rotated_under_a_reader(
    tmp_path: Path, running: Callable[[World], None], pack: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many times between two looks; what is packed in a way that is not read was read before."""
    monkeypatch.setattr(logfiles, "GRACE", 0.1)
    world = World(tmp_path, "number", pack)
    world.write(2)
    running(world)
    wait_for(world, 2)
    for _ in range(4):
        for _ in range(1 if pack == ".zst" else at_once):
            world.write(2)
            if pack == ".zst":
                wait_for(world, world.said)
            world.rotate()
        world.write(1)
        wait_for(world, world.said)
    assert world.found() == list(range(world.said)) and not world.told


@pytest.mark.parametrize("pack", ["", ".gz"])
def test_rotated_between_a_look_at_the_folder_and_the_opening_of_the_log(
    tmp_path: Path, running: Callable[[World], None], pack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new log has the number of the one that was seen: disks give numbers again."""
    world, rotated = World(tmp_path, "number", pack), threading.Event()

    def opens(path: Path, number: int = 0, is_moved: bool = False) -> logfiles.LogFile:
        if path == world.log and number == 1 and not rotated.is_set():
            packed_away(world.copy(), pack)
            world.write(1, "w")
            rotated.set()
        return logfiles.LogFile(path, number, is_moved)

    monkeypatch.setattr(rotation, "LogFile", opens)
    world.write(2)
    running(world)
    wait_for(world, 2)
    coming = world.folder / "coming"
    coming.write_text(world.line() + world.line())
    world.rotate()
    coming.rename(world.log)
    assert rotated.wait(60)
    wait_for(world, world.said)
    assert world.found() == list(range(world.said))


def test_a_writer_that_is_slow_to_leave_a_file_is_heard(
    tmp_path: Path, running: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfiles, "GRACE", 1e9)
    world = World(tmp_path)
    world.write(2)
    running(world)
    wait_for(world, 2)
    with world.log.open("a") as slow:
        world.rotate()
        world.write(1)
        wait_for(world, 3)
        slow.write(world.line())
    wait_for(world, 3)


def test_deleted_under_a_reader_it_is_read_to_its_end(tmp_path: Path, running: Callable[[World], None]) -> None:
    world = World(tmp_path)
    world.write(2)
    running(world)
    wait_for(world, 2)
    for _ in range(3):
        world.write(3)
        world.log.unlink()
        world.write(2)
        wait_for(world, world.said)
    assert world.found() == list(range(world.said)) and not world.told


def test_cut_short_under_a_reader_it_is_said_at_once(tmp_path: Path, running: Callable[[World], None]) -> None:
    world = World(tmp_path)
    world.write(5)
    running(world)
    wait_for(world, 5)
    copy = world.copy()
    world.write(1)  # after the copy, before the cut: it was read
    wait_for(world, 6)
    assert json.loads(copy.read_text().splitlines()[-1])["content"] == "4"
    world.write(1, "w")
    wait_for(world, 7)
    assert world.found() == list(range(7)) and len(world.told) == 1 and "cut short" in world.told[0]


FIRST_VERSION = {"file": "", "offset": 0, "back": 0, "tail": ""}


@pytest.mark.parametrize("rotations", [0, 2])
def test_a_place_of_version_0_1_is_gone_on_from(tmp_path: Path, rotations: int) -> None:
    world = World(tmp_path)
    world.write(3)
    content = world.log.read_bytes()
    tail, line = content[-256:], content.split(b"\n")[0]
    known = f"{world.log.stat().st_ino}-{logfiles.digest(line)}"
    noted = {"file": known, "offset": len(content), "back": 0, "tail": logfiles.digest(tail)}
    (tmp_path / "place").write_text(json.dumps(noted))
    for _ in range(rotations):
        world.write(2)
        world.rotate()
    world.write(2)
    assert world.once() == 0 and world.found() == list(range(3, world.said))
    assert json.loads((tmp_path / "place").read_text())["version"] == 2


def damaged(content: str) -> dict[str, str]:
    known = json.loads(content)
    mark = known["files"][0]
    return {
        "cut off": content[: len(content) // 2],
        "empty": "",
        "zeros": "\0" * 40,
        "a list": "[]",
        "a first version without a place": '{"file": "x", "offset": -5, "back": 0, "tail": ""}',
        "an offset below zero": json.dumps({**known, "files": [{**mark, "offset": -1}]}),
        "a text for a number": json.dumps({**known, "files": [{**mark, "inode": "7"}]}),
        "a field too many": json.dumps({**known, "more": 1}),
        "a field too few": json.dumps({"version": 2}),
        "a later version": json.dumps({**known, "version": 3}),
    }


def test_a_damaged_place_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(2)
    world.once()
    for what, content in damaged((tmp_path / "place").read_text()).items():
        if what == "a field too few":
            continue
        (tmp_path / "place").write_text(content)
        with pytest.raises(
            BadInput, match=r"place .*(is damaged and notes no place|is of version 3).*remove it to read"
        ) as caught:
            world.once()
        assert "\n" not in str(caught.value), what
    (tmp_path / "place").unlink()
    (tmp_path / "place").mkdir()
    with pytest.raises(BadInput, match="place is a folder"):
        world.once()
