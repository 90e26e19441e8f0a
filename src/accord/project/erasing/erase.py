"""Erasing in a project: tombstones, scores, files, rows of the store, free space; each step can be repeated.

An erasure is a run of the store. Its settings name what to erase until the rows are deleted, and hashes after that.
If the process is killed, `resume` finds the run and continues it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, count_of
from accord.evidence import Readable
from accord.learning import digest_of
from accord.project.erasing.files import ErasedContent, FileTrace, erase_in_files
from accord.project.erasing.selection import Selection, scored_names, selected_ids
from accord.scoring import ErasedNames
from accord.store import (
    ANNOTATOR,
    ERASURE,
    ErasedText,
    Erasures,
    Mart,
    Store,
    erase_scores,
    mart_folder,
    name_hash,
    vacuum,
)
from accord.values import content_hash

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

SHORTEST_NAME = 4
"""Shortest name of an annotator that files are searched for; shorter ones occur as words."""


@dataclass(frozen=True, repr=False)
class Erasure(Readable):
    """Receipt of an erasure, or its plan: counts and hashes, without names and texts.

    Attributes:
        id: ID of the run; empty for a plan.
        selection: Kinds of selection with their counts.
        conversations: Number of erased conversations.
        annotators: Number of erased annotators.
        hash: Digest of the sorted hashes of the erased names.
        rows: Deleted or changed rows of the store, by table.
        scores: Removed or renamed rows of the board.
        files: Changed files, and files of the user that still mention an erased name.
        refit: Fitted evaluators that learned from erased conversations, with the command that fits each again.
        batches: Batch files at a provider that hold requests about an erased conversation.
    """

    id: str = ""
    selection: Mapping[str, Any] = field(default_factory=dict)
    conversations: int = 0
    annotators: int = 0
    hash: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    scores: int = 0
    files: Sequence[FileTrace] = ()
    refit: Mapping[str, str] = field(default_factory=dict)
    batches: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """True if there was nothing to erase."""
        return not (self.conversations or self.annotators)

    def summary(self) -> dict[str, Any]:
        """Return the counts."""
        return {"conversations": self.conversations, "annotators": self.annotators or None, "hash": self.hash or None}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the places with their counts."""
        tables = [{"place": f"store: {name}", "rows": count} for name, count in self.rows.items()]
        files = [{"place": f"{each.kind}: {each.path}", "rows": each.rows or None} for each in self.files]
        return [*tables, {"place": "scores of the board", "rows": self.scores}, *files]

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {**vars(self), "files": [each.to_json() for each in self.files]}


@dataclass(frozen=True)
class ErasureOptions:
    """Options of an erasure.

    Attributes:
        keep_scores: True keeps the scores of erased conversations under pseudonyms, without texts.
        keep_labels: True keeps the labels of erased annotators under pseudonyms, without comments and quotes.
    """

    keep_scores: bool = False
    keep_labels: bool = False


def plan_erasure(project: Workspace, selection: Selection, options: ErasureOptions = ErasureOptions()) -> Erasure:
    """Return what `erase` would erase, without changing anything; errors as in `erase`."""
    job = _Job.of(project, selection, options)
    rows = Counter(Erasures(project.store).count(job.ids)) if job.ids else Counter[str]()
    for name in job.people:
        rows.update(Erasures(project.store).count_annotator(name))
    return replace(job.receipt(), rows=dict(rows), scores=job.count_scores(), files=job.files(writes=False))


def erase(
    project: Workspace, selection: Selection, options: ErasureOptions = ErasureOptions(), later: bool = False
) -> Erasure:
    """Erase conversations and annotators in the store, the scores and the files of a project, and return a receipt.

    With `later`, the erasure is only recorded, and the next `resume` does it; the receipt has its ID and no rows.

    Raises:
        BadInput: Nothing was selected, or a selected name is unknown.
        StoreError: The store or the scores cannot be written; `resume` continues.
        OSError: A file cannot be written; `resume` continues.
    """
    job = _Job.of(project, selection, options)
    if not (job.ids or job.people):
        return job.receipt()
    job.begin()
    return replace(job.receipt(), id=job.id) if later else job.run()


def unfinished(store: Store) -> list[str]:
    """Return the runs of erasures that were interrupted, the oldest first."""
    return [run["id"] for run in store.runs(ERASURE) if run["status"] == "running"]


def resume(project: Workspace) -> list[Erasure]:
    """Continue interrupted erasures, and return their receipts; errors as in `erase`."""
    waiting = set(unfinished(project.store))
    return [_Job.of_run(project, run).run() for run in project.store.runs(ERASURE) if run["id"] in waiting]


class _Job:
    """An erasure in progress."""

    def __init__(
        self,
        project: Workspace,
        ids: Sequence[str],
        people: Mapping[str, str],
        options: ErasureOptions,
        selection: Mapping[str, Any],
    ) -> None:
        self.project, self.ids, self.people, self.options, self.selection = project, ids, people, options, selection
        self.id, self.is_deleted = "", False
        self._rows = Counter[str]()
        self._scores = 0
        self.conversations = list(project.store.conversations(ids)) if ids else []
        self.hash = content_hash(sorted(f"{name_hash(name):016x}" for name in (*ids, *people)), length=16)

    @classmethod
    def of(cls, project: Workspace, selection: Selection, options: ErasureOptions) -> _Job:
        """Return a new erasure."""
        if not (selection.conversations or selection.users or selection.annotators or selection.before
                or selection.rated_before):  # fmt: skip
            raise BadInput("nothing is selected; name a conversation, a user, an annotator or a time")
        ids = set(selected_ids(project, selection))
        if not options.keep_labels:
            ids.update(name for each in selection.annotators for name in Erasures(project.store).chats_by(each))
        people = {name: f"annotator-{name_hash(name):016x}"[:18] for name in selection.annotators}
        return cls(project, sorted(ids), people, options, selection.to_json())

    @classmethod
    def of_run(cls, project: Workspace, run: Mapping[str, Any]) -> _Job:
        """Return an interrupted erasure."""
        settings = run["settings"]
        options = ErasureOptions(settings["keep_scores"], settings["keep_labels"])
        job = cls(project, settings.get("ids", ()), settings.get("people", {}), options, settings["selection"])
        job.id, job.is_deleted, job.hash = run["id"], settings["deleted"], settings["hash"]
        job._rows.update(settings.get("rows", {}))
        return job

    def begin(self) -> None:
        """Record the erasure as a run, from which it is continued after an interruption."""
        names = {"ids": list(self.ids), "people": dict(self.people)}
        self.id = self.project.store.start_run(ERASURE, {**self._settings(), **names})

    def _settings(self) -> dict[str, Any]:
        return {
            "selection": dict(self.selection), "keep_scores": self.options.keep_scores,
            "keep_labels": self.options.keep_labels, "hash": self.hash, "deleted": self.is_deleted,
        }  # fmt: skip

    def run(self) -> Erasure:
        """Run all steps that are left."""
        store, found = self.project.store, list[FileTrace]()
        receipt = self.receipt()
        if not self.is_deleted:
            erasures = Erasures(store)
            erasures.bury({name: self._digest(name) for name in self.ids})
            erasures.bury(dict.fromkeys(self.people), ANNOTATOR)
            self._scores = self._erase_scores(self.project.mart, store)
            content = self.content()
            found = erase_in_files(self.project, content)
            found = [*found, *self._erase_copies(found, content)]
            self._delete(store, content.text)
            found += [trace for trace in erase_in_files(self.project, content) if trace.kind not in _LISTED_ONCE]
            self.is_deleted = True
            settings = {**self._settings(), "rows": dict(self._rows), "conversations": len(self.ids),
                        "annotators": len(self.people)}  # fmt: skip
            store.change_run(self.id, settings)
        vacuum(store.url, rewrites=True)
        receipt = replace(receipt, id=self.id, rows=dict(self._rows), scores=self._scores, files=found)
        store.finish_run(self.id, "done", receipt.to_json())
        return receipt

    def receipt(self) -> Erasure:
        """Return the receipt before anything is erased."""
        if self.is_deleted:
            run = next(run for run in self.project.store.runs(ERASURE) if run["id"] == self.id)
            counts = {name: run["settings"].get(name, 0) for name in ("conversations", "annotators")}
            return Erasure(selection=self.selection, hash=self.hash, **counts)
        digests = {digest for each in self.conversations if (digest := digest_of(each))}
        refit = {folder: command for folder, command in _learned_from(self.project, digests)}
        return Erasure(
            selection=self.selection, conversations=len(self.ids), annotators=len(self.people), hash=self.hash,
            refit=refit, batches=self._batches(),
        )  # fmt: skip

    # --- steps ----------------------------------------------------------------------------------------------------

    def content(self) -> ErasedContent:
        """Return what to look for in files."""
        text = ErasedText(self.conversations, [*self.ids, *(n for n in self.people if len(n) >= SHORTEST_NAME)])
        kept = self.options.keep_scores
        names = {name: f"erased-{name_hash(name):016x}" if kept else None for name in self.ids}
        rated = self.project.store.annotations({"person"}, conversations=self.ids) if self.ids else iter(())
        has_ratings = bool(self.people) or next(rated, None) is not None
        return ErasedContent(text, ErasedNames(names, self.people), self.conversations, has_ratings)

    def files(self, writes: bool) -> list[FileTrace]:
        """Return the traces in files."""
        return erase_in_files(self.project, self.content(), writes)

    def _digest(self, name: str) -> str | None:
        each = next((each for each in self.conversations if each.id == name), None)
        return None if each is None else f"{digest_of(each):016x}"

    def _erase_scores(self, mart: Mart, store: Store) -> int:
        keys = [f"{name_hash(name):016x}" for name in self.ids] if self.options.keep_scores else []
        people = {f"{name_hash(name):016x}": pseudonym for name, pseudonym in self.people.items()}
        return erase_scores(mart, Erasures(store).hashes(), keys, people)

    def count_scores(self) -> int:
        """Return the number of conversations with scores on the board."""
        return len(scored_names(self.project).keys() & set(self.ids)) if self.ids else 0

    def _delete(self, store: Store, text: ErasedText) -> None:
        erasures = Erasures(store)
        if self.ids:
            self._rows.update(erasures.erase(text, self.ids, self.options.keep_scores))
        for name, pseudonym in self.people.items():
            self._rows.update(erasures.erase_annotator(name, pseudonym if self.options.keep_labels else None))

    def _erase_copies(self, found: Sequence[FileTrace], content: ErasedContent) -> list[FileTrace]:
        """Erase in the other stores of the folder, such as backups and folders of `accord run`, and in their scores."""
        failed = []
        for trace in found:
            try:
                if trace.kind == "store":
                    self._erase_copy(trace.path, content.text)
                elif trace.kind == "mart":
                    self._erase_scores(Mart(trace.path), self.project.store)
            except BadInput as error:
                logging.getLogger("accord").warning("%s was not changed: %s", trace.path, error)
                failed.append(FileTrace(trace.path, "unreadable"))
        return failed

    def _erase_copy(self, path: Path, text: ErasedText) -> None:
        url = f"sqlite:///{path}"
        with closing(Store(url)) as copy:
            Erasures(copy).bury({name: self._digest(name) for name in self.ids})
            Erasures(copy).bury(dict.fromkeys(self.people), ANNOTATOR)
            for each in copy.conversations(self.ids):  # a copy may hold an earlier text
                text.add(each)
            self._delete(copy, text)
            if (folder := mart_folder(url)) is not None:
                self._erase_scores(Mart(folder), copy)
        vacuum(url)

    def _batches(self) -> list[str]:
        """Return the batches at providers with requests about the conversations."""
        ids, found = set(self.ids), []
        for run in self.project.store.runs("batch") if ids else ():
            settings = run["settings"]
            if settings.get("batch") and not ids.isdisjoint(settings.get("conversations", {})):
                found.append(f"{settings['batch']} at {settings['endpoint']}")
        return found


_LISTED_ONCE = {"yours", "unreadable", "store", "mart"}


# --- evaluators that learned from erased conversations ----------------------------------------------------------------


def _learned_from(project: Workspace, digests: set[int]) -> list[tuple[str, str]]:
    """Return the folders of evaluators that learned from conversations with these digests, each with its command."""
    found = []
    for path in sorted(project.evaluators_folder.iterdir()) if project.evaluators_folder.is_dir() else ():
        if digests and (count := _count_learned(path, digests)):
            found.append((path.name, f"accord fit {_name_of(path)}  # learned from {count_of(count, 'of them')}"))
    return found


def _count_learned(folder: Path, digests: set[int]) -> int:
    from accord.learning import training_digests

    try:
        return len(digests.intersection(training_digests(folder)))
    except (BadInput, FileNotFoundError):
        return 0


def _name_of(folder: Path) -> str:
    from accord.learning import saved_as

    try:
        return str(saved_as(folder)["name"])
    except BadInput:
        return folder.name


def erased_since_fit(store: Store, folder: Path) -> int:
    """Return the number of erased conversations that an evaluator learned from, by its own list."""
    digests = {int(digest, 16) for digest in Erasures(store).digests()}
    return _count_learned(folder, digests) if digests else 0


def restore_scores(project: Workspace) -> None:
    """Let the board take scores of conversations again that are no longer erased."""
    if project.mart.folder.is_dir():
        erase_scores(project.mart, Erasures(project.store).hashes())


def refit_note(store: Store, folder: Path) -> str:
    """Return the sentence on an evaluator that learned from erased conversations; empty if it did not."""
    count = erased_since_fit(store, folder)
    if not count:
        return ""
    return (
        f"{folder.name} learned from {count_of(count, 'conversation')} that {'was' if count == 1 else 'were'} erased "
        f"since; fit it again: accord fit {_name_of(folder)}"
    )
