"""Assertions from conversations (RUBICON, section 3.2): prompts extract, summarize and de-duplicate reasons.

Domain sensitization tells the writer the domain and the expectations of the assistant. Conversation design principles
add that both sides are responsible (prompt file `responsibility`), and Grice's maxims (`maxims`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""Placeholders that a user's prompt file must contain."""
VERDICTS = {Polarity.SAT: "well", Polarity.DSAT: "badly"}


class TaskDescription(FrozenModel):
    """A user's description of the conversations, and of the expectations of the assistant."""

    about: str = Field(min_length=1)
    expected: tuple[str, ...] = Field(min_length=1)


def load_task(path: str | Path) -> TaskDescription:
    """Read a task description (`about: TEXT`, `expected: [TEXT, ...]`) from YAML; `BadInput` if a key is missing."""
    return validate(TaskDescription, load_yaml(Path(path)), str(path))


@dataclass(frozen=True)
class RubricPromptBuilder:
    """Prompts for the writer: task, a user's own prompt files by name, and answers by JSON Schema or in lines."""

    task: TaskDescription | None = None
    prompts: Mapping[str, str] | None = None
    by_schema: bool = True

    def prompt(
        self,
        name: str,
        form: ListForm,
        principles: str = "",
        parts: Mapping[str, Any] | None = None,
        conversations: Iterable[str] = (),
    ) -> Prompt:
        """Fill in a prompt file, with another one of design principles, and further placeholders by name.

        `conversations` names those that the placeholders quote.
        """
        principle_text = self._filled(principles, {}) if principles else ""
        values = {
            "domain": self.told_domain(),
            "principles": principle_text,
            "form": form.instruction(self.by_schema),
            **(parts or {}),
        }
        schema = form.schema() if self.by_schema else None
        tokens = form.most * (form.tokens if self.by_schema else form.tokens_of_line)
        messages, names = (ChatMessage("user", self._filled(name, values)),), tuple(dict.fromkeys(conversations))
        return Prompt(messages, max_tokens=tokens, schema=schema, conversations=names)

    def told_domain(self) -> str:
        """Return the paragraph on the domain; empty without a task."""
        if self.task is None:
            return ""
        expected = "\n".join(f"- {expectation}" for expectation in self.task.expected)
        return self._filled("domain", {"about": self.task.about, "expected": expected})

    def instructions(self) -> str:
        """Return the instructions for the judge of the assertions."""
        return self._filled("judge", {"domain": self.told_domain()}).strip()

    def _filled(self, name: str, parts: Mapping[str, Any]) -> str:
        own_prompts = self.prompts or {}
        text = own_prompts[name] if name in own_prompts else shipped(name)
        try:
            return Template(text).substitute(parts)
        except (KeyError, ValueError) as error:
            allowed = ", ".join(f"${part}" for part in parts) or "none"
            raise BadInput(
                f"prompt file {name}.md has the placeholder {error}; allowed placeholders: {allowed}"
            ) from None


def shipped(name: str) -> str:
    """Return one of Accord's prompt files."""
    return (files("accord.methods.learned_rubric") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def load_prompts(folder: str | Path) -> dict[str, str]:
    """Read a user's prompt files by name; missing ones default to Accord's.

    Raises:
        BadInput: The folder does not exist, or a file is not UTF-8.
        UnknownName: The name of a file is not in `PROMPTS`.
    """
    path = Path(folder)
    if not path.is_dir():
        raise BadInput(f"no folder of prompt files at {folder}. Create one: accord init --prompts {folder}")
    prompts = {}
    for file in sorted(path.glob("*.md")):
        if file.stem not in PROMPTS:
            raise UnknownName("prompt file", file.name, [f"{name}.md" for name in PROMPTS])
        try:
            prompts[file.stem] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{file} is not UTF-8. Save it as UTF-8") from None
        missing = next((place for place in NEEDED.get(file.stem, ()) if place not in prompts[file.stem]), None)
        if missing is not None:
            raise BadInput(f"{file} has no placeholder {missing}, which this prompt needs. Add it")
    return prompts


# --- extraction ---------------------------------------------------------------------------------------------------

MOST = 3
"""k: reasons per conversation."""
LONGEST = 400
"""Maximum characters of a reason."""

Show = Callable[[Sample], Sample]


@dataclass(frozen=True)
class ExtractedReasons:
    """Reasons from one conversation, a `failure` if there are none, and the share of text that was not shown."""

    reasons: tuple[AssertionReason, ...]
    side: Polarity
    failure: Failure | None = None
    truncated_share: float = 0.0


def extract(
    sample: Sample, good: bool, guidance: RubricPromptBuilder, show: Show, most: int = MOST
) -> PromptFlow[ExtractedReasons]:
    """Ask for the main reasons for the good or bad rating of a conversation, or of one of its replies."""
    side, visible = Polarity.SAT if good else Polarity.DSAT, show(sample)
    missing = truncated_share(sample, visible)
    entries = yield from ask_for_list(extraction_prompt(visible, side, guidance, most), _form(most))
    if isinstance(entries, Failure):
        return ExtractedReasons((), side, entries, missing)
    transcript = transcript_of(sample.conversation.up_to(sample.turn))
    name = sample.conversation.id
    stated = ((" ".join(e.get("reason", "").split())[:LONGEST], e.get("quote", "")) for e in entries)
    reasons = (
        AssertionReason(conversation=name, text=text, quote=_found(quote, transcript)) for text, quote in stated if text
    )
    return ExtractedReasons(tuple(reasons), side, None, missing)


def extraction_prompt(shown: Sample, side: Polarity, guidance: RubricPromptBuilder, most: int = MOST) -> Prompt:
    """Return the request about a conversation as shown."""
    parts = {**fenced(shown), "verdict": VERDICTS[side], "most": most}
    return guidance.prompt("extract", _form(most), "responsibility", parts, [shown.conversation.id])


def windowed(guidance: RubricPromptBuilder, context: int | None, most: int = MOST) -> Show:
    """Return a function that shortens conversations so that a prompt and its answer fit into `context` tokens."""
    if context is None:
        return lambda sample: sample
    bare = extraction_prompt(Sample(Conversation("", ())), Polarity.DSAT, guidance, most)
    room = room_left(estimated_usage(bare).total, context, "writer: context")
    return lambda sample: fit_to_context(sample, room)


def _form(most: int) -> ListForm:
    fields = {"reason": '"one sentence"', "quote": '"a few words of the conversation, verbatim, that show it"'}
    return ListForm("reasons", fields, most, "one reason in one sentence.", 120, 50)


def _found(quote: str, transcript: str) -> str:
    """Return the quote if the conversation has it, up to white space; otherwise an empty string."""
    words = " ".join(quote.split()).strip('"“”')
    return words if words and words.lower() in " ".join(transcript.split()).lower() else ""


# --- summarization ------------------------------------------------------------------------------------------------

BATCH = 10
"""m: reasons per prompt."""
MOST_A_BATCH = 8
FEWEST_WORDS, MOST_WORDS = 3, 25
"""Shorter and longer assertions are dropped."""
_SUMMARY = ListForm(
    "assertions",
    {"text": '"one assertion"', "numbers": "[the numbers of the reasons it covers]"},
    MOST_A_BATCH,
    "one assertion in one sentence.",
)
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+")


@dataclass(frozen=True)
class Assertion:
    """A statement that speaks for or against a conversation, and the reasons it comes from."""

    text: str
    side: Polarity
    reasons: tuple[AssertionReason, ...] = ()


@dataclass
class WrittenAssertions:
    """Assertions in the order written, dropped ones by reason, number of duplicates, and failed prompts."""

    assertions: list[Assertion] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    repeated: int = 0

    def add(self, text: str, side: Polarity, reasons: tuple[AssertionReason, ...], most: int) -> None:
        """Keep an assertion unless it is too long, too short, a duplicate, or beyond the maximum."""
        cleaned = " ".join(_NUMBERED.sub("", text).strip('"“” ').split())
        existing = {assertion.text.lower().rstrip(".") for assertion in self.assertions}
        if not cleaned:
            return
        reason = (
            "too long" if len(cleaned.split()) > MOST_WORDS
            else "too short" if sum(any(map(str.isalpha, word)) for word in cleaned.split()) < FEWEST_WORDS
            else "written already" if cleaned.lower().rstrip(".") in existing
            else "pool full" if len(self.assertions) >= most
            else None
        )  # fmt: skip
        if reason:
            self.left_out[reason] += 1
        else:
            self.assertions.append(Assertion(cleaned, side, reasons))


def summarise(
    reasons: Sequence[AssertionReason], side: Polarity, guidance: RubricPromptBuilder, most: int
) -> PromptFlow[WrittenAssertions]:
    """Write assertions from each batch of reasons of one class, given the assertions so far."""
    written = WrittenAssertions()
    for start in range(0, len(reasons), BATCH):
        if len(written.assertions) >= most:
            break
        batch = reasons[start : start + BATCH]
        parts = summary_parts(batch, [each.text for each in written.assertions], side)
        names = [each.conversation for each in (*batch, *(r for a in written.assertions for r in a.reasons))]
        prompt = guidance.prompt("summarise", _SUMMARY, "maxims", parts, names)
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
    """Return the reason that shares most stems with an assertion, if the model names none."""
    stems = counted_stems(pieces(text)).keys()
    shared = [len(stems & counted_stems(pieces(reason.text)).keys()) for reason in batch]
    return (batch[shared.index(max(shared))],) if max(shared, default=0) else ()


def summary_parts(batch: Sequence[AssertionReason], written: Sequence[str], side: Polarity) -> dict[str, str]:
    """Return the placeholders for a batch of reasons and the assertions so far."""
    reason_list = "\n".join(f"{place}. {reason.text}" for place, reason in enumerate(batch, 1))
    assertion_list = "\n".join(f"- {text}" for text in written) or "(none)"
    return {
        "reasons": reason_list,
        "written": assertion_list,
        "fence": fence_for(reason_list + assertion_list),
        "verdict": VERDICTS[side],
    }


# --- de-duplication -----------------------------------------------------------------------------------------------

SHOWN = 60
"""New assertions per prompt, in addition to the distinct ones so far."""
ALIKE = 0.85
"""Cosine similarity from which two assertions count as duplicates."""
_PAIR = re.compile(r"^\D{0,20}?(\d{1,4})\D{1,40}?(\d{1,4})\D{0,20}$")
_REPEATS = ListForm(
    "repeats",
    {"number": "the number of an assertion", "number_of_earlier": "the number of the one it repeats"},
    SHOWN,
    "the number of an assertion, an equals sign, the number of the one it repeats; or the word none.",
    20,
    12,
)


def deduplicate(assertions: Sequence[Assertion], guidance: RubricPromptBuilder) -> PromptFlow[WrittenAssertions]:
    """Drop assertions of one class that repeat an earlier one according to the model; their reasons move to it.

    Assertions of a failed prompt are kept, and the failure is recorded.
    """
    distinct = WrittenAssertions()
    for start in range(0, len(assertions), SHOWN):
        new = assertions[start : start + SHOWN]
        together = [*distinct.assertions, *new]
        if len(together) < 2:
            distinct.assertions = together
            continue
        listing = "\n".join(f"{place}. {each.text}" for place, each in enumerate(together, 1))
        parts = {"written": listing, "fence": fence_for(listing)}
        names = [reason.conversation for each in together for reason in each.reasons]
        prompt = guidance.prompt("deduplicate", _REPEATS, parts=parts, conversations=names)
        entries = yield from ask_for_list(prompt, _REPEATS)
        if isinstance(entries, Failure):
            distinct.failures.append(entries)
        repeats = {} if isinstance(entries, Failure) else _repeats(entries, len(distinct.assertions), len(together))
        distinct.assertions = _merged(together, repeats)
        distinct.repeated += len(repeats)
    return distinct


def deduplicate_by_cosine(
    assertions: Sequence[Assertion], vectors: NDArray[np.floating], alike: float = ALIKE
) -> WrittenAssertions:
    """Drop assertions whose unit embeddings, (n, d), have a cosine of at least `alike` with an earlier one."""
    repeats: dict[int, int] = {}
    distinct_places: list[int] = []
    for place in range(len(assertions)):
        cosines = vectors[distinct_places] @ vectors[place] if distinct_places else np.zeros(0)
        if len(cosines) and cosines.max() >= alike:
            repeats[place] = distinct_places[int(cosines.argmax())]
        else:
            distinct_places.append(place)
    return WrittenAssertions(_merged(assertions, repeats), repeated=len(repeats))


def _repeats(entries: Sequence[dict[str, Any]], kept: int, count: int) -> dict[int, int]:
    """Return indices of duplicates with the index of the original; kept assertions are never duplicates."""
    originals: dict[int, int] = {}
    for entry in entries:
        number, earlier = entry.get("number"), entry.get("number_of_earlier")
        if isinstance(number, str) and (pair := _PAIR.match(number)):
            number, earlier = int(pair[1]), int(pair[2])
        if isinstance(number, int) and isinstance(earlier, int) and 1 <= earlier < number <= count and number > kept:
            originals.setdefault(number - 1, earlier - 1)
    return originals


def _merged(assertions: Sequence[Assertion], repeats: dict[int, int]) -> list[Assertion]:
    """Return the assertions without duplicates, with the reasons of their duplicates."""
    merged = list(assertions)
    for place in sorted(repeats, reverse=True):
        first = merged[repeats[place]]
        reasons = tuple(dict.fromkeys([*first.reasons, *merged[place].reasons]))
        merged[repeats[place]] = replace(first, reasons=reasons)
    return [each for place, each in enumerate(merged) if place not in repeats]
