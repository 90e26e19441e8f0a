"""Parsing of model replies into turns.

A wrong citation such as `[99]` with five documents stays: it is an error of the assistant, to be judged.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from accord.edges import sendable

EMPTY, TOO_LONG, UNREADABLE = "empty", "too long", "unreadable"
END = "END OF CONVERSATION!"
_END = re.compile(r"END[ _]+OF[ _]+CONVERSATION", re.IGNORECASE)
_BEFORE_END = " \t\n\u00a0\u3000\"'“*_[("
_MARK = re.compile(r"^[ \t>*_#\[]*(user|assistant)[\]*_]*[ \t]*[:\uff1a][*_]*[ \t]*", re.IGNORECASE | re.MULTILINE)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_QUERY_CHARACTERS = 300


class GenerationFailure(NamedTuple):
    """A failed conversation: a short reason for counts, and a sentence."""

    reason: str
    detail: str = ""


class Utterance(NamedTuple):
    """One message; `ends` is True if it ends the conversation, `was_cut` if text of the other side was removed."""

    text: str
    ends: bool = False
    was_cut: bool = False


def clean(text: str) -> str:
    """Return a text without control characters."""
    return sendable(_CONTROLS.sub("", text.replace("\r\n", "\n"))).strip()


def read_utterance(text: str, role: str, most: int) -> Utterance | GenerationFailure:
    """Parse one message of a role with at most `most` characters.

    Its marker (`User:`, `**Assistant:**`) is removed. Messages of the other side are cut off. END OF CONVERSATION! ends
    the conversation, and words before it are the last turn.
    """
    if len(text) > most:
        return GenerationFailure(TOO_LONG, f"the {role} writes {len(text):,} characters, more than {most:,}")
    cleaned = clean(text)
    marks = list(_MARK.finditer(cleaned))
    starts = [0] if not marks or marks[0].start() else []
    starts += [mark.end() for mark in marks if mark[1].casefold() == role]
    if not starts or not cleaned:
        return GenerationFailure(EMPTY, f"the message of the {role} is empty")
    until = next((mark.start() for mark in marks if mark.start() >= starts[0]), len(cleaned))
    message = cleaned[starts[0] : until]
    end = _END.search(message)
    message = (message[: end.start()].rstrip(_BEFORE_END) if end is not None else message).strip()
    if not message and end is None:
        return GenerationFailure(EMPTY, f"the message of the {role} is empty")
    is_alone = len(marks) == (starts[0] > 0)
    return Utterance(message, end is not None, not is_alone)


def read_dialogue(text: str, most: int) -> list[tuple[str, str]] | GenerationFailure:
    """Parse a dialogue into roles and texts; consecutive messages of one role are joined.

    Text before the first message is ignored.
    """
    if len(text) > most * 10:
        return GenerationFailure(TOO_LONG, f"a dialogue of {len(text):,} characters")
    cleaned = clean(text)
    if not cleaned:
        return GenerationFailure(EMPTY, "the reply is empty")
    marks = list(_MARK.finditer(cleaned))
    turns: list[tuple[str, str]] = []
    for place, mark in enumerate(marks):
        until = marks[place + 1].start() if place + 1 < len(marks) else len(cleaned)
        words, role = cleaned[mark.end() : until], mark[1].casefold()
        end = _END.search(words)
        words = (words[: end.start()].rstrip(_BEFORE_END) if end is not None else words).strip()
        if words and turns and turns[-1][0] == role:
            turns[-1] = (role, f"{turns[-1][1]}\n{words}")
        elif words:
            turns.append((role, words))
        if end is not None:
            break
    if {role for role, _ in turns} != {"user", "assistant"}:
        return GenerationFailure(UNREADABLE, "the reply is not a dialogue of a user and an assistant")
    longest = max(len(words) for _, words in turns)
    return (
        turns
        if longest <= most
        else GenerationFailure(TOO_LONG, f"a message of {longest:,} characters, more than {most:,}")
    )


def read_query(text: str) -> str | GenerationFailure:
    """Return the first line with text as the query."""
    lines = (line.strip(" \t\"'`“”") for line in clean(text[:20_000]).splitlines())
    line = next((line for line in lines if line), "")
    query = re.sub(r"^query\s*[:\uff1a]\s*", "", line, flags=re.IGNORECASE)[:_QUERY_CHARACTERS]
    return query or GenerationFailure(EMPTY, "the assistant writes no query")
