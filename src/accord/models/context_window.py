"""Fitting a conversation into a model's context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accord.edges import BadInput, read_json_file
from accord.models.model import HF, IN_PROCESS_CONTEXT, Judge, estimated_usage, in_process, in_requests
from accord.models.prompts import step_text
from accord.values import Conversation, Document, Question, Sample, Turn, steps


def context_of(model: str) -> int | None:
    """Return the context length of a model in this process, in tokens of prompt and answer.

    The length is `None` for an endpoint. A folder that cannot be read gets the default; opening the model reports the
    error.
    """
    if not in_process(model):
        return None
    if not model.startswith(HF):
        return IN_PROCESS_CONTEXT
    try:
        config = read_json_file(Path(model.removeprefix(HF)) / "config.json")
        return min(int(config["max_position_embeddings"]), IN_PROCESS_CONTEXT)
    except (OSError, BadInput, ValueError, LookupError, TypeError):
        return IN_PROCESS_CONTEXT


MARGIN = 0.8
"""Usable share of a context; the rest allows for errors in the estimated number of tokens."""
LEAST_ROOM = 100
TURN_OVERHEAD = 12
"""Tokens of a turn besides its text: index, role and empty lines."""


def room_for(judge: Judge, questions: Sequence[Question], context: int) -> int:
    """Return the estimated tokens available for a conversation in one request of a judge.

    Raises:
        BadInput: The questions leave almost no room.
    """
    empty = Sample(Conversation("", ()))
    groups = in_requests(judge, questions)
    estimates = [estimated_usage(request).total for group in groups for request in judge.requests(empty, group)]
    return room_left(max(estimates, default=0), context, "judge: context")


def room_left(used: int, context: int, setting: str) -> int:
    """Return the estimated tokens of a context that are left for a conversation, after `used` tokens.

    Raises:
        BadInput: Almost none are left; the error names the setting to raise.
    """
    room = int(MARGIN * context) - used
    if room < LEAST_ROOM:
        raise BadInput(
            f"a context of {context} tokens leaves no room for a conversation: the questions take about {used} tokens. "
            f"Raise {setting}"
        )
    return room


def fit_to_context(sample: Sample, room: int) -> Sample:
    """Return the sample shortened to `room` tokens.

    Documents keep their beginnings and at most half of the room. A turn longer than half of the rest loses its middle.
    The first turn stays, and as many of the last turns as fit, so the judged turn and those after it are always
    complete or shortened, never left out. Long arguments of calls lose their ends. Each gap states its size.
    """
    turns = sample.conversation.up_to(sample.turn)
    documents = sample.conversation.documents
    if _tokens(turns, documents) <= room or not turns:
        return sample
    shorter = _shortened(documents, room // 2)
    left = max(room - sum(map(_document_tokens, shorter)), 0)
    kept = len(turns) - sample.turn if sample.turn is not None and sample.is_step else 1
    left = max(left - _step_tokens(sample), 0)
    cut = tuple(_cut(turn, max(left // (kept + 1), TURN_OVERHEAD)) for turn in turns)
    hidden = _hidden([_turn_tokens(turn) for turn in cut], left, kept)
    metadata = sample.conversation.metadata
    return Sample(Conversation(sample.conversation.id, cut, shorter, metadata), sample.turn, hidden)


def truncated_share(whole: Sample, shown: Sample) -> float:
    """Return the share of a sample's characters, documents included, that were left out; 0 to 1."""
    if shown is whole:
        return 0.0
    return max(0.0, 1.0 - _characters(shown) / max(_characters(whole), 1))


def _characters(sample: Sample) -> int:
    first, last = sample.hidden or (0, 0)
    turns = sample.conversation.up_to(sample.turn)
    shown = sum(len(turn.content) for index, turn in enumerate(turns) if not first <= index < last)
    return shown + sum(len(document.text) for document in sample.conversation.documents)


def _hidden(sizes: Sequence[int], room: int, kept: int) -> tuple[int, int] | None:
    """Return the range of turns to leave out: those between the first turn and the last that fit, at least `kept`."""
    start = max(len(sizes) - kept, 0)
    used = sum(sizes[start:]) + (sizes[0] if start else 0)
    while start > 1 and used + sizes[start - 1] <= room:
        start -= 1
        used += sizes[start]
    return (1, start) if start > 1 else None


def _tokens(turns: Sequence[Turn], documents: Sequence[Document]) -> int:
    return sum(map(_turn_tokens, turns)) + sum(map(_document_tokens, documents))


def _turn_tokens(turn: Turn) -> int:
    return estimated_usage([turn.content, list(turn.extra.get("tool_calls") or ())]).input_tokens + TURN_OVERHEAD


def _step_tokens(sample: Sample) -> int:
    """Return the estimated tokens of the call that follows the transcript of a step."""
    return estimated_usage([step_text(sample)]).input_tokens if sample.is_step else 0


def _document_tokens(document: Document) -> int:
    return estimated_usage([document.title or "", document.text]).input_tokens + TURN_OVERHEAD


def _shortened(documents: Sequence[Document], room: int) -> tuple[Document, ...]:
    """Return the beginnings of documents; if they do not fit, each gets the same share of the room."""
    if not documents or sum(map(_document_tokens, documents)) <= room:
        return tuple(documents)
    share = max(room // len(documents) - TURN_OVERHEAD, 0)
    return tuple(replace(document, text=_beginning(document.text, share)) for document in documents)


def _beginning(text: str, tokens: int) -> str:
    kept = _characters_in(text, tokens)
    return text if kept >= len(text) else f"{text[:kept]} ({len(text) - kept} characters left out here)"


def _cut(turn: Turn, tokens: int) -> Turn:
    """Return a turn of at most `tokens`, without its middle and the ends of arguments if it is longer."""
    calls, share = steps.calls_of(turn), max(tokens // 2, TURN_OVERHEAD)
    if calls and _turn_tokens(replace(turn, content="")) > share:
        turn = replace(
            turn, extra={**turn.extra, "tool_calls": [_shorter_call(each, share, len(calls)) for each in calls]}
        )
        tokens -= share
    kept = _characters_in(turn.content, tokens - TURN_OVERHEAD)
    if kept >= len(turn.content):
        return turn
    head, tail = kept // 2, kept - kept // 2
    gap = f" ({len(turn.content) - kept} characters left out here) "
    return replace(turn, content=turn.content[:head] + gap + turn.content[len(turn.content) - tail :])


def _shorter_call(call: Any, tokens: int, count: int) -> dict[str, Any]:
    """Return a call with the beginning of its arguments, which takes its share of the tokens of `count` calls."""
    id_, name, arguments = steps.parse_call(call)
    shorter = _beginning(arguments, max(tokens // count - TURN_OVERHEAD, 0))
    return {**({} if id_ is None else {"id": id_}), "function": {"name": name, "arguments": shorter}}


def _characters_in(text: str, tokens: int) -> int:
    """Convert `tokens` to a number of characters, by the text's mean characters per token."""
    needed = estimated_usage(text).input_tokens
    return len(text) if needed <= tokens else max(int(len(text) * tokens / needed), 0)
