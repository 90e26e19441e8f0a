"""Recorded judges: which models a recording holds, how each agrees with people, and which one to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from accord.models import Answer, RecordedJudge, Recording, wait
from accord.project.inferring import Observed, rubric_for
from accord.statistics import pearson
from accord.values import BadInput, Labels, Question, Rubric, Sample, Target, UnknownName


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


def chosen_recording(recordings: Mapping[str, Recording], main: str, model: str | None = None) -> Recording:
    """The recorded model that is used as the judge: the named one, else the one that answered the main question most.

    Raises:
        BadInput: Nothing is recorded.
        UnknownName: No recorded model is called so.
    """
    if model is not None and model not in recordings:
        raise UnknownName("recorded model", model, recordings)
    if not recordings:
        raise BadInput("the recording holds no judgement")

    def rank(each: Recording) -> tuple[int, int, int]:
        counts = each.questions
        runs = sum(len(runs) for (_, question), runs in each.answers.items() if question.casefold() == main.casefold())
        return runs, len(counts), counts.total()

    return recordings[model] if model is not None else max(recordings.values(), key=rank)


def with_recorded(rubric: Rubric, recording: Recording) -> Rubric:
    """The rubric with the questions that a recorded judge alone answered, on the scales that its answers fit."""
    asked = {question.id.casefold() for question in rubric.questions}
    more: list[Question] = []
    for name in recording.questions:
        if name.casefold() in asked:
            continue
        question = _as_answered(recording, name)
        more += [question] if question is not None else []
    return rubric.model_copy(update={"questions": (*rubric.questions, *more)}) if more else rubric


def _as_answered(recording: Recording, name: str) -> Question | None:
    """A question on the scale that a model's own answers fit; `None` where they are always alike, or free text."""
    try:
        [question] = rubric_for([Observed(name, values=Counter(recording.options(name)))]).rubric.questions
    except BadInput:
        return None
    return question.model_copy(update={"scale": question.scale.anchored})


def recorded_agreement(
    recordings: Mapping[str, Recording], rubric: Rubric, labels: Labels, samples: Iterable[Sample]
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
