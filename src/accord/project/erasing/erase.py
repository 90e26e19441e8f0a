"""Erasing in a project: tombstones, scores, files, rows of the store, free space; each step can be repeated.

An erasure is a run of the store. Its settings name what to erase until the rows are deleted, and hashes after that.
If the process is killed, `resume` finds the run and continues it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput
from accord.evidence import Readable
from accord.learning import digest_of
from accord.project.erasing.files import ErasedContent, FileTrace, erase_in_files
from accord.project.erasing.refit import learned_from
from accord.project.erasing.selection import Selection, scored_names, selected
from accord.store import ErasedNames, ErasedText, Erasures, Mart, Store, hashed_name, mart_folder, name_hash, vacuum
from accord.values import Conversation, content_hash

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
        learned: The same evaluators, each with the number of these conversations, its question and its cards.
        batches: Batch files at a provider that hold requests about an erased conversation.
        unknown: Number of scored conversations that may be by a selected user: neither the store nor a file has them.
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
    learned: Sequence[Mapping[str, Any]] = ()
    batches: Sequence[str] = ()
    unknown: int = 0

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


def plan_erasure(project: Workspace, selection: Selection) -> Erasure:
    """Return what `erase` would erase, without changing anything; errors as in `erase`."""
    job = _Job.of(project, selection)
    rows = Counter(Erasures(project.store).count(job.ids)) if job.ids else Counter[str]()
    for name in job.people:
        rows.update(Erasures(project.store).count_annotator(name))
    return replace(job.receipt(), rows=dict(rows), scores=job.count_scores(), files=job.files(writes=False))


def erase(project: Workspace, selection: Selection, later: bool = False) -> Erasure:
    """Erase conversations and annotators in the store, the scores and the files of a project, and return a receipt.

    With `later`, the erasure is only recorded, and the next `resume` does it; the receipt has its ID and no rows.

    Raises:
        BadInput: Nothing was selected, or a selected name is unknown.
        StoreError: The store or the scores cannot be written; `resume` continues.
        OSError: A file cannot be written; `resume` continues.
    """
    job = _Job.of(project, selection)
    if not (job.ids or job.people):
        return job.receipt()
    job.begin()
    return replace(job.receipt(), id=job.id) if later else job.run()


def unfinished(store: Store) -> list[str]:
    """Return the runs of erasures that were interrupted, the oldest first."""
    return [run["id"] for run in store.runs(Erasures.command) if run["status"] == "running"]


def resume(project: Workspace) -> list[Erasure]:
    """Continue interrupted erasures, and return their receipts; errors as in `erase`."""
    waiting = set(unfinished(project.store))
    return [_Job.of_run(project, run).run() for run in project.store.runs(Erasures.command) if run["id"] in waiting]


class _Job:
    """An erasure in progress."""

    def __init__(
        self,
        project: Workspace,
        ids: Sequence[str],
        people: Mapping[str, str],
        selection: Mapping[str, Any],
        unknown: int = 0,
    ) -> None:
        self.project, self.ids, self.people, self.selection, self.unknown = project, ids, people, selection, unknown
        self.keeps_scores = bool(selection.get("keep_scores"))
        self.keeps_labels = bool(selection.get("keep_labels"))
        self.id, self.is_deleted = "", False
        self._rows = Counter[str]()
        self._scores = 0
        self.conversations = list(project.store.conversations(ids)) if ids else []
        self.hash = content_hash(sorted(f"{name_hash(name):016x}" for name in (*ids, *people)), length=16)

    @classmethod
    def of(cls, project: Workspace, selection: Selection) -> _Job:
        """Return a new erasure."""
        if selection.is_empty:
            raise BadInput("nothing is selected; name a conversation, a user, an annotator or a time")
        found = selected(project, selection)
        ids = set(found.ids)
        if not selection.keep_labels:
            ids.update(name for each in selection.annotators for name in Erasures(project.store).chats_by(each))
        people = {name: f"annotator-{name_hash(name):016x}"[:18] for name in selection.annotators}
        return cls(project, sorted(ids), people, selection.to_json(), found.unknown)

    @classmethod
    def of_run(cls, project: Workspace, run: Mapping[str, Any]) -> _Job:
        """Return an interrupted erasure."""
        settings = run["settings"]
        names = settings.get("ids", ()), settings.get("people", {})
        job = cls(project, *names, settings["selection"], settings.get("unknown", 0))
        job.id, job.is_deleted, job.hash = run["id"], settings["deleted"], settings["hash"]
        job._rows.update(settings.get("rows", {}))
        return job

    def begin(self) -> None:
        """Record the erasure as a run, from which it is continued after an interruption."""
        names = {"ids": list(self.ids), "people": dict(self.people)}
        self.id = self.project.store.start_run(Erasures.command, {**self._settings(), **names})

    def _settings(self) -> dict[str, Any]:
        found = {"selection": dict(self.selection), "hash": self.hash, "deleted": self.is_deleted}
        return {**found, "unknown": self.unknown} if self.unknown else found

    def run(self) -> Erasure:
        """Run all steps that are left."""
        store, found = self.project.store, list[FileTrace]()
        receipt = self.receipt()
        if not self.is_deleted:
            erasures = Erasures(store)
            erasures.bury({name: self._digest(name) for name in self.ids})
            erasures.bury(dict.fromkeys(self.people), "annotator")
            self._scores = self._erase_scores(self.project.mart, store)
            content = self.content()
            found = erase_in_files(self.project, content)
            found = [*found, *self._erase_copies(found, content)]
            self._rows = self._delete(store, content.text)
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
            run = next(run for run in self.project.store.runs(Erasures.command) if run["id"] == self.id)
            counts = {name: run["settings"].get(name, 0) for name in ("conversations", "annotators")}
            return Erasure(selection=self.selection, hash=self.hash, unknown=self.unknown, **counts)
        digests = {digest for each in self.conversations if (digest := digest_of(each))}
        learned = learned_from(
            self.project.evaluators_folder, self.project.folder().name, self.project.config.folder, digests
        )
        refit = {
            row["folder"]: f"accord fit {row['evaluator']}  # learned from {row['learned']:,} of them"
            for row in learned
        }
        return Erasure(
            selection=self.selection, conversations=len(self.ids), annotators=len(self.people), hash=self.hash,
            refit=refit, learned=learned, batches=self._batches(), unknown=self.unknown,
        )  # fmt: skip

    # --- steps ----------------------------------------------------------------------------------------------------

    def content(self) -> ErasedContent:
        """Return what to look for in files."""
        text = ErasedText(self.conversations, [*self.ids, *(n for n in self.people if len(n) >= SHORTEST_NAME)])
        if self.ids:
            text.keep_own(self._others(self.project.store), _common_names(self.project))
        kept = self.keeps_scores
        names = {name: f"erased-{hashed_name(name)}" if kept else None for name in self.ids}
        rated = self.project.store.annotations({"person"}, conversations=self.ids) if self.ids else iter(())
        has_ratings = bool(self.people) or next(rated, None) is not None
        found = ErasedNames.of(names, self.people, _used_names(self.project))
        return ErasedContent(text, found, self.ids, self.conversations, has_ratings)

    def _others(self, store: Store) -> Iterator[Conversation]:
        """Yield the conversations that stay."""
        erased = set(self.ids)
        return (each for each in store.conversations(synthetic="with") if each.id not in erased)

    def files(self, writes: bool) -> list[FileTrace]:
        """Return the traces in files."""
        return erase_in_files(self.project, self.content(), writes)

    def _digest(self, name: str) -> str | None:
        each = next((each for each in self.conversations if each.id == name), None)
        return None if each is None else f"{digest_of(each):016x}"

    def _erase_scores(self, mart: Mart, store: Store) -> int:
        kept = map(hashed_name, self.ids) if self.keeps_scores else ()
        people = {hashed_name(name): pseudonym for name, pseudonym in self.people.items()}
        return mart.erase(Erasures(store).hashes(), list(kept), people)

    def count_scores(self) -> int:
        """Return the number of conversations with scores on the board."""
        return len(scored_names(self.project).keys() & set(self.ids)) if self.ids else 0

    def _delete(self, store: Store, text: ErasedText) -> Counter[str]:
        erasures, rows = Erasures(store), Counter[str]()
        if self.ids:
            rows.update(erasures.erase(text, self.ids, self.keeps_scores))
        for name, pseudonym in self.people.items():
            is_common = name in _used_names(self.project)
            rows.update(erasures.erase_annotator(name, pseudonym if self.keeps_labels else None, is_common))
        return rows

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
            Erasures(copy).bury(dict.fromkeys(self.people), "annotator")
            for each in copy.conversations(self.ids):  # a copy may hold an earlier text
                text.add(each)
            text.keep_own(self._others(copy))
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


_FIELDS = {
    "accord_version",
    "format",
    "head",
    "learned",
    "level",
    "model",
    "name",
    "seed",
    "sources",
    "value",
    "version",
}
"""Fields of evaluators and of results of runs."""


def _used_names(project: Workspace) -> set[str]:
    """Return names of settings, of questions, and of fields."""
    questions = [each.model_dump(mode="json") for each in project.rubric.questions]
    return _FIELDS.union(_strings([project.config.model_dump(mode="json", exclude={"studies"}), *questions]))


def _common_names(project: Workspace) -> set[str]:
    """Return names of other things than conversations: settings, questions, annotators, judges."""
    return Erasures(project.store).common_names().union(_used_names(project))


def _strings(value: Any) -> Iterator[str]:
    """Yield all keys and texts of a JSON value."""
    if isinstance(value, str):
        yield value
    if isinstance(value, Mapping):
        yield from map(str, value)
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _strings(inner)


_LISTED_ONCE = {"yours", "unreadable", "store", "mart"}


def restore_scores(project: Workspace) -> None:
    """After an import that `restores_erased`, let the board take scores of its conversations again."""
    if project.store.restores_erased and project.mart.folder.is_dir():
        project.mart.erase(Erasures(project.store).hashes())
