"""Write a project made by a version of Accord, for the tests of upgrades: tests/upgrades/VERSION.

The code of a commit runs in a folder of its own, with the packages of this environment, on a part of the sample. The
archive holds the project (settings, rubric, store, mart of scores, evaluators, files of scores), `expected.json`, the
JSON Schema of `accord.yaml`, and a dump of the store on PostgreSQL if its programs are on this machine.

    python tools/write_upgrade_fixtures.py v0.2.0
    python tools/write_upgrade_fixtures.py COMMIT --version 0.1.0
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "upgrades"
EVERY = 7
"""Step between the conversations of the sample that are in the project."""
EVALUATORS = ("mixture", "svr")
"""Evaluators to save in addition to the default; the head of `svr` has moved to accord-papers since 0.1."""
SETTINGS = """
folds: 2
draws: 20
curve_draws: 1
studies:
  helpful:
    stages: [{questions: [Q1, Q0]}]
    items: {sample: 6}
"""
PACKAGES = ("numpy", "polars", "pydantic", "safetensors", "scikit-learn", "SQLAlchemy")
MOST_BYTES = 200_000
RUN = """
import importlib.metadata as metadata, runpy, sys
hidden = sys.argv.pop(1)
entries = [e for d in metadata.distributions() for e in d.entry_points if not (hidden and e.value.startswith(hidden))]
metadata.entry_points = lambda **wanted: metadata.EntryPoints(entries).select(**wanted)
sys.argv[0] = "accord"
runpy.run_module("accord", run_name="__main__")
"""
"""Program that runs a command without the plug-ins of a module; a commit may be older than those installed here."""


class Accord:
    """The commands of a commit, run in a project folder."""

    def __init__(self, commit: str, folder: Path, project: Path) -> None:
        packages = [name for name in ("src", "packages/accord-papers/src") if _git("ls-tree", commit, f"{name}/")]
        archive = subprocess.run(["git", "archive", commit, *packages], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
        paths = [str(folder / name) for name in packages]
        self._hidden = "" if len(packages) > 1 else "accord_papers"
        self._project = project
        own = {
            "PYTHONPATH": os.pathsep.join(paths),
            "ACCORD_CONFIG": str(folder),
            "ACCORD_JOBS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self._environment = os.environ | own
        found = self._python("-c", "import accord; print(accord.__file__)")
        if not Path(found.strip()).is_relative_to(folder):
            raise SystemExit(f"{sys.executable} imports {found.strip()}, not the code of {commit}; use another Python")

    def __call__(self, *arguments: str) -> str:
        """Run a command and return its output. If it fails, this program ends with its message."""
        return self._python("-c", RUN, self._hidden, *arguments)

    def _python(self, *arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=self._project, env=self._environment, capture_output=True, encoding="utf-8")
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments[2:])} failed with exit code {done.returncode}:\n{done.stderr}")
        return done.stdout


def write_inputs(source: Path, project: Path) -> None:
    """Write some conversations of a sample and their ratings into a project folder."""
    with (source / "conversations.jsonl").open(encoding="utf-8") as lines:
        chats = list(islice(lines, 0, None, EVERY))
    (project / "chats.jsonl").write_text("".join(chats), encoding="utf-8", newline="\n")
    ids = {json.loads(line)["id"] for line in chats}
    with (source / "ratings.csv").open(encoding="utf-8", newline="") as lines:
        ratings = [row for row in csv.DictReader(lines) if row["conversation"] in ids]
    with (project / "ratings.csv").open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(ratings[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(ratings)


def fill(accord: Accord, project: Path) -> None:
    """Run the commands of daily work, and write the results that later versions must reproduce."""
    accord("init")
    settings = (project / "accord.yaml").read_text(encoding="utf-8")
    settings = re.sub(r"^folds: .*\n", "", settings, flags=re.MULTILINE) + SETTINGS
    (project / "accord.yaml").write_text(settings, encoding="utf-8", newline="\n")
    accord("import", "chats.jsonl", "ratings.csv")
    accord("users", "add", "ada", "--role", "lead")
    accord("fit")
    for name in EVALUATORS:
        accord("fit", name)
    evaluators = sorted(path.name for path in (project / "evaluators").iterdir())
    for name in evaluators:
        accord("score", "chats.jsonl", "--evaluator", f"evaluators/{name}", "--out", f"scores-{name}.jsonl")
    for suffix in ("csv", "parquet"):
        accord("score", "chats.jsonl", "--evaluator", "evaluators/default", "--out", f"table.{suffix}")
    accord("card")
    # The board has the same scores already, so the folder of parts goes through another store.
    scratch = ("--workers", "1", "--set", "store=sqlite:///scratch.db")
    accord("score", "chats.jsonl", "--evaluator", "evaluators/default", "--out", "parts/", *scratch)
    for path in project.glob("scratch.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    accord("export", "annotations.csv")
    (project / "accord.schema.json").write_text(accord("schema"), encoding="utf-8", newline="\n")
    with closing(sqlite3.connect(project / "accord.db")) as store:
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: store.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
        store.execute("PRAGMA journal_mode = DELETE")  # one file
        store.execute("VACUUM")
    expected = {"tables": counts, "evaluators": evaluators}
    (project / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8", newline="\n")


def dump(accord: Accord, project: Path) -> str:
    """Write the store as SQL of PostgreSQL, and return a sentence about the dump."""
    sys.path.insert(0, str(ROOT / "tests"))
    from throwaway_postgres import ThrowAwayPostgres

    from accord.edges import BadInput

    try:
        with ThrowAwayPostgres() as cluster:
            accord("store", "backup", "copy.db")
            accord("store", "restore", "copy.db", "--set", f"store={cluster.url}")
            (project / "copy.db").unlink()
            options = ["--inserts", "--rows-per-insert=1000", "--no-owner", "--no-privileges"]
            text = subprocess.run(["pg_dump", *options, cluster.url], check=True, stdout=subprocess.PIPE).stdout
            lines = [line for line in text.splitlines(keepends=True) if not line.startswith((b"--", b"\\"))]
            (project / "store.sql").write_bytes(b"".join(lines))
            server = subprocess.run(["pg_dump", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
            return f"with a dump by {server.strip()}"
    except (BadInput, FileNotFoundError) as error:
        return f"without a dump of PostgreSQL ({error})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the fixture of a commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="a tag or commit, such as v0.2.0")
    parser.add_argument("--version", help="name of the fixture; by default the tag without its v")
    given = parser.parse_args(arguments)
    name = given.version or given.commit.removeprefix("v")
    if not re.fullmatch(r"\d+\.\d+\.\d+", name):
        parser.error(f"the version must be like 0.2.0, got {name!r}; name it: --version 0.2.0")
    commit = _git("rev-parse", "--verify", f"{given.commit}^{{commit}}").strip()
    if not commit:
        parser.error(f"no commit or tag {given.commit!r} in this repository; list the tags: git tag")
    with tempfile.TemporaryDirectory(prefix="accord-upgrade-") as temporary:
        project = Path(temporary) / "project"
        project.mkdir()
        accord = Accord(commit, Path(temporary) / "code", project)
        write_inputs(Path(temporary) / "code" / "src" / "accord" / "sample", project)
        fill(accord, project)
        about = dump(accord, project)
        target = FOLDER / name
        target.mkdir(parents=True, exist_ok=True)
        archive = target / "project.tar.xz"
        with tarfile.open(archive, "w:xz", preset=9) as tar:
            for path in sorted(project.rglob("*")):
                if path.is_file():
                    tar.add(path, path.relative_to(project).as_posix(), filter=_plain)
    packages = ", ".join(f"{each} {version(each)}" for each in PACKAGES)
    made = f"Commit {commit}, {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {packages}, {about}."
    (target / "README.md").write_text(f"# Project of Accord {name}\n\n{made}\n", encoding="utf-8", newline="\n")
    size = archive.stat().st_size
    print(f"{archive}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"the archive has more than {MOST_BYTES:,} bytes; raise EVERY, so that it holds less")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.decode()


if __name__ == "__main__":
    main()
