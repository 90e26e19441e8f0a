"""Output files: new files with transcripts or answers have mode 0600 with any umask."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import invoke
from special_files import make_link
from synthetic_corpus import rated_chats

from accord.edges import create_private, open_private, write_atomically
from accord.values import dump_rubric

pytestmark = pytest.mark.posix  # files have modes

COMMANDS = [
    ["import", "chats.jsonl", "labels.csv"], ["fit", "m"], ["compare", "--only", "m"],
    *[["export", f"annotations{ending}"] for ending in (".csv", ".jsonl", ".parquet")],
    *[["score", "chats.jsonl", "--out", f"scores{ending}"] for ending in (".csv", ".jsonl", ".parquet")],
    ["score", "chats.jsonl", "--out", "parts", "--workers", "1"], ["export", "merged.jsonl", "--scores", "parts"],
    ["report", "--out", "report.html"], ["store", "backup", "copy.db"],
    ["follow", "chats.jsonl", "--out", "rows.jsonl", "--once", "--no-watch"], ["import", "parts"],
]  # fmt: skip
GIVEN = {"chats.jsonl", "labels.csv", "accord.yaml", "rubric.yaml"}


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_commands_create_private_files_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_umask: None
) -> None:
    monkeypatch.chdir(tmp_path)
    chats, labels, rubric = rated_chats(60)
    rows = ({"id": chat.id, "messages": [{"role": t.role, "content": t.content} for t in chat.turns]} for chat in chats)
    Path("chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    main = rubric.main_question.id
    lines = [f"{each.target.conversation},{each.annotator},{each.value}\n" for each in labels if each.question == main]
    Path("labels.csv").write_text(f"conversation,annotator,{main}\n" + "".join(lines), encoding="utf-8")
    Path("rubric.yaml").write_text(dump_rubric(rubric), encoding="utf-8")
    made = {"m": {"sources": ["bank"], "head": "curves"}}
    settings = {"rubric": "rubric.yaml", "evaluator": "m", "evaluators": made, "folds": 2, "draws": 20}
    Path("accord.yaml").write_text(json.dumps(settings), encoding="utf-8")
    for command in COMMANDS:
        result = invoke(*command, code=None)
        assert result.exit_code in {0, 5}, (command, result.output)
    created = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in GIVEN]
    assert len(created) > 12
    assert {path.relative_to(tmp_path).as_posix(): oct(mode(path)) for path in created if mode(path) & 0o077} == {}


def test_private_files_keep_what_is_there(tmp_path: Path, no_umask: None) -> None:
    path = tmp_path / "a.jsonl"
    for text in ("one", "two"):
        with open_private(path, "a", encoding="utf-8") as stream:
            stream.write(text)
    assert path.read_text(encoding="utf-8") == "onetwo" and mode(path) == 0o600
    assert create_private(path).read_text(encoding="utf-8") == "onetwo"
    assert mode(create_private(tmp_path / "b.db")) == 0o600


def test_write_whole_follows_links_and_never_replaces_a_device(tmp_path: Path, no_umask: None) -> None:
    write_atomically(tmp_path / "folder" / "a.html", "caf\u00e9")
    write_atomically(tmp_path / "b.html", "\ud800", "xmlcharrefreplace")
    assert (tmp_path / "folder" / "a.html").read_text(encoding="utf-8") == "caf\u00e9"
    assert (tmp_path / "b.html").read_text(encoding="utf-8") == "&#55296;"
    make_link(tmp_path / "link", tmp_path / "b.html")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "b.html").read_bytes() == b"new"
    make_link(tmp_path / "nothing", os.devnull)
    write_atomically(tmp_path / "nothing", "gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert mode(tmp_path / "b.html") == 0o600 and sorted(each.name for each in tmp_path.iterdir()) == [
        "b.html", "folder", "link", "nothing"
    ]  # fmt: skip
