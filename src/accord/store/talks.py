"""What the workbench keeps of conversations under way: every message before anybody is asked for a reply to it.

All is decided inside the transaction that writes, so that two tabs, two servers and a form that is sent twice make one
conversation. A reply under way is written down every second; whoever writes it says until when it is alive, and what
a server that died has left is a reply that was cut off, as far as it came.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, and_, func, insert, literal, or_, select, update

from accord.edges import BadInput
from accord.store.accounts import Conflict
from accord.store.engine import read_json
from accord.store.rows import conversation_row, now
from accord.store.schema import conversations, talk_messages, talks
from accord.store.studies import Assignment, Item, Studies, assign
from accord.values import Conversation, Target, canonical_json

TalkState = Literal["open", "ended", "dropped"]
SaidState = Literal["said", "writing", "stopped", "cut"]
DIED = "died"
"""Why a reply was cut off whose writer is gone."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One message, or one attempt at a reply.

    Attributes:
        place: Its place among all that was said and tried, from 0.
        role: `user` or `assistant`.
        content: The text, as far as it came.
        state: `said` is whole; `writing`, `stopped` by the person, `cut` for a `reason`.
        until: While it is being written: when its writer is taken for dead (UTC).
        about: Documents that were retrieved for it, the model that answered, the tokens it cost.
    """

    place: int
    role: str
    content: str
    state: SaidState
    reason: str | None
    until: str | None
    time: str
    about: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation that somebody holds, with all that was said and tried.

    Attributes:
        id: Random; whoever does not hold it cannot name it.
        assistant: With whom, by name: for those who do not rate.
        assignment: By which it is rated, once it has ended.
    """

    id: str
    study: str
    person: str
    assistant: str
    topic: str
    state: TalkState
    began: str
    ended: str | None
    assignment: str | None
    said: tuple[ChatTurn, ...] = ()

    @property
    def heard(self) -> list[ChatTurn]:
        """What counts: all messages, and of several replies to one message the last."""
        places = range(len(self.said))
        is_last = [place + 1 == len(self.said) or self.said[place + 1].role == "user" for place in places]
        return [each for each, last in zip(self.said, is_last, strict=True) if last or each.role == "user"]

    @property
    def writing(self) -> ChatTurn | None:
        """The reply that is being written."""
        return self.said[-1] if self.said and self.said[-1].state == "writing" else None


class ChatLimits(NamedTuple):
    """How much may be said: messages of a person in a conversation, and conversations of a person in a study."""

    messages: int
    conversations: int | None = None


Choose = Callable[[Mapping[str, int], Mapping[str, int]], str]
"""From how often each was had in the study, and by this person, to the one that is next."""


class Chats:
    """The conversations of a store."""

    def __init__(self, studies: Studies) -> None:
        self._studies, self._store, self._writer = studies, studies._store, studies._writer

    # --- beginning ----------------------------------------------------------------------------------------------

    def begin(
        self, study: str, person: str, limits: ChatLimits, assistant: Choose, topic: Choose, greeting: str
    ) -> Chat:
        """Somebody's conversation: the one that is open, or a new one.

        Balance is kept here: who is next is chosen by what all conversations have had that were not dropped.

        Raises:
            Conflict: This person has held as many as the study wants.
        """

        def work(connection: Connection) -> Chat:
            self._studies._alone(connection, f"talk {study}")
            found = self._found(connection, _mine(study, person), talks.c.state == "open")
            if found:
                return found[-1]
            held = _counts(connection, talks.c.person, study).get(person, 0)
            if limits.conversations is not None and held >= limits.conversations:
                raise Conflict(f"you have held all {limits.conversations} conversations of this study; thank you")
            with_whom = assistant(
                _counts(connection, talks.c.assistant, study), _counts(connection, talks.c.assistant, study, person)
            )
            every = _counts(connection, talks.c.topic, study)
            about = topic(every, _counts(connection, talks.c.topic, study, person, True))
            made = Chat(secrets.token_urlsafe(18), study, person, with_whom, about, "open", now(), None, None)
            connection.execute(insert(talks).values(_talk_row(made)))
            if greeting:
                _add(connection, made, ChatTurn(0, "assistant", greeting, "said", None, None, now()))
            return self._found(connection, talks.c.id == made.id)[0]

        return self._writer.run(work)

    def drop(self, id: str, person: str) -> None:
        """Leave a conversation for another one; what was said stays, and nobody rates it.

        Raises:
            BadInput: This person holds no such conversation.
            Conflict: It has ended, or a reply is being written.
        """

        def work(connection: Connection) -> None:
            if self._open(connection, id, person).writing is not None:
                raise Conflict("the assistant is still writing; stop it first")
            values = {"state": "dropped", "ended": now()}
            connection.execute(update(talks).where(talks.c.id == id).values(values))

        self._writer.run(work)

    def talk(self, id: str, person: str) -> Chat:
        """A conversation; a reply whose writer is gone is marked as cut off.

        Raises:
            BadInput: This person holds none of this id: nobody is told whether somebody else does.
        """
        with self._studies._reading() as connection:
            found = self._own(connection, id, person)
        if found.writing is None or (found.writing.until or "") >= now():
            return found
        self._writer.run(lambda connection: self._settled(connection, self._own(connection, id, person)))
        with self._studies._reading() as connection:
            return self._own(connection, id, person)

    def mine(self, study: str, person: str) -> list[Chat]:
        """The conversations somebody holds or has held, the last first; without those that were dropped."""
        with self._studies._reading() as connection:
            return self._found(connection, _mine(study, person), talks.c.state != "dropped")[::-1]

    def everything(self, study: str) -> list[Chat]:
        """All conversations of a study, the first first."""
        with self._studies._reading() as connection:
            return self._found(connection, talks.c.study == study)

    # --- saying -------------------------------------------------------------------------------------------------

    def say(
        self, id: str, person: str, message: str, text: str, after: int, limits: ChatLimits, until: str
    ) -> tuple[Chat, bool]:
        """Keep what somebody said, and a place for the reply to it. The same message again changes nothing.

        Args:
            id: The conversation.
            person: Whose.
            message: The id that the page made for the message.
            text: What is said.
            after: How many messages and attempts the page has shown.
            limits: How much may be said.
            until: When the writer of the reply is taken for dead, unless it says otherwise.

        Returns:
            The conversation, and whether the message is new: then a reply is to be written.

        Raises:
            BadInput: This person holds no such conversation.
            Conflict: It has ended, a reply is being written, more was said in the meantime, or all that may be.
        """

        def work(connection: Connection) -> tuple[Chat, bool]:
            found = self._open(connection, id, person)
            if connection.execute(select(talk_messages.c.place).where(*_named(id, message))).first():
                return found, False
            self._check_turn(found, after)
            if sum(each.role == "user" for each in found.said) >= limits.messages:
                raise Conflict(f"a conversation has at most {limits.messages} messages of yours; end this one")
            place = len(found.said)
            _add(connection, found, ChatTurn(place, "user", text, "said", None, None, now()), message)
            _add(connection, found, ChatTurn(place + 1, "assistant", "", "writing", None, until, now()))
            return self._found(connection, talks.c.id == id)[0], True

        return self._writer.run(work)

    def ask_again(self, id: str, person: str, after: int, until: str) -> Chat:
        """A place for another reply, where the last one was cut off or stopped; what came of that one stays.

        Raises:
            BadInput: This person holds no such conversation.
            Conflict: It has ended, or its last reply is whole, or is being written.
        """

        def work(connection: Connection) -> Chat:
            found = self._open(connection, id, person)
            self._check_turn(found, after)
            if not found.said or found.said[-1].role != "assistant" or found.said[-1].state == "said":
                raise Conflict("the last reply is whole; answer it, or end the conversation")
            _add(connection, found, ChatTurn(len(found.said), "assistant", "", "writing", None, until, now()))
            return self._found(connection, talks.c.id == id)[0]

        return self._writer.run(work)

    def write(self, id: str, place: int, content: str, until: str, about: Mapping[str, Any] | None = None) -> bool:
        """Keep a reply as far as it has come; `False` where it is not being written any more."""
        values = {"content": content, "until": until}
        return self._change(id, place, values if about is None else {**values, "about": canonical_json(dict(about))})

    def finish(
        self, id: str, place: int, content: str, state: SaidState, reason: str | None, about: Mapping[str, Any]
    ) -> bool:
        """End a reply, whole or not; `False` where it is not being written any more."""
        told = canonical_json(dict(about))
        return self._change(
            id, place, {"content": content, "state": state, "reason": reason, "until": None, "about": told}
        )

    def _change(self, id: str, place: int, values: Mapping[str, Any]) -> bool:
        own = and_(talk_messages.c.talk == id, talk_messages.c.place == place, talk_messages.c.state == "writing")
        change = update(talk_messages).where(own).values(dict(values))
        return bool(self._writer.run(lambda connection: connection.execute(change).rowcount))

    def _check_turn(self, found: Chat, after: int) -> None:
        if found.writing is not None:
            raise Conflict("the assistant is still writing; wait, or stop it first")
        if after != len(found.said):
            raise Conflict("more was said in the meantime, perhaps in another tab; read it, and send this again")

    # --- ending -------------------------------------------------------------------------------------------------

    def end(self, id: str, person: str, made: Callable[[Chat], Conversation], until: str) -> Assignment:
        """End a conversation: it becomes one of the store's, and an item for this person alone, all at once.

        Args:
            id: The conversation.
            person: Whose.
            made: The conversation as it is kept.
            until: How long the item stays theirs (UTC).

        Returns:
            By which it is rated; of one that has ended already, the same.

        Raises:
            BadInput: This person holds no such conversation, or there is nothing to rate.
            Conflict: A reply is being written.
        """

        def work(connection: Connection) -> Assignment:
            found = self._own(connection, id, person, locks=True)
            if found.state == "dropped":
                raise Conflict("this conversation was left for another topic")
            if found.state == "open":
                found = self._settled(connection, found)
            if found.writing is not None:
                raise Conflict("the assistant is still writing; wait, or stop it first")
            conversation = made(found)
            row = conversation_row(conversation, now())
            if not connection.execute(select(conversations.c.id).where(conversations.c.id == row["id"])).first():
                connection.execute(insert(conversations).values(row))
            places = select(func.count()).where(talks.c.study == found.study, talks.c.state == "ended")
            place = connection.execute(places).scalar() or 0
            item = Item(found.study, 1, place, "plain", Target(conversation.id), None, person)
            given = assign(connection, item, person, until)
            ended = {"state": "ended", "ended": found.ended or now(), "assignment": given.id}
            connection.execute(update(talks).where(talks.c.id == id).values(ended))
            return given

        return self._writer.run(work)

    # --- the database -------------------------------------------------------------------------------------------

    def _own(self, connection: Connection, id: str, person: str, locks: bool = False) -> Chat:
        """The conversation, which nobody else writes to until this transaction ends where it is locked."""
        if locks and connection.dialect.name == "postgresql":
            connection.execute(select(talks.c.id).where(talks.c.id == id).with_for_update())
        found = self._found(connection, talks.c.id == id, talks.c.person == person)
        if not found:
            raise BadInput("this conversation is not yours, or is gone; go back to the list of studies")
        return found[0]

    def _open(self, connection: Connection, id: str, person: str) -> Chat:
        found = self._own(connection, id, person, locks=True)
        if found.state != "open":
            raise Conflict("this conversation has ended; what was said stays as it is")
        return self._settled(connection, found)

    def _settled(self, connection: Connection, found: Chat) -> Chat:
        """The conversation, a reply whose writer is gone marked as cut off."""
        dead = and_(talk_messages.c.state == "writing", talk_messages.c.until < now(), talk_messages.c.talk == found.id)
        values = {"state": "cut", "reason": DIED, "until": None}
        if connection.execute(update(talk_messages).where(dead).values(values)).rowcount:
            return self._found(connection, talks.c.id == found.id)[0]
        return found

    def _found(self, connection: Connection, *conditions: Any) -> list[Chat]:
        rows = connection.execute(select(talks).where(*conditions).order_by(talks.c.began, talks.c.id)).all()
        said: dict[str, list[ChatTurn]] = {row.id: [] for row in rows}
        names = list(said)
        for start in range(0, len(names), 500):
            named = talk_messages.c.talk.in_(names[start : start + 500])
            for row in connection.execute(select(talk_messages).where(named).order_by(talk_messages.c.place)):
                said[row.talk].append(_said(row))
        return [
            Chat(
                row.id, row.study, row.person, row.assistant, row.topic, row.state, row.began, row.ended,
                row.assignment, tuple(said[row.id]),
            )
            for row in rows
        ]  # fmt: skip


def _mine(study: str, person: str) -> Any:
    return and_(talks.c.study == study, talks.c.person == person)


def _named(id: str, message: str) -> Sequence[Any]:
    return talk_messages.c.talk == id, talk_messages.c.message == message


def _counts(
    connection: Connection, column: Any, study: str, person: str | None = None, dropped: bool = False
) -> dict[str, int]:
    """How many conversations there are by a column; those that were dropped count only where it is said."""
    query = select(column, func.count()).where(
        talks.c.study == study, or_(literal(dropped), talks.c.state != "dropped")
    )
    if person is not None:
        query = query.where(talks.c.person == person)
    return {name: count for name, count in connection.execute(query.group_by(column))}


def _add(connection: Connection, talk: Chat, said: ChatTurn, message: str | None = None) -> None:
    row = {
        "talk": talk.id, "place": said.place, "message": message, "role": said.role, "content": said.content,
        "state": said.state, "reason": said.reason, "until": said.until, "time": said.time,
        "about": canonical_json(dict(said.about)),
    }  # fmt: skip
    connection.execute(insert(talk_messages).values(row))


def _said(row: Any) -> ChatTurn:
    about = read_json(row.about)
    return ChatTurn(row.place, row.role, row.content, row.state, row.reason, row.until, row.time, about)


def _talk_row(each: Chat) -> dict[str, str | None]:
    return {
        "id": each.id, "study": each.study, "person": each.person, "assistant": each.assistant, "topic": each.topic,
        "state": each.state, "began": each.began, "ended": each.ended, "assignment": each.assignment,
    }  # fmt: skip
