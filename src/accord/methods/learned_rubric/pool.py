"""A pool of assertions that a model writes from good and bad conversations (RUBICON, section 3.2), naming nobody."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from accord.evidence import Settings
from accord.methods.learned_rubric.guidance import (
    PROMPTS,
    RubricPromptBuilder,
    load_prompts,
    load_task,
    shipped,
)
from accord.methods.learned_rubric.private import Names
from accord.methods.learned_rubric.writing import (
    ALIKE,
    MOST,
    MOST_A_BATCH,
    SPUR_SIZE,
    Assertion,
    Distinct,
    deduplicate,
    deduplicate_by_cosine,
    extract,
    rewrite,
    summarise,
    windowed,
)
from accord.models import (
    EMBEDDER,
    IN_BATCH,
    NOT_ASKED,
    OUT_OF_BUDGET,
    WRITER,
    Failure,
    Flow,
    Known,
    Prompt,
    Reply,
    Request,
    Text,
    documents_of,
    in_process,
    to,
    together,
    transcript_of,
)
from accord.values import BadInput, BudgetReached, Reason, Sample, Side

REASON = "the {} replies to what the other one has asked before and gives enough of an answer to go on with the task"
ASSERTION = "The assistant gives the {} kind of answer that is asked for."


class WritingSettings(Settings):
    """What the writer is told, and what it is to write."""

    task: str | None = Field(default=None, description="A YAML file: what the conversations are about, and expected.")
    domain: bool = Field(default=True, description="Tell the task (domain sensitisation).")
    principles: bool = Field(default=True, description="Tell the conversation design principles.")
    prompts: str | None = Field(default=None, description="A folder of prompt files that replace Accord's.")
    reasons: int = Field(default=MOST, ge=1, le=10, description="Reasons per conversation.")
    pool_size: int = Field(default=100, ge=1, le=1000, description="The most assertions of each class.")
    deduplicate: Literal["model", "embedding"] = Field(
        default="model", description="Who finds assertions that say the same: the writer, or an embedder."
    )
    embedder: str = Field(default="minilm-l6", description="Of deduplicate: embedding.")
    alike: float = Field(default=ALIKE, gt=0, le=1, description="The cosine from which on assertions are alike.")


@dataclass(frozen=True)
class Writing:
    """What a writer is told, what it is to write, and how many tokens one of its requests may have."""

    settings: WritingSettings
    guidance: RubricPromptBuilder
    context: int | None = None

    @classmethod
    def by(cls, who: Known, settings: WritingSettings) -> Writing:
        """How somebody who has the role of the writer is asked.

        Raises:
            BadInput: A file that the settings name cannot be read.
            UnknownName: A prompt file has a name of its own.
        """
        task = None if settings.task is None else load_task(settings.task)
        prompts = None if settings.prompts is None else load_prompts(settings.prompts)
        builder = RubricPromptBuilder(
            task, settings.domain, settings.principles, prompts, by_schema=not in_process(who.name)
        )
        return cls(settings, builder, who.context)

    def telling(self, **switches: bool) -> Writing:
        """The same with `domain` or `principles` switched."""
        return replace(self, guidance=replace(self.guidance, **switches))  # type: ignore[arg-type]


@dataclass
class WrittenPool:
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
            BadInput: One of them is a reply that nobody has asked for yet: a rubric is not learned from a part.
        """
        for failure in failures:
            if failure.reason == OUT_OF_BUDGET:
                raise BudgetReached(failure.detail)
            if failure.reason in {NOT_ASKED, IN_BATCH}:
                raise BadInput("the writer has not replied to everything yet; ask it first, then learn the rubric")
            self.failures[failure.reason] += 1

    def add(self, other: WrittenPool) -> None:
        """Add what was written of another class."""
        self.assertions += other.assertions
        self.counts += other.counts
        self.left_out += other.left_out
        self.failures += other.failures
        self.flagged += other.flagged

    def without_private(self, assertions: Iterable[Assertion], said: _Said) -> list[Assertion]:
        """The assertions that name nobody and quote nobody; private details in their reasons are blotted out."""
        kept = []
        for each in assertions:
            details = said.names.private(each.text)
            if details:
                self.flagged.append((each.text, details))
            elif _plain(each.text).rstrip(".") in said.text:
                self.left_out["words of a conversation"] += 1
            else:
                kept.append(replace(each, reasons=tuple(_blotted(reason, said.names) for reason in each.reasons)))
        return kept

    def check(self) -> None:
        """Refuse a pool of nothing.

        Raises:
            BadInput: It is empty; says why.
        """
        if self.assertions:
            return
        lost = (self.failures + self.left_out).most_common()
        why = ", ".join(f"{reason} ({count})" for reason, count in lost) or "no reason was given"
        flagged = f"; {len(self.flagged)} named private details" if self.flagged else ""
        raise BadInput(
            f"no assertion came out of {self.counts['conversations']} conversations: {why}{flagged}. Another writer "
            "may do better; `prompts` names your own prompt files"
        )

    def to_json(self) -> dict[str, Any]:
        """The counts; what is private stays out of what is kept."""
        about = {"left_out": dict(self.left_out), "failures": dict(self.failures)}
        return {**self.counts, **about, "flagged": len(self.flagged)}


@dataclass(frozen=True)
class _Said:
    """What was said in the conversations that a pool is written from, in small letters, and the names in it."""

    text: str
    names: Names

    @classmethod
    def of(cls, samples: Iterable[Sample], guidance: RubricPromptBuilder) -> _Said:
        """Documents are shown to the writer too; words of the prompts and of the task are no secret."""
        whole = [(sample.conversation.turns, sample.conversation.documents) for sample in samples]
        texts = ["\n".join([transcript_of(turns), documents_of(documents)]) for turns, documents in whole]
        own = (guidance.prompts or {}).values()
        known = " ".join([*(shipped(name) for name in PROMPTS), guidance.told_domain(), *own])
        return cls(_plain(" ".join(texts)), Names.of(texts, known))


def write_pool(
    writing: Writing, studied: Sequence[tuple[Sample, bool]], name: str = "", as_spur: bool = False
) -> Flow[WrittenPool]:
    """A pool of assertions from conversations that people called good (true) or bad.

    With `as_spur` it is SPUR's two lists (Lin et al., 2024): no domain, no principles, each a short list that every
    batch of reasons rewrites, with nothing to de-duplicate.

    Args:
        writing: What the writer is told.
        studied: The conversations.
        name: Of the system that it is for, as progress shows it.
        as_spur: Whether to write SPUR's lists.

    Raises:
        BadInput: No assertion came out of it, or a conversation cannot be shown in the model's context.
        BudgetReached: The budget is spent; the same flow goes on from there.
    """
    told = writing.telling(domain=False, principles=False) if as_spur else writing
    most = writing.settings.reasons
    show = windowed(told.guidance, told.context, most)
    purpose, stand_in = f"studied {name}".strip(), StandIn(most)
    flows = [extract(sample, good, told.guidance, show, most) for sample, good in studied]
    extracted = yield from together([to(WRITER, flow, purpose, stand_in=stand_in) for flow in flows])
    pool = WrittenPool()
    pool.failed(one.failure for one in extracted if one.failure is not None)
    in_part = sum(one.truncated_share > 0 for one in extracted)
    pool.counts.update({"conversations": len(extracted), "shown in part": in_part})
    said = _Said.of((sample for sample, _ in studied), told.guidance)
    reasons = {side: [r for one in extracted if one.side is side for r in one.reasons] for side in Side}
    purpose = f"written {name}".strip()
    parts = [_write_class(told, side, mine, said, purpose, as_spur) for side, mine in reasons.items()]
    for part in (yield from together(parts)):
        pool.add(part)
    pool.check()
    return pool


def _write_class(
    writing: Writing, side: Side, reasons: Sequence[Reason], said: _Said, purpose: str, as_spur: bool
) -> Flow[WrittenPool]:
    """The assertions of one class."""
    told, stand_in, pool = writing.guidance, StandIn(writing.settings.reasons), WrittenPool()
    flow = rewrite(reasons, side, told, SPUR_SIZE) if as_spur else (
        summarise(reasons, side, told, writing.settings.pool_size)
    )  # fmt: skip
    written = yield from to(WRITER, flow, purpose, stand_in=stand_in)
    pool.failed(written.failures)
    pool.left_out += written.left_out
    kept = pool.without_private(written.assertions, said)
    if as_spur:
        found = Distinct(kept)
    elif writing.settings.deduplicate == "model":
        found = yield from to(WRITER, deduplicate(kept, told), purpose, stand_in=stand_in)
    else:
        found = yield from _distinct_by_meaning(kept, writing.settings)
    pool.failed(found.failures)
    pool.counts += Counter(reasons=len(reasons), written=len(written.assertions), repeated=found.repeated)
    pool.assertions += found.assertions
    return pool


def _distinct_by_meaning(assertions: Sequence[Assertion], settings: WritingSettings) -> Flow[Distinct]:
    vectors = yield [Request(EMBEDDER, Text(settings.embedder, each.text)) for each in assertions]
    placed = np.array(vectors) if assertions else np.zeros((0, 1))
    return deduplicate_by_cosine(assertions, placed, settings.alike)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _blotted(reason: Reason, names: Names) -> Reason:
    return reason.model_copy(update={"text": names.hidden(reason.text), "quote": names.hidden(reason.quote)})


@dataclass(frozen=True)
class StandIn:
    """Lists of the form and length that a writer is asked for, where a flow is only priced."""

    reasons: int

    def __call__(self, prompt: Prompt) -> Reply:
        """What stands in for a reply: no two prompts have a line in common."""
        keys = prompt.schema["properties"] if prompt.schema else {"reasons": None}
        if "repeats" in keys:
            return Reply(json.dumps({"repeats": []}))
        text, count = (REASON, self.reasons) if "reasons" in keys else (ASSERTION, MOST_A_BATCH)
        asked = hashlib.sha256("\n".join(message.content for message in prompt.messages).encode("utf-8", "replace"))
        letters = asked.hexdigest()[:12].translate(_LETTERS)
        words = [f"{letters}{chr(ord('a') + place)}" for place in range(count)]
        return Reply("\n".join(f"- {text.format(word)}" for word in words))


_LETTERS = str.maketrans("0123456789", "ghijklmnop")
