"""Rubric summarisation (RUBICON, section 3.2.2): reasons become short assertions, a mini-batch at a time.

The pool only grows. SPUR, in contrast, has one short list rewritten by every batch (Lin et al., 2024).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from accord.evaluators.learned_rubric.guidance import VERDICTS, Guidance
from accord.evidence.bank.words import counted_stems, pieces
from accord.llm.flow import Flow
from accord.llm.listed import Form, ask_for_list
from accord.llm.model import Failure
from accord.llm.render import fence_for
from accord.rubric import Reason, Side

BATCH = 10
"""m: reasons a prompt."""
MOST_A_BATCH = 8
FEWEST_WORDS, MOST_WORDS = 3, 25
"""What is shorter says nothing, and what is longer is no short assertion; both are left out."""
SPUR_SIZE = 10
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+")


@dataclass(frozen=True)
class Assertion:
    """Something that can be said of a conversation, for it or against it, and where it comes from."""

    text: str
    side: Side
    reasons: tuple[Reason, ...] = ()


@dataclass
class Written:
    """Assertions in the order they were written, why others were left out, and which prompts came to nothing."""

    assertions: list[Assertion] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, text: str, side: Side, reasons: tuple[Reason, ...], most: int) -> None:
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


def summarise(reasons: Sequence[Reason], side: Side, guidance: Guidance, most: int) -> Flow[Written]:
    """Fresh assertions from each mini-batch of reasons of one class, beside all that were written before."""
    written = Written()
    form = _form(MOST_A_BATCH)
    for start in range(0, len(reasons), BATCH):
        if len(written.assertions) >= most:
            break
        batch = reasons[start : start + BATCH]
        parts = _parts(batch, [each.text for each in written.assertions], side)
        prompt = guidance.prompt("summarise", form, "maxims", parts)
        entries = yield from ask_for_list(prompt, form)
        if isinstance(entries, Failure):
            written.failures.append(entries)
            continue
        for entry in entries:
            text = entry.get("text", "")
            named = [batch[n - 1] for n in entry.get("numbers", ()) if 1 <= n <= len(batch)]
            written.add(text, side, tuple(dict.fromkeys(named)) or nearest(text, batch), most)
    return written


def rewrite(reasons: Sequence[Reason], side: Side, guidance: Guidance, size: int = SPUR_SIZE) -> Flow[Written]:
    """SPUR's list: at most `size` assertions of one class, written anew with every mini-batch of reasons."""
    written, form = Written(), _form(size)
    for start in range(0, len(reasons), BATCH):
        batch = reasons[start : start + BATCH]
        before = written.assertions
        parts = {**_parts(batch, [each.text for each in before], side), "most": size}
        prompt = guidance.prompt("rewrite", form, parts=parts)
        entries = yield from ask_for_list(prompt, form)
        if isinstance(entries, Failure):
            written.failures.append(entries)
            continue
        known = {each.text: each.reasons for each in before}
        written.assertions = []
        for entry in entries:
            text = entry.get("text", "")
            written.add(text, side, known.get(text) or nearest(text, batch), size)
    return written


def nearest(text: str, batch: Sequence[Reason]) -> tuple[Reason, ...]:
    """The reason that shares most stems with an assertion, where the model does not say which it covers."""
    stems = counted_stems(pieces(text)).keys()
    shared = [len(stems & counted_stems(pieces(reason.text)).keys()) for reason in batch]
    return (batch[shared.index(max(shared))],) if max(shared, default=0) else ()


def _parts(batch: Sequence[Reason], written: Sequence[str], side: Side) -> dict[str, str]:
    shown = "\n".join(f"{place}. {reason.text}" for place, reason in enumerate(batch, 1))
    before = "\n".join(f"- {text}" for text in written) or "(none)"
    return {"reasons": shown, "written": before, "fence": fence_for(shown + before), "verdict": VERDICTS[side]}


def _form(most: int) -> Form:
    fields = {"text": '"one assertion"', "numbers": "[the numbers of the reasons it covers]"}
    return Form("assertions", fields, most, "one assertion in one sentence.")
