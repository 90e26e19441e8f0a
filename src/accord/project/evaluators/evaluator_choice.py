"""The evaluator in use: the one that was fitted or chosen last. Other fitted evaluators stay in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from accord.edges import BadInput, UnknownName
from accord.learning import CARD, saved_as
from accord.store import Store

CHOICE = "use evaluator"
"""Command of the runs that record the choice of an evaluator."""


class LastFit(NamedTuple):
    """Evaluator that was fitted or chosen last: its name, and the folder that holds it."""

    name: str
    folder: Path


def last_fit(store: Store, question: str, evaluators: Path) -> LastFit | None:
    """Return the evaluator of a question that was fitted or chosen last and still exists, or None.

    A project folder may be moved or copied, so an evaluator in its folder `evaluators` is found there by name.
    """
    for record in reversed(store.runs("fit", CHOICE)):
        results = record["results"] or {}
        if record["status"] != "done" or results.get("question") != question:
            continue
        saved, name = Path(results["folder"]), str(results["evaluator"]["name"])
        own = evaluators / saved.name
        folder = next((path for path in (own, saved) if _holds(path, saved, evaluators.name)), None)
        if folder is not None:
            return LastFit(name, folder)
    return None


def _holds(folder: Path, saved: Path, evaluators: str) -> bool:
    """Return True if a folder holds an evaluator and can replace the path under which it was saved."""
    return (folder == saved or saved.parent.name == evaluators) and (folder / CARD).is_file()


def fitted_evaluators(evaluators: Path, question: str) -> dict[str, dict[str, Any]]:
    """Return the fitted evaluators of a question in a folder: their cards, by folder name.

    Candidates, and folders of evaluators that cannot be read, are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(evaluators.iterdir()) if evaluators.is_dir() else ():
        if path.name.endswith((".candidate", ".making")) or not (path / CARD).is_file():
            continue
        try:
            card = saved_as(path)
            if card["question"]["id"] == question:
                found[path.name] = dict(card)
        except (BadInput, KeyError, TypeError):
            continue
    return found


def use_evaluator(store: Store, question: str, evaluators: Path, name: str) -> Path:
    """Choose a fitted evaluator as the one in use, and return its folder; other verbs then use it by default.

    Raises:
        UnknownName: The folder `evaluators` holds no such evaluator of the question.
    """
    found = fitted_evaluators(evaluators, question)
    if name not in found:
        raise UnknownName("fitted evaluator", name, found)
    folder, card = evaluators / name, found[name]
    with store.run(CHOICE, {"folder": name}) as record:
        evaluator = {"name": str(card.get("name") or name)}
        record.results.update({"question": question, "folder": str(folder.resolve()), "evaluator": evaluator})
    return folder
