"""Names of the column with a conversation's id next to a column `messages`."""

from __future__ import annotations

from typing import Any

import pytest

from accord import AccordError
from accord.formats import read, source_of

MESSAGES = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]


@pytest.mark.parametrize(
    "name", ["id", "conversation", "conversation_id", "session_id", "thread_id", "dialogue_id", "chat_id", "ticket_id"]
)
def test_id_of_a_conversation_is_read_under_each_name(name: str) -> None:
    [record] = read(source_of([{name: "c7", "messages": MESSAGES}]))
    assert record.conversation.id == "c7" and name not in record.conversation.metadata


@pytest.mark.parametrize("text", ["word " * 50, [{"a": 1}], {"text": "Hello."}])
def test_text_of_a_conversation_is_no_id(text: Any) -> None:
    [record] = read(source_of([{"conversation": text, "messages": MESSAGES}]))
    assert record.conversation.id == "row-1"


def test_number_that_is_no_whole_one_is_refused_as_id() -> None:
    with pytest.raises(AccordError, match="cannot be an id"):
        list(read(source_of([{"thread_id": 1.5, "messages": MESSAGES}])))
