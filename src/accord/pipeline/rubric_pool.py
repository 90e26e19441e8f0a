"""A pool of assertions from good and bad conversations: extract reasons, summarise, drop what repeats or is private.

Every reply is kept in the store as it arrives: the same call again asks only for what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accord.config import WriterConfig
from accord.errors import BadInput, BudgetReached
from accord.evaluators.learned_rubric.deduplicating import Distinct, deduplicate, deduplicate_by_cosine
from accord.evaluators.learned_rubric.extraction import Extracted, extract, windowed
from accord.evaluators.learned_rubric.guidance import PROMPTS, Guidance, Task, load_prompts, load_task, shipped
from accord.evaluators.learned_rubric.private import Names
from accord.evaluators.learned_rubric.summarising import SPUR_SIZE, Assertion, rewrite, summarise
from accord.llm.flow import OUT_OF_BUDGET, Flow, as_finished, drive
from accord.llm.model import ChatModel, Failure, Subject, in_process
from accord.llm.own_context import own_context
from accord.llm.render import transcript_of
from accord.llm.waiting import wait
from accord.rubric import Reason, Side


@dataclass
class PoolOf:
    """What was written from some conversations.

    Attributes:
        assertions: The pool, SAT before DSAT, in the order they were written.
        counts: Conversations studied, reasons found, assertions written, repeated, and shown in part.
        left_out: Why assertions were left out, counted.
        failures: Why prompts came to nothing, counted.
        flagged: Assertions that name somebody or something of a conversation, with what; they are not in the pool.
    """

    assertions: list[Assertion] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    flagged: list[tuple[str, list[str]]] = field(default_factory=list)

    def failed(self, failures: Iterable[Failure]) -> None:
        """Count failures.

        Raises:
            BudgetReached: One of them is a budget that was reached: what was answered before is kept.
        """
        for failure in failures:
            if failure.reason == OUT_OF_BUDGET:
                raise BudgetReached(failure.detail)
            self.failures[failure.reason] += 1

    def to_json(self) -> dict[str, Any]:
        """The counts; what is private stays out of what is kept."""
        about = {"left_out": dict(self.left_out), "failures": dict(self.failures)}
        return {**self.counts, **about, "flagged": len(self.flagged)}


def guidance_of(config: WriterConfig) -> Guidance:
    """What the configured writer is told.

    Raises:
        BadInput: A file that the project names cannot be read.
        UnknownName: A prompt file has a name of its own.
    """
    task: Task | None = None if config.task is None else load_task(config.task)
    prompts = None if config.prompts is None else load_prompts(config.prompts)
    return Guidance(task, config.domain, config.principles, prompts, not in_process(config.model))


def write_pool(
    model: ChatModel,
    studied: Sequence[tuple[Subject, bool]],
    guidance: Guidance,
    config: WriterConfig,
    on_step: Callable[[], None] = lambda: None,
    as_spur: bool = False,
) -> PoolOf:
    """A pool of assertions from conversations that people called good (true) or bad.

    With `as_spur` it is SPUR's two lists (Lin et al., 2024): no domain, no principles, each a short list that every
    batch of reasons rewrites, with nothing to de-duplicate.

    Raises:
        BadInput: No assertion came out of it, or a conversation cannot be shown in the model's context.
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    told = replace(guidance, domain=False, principles=False) if as_spur else guidance
    pool = PoolOf()
    extracted = wait(_extracted(model, studied, told, config, on_step))
    pool.failed(one.failure for one in extracted if one.failure is not None)
    pool.counts["conversations"] = len(extracted)
    pool.counts["shown in part"] = sum(one.left_out > 0 for one in extracted)
    transcripts = [transcript_of(subject.conversation.turns) for subject, _ in studied]
    names, said = _names(transcripts, told), " ".join(" ".join(transcripts).lower().split())
    for side in Side:
        reasons = [reason for one in extracted if one.side is side for reason in one.reasons]
        flow = rewrite(reasons, side, told, SPUR_SIZE) if as_spur else summarise(reasons, side, told, config.pool)
        written = wait(drive(flow, model))
        pool.failed(written.failures)
        pool.left_out += written.left_out
        kept = _without_private(pool, written.assertions, names, said)
        found = Distinct(kept) if as_spur else _distinct(kept, model, told, config)
        pool.failed(found.failures)
        pool.counts += Counter(reasons=len(reasons), written=len(written.assertions), repeated=found.repeated)
        pool.assertions += found.assertions
    if not pool.assertions:
        raise BadInput(_nothing(pool))
    return pool


async def _extracted(
    model: ChatModel,
    studied: Sequence[tuple[Subject, bool]],
    guidance: Guidance,
    config: WriterConfig,
    on_step: Callable[[], None],
) -> list[Extracted]:
    """Each conversation's reasons, in the order of the conversations; those of several are asked for at once."""
    context = config.context or own_context(config.model)
    show = windowed(guidance, context, config.reasons)
    found: dict[int, Extracted] = {}
    stopped = False

    async def one(place: int) -> Extracted:
        subject, good = studied[place]
        flow: Flow[Extracted] = extract(subject, good, guidance, show, config.reasons)
        return await drive(flow, model)

    def places() -> Iterable[int]:
        for place in range(len(studied)):
            if stopped:
                return
            yield place

    async with aclosing(as_finished(one, places(), config.at_once)) as finished:
        async for place, extracted in finished:
            found[place] = extracted
            stopped = stopped or (extracted.failure is not None and extracted.failure.reason == OUT_OF_BUDGET)
            on_step()
    return [found[place] for place in sorted(found)]


def _names(transcripts: Sequence[str], guidance: Guidance) -> Names:
    """The names in the conversations; words of the prompts and of the task are no secret."""
    known = " ".join([*(shipped(name) for name in PROMPTS), guidance.told_domain(), *(guidance.prompts or {}).values()])
    return Names.of(transcripts, known)


def _without_private(pool: PoolOf, assertions: Iterable[Assertion], names: Names, said: str) -> list[Assertion]:
    """The assertions that name nobody and quote nobody; private details in the others' reasons are blotted out."""
    kept = []
    for each in assertions:
        details = names.private(each.text)
        if details:
            pool.flagged.append((each.text, details))
        elif " ".join(each.text.lower().rstrip(".").split()) in said:
            pool.left_out["words of a conversation"] += 1
        else:
            kept.append(replace(each, reasons=tuple(_blotted(reason, names) for reason in each.reasons)))
    return kept


def _blotted(reason: Reason, names: Names) -> Reason:
    return reason.model_copy(update={"text": names.hidden(reason.text), "quote": names.hidden(reason.quote)})


def _distinct(assertions: Sequence[Assertion], model: ChatModel, guidance: Guidance, config: WriterConfig) -> Distinct:
    if config.deduplicate == "model":
        return wait(drive(deduplicate(assertions, guidance), model))
    from accord.evidence.embedders import open_embedder

    embed = open_embedder(config.embedder).embed
    vectors = np.array([embed(each.text) for each in assertions]) if assertions else np.zeros((0, 1))
    return deduplicate_by_cosine(assertions, vectors, config.alike)


def _nothing(pool: PoolOf) -> str:
    lost = (pool.failures + pool.left_out).most_common()
    why = ", ".join(f"{reason} ({count})" for reason, count in lost) or "no reason was given"
    flagged = f"; {len(pool.flagged)} named private details" if pool.flagged else ""
    return (
        f"no assertion came out of {pool.counts['conversations']} conversations: {why}{flagged}. Another writer may do "
        "better; `writer: prompts` names your own prompts"
    )
