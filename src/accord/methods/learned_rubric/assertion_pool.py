"""A pool of assertions that a model writes from good and bad conversations (RUBICON, section 3.2), naming nobody."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from accord.edges import BadInput, BudgetReached
from accord.evidence import STOP_WORDS, Settings, Training
from accord.methods.learned_rubric.assertion_selector import Decided
from accord.methods.learned_rubric.assertion_writer import (
    ALIKE,
    MOST,
    MOST_A_BATCH,
    PROMPTS,
    SHOWN,
    Assertion,
    Distinct,
    RubricPromptBuilder,
    Written,
    deduplicate,
    deduplicate_by_cosine,
    extract,
    load_prompts,
    load_task,
    shipped,
    summarise,
    windowed,
)
from accord.models import (
    EMBEDDER,
    IN_BATCH,
    NOT_ASKED,
    OUT_OF_BUDGET,
    WRITER,
    EmbeddingText,
    Failure,
    Flow,
    ModelInfo,
    Prompt,
    PromptFlow,
    Reply,
    Request,
    documents_of,
    in_process,
    stand_in_twice,
    to_role,
    together,
    transcript_of,
)
from accord.values import AssertionReason, Polarity, Question, Rubric, Sample, Scale

T = TypeVar("T")

REASON = "the {} replies to what the other one has asked before and gives enough of an answer to go on with the task"
ASSERTION = "The assistant gives the {} kind of answer that is asked for."


class WritingSettings(Settings):
    """What the writer is told, and what it is to write."""

    task: str | None = Field(
        default=None, description="YAML file that says what the conversations are about, and what is expected of them."
    )
    prompts: str | None = Field(default=None, description="Folder of prompt files used in place of Accord's.")
    reasons: int = Field(default=MOST, ge=1, le=10, description="Maximum number of reasons per conversation.")
    pool_size: int = Field(default=100, ge=1, le=1000, description="Maximum number of assertions of each class.")
    deduplicate: Literal["model", "embedding"] = Field(
        default="model", description="What finds repeated assertions: the writer (model), or an embedder (embedding)."
    )
    embedder: str = Field(default="minilm-l6", description="Embedder of `deduplicate: embedding`.")
    alike: float = Field(
        default=ALIKE, gt=0, le=1, description="Cosine similarity from which two assertions count as repeated."
    )


@dataclass(frozen=True)
class Writing:
    """What a writer is told, what it is to write, and how many tokens one of its requests may have."""

    settings: WritingSettings
    guidance: RubricPromptBuilder
    context: int | None = None

    @classmethod
    def by(cls, who: ModelInfo, settings: WritingSettings, folder: Path = Path()) -> Writing:
        """Return how the writer is asked; relative paths in the settings start from `folder`.

        Raises:
            BadInput: A file cannot be used.
        """
        task = None if settings.task is None else load_task(folder / settings.task)
        prompts = None if settings.prompts is None else load_prompts(folder / settings.prompts)
        return cls(settings, RubricPromptBuilder(task, prompts, by_schema=not in_process(who.name)), who.context)


@dataclass
class WrittenPool:
    """What was written from some conversations.

    `assertions` are the pool, SAT before DSAT; `left_out` and `failures` count why assertions were left out and prompts
    failed; `flagged` are assertions that name somebody or something of a conversation, with what, outside the pool.
    """

    assertions: list[Assertion] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    flagged: list[tuple[str, list[str]]] = field(default_factory=list)

    def failed(self, failures: Iterable[Failure]) -> None:
        """Count failures; a budget that was reached, or a reply that nobody has asked for yet, is an error."""
        for failure in failures:
            if failure.reason == OUT_OF_BUDGET:
                raise BudgetReached(failure.detail)
            if failure.reason in {NOT_ASKED, IN_BATCH}:
                raise BadInput("the writer has not replied to everything yet; ask it first, then learn the rubric")
            self.failures[failure.reason] += 1

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
                hidden = said.names.hidden
                found = [r.model_copy(update={"text": hidden(r.text), "quote": hidden(r.quote)}) for r in each.reasons]
                kept.append(replace(each, reasons=tuple(found)))
        return kept

    def check(self) -> None:
        """Refuse an empty pool, and say why it is empty."""
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
    """The text of the conversations that a pool is written from, in lower case, and the names in it."""

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


Write = Callable[[Sequence[AssertionReason], Polarity, RubricPromptBuilder], PromptFlow[Written]]


def write_pool(writing: Writing, studied: Decided, name: str = "", write: Write | None = None) -> Flow[WrittenPool]:
    """A pool of assertions from conversations that people called good or bad.

    Args:
        writing: What the writer is told.
        studied: The conversations.
        name: Of the system that it is for, as progress shows it.
        write: Another way to write the assertions of one class from its reasons; what it writes is not de-duplicated.

    Raises:
        BadInput: No assertion came out of it, or a conversation cannot be shown in the model's context.
        BudgetReached: The budget is spent; the same flow goes on from there.
    """
    guidance, most = writing.guidance, writing.settings.reasons
    show = windowed(guidance, writing.context, most)
    pairs = zip(studied.samples, studied.good.tolist(), strict=True)
    flows = [extract(sample, good, guidance, show, most) for sample, good in pairs]
    extracted = yield from together([_to_writer(flow, f"studied {name}".strip(), most) for flow in flows])
    pool = WrittenPool()
    pool.failed(one.failure for one in extracted if one.failure is not None)
    in_part = sum(one.truncated_share > 0 for one in extracted)
    pool.counts.update({"conversations": len(extracted), "shown in part": in_part})
    said = _Said.of(studied.samples, guidance)
    reasons = {side: [r for one in extracted if one.side is side for r in one.reasons] for side in Polarity}
    purpose = f"written {name}".strip()
    parts = [_write_class(pool, writing, *each, said, purpose, write) for each in reasons.items()]
    pool.assertions = [each for part in (yield from together(parts)) for each in part]
    pool.check()
    return pool


def _write_class(
    pool: WrittenPool, writing: Writing, side: Polarity, reasons: Sequence[AssertionReason], said: _Said, purpose: str,
    write: Write | None,
) -> Flow[list[Assertion]]:  # fmt: skip
    """The assertions of one class; what was left out and what failed is counted in the pool."""
    guidance, settings = writing.guidance, writing.settings
    flow = write(reasons, side, guidance) if write else summarise(reasons, side, guidance, settings.pool_size)
    written = yield from _to_writer(flow, purpose, settings.reasons)
    pool.failed(written.failures)
    pool.left_out += written.left_out
    kept = pool.without_private(written.assertions, said)
    if write is not None:
        found = Distinct(kept)
    elif settings.deduplicate == "model":
        found = yield from _to_writer(deduplicate(kept, guidance), purpose, settings.reasons)
    else:
        vectors = yield [Request(EMBEDDER, EmbeddingText(settings.embedder, each.text)) for each in kept]
        found = deduplicate_by_cosine(kept, np.array(vectors) if kept else np.zeros((0, 1)), settings.alike)
    pool.failed(found.failures)
    pool.counts += Counter(reasons=len(reasons), written=len(written.assertions), repeated=found.repeated)
    return found.assertions


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _to_writer(flow: PromptFlow[T], purpose: str, most: int) -> Flow[T]:
    """Address a flow of prompts for lists to the writer, with the replies that a plan assumes."""
    expected = partial(_stand_in, most, MOST_A_BATCH)
    fewest = partial(_stand_in, 1, 1, repeats=True)
    # One assertion per batch leaves room in the pool, so that every batch of reasons is asked about.
    return to_role(WRITER, flow, purpose, None, expected, fewest, stand_in_twice(partial(_stand_in, most, 1)))


def _stand_in(reasons: int, assertions: int, prompt: Prompt, repeats: bool = False) -> Reply:
    """Return a list of reasons or assertions, with different lines for each prompt.

    With `repeats`, all assertions repeat the first.
    """
    keys = prompt.schema["properties"] if prompt.schema else {"reasons": None}
    if "repeats" in keys:
        repeated = range(2, SHOWN + 1) if repeats else ()
        return Reply(json.dumps({"repeats": [{"number": place, "number_of_earlier": 1} for place in repeated]}))
    text, count = (REASON, reasons) if "reasons" in keys else (ASSERTION, assertions)
    asked = hashlib.sha256("\n".join(message.content for message in prompt.messages).encode("utf-8", "replace"))
    letters = asked.hexdigest()[:12].translate(str.maketrans("0123456789", "ghijklmnop"))
    words = [f"{letters}{chr(ord('a') + place)}" for place in range(count)]
    return Reply("\n".join(f"- {text.format(word)}" for word in words))


# --- private details ----------------------------------------------------------------------------------------------

HIDDEN = "[…]"
COMMON_SHARE = 0.1
"""A name that occurs in a larger share of the conversations belongs to the domain."""
FEW = 3
"""A name that occurs in no more conversations is theirs, however few conversations there are."""

_IDENTIFIERS = re.compile(
    r"""[\w.+-]+@[\w-]+(?:\.[\w-]+)+          # mail
      | https?://\S+ | \bwww\.\S+             # addresses
      | (?<!\w)@\w{2,}                        # handles
      | \b\d{1,3}(?:\.\d{1,3}){3}\b           # machines
      | (?<!\w)\+?\d[\d\s().-]{5,}\d          # telephone, card and account numbers
      | \b(?=\w*\d)(?=\w*[A-Za-z])\w{5,}\b    # order numbers, codes
      | \b\d{4,}\b""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_BEGINS = re.compile(r"(?:^|[.!?:]\s+)[\"“'(]?$")


@dataclass(frozen=True)
class Names:
    """The words of some conversations, in how many of them each occurs, and which are no secret.

    What can be found is what is written with a capital in an assertion; scripts without capitals have no names here.
    """

    conversations: int
    seen: Counter[str]
    small: frozenset[str]
    known: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str], known: str = "") -> Names:
        """The words of transcripts; `known` is text whose words are no secret, such as the task description."""
        seen: Counter[str] = Counter()
        small: set[str] = set()
        count = 0
        for text in texts:
            count += 1
            words = set(_words(text))
            seen.update({word.lower() for word in words})
            small |= {word for word in words if word.islower()}
        return cls(count, seen, frozenset(small), frozenset(word.lower() for word in _words(known)) | STOP_WORDS)

    def private(self, text: str) -> list[str]:
        """What in a text names somebody or something of a few conversations, in its order."""
        found = [match[0].strip() for match in _IDENTIFIERS.finditer(text)]
        text = text.replace("’", "'")
        return [*found, *(match[0] for match in _WORD.finditer(text) if self._names(match[0], text[: match.start()]))]

    def _names(self, word: str, before: str) -> bool:
        """Whether a word is a name: with a capital where no sentence begins, or nowhere seen without one."""
        lower = word.lower().removesuffix("'s")
        few = 0 < self.seen[lower] <= max(FEW, COMMON_SHARE * self.conversations)
        if not word[0].isupper() or len(word) < 2 or lower in self.known or not few:
            return False
        return lower not in self.small or _BEGINS.search(before) is None

    def hidden(self, text: str) -> str:
        """The text with every private detail blotted out, however it is written there."""
        for detail in sorted(set(self.private(text)), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(detail)}(?!\w)", HIDDEN, text.replace("’", "'"), flags=re.IGNORECASE)
        return text


def _words(text: str) -> list[str]:
    """The words of a text, none of them as a possessive."""
    return [word.removesuffix("'s") for word in _WORD.findall(text.replace("’", "'"))]


AGREEMENT = {
    "1": "Strongly disagree",
    "2": "Disagree",
    "3": "Neither agree nor disagree, or it does not apply here",
    "4": "Agree",
    "5": "Strongly agree",
}
LIKERT = Scale(options=tuple(map(int, AGREEMENT)))
SOURCE = "Learned from conversations (Biyani et al., RUBICON, AIware 2024)."


def questions_of(assertions: Iterable[Assertion], main: str = "") -> list[Question]:
    """Assertions as questions with an id each, `sat-01`, `dsat-01` and so on; none is called like the main question."""
    counts: Counter[Polarity] = Counter()
    found = []
    for each in assertions:
        counts[each.side] += 1
        counts[each.side] += f"{each.side}-{counts[each.side]:02d}" == main
        name = f"{each.side}-{counts[each.side]:02d}"
        question = Question(id=name, text=each.text, scale=LIKERT, meanings=AGREEMENT)
        found.append(question.model_copy(update={"side": each.side, "reasons": each.reasons}))
    return found


def rubric_of(
    questions: Sequence[Question], main: Question, name: str, instructions: str, learned_on: Iterable[str]
) -> Rubric:
    """Assertions and the main question, which people answer, as a rubric."""
    return Rubric(
        name=name, main=main.id, questions=(*questions, main), instructions=instructions, source=SOURCE,
        learned_on=tuple(sorted(set(learned_on))),
    )  # fmt: skip


def only(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """The selected assertions of a pool, in its order, and the main question."""
    wanted = set(questions)
    kept = [question for question in rubric.assertions if question.id in wanted]
    return rubric_of(kept, rubric.main_question, "learned", rubric.instructions, rubric.learned_on)


def asking(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """Some of a rubric's questions, whatever people are asked, as a judge is asked them."""
    wanted = set(questions)
    chosen = tuple(question for question in rubric.questions if question.id in wanted)
    return rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})


def seen_in(train: Training) -> list[str]:
    """The conversations whose labels may be looked at."""
    return [sample.conversation.id for sample in train.samples]


def checked_pool(pool: Rubric, train: Training) -> Rubric:
    """A pool that a user gives, with the main question; `BadInput` where its assertions cannot be judged."""
    if not pool.assertions:
        raise BadInput(
            f"rubric {pool.name!r} has no question with a class; give those that speak for a conversation `class: sat` "
            "and those that speak against it `class: dsat`"
        )
    main = train.question
    for question in pool.assertions:
        if not (question.can_be_judged and question.scale.is_ordered):
            raise BadInput(
                f"assertion {question.id!r} of {pool.name!r} has no ordered options that a judge can choose from"
            )
        if question.id == main.id:
            raise BadInput(f"assertion {question.id!r} of {pool.name!r} is called like the main question; rename it")
    return rubric_of(pool.assertions, main, pool.name, pool.instructions, [*pool.learned_on, *seen_in(train)])


def checked_given(name: str, given: Rubric, main: Question) -> Rubric:
    """What can be summed of a rubric to compare with: its ordered questions that a judge can answer."""
    left_out = (main.id, given.main if given.main_question.side is None else "")
    asked = [question for question in given.judged if question.scale.is_ordered and question.id not in left_out]
    if not asked:
        raise BadInput(
            f"given: {name}: it has no question beside its main one that a judge can answer on an ordered scale"
        )
    return rubric_of(asked, main, name, given.instructions, given.learned_on)
