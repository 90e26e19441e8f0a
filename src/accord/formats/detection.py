"""Detection of the format of a file from its first row."""

from __future__ import annotations

import re
import shlex
from typing import Any

from accord.edges import BadInput
from accord.formats.labels.label_files import is_exchange
from accord.formats.labels.rating_columns import words_of
from accord.formats.record import Fields, formats, plain_name
from accord.formats.table import names_annotator, names_rating
from accord.formats.tables.words import ALIASES as LABEL_ALIASES
from accord.values import BUILT_IN

_MOST_SPECIFIC_FIRST = (
    "benchmark", "pairs", "soda-eval", "label-studio", "argilla", "potato", "langsmith", "langfuse-scores",
    "openai-messages", "sharegpt", "zendesk", "intercom", "slack", "chatgpt", "mlflow", "langfuse", "otel", "table",
)  # fmt: skip


def _most_specific_first() -> list[str]:
    """Return the names of all formats in the order of detection: formats of plug-ins come before tables."""
    *specific, table = _MOST_SPECIFIC_FIRST
    others = [name for name in formats.names() if name not in _MOST_SPECIFIC_FIRST]
    plugins = [name for name in others if formats.owner(name) != BUILT_IN]
    return list(dict.fromkeys([*specific, *plugins, table, *others]))


def detect(fields: Fields, where: str) -> str:
    """Return the name of the format of a file's first row; `where` names the file in the error.

    Raises:
        BadInput: No format matches.
    """
    texts = _text_columns(fields)
    names = {plain_name(name) for name in fields if isinstance(name, str)}
    is_plain = not any(isinstance(value, list | dict) for value in fields.values())
    holds_labels = is_plain and not texts and any(map(names_rating, fields))
    is_answer = (
        holds_labels and names >= {"question", "answer"} and any(map(names_annotator, fields))
        and not is_exchange(fields)
    )  # fmt: skip
    for name in _most_specific_first():
        if formats.get(name).accepts(fields) and not (name == "table" and is_answer):
            return name
    listed = ", ".join(map(str, list(fields)[:_LISTED_COLUMNS])) + (", ..." if len(fields) > _LISTED_COLUMNS else "")
    if holds_labels:
        if names & _CONVERSATION_NAMES:
            raise BadInput(f"{where} holds ratings without text ({listed}); name a file of conversations")
        raise BadInput(f"{where} holds ratings without text, and no column is known to hold {_id_hint(fields, listed)}")
    prompt, response, *_ = [*map(shlex.quote, texts), "COLUMN", "COLUMN"]
    raise BadInput(
        f"cannot tell the format of {where}: no column is known to hold text ({listed}). Name them with "
        f"--columns prompt={prompt} --columns response={response} for one exchange per row, "
        "role= and content= for one turn per row, messages= for a whole conversation, conversation= and annotator= for "
        "ratings; or name the format: --format "
        f"{', '.join(formats.names())}"
    )


_LISTED_COLUMNS = 12
_CONVERSATION_NAMES = frozenset({"conversation", *map(plain_name, LABEL_ALIASES["conversation"])})
_OTHER_WORDS = frozenset({"comment", "comments", "reason", "explanation", "note", "notes", "time", "date"})
_UNSPACED = re.compile("[\u3040-\u30ff\u4e00-\u9fff]{6}")
_NAMES_AN_ID = re.compile(r"(id|no|nr|num|number|key)$|ticket|case|chat|session|call")


def _is_beside_text(name: Any) -> bool:
    """Return True if the name of a column suggests a rating, an annotator, a comment or a time."""
    return not isinstance(name, str) or names_rating(name) or bool(_OTHER_WORDS.intersection(words_of(name)))


def _is_prose(text: str) -> bool:
    """Return True if a text has two words, or is as long as a sentence in a script without spaces."""
    return (len(words_of(text)) > 1 and " " in text.strip()) or bool(_UNSPACED.search(text))


def _text_columns(fields: Fields) -> list[str]:
    """Return the columns with text of more than one word, at most the two longest, in the order of the row."""
    lengths = {
        name: len(value)
        for name, value in fields.items()
        if isinstance(value, str) and _is_prose(value) and not _is_beside_text(name)
    }
    return sorted(sorted(lengths, key=lambda name: -lengths[name])[:2], key=list(fields).index)


def _id_hint(fields: Fields, listed: str) -> str:
    """Return the end of the error on labels without a conversation: the columns, and candidates for the id."""
    known = {name for ours in LABEL_ALIASES if ours != "conversation" for name in (ours, *LABEL_ALIASES[ours])}
    candidates = [
        name for name in fields
        if not _is_beside_text(name) and plain_name(name) not in known and fields[name] not in (None, "")
    ]  # fmt: skip
    candidates.sort(key=lambda name: _NAMES_AN_ID.search(plain_name(name)) is None)
    chosen, *others = [*candidates, "COLUMN"]
    instead = f" (or {', '.join(others[:-1])})" if others[:-1] else ""
    return f"the conversation's id ({listed}). Name it: --columns conversation={shlex.quote(chosen)}{instead}"
