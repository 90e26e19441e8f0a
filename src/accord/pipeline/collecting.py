"""The second stage: the evidence a project names, asked of its judge and measured by its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from accord.config import Config, JudgeConfig
from accord.conversation import Target
from accord.errors import BadInput
from accord.evidence import AT_ONCE, LEXICAL, NOT_APPLICABLE, EvidenceTable, Judged, judge_subjects, measure
from accord.llm.model import Answer, Judge, Subject, Unanswered
from accord.llm.recorded import RecordedJudge
from accord.rubric import Question, Rubric
from accord.store import Store, batches

JUDGED_AT_ONCE = 500


def make_judge(config: JudgeConfig, rubric: Rubric) -> Judge:
    """The judge a project names.

    Raises:
        BadInput: What its way needs is not named.
        ModelError: There is no key for its endpoint.
    """
    if config.way == "recorded":
        if not config.paths:
            raise BadInput("a recorded judge needs the paths of its judgements: judge: {way: recorded, paths: [...]}")
        return RecordedJudge.read(config.paths, config.model)
    from accord.llm.chat_completions import ChatCompletions
    from accord.llm.logprobs import LogprobsJudge

    if not config.model:
        raise BadInput("a judge by logprobs needs a model: judge: {way: logprobs, model: NAME}")
    return LogprobsJudge(ChatCompletions(config.model, base_url=config.base_url), rubric.instructions)


class StoredAnswers:
    """A judge that asks nobody: what the store holds is there, everything else is `not judged yet`."""

    def __init__(self, judge: Judge) -> None:
        self.name, self.way, self.made_from = judge.name, judge.way, judge.made_from

    async def answer(self, subject: Subject, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """No answers."""
        return [Unanswered(question.id, "not judged yet", "run: accord judge") for question in questions]

    async def close(self) -> None:
        """Nothing is open."""


def metric_names(config: Config) -> list[str]:
    """The configured metrics, with `lexical` spelled out."""
    named = [part for name in config.metrics for part in (LEXICAL if name == "lexical" else (name,))]
    return list(dict.fromkeys(named))


def subjects_of(store: Store, targets: Iterable[Target]) -> list[Subject]:
    """Targets with their conversations, by conversation id and turn."""
    wanted: dict[str, list[int | None]] = {}
    for target in targets:
        wanted.setdefault(target.conversation, []).append(target.turn)
    return [
        Subject(conversation, turn)
        for conversation in store.conversations(wanted)
        for turn in sorted(set(wanted[conversation.id]), key=lambda turn: -1 if turn is None else turn)
    ]


def collect(
    store: Store,
    config: Config,
    rubric: Rubric,
    subjects: Sequence[Subject],
    judge: Judge | None,
    ask: bool = True,
    on_judged: Callable[[Judged], None] | None = None,
) -> EvidenceTable:
    """The evidence a project names, for each subject: the judge's answers beside the metrics.

    With `ask` unset nobody is asked: answers come from the store, or from a recording, alone.
    """
    table = measure(subjects, metric_names(config))
    if judge is None:
        return table
    asked = judge if ask or judge.way == "recorded" else StoredAnswers(judge)
    at_once = config.judge.at_once if config.judge else AT_ONCE
    return judge_subjects(asked, rubric, subjects, store, on_judged, at_once).beside(table)


def judge_stored(
    store: Store,
    config: Config,
    rubric: Rubric,
    judge: Judge,
    everything: bool = False,
    limit: int | None = None,
    on_judged: Callable[[Judged], None] | None = None,
) -> dict[str, Any]:
    """Judge what is rated, or everything, a batch at a time; returns counts, failures by reason."""
    targets: Iterable[Target]
    if everything:
        targets = (Target(conversation.id) for conversation in store.conversations())
    else:
        targets = store.labels().on(rubric.main).targets
    subjects = asked = answered = 0
    unanswered: Counter[str] = Counter()

    def count(judged: Judged) -> None:
        nonlocal subjects, asked, answered
        subjects, asked = subjects + 1, asked + judged.asked
        answered += sum(isinstance(answer, Answer) for answer in judged.answers)
        reasons = (answer.reason for answer in judged.answers if isinstance(answer, Unanswered))
        unanswered.update(reason for reason in reasons if reason != NOT_APPLICABLE)
        if on_judged is not None:
            on_judged(judged)

    at_once = config.judge.at_once if config.judge else AT_ONCE
    for batch in batches(islice(targets, limit), JUDGED_AT_ONCE):
        judge_subjects(judge, rubric, subjects_of(store, batch), store, count, at_once)
    return {"subjects": subjects, "answered": answered, "asked": asked, "unanswered": dict(unanswered)}
