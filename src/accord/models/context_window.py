"""How much a model in this process reads, as far as its name and its files say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from accord.edges import BadInput, read_card
from accord.models.model import HF, IN_PROCESS_CONTEXT, Judge, estimated_usage, in_process, in_requests
from accord.values import Conversation, Document, Question, Sample, Turn


def own_context(model: str) -> int | None:
    """Tokens that a model in this process reads, prompt and answer together; `None` for a model behind an endpoint.

    A folder that cannot be read says nothing here: opening it says what is wrong.
    """
    if not in_process(model):
        return None
    if not model.startswith(HF):
        return IN_PROCESS_CONTEXT
    try:
        config = read_card(Path(model.removeprefix(HF)) / "config.json")
        return min(int(config["max_position_embeddings"]), IN_PROCESS_CONTEXT)
    except (OSError, BadInput, ValueError, LookupError, TypeError):
        return IN_PROCESS_CONTEXT


MARGIN = 0.8
"""Share of a context that is planned for: how many tokens a text has is an estimate."""
LEAST_ROOM = 100
TURN_OVERHEAD = 12
"""Tokens around a turn: its index, its role, empty lines."""


def room_for(judge: Judge, questions: Sequence[Question], context: int) -> int:
    """Estimated tokens that a conversation may take in one request of a judge, beside all that is asked of it.

    Raises:
        BadInput: There is hardly any room.
    """
    nothing = Sample(Conversation("", ()))
    groups = in_requests(judge, questions)
    estimates = [estimated_usage(request).total for group in groups for request in judge.requests(nothing, group)]
    return room_beside(max(estimates, default=0), context, "judge: context")


def room_beside(asked: int, context: int, setting: str) -> int:
    """Estimated tokens that are left for a conversation beside what is asked, its answer included.

    Raises:
        BadInput: There is hardly any; names the setting to raise.
    """
    room = int(MARGIN * context) - asked
    if room < LEAST_ROOM:
        raise BadInput(
            f"a context of {context} tokens leaves no room for a conversation beside the questions, which take "
            f"about {asked}; raise {setting}"
        )
    return room


def windowing(judge: Judge, questions: Sequence[Question], context: int | None) -> Callable[[Sample], Sample]:
    """What a judge is shown of each subject, where a request may have no more than `context` tokens.

    Raises:
        BadInput: There is hardly any room beside the questions.
    """
    if context is None:
        return lambda sample: sample
    room = room_for(judge, questions, context)
    return lambda sample: fitted(sample, room)


def fitted(sample: Sample, room: int) -> Sample:
    """The subject as it fits into so many tokens: documents and turns shortened, turns in the middle left out.

    Documents keep their beginnings and at most half of the room; a turn longer than half of what remains loses its
    middle. The first turn stays, then as many of the last ones as fit: what is judged is always there. Each gap says
    how much is missing.
    """
    turns = sample.conversation.up_to(sample.turn)
    documents = sample.conversation.documents
    if _tokens(turns, documents) <= room or not turns:
        return sample
    shorter = _shortened(documents, room // 2)
    left = max(room - sum(map(_document_tokens, shorter)), 0)
    cut = tuple(_cut(turn, max(left // 2, TURN_OVERHEAD)) for turn in turns)
    hidden = _hidden([_turn_tokens(turn) for turn in cut], left)
    metadata = sample.conversation.metadata
    return Sample(Conversation(sample.conversation.id, cut, shorter, metadata), sample.turn, hidden)


def truncated_share(whole: Sample, shown: Sample) -> float:
    """The share of a subject's characters, documents included, that its shown form lacks; from 0 to 1."""
    if shown is whole:
        return 0.0
    return max(0.0, 1.0 - _characters(shown) / max(_characters(whole), 1))


def _characters(sample: Sample) -> int:
    first, last = sample.hidden or (0, 0)
    turns = sample.conversation.up_to(sample.turn)
    said = sum(len(turn.content) for index, turn in enumerate(turns) if not first <= index < last)
    return said + sum(len(document.text) for document in sample.conversation.documents)


def _hidden(sizes: Sequence[int], room: int) -> tuple[int, int] | None:
    """Which turns, from one index up to another, are not shown: those between the first and the last that fit."""
    last = len(sizes) - 1
    used = sizes[0] + (sizes[last] if last else 0)
    start = last
    while start > 1 and used + sizes[start - 1] <= room:
        start -= 1
        used += sizes[start]
    return (1, start) if start > 1 else None


def _tokens(turns: Sequence[Turn], documents: Sequence[Document]) -> int:
    return sum(map(_turn_tokens, turns)) + sum(map(_document_tokens, documents))


def _turn_tokens(turn: Turn) -> int:
    return estimated_usage([turn.content, list(turn.extra.get("tool_calls") or ())]).input_tokens + TURN_OVERHEAD


def _document_tokens(document: Document) -> int:
    return estimated_usage([document.title or "", document.text]).input_tokens + TURN_OVERHEAD


def _shortened(documents: Sequence[Document], room: int) -> tuple[Document, ...]:
    """The documents with their beginnings, each given the same share of the room where they do not all fit."""
    if not documents or sum(map(_document_tokens, documents)) <= room:
        return tuple(documents)
    each = max(room // len(documents) - TURN_OVERHEAD, 0)
    return tuple(replace(document, text=_beginning(document.text, each)) for document in documents)


def _beginning(text: str, tokens: int) -> str:
    kept = _characters_in(text, tokens)
    return text if kept >= len(text) else f"{text[:kept]} ({len(text) - kept} characters left out here)"


def _cut(turn: Turn, tokens: int) -> Turn:
    """A turn without its middle, where it is longer than so many tokens."""
    kept = _characters_in(turn.content, tokens - TURN_OVERHEAD)
    if kept >= len(turn.content):
        return turn
    head, tail = kept // 2, kept - kept // 2
    gap = f" ({len(turn.content) - kept} characters left out here) "
    return replace(turn, content=turn.content[:head] + gap + turn.content[len(turn.content) - tail :])


def _characters_in(text: str, tokens: int) -> int:
    """How many characters of a text so many tokens hold, by the text's own mean."""
    needed = estimated_usage(text).input_tokens
    return len(text) if needed <= tokens else max(int(len(text) * tokens / needed), 0)
