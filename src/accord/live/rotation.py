"""A log that is rotated, as one chain of files: each is read from where it was left, whatever it is called by now.

Which files were read is told by what they hold, never by their names, so that a file that is renamed, packed or copied
and cut short is neither passed over nor read twice. Names only say which others belong to the log, and in which order.
A file that has been rotated is kept open until its writer has left it; then it may be deleted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from accord.edges import BadInput, regular_size, unpacked_name
from accord.live.log_files import SECOND, Entry, LogFile, Mark, listed, names

KEPT = 32
"""The most files that are remembered once nothing more is looked for in them."""
AHEAD = 64
"""The most files that are held open until they are read."""
SETTLES = 1.0
"""Seconds that a rotation which is under way is waited for."""


class Chain:
    """The files of a log, each handed out until it is read to its end.

    Args:
        path: What the log is called.
        marks: How far its files were read; `None` where that begins now.
        say: Told in a line of what could not be found.
        not_these: Files beside the log that are none of its own.
    """

    def __init__(
        self, path: Path, marks: Sequence[Mark] | None, say: Callable[[str], None], not_these: Collection[Path] = ()
    ) -> None:
        self.path, self.say, self.not_these = path, say, {each.resolve() for each in not_these}
        self.held: list[LogFile] = []
        self.gaps = 0  # how many times something was lost
        self._cut: LogFile | None = None
        self._is_copied = False
        self._closed = {mark.number: mark for mark in marks or ()}
        if marks is None:
            self._begin()

    def _begin(self) -> None:
        """Pass over what was rotated before the log was first read; the newest ones, since others are older anyway."""
        rotated = [entry for entry in self._listed() if entry.stamp]
        newest = max((entry.wrote for entry in rotated), default=0)
        for number, entry in enumerate(e for e in rotated if e in rotated[-2:] or _is_since(e, newest)):
            mark = Mark(number, entry.inode, None, 0, "", 0, "", entry.wrote)
            try:
                with LogFile(entry.path, number) as file:
                    file.go_to(sys.maxsize if file.is_packed else entry.size)
                    mark = file.mark
            except (BadInput, FileNotFoundError):
                pass
            self._closed[number] = replace(mark, state="done")

    def _listed(self) -> list[Entry]:
        with suppress(FileNotFoundError):
            regular_size(self.path)
        return listed(self.path, self.not_these)

    def _is_still(self, there: Sequence[Entry]) -> bool:
        """Whether the log and its rotated files are called as they were: what was opened by name is what was meant.

        A new log may have the number of the one that was seen, which then stands before it.
        """
        before, now = ([entry for entry in each if entry.stamp is not None] for each in (there, self._listed()))
        return names(before) == names(now)

    @property
    def marks(self) -> list[Mark]:
        """The mark of each file that was read, oldest first, and of the log unless an unread file precedes it.

        A listed log means that no file between it and the one before is unread, so listing it early would lose those.
        """
        read = next((place for place, file in enumerate(self.held) if file.at == 0 and file.is_moved), len(self.held))
        held = {f.number: f.mark for place, f in enumerate(self.held) if f.at > 0 or place < read}
        every = sorted({**self._closed, **held}.values(), key=lambda mark: mark.number)
        since = every[-1].wrote // SECOND if every else 0
        done = [mark.number for mark in every if mark.state == "done" and mark.wrote // SECOND < since][:-KEPT]
        return [mark for mark in every if mark.number not in done]

    def files(self) -> Iterator[LogFile]:
        """Each file to read on, oldest first and the log itself last; it is to be read to its present end.

        Raises:
            BadInput: The log is no regular file, or a rotated one cannot be unpacked.
        """
        for file in list(self.held):
            file.is_moved = file.is_moved or self._is_moved(file)
            if self._is_whole(file):
                yield file
        while not self._is_at_log():
            last = self.held[-1] if self.held else None
            if last is not None and not last.is_moved and self._is_moved(last):
                last.is_moved = True
                yield last  # what came before it was moved
            opened = self._open_next()
            if not opened:
                return
            yield from opened

    def _is_at_log(self) -> bool:
        last = self.held[-1] if self.held else None
        if last is None or last.is_moved or last.at == 0:  # an empty one may have been cut short since it was looked at
            return False
        return self._is_whole(last) and not self._is_moved(last)

    def _is_whole(self, file: LogFile) -> bool:
        """Whether a file is what was read; else it is let go, and looked for under other names."""
        if file not in self.held or not file.is_cut():
            return file in self.held
        self.held.remove(file)
        self._closed[file.number], self._cut = replace(file.mark, state="open"), file
        file.close()
        return False

    def _is_moved(self, file: LogFile) -> bool:
        """Whether the log's name stands for another file by now."""
        try:
            return self.path.stat().st_ino != file.inode
        except FileNotFoundError:
            return False

    def finish(self, file: LogFile) -> None:
        """Let go of a file in which nothing more is looked for."""
        self.held.remove(file)
        self._closed[file.number] = replace(file.mark, state="done")
        self._closed = {mark.number: mark for mark in self.marks if mark.number in self._closed}
        file.close()

    def before(self, back: tuple[int, int]) -> Iterator[tuple[LogFile, int]]:
        """Each file that was read from a place on, opened there, and how far it was read."""
        marks = {mark.number: mark for mark in self.marks}
        since = min((mark.wrote for number, mark in marks.items() if number >= back[0]), default=0)
        for number, entry in sorted(self._known(self._listed(), since).items()):
            if number >= back[0]:
                with suppress(BadInput, FileNotFoundError), LogFile(entry.path, number) as file:
                    if file.go_to(back[1] if number == back[0] else 0):
                        yield file, marks[number].offset

    def close(self) -> None:
        """Let go of all files."""
        for file in self.held:
            file.close()

    # --- which file comes next ---------------------------------------------------------------------------------------

    def _open_next(self) -> list[LogFile]:
        """Open what follows the files that are held: the rest of others that were begun, new ones, the log."""
        until = time.monotonic() + SETTLES
        while True:
            there = self._listed()
            known = self._known(there)
            for number, entry in known.items():
                if number in self._closed and not _is_readable(entry):  # and nothing was written to it since
                    self._closed[number] = replace(self._closed[number], state="done")
            missing = self._missing(there, known)
            opened = None if missing and time.monotonic() < until else self._opened(known, self._new(there, known))
            if opened == [] or (opened and self._is_still(there)):
                break
            for file in opened or ():
                file.close()
            time.sleep(0.02)  # a rotation is under way
        self._tell(there, known, missing)
        self._cut = None
        self.held += opened
        for file in opened:
            self._closed.pop(file.number, None)
        return opened

    def _known(self, there: Sequence[Entry], since: int | None = None) -> dict[int, Entry]:
        """Which files are those that were read, by their numbers; the surest signs come first.

        Those in which nothing more is looked for are only looked for among files that were written `since`.
        """
        held, marks = {file.inode: file.number for file in self.held}, self.marks
        recent = [e for e in there if e.is_log or _is_since(e, self._since() if since is None else since)]
        found = {held[entry.inode]: entry for entry in there if entry.inode in held}
        for fits, among in (
            (_by_inode, recent),
            (_by_all, recent),
            (_by_content, recent),
            (_by_inode, there),
            (_by_content, there),
            (_by_time, recent),
        ):
            for mark in marks:
                if mark.number not in found and (among is recent or mark.state != "done"):
                    taken = {entry.inode for entry in found.values()}
                    entry = next((e for e in among if e.inode not in taken and fits(e, mark)), None)
                    found |= {} if entry is None else {mark.number: entry}
        return found

    def _since(self) -> int:
        """When the last file that was read was written last: what follows it is not older."""
        marks = self.marks
        return marks[-1].wrote if marks else 0

    def _new(self, there: Sequence[Entry], known: dict[int, Entry]) -> list[Entry]:
        """Files that were never read, and come after those that were."""
        taken = {entry.inode for entry in known.values()}
        rotated = [e for e in there if e.stamp and e.size and _is_since(e, self._since()) and e.inode not in taken]
        logs = [e for e in there if e.is_log]
        number = next((number for number, entry in known.items() if entry.is_log), None)
        if number is not None and rotated and self._is_empty(number):
            self._let_go(number)  # it is still the same file, so that these are copies of what it held
            known.pop(number)
            self._is_copied = True
            return [*rotated, *logs]
        if number is not None:  # the log is what it was: nothing was rotated since
            return []
        return [*(entry for entry in rotated if not self._is_short_copy(entry)), *logs]

    def _is_empty(self, number: int) -> bool:
        return all(mark.offset == 0 for mark in self.marks if mark.number == number)

    def _let_go(self, number: int) -> None:
        """Take the log, of which nothing was read, for a file that is new."""
        for file in [file for file in self.held if file.number == number]:
            self.held.remove(file)
            file.close()
        self._closed.pop(number, None)

    def _is_short_copy(self, entry: Entry) -> bool:
        """Whether it is a copy of what was cut short, made before the end of that was read."""
        if self._cut is None:
            return False
        try:
            with LogFile(entry.path, self._cut.number) as file:
                if not file.begins(self._cut):
                    return False
                file.go_to(sys.maxsize if file.is_packed else entry.size)
                self._closed[file.number] = replace(file.mark, state="done")  # it stands for what was cut short
                self._is_copied = True
                return True
        except (BadInput, FileNotFoundError):
            return False

    def _opened(self, known: dict[int, Entry], new: Sequence[Entry]) -> list[LogFile] | None:
        """Files, each where reading goes on in it; `None` where one was renamed meanwhile."""
        begun = [(number, entry) for number, entry in sorted(known.items()) if self._goes_on(number, entry)]
        following = enumerate(
            new[:AHEAD], 1 + max([mark.number for mark in self.marks] + [f.number for f in self.held], default=-1)
        )
        opened: list[LogFile] = []
        for number, entry in [*begun, *following]:
            try:
                file = LogFile(entry.path, number, not entry.is_log)
            except FileNotFoundError:
                file = None
            except BadInput as error:
                raise BadInput(waits(error)) from None
            mark = self._closed.get(number)
            if file is None or file.inode != entry.inode or not file.go_to(0 if mark is None else mark.offset):
                for each in [*opened, *([file] if file else [])]:
                    each.close()
                return None
            opened.append(file)
        return opened

    def _goes_on(self, number: int, entry: Entry) -> bool:
        """Whether more may stand in a file that was read: its writer may have come back to one that was done."""
        mark = self._closed.get(number)
        return mark is not None and (
            mark.state != "done" or (mark.inode == entry.inode and entry.size > mark.offset > 0)
        )

    # --- what is not there -------------------------------------------------------------------------------------------

    def _missing(self, there: Sequence[Entry], known: dict[int, Entry]) -> list[int]:
        """Numbers between the last file that was read and the log that no file has."""
        newest = known[max(known)] if known else None
        last = None if newest is None else newest.number
        if newest is None or last is None:
            return []
        numbered = {e.number: e.wrote for e in there if e.number is not None}
        written = [wrote for _, wrote in sorted(numbered.items())]
        rises = sum((one < two) - (one > two) for one, two in pairwise(written)) > 0  # some count upwards
        return [] if rises else [number for number in range(1, last) if number not in numbered]

    def _tell(self, there: Sequence[Entry], known: dict[int, Entry], missing: Sequence[int]) -> None:
        """Say what is lost."""
        log = next((entry for entry in there if entry.is_log), None)
        for mark in [mark for mark in self._closed.values() if mark.state != "done"]:
            where = known.get(mark.number)
            in_place = log is not None and _is_rewritten(log, mark, where)
            if where is None and mark.state == "open" and mark.offset > 0:
                what = "was cut short" if in_place else "is gone"
                self._lose(f"the log that was read up to byte {mark.offset} {what}; what followed in it is not scored")
            elif where is not None and in_place and where is not log:
                self._is_copied = True
            if where is None:
                self._closed[mark.number] = replace(mark, state="done")
        if self._is_copied:
            self._lose(
                f"{self.path} was copied and cut short; what was written between the two is in neither file and cannot "
                "be counted: rotate by renaming (logrotate: create)"
            )
            self._is_copied = False
        if missing:
            gone = ", ".join(f"{self.path.name}.{number}" for number in reversed(missing))
            self._lose(
                f"rotated files that were never read are gone, {len(missing)} in all ({gone}); they are not scored"
            )

    def _lose(self, text: str) -> None:
        self.gaps += 1
        self.say(text)


def waits(error: BadInput) -> str:
    """What to say of a rotated file that cannot be read."""
    return f"{error}. The place stays before it: unpack or repair it, or move it away to go on without it"


def _is_since(entry: Entry, wrote: int) -> bool:
    """Whether a file was written at a time or later, to the second: that is what packing keeps."""
    return entry.wrote // SECOND >= wrote // SECOND


def _is_rewritten(log: Entry, mark: Mark, where: Entry | None) -> bool:
    """Whether the log is the file of a mark, written anew."""
    try:
        with LogFile(log.path) as file:
            is_sure = None not in (file.generation, mark.generation)
            is_packed = where is not None and where.path.name != unpacked_name(where.path.name)
            return file.is_numbered_as(mark) and (is_sure or not is_packed)
    except (BadInput, FileNotFoundError):
        return False


def _holds(entry: Entry, mark: Mark, all_of_it: bool = False) -> bool:
    try:
        with LogFile(entry.path) as file:
            return file.inode == entry.inode and file.holds(mark) and (not all_of_it or file.is_at_end())
    except (BadInput, FileNotFoundError):
        return False


def _is_readable(entry: Entry) -> bool:
    try:
        LogFile(entry.path).close()
    except BadInput:
        return False
    except FileNotFoundError:  # renamed meanwhile
        return True
    return True


def _by_inode(entry: Entry, mark: Mark) -> bool:
    if entry.inode != mark.inode:
        return False
    try:
        with LogFile(entry.path) as file:
            return file.is_numbered_as(mark) and file.holds(mark)
    except (BadInput, FileNotFoundError):
        return False


def _by_all(entry: Entry, mark: Mark) -> bool:
    """A file that was read to its end, packed since: it holds what was read, and nothing else."""
    is_candidate = mark.state == "done" and mark.offset > 0 and not entry.is_log
    return is_candidate and _is_since(entry, mark.wrote) and _holds(entry, mark, all_of_it=True)


def _by_content(entry: Entry, mark: Mark) -> bool:
    return mark.state != "done" and mark.offset > 0 and _holds(entry, mark)


def _by_time(entry: Entry, mark: Mark) -> bool:
    """A file that cannot be unpacked here: nothing was written to it since it was read."""
    if not entry.stamp or _is_readable(entry):
        return False
    unit = 1 if mark.state == "open" else SECOND  # packing may keep seconds alone
    return entry.wrote // unit == mark.wrote // unit
