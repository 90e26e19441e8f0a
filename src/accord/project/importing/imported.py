"""Result of an import and its summary in sentences: counts of rows, annotators, and ambiguous columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accord.edges import BadInput, count_of
from accord.evidence import Readable
from accord.formats import positions_among
from accord.project.importing.file_survey import FileSurvey
from accord.project.importing.judged_answers import JudgedAnswers
from accord.project.importing.raters import RaterNames, RepeatedRatings, joined_text, raters_text, repeated_text
from accord.project.importing.worker import ImportCounts
from accord.store import AddedCounts, RemovedCounts


@dataclass(repr=False)
class Imported(Readable):
    """Result of an import: counts of stored and skipped rows.

    Attributes:
        conversations: New and known conversations.
        labels: New and known labels.
        assessments: New and known assessments of turns.
        annotations: New and known annotations from exported files, and human answers with quotes or comments.
        bad_rows: The first bad rows that were skipped.
        skipped: Number of bad rows that were skipped.
        counts: Counts by question, role and reason.
        id: The id of this import; `None` if earlier imports brought all rows.
        replaced: Counts of earlier imports of the same files that this one replaced.
        judged: A model's answers in the files, to be kept as recorded judgements (`keep_judgements`).
        names: Annotators, by the spelling that the store keeps.
        repeated: Ratings that a later one of the same person replaces.
        matched: Sentences on ids of labels that the store has in another form.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     imported = project.import_([{"id": "new", "prompt": "Hi.", "response": "Hello!"}])
    >>> imported.conversations.new, imported.labels.new
    (1, 0)
    """

    conversations: AddedCounts = AddedCounts()
    labels: AddedCounts = AddedCounts()
    assessments: AddedCounts = AddedCounts()
    annotations: AddedCounts = AddedCounts()
    bad_rows: list[str] = field(default_factory=list)
    skipped: int = 0
    counts: ImportCounts = field(default_factory=ImportCounts)
    id: str | None = None
    replaced: RemovedCounts = RemovedCounts()
    judged: JudgedAnswers = field(default_factory=JudgedAnswers)
    names: RaterNames = field(default_factory=RaterNames)
    repeated: RepeatedRatings = field(default_factory=RepeatedRatings)
    matched: list[str] = field(default_factory=list)

    _MAX_BAD_ROWS = 20
    _KINDS = ("conversations", "labels", "assessments", "annotations")

    def skip(self, error: BadInput) -> None:
        """Count a bad row that was skipped."""
        self.skipped += 1
        if len(self.bad_rows) < self._MAX_BAD_ROWS:
            self.bad_rows.append(str(error))

    def summary(self) -> dict[str, Any]:
        """Return the counts of new conversations and labels, and of skipped rows."""
        return {"conversations": self.conversations.new, "labels": self.labels.new, "skipped": self.skipped or None}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the new and known rows of each kind."""
        return [{"kind": name, **getattr(self, name).to_json()} for name in self._KINDS if any(getattr(self, name))]

    @property
    def raters(self) -> dict[str, int]:
        """Number of ratings by person, on all questions, without those that a later one replaces."""
        return {name: count for name, count in self.names.counts(self.counts.annotators).items() if count > 0}

    def to_json(self) -> dict[str, Any]:
        """Convert the counts and the first bad rows to JSON."""
        counts = self.counts
        return {
            **{name: getattr(self, name).to_json() for name in self._KINDS},
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
            "questions": dict(counts.questions),
            "other_questions": dict(counts.other_questions),
            "positions": positions_among(counts.annotators),
            "raters": self.raters,
            "judges": dict(self.judged.judges),
            "joined_raters": self.names.joined,
            "repeated": self.repeated.to_json(),
            "roles": dict(counts.roles),
            "ignored": dict(counts.ignored),
            "id": self.id,
            "replaced": self.replaced._asdict(),
        }


def imported_text(result: Mapping[str, Any]) -> str:
    """Return the counts of rows that an import stored and skipped."""
    c, labels = result["conversations"], result["labels"]
    lines = [
        f"{count_of(c['new'], 'conversation')} imported, {c['known']} already there",
        f"{count_of(labels['new'], 'label')} imported, {labels['known']} already there",
    ]
    found = result["assessments"]
    if found["new"] or found["known"]:
        lines.append(f"{count_of(found['new'], 'assessment')} of turns imported, {found['known']} already there")
    found = result["annotations"]
    if found["new"] or found["known"]:
        lines.append(f"{count_of(found['new'], 'annotation')} imported, {found['known']} already there")
    erased = sum(result[kind].get("erased", 0) for kind in Imported._KINDS)
    if erased:
        lines.append(
            f"{count_of(erased, 'row')} left out: {'it names' if erased == 1 else 'they name'} conversations or "
            "annotators that were erased (--with-erased imports them again)"
        )
    others = result["other_questions"]
    counts = [
        f"{name} ({count}, not in the rubric)" if name in others else f"{name} ({count})"
        for name, count in result["questions"].items()
    ]
    if counts:
        lines.append(f"labels read by question: {', '.join(counts)}")
    if result["raters"] or result["judges"]:
        lines.append(f"rated by: {raters_text(result['raters'], result['judges'])}")
    lines += filter(None, (joined_text(result["joined_raters"]), repeated_text(result["repeated"])))
    lines += [f"{count_of(count, 'row')} ignored: {why}" for why, count in result["ignored"].items()]
    if result["skipped"]:
        lines += [f"{count_of(result['skipped'], 'bad row')} skipped:", *(f"  {row}" for row in result["bad_rows"])]
    return "\n".join(lines)


def column_notes(
    survey: FileSurvey, read: Sequence[str], labels: Sequence[str], command: Callable[..., str]
) -> Iterator[str]:
    """Yield sentences on columns that were read as labels by a guess, and on columns that could have been.

    Args:
        survey: Survey of the files.
        read: Columns that were read as labels.
        labels: Columns that the user named.
        command: Function that returns the import command with other columns as `labels` or `raters`.
    """
    chosen = [name for name in survey.rating_columns if name in read]
    yield from survey.rater_notes if survey.raters or survey.mismatched_raters else survey.name_notes
    if chosen and not labels and not (survey.raters or survey.mismatched_raters):
        yield f"columns read as labels: {', '.join(chosen)} (--labels NAME for others, --labels none for none)"
    could_be = [name for name in (*survey.guessed_columns, *survey.other_candidates) if not labels and name not in read]
    if could_be:
        raters = [name for name in survey.possible_raters if name in could_be]
        by_person = f"; if each holds one person's ratings: {command(raters=raters)}" if raters else ""
        yield (
            f"columns with values on a scale, not read as labels: {', '.join(could_be)}. To read them: "
            f"{command(could_be)}{by_person}"
        )
