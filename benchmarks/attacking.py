"""A command under attack: run in its own process with a deadline, and judged by its end.

No input may cause a traceback, a hang, unbounded memory, success after a failure, control characters on the terminal,
or more than a few lines of output for one error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # scripted endpoints

Attack = Callable[[], str]
"""Tries one case; returns the failure, or an empty string."""
Case = tuple[str, Attack]
Area = Callable[["Workshop"], Iterator[Case]]

DEADLINE = 150.0
"""Seconds after which a command counts as hanging, about twenty times its usual duration under load."""
BOUND_MB = 300.0
KEY = "sk-live-9fQxT4uLw0BzR7ydKc2N"
"""API key of every process; no output or file may have a part of it."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LONGEST_LINE = 2100  # 2,000 characters of a message, and the note about the rest


@dataclass(frozen=True)
class Ran:
    """End of a command: `code` is None if it was killed at the deadline; CPU seconds, peak memory in MB."""

    code: int | None
    out: str
    err: str
    cpu: float
    megabytes: float

    def fell(self, codes: Collection[int] = (1,), says: str = "", megabytes: float = BOUND_MB) -> str:
        """Return the failure of an end without one of `codes`, the text `says` or the memory limit; otherwise ''."""
        said = self.out + self.err
        last = shortened(self.err.strip().rpartition("\n")[2])
        if "Traceback" in said:
            return f"traceback: {last}"
        if self.code is None:
            return f"hang: killed after {DEADLINE:g} s"
        if self.code not in codes:
            return f"exit code {self.code}, expected {' or '.join(map(str, codes))}: {last}"
        if self.megabytes > megabytes:
            return f"memory: {self.megabytes:.0f} MB, at most {megabytes:g}"
        if says not in said:
            return f"says nothing of {says!r}: {last}"
        return shown_badly(self.out) or shown_badly(self.err)


def shown_badly(text: str) -> str:
    """Return the reason why a text is unsafe for a terminal."""
    if odd := control(text):
        return odd
    longest = max(map(len, text.splitlines()), default=0)
    return f"a line of {longest:,} characters is printed" if longest > _LONGEST_LINE and text[:1] != "{" else ""


def control(text: str) -> str:
    """Return the first control character of a text and its line, or ''."""
    odd = _CONTROL.search(text)
    return f"control character {odd[0]!r} in line {text[: odd.start()].count(chr(10)) + 1}" if odd else ""


def shortened(text: str, most: int = 200) -> str:
    """Return the printable beginning of a text."""
    return "".join(each if each.isprintable() else "?" for each in text[:most])


def repeats_key(*texts: str) -> str:
    """Return True if a text has a part of the key."""
    parts = {KEY[at : at + 8] for at in range(len(KEY) - 7)}
    return "a part of the key is shown or kept" if any(part in text for text in texts for part in parts) else ""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment with one key, its own state folder and UTF-8."""
    own = {"OPENAI_API_KEY": KEY, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUTF8": "1", "COLUMNS": "200"}
    source = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    return {**{name: value for name, value in os.environ.items() if name != "ACCORD_STORE"}, **source, **own, **more}


_LAUNCH = """
import os, sys
number = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, *sys.argv[2:]])
_, status, used = os.wait4(number, 0)
ended = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
os.write(int(sys.argv[1]), " ".join(map(str, ended)).encode())
"""
"""A small process that starts the command, since a process inherits the peak memory of its parent."""


def accord(folder: Path, *arguments: str | Path, deadline: float = DEADLINE, **more: str) -> Ran:
    """Run `python -m accord` in a folder; `more` extends its environment."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as end:
        launched = [sys.executable, "-S", "-c", _LAUNCH, str(end.fileno()), "-m", "accord", *map(str, arguments)]
        process = subprocess.Popen(
            launched, cwd=folder, env=environment(folder, **more), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            pass_fds=(end.fileno(),), start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(deadline)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said = [_whole(stream) for stream in (out, err, end)]
    code, cpu, megabytes = said[2].split() or (None, 0, 0)
    return Ran(None if code is None else int(code), said[0], said[1], float(cpu), float(megabytes))


def _whole(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="backslashreplace")


RUBRIC = """name: drawn
main: quality
questions:
- {id: quality, text: "How good is it?", options: [1, 2, 3, 4]}
- {id: tone, text: "Which tone?", scale: nominal, options: [warm, cold, none]}
- {id: solved, text: "Is it solved?", scale: binary, options: [0, 1]}
"""
CONVERSATIONS = 24


def messages(asked: str, replied: str) -> list[dict[str, str]]:
    """Return a conversation of one exchange."""
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": replied}]


def settings(models: Mapping[str, object] | None = None, **more: object) -> str:
    """Return an `accord.yaml` as JSON, which is valid YAML."""
    made = {"m": {"sources": ["metrics"], "head": "mixed"}}
    about = {
        "rubric": "rubric.yaml",
        "metrics": ["bank"],
        "evaluator": "m",
        "evaluators": made,
        "folds": 2,
        "draws": 20,
    }
    return json.dumps({**about, "models": models or {}, **more})


def judge_at(url: str, mode: str = "decisions", **more: object) -> dict[str, object]:
    """Return the models of a project with a judge at a URL."""
    return {"judge": {"mode": mode, "model": "m1", "base_url": url, "attempts": 1, "timeout": 20, **more}}


class Workshop:
    """Folders of cases; a fitted project is made once and copied."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._made, self._lock = folder, 0, Lock()

    def place(self) -> Path:
        """Return a new folder."""
        with self._lock:
            self._made += 1
            made = self.folder / f"case-{self._made}"
        made.mkdir(parents=True)
        return made

    def bare(self, **more: object) -> Path:
        """Return a new folder with a project's two files."""
        made = self.place()
        (made / "rubric.yaml").write_text(RUBRIC)
        (made / "accord.yaml").write_text(settings(**more))  # type: ignore[arg-type]
        return made

    def learned(self, **more: object) -> Path:
        """Return a copy of a project with conversations, labels and a fitted evaluator."""
        with self._lock:
            origin = self.folder / "learned"
            if not origin.exists():
                learn(origin)
        made = self.place()
        shutil.copytree(origin, made, dirs_exist_ok=True)
        (made / "accord.yaml").write_text(settings(**more))  # type: ignore[arg-type]
        return made


def learn(folder: Path) -> None:
    """Make a project, import into it, and fit."""
    folder.mkdir()
    (folder / "rubric.yaml").write_text(RUBRIC)
    (folder / "accord.yaml").write_text(settings())
    said = (messages(f"Is it {place}?", f"Yes. {'It is fine. ' * (place % 7)}") for place in range(CONVERSATIONS))
    rows = [{"id": f"c{i}", "metadata": {"system": "ab"[i % 2]}, "messages": each} for i, each in enumerate(said)]
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = [f"c{place},{who},{1 + (place % 7 + shift) % 4}\n" for place in range(CONVERSATIONS)
              for shift, who in enumerate(("ann", "ben"))]  # fmt: skip
    (folder / "labels.csv").write_text("conversation,annotator,quality\n" + "".join(labels))
    for command in (("import", "chats.jsonl", "labels.csv"), ("fit", "m")):
        ran = accord(folder, *command)
        if ran.code != 0:
            sys.exit(f"the project that is attacked cannot be made: {ran.err}")
