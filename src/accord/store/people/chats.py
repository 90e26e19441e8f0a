"""Chats of annotators with an assistant: every message is stored before a reply to it is requested.

All decisions are made inside the writing transaction, so that two tabs, two servers and a form sent twice make one
chat. A reply in progress is stored every second with the time until which its writer is alive; a reply whose writer
died is cut off at the last stored text.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, insert, literal, or_, select, update

from accord.edges import BadInput
from accord.store.engine import read_json
from accord.store.erasure.tombstones import of_conversation
from accord.store.group_commit import Conflict
from accord.store.people.studies import Assignment, Item, Studies, assign
from accord.store.rows import BATCH, batches, conversation_row, now
from accord.store.schema import chat_messages, chats, conversations
from accord.values import Conversation, Target, canonical_json

ChatState = Literal["open", "ended", "dropped"]
MessageState = Literal["complete", "writing", "stopped", "cut"]
DIED = "died"
"""Reason of a reply that was cut off because its writer died."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A message of the annotator, or one attempt at a reply.

    Attributes:
        place: Its place in the chat, from 0.
        role: `user` or `assistant`.
        content: The text so far.
        state: `complete`, `writing`, `stopped` by the annotator, `cut` for a `reason`.
        until: Time (UTC) until which the writer of a `writing` reply counts as alive.
        about: Retrieved documents, the model that answered, and its tokens.
    """

    place: int
    role: str
    content: str
    state: MessageState
    reason: str | None
    until: str | None
    time: str
    about: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with all messages and attempts at replies.

    Attributes:
        id: A random ID, known to its annotator only.
        assistant: Name of the assistant, hidden from the annotator.
        assignment: ID of the assignment by which an ended chat is rated.
        messages: All messages and attempts, in order.
    """

    id: str
    study: str
    person: str
    assistant: str
    topic: str
    state: ChatState
    began: str
    ended: str | None
    assignment: str | None
    messages: tuple[ChatTurn, ...] = ()

    @property
    def transcript(self) -> list[ChatTurn]:
        """All messages, and of several replies to one message the last."""
        ends = [turn.role == "user" for turn in self.messages[1:]] + [True]
        return [turn for turn, is_last in zip(self.messages, ends, strict=False) if is_last or turn.role == "user"]

    @property
    def writing(self) -> ChatTurn | None:
        """The reply in progress."""
        return self.messages[-1] if self.messages and self.messages[-1].state == "writing" else None


class ChatLimits(NamedTuple):
    """Maximum numbers of messages per chat, and of chats per annotator in a study."""

    messages: int
    conversations: int | None = None


Choose = Callable[[Mapping[str, int], Mapping[str, int]], str]
"""Choice of an assistant or topic from the numbers of chats in the study and of this annotator, by name."""


class Chats:
    """The chats of a store."""

    def __init__(self, studies: Studies) -> None:
        self._studies, self._store, self._writer = studies, studies._store, studies._writer

    # --- begin and read -----------------------------------------------------------------------------------------

    def begin(
        self, study: str, person: str, limits: ChatLimits, assistant: Choose, topic: Choose, greeting: str
    ) -> Chat:
        """Return the annotator's open chat, or begin one; assistant and topic are chosen in the transaction.

        Raises:
            Conflict: The annotator has reached the limit of the study.
        """

        def write(connection: Connection) -> Chat:
            self._studies._lock(connection, f"talk {study}")
            open_chats = self._chats(connection, _of(study, person), chats.c.state == "open")
            if open_chats:
                return open_chats[-1]
            count = _counts(connection, chats.c.person, study).get(person, 0)
            if limits.conversations is not None and count >= limits.conversations:
                raise Conflict(f"you have had all {limits.conversations} conversations of this study; thank you")
            assistants = [_counts(connection, chats.c.assistant, study, of) for of in (None, person)]
            topics = [_counts(connection, chats.c.topic, study, of, of is not None) for of in (None, person)]
            id = secrets.token_urlsafe(18)
            row = {"id": id, "study": study, "person": person, "state": "open", "began": now(), "ended": None}
            row |= {"assistant": assistant(*assistants), "topic": topic(*topics)}
            connection.execute(insert(chats).values({**row, "assignment": None}))
            if greeting:
                _add(connection, id, ChatTurn(0, "assistant", greeting, "complete", None, None, now()))
            return self._chats(connection, chats.c.id == id)[0]

        return self._writer.run(write)

    def drop(self, id: str, person: str) -> None:
        """Leave a chat for another one; its messages stay, and it is not rated.

        Raises:
            BadInput: The annotator has no such chat.
            Conflict: The chat has ended, or a reply is in progress.
        """

        def write(connection: Connection) -> None:
            if self._open(connection, id, person).writing is not None:
                raise Conflict("the assistant is still writing; stop it first")
            connection.execute(update(chats).where(chats.c.id == id).values({"state": "dropped", "ended": now()}))

        self._writer.run(write)

    def chat(self, id: str, person: str) -> Chat:
        """Return a chat; a reply whose writer died is marked as cut off.

        Raises:
            BadInput: The annotator has no such chat. The message does not tell if another annotator has one.
        """
        with self._studies._reading() as connection:
            chat = self._own(connection, id, person)
        if chat.writing is None or (chat.writing.until or "") >= now():
            return chat
        return self._writer.run(lambda connection: _cut_dead(self, connection, self._own(connection, id, person)))

    def chats_of(self, study: str, person: str) -> list[Chat]:
        """Return an annotator's chats except dropped ones, the last first."""
        with self._studies._reading() as connection:
            return self._chats(connection, _of(study, person), chats.c.state != "dropped")[::-1]

    def all_chats(self, study: str) -> list[Chat]:
        """Return all chats of a study, the first first."""
        with self._studies._reading() as connection:
            return self._chats(connection, chats.c.study == study)

    # --- messages -----------------------------------------------------------------------------------------------

    def say(
        self, id: str, person: str, message: str, text: str, after: int, limits: ChatLimits, until: str
    ) -> tuple[Chat, bool]:
        """Add a message and the place of its reply; a repeated message changes nothing.

        Args:
            id: The chat.
            person: The annotator.
            message: ID of the message, made by the page.
            text: The message.
            after: Number of messages and attempts that the page shows.
            limits: Limits of the study.
            until: Time (UTC) until which the writer of the reply counts as alive.

        Returns:
            The chat, and True if the message is new and needs a reply.

        Raises:
            BadInput: The annotator has no such chat.
            Conflict: The chat has ended, a reply is in progress, another message was added, or the limit is reached.
        """

        def write(connection: Connection) -> tuple[Chat, bool]:
            chat = self._open(connection, id, person)
            is_message = and_(chat_messages.c.chat == id, chat_messages.c.message == message)
            if connection.execute(select(chat_messages.c.place).where(is_message)).first():
                return chat, False
            _check_turn(chat, after)
            if sum(turn.role == "user" for turn in chat.messages) >= limits.messages:
                raise Conflict(f"a conversation has at most {limits.messages} messages of yours; end this one")
            place = len(chat.messages)
            _add(connection, id, ChatTurn(place, "user", text, "complete", None, None, now()), message)
            _add(connection, id, ChatTurn(place + 1, "assistant", "", "writing", None, until, now()))
            return self._chats(connection, chats.c.id == id)[0], True

        return self._writer.run(write)

    def ask_again(self, id: str, person: str, after: int, until: str) -> Chat:
        """Add the place of another reply after one that was cut off or stopped, which stays.

        Raises:
            BadInput: The annotator has no such chat.
            Conflict: The chat has ended, or its last reply is complete or in progress.
        """

        def write(connection: Connection) -> Chat:
            chat = self._open(connection, id, person)
            _check_turn(chat, after)
            if not chat.messages or chat.messages[-1].role != "assistant" or chat.messages[-1].state == "complete":
                raise Conflict("the last reply is complete; answer it, or end the conversation")
            _add(connection, id, ChatTurn(len(chat.messages), "assistant", "", "writing", None, until, now()))
            return self._chats(connection, chats.c.id == id)[0]

        return self._writer.run(write)

    def write(self, id: str, place: int, content: str, until: str, about: Mapping[str, Any] | None = None) -> bool:
        """Store the text of a reply so far; return False if the reply is no longer in progress."""
        details = {} if about is None else {"details": canonical_json(dict(about))}
        return self._change(id, place, {"content": content, "until": until, **details})

    def finish(
        self, id: str, place: int, content: str, state: MessageState, reason: str | None, about: Mapping[str, Any]
    ) -> bool:
        """End a reply; return False if it is no longer in progress."""
        values = {"content": content, "state": state, "reason": reason, "until": None}
        return self._change(id, place, {**values, "details": canonical_json(dict(about))})

    def _change(self, id: str, place: int, values: Mapping[str, Any]) -> bool:
        table = chat_messages.c
        change = update(chat_messages).where(table.chat == id, table.place == place, table.state == "writing")
        return bool(self._writer.run(lambda connection: connection.execute(change.values(dict(values))).rowcount))

    # --- end ----------------------------------------------------------------------------------------------------

    def end(self, id: str, person: str, convert: Callable[[Chat], Conversation], until: str) -> Assignment:
        """End a chat: add it as the conversation that `convert` returns and as an item for this annotator.

        Returns:
            The assignment by which the chat is rated until `until` (UTC); the same one for a chat that has ended.

        Raises:
            BadInput: The annotator has no such chat, or there is nothing to rate.
            Conflict: A reply is in progress, or the chat was dropped.
        """

        def write(connection: Connection) -> Assignment:
            chat = self._own(connection, id, person, locks=True)
            if chat.state == "dropped":
                raise Conflict("this conversation was left for another topic")
            if chat.state == "open":
                chat = _cut_dead(self, connection, chat)
            if chat.writing is not None:
                raise Conflict("the assistant is still writing; wait, or stop it first")
            conversation = convert(chat)
            row = conversation_row(conversation, now())
            if not self._store.without_erased(connection, [row], of_conversation):
                raise Conflict("this conversation was erased; begin a new one")
            if not connection.execute(select(conversations.c.id).where(conversations.c.id == row["id"])).first():
                connection.execute(insert(conversations).values(row))
            count = select(func.count()).where(chats.c.study == chat.study, chats.c.state == "ended")
            place = connection.execute(count).scalar() or 0
            item = Item(chat.study, 1, place, "plain", Target(conversation.id), None, person)
            assignment = assign(connection, item, person, until)
            values = {"state": "ended", "ended": chat.ended or now(), "assignment": assignment.id}
            connection.execute(update(chats).where(chats.c.id == id).values(values))
            return assignment

        return self._writer.run(write)

    # --- database access ----------------------------------------------------------------------------------------

    def _own(self, connection: Connection, id: str, person: str, locks: bool = False) -> Chat:
        """Return an annotator's chat; `locks` excludes other writers until the transaction ends."""
        if locks and connection.dialect.name == "postgresql":
            connection.execute(select(chats.c.id).where(chats.c.id == id).with_for_update())
        found = self._chats(connection, chats.c.id == id, chats.c.person == person)
        if not found:
            raise BadInput("this conversation is not yours, or is gone; go back to the list of studies")
        return found[0]

    def _open(self, connection: Connection, id: str, person: str) -> Chat:
        chat = self._own(connection, id, person, locks=True)
        if chat.state != "open":
            raise Conflict("this conversation has ended; its messages stay as they are")
        return _cut_dead(self, connection, chat)

    def _chats(self, connection: Connection, *conditions: ColumnElement[bool]) -> list[Chat]:
        rows = connection.execute(select(chats).where(*conditions).order_by(chats.c.began, chats.c.id)).all()
        turns: dict[str, list[ChatTurn]] = {row.id: [] for row in rows}
        for batch in batches(list(turns), BATCH):
            query = select(chat_messages).where(chat_messages.c.chat.in_(batch)).order_by(chat_messages.c.place)
            for chat, place, _, *fields, details in connection.execute(query):
                turns[chat].append(ChatTurn(*(place, *fields, read_json(details))))
        return [Chat(*(*row, tuple(turns[row.id]))) for row in rows]


def _cut_dead(store: Chats, connection: Connection, chat: Chat) -> Chat:
    """Return a chat after marking a reply whose writer died as cut off."""
    table = chat_messages.c
    is_dead = and_(table.state == "writing", table.until < now(), table.chat == chat.id)
    values = {"state": "cut", "reason": DIED, "until": None}
    if connection.execute(update(chat_messages).where(is_dead).values(values)).rowcount:
        return store._chats(connection, chats.c.id == chat.id)[0]
    return chat


def _check_turn(chat: Chat, after: int) -> None:
    if chat.writing is not None:
        raise Conflict("the assistant is still writing; wait, or stop it first")
    if after != len(chat.messages):
        raise Conflict("the chat has newer messages, perhaps from another tab; read them and send this again")


def _of(study: str, person: str) -> ColumnElement[bool]:
    return and_(chats.c.study == study, chats.c.person == person)


def _counts(
    connection: Connection, column: Any, study: str, person: str | None = None, with_dropped: bool = False
) -> dict[str, int]:
    """Return the number of chats by the values of a column."""
    is_counted = or_(literal(with_dropped), chats.c.state != "dropped")
    query = select(column, func.count()).where(chats.c.study == study, is_counted)
    if person is not None:
        query = query.where(chats.c.person == person)
    return {name: count for name, count in connection.execute(query.group_by(column))}


def _add(connection: Connection, chat: str, turn: ChatTurn, message: str | None = None) -> None:
    row = {
        "chat": chat, "place": turn.place, "message": message, "role": turn.role, "content": turn.content,
        "state": turn.state, "reason": turn.reason, "until": turn.until, "time": turn.time,
        "details": canonical_json(dict(turn.about)),
    }  # fmt: skip
    connection.execute(insert(chat_messages).values(row))
