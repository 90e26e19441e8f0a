"""Outputs under attack: every command that writes is told to replace the store, the project or an input."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attacking import Case, Workshop, accord

WRITERS: dict[str, tuple[str, ...]] = {
    "report": ("report", "-o"), "issues": ("issues", "-o"), "score": ("score", "chats.jsonl", "--out"),
    "export": ("export",), "label next": ("label", "next", "-o"), "fit": ("fit", "--out"),
    "scores merge": ("scores", "merge", "parts", "-o"), "follow": ("follow", "chats.jsonl", "--once", "--out"),
    "follow --position": ("follow", "chats.jsonl", "--once", "--out", "rows.jsonl", "--position"),
    "serve": ("serve", "--port", "18798", "--out"), "synth": ("synth", "--out"), "backup": ("store", "backup"),
    "run": ("run", "chats.jsonl", "labels.csv", "--out"), "demo": ("demo", "--out"),
    "models train": ("models", "train", "ruber", "--out"), "finetune": ("finetune", "issues", "base", "--out"),
    "init --prompts": ("init", "--prompts"),
}  # fmt: skip
"""Commands up to the path that they write."""
TARGETS = ("accord.db", "accord.db-wal", "accord.yaml", "./../{folder}/rubric.yaml", "chats.jsonl", "symbolic.db",
           "hard.db", "evaluators/m/evaluator.json", "labels.csv")  # fmt: skip


def outputs(shop: Workshop) -> Iterator[Case]:
    """No command replaces any of these files, with --force or without."""
    for name, arguments in WRITERS.items():
        for target in TARGETS:
            yield f"{name} {target}", partial(_kept, shop, arguments, target)


def _kept(shop: Workshop, arguments: tuple[str, ...], target: str) -> str:
    folder = shop.learned()
    (folder / "symbolic.db").symlink_to("accord.db")
    os.link(folder / "accord.db", folder / "hard.db")
    (folder / "accord.db-wal").touch()
    before = _files(folder)
    ran = accord(folder, *arguments, target.format(folder=folder.name), deadline=60)
    changed = [name for name, content in before.items() if _files(folder).get(name) != content]
    return ran.fell((1, 2)) or (f"changed: {', '.join(changed)}" if changed else "")


def _files(folder: Path) -> dict[str, bytes]:
    """Return the content of the files that outputs must not replace; other files are the command's own."""
    names = ("accord.db", "accord.yaml", "rubric.yaml", "chats.jsonl", "labels.csv", "evaluators/m/evaluator.json")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
