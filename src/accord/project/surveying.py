"""A survey of files before anything is imported: which hold conversations, labels or judgements, and what is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.formats import (
    answers_beside,
    columns_of,
    is_annotation_file,
    is_label_file,
    locate,
    raw_label_rows,
    read,
    read_annotations,
)
from accord.models import JUDGEMENTS_FILE
from accord.project.inferring import Observed, asked_by_name, asked_by_values, positions_among
from accord.values import ISSUE, BadInput, Kind, Question, Rubric, Scale, read_card, unpacked_name

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_JUDGEMENT = {"item_id", "question", "judge_model"}
_QUESTIONS_FILE = "questions.json"
_NOBODY = Question(id="\uffff", text="?", scale=Scale(kind=Kind.BINARY, options=(0, 1)))
_NOTHING = Rubric(name="none", main=_NOBODY.id, questions=(_NOBODY,))
"""Asks nothing that anybody could have answered."""


@dataclass
class Survey:
    """What some files hold.

    Attributes:
        conversations: Files of conversations.
        labels: Files of labels alone.
        annotations: Files that `accord export` wrote.
        recorded: Files of a judge's recorded answers, or folders that hold one.
        questions: What is answered, by question.
        beside: The questions whose answers stand beside the text, in columns or metadata.
        could_be: Columns beside the text that hold answers on a scale, and that nothing says are ratings.
        passed: Files of a folder that were passed over, each with the reason.
        roles: Who speaks and is neither user nor assistant, in conversations without an assistant.
    """

    conversations: list[Path] = field(default_factory=list)
    labels: list[Path] = field(default_factory=list)
    annotations: list[Path] = field(default_factory=list)
    recorded: list[Path] = field(default_factory=list)
    questions: dict[str, Observed] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)
    could_be: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        """Everything that can be imported."""
        return [*self.conversations, *self.labels, *self.annotations]

    @property
    def of_turns(self) -> list[str]:
        """The questions of which most answers are about turns."""
        return [name for name, each in self.questions.items() if each.level == "turn"]

    @property
    def positions(self) -> list[str]:
        """Names of annotators that may be places in a list, not persons: r1, r2, ...; empty where none are."""
        named = {name for each in self.questions.values() for name in each.annotators}
        return positions_among(named)


def files_in(paths: Iterable[str | Path], passed: list[str] | None = None) -> list[Path]:
    """Files to read: those named, and those of the named folders that may hold data; benchmark folders as they are.

    Raises:
        BadInput: A folder holds none.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir() or _is_benchmark(path):
            found.append(path)
            continue
        inside = sorted(each for each in path.rglob("*") if each.is_file() and not _is_hidden(each, path))
        mine = [each for each in inside if unpacked_name(each.name.lower()).endswith(ENDINGS)]
        benchmarks = {each.parent for each in mine if _is_benchmark(each.parent)}
        mine = [*sorted(benchmarks), *(each for each in mine if each.parent not in benchmarks)]
        mine = [each for each in mine if each.name != _QUESTIONS_FILE]
        for each in [each for each in mine if each.is_file() and each.stat().st_size == 0]:
            mine.remove(each)
            if passed is not None:
                passed.append(f"{each} is empty")
        if not mine:
            raise BadInput(f"{path} holds no file to read; a file ends in {', '.join(ENDINGS)}, gzip or not")
        found += mine
    return found


def _is_benchmark(folder: Path) -> bool:
    return (folder / "items.jsonl.gz").is_file()


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def is_recording(path: str | Path) -> bool:
    """Whether a file holds a judge's recorded answers, told by its first readable row."""
    return columns_of(path) >= _JUDGEMENT


def survey(
    paths: Sequence[str | Path],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    on_progress: Callable[[int], None] | None = None,
) -> Survey:
    """Look through files, keeping nothing.

    Args:
        paths: Files, benchmark folders, or folders of files. What a folder holds and nobody can read is passed over.
        format: The conversations' format, or `auto`.
        columns: Our column names to the files', where they differ.
        named: Columns beside the text that hold ratings, whatever they are called; by default told by name and values.
        on_progress: Called with the number of rows looked at, now and then.

    Raises:
        BadInput: A file that was named cannot be read, or none of a folder's.
    """
    done = Survey()
    beside: dict[str, Observed] = {}
    given = {Path(path) for path in paths}
    for path in files_in(paths, done.passed):
        try:
            _look(path, format, columns, done, beside, on_progress)
        except BadInput as error:
            if path in given:
                raise
            done.passed.append(str(error))
    if not (done.files or done.recorded):
        raise BadInput("; ".join(done.passed) or "no file to read")
    _choose(done, beside, named)
    return done


def _look(
    path: Path,
    format: str,
    columns: Mapping[str, str] | None,
    done: Survey,
    beside: dict[str, Observed],
    on_progress: Callable[[int], None] | None,
) -> None:
    names = columns_of(path)
    if is_recording(path):
        done.recorded.append(path)
        return
    here = {ours: theirs for ours, theirs in (columns or {}).items() if theirs in names}
    if is_annotation_file(path, here):
        done.annotations.append(path)
        for annotation in read_annotations(path, _NOTHING, here, lambda error: None):
            if annotation.kind == "person" and annotation.value is not None:
                _of(done.questions, annotation.question).add(annotation.value, annotation.by, annotation.target.turn)
    elif format == "auto" and is_label_file(path, here):
        done.labels.append(path)
        found: dict[str, Observed] = {}
        for target, answers in raw_label_rows(path, here):
            for question, annotator, value in answers:
                if isinstance(value, str | int | float) and value != "":
                    _of(found, question).add(value, annotator, target.turn)
        _merge(done.questions, {n: each for n, each in found.items() if _is_asked(each)})
    else:
        _look_at_conversations(path, format, here, done, beside, on_progress)


def _is_asked(found: Observed) -> bool:
    """Whether a column of a table of labels holds answers: by its name, or by values that are a scale's."""
    return asked_by_name(found) or asked_by_values(found) or found.name.casefold().startswith("q")


def _look_at_conversations(
    path: Path,
    format: str,
    columns: Mapping[str, str],
    done: Survey,
    beside: dict[str, Observed],
    on_progress: Callable[[int], None] | None,
) -> None:
    own: dict[str, Observed] = {}
    asked: dict[str, Observed] = {}
    seen = 0
    for seen, record in enumerate(read(path, format, columns, lambda error: None), 1):
        answers = (each.to_label() for each in record.annotations if not each.question.startswith(ISSUE))
        for label in (*record.labels, *answers):
            if label.value is not None:
                _of(asked, label.question).add(label.value, label.annotator, label.target.turn)
        for each in answers_beside(record.conversation):
            found = _of(own, each.question)
            found.add(each.value, each.annotator, each.turn)
            found.is_marked = found.is_marked or each.marked
        if on_progress is not None and seen % 500 == 0:
            on_progress(seen)
    if not seen:
        raise BadInput(f"{path} holds no conversation that can be read; see why with: accord import {path}")
    done.conversations.append(path)
    for found in asked.values():
        _told(found, path)
    _merge(done.questions, asked)
    _merge(beside, own)
    folder_recording = path / JUDGEMENTS_FILE if path.is_dir() else locate(path).parent / JUDGEMENTS_FILE
    if path.is_dir() and folder_recording.is_file():
        done.recorded.append(path)


def _choose(done: Survey, beside: Mapping[str, Observed], named: Collection[str]) -> None:
    """Which of the columns beside the text hold ratings: those that are named, else those that look so."""
    for name in named:
        if name not in beside and name not in done.questions:
            raise BadInput(f"no file has {name!r} beside its text; there are {', '.join(beside) or 'no columns'}")
    scaled = {name: each for name, each in beside.items() if len(each.values) > 1}
    by_name = [n for n, each in scaled.items() if asked_by_name(each)]
    if named:
        chosen = [name for name in named if name in beside]
    elif done.questions:  # where a file says what its labels are, a column is one only if nothing else could be meant
        chosen = [name for name, each in scaled.items() if each.is_marked or name in done.questions]
        done.could_be = [name for name in by_name if name not in chosen]
    else:
        chosen = list(dict.fromkeys([*(name for name, each in scaled.items() if each.is_marked), *by_name]))
        guessed = [name for name, each in scaled.items() if asked_by_values(each) and name not in chosen]
        chosen, done.could_be = (chosen, guessed) if chosen else (guessed, [])
        chosen = chosen or [name for name, each in beside.items() if asked_by_name(each)]  # all alike: to be said so
    done.beside = chosen
    for name in chosen:
        beside[name].is_beside = True
    _merge(done.questions, {name: beside[name] for name in chosen})


def _of(found: dict[str, Observed], name: str) -> Observed:
    return found.setdefault(name, Observed(name))


def _merge(whole: dict[str, Observed], more: Mapping[str, Observed]) -> None:
    for name, each in more.items():
        there = whole.setdefault(name, Observed(name))
        there.values.update(each.values)
        there.annotators.update(each.annotators)
        there.of_turns += each.of_turns
        there.text, there.ends = there.text or each.text, there.ends or each.ends
        there.meanings = there.meanings or each.meanings
        there.is_marked, there.is_beside = there.is_marked or each.is_marked, there.is_beside or each.is_beside


def _told(found: Observed, path: Path) -> None:
    """What a benchmark folder's list of questions says of one: its wording, its options, the ends of its scale."""
    listed = path / _QUESTIONS_FILE
    if not path.is_dir() or not listed.is_file():
        return
    try:
        content = read_card(listed)
    except (OSError, BadInput):
        return
    for entry in content.get("questions", ()) if isinstance(content, dict) else ():
        if not isinstance(entry, dict) or entry.get("name", entry.get("id")) != found.name:
            continue
        text, options, ends = entry.get("text"), entry.get("options"), entry.get("scale")
        found.text = text if isinstance(text, str) else ""
        if isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
            low, high = ends
            numbers: list[Any] = [value for value in found.values if isinstance(value, int | float)]
            if low < high and all(low <= number <= high for number in numbers):
                found.ends = (low, high)
        if isinstance(options, dict) and found.ends is not None:
            found.meanings = {str(key): str(text) for key, text in options.items()}
