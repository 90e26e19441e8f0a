"""Pool of assertions that a model writes from good and bad conversations, without private details (section 3.2)."""

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
from accord.evidence import STOP_WORDS, SourceSettings, Training
from accord.methods.learned_rubric.assertion_selector import ClassifiedSamples
from accord.methods.learned_rubric.assertion_writer import (
    ALIKE,
    MOST,
    MOST_A_BATCH,
    PROMPTS,
    SHOWN,
    Assertion,
    RubricPromptBuilder,
    WrittenAssertions,
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


class WritingSettings(SourceSettings):
    """Settings of the writer."""

    task: str | None = Field(
        default=None,
        description="YAML file with a description of the conversations and of the expectations of the assistant.",
    )
    prompts: str | None = Field(default=None, description="Folder of prompt files that replace Accord's.")
    reasons: int = Field(default=MOST, ge=1, le=10, description="Maximum number of reasons per conversation.")
    pool_size: int = Field(default=100, ge=1, le=1000, description="Maximum number of assertions of each class.")
    deduplicate: Literal["model", "embedding"] = Field(
        default="model",
        description="Detection of duplicate assertions: by the writer (model), or by an embedder (embedding).",
    )
    embedder: str = Field(default="minilm-l6", description="Embedder of `deduplicate: embedding`.")
    min_similarity: float = Field(
        default=ALIKE, gt=0, le=1, description="Cosine similarity from which two assertions count as duplicates."
    )


@dataclass(frozen=True)
class WriterOptions:
    """Settings, prompts and context limit of the writer."""

    settings: WritingSettings
    guidance: RubricPromptBuilder
    context: int | None = None

    @classmethod
    def by(cls, writer: ModelInfo, settings: WritingSettings, folder: Path = Path()) -> WriterOptions:
        """Return the options of a writer; relative paths start from `folder`. `BadInput` if a file is unusable."""
        task = None if settings.task is None else load_task(folder / settings.task)
        prompts = None if settings.prompts is None else load_prompts(folder / settings.prompts)
        return cls(settings, RubricPromptBuilder(task, prompts, by_schema=not in_process(writer.name)), writer.context)


@dataclass
class WrittenPool:
    """Assertions written from some conversations, SAT before DSAT.

    Attributes:
        counts: Counts of conversations, reasons and assertions.
        left_out: Dropped assertions by reason.
        failures: Failed prompts by reason.
        flagged: Assertions with private details, which are outside the pool, and the details.
    """

    assertions: list[Assertion] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    flagged: list[tuple[str, list[str]]] = field(default_factory=list)

    def failed(self, failures: Iterable[Failure]) -> None:
        """Count failures; raise an error for a spent budget or a reply that has not arrived yet."""
        for failure in failures:
            if failure.reason == OUT_OF_BUDGET:
                raise BudgetReached(failure.detail)
            if failure.reason in {NOT_ASKED, IN_BATCH}:
                raise BadInput("the writer has open requests. Ask it first, then learn the rubric")
            self.failures[failure.reason] += 1

    def without_private(self, assertions: Iterable[Assertion], source: _SourceText) -> list[Assertion]:
        """Return the assertions without private details and quotes; details in their reasons are masked."""
        public = []
        for assertion in assertions:
            details = source.names.private(assertion.text)
            if details:
                self.flagged.append((assertion.text, details))
            elif _plain(assertion.text).rstrip(".") in source.text:
                self.left_out["words of a conversation"] += 1
            else:
                hidden = source.names.hidden
                reasons = [
                    r.model_copy(update={"text": hidden(r.text), "quote": hidden(r.quote)}) for r in assertion.reasons
                ]
                public.append(replace(assertion, reasons=tuple(reasons)))
        return public

    def check(self) -> None:
        """Raise an error with the reasons if the pool is empty."""
        if self.assertions:
            return
        dropped = (self.failures + self.left_out).most_common()
        reasons = ", ".join(f"{reason} ({count})" for reason, count in dropped) or "no reasons in the replies"
        flagged = f"; {len(self.flagged)} contained private details" if self.flagged else ""
        raise BadInput(
            f"no assertion was written from {self.counts['conversations']} conversations: {reasons}{flagged}. Try "
            "another writer, or your own prompt files (`prompts`)"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the counts; private details are never saved."""
        reasons = {"left_out": dict(self.left_out), "failures": dict(self.failures)}
        return {**self.counts, **reasons, "flagged": len(self.flagged)}


@dataclass(frozen=True)
class _SourceText:
    """Lower-case text of the conversations that a pool is written from, and the names in this text."""

    text: str
    names: PrivateNames

    @classmethod
    def of(cls, samples: Iterable[Sample], guidance: RubricPromptBuilder) -> _SourceText:
        """Collect transcripts and documents; words of prompts and task are not private."""
        parts = [(sample.conversation.turns, sample.conversation.documents) for sample in samples]
        texts = ["\n".join([transcript_of(turns), documents_of(documents)]) for turns, documents in parts]
        own_prompts = (guidance.prompts or {}).values()
        public_text = " ".join([*(shipped(name) for name in PROMPTS), guidance.told_domain(), *own_prompts])
        return cls(_plain(" ".join(texts)), PrivateNames.of(texts, public_text))


Write = Callable[[Sequence[AssertionReason], Polarity, RubricPromptBuilder], PromptFlow[WrittenAssertions]]


def write_pool(
    writing: WriterOptions, studied: ClassifiedSamples, name: str = "", write: Write | None = None
) -> Flow[WrittenPool]:
    """Write a pool of assertions from conversations with good and bad ratings; `BadInput` if none was written.

    `name` is for progress messages; `write` replaces writing the assertions of one class, without de-duplication.
    """
    guidance, most = writing.guidance, writing.settings.reasons
    show = windowed(guidance, writing.context, most)
    pairs = zip(studied.samples, studied.good.tolist(), strict=True)
    flows = [extract(sample, good, guidance, show, most) for sample, good in pairs]
    results = yield from together([_to_writer(flow, f"studied {name}".strip(), most) for flow in flows])
    pool = WrittenPool()
    pool.failed(result.failure for result in results if result.failure is not None)
    in_part = sum(result.truncated_share > 0 for result in results)
    pool.counts.update({"conversations": len(results), "shown in part": in_part})
    source = _SourceText.of(studied.samples, guidance)
    reasons = {side: [r for result in results if result.side is side for r in result.reasons] for side in Polarity}
    purpose = f"written {name}".strip()
    parts = [_write_class(pool, writing, side, some, source, purpose, write) for side, some in reasons.items()]
    pool.assertions = [assertion for part in (yield from together(parts)) for assertion in part]
    pool.check()
    return pool


def _write_class(
    pool: WrittenPool, writing: WriterOptions, side: Polarity, reasons: Sequence[AssertionReason], source: _SourceText,
    purpose: str, write: Write | None,
) -> Flow[list[Assertion]]:  # fmt: skip
    """Write the assertions of one class, and count dropped ones and failures in the pool."""
    guidance, settings = writing.guidance, writing.settings
    flow = write(reasons, side, guidance) if write else summarise(reasons, side, guidance, settings.pool_size)
    written = yield from _to_writer(flow, purpose, settings.reasons)
    pool.failed(written.failures)
    pool.left_out += written.left_out
    public = pool.without_private(written.assertions, source)
    if write is not None:
        distinct = WrittenAssertions(public)
    elif settings.deduplicate == "model":
        distinct = yield from _to_writer(deduplicate(public, guidance), purpose, settings.reasons)
    else:
        vectors = yield [
            Request(EMBEDDER, EmbeddingText(settings.embedder, each.text, conversations=_conversations_of(each)))
            for each in public
        ]
        distinct = deduplicate_by_cosine(public, np.array(vectors), settings.min_similarity)
    pool.failed(distinct.failures)
    pool.counts += Counter(reasons=len(reasons), written=len(written.assertions), repeated=distinct.repeated)
    return distinct.assertions


def _conversations_of(assertion: Assertion) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason.conversation for reason in assertion.reasons))


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _to_writer(flow: PromptFlow[T], purpose: str, most: int) -> Flow[T]:
    """Send a flow of prompts for lists to the writer, with stand-in replies for a plan."""
    expected = partial(_stand_in, most, MOST_A_BATCH)
    fewest = partial(_stand_in, 1, 1, repeats=True)
    # One assertion per batch leaves room in the pool, so that the plan counts every batch.
    return to_role(WRITER, flow, purpose, None, expected, fewest, stand_in_twice(partial(_stand_in, most, 1)))


def _stand_in(reasons: int, assertions: int, prompt: Prompt, repeats: bool = False) -> Reply:
    """Return a list of reasons or assertions with distinct lines for each prompt.

    With `repeats`, all assertions repeat the first.
    """
    keys = prompt.schema["properties"] if prompt.schema else {"reasons": None}
    if "repeats" in keys:
        repeated = range(2, SHOWN + 1) if repeats else ()
        return Reply(json.dumps({"repeats": [{"number": place, "number_of_earlier": 1} for place in repeated]}))
    text, count = (REASON, reasons) if "reasons" in keys else (ASSERTION, assertions)
    digest = hashlib.sha256("\n".join(message.content for message in prompt.messages).encode("utf-8", "replace"))
    letters = digest.hexdigest()[:12].translate(str.maketrans("0123456789", "ghijklmnop"))
    words = [f"{letters}{chr(ord('a') + place)}" for place in range(count)]
    return Reply("\n".join(f"- {text.format(word)}" for word in words))


# --- private details ----------------------------------------------------------------------------------------------

HIDDEN = "[…]"
COMMON_SHARE = 0.1
"""A name in a larger share of the conversations belongs to the domain."""
FEW = 3
"""A name in at most this many conversations is private, regardless of the total number of conversations."""

_IDENTIFIERS = re.compile(
    r"""(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+  # mail
      | https?://\S+ | \bwww\.\S+             # addresses
      | (?<!\w)@\w{2,}                        # handles
      | \b\d{1,3}(?:\.\d{1,3}){3}\b           # machines
      | (?<!\w)\+?\d[\d\s().-]{5,}\d          # telephone, card and account numbers
      | \b(?=\w*\d)(?=\w*[A-Za-z])\w{5,}\b    # order numbers, codes
      | \b\d{4,}\b""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_LOOKED_BACK = 40
"""Characters before a word that show whether it begins a sentence."""


@dataclass(frozen=True)
class PrivateNames:
    """Words of some conversations with document frequencies, and the words that are public.

    Only capitalized words of an assertion can be names; scripts without capitals have none.
    """

    conversations: int
    seen: Counter[str]
    small: frozenset[str]
    known: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str], known: str = "") -> PrivateNames:
        """Collect the words of transcripts; words of `known`, such as the task description, are public."""
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
        """Return the private details in a text, in order."""
        identifiers = [match[0].strip() for match in _IDENTIFIERS.finditer(text)]
        text = text.replace("’", "'")
        return identifiers + [match[0] for match in _WORD.finditer(text) if self._names(match)]

    def _names(self, match: re.Match[str]) -> bool:
        """Return True for a name: capitalized inside a sentence, or never seen in lower case."""
        word = match[0]
        lower = word.lower().removesuffix("'s")
        is_rare = 0 < self.seen[lower] <= max(FEW, COMMON_SHARE * self.conversations)
        if not word[0].isupper() or len(word) < 2 or lower in self.known or not is_rare:
            return False
        return lower not in self.small or not _begins_sentence(match.string, match.start())

    def hidden(self, text: str) -> str:
        """Return the text with every private detail masked, in any capitalization."""
        for detail in sorted(set(self.private(text)), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(detail)}(?!\w)", HIDDEN, text.replace("’", "'"), flags=re.IGNORECASE)
        return text


def _begins_sentence(text: str, place: int) -> bool:
    """Return True if a word at a place begins a text or a sentence, after a quotation mark or bracket at most."""
    before = text[max(place - _LOOKED_BACK, 0) : place]
    before = before[:-1] if before.endswith(('"', "“", "'", "(")) else before
    words = before.rstrip()
    return not words or (words != before and words.endswith((".", "!", "?", ":")))


def _words(text: str) -> list[str]:
    """Return the words of a text, without possessive endings."""
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
    """Return assertions as questions with ids `sat-01`, `dsat-01`, ..., skipping the id of the main question."""
    counts: Counter[Polarity] = Counter()
    questions = []
    for assertion in assertions:
        counts[assertion.side] += 1
        counts[assertion.side] += f"{assertion.side}-{counts[assertion.side]:02d}" == main
        name = f"{assertion.side}-{counts[assertion.side]:02d}"
        question = Question(id=name, text=assertion.text, scale=LIKERT, meanings=AGREEMENT)
        questions.append(question.model_copy(update={"side": assertion.side, "reasons": assertion.reasons}))
    return questions


def rubric_of(
    questions: Sequence[Question], main: Question, name: str, instructions: str, learned_on: Iterable[str]
) -> Rubric:
    """Return a rubric of assertions and the main question for annotators."""
    if main.name.casefold() in {question.shown.casefold() for question in questions}:
        main = main.model_copy(update={"name": ""})
    return Rubric(
        name=name, main=main.id, questions=(*questions, main), instructions=instructions, source=SOURCE,
        learned_on=tuple(sorted(set(learned_on))),
    )  # fmt: skip


def only(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """Return the selected assertions of a pool, in its order, and the main question."""
    selected = set(questions)
    assertions = [question for question in rubric.assertions if question.id in selected]
    return rubric_of(assertions, rubric.main_question, "learned", rubric.instructions, rubric.learned_on)


def asking(rubric: Rubric, questions: Iterable[str]) -> Rubric:
    """Return some of a rubric's questions in the form in which a judge is asked."""
    selected = set(questions)
    chosen = tuple(question for question in rubric.questions if question.id in selected)
    return rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})


def checked_pool(pool: Rubric, train: Training) -> Rubric:
    """Return a user's pool with the main question; `BadInput` if a judge cannot answer its assertions."""
    if not pool.assertions:
        raise BadInput(
            f"rubric {pool.name!r} has no question with a class. Add `class: sat` to questions that speak for a "
            "conversation and `class: dsat` to questions that speak against it"
        )
    main = train.question
    for question in pool.assertions:
        if not (question.can_be_judged and question.scale.is_ordered):
            raise BadInput(f"assertion {question.id!r} of {pool.name!r} has no ordered options for a judge")
        if question.id == main.id:
            raise BadInput(f"assertion {question.id!r} of {pool.name!r} has the id of the main question. Rename it")
    return rubric_of(
        pool.assertions,
        main,
        pool.name,
        pool.instructions,
        [*pool.learned_on, *(sample.conversation.id for sample in train.samples)],
    )


def checked_given(name: str, given: Rubric, main: Question) -> Rubric:
    """Return the questions of a rubric that can be summed: ordered ones that a judge can answer."""
    excluded = (main.id, given.main if given.main_question.side is None else "")
    questions = [question for question in given.judged if question.scale.is_ordered and question.id not in excluded]
    if not questions:
        raise BadInput(
            f"rivals: {name}: no question besides the main one has an ordered scale that a judge can answer on"
        )
    return rubric_of(questions, main, name, given.instructions, given.learned_on)
