"""Recorded judges: which models a recording holds, how each agrees with people, and which one to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.edges import BadInput, UnknownName
from accord.models import (
    JUDGE,
    Answer,
    ModelSettings,
    RecordedAnswers,
    RecordedJudge,
    question_of,
    read_recordings,
    recorded_item,
    wait,
)
from accord.project.rubric_inference import Observed, rubric_for
from accord.statistics import pearson
from accord.values import Labels, Question, Rubric, Sample, Scale, Target

if TYPE_CHECKING:
    from accord.project.project import Project


@dataclass(frozen=True)
class RecordedAgreement:
    """How one recorded model's answers to one question agree with people's mean ratings.

    Attributes:
        model: Who answered.
        question: What was answered.
        n: How many samples have both its answer and a rating.
        pearson: Correlation of the expected answer with the mean rating; `None` below three samples.
        spearman: The same of ranks.
    """

    model: str
    question: str
    n: int
    pearson: float | None
    spearman: float | None

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        return asdict(self)


def chosen_recording(
    recordings: Mapping[str, RecordedAnswers], main: str, samples: Collection[Sample] = (), model: str | None = None
) -> RecordedAnswers:
    """Return the recording that is used as the judge: of the named model, else the one that covers the ratings best.

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

    def rank(each: RecordedAnswers) -> tuple[int, ...]:
        on_main, on_any, counts = each.answered(main), each.answered(), each.questions
        runs = sum(len(runs) for (_, question), runs in each.answers.items() if question.casefold() == main.casefold())
        covered = [sum(item in answered for item in items) for answered in (on_main, on_any)]
        return *covered, runs, len(counts), counts.total()

    return recordings[model] if model is not None else max(recordings.values(), key=rank)


def recordings_of(project: Project) -> Mapping[str, RecordedAnswers]:
    """Answers of all recorded models of a project, by model; empty unless the judge is a recorded one."""
    judge = None if JUDGE in project.given else project.config.models.get(JUDGE)
    if judge is None or judge.mode != "recorded":
        return {}
    try:
        return read_recordings([project.config.folder / path for path in judge.paths])
    except BadInput:  # raised again when the judge is asked
        return {}


def with_judge_named(project: Project) -> dict[str, ModelSettings]:
    """Settings of a project's models, in which the recorded judge names its model (`chosen_recording`)."""
    found = project.config.models
    judge, main, recordings = found[JUDGE], project.rubric.main, project.recordings
    has_choice = judge.model is None and len(recordings) > 1
    samples = project.samples(project.rated(main).targets) if has_choice else ()
    chosen = chosen_recording(recordings, main, samples, judge.model)
    return {**found, JUDGE: judge.model_copy(update={"model": chosen.model})}


def recorded_questions(project: Project) -> tuple[Question, ...]:
    """Questions that a project's recorded models alone answered, on the scales that their answers fit.

    Answers of the judge to questions of the rubric are not among them. Those of another model are questions of their
    own (`question_of`); an ordered scale has its two ends as options, between which an answer is an expected value.
    """
    recordings, judge = project.recordings, project.model_settings[JUDGE].model
    asked = {question.id.casefold() for question in project.rubric.questions}
    found: list[Question] = []
    for model in sorted(recordings, key=lambda name: name != judge):
        for name in recordings[model].questions:
            id_ = name if model == judge else question_of(model, name)
            question = _as_answered(recordings[model], name)
            if question is None or id_.casefold() in asked:
                continue
            asked.add(id_.casefold())
            if model != judge:
                question = question.model_copy(update={"id": id_, "scale": _ends(question.scale)})
            found.append(question)
    return tuple(found)


def _ends(scale: Scale) -> Scale:
    """An ordered scale of two options; any other scale unchanged."""
    if not scale.is_ordered or len(scale.options) < 3:
        return scale
    return Scale(options=(scale.options[0], scale.options[-1]))


def _as_answered(recording: RecordedAnswers, name: str) -> Question | None:
    """A question on the scale that a model's own answers fit; `None` where they are always alike, or free text."""
    try:
        [question] = rubric_for([Observed(name, values=Counter(recording.options(name)))]).rubric.questions
    except BadInput:
        return None
    return question.model_copy(update={"scale": question.scale.anchored})


def recorded_agreement(
    recordings: Mapping[str, RecordedAnswers], rubric: Rubric, labels: Labels, samples: Iterable[Sample]
) -> list[RecordedAgreement]:
    """Every recorded model's answers to each of its questions beside people's mean ratings.

    A question that the rubric asks is held against its own ratings, any other against those of the main question.
    """
    rated: dict[str, dict[Target, list[float]]] = {}
    for label in labels:
        if isinstance(label.value, int | float):
            rated.setdefault(label.question, {}).setdefault(label.target, []).append(float(label.value))
    known = list(samples)
    found = []
    for recording in recordings.values():
        judge = RecordedJudge(recording.answers, recording.model)
        for name in recording.questions:
            asked = _as_answered(recording, name)
            if asked is None or not asked.scale.is_ordered:
                continue
            own = next((q.id for q in rubric.questions if q.id.casefold() == name.casefold()), rubric.main)
            people = rated.get(own) or rated.get(rubric.main, {})
            pairs = [
                (fmean(people[sample.target]), expected)
                for sample in known
                if sample.target in people and (expected := _expected(judge, sample, asked)) is not None
            ]
            found.append(RecordedAgreement(recording.model, name, len(pairs), *_correlations(pairs)))
    return sorted(found, key=lambda row: (row.spearman is None, -abs(row.spearman or 0.0)))


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
