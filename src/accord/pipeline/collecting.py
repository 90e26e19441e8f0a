"""The second stage: the evidence a project names, asked of its judge and measured by its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from accord.config import Config, JudgeConfig
from accord.evidence import (
    BANK,
    BERTSCORE,
    EMBEDDING,
    LEXICAL,
    LIKELIHOOD,
    REFERENCE,
    EvidenceTable,
    judge_samples,
    measure,
    measure_likelihoods,
)
from accord.models import AT_ONCE, NOT_APPLICABLE, Answer, Budget, Judge, Judged, Unanswered, own_context
from accord.pipeline.issues import issue_evidence
from accord.pipeline.models import Models
from accord.pipeline.planning import Plan, plan_asking
from accord.store import Store, batches
from accord.values import Question, Rubric, Sample, Target

JUDGED_AT_ONCE = 500


class StoredAnswers:
    """A judge that asks nobody: what the store holds is there, everything else is `not judged yet`."""

    def __init__(self, judge: Judge) -> None:
        self.name, self.mode, self.together, self.made_from = judge.name, judge.mode, judge.together, judge.made_from
        self.requests = judge.requests  # nothing is sent; how much room a conversation has follows from them

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """No answers."""
        return [Unanswered(question.id, "not judged yet", "run: accord judge") for question in questions]

    async def close(self) -> None:
        """Nothing is open."""


def metric_names(config: Config) -> list[str]:
    """The configured metrics, with the names of groups spelled out."""
    groups = {"lexical": LEXICAL, "embedding": EMBEDDING, "bank": BANK, "reference": REFERENCE, "bertscore": BERTSCORE}
    named = [part for name in config.metrics for part in _members(name, groups)]
    return list(dict.fromkeys(named))


def _members(name: str, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The metrics of a group, `GROUP@EMBEDDER` each with that embedder; a metric's own name stands for itself."""
    group, at, argument = name.partition("@")
    return [f"{part}{at}{argument}" for part in groups[group]] if group in groups else [name]


def samples_of(store: Store, targets: Iterable[Target]) -> list[Sample]:
    """Targets with their conversations, by conversation id and turn."""
    wanted: dict[str, list[int | None]] = {}
    for target in targets:
        wanted.setdefault(target.conversation, []).append(target.turn)
    return [
        Sample(conversation, turn)
        for conversation in store.conversations(wanted)
        for turn in sorted(set(wanted[conversation.id]), key=lambda turn: -1 if turn is None else turn)
    ]


def collect(
    store: Store,
    config: Config,
    rubric: Rubric,
    samples: Sequence[Sample],
    models: Models,
    ask: bool = True,
    on_judged: Callable[[Judged], None] | None = None,
) -> EvidenceTable:
    """The evidence a project names, for each subject: the judge's answers, metrics, likelihoods, issues.

    With `ask` unset nobody is asked: answers come from the store, or from a recording, alone.
    """
    table = measure(samples, metric_names(config))
    if models.likelihood is not None:
        table = table.join(measure_likelihoods(models.likelihood, samples, store, ask=ask))
    if config.issues is not None:
        judge = None if models.issue_judge is None else _asked(models.issue_judge, ask)
        finder = models.finder if ask else None
        table = table.join(issue_evidence(store, config, samples, judge, finder, judging_options(config)))
    if models.judge is None:
        return table
    return judge_samples(_asked(models.judge, ask), rubric, samples, store, on_judged, *judging_options(config)).join(
        table
    )


def _asked(judge: Judge, ask: bool) -> Judge:
    """The judge, or its kept answers alone; a recording is both."""
    return judge if ask or judge.mode == "recorded" else StoredAnswers(judge)


def judging_options(config: Config) -> tuple[int, int | None]:
    """How many subjects are judged at once, and how many tokens a request may have."""
    return (config.judge.at_once, context_of(config.judge)) if config.judge else (AT_ONCE, None)


def context_of(judge: JudgeConfig) -> int | None:
    """The tokens that one request may have: as configured, or what a model in this process is known to read."""
    return judge.context or own_context(judge.model or "")


def wanted(store: Store, rubric: Rubric, everything: bool, limit: int | None) -> Iterator[list[Sample]]:
    """What is to be judged, some hundreds at a time: every conversation, or what somebody rated."""
    targets: Iterable[Target]
    if everything:
        targets = (Target(name) for name in store.conversation_ids())
    else:
        targets = store.labels().on(rubric.main).targets
    for batch in batches(islice(targets, limit), JUDGED_AT_ONCE):
        yield samples_of(store, batch)


def plan_stored(
    store: Store,
    config: Config,
    rubric: Rubric,
    models: Models,
    budget: Budget,
    everything: bool = False,
    limit: int | None = None,
) -> Plan:
    """What `judge_stored` would cost with the same arguments."""
    samples = (sample for batch in wanted(store, rubric, everything, limit) for sample in batch)
    return plan_asking(models, rubric, samples, store, budget, judging_options(config)[1])


@dataclass
class _Counts:
    """What asking came to, counted as it goes."""

    samples: int = 0
    answered: int = 0
    asked: int = 0
    measured: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)

    def judged(self, judged: Judged) -> None:
        """Count one subject's answers."""
        self.samples, self.asked = self.samples + 1, self.asked + judged.asked
        self.answered += sum(isinstance(answer, Answer) for answer in judged.answers)
        reasons = (answer.reason for answer in judged.answers if isinstance(answer, Unanswered))
        self.unanswered.update(reason for reason in reasons if reason != NOT_APPLICABLE)

    def measured_all(self, likelihoods: EvidenceTable) -> None:
        """Count a table of likelihoods; those of one subject come and go together."""
        self.measured += int(likelihoods.present.any(axis=1).sum())
        first = LIKELIHOOD[0]
        self.unanswered.update(reason for (_, name), reason in likelihoods.absences.items() if name == first)


def judge_stored(
    store: Store,
    config: Config,
    rubric: Rubric,
    models: Models,
    everything: bool = False,
    limit: int | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Ask the models about what is rated, or everything, a batch at a time; returns counts, failures by reason."""
    counts = _Counts()

    def count(judged: Judged) -> None:
        counts.judged(judged)
        on_step()

    for batch in wanted(store, rubric, everything, limit):
        if models.judge is not None:
            judge_samples(models.judge, rubric, batch, store, count, *judging_options(config))
        else:
            counts.samples += len(batch)
        if models.likelihood is not None:
            counts.measured_all(measure_likelihoods(models.likelihood, batch, store, lambda _: on_step()))
    return {**vars(counts), "unanswered": dict(counts.unanswered)}
