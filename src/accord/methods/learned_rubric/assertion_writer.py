"""Assertions from conversations (RUBICON, section 3.2): reasons extracted, summarised and de-duplicated by prompts.

Domain sensitisation tells the writer what the conversations are about and what is expected of the assistant;
conversation design principles tell that both sides are responsible (the prompt file `responsibility`), and Grice's
maxims (`maxims`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accord.edges import BadInput, UnknownName, load_yaml, validate
from accord.evidence import counted_stems, pieces
from accord.models import (
    ChatMessage,
    Failure,
    ListForm,
    Prompt,
    PromptFlow,
    ask_for_list,
    estimated_usage,
    fence_for,
    fenced,
    fit_to_context,
    room_left,
    transcript_of,
    truncated_share,
)
from accord.values import AssertionReason, Conversation, FrozenModel, Polarity, Sample

# --- prompts ------------------------------------------------------------------------------------------------------

PROMPTS = ("deduplicate", "domain", "extract", "judge", "maxims", "responsibility", "summarise")
NEEDED = {
    "extract": ("$conversation", "$documents", "$fence", "$form"),
    "summarise": ("$reasons", "$fence", "$form"),
    "deduplicate": ("$written", "$fence", "$form"),
}
"""What a user's own prompt file has to keep."""
VERDICTS = {Polarity.SAT: "well", Polarity.DSAT: "badly"}


class Task(FrozenModel):
    """The user's own description: what the conversations are about, and what is expected of the assistant."""

    about: str = Field(min_length=1)
    expected: tuple[str, ...] = Field(min_length=1)


def load_task(path: str | Path) -> Task:
    """Read a task description (`about: TEXT`, `expected: [TEXT, ...]`) from YAML; `BadInput` where it lacks one."""
    return validate(Task, load_yaml(Path(path)), str(path))


@dataclass(frozen=True)
class RubricPromptBuilder:
    """Prompts for a writer: the task, a user's own prompt files by name, answers by JSON Schema or in lines."""

    task: Task | None = None
    prompts: Mapping[str, str] | None = None
    by_schema: bool = True

    def prompt(self, name: str, form: ListForm, principles: str = "", parts: Mapping[str, Any] | None = None) -> Prompt:
        """A prompt file filled in: the form of the answer, a file of design principles, and other parts by name."""
        told = self._filled(principles, {}) if principles else ""
        named = {
            "domain": self.told_domain(),
            "principles": told,
            "form": form.instruction(self.by_schema),
            **(parts or {}),
        }
        schema = form.schema() if self.by_schema else None
        tokens = form.most * (form.tokens if self.by_schema else form.tokens_of_line)
        return Prompt((ChatMessage("user", self._filled(name, named)),), max_tokens=tokens, schema=schema)

    def told_domain(self) -> str:
        """The paragraph of domain sensitisation; empty where there is none."""
        if self.task is None:
            return ""
        expected = "\n".join(f"- {each}" for each in self.task.expected)
        return self._filled("domain", {"about": self.task.about, "expected": expected})

    def instructions(self) -> str:
        """What a judge is told before it is asked about assertions."""
        return self._filled("judge", {"domain": self.told_domain()}).strip()

    def _filled(self, name: str, parts: Mapping[str, Any]) -> str:
        own = self.prompts or {}
        text = own[name] if name in own else shipped(name)
        try:
            return Template(text).substitute(parts)
        except (KeyError, ValueError) as error:
            allowed = ", ".join(f"${part}" for part in parts) or "none"
            raise BadInput(f"prompt file {name}.md names {error}; the places it can name are: {allowed}") from None


def shipped(name: str) -> str:
    """One of Accord's own prompt files."""
    return (files("accord.methods.learned_rubric") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def load_prompts(folder: str | Path) -> dict[str, str]:
    """A user's prompt files by name; those that the folder lacks stay Accord's.

    Raises:
        BadInput: There is no such folder, or a file is not UTF-8.
        UnknownName: A file is called like none of `PROMPTS`.
    """
    path = Path(folder)
    if not path.is_dir():
        raise BadInput(f"{folder} is no folder of prompt files; `accord init --prompts {folder}` writes them there")
    found = {}
    for file in sorted(path.glob("*.md")):
        if file.stem not in PROMPTS:
            raise UnknownName("prompt file", file.name, [f"{name}.md" for name in PROMPTS])
        try:
            found[file.stem] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{file} is not UTF-8; save it as UTF-8") from None
        lost = next((place for place in NEEDED.get(file.stem, ()) if place not in found[file.stem]), None)
        if lost is not None:
            raise BadInput(
                f"{file} has no {lost}: without it the model is not shown, or not told, what this prompt is for"
            )
    return found


# --- extraction ---------------------------------------------------------------------------------------------------

MOST = 3
"""k: reasons per conversation."""
LONGEST = 400
"""Characters of a reason."""

Show = Callable[[Sample], Sample]


@dataclass(frozen=True)
class Extracted:
    """What was noticed in one conversation; `failure` says why nothing was, `truncated_share` what was not shown."""

    reasons: tuple[AssertionReason, ...]
    side: Polarity
    failure: Failure | None = None
    truncated_share: float = 0.0


def extract(
    sample: Sample, good: bool, guidance: RubricPromptBuilder, show: Show, most: int = MOST
) -> PromptFlow[Extracted]:
    """The weightiest reasons why a conversation (or one reply in it) went as people say it went."""
    side, shown = Polarity.SAT if good else Polarity.DSAT, show(sample)
    missing = truncated_share(sample, shown)
    entries = yield from ask_for_list(extraction_prompt(shown, side, guidance, most), _form(most))
    if isinstance(entries, Failure):
        return Extracted((), side, entries, missing)
    whole = transcript_of(sample.conversation.up_to(sample.turn))
    name = sample.conversation.id
    named = ((" ".join(e.get("reason", "").split())[:LONGEST], e.get("quote", "")) for e in entries)
    reasons = (
        AssertionReason(conversation=name, text=text, quote=_found(quote, whole)) for text, quote in named if text
    )
    return Extracted(tuple(reasons), side, None, missing)


def extraction_prompt(shown: Sample, side: Polarity, guidance: RubricPromptBuilder, most: int = MOST) -> Prompt:
    """What is asked about a conversation as it is shown."""
    parts = {**fenced(shown), "verdict": VERDICTS[side], "most": most}
    return guidance.prompt("extract", _form(most), "responsibility", parts)


def windowed(guidance: RubricPromptBuilder, context: int | None, most: int = MOST) -> Show:
    """What a model is shown of a conversation, where a prompt and its answer may have no more than `context` tokens.

    Raises:
        BadInput: There is hardly any room beside the prompt.
    """
    if context is None:
        return lambda sample: sample
    bare = extraction_prompt(Sample(Conversation("", ())), Polarity.DSAT, guidance, most)
    room = room_left(estimated_usage(bare).total, context, "writer: context")
    return lambda sample: fit_to_context(sample, room)


def _form(most: int) -> ListForm:
    fields = {"reason": '"one sentence"', "quote": '"a few words of the conversation, verbatim, that show it"'}
    return ListForm("reasons", fields, most, "one reason in one sentence.", 120, 50)


def _found(quote: str, transcript: str) -> str:
    """The quote where the conversation has it, whatever the white space; nothing where it was made up."""
    words = " ".join(quote.split()).strip('"“”')
    return words if words and words.lower() in " ".join(transcript.split()).lower() else ""


# --- summarisation ------------------------------------------------------------------------------------------------

BATCH = 10
"""m: reasons per prompt."""
MOST_A_BATCH = 8
FEWEST_WORDS, MOST_WORDS = 3, 25
"""What is shorter says nothing, and what is longer is no short assertion; both are left out."""
_SUMMARY = ListForm(
    "assertions",
    {"text": '"one assertion"', "numbers": "[the numbers of the reasons it covers]"},
    MOST_A_BATCH,
    "one assertion in one sentence.",
)
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+")


@dataclass(frozen=True)
class Assertion:
    """Something that can be said of a conversation, for it or against it, and where it comes from."""

    text: str
    side: Polarity
    reasons: tuple[AssertionReason, ...] = ()


@dataclass
class Written:
    """Assertions in the order they were written, why others were left out, and which prompts came to nothing."""

    assertions: list[Assertion] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, text: str, side: Polarity, reasons: tuple[AssertionReason, ...], most: int) -> None:
        """Keep an assertion, unless it is too long, there already, or one too many."""
        plain = " ".join(_NUMBERED.sub("", text).strip('"“” ').split())
        known = {each.text.lower().rstrip(".") for each in self.assertions}
        if not plain:
            return
        why = (
            "too long" if len(plain.split()) > MOST_WORDS
            else "too short" if sum(any(map(str.isalpha, word)) for word in plain.split()) < FEWEST_WORDS
            else "written already" if plain.lower().rstrip(".") in known
            else "pool full" if len(self.assertions) >= most
            else None
        )  # fmt: skip
        if why:
            self.left_out[why] += 1
        else:
            self.assertions.append(Assertion(plain, side, reasons))


def summarise(
    reasons: Sequence[AssertionReason], side: Polarity, guidance: RubricPromptBuilder, most: int
) -> PromptFlow[Written]:
    """Fresh assertions from each mini-batch of reasons of one class, beside all that were written before."""
    written = Written()
    for start in range(0, len(reasons), BATCH):
        if len(written.assertions) >= most:
            break
        batch = reasons[start : start + BATCH]
        parts = summary_parts(batch, [each.text for each in written.assertions], side)
        prompt = guidance.prompt("summarise", _SUMMARY, "maxims", parts)
        entries = yield from ask_for_list(prompt, _SUMMARY)
        if isinstance(entries, Failure):
            written.failures.append(entries)
            continue
        for entry in entries:
            text = entry.get("text", "")
            named = [batch[n - 1] for n in entry.get("numbers", ()) if 1 <= n <= len(batch)]
            written.add(text, side, tuple(dict.fromkeys(named)) or nearest(text, batch), most)
    return written


def nearest(text: str, batch: Sequence[AssertionReason]) -> tuple[AssertionReason, ...]:
    """The reason that shares most stems with an assertion, where the model does not say which it covers."""
    stems = counted_stems(pieces(text)).keys()
    shared = [len(stems & counted_stems(pieces(reason.text)).keys()) for reason in batch]
    return (batch[shared.index(max(shared))],) if max(shared, default=0) else ()


def summary_parts(batch: Sequence[AssertionReason], written: Sequence[str], side: Polarity) -> dict[str, str]:
    """What a prompt shows of a batch of reasons and of the assertions written so far."""
    shown = "\n".join(f"{place}. {reason.text}" for place, reason in enumerate(batch, 1))
    before = "\n".join(f"- {text}" for text in written) or "(none)"
    return {"reasons": shown, "written": before, "fence": fence_for(shown + before), "verdict": VERDICTS[side]}


# --- de-duplication -----------------------------------------------------------------------------------------------

SHOWN = 60
"""New assertions per prompt, beside all that were kept so far."""
ALIKE = 0.85
"""Cosine of two assertions' embeddings from which on they say the same."""
_PAIR = re.compile(r"^\D{0,20}?(\d{1,4})\D{1,40}?(\d{1,4})\D{0,20}$")
_REPEATS = ListForm(
    "repeats",
    {"number": "the number of an assertion", "number_of_earlier": "the number of the one it repeats"},
    SHOWN,
    "the number of an assertion, an equals sign, the number of the one it repeats; or the word none.",
    20,
    12,
)


@dataclass
class Distinct:
    """The assertions that stay, how many repeated one of them, and which prompts came to nothing."""

    assertions: list[Assertion] = field(default_factory=list)
    repeated: int = 0
    failures: list[Failure] = field(default_factory=list)


def deduplicate(assertions: Sequence[Assertion], guidance: RubricPromptBuilder) -> PromptFlow[Distinct]:
    """Assertions of one class without those that a model finds to repeat an earlier one; their reasons move to it.

    Where a prompt fails, its assertions stay, and the failure is told.
    """
    found = Distinct()
    for start in range(0, len(assertions), SHOWN):
        new = assertions[start : start + SHOWN]
        together = [*found.assertions, *new]
        if len(together) < 2:
            found.assertions = together
            continue
        shown = "\n".join(f"{place}. {each.text}" for place, each in enumerate(together, 1))
        parts = {"written": shown, "fence": fence_for(shown)}
        entries = yield from ask_for_list(guidance.prompt("deduplicate", _REPEATS, parts=parts), _REPEATS)
        if isinstance(entries, Failure):
            found.failures.append(entries)
        repeats = {} if isinstance(entries, Failure) else _repeats(entries, len(found.assertions), len(together))
        found.assertions = _merged(together, repeats)
        found.repeated += len(repeats)
    return found


def deduplicate_by_cosine(
    assertions: Sequence[Assertion], vectors: NDArray[np.floating], alike: float = ALIKE
) -> Distinct:
    """The same by (n, d) embeddings of length 1: a cosine of at least `alike` with an earlier one is a repetition."""
    repeats: dict[int, int] = {}
    kept: list[int] = []
    for place in range(len(assertions)):
        cosines = vectors[kept] @ vectors[place] if kept else np.zeros(0)
        if len(cosines) and cosines.max() >= alike:
            repeats[place] = kept[int(cosines.argmax())]
        else:
            kept.append(place)
    return Distinct(_merged(assertions, repeats), len(repeats))


def _repeats(entries: Sequence[dict[str, Any]], kept: int, count: int) -> dict[int, int]:
    """Places of repetitions with the place of what each repeats; what was kept before is none."""
    found: dict[int, int] = {}
    for entry in entries:
        number, earlier = entry.get("number"), entry.get("number_of_earlier")
        if isinstance(number, str) and (pair := _PAIR.match(number)):
            number, earlier = int(pair[1]), int(pair[2])
        if isinstance(number, int) and isinstance(earlier, int) and 1 <= earlier < number <= count and number > kept:
            found.setdefault(number - 1, earlier - 1)
    return found


def _merged(assertions: Sequence[Assertion], repeats: dict[int, int]) -> list[Assertion]:
    """The assertions that repeat none, with the reasons of those that repeat them."""
    merged = list(assertions)
    for place in sorted(repeats, reverse=True):
        first = merged[repeats[place]]
        reasons = tuple(dict.fromkeys([*first.reasons, *merged[place].reasons]))
        merged[repeats[place]] = replace(first, reasons=reasons)
    return [each for place, each in enumerate(merged) if place not in repeats]
