"""Supervised extraction (RUBICON, section 3.2.1): why a conversation went well, or badly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accord.conversation import Conversation
from accord.evaluators.learned_rubric.guidance import VERDICTS, Guidance
from accord.llm.flow import Flow
from accord.llm.listed import Form, ask_for_list
from accord.llm.model import Failure, Prompt, Subject, estimated_usage
from accord.llm.render import fence_for, transcript_of
from accord.llm.windowing import fitted, left_out, room_beside
from accord.rubric import Reason, Side

MOST = 3
"""k: reasons a conversation."""
LONGEST = 400
"""Characters of a reason."""

Show = Callable[[Subject], Subject]


@dataclass(frozen=True)
class Extracted:
    """What was noticed in one conversation; `failure` says why nothing was, `left_out` which share was not shown."""

    reasons: tuple[Reason, ...]
    side: Side
    failure: Failure | None = None
    left_out: float = 0.0


def extract(subject: Subject, good: bool, guidance: Guidance, show: Show, most: int = MOST) -> Flow[Extracted]:
    """The weightiest reasons why a conversation (or one reply in it) went as people say it went."""
    side, shown = Side.SAT if good else Side.DSAT, show(subject)
    missing = left_out(subject, shown)
    entries = yield from ask_for_list(extraction_prompt(shown, side, guidance, most), _form(most))
    if isinstance(entries, Failure):
        return Extracted((), side, entries, missing)
    whole = transcript_of(subject.conversation.up_to(subject.turn))
    name = subject.conversation.id
    named = ((" ".join(e.get("reason", "").split())[:LONGEST], e.get("quote", "")) for e in entries)
    reasons = (Reason(conversation=name, text=text, quote=_found(quote, whole)) for text, quote in named if text)
    return Extracted(tuple(reasons), side, None, missing)


def extraction_prompt(shown: Subject, side: Side, guidance: Guidance, most: int = MOST) -> Prompt:
    """What is asked about a conversation as it is shown."""
    transcript = transcript_of(shown.conversation.up_to(shown.turn), shown.hidden)
    parts = {"fence": fence_for(transcript), "conversation": transcript, "verdict": VERDICTS[side], "most": most}
    return guidance.prompt("extract", _form(most), "responsibility", parts)


def windowed(guidance: Guidance, context: int | None, most: int = MOST) -> Show:
    """What a model is shown of a conversation, where a prompt and its answer may have no more than `context` tokens.

    Raises:
        BadInput: There is hardly any room beside the prompt.
    """
    if context is None:
        return lambda subject: subject
    bare = extraction_prompt(Subject(Conversation("", ())), Side.DSAT, guidance, most)
    room = room_beside(estimated_usage(bare).total, context, "writer: context")
    return lambda subject: fitted(subject, room)


def _form(most: int) -> Form:
    fields = {"reason": '"one sentence"', "quote": '"a few words of the conversation, verbatim, that show it"'}
    return Form("reasons", fields, most, "one reason in one sentence.", 120, 50)


def _found(quote: str, transcript: str) -> str:
    """The quote where the conversation has it, whatever the white space; nothing where it was made up."""
    words = " ".join(quote.split()).strip('"“”')
    return words if words and words.lower() in " ".join(transcript.split()).lower() else ""
