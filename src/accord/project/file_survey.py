"""A survey of files before an import: conversations, labels or judgements, and the questions that labels answer."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from accord.edges import BadInput, UnknownName, read_card, unpacked_name
from accord.formats import (
    RATING,
    READ,
    MemoryTable,
    Source,
    answers_beside,
    columns_of,
    is_annotation_file,
    is_label_file,
    raw_label_rows,
    read,
    read_annotations,
    reason_to_pass_over,
    source_of,
)
from accord.models import JUDGEMENTS_FILE
from accord.project.rater_columns import may_be_rater, rater_columns, share_scale
from accord.project.rubric_inference import (
    MOST_PLACES,
    Observed,
    Place,
    asked_by_name,
    asked_by_values,
    number_of,
    positions_among,
)
from accord.values import ISSUE, Kind, Question, Rubric, Scale

MOST_SURVEYED = 2000
"""Rows of each file that an import looks at before it reads them."""
NO_COLUMN = "none"
"""The name that `--labels` takes for no column at all."""
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
        could_be: Other columns with answers on a scale.
        guessed: Columns of `beside` that were chosen for their values alone.
        passed: Files of a folder that were passed over, each with the reason.
        wide: The questions that tables of labels answer.
        raters: Columns that each hold one person's ratings, with the person.
        may_be_raters: Columns that are read as questions, and may hold one person's ratings each.
        apart: Columns that look like raters, but share no scale.
        guesses_raters: True if the user named no rater columns.
    """

    conversations: list[Source] = field(default_factory=list)
    labels: list[Source] = field(default_factory=list)
    annotations: list[Source] = field(default_factory=list)
    recorded: list[Path] = field(default_factory=list)
    questions: dict[str, Observed] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)
    could_be: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)
    raters: dict[str, str] = field(default_factory=dict)
    may_be_raters: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    guesses_raters: bool = True

    @property
    def said(self) -> list[str]:
        """A sentence for each guess about columns with raters, with the options that say otherwise."""
        said = []
        if self.raters and self.guesses_raters:
            said.append(
                f"columns {', '.join(self.raters)} are read as {len(self.raters)} raters of one question, {RATING!r} "
                f"(a guess from names and values). If each is a question: {_flags('--labels', self.raters)}"
            )
        if self.may_be_raters:
            said.append(
                f"columns {', '.join(self.may_be_raters)} share a scale and are read as questions (a guess). If each "
                f"holds one person's ratings: {_flags('--rater', self.may_be_raters)}"
            )
        if self.apart:
            said.append(
                f"columns {', '.join(self.apart)} look like raters, but their values share no scale. Convert them to "
                f"one scale; if each is a question: {_flags('--labels', self.apart)}"
            )
        return said

    @property
    def files(self) -> list[Source]:
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


def _flags(option: str, names: Iterable[str]) -> str:
    return " ".join(f"{option} {shlex.quote(name)}" for name in names)


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
        mine = [each for each in inside if unpacked_name(each.name.lower()).endswith(READ)]
        benchmarks = {each.parent for each in mine if _is_benchmark(each.parent)}
        mine = [*sorted(benchmarks), *(each for each in mine if each.parent not in benchmarks)]
        mine = [each for each in mine if each.name != _QUESTIONS_FILE]
        for each, reason in [(each, reason) for each in mine if (reason := reason_to_pass_over(each))]:
            mine.remove(each)
            if passed is not None:
                passed.append(reason)
        if not mine:
            raise BadInput(f"{path} holds no file to read; a file ends in {', '.join(READ)}, gzip or not")
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
    paths: Sequence[str | Source],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    on_progress: Callable[[int], None] | None = None,
    raters: Collection[str] = (),
    most: int | None = None,
    skips: bool = False,
) -> Survey:
    """Look through files, storing nothing.

    Args:
        paths: Files, benchmark folders, folders of files, or tables in memory. Unreadable files of a folder are passed
            over.
        format: The conversations' format, or `auto`.
        columns: Accord's column names to the files'.
        named: Columns of conversation files that hold ratings; by default chosen by name and values. `NO_COLUMN`: none.
        on_progress: Called with the number of rows read so far, now and then.
        raters: Columns that each hold one person's ratings; by default chosen by name and values.
        most: Rows of each file to look at; by default all.
        skips: Pass over every file that cannot be read, also one that was named.

    Raises:
        BadInput: A named file, or every file of a folder, cannot be read.
    """
    done = Survey()
    tables: dict[str, Observed] = {}
    beside: dict[str, Observed] = {}
    given = list(map(source_of, paths))
    in_memory = [source for source in given if isinstance(source, MemoryTable)]
    files = [source for source in given if isinstance(source, Path)]
    found: list[Source] = [*(files_in(files, done.passed) if files else []), *in_memory]
    for path in found:
        try:
            _look(path, format, columns, done, tables, beside, on_progress, most)
        except BadInput as error:
            if path in given and not skips:
                raise
            done.passed.append(str(error))
    if not (done.files or done.recorded or skips):
        raise BadInput("; ".join(done.passed) or "no file to read")
    _choose(done, tables, beside, named, raters)
    return done


def set_scales(found: Survey, scales: Mapping[str, tuple[float, float]]) -> None:
    """Set the lowest and the highest value of some questions, in place of a guess from their values.

    Raises:
        BadInput: The values of a question are words.
        UnknownName: No label answers the question.
    """
    for name, ends in scales.items():
        if name not in found.questions:
            raise UnknownName("question of --scale", name, found.questions)
        question = found.questions[name]
        word = next((value for value in question.values if number_of(value) is None), None)
        if word is not None:
            raise BadInput(f"--scale {name}=...: {name!r} has values that are words, such as {word!r}")
        question.ends = ends


def _look(
    path: Source,
    format: str,
    columns: Mapping[str, str] | None,
    done: Survey,
    tables: dict[str, Observed],
    beside: dict[str, Observed],
    on_progress: Callable[[int], None] | None,
    most: int | None,
) -> None:
    names = columns_of(path)
    if isinstance(path, Path) and is_recording(path):
        done.recorded.append(path)
        return
    here = {ours: theirs for ours, theirs in (columns or {}).items() if theirs in names}
    if is_annotation_file(path, here):
        done.annotations.append(path)
        for annotation in islice(read_annotations(path, _NOTHING, here, lambda error: None), most):
            if annotation.kind == "person" and annotation.value is not None:
                _of(done.questions, annotation.question).add(annotation.value, annotation.by, annotation.target.turn)
    elif format == "auto" and is_label_file(path, here):
        done.labels.append(path)
        for line, target, answers in islice(raw_label_rows(path, here), most):
            for question, annotator, value in answers:
                if isinstance(value, str | int | float) and value != "":
                    _of(tables, question).add(value, annotator, target.turn, Place(str(path), line))
    else:
        _look_at_conversations(path, format, here, done, beside, on_progress, most)


def _is_asked(found: Observed, named: Collection[str]) -> bool:
    """Return True if a column of a table of labels holds answers: by its name, or by values on a scale."""
    is_named = found.name in named or found.name.casefold().startswith("q")
    return is_named or asked_by_name(found) or asked_by_values(found)


def _look_at_conversations(
    path: Source,
    format: str,
    columns: Mapping[str, str],
    done: Survey,
    beside: dict[str, Observed],
    on_progress: Callable[[int], None] | None,
    most: int | None,
) -> None:
    own: dict[str, Observed] = {}
    asked: dict[str, Observed] = {}
    seen = 0
    reasons: list[str] = []
    note = partial(_note_first, reasons)
    records = read(path, format, columns, note, note, most=most)
    for seen, record in enumerate(records, 1):
        place = Place(str(path), record.line)
        answers = (each.to_label() for each in record.annotations if not each.question.startswith(ISSUE))
        for label in (*record.labels, *answers):
            if isinstance(label.value, str | int | float):
                _of(asked, label.question).add(label.value, label.annotator, label.target.turn, place)
        for each in answers_beside(record.conversation):
            found = _of(own, each.question)
            found.add(each.value, each.annotator, each.turn, place)
            found.is_marked = found.is_marked or each.marked
        if on_progress is not None and seen % 500 == 0:
            on_progress(seen)
    if not seen:
        reason = f": {reasons[0]}" if reasons else "; it has no rows"
        raise BadInput(f"{path} holds no conversation that can be read{reason}")
    done.conversations.append(path)
    for found in asked.values():
        _told(found, path)
    _merge(done.questions, asked)
    _merge(beside, own)
    if isinstance(path, Path) and path.is_dir() and (path / JUDGEMENTS_FILE).is_file():
        done.recorded.append(path)


def _note_first(reasons: list[str], reason: BadInput | str) -> None:
    """Add a reason if there is none yet."""
    if not reasons:
        reasons.append(str(reason))


def _choose(
    done: Survey,
    tables: Mapping[str, Observed],
    beside: Mapping[str, Observed],
    named: Collection[str],
    raters: Collection[str],
) -> None:
    """Choose the columns with ratings: those that are named, else those that look so by name or values."""
    columns = {**tables, **beside}
    unknown = next((name for name in (*named, *raters) if name not in {*columns, *done.questions, NO_COLUMN}), None)
    if unknown is not None:
        raise BadInput(f"no file has a column {unknown!r}; there are {', '.join(columns) or 'no columns'}")
    known = [name for name, each in columns.items() if each.is_marked or name in done.questions]
    done.raters = {name: name for name in raters}
    if not (raters or named):
        done.raters, done.apart = rater_columns(columns, known)
    asked = {n: each for n, each in tables.items() if n not in done.raters and _is_asked(each, named)}
    done.wide = list(asked)
    _merge(done.questions, asked)
    left = {name: each for name, each in beside.items() if name not in done.raters}
    done.beside = _chosen_beside(done, left, named)
    for name in done.beside:
        beside[name].is_beside = True
    _merge(done.questions, {name: beside[name] for name in done.beside})
    for name, person in done.raters.items():
        _merge(done.questions, {RATING: _of_person(columns[name], person)})
    done.guesses_raters = not raters
    could = [columns[name] for name in done.questions if name in columns and may_be_rater(columns[name])]
    if not (named or done.raters) and share_scale(could):
        done.may_be_raters = [each.name for each in could]


def _chosen_beside(done: Survey, beside: Mapping[str, Observed], named: Collection[str]) -> list[str]:
    scaled = {name: each for name, each in beside.items() if len(each.values) > 1}
    by_name = [n for n, each in scaled.items() if asked_by_name(each)]
    if named:
        return [name for name in named if name in beside]
    if done.questions or done.raters:  # labels are known: another column counts only if it is certain
        chosen = [name for name, each in scaled.items() if each.is_marked or name in done.questions]
        done.could_be = [name for name in by_name if name not in chosen]
        return chosen
    chosen = list(dict.fromkeys([*(name for name, each in scaled.items() if each.is_marked), *by_name]))
    done.guessed = [name for name, each in scaled.items() if asked_by_values(each) and name not in chosen]
    if chosen:
        done.could_be, done.guessed = done.guessed, []
    chosen = chosen or done.guessed
    return chosen or [name for name, each in beside.items() if asked_by_name(each)]  # one value each: an error later


def _of_person(column: Observed, person: str) -> Observed:
    """The values of a rater's column as that person's answers to `RATING`."""
    return replace(column, name=RATING, annotators=Counter({person: column.total}))


def _of(found: dict[str, Observed], name: str) -> Observed:
    return found.setdefault(name, Observed(name))


def _merge(whole: dict[str, Observed], more: Mapping[str, Observed]) -> None:
    for name, each in more.items():
        there = whole.setdefault(name, Observed(name))
        there.values.update(each.values)
        for value, places in each.places.items():
            there.places[value] = [*there.places.get(value, ()), *places][:MOST_PLACES]
        there.annotators.update(each.annotators)
        there.of_turns += each.of_turns
        there.text, there.ends = there.text or each.text, there.ends or each.ends
        there.meanings = there.meanings or each.meanings
        there.is_marked, there.is_beside = there.is_marked or each.is_marked, there.is_beside or each.is_beside


def _told(found: Observed, path: Source) -> None:
    """Take the wording, the options and the ends of the scale of a question from a benchmark folder's list."""
    if not isinstance(path, Path) or not (listed := path / _QUESTIONS_FILE).is_file():
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
