"""The second stage: the evidence a project names, asked of its judge and measured by its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from accord.config import Config, JudgeConfig
from accord.conversation import Target
from accord.errors import BadInput
from accord.evidence import AT_ONCE, LEXICAL, NOT_APPLICABLE, EvidenceTable, Judged, judge_subjects, measure
from accord.llm.budget import Budget, Caps, load_prices
from accord.llm.model import Answer, Judge, Subject, Unanswered
from accord.llm.recorded import RecordedJudge
from accord.pipeline.planning import Plan, plan_judging
from accord.rubric import Question, Rubric
from accord.store import Store, batches

JUDGED_AT_ONCE = 500


def make_budget(config: Config) -> Budget:
    """The project's budget, with the prices of `prices.yaml` in the working folder.

    Raises:
        BadInput: The price file cannot be read.
    """
    return Budget(Caps(**config.budget.model_dump()), load_prices())


def make_judge(config: JudgeConfig, rubric: Rubric, budget: Budget | None = None) -> Judge:
    """The judge a project names, asked within a budget.

    Raises:
        BadInput: What its way needs is not named.
        ModelError: There is no key for its endpoint.
    """
    if config.way == "recorded":
        if not config.paths:
            raise BadInput("a recorded judge needs the paths of its judgements: judge: {way: recorded, paths: [...]}")
        return RecordedJudge.read(config.paths, config.model)
    from accord.llm.stack import Terms, open_judge

    if not config.model:
        raise BadInput(f"a judge by {config.way} needs a model: judge: {{way: {config.way}, model: NAME}}")
    terms = Terms(config.at_once, config.attempts, config.timeout, budget or Budget(Caps(), {}))
    return open_judge(config.way, config.model, config.base_url, rubric.instructions, terms, config.samples)


class StoredAnswers:
    """A judge that asks nobody: what the store holds is there, everything else is `not judged yet`."""

    def __init__(self, judge: Judge) -> None:
        self.name, self.way, self.together, self.made_from = judge.name, judge.way, judge.together, judge.made_from

    def requests(self, subject: Subject, questions: Sequence[Question]) -> Sequence[Any]:
        """Nothing goes over a wire."""
        return ()

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


def wanted(store: Store, rubric: Rubric, everything: bool, limit: int | None) -> Iterator[list[Subject]]:
    """What is to be judged, some hundreds at a time: every conversation, or what somebody rated."""
    targets: Iterable[Target]
    if everything:
        targets = (Target(name) for name in store.conversation_ids())
    else:
        targets = store.labels().on(rubric.main).targets
    for batch in batches(islice(targets, limit), JUDGED_AT_ONCE):
        yield subjects_of(store, batch)


def plan_stored(
    store: Store, rubric: Rubric, judge: Judge, budget: Budget, everything: bool = False, limit: int | None = None
) -> Plan:
    """What `judge_stored` would cost with the same arguments."""
    subjects = (subject for batch in wanted(store, rubric, everything, limit) for subject in batch)
    return plan_judging(judge, rubric, subjects, store, budget)


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
    for batch in wanted(store, rubric, everything, limit):
        judge_subjects(judge, rubric, batch, store, count, at_once)
    return {"subjects": subjects, "answered": answered, "asked": asked, "unanswered": dict(unanswered)}
