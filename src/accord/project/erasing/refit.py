"""Fitted evaluators that learned from erased conversations, by their own lists; those with texts are removed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from accord.edges import BadInput, Step, count_of, write_atomically
from accord.learning import CARD, REFIT_NEEDED, Evaluator, saved_as, training_digests
from accord.store import Erasures, Store


def learned_from(evaluators: Path, digests: set[int]) -> list[tuple[str, str]]:
    """Return the folders of evaluators that learned from conversations with these digests, each with its command."""
    found = []
    for path in sorted(evaluators.iterdir()) if evaluators.is_dir() else ():
        if digests and (count := len(digests & _digests(path))):
            found.append((path.name, f"accord fit {_name_of(path)}  # learned from {count:,} of them"))
    return found


def _digests(folder: Path) -> set[int]:
    """Return the digests of an evaluator's training conversations; empty if the folder cannot be read."""
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


def save_unless_erased(store: Store, evaluator: Evaluator, folder: Path) -> None:
    """Save an evaluator whose training conversations are all there still.

    An erasure adds its tombstones before it looks for texts in files. So either it finds the saved files, or they are
    removed here.

    Raises:
        BadInput: A conversation that it learned from was erased meanwhile; the evaluator is not saved.
    """
    known = [each.training_set for each in (evaluator, *evaluator.other_questions) if each.training_set is not None]
    learned = {int(digest) for each in known for digest in each.digest}

    def count_erased() -> int:
        return Erasures(store).count_digests([f"{digest:016x}" for digest in learned])

    count = count_erased()
    if not count:
        evaluator.save(folder)
        if count := count_erased():
            remove_evaluator(folder)
    if count:
        fit = Step("fit", evaluator.name)
        raise BadInput(
            f"{count_of(count, 'conversation')} to learn from {'was' if count == 1 else 'were'} erased during the fit, "
            f"so the evaluator was not saved; fit it again: {fit}", fit,
        )  # fmt: skip


def remove_evaluator(folder: Path) -> None:
    """Remove the files of an evaluator, and leave a note with the command that fits it again."""
    name = folder.name
    with suppress(ValueError, OSError, AttributeError):
        name = str(json.loads((folder / CARD).read_text(encoding="utf-8")).get("name") or name)
    note = {"refit": f"accord fit {name}", "why": "it held texts of erased conversations"}
    write_atomically(folder / REFIT_NEEDED, json.dumps(note, indent=1) + "\n")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != REFIT_NEEDED]
    for path in sorted(files, key=lambda path: path.name != CARD):  # the card first: it marks an evaluator
        path.unlink(missing_ok=True)
