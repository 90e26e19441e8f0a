"""All data of one person, as an annotator and as the user of a chat assistant, written to a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, write_atomically
from accord.project.erasing.selection import Selection, selected
from accord.store import Erasures, anchors

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


def export_person(project: Workspace, name: str, folder: Path) -> dict[str, int]:
    """Write the data of an annotator or a user as JSON lines, and return the number of rows by file.

    | file | rows |
    |---|---|
    | `account.jsonl` | the account, without its key |
    | `ratings.jsonl` | labels, answers of studies and comments, with those that were changed later |
    | `assignments.jsonl` | assignments of studies |
    | `predictions.jsonl` | predicted ratings |
    | `chats.jsonl` | chats with an assistant, with all messages |
    | `conversations.jsonl` | conversations by the user, and those that the chats became |
    | `judgements.jsonl` | answers of models and metrics about these conversations |
    | `anchors.jsonl` | scores and answers of models when these conversations were judged again |
    | `scores.jsonl` | scores of these conversations on the board |

    Raises:
        BadInput: The store has nothing of this person, or the folder has files.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not an empty folder; name a new one: --export FOLDER")
    rows = {file: list(each) for file, each in _rows(project, name).items()}
    if not any(rows.values()):
        raise BadInput(
            f"the store has nothing of {name!r}: no ratings, no account, and no conversation whose metadata name this "
            f"user ({', '.join(project.config.privacy.user)})"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for file, each in rows.items():
        if each:
            content = "".join(json.dumps(row, default=str) + "\n" for row in each)
            write_atomically(folder / f"{file}.jsonl", content)
    return {file: len(each) for file, each in rows.items() if each}


def _rows(project: Workspace, name: str) -> dict[str, Iterable[Mapping[str, Any]]]:
    store = project.store
    found: dict[str, Iterable[Mapping[str, Any]]] = dict(Erasures(store).person(name))
    try:
        ids = set(selected(project, Selection(users=(name,))).ids)
    except BadInput:  # no conversation is by this user
        ids = set()
    ids |= set(Erasures(store).chats_by(name))
    found["ratings"] = [each.to_json() for each in store.annotations({"person"}) if each.by == name]
    if ids:
        found["conversations"] = [each.to_json() for each in store.conversations(ids)]
        others = store.annotations({"model", "metric"}, conversations=ids)
        found["judgements"] = [each.to_json() for each in others]
        found["anchors"] = [asdict(each) for each in anchors.Anchors(store).about(sorted(ids))]
        found["scores"] = _scores(project, ids)
    return found


def _scores(project: Workspace, ids: set[str]) -> list[dict[str, Any]]:
    import polars as pl

    if not project.mart.folder.is_dir():
        return []
    rows, _ = project.mart.read(lambda rows: rows.filter(pl.col("conversation").is_in(sorted(ids))).collect())
    return rows.drop("key", "bundle").to_dicts()
