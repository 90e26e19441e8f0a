"""Recorded judges: choice among recorded models, their agreement with people, and their entry in the project file.

The entry is `models: {judge: {mode: recorded, paths: [...]}}`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from accord.edges import BadInput, UnknownName, load_yaml, own_project, parse_yaml
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
from accord.project.judged_answers import JudgedAnswers
from accord.project.rubric_inference import ObservedAnswers, infer_rubric
from accord.statistics import pearson
from accord.values import PROJECT_FILE, Labels, Question, Rubric, Sample, Scale, Target, find_project_file


@dataclass(frozen=True)
class RecordedAgreement:
    """Agreement of a recorded model's answers to one question with the mean ratings of people.

    Attributes:
        model: Recorded model.
        question: Question that it answered.
        n: Number of samples with an answer and a rating.
        pearson: Correlation of the expected answer with the mean rating; `None` below three samples.
        spearman: Correlation of their ranks; `None` below three samples.
    """

    model: str
    question: str
    n: int
    pearson: float | None
    spearman: float | None

    def to_json(self) -> dict[str, Any]:
        """Convert to a flat row."""
        return asdict(self)


def choose_recording(
    recordings: Mapping[str, RecordedAnswers], main: str, samples: Collection[Sample] = (), model: str | None = None
) -> RecordedAnswers:
    """Choose the recording to use as the judge: that of the named model, else the one that covers most ratings.

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

    A question of the rubric is compared with its own ratings, any other with those of the main question.
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
                if sample.target in people and (expected := _expected(judge, sample, question)) is not None
            ]
            rows.append(RecordedAgreement(recording.model, name, len(pairs), *_correlations(pairs)))
    return sorted(rows, key=lambda row: (row.spearman is None, -abs(row.spearman or 0.0)))


def _expected(judge: RecordedJudge, sample: Sample, question: Question) -> float | None:
    [answer] = wait(judge.answer(sample, [question]))
    if not isinstance(answer, Answer):
        return None
    mass = sum(answer.probabilities.values())
    return sum(float(option) * p for option, p in answer.probabilities.items()) / mass if mass else None


def _correlations(pairs: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    from scipy.stats import rankdata

    if len(pairs) < 3:
        return None, None
    people, judged = np.array(pairs, dtype=float).T
    return pearson(people, judged), pearson(rankdata(people), rankdata(judged))


# --- the entry in the project file ---------------------------------------------------------------------------------

_MODELS_KEY = re.compile(r"(?m)^models:[ \t]*(?:\{[ \t]*\})?[ \t]*(?P<comment>#.*)?$")


@dataclass(frozen=True)
class Registration:
    """Outcome of registering recorded judgements.

    Attributes:
        models: Number of answers by recorded model.
        entry: Entry of the project file that names the judgements, as YAML.
        is_written: True if the entry was written; False if it was there already, or is left to the user.
        message: Sentence on the outcome, with the next step if there is one.
    """

    models: dict[str, int]
    entry: str
    is_written: bool
    message: str


def find_recordings(files: Sequence[Path], recordings: Collection[Path]) -> list[Path]:
    """Return the files that a survey found to be recorded judgments, and the benchmark folders that hold one."""
    return [path for path in files if path in recordings or (path / JUDGEMENTS_FILE).is_file()]


def keep_judgements(
    judged: JudgedAnswers, project_file: Path | None = None, recorded: Sequence[Path] = ()
) -> Registration | None:
    """Write a model's answers beside the project file, and register them with files of recorded judgements.

    Args:
        judged: A model's answers in the files of an import (`Imported.judged`).
        project_file: The project file, by default that of the working folder.
        recorded: Files of judgements, or folders that hold one, to register too.

    Returns:
        The outcome; `None` if there is nothing to register.

    Raises:
        BadInput: A file cannot be read, or is not a recording.
    """
    path = project_file or find_project_file() or Path(PROJECT_FILE)
    paths = [*recorded, *judged.write(path.parent)]
    return register_recordings(paths, path) if paths else None


def register_recordings(paths: Sequence[Path], project_file: Path | None = None) -> Registration:
    """Make recorded judgements the judge of a project whose file names no judge.

    Existing settings never change: if the file names a judge, the message has the entry to replace it.

    Args:
        paths: Files of judgements, or folders that hold one.
        project_file: The project file, by default that of the working folder; written if it does not exist.

    Raises:
        BadInput: A file cannot be read, or is not a recording.
    """
    path = project_file or find_project_file() or Path(PROJECT_FILE)
    models = {name: len(recording.answers) for name, recording in read_recordings(paths).items()}
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    content: Any = load_yaml(path) if text else {}
    listed = ", ".join(_quoted(_relative(recording, path.parent)) for recording in paths)
    entry = f"{JUDGE}: {{mode: recorded, paths: [{listed}]}}"
    subject = f"recorded judgements of {', '.join(models) or 'no model'}"
    judge = (content.get("models") or {}).get(JUDGE)
    if judge is not None:
        known = {(path.parent / name).resolve() for name in judge.get("paths") or ()}
        if judge.get("mode") == "recorded" and known.issuperset(recording.resolve() for recording in paths):
            return Registration(models, entry, False, f"{subject} are the judge in {path} already")
        if judge.get("mode") == "recorded":
            entry = (
                f"{JUDGE}: {{mode: recorded, paths: [{', '.join([*map(_quoted, judge.get('paths') or ()), listed])}]}}"
            )
        return Registration(
            models, entry, False, f"{subject} are not used: {path} names another judge. To use them, write there: "
            f"models: {{{entry}}}",
        )  # fmt: skip
    changed = _with_entry(text, entry)
    expected = {**content, "models": {**(content.get("models") or {}), **parse_yaml(entry, str(path))}}
    if _parsed(changed, path) != expected:
        return Registration(models, entry, False, f"{subject} are not used yet. Add to models: in {path}: {entry}")
    is_new = not path.exists()
    path.write_text(changed, encoding="utf-8")
    if is_new:
        own_project(path.parent)
    return Registration(models, entry, True, f"{subject} are the judge now: added to models: in {path}")


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
    below = re.search(r"(?m)^(?!\s*#)( *)\S", text[match.end() :])
    indent = below[1] if below is not None and below[1] else "  "
    comment = f"  {match['comment']}" if match["comment"] else ""
    return f"{text[: match.start()]}models:{comment}\n{indent}{entry}{text[match.end() :]}"


def _relative(path: Path, folder: Path) -> str:
    """Return a path inside the project's folder relative to it, and any other path as an absolute one."""
    absolute, inside = path.resolve(), folder.resolve()
    return absolute.relative_to(inside).as_posix() if absolute.is_relative_to(inside) else str(absolute)


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w./-]+", path) else json.dumps(path)
