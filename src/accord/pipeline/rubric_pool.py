"""Labelled conversations in two parts: those that a rubric is learned from, and those that it is tried on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accord.config import Config, WriterConfig
from accord.evidence import EvidenceTable, ratings
from accord.learning import FEWEST, FEWEST_LABELS, LearnedRubric, check_both, verdicts
from accord.methods import (
    PROMPTS,
    SPUR_SIZE,
    Assertion,
    Distinct,
    Extracted,
    Flags,
    Names,
    Task,
    deduplicate,
    deduplicate_by_cosine,
    extract,
    kinds_of,
    load_prompts,
    load_task,
    rewrite,
    shipped,
    summarise,
    windowed,
)
from accord.methods.learned_rubric.guidance import RubricPromptBuilder
from accord.models import (
    OUT_OF_BUDGET,
    ChatModel,
    Failure,
    PromptFlow,
    as_finished,
    drive,
    in_process,
    own_context,
    transcript_of,
    wait,
)
from accord.pipeline.collecting import samples_of
from accord.pipeline.learning import check_settings
from accord.statistics import fold_of
from accord.store import Store
from accord.values import BadInput, BudgetReached, Reason, Rubric, Sample, Side

OWN = ("classes", "weights")
"""Settings that follow from a rubric's file."""


@dataclass(frozen=True)
class Sides:
    """The conversations that people called good or bad, those to learn from and those to try on.

    Attributes:
        train: Subjects with whether they are good.
        test: The same, of other conversations.
        between: Subjects of the training side that are neither; their ratings calibrate scores.
        contradicted: How many were called good by some and bad by others.
    """

    train: Sequence[tuple[Sample, bool]]
    test: Sequence[tuple[Sample, bool]]
    between: Sequence[Sample]
    contradicted: int

    @property
    def trained(self) -> list[str]:
        """The conversations whose labels may be looked at."""
        return [sample.conversation.id for sample in (*(s for s, _ in self.train), *self.between)]


def evaluator_settings(config: Config) -> dict[str, Any]:
    """The project's settings of the evaluator, where it is the configured one.

    Raises:
        UnknownName: It has no such setting.
        BadInput: A setting belongs into the rubric's file.
    """
    if config.evaluator.method != LearnedRubric.method:
        return {}
    settings = dict(config.evaluator.settings)
    check_settings(LearnedRubric, settings)
    if misplaced := next((name for name in OWN if name in settings), None):
        raise BadInput(f"{misplaced} of assertions stand in their rubric's file; give it with --pool")
    return settings


def sides_of(store: Store, config: Config, rubric: Rubric, share: float, seen: Collection[str] = ()) -> Sides:
    """The labelled conversations in two parts, whole conversations on one side, good and bad dealt out apart.

    Args:
        store: Holds them.
        config: Says which ratings are good and bad.
        rubric: Its main question is what they rate.
        share: Of the conversations that are held out.
        seen: Conversations that a rubric was learned on before: they are never held out.

    Raises:
        BadInput: The main question compares, or there are too few good or bad ones for both sides.
    """
    main, settings, labels = rubric.main_question, evaluator_settings(config), store.labels()
    if main.compares:
        raise BadInput(f"{main.id!r} compares two conversations; a rubric is learned from ratings of one")
    LearnedRubric(main, **{"seed": config.seed, **settings})  # its settings are checked before anything is paid for
    targets = labels.on(main.id).targets
    bare = EvidenceTable.from_rows([], {target: {} for target in targets})
    found = verdicts(ratings(bare, labels, main), main, settings.get("bad"), settings.get("good"))
    check_both(found, main, 2 * FEWEST)
    groups = [targets[row].conversation for row in found.row]
    held_out = _held_out(groups, found.good, share, config.seed)
    held_out &= ~np.isin(groups, list(seen))
    for side in (held_out, ~held_out):
        if len(set(found.good[side])) < 2:
            why = "were seen when a rubric was learned" if len(seen) else "belong to the same few conversations"
            raise BadInput(
                f"too many of the labelled good and bad conversations {why}; label others to try the rubric on"
            )
    samples = {sample.target: sample for sample in samples_of(store, targets)}
    both = [(samples[targets[row]], bool(good)) for row, good in zip(found.row, found.good, strict=True)]
    train = [each for each, out in zip(both, held_out, strict=True) if not out]
    test = [each for each, out in zip(both, held_out, strict=True) if out]
    decided = {sample.target for sample, _ in both}
    tested = {sample.conversation.id for sample, _ in test}
    between = [s for target, s in samples.items() if target not in decided and target.conversation not in tested]
    between = between[:: max(1, 2 * len(between) // max(len(train), 1))]
    sides = Sides(train, test, between, found.contradicted)
    learnable = len(labels.filter(sides.trained).on(main.id))
    if learnable < FEWEST_LABELS:
        raise BadInput(
            f"{learnable} labels are left to learn from, {FEWEST_LABELS} are needed; label more conversations"
        )
    return sides


def _held_out(groups: Sequence[str], good: Flags, share: float, seed: int) -> Flags:
    """(C,) what is held out: a share of the groups of each kind, drawn by the seed."""
    out: set[str] = set()
    for kind in kinds_of(groups, good):
        place = fold_of(kind, max(len(kind), 1), seed)
        count = min(max(1, round(share * len(kind))), len(kind) - 1)
        out |= {name for name in kind if place[name] < count}
    return np.array([name in out for name in groups], dtype=bool)


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


def guidance_of(config: WriterConfig) -> RubricPromptBuilder:
    """What the configured writer is told.

    Raises:
        BadInput: A file that the project names cannot be read.
        UnknownName: A prompt file has a name of its own.
    """
    task: Task | None = None if config.task is None else load_task(config.task)
    prompts = None if config.prompts is None else load_prompts(config.prompts)
    return RubricPromptBuilder(task, config.domain, config.principles, prompts, not in_process(config.model))


def write_pool(
    model: ChatModel,
    studied: Sequence[tuple[Sample, bool]],
    guidance: RubricPromptBuilder,
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
    pool.counts["shown in part"] = sum(one.truncated_share > 0 for one in extracted)
    transcripts = [transcript_of(sample.conversation.turns) for sample, _ in studied]
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
    studied: Sequence[tuple[Sample, bool]],
    guidance: RubricPromptBuilder,
    config: WriterConfig,
    on_step: Callable[[], None],
) -> list[Extracted]:
    """Each conversation's reasons, in the order of the conversations; those of several are asked for at once."""
    context = config.context or own_context(config.model)
    show = windowed(guidance, context, config.reasons)
    found: dict[int, Extracted] = {}
    stopped = False

    async def one(place: int) -> Extracted:
        sample, good = studied[place]
        flow: PromptFlow[Extracted] = extract(sample, good, guidance, show, config.reasons)
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


def _names(transcripts: Sequence[str], guidance: RubricPromptBuilder) -> Names:
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


def _distinct(
    assertions: Sequence[Assertion], model: ChatModel, guidance: RubricPromptBuilder, config: WriterConfig
) -> Distinct:
    if config.deduplicate == "model":
        return wait(drive(deduplicate(assertions, guidance), model))
    from accord.models import open_embedder

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
