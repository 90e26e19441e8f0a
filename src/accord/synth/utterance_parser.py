"""What models write as utterances: the one edge where a reply becomes a turn, or the reason why there is none.

| a reply | what becomes of it |
|---|---|
| `User: ...` or `**Assistant:** ...` | the marker goes |
| it goes on with the other side's words, or begins with them | its own first words stay; the turn is noted as cut |
| END OF CONVERSATION! | the conversation ends; words before it are the last turn |
| nothing but blanks | the conversation is lost: `empty` |
| more characters than allowed | lost: `too long` |
| a dialogue without both sides | lost: `unreadable` |
| NUL, ESC and other controls, halves of surrogate pairs | go, or become the replacement character |
| `[99]` where five documents were shown | stays: a citation of nothing is the assistant's fault, to be judged |
"""

from __future__ import annotations

import re
from typing import NamedTuple

from accord.edges import sendable

EMPTY, TOO_LONG, UNREADABLE = "empty", "too long", "unreadable"
END = "END OF CONVERSATION!"
_END = re.compile(r"[\s\"'“*_\[(]*END[ _]+OF[ _]+CONVERSATION", re.IGNORECASE)
_MARK = re.compile(r"^[ \t>*_#\[]*(user|assistant)[\]*_]*[ \t]*[:\uff1a][*_]*[ \t]*", re.IGNORECASE | re.MULTILINE)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_QUERY_CHARACTERS = 300


class GenerationFailure(NamedTuple):
    """Why a conversation came to nothing: one word or two to count by, and a sentence."""

    reason: str
    detail: str = ""


class Utterance(NamedTuple):
    """What one side says next; `ends` the conversation, `was_cut` where it went on in the other's name."""

    text: str
    ends: bool = False
    was_cut: bool = False


def clean(text: str) -> str:
    """The text as a turn may hold it."""
    return sendable(_CONTROLS.sub("", text.replace("\r\n", "\n"))).strip()


def read_utterance(text: str, role: str, most: int) -> Utterance | GenerationFailure:
    """One side's next words, at most so many characters."""
    if len(text) > most:
        return GenerationFailure(TOO_LONG, f"the {role} writes {len(text):,} characters, more than {most:,}")
    said = clean(text)
    marks = list(_MARK.finditer(said))
    starts = [0] if not marks or marks[0].start() else []
    starts += [mark.end() for mark in marks if mark[1].casefold() == role]
    if not starts or not said:
        return GenerationFailure(EMPTY, f"the {role} says nothing")
    until = next((mark.start() for mark in marks if mark.start() >= starts[0]), len(said))
    own = said[starts[0] : until]
    end = _END.search(own)
    own = (own[: end.start()] if end is not None else own).strip()
    if not own and end is None:
        return GenerationFailure(EMPTY, f"the {role} says nothing")
    is_alone = len(marks) == (starts[0] > 0)
    return Utterance(own, end is not None, not is_alone)


def read_dialogue(text: str, most: int) -> list[tuple[str, str]] | GenerationFailure:
    """A whole dialogue as pairs of a role and what it says; two utterances of one side in a row are one.

    What stands before the first utterance is no part of it.
    """
    if len(text) > most * 10:
        return GenerationFailure(TOO_LONG, f"a dialogue of {len(text):,} characters")
    said = clean(text)
    if not said:
        return GenerationFailure(EMPTY, "the model says nothing")
    marks = list(_MARK.finditer(said))
    turns: list[tuple[str, str]] = []
    for place, mark in enumerate(marks):
        until = marks[place + 1].start() if place + 1 < len(marks) else len(said)
        words, role = said[mark.end() : until], mark[1].casefold()
        end = _END.search(words)
        words = (words[: end.start()] if end is not None else words).strip()
        if words and turns and turns[-1][0] == role:
            turns[-1] = (role, f"{turns[-1][1]}\n{words}")
        elif words:
            turns.append((role, words))
        if end is not None:
            break
    if {role for role, _ in turns} != {"user", "assistant"}:
        return GenerationFailure(UNREADABLE, "the reply is no dialogue of a user and an assistant")
    longest = max(len(words) for _, words in turns)
    return (
        turns
        if longest <= most
        else GenerationFailure(TOO_LONG, f"a message of {longest:,} characters, more than {most:,}")
    )


def read_query(text: str) -> str | GenerationFailure:
    """What is looked for: the first line that says something."""
    lines = (line.strip(" \t\"'`“”") for line in clean(text[:20_000]).splitlines())
    found = next((line for line in lines if line), "")
    found = re.sub(r"^query\s*[:\uff1a]\s*", "", found, flags=re.IGNORECASE)[:_QUERY_CHARACTERS]
    return found or GenerationFailure(EMPTY, "the assistant writes no query")
