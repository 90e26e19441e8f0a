"""Common parts of benchmarks: options, printed tables, JSON with flat rows, and processes that are measured.

The JSON names the version, the commit, the hash of the code behind the figures, the options and the machine. The
results of a release are in `benchmarks/results/`; `tools/write_tables.py` copies their figures to the docs, and marks
those whose code changed.

    python benchmarks/harness.py benchmarks/results            list the age of each stored result
    python benchmarks/harness.py benchmarks/results --stamp    write the hash of the code at each result's own commit
    python benchmarks/harness.py docs/papers/NAME.md --stamp   the same for the sections of a page of `accord paper`;
                                                               those without a commit get the present one
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.request import urlopen

from accord.edges import BadInput
from accord.version import __version__

Row = dict[str, Any]
ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))  # synthetic corpora and scripted endpoints
if TYPE_CHECKING:
    from throwaway_postgres import ThrowAwayPostgres


def options(name: str, about: str, parts: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks."""
    parser = argparse.ArgumentParser(prog=f"benchmarks/{name}.py", description=about)
    default = os.environ.get("ACCORD_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of the benchmark data sets")
    parser.add_argument("--quick", action="store_true", help="run on less data, within a minute")
    parser.add_argument("--limit", type=int, help="maximum number of repetitions")
    parser.add_argument("--json", type=Path, help="file of the rows")
    if parts:
        parser.add_argument("--only", help=f"run only these parts, separated by commas: {', '.join(parts)}")
    return parser


def chosen(parser: argparse.ArgumentParser, given: str | None, parts: Sequence[str]) -> list[str]:
    """Return the parts named on the command line, or all."""
    names = list(parts) if given is None else given.split(",")
    unknown = [name for name in names if name not in parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; allowed: {', '.join(parts)}")
    return names


def rows_of_part(part: str, measure: Callable[[], Iterable[Row]]) -> list[Row]:
    """Return the rows of a part; without its model, database or packages, a row with the reason."""
    try:
        return list(measure())
    except BadInput as error:
        print(f"{part}: skipped: {error}", file=sys.stderr)
        return [{"what": part, "skipped": str(error)}]


def earlier_rows(path: Path | None, is_kept: Callable[[Row], bool]) -> list[Row]:
    """Return rows of a stored result that a run of some parts keeps, each with the commit and the code of its own."""
    if path is None or not path.is_file():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    origin = {key: content.get(key) for key in ("commit", "code")}
    return [{**origin, **row} for row in content["rows"] if is_kept(row)]


def data_folder(parser: argparse.ArgumentParser, folder: Path) -> Path:
    """Return the data folder, or exit with an error."""
    if not folder.is_dir():
        parser.error(f"no data at {folder}; name the folder with --data or ACCORD_DATA")
    return folder


def machine() -> dict[str, Any]:
    """Return the machine and its load in the last minute, without host name and paths."""
    description = {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count()}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {**description, "gigabytes": _gigabytes(), "python": platform.python_version(), "load": load}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _gigabytes() -> int | None:
    """Return the memory in GB, or None if it is unknown."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)


def commit() -> str | None:
    """Return the commit, with `+` for uncommitted changes; None outside a checkout."""
    try:
        hash_, changes = (
            subprocess.run(["git", *what], cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout
            for what in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--", "../src", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    changed = [line for line in changes.splitlines() if "benchmarks/results/" not in line]
    return hash_.strip() + ("+" if changed else "")


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Yield a temporary work tree of a commit, which is removed at the end.

    Raises:
        BadInput: Git knows no such commit.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "baseline"
        command = ["git", "worktree", "add", "--detach", str(place), commit]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise BadInput(f"no checkout of {commit!r}: {done.stderr.strip()}. Name a commit: BASE=COMMIT")
        try:
            yield place
        finally:
            _git("worktree", "remove", "--force", str(place))


def default_baseline() -> str:
    """Return the commit that a comparison begins from: the last tag before this commit, or `origin/main`.

    Raises:
        BadInput: The repository has neither.
    """
    if tag := _git("describe", "--tags", "--abbrev=0", "HEAD^"):
        return tag
    if _git("rev-parse", "--verify", "--quiet", "origin/main"):
        return "origin/main"
    raise BadInput("no tag and no origin/main to compare with. Name a commit: BASE=COMMIT")


# --- the code behind a figure ---------------------------------------------------------------------------------------

FIGURES = ("accord.decisions", "accord.evidence", "accord.learning", "accord.methods", "accord.statistics",
           "accord.validation", "accord_papers")  # fmt: skip
"""Packages that compute figures."""
CODE: Mapping[str, Sequence[str]] = {
    "adapters": ("accord.hosts",),
    "agent_steps": (*FIGURES[:-1], "accord.project.evaluators"),
    "architecture": ("accord", "accord_papers"),
    "attacks": ("accord",),
    "check_table": ("accord.table_check", "accord.statistics"),
    "compare_speed": (*FIGURES[:-1], "accord.project.evaluators"),
    "cost": ("accord",),
    "decision": (*FIGURES[:-1], "accord.project.evaluators"),
    "failure_modes": ("accord.project.comment_groups",),
    "faults": ("accord.models.requests", "accord.store"),
    "first_hour": (*FIGURES[:-1], "accord.formats", "accord.project.evaluators", "accord.project.importing"),
    "import_speed": ("accord.formats", "accord.project.importing", "accord.store"),
    "judging_overhead": ("accord.models",),
    "live_scoring": ("accord.evidence.bank", "accord.live", "accord.scoring"),
    "peers": ("accord.table_check", "accord.statistics"),
    "privacy": ("accord.project.erasing", "accord.redaction", "accord.store.erasure"),
    "scale": ("accord.evidence.bank", "accord.formats", "accord.live", "accord.scoring", "accord.store"),
    "synth": ("accord.synth",),
    "workbench": ("accord.store", "accord.studies", "accord.web"),
}
"""Packages that a benchmark measures which its imports do not tell, because it runs commands, or one which it measures
alone."""


def code_hash(benchmark: str, root: Path = ROOT) -> str | None:
    """Return the hash of the code that the figures of a benchmark depend on, or None for an unknown benchmark.

    The code is the packages in `CODE`, or each module in `FIGURES` that the benchmark imports, directly or through
    others. The hash covers the syntax trees of all statements in sorted order, without comments, docstrings and
    imports. So it stays the same if a function moves to another file.

    Args:
        benchmark: Name of the script, or of a module, such as that of a paper's parts.
        root: A checkout.
    """
    files = _modules(root)
    if benchmark in CODE:
        found = {name for name in files if _is_in(name, CODE[benchmark])}
    else:
        found, todo = set[str](), [name for name in (f"benchmarks.{benchmark}", benchmark) if name in files]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                imported = {_source(*each, root) for each in _parsed(files[name]).imports} & files.keys()
                todo += [other for other in imported if _is_in(other, ("benchmarks", *FIGURES))]
    counted = [_parsed(files[name]).statements for name in found if not _is_in(name, ["benchmarks"])]
    text = "\n".join(sorted(each for statements in counted for each in statements))
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else None


def _is_in(module: str, packages: Sequence[str]) -> bool:
    return f"{module}.".startswith(tuple(f"{package}." for package in packages))


@cache
def _modules(root: Path) -> dict[str, Path]:
    """Return the file of each module of a checkout; its benchmarks are `benchmarks.NAME`."""
    found = {f"benchmarks.{path.stem}": path for path in (root / "benchmarks").glob("*.py")}
    for folder in (root / "src", root / "packages" / "accord-papers" / "src"):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class _Parsed(NamedTuple):
    """A module: the pairs of module and name that it imports, and its statements as text."""

    imports: frozenset[tuple[str, str]]
    statements: tuple[str, ...]


@cache
def _parsed(path: Path) -> _Parsed:
    """Return the imports and statements of a file, without those for type checks."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    body = [node for node in body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))]
    found = set[tuple[str, str]]()
    for node in (inner for outer in body for inner in ast.walk(outer)):
        if isinstance(node, ast.Import):
            found |= {pair for each in node.names for pair in ((each.name, ""), ("benchmarks", each.name))}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {(node.module, each.name) for each in node.names} | {("benchmarks", node.module)}
        elif (
            isinstance(node, ast.Constant)
            and str(node.value).startswith("accord.")
            and path.parent.name != "benchmarks"
        ):
            found.add((str(node.value), ""))  # registries name modules
    return _Parsed(frozenset(found), tuple(text for text in map(_text, body) if text))


def _source(module: str, name: str, root: Path) -> str:
    """Return the module that defines a name which a module offers, from the stub of its lazy imports."""
    files = _modules(root)
    if not name or module not in files or f"{module}.{name}" in files:
        return f"{module}.{name}".rstrip(".")
    source = _stub(files[module].with_suffix(".pyi")).get(name)
    return module if source is None else _source(f"{module}.{source}", name, root)


@cache
def _stub(path: Path) -> dict[str, str]:
    """Return the submodule of each name in a stub; none without the file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else ()
    return {each.name: node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module
            for each in node.names}  # fmt: skip


def _text(value: Any) -> str:
    """Return a syntax tree as text that is the same in all versions of Python, without imports and docstrings."""
    if isinstance(value, list):
        return ",".join(filter(None, map(_text, value)))
    if not isinstance(value, ast.AST):
        return repr(value)
    if isinstance(value, ast.Import | ast.ImportFrom) or (
        isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant) and isinstance(value.value.value, str)
    ):
        return ""
    fields = ((name, each) for name, each in ast.iter_fields(value) if each not in (None, []) and name != "ctx")
    return f"{type(value).__name__}({';'.join(f'{name}={_text(each)}' for name, each in fields)})"


def is_current(benchmark: str, content: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return True if the code behind a stored row is the present one."""
    return bool(row.get("code", content.get("code")) == code_hash(benchmark))


def command_of(content: Mapping[str, Any]) -> str:
    """Return the command that measures a stored result again."""
    given = "".join(f" --{name} {content[name]}" for name in ("only", "limit") if content.get(name) is not None)
    name = content["benchmark"]
    return f"python benchmarks/{name}.py{given}{' --quick' * content['quick']} --json benchmarks/results/{name}.json"


def stamp(folder: Path) -> None:
    """Write into each result, and each row with a commit of its own, the hash of the code at that commit.

    A result of a tree that no commit holds has the hash None.
    """
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for part in (content, *(row for row in content["rows"] if "commit" in row)):
            part["code"] = None if part["commit"].endswith("+") else _hash_at(part["commit"], path.stem)
        header = {key: content[key] for key in ("benchmark", "accord_version", "commit", "code")}
        path.write_text(json.dumps({**header, **content}, indent=1) + "\n", encoding="utf-8")


@cache
def _hash_at(commit: str, benchmark: str, hash_of: Callable[[str, Path], str | None] = code_hash) -> str | None:
    """Return the hash of a benchmark's code at a commit, or None for a commit that this checkout does not have."""
    folders = ["src", "packages", "benchmarks"]
    listed = _git("ls-tree", "--name-only", commit, *folders)
    if not listed:
        return None
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit, *listed.split()], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        return hash_of(benchmark, Path(folder))


def _git(*arguments: str) -> str:
    """Return the output of git in this checkout; empty if it fails."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()


MEASURED = re.compile(r"^(`accord paper (\S+) --only \S+`)(?: \(commit (\w+), code (\w+)\))?", re.MULTILINE)
"""Line of a section in a page of `accord paper`: the command, the paper, and, once stamped, the commit and the hash."""


def code_of_paper(name: str, root: Path = ROOT) -> str | None:
    """Return the hash of the code of a paper's parts."""
    return code_hash(f"accord_papers.{name.replace('-', '_')}.tables_and_figures", root)


def stamp_page(path: Path) -> None:
    """Write commit and hash of the code into each section of a page of `accord paper`; a stored commit stays."""

    def stamped(match: re.Match[str]) -> str:
        made = match[3] or (commit() or "").rstrip("+")
        code = _hash_at(made, match[2], code_of_paper) if match[3] else code_of_paper(match[2])
        return f"{match[1]} (commit {made}, code {code or 'unknown'})"

    path.write_text(MEASURED.sub(stamped, path.read_text(encoding="utf-8")), encoding="utf-8")


def ages(folder: Path) -> list[Row]:
    """Return the number of commits since each stored result, if known, and its rows whose code changed."""
    rows: list[Row] = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        made = str(content.get("commit") or "")
        age = _git("rev-list", "--count", f"{made.rstrip('+')}..HEAD") if made else ""
        changed = sum(not is_current(path.stem, content, row) for row in content["rows"])
        rows.append({"result": path.stem, "commit": made, "commits_since": int(age) if age else None,
                     "rows": len(content["rows"]), "rows_of_changed_code": changed})  # fmt: skip
    return rows


def finish(name: str, rows: Sequence[Row], columns: Sequence[str], path: Path | None) -> None:
    """Print the rows as a table, and write them as JSON if a path is given."""
    print(table(rows, columns))
    write(name, rows, path)


def write(name: str, rows: Sequence[Row], path: Path | None) -> None:
    """Write the rows as JSON if a path is given."""
    if path is not None:
        header = {"benchmark": name, "accord_version": __version__, "commit": commit(), "code": code_hash(name)}
        content = {**header, **_asked(sys.argv), "machine": machine(), "rows": list(rows)}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"\nrows in {path}", file=sys.stderr)


def _asked(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options `quick`, `only` and `limit` of the run."""
    named = {"--only" if option == "--protocols" else option: after for option, after in pairwise(arguments)}
    limit = named.get("--limit")
    return {
        "quick": "--quick" in arguments,
        "only": named.get("--only"),
        "limit": None if limit is None else int(limit),
    }


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return the columns of the rows as text; a value with `_low` and `_high` has its interval."""
    lines = [list(columns), *([_cell(row, column) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    shown = _shown(value)
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    return f"{shown} [{_shown(low)}, {_shown(high)}]" if low is not None and high is not None else shown


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return " ".join(_shown(item) for item in value)
    return f"{value:.3f}" if isinstance(value, float) and abs(value) < 1000 else str(value)


# --- processes ----------------------------------------------------------------------------------------------------

TOKEN = "a-token-that-nobody-guesses"
"""The token of every server that a benchmark starts."""
PRELUDE = """
import json, resource, sys, time
def peak_mb():  # of this program alone: `ru_maxrss` begins with the memory of the parent
    try:
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""


def run_python(script: str, *arguments: object, **environment: str) -> Any:
    """Run a script in a new process and return the JSON value of its last line; the script can call `peak_mb()`."""
    command = [sys.executable, "-c", PRELUDE + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


class Timed(NamedTuple):
    """A finished command: seconds, processor seconds, and standard output."""

    seconds: float
    cpu_seconds: float
    output: str


def timed(
    command: Sequence[str | Path], folder: str | Path, accepted: Sequence[int] = (0,), **environment: str
) -> Timed:
    """Run a command in a folder.

    Raises:
        BadInput: Its exit code is not one of those accepted.
    """
    start, before = time.monotonic(), os.times()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode not in accepted:
        raise BadInput(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Timed(time.monotonic() - start, used, done.stdout)


PIP = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
"""Packages of a new virtual environment."""


def own_files(environment: Path) -> list[tuple[Path, float]]:
    """Return each file of a virtual environment and its megabytes on disk, without pip and setuptools."""
    files = [(path, path.lstat().st_blocks * 512 / 2**20) for path in environment.rglob("*")]
    return [(path, size) for path, size in files if not {*PIP} & {part.split("-")[0] for part in path.parts}]


def process_memory(process: int, which: str = "VmHWM") -> float | None:
    """Return the peak memory of a process in MB (`VmRSS`: present memory), or None if unknown."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return None
    return next((float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(which)), None)


def free_port() -> int:
    """Return a port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Server:
    """A server in a process of its own: `accord serve` in a folder, or another command that listens on `port`."""

    def __init__(self, folder: Path, *arguments: str, command: Sequence[str] = ("-m", "accord", "serve")) -> None:
        self.folder, self.port = folder, free_port()
        named = ["--port", str(self.port)] if "accord" in command else [str(self.port)]
        self.command = [sys.executable, *command, *named, *arguments]
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.stop()

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        with (self.folder / "serve.log").open("ab") as log:
            environment = {**os.environ, "ACCORD_TOKEN": TOKEN}
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)

    def stop(self, signal_: int = signal.SIGTERM) -> None:
        """End the server by a signal."""
        self.process.send_signal(signal_)
        self.process.wait(60)

    def log(self) -> str:
        """Return the output so far."""
        return (self.folder / "serve.log").read_text(encoding="utf-8")


_MODEL_SERVER = """
import asyncio, collections, hashlib, json, sys
FAULTY = float(sys.argv[1])
asked, answered = collections.Counter(), collections.Counter()
TOP = [{"token": str(k), "logprob": -0.1 - k, "bytes": None} for k in range(1, 5)]
REPLY = json.dumps({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "usage": {"prompt_tokens": 400,
  "completion_tokens": 1, "total_tokens": 401}, "choices": [{"index": 0, "finish_reason": "stop",
  "message": {"role": "assistant", "content": "3", "refusal": None}, "logprobs": {"refusal": None, "content": [
  {"token": "3", "logprob": -0.1, "bytes": None, "top_logprobs": TOP}]}}]}).encode()
def respond(body):
    if not FAULTY:
        return b"200 OK", REPLY
    key = hashlib.sha256(json.dumps(json.loads(body)["messages"]).encode()).hexdigest()
    asked[key] += 1
    fate = int(key[:8], 16) / 2**32
    if asked[key] == 1 and fate < FAULTY:
        return (b"500 Oops", b"{}") if fate < FAULTY / 2 else (b"429 Slow down", b"{}")
    answered[key] += 1
    return b"200 OK", REPLY
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower().split(b"\\r\\n")
            length = next((int(line.split(b":")[1]) for line in head if line.startswith(b"content-length")), 0)
            body = await reader.readexactly(length)
            counts = {"requests": asked.total(), "prompts": len(answered), "twice": answered.total() - len(answered)}
            status, reply = (b"200 OK", json.dumps(counts).encode()) if head[0].startswith(b"get") else respond(body)
            writer.write(b"HTTP/1.1 %s\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
                         % (status, len(reply)) + reply)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def model_server(faulty: float = 0.0) -> Iterator[str]:
    """Serve chat completions with log-probabilities from a process of its own; yields the URL.

    Args:
        faulty: Share of prompts whose first request fails: half with a server error, half with a rate limit. Only such
            a server counts its requests, which `model_counts` returns.
    """
    command = [sys.executable, "-c", _MODEL_SERVER, str(faulty)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        finally:
            server.terminate()


def model_counts(url: str) -> dict[str, int]:
    """Return the counts of a faulty server: requests, answered prompts, and prompts answered twice."""
    with urlopen(url) as reply:
        return dict(json.load(reply))


RUBRIC = """
from accord import Conversation, Turn, load_rubric
from accord.values import Sample
rubric = load_rubric("llm-rubric")
always = tuple(question.model_copy(update={"applies": "always"}) for question in rubric.questions)
rubric = rubric.model_copy(update={"questions": always})
def samples(count):
    for i in range(count):
        asked, said = f"{i}: why does the light go out? " * 8, f"{i}: hold the button. " * 12
        yield Sample(Conversation(f"c{i}", (Turn("user", asked), Turn("assistant", said))))
"""
"""Part of scripts that judge: the shipped rubric, whose nine questions always apply, and conversations."""
QUESTIONS = 9
DATABASES = ("sqlite", "postgresql") if shutil.which("pg_config") else ("sqlite",)


@contextmanager
def database(kind: str) -> Iterator[tuple[str, Path, ThrowAwayPostgres | None]]:
    """Yield the URL of a new store, a folder, and the PostgreSQL cluster of the store, if it has one."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/accord.db", Path(folder), None
            return
        from throwaway_postgres import ThrowAwayPostgres

        with ThrowAwayPostgres() as cluster:
            yield cluster.url, Path(folder), cluster


if __name__ == "__main__":
    _path = Path(sys.argv[1])
    if "--stamp" in sys.argv:
        (stamp if _path.is_dir() else stamp_page)(_path)
    if _path.is_dir():
        print(table(ages(_path), ["result", "commit", "commits_since", "rows", "rows_of_changed_code"]))
