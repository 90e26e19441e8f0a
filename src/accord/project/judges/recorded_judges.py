"""Recorded judges: choice among recorded models, their agreement with people, and their entry in the project file.

The entry is `models: {judge: {mode: recorded, paths: [...]}}`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName, load_yaml, own_project, parse_yaml
from accord.formats import ObservedAnswers
from accord.models import (
    JUDGE,
    JUDGEMENTS_FILE,
    Answer,
    ModelSettings,
    RecordedAnswers,
    RecordedJudge,
    question_of,
    read_recordings,
    recorded_item,
    wait,
)
from accord.project.importing.judged_answers import JUDGEMENTS_FOLDER, JudgedAnswers
from accord.project.importing.rubric_inference import infer_rubric
from accord.statistics import pearson
from accord.store import Imports, Store
from accord.values import PROJECT_FILE, Labels, Question, Rubric, Sample, Scale, Target, find_project_file, text_hash


@dataclass(frozen=True)
class RecordedAgreement:
    """Agreement of a recorded model's answers to one question with the mean ratings of people.

    Attributes:
        model: Recorded model.
        question: Question that it answered.
        question_name: Short name of the question, or its id.
        n: Number of samples with an answer and a rating.
        pearson: Correlation of the expected answer with the mean rating; `None` below three samples.
        spearman: Correlation of their ranks; `None` below three samples.
    """

    model: str
    question: str
    question_name: str
    n: int
    pearson: float | None
    spearman: float | None

    def to_json(self) -> dict[str, Any]:
        """Convert to a flat row."""
        return asdict(self)


def choose_recording(
    recordings: Mapping[str, RecordedAnswers], main: str, samples: Collection[Sample] = (), model: str | None = None
) -> RecordedAnswers:
    """Choose the recording to use as the judge: of the named model, else the recording that covers most ratings.

    Args:
        recordings: Answers of each model.
        main: The main question.
        samples: Rated samples. Models are ranked by the number of samples with an answer to the main question, then by
            the number with an answer to any question, then by the number of their answers.
        model: Name of the model.

    Raises:
        BadInput: Nothing is recorded.
        UnknownName: No recorded model has this name.
    """
    if model is not None and model not in recordings:
        raise UnknownName("recorded model", model, recordings)
    if not recordings:
        raise BadInput("the recording holds no judgement")
    items = [recorded_item(sample) for sample in samples]

    def rank(recording: RecordedAnswers) -> tuple[int, ...]:
        on_main, on_any, counts = recording.answered(main), recording.answered(), recording.questions
        runs = sum(
            len(runs) for (_, question), runs in recording.answers.items() if question.casefold() == main.casefold()
        )
        covered = [sum(item in answered for item in items) for answered in (on_main, on_any)]
        return *covered, runs, len(counts), counts.total()

    return recordings[model] if model is not None else max(recordings.values(), key=rank)


def load_recordings(judge: ModelSettings | None, folder: Path) -> Mapping[str, RecordedAnswers]:
    """Load the answers of recorded models, by model; empty unless the judge is a recorded one.

    Args:
        judge: Settings of the judge.
        folder: Folder of the project file, for relative paths.
    """
    if judge is None or judge.mode != "recorded":
        return {}
    try:
        return read_recordings([folder / path for path in judge.paths])
    except BadInput:  # raised again by the first request to the judge
        return {}


def recorded_questions(
    recordings: Mapping[str, RecordedAnswers], judge: str | None, rubric: Rubric
) -> tuple[Question, ...]:
    """Return the questions that only recorded models answered, on scales inferred from the answers.

    Excluded are the judge's answers to questions of the rubric. Every question of another model is a separate question
    (`question_of`), whose ordered scale has its two ends as options, so that an answer is an expected value.
    """
    known = {question.id.casefold() for question in rubric.questions}
    questions: list[Question] = []
    for model in sorted(recordings, key=lambda name: name != judge):
        for name in recordings[model].questions:
            id_ = name if model == judge else question_of(model, name)
            question = _inferred_question(recordings[model], name)
            if question is None or id_.casefold() in known:
                continue
            known.add(id_.casefold())
            if model != judge:
                question = question.model_copy(update={"id": id_, "scale": _ends(question.scale)})
            questions.append(question)
    return tuple(questions)


def _ends(scale: Scale) -> Scale:
    """Reduce an ordered scale to its two ends; other scales stay unchanged."""
    if not scale.is_ordered or len(scale.options) < 3:
        return scale
    return Scale(options=(scale.options[0], scale.options[-1]))


def _inferred_question(recording: RecordedAnswers, name: str) -> Question | None:
    """Return a question on the scale of a model's answers; `None` if they are constant or free text."""
    try:
        [question] = infer_rubric([ObservedAnswers(name, values=Counter(recording.options(name)))]).rubric.questions
    except BadInput:
        return None
    return question.model_copy(update={"scale": question.scale.anchored})


def recorded_agreement(
    recordings: Mapping[str, RecordedAnswers], rubric: Rubric, labels: Labels, samples: Iterable[Sample]
) -> list[RecordedAgreement]:
    """Compute the agreement of every recorded model with the mean ratings of people, question by question.

    A question of the rubric is compared with its own ratings, any other with the ratings of the main question.
    """
    rated: dict[str, dict[Target, list[float]]] = {}
    for label in labels:
        if isinstance(label.value, int | float):
            rated.setdefault(label.question, {}).setdefault(label.target, []).append(float(label.value))
    samples = list(samples)
    rows = []
    for recording in recordings.values():
        judge = RecordedJudge(recording.answers, recording.model)
        for name in recording.questions:
            question = _inferred_question(recording, name)
            if question is None or not question.scale.is_ordered:
                continue
            target = next((q.id for q in rubric.questions if q.id.casefold() == name.casefold()), rubric.main)
            people = rated.get(target) or rated.get(rubric.main, {})
            pairs = [
                (fmean(people[sample.target]), expected)
                for sample in samples
                if sample.target in people and (expected := expected_answer(judge, sample, question)) is not None
            ]
            rows.append(RecordedAgreement(recording.model, name, rubric.shown(name), len(pairs), *_correlations(pairs)))
    return sorted(rows, key=lambda row: (row.spearman is None, -abs(row.spearman or 0.0)))


def expected_answer(judge: RecordedJudge, sample: Sample, question: Question) -> float | None:
    """Return the mean of a recorded distribution, or `None` if the answer is missing."""
    [answer] = wait(judge.answer(sample, [question]))
    if not isinstance(answer, Answer):
        return None
    mass = sum(answer.probabilities.values())
    return sum(float(option) * p for option, p in answer.probabilities.items()) / mass if mass else None


def _correlations(pairs: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    if len(pairs) < 3:
        return None, None
    people, judged = np.array(pairs, dtype=float).T
    return pearson(people, judged), pearson(_ranks(people), _ranks(judged))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n,) ranks, ties at their mean rank, without the second that it takes to load `scipy.stats`."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places], dtype=float)


# --- the entry in the project file ---------------------------------------------------------------------------------

_MODELS_KEY = re.compile(r"(?m)^models:[ \t]*(?:\{[ \t]*\}[ \t]*)?(?P<comment>#.*)?$")


@dataclass(frozen=True)
class Registration:
    """Outcome of registering recorded judgements.

    Attributes:
        models: Number of answers by recorded model.
        entry: Entry of the project file that names the judgements, as YAML.
        is_written: True if the entry was written; False if it was there already, or is left to the user.
        message: Sentence on the outcome, with the next step if there is one.
        written: Files of judgements that were written.
    """

    models: dict[str, int]
    entry: str
    is_written: bool
    message: str
    written: Sequence[Path] = ()


def find_recordings(files: Sequence[Path], recordings: Collection[Path]) -> list[Path]:
    """Return the files that a survey found to be recorded judgments, and the benchmark folders that hold one."""
    return [path for path in files if path in recordings or (path / JUDGEMENTS_FILE).is_file()]


def keep_judgements(
    judged: JudgedAnswers, project_file: Path | None = None, recorded: Sequence[Path] = ()
) -> Registration | None:
    """Write a model's answers next to the project file, and register them with files of recorded judgements.

    Args:
        judged: A model's answers in the files of an import (`Imported.judged`).
        project_file: The project file, by default the project file of the working folder.
        recorded: Files of judgements, or folders that hold one, to register too.

    Returns:
        The outcome; `None` if there is nothing to register.

    Raises:
        BadInput: A file cannot be read, or is not a recording.
    """
    path = project_file or find_project_file() or Path(PROJECT_FILE)
    written = judged.write(path.parent)
    paths = [*recorded, *written]
    return replace(register_recordings(paths, path), written=written) if paths else None


def register_recordings(paths: Sequence[Path], project_file: Path | None = None) -> Registration:
    """Make recorded judgements the judge of a project, or add them to its recorded judge.

    A judge of another mode never changes: the message has the entry to replace it.

    Args:
        paths: Files of judgements, or folders that hold one.
        project_file: The project file, by default the project file of the working folder; written if it does not exist.

    Raises:
        BadInput: A file cannot be read, or is not a recording.
    """
    path = project_file or find_project_file() or Path(PROJECT_FILE)
    models = {name: len(recording.answers) for name, recording in read_recordings(paths).items()}
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    content: Any = load_yaml(path) if text else {}
    names = [_relative(recording, path.parent) for recording in paths]
    subject = f"recorded judgements of {', '.join(models) or 'no model'}"
    entries = content.get("models") or {}
    if (judge := entries.get(JUDGE)) is not None:
        return _added_to_judge(judge, path, names, models, subject)
    entry = _entry_of(names)
    changed = _with_entry(text, entry)
    expected = {**content, "models": {**entries, **parse_yaml(entry, str(path))}}
    if _parsed(changed, path) != expected:
        return Registration(models, entry, False, f"{subject} are not used yet. Add to models: in {path}: {entry}")
    is_new = not path.exists()
    path.write_text(changed, encoding="utf-8")
    if is_new:
        own_project(path.parent)
    return Registration(models, entry, True, f"{subject} are the judge now: added to models: in {path}")


def _entry_of(names: Iterable[str]) -> str:
    """Return the entry of a judge with recorded answers in the project file."""
    return f"{JUDGE}: {{mode: recorded, paths: [{', '.join(map(_quoted, names))}]}}"


def _added_to_judge(
    judge: Mapping[str, Any], path: Path, names: Sequence[str], models: dict[str, int], subject: str
) -> Registration:
    """Add recordings to the recorded judge of a project file; a judge of another mode stays.

    Args:
        judge: The judge in the project file.
        path: The project file.
        names: Paths of the recordings, relative to the project file.
        models: Number of answers by model.
        subject: Subject of the message.
    """
    entry = _entry_of(names)
    if judge.get("mode") == "recorded":
        before = judge.get("paths") or ()
        known = {(path.parent / name).resolve() for name in before}
        if known.issuperset((path.parent / name).resolve() for name in names):
            return Registration(models, entry, False, f"{subject} are the judge in {path} already")
        together = list(dict.fromkeys([*before, *names]))
        if _rewrite_paths(path, together):
            return Registration(models, entry, True, f"{subject} are added to the judge in {path}")
        entry = _entry_of(together)
    return Registration(
        models, entry, False, f"{subject} are not used: {path} names another judge. To use them, write there: "
        f"models: {{{entry}}}",
    )  # fmt: skip


def note_judgements(store: Store, imported: str | None, registered: Registration | None) -> None:
    """Record the files of judgements that an import wrote, so that undoing the import removes them."""
    if imported is not None and registered is not None and registered.written:
        hashes = {str(path.resolve()): _content_of(path) for path in registered.written}
        Imports(store).note_files(imported, hashes)


def remove_judgements(written: Mapping[str, str], project_file: Path | None = None) -> list[str]:
    """Remove files of judgements that an undone import wrote, and their names from the project file.

    Args:
        written: Files with the hashes of their contents, from `Imports.files_of`. Changed files stay, and so do files
            outside the folder `judgments` next to the project file.
        project_file: The project file, by default the project file of the working folder.

    Returns:
        Sentences about the removed files, and about the files that stay, with the reason.
    """
    path = project_file or find_project_file() or Path(PROJECT_FILE)
    folder, said, removed = (path.parent / JUDGEMENTS_FOLDER).resolve(), list[str](), list[Path]()
    for name, made in written.items():
        file = Path(name)
        if file.parent.resolve() != folder or file.is_symlink() or not file.is_file():
            continue
        shown = _relative(file, path.parent)
        if _content_of(file) != made:
            said.append(f"{shown} stays: it was changed after the import")
            continue
        file.unlink()
        removed.append(file)
        said.append(f"{shown} removed")
    return said + _without(path, removed)


def _without(path: Path, removed: Sequence[Path]) -> list[str]:
    """Remove files from the paths of the recorded judge in a project file, or return the sentence that asks for it."""
    content: Any = load_yaml(path) if removed and path.is_file() else {}
    judge = (content.get("models") or {}).get(JUDGE) or {}
    gone = {file.resolve() for file in removed}
    paths = judge.get("paths") or ()
    kept = [name for name in paths if (path.parent / name).resolve() not in gone]
    if len(kept) == len(paths):
        return []
    if _rewrite_paths(path, kept) if kept else _remove_entry(path):
        return [f"removed from models: judge: in {path}"]
    return [f"remove from models: judge: paths: in {path}: {', '.join(name for name in paths if name not in kept)}"]


def _content_of(path: Path) -> str:
    return text_hash(path.read_text(encoding="utf-8", errors="replace"))


def _rewrite_paths(path: Path, names: Sequence[str]) -> bool:
    """Write other paths of the recorded judge into a project file; False if its text is not such that this is sure."""
    import yaml

    text = path.read_text(encoding="utf-8")
    node = yaml.compose(text)
    for key in ("models", JUDGE, "paths"):
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for name, value in pairs if name.value == key), None)
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        return False
    start, end = node.start_mark.index, node.value[-1].end_mark.index if not node.flow_style else node.end_mark.index
    return _replace(path, f"{text[:start]}[{', '.join(map(_quoted, names))}]{text[end:]}", names)


def _remove_entry(path: Path) -> bool:
    """Remove the line of the recorded judge that `register_recordings` wrote; False if there is none."""
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(rf"(?m)^[ \t]+{JUDGE}: \{{mode: recorded, paths: \[[^\]\n]*\]\}}[ \t]*\n?", "", text)
    return count == 1 and _replace(path, changed, ())


def _replace(path: Path, changed: str, names: Sequence[str]) -> bool:
    """Write the changed text of a project file if only the paths of the judge differ, without paths the judge."""
    expected: Any = load_yaml(path)
    judge = expected["models"].pop(JUDGE)
    if names:
        expected["models"][JUDGE] = {**judge, "paths": list(names)}
    found = _parsed(changed, path)
    if not isinstance(found, dict):
        return False
    if not names:
        found, expected = ({**each, "models": each.get("models") or {}} for each in (found, expected))
    if found != expected:
        return False
    path.write_text(changed, encoding="utf-8")
    return True


def _parsed(text: str, path: Path) -> Any:
    try:
        return parse_yaml(text, str(path))
    except BadInput:
        return None


def _with_entry(text: str, entry: str) -> str:
    """Add an entry under `models:` to the text of a project file; all other lines stay unchanged."""
    match = _MODELS_KEY.search(text)
    if match is None:
        return f"{text.rstrip()}\nmodels:\n  {entry}\n".lstrip()
    below = re.search(r"(?m)^( *)(?!\s)[^#]", text[match.end() :])
    indent = below[1] if below is not None and below[1] else "  "
    comment = f"  {match['comment']}" if match["comment"] else ""
    return f"{text[: match.start()]}models:{comment}\n{indent}{entry}{text[match.end() :]}"


def _relative(path: Path, folder: Path) -> str:
    """Return a path inside the project's folder relative to it, and any other path as an absolute one."""
    absolute, inside = path.resolve(), folder.resolve()
    return absolute.relative_to(inside).as_posix() if absolute.is_relative_to(inside) else str(absolute)


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w./-]+", path) else json.dumps(path)
