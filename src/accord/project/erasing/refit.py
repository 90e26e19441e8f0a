"""Fitted evaluators that learned from erased conversations, by their own lists."""

from __future__ import annotations

from pathlib import Path

from accord.edges import BadInput, count_of
from accord.learning import saved_as, training_digests
from accord.store import Erasures, Store


def learned_from(evaluators: Path, digests: set[int]) -> list[tuple[str, str]]:
    """Return the folders of evaluators that learned from conversations with these digests, each with its command."""
    found = []
    for path in sorted(evaluators.iterdir()) if evaluators.is_dir() else ():
        if digests and (count := len(digests & _digests(path))):
            found.append((path.name, f"accord fit {_name_of(path)}  # learned from {count_of(count, 'of them')}"))
    return found


def _digests(folder: Path) -> set[int]:
    """Return the digests of an evaluator's training conversations; none if the folder cannot be read."""
    try:
        return training_digests(folder)
    except (BadInput, FileNotFoundError):
        return set()


def _name_of(folder: Path) -> str:
    try:
        return str(saved_as(folder)["name"])
    except BadInput:
        return folder.name


def erased_since_fit(store: Store, folder: Path) -> int:
    """Return the number of erased conversations that an evaluator learned from, by its own list."""
    erasures = Erasures(store)
    if not erasures.count_digests():
        return 0
    return erasures.count_digests([f"{digest:016x}" for digest in _digests(folder)])


def refit_note(store: Store, folder: Path) -> str:
    """Return the sentence on an evaluator that learned from erased conversations; empty if it did not."""
    count = erased_since_fit(store, folder)
    if not count:
        return ""
    return (
        f"{folder.name} learned from {count_of(count, 'conversation')} that {'was' if count == 1 else 'were'} erased "
        f"since; fit it again: accord fit {_name_of(folder)}"
    )
