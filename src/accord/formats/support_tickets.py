"""Exports of support desks: Zendesk tickets and Intercom conversations.

Public messages become turns; the customer is the user, and everyone else the assistant. Private notes are left out and
counted. The customer's rating becomes a label of the customer on the question `satisfaction`.

- Zendesk: a ticket with its `comments`, one per line (JSON export of the account) or in a list `tickets`, as the API
  names it.
- Intercom: a conversation of the REST API with its `source` and `conversation_parts`, one per line or in a list.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from accord.formats.openai_messages import checked_answer, checked_id, conversation_from
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats, mapping_of
from accord.values import Annotation, Conversation, Target, Turn

PRIVATE_NOTE = "a private note"
NO_PUBLIC_MESSAGE = "a ticket without a public message"
SATISFACTION = "satisfaction"
"""Question that a customer's rating of a ticket answers."""

_NOTE = "accord_private_note"
"""Key of a row that stands for a private note."""
_BREAKS = frozenset({
    "br", "p", "div", "li", "ul", "ol", "tr", "table", "blockquote", "pre", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_HIDDEN = frozenset({"script", "style", "head", "title"})


def text_of_html(content: str) -> str:
    r"""Return the text of a piece of HTML: block elements begin a line, and scripts, styles and comments are left out.

    The time grows in proportion to the content.

    >>> text_of_html("<p>Hi&nbsp;Anna,</p><p>1 &lt; 2<br>Bye</p><script>alert(1)</script>")
    'Hi Anna,\n1 < 2\nBye'
    """
    pieces, hidden, at = list[str](), "", 0
    last = content.rfind(">")
    while at < len(content):
        start = content.find("<", at)
        if start < 0 or start > last:
            start = len(content)
        if not hidden:
            pieces.append(html.unescape(content[at:start]).replace("\n", " "))
        if start == len(content):
            break
        if content.startswith("<!--", start):
            end = content.find("-->", start)
            if end < 0:
                break
            at = end + 3
            continue
        if not (content[start + 1].isalpha() or content[start + 1] in "/!?"):
            pieces.append("" if hidden else "<")
            at = start + 1
            continue
        end = content.find(">", start)
        tag = content[start + 1 : min(end, start + 20)].split()
        name = tag[0].strip("/").casefold() if tag else ""
        if hidden:
            hidden = "" if content[start + 1] == "/" and name == hidden else hidden
        elif name in _HIDDEN and content[start + 1] != "/":
            hidden = name
        elif name in _BREAKS:
            pieces.append("\n")
        at = end + 1
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _time(value: Any) -> str | None:
    """Return a time of ISO text, or of seconds since 1970, as ISO text."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1 << 33:
        return datetime.fromtimestamp(value, UTC).isoformat()
    return str(value) if isinstance(value, str) and value else None


def _listed(value: Any, name: str) -> list[Fields]:
    """Return a list of objects; anything else raises `WrongShape` with its name."""
    if not isinstance(value, list):
        raise WrongShape(f"`{name}` is a list of objects, got {type(value).__name__}; export the tickets with it")
    odd = [type(entry).__name__ for entry in value if not isinstance(entry, Mapping)]
    if odd:
        raise WrongShape(f"an entry of `{name}` is an object, got {odd[0]}")
    return value


def _rating(name: str, by: Any, value: Any, comment: Any, time: Any) -> Annotation:
    return Annotation(
        Target(name), SATISFACTION, checked_id(by), "person", checked_answer(value),
        comment=comment if isinstance(comment, str) else "", time=_time(time),
    )  # fmt: skip


def _record(conversation: Conversation, notes: int, rating: Annotation | None) -> Record | None:
    if not conversation.turns:
        return None
    metadata = {**conversation.metadata, **({"private_notes": notes} if notes else {})}
    found = Conversation(conversation.id, conversation.turns, conversation.documents, metadata)
    return answered(found, [] if rating is None else [rating])


# --- Zendesk -------------------------------------------------------------------------------------------------------

_RATED = {"good", "bad", "good_with_comment", "bad_with_comment"}
_ZENDESK_READ = (
    "comments", "satisfaction_rating", "requester", "submitter", "assignee", "description", "raw_subject", "fields",
    "custom_fields", "url", "metric_set",
)  # fmt: skip


def _is_zendesk(fields: Fields) -> bool:
    has_people = bool({"requester_id", "requester", "submitter_id"} & fields.keys())
    return has_people and "comments" in fields and bool({"id", "ticket_id"} & fields.keys())


def _zendesk_key(fields: Fields) -> str | None:
    return None if (name := fields.get("id", fields.get("ticket_id"))) in (None, "") else str(name)


def _is_private(comment: Any) -> bool:
    return isinstance(comment, Mapping) and comment.get("public") is False


def _with_notes(row: Fields, entries: Any, is_note: Any, key: str | None) -> list[Fields]:
    """Return a row, and a row for each of its private notes, so that an import counts them."""
    notes = sum(map(is_note, entries)) if isinstance(entries, list) else 0
    return [row, *({"id": key, _NOTE: True} for _ in range(notes))]


def _zendesk_rows(fields: Fields) -> list[Fields]:
    return _with_notes(fields, fields.get("comments"), _is_private, _zendesk_key(fields))


def _zendesk_skipped(fields: Fields) -> str | None:
    if _NOTE in fields:
        return PRIVATE_NOTE
    comments = fields.get("comments")
    return NO_PUBLIC_MESSAGE if isinstance(comments, list) and all(map(_is_private, comments)) else None


def _convert_zendesk(rows: Sequence[Fields], default_id: str) -> Record | None:
    """Convert a Zendesk ticket with its comments, and the requester's satisfaction rating."""
    ticket = next((row for row in rows if _NOTE not in row), {})
    comments = _listed(ticket.get("comments"), "comments")
    customer = ticket.get("requester_id", mapping_of(ticket.get("requester")).get("id"))
    if not isinstance(customer, str | int):
        raise WrongShape(
            f"a ticket has no id as `requester_id`, got {customer!r:.60}; it tells the customer from the agents"
        )
    turns = [_comment(comment, customer) for comment in comments if not _is_private(comment)]
    details = {name: value for name, value in ticket.items() if name not in _ZENDESK_READ}
    conversation = conversation_from(details, turns, _zendesk_key(ticket) or default_id)
    given = mapping_of(ticket.get("satisfaction_rating"))
    score = str(given.get("score"))
    rating = None
    if score in _RATED:
        word, time = score.partition("_")[0], given.get("updated_at") or given.get("created_at")
        rating = _rating(conversation.id, str(customer), word, given.get("comment"), time)
    return _record(conversation, sum(map(_is_private, comments)), rating)


def _comment(comment: Fields, customer: Any) -> Turn:
    author = comment.get("author_id", mapping_of(comment.get("author")).get("id"))
    if author is None:
        raise WrongShape(f"comment {comment.get('id')!r} has no `author_id`, which tells the customer from the agents")
    text = next((comment[key] for key in ("plain_body", "body") if comment.get(key)), None)
    if text is None and isinstance(comment.get("html_body"), str):
        text = text_of_html(comment["html_body"])
    if text is not None and not isinstance(text, str):
        raise WrongShape(f"the body of comment {comment.get('id')!r} is a text, got {type(text).__name__}")
    plain = (text or "").replace("&nbsp;", " ").strip()
    is_html = plain.startswith("<") and plain.endswith(">")
    role = "user" if str(author) == str(customer) else "assistant"
    return Turn(role, text_of_html(plain) if is_html else plain, str(author), _time(comment.get("created_at")))


formats.register("zendesk")(
    Format(
        matches=_is_zendesk, convert=_convert_zendesk, key=_zendesk_key, split=_zendesk_rows,
        skip_reason=_zendesk_skipped, is_whole=lambda fields: True,
    )
)  # fmt: skip


# --- Intercom ------------------------------------------------------------------------------------------------------

_AGENTS = frozenset({"admin", "bot", "team", "fin", "operator"})
_CUSTOMERS = frozenset({"user", "lead", "contact"})
_INTERCOM_READ = (
    "source", "conversation_parts", "conversation_rating", "contacts", "teammates", "type", "first_contact_reply",
    "statistics", "linked_objects", "custom_attributes", "topics",
)  # fmt: skip


def _is_intercom(fields: Fields) -> bool:
    source = fields.get("source")
    return isinstance(source, Mapping) and "conversation_parts" in fields and {"author", "body"} <= source.keys()


def _intercom_key(fields: Fields) -> str | None:
    return None if (name := fields.get("id")) in (None, "") else str(name)


def _parts(fields: Fields) -> Any:
    """Return the list of parts, which the API wraps in an object."""
    parts = fields.get("conversation_parts")
    return parts.get("conversation_parts") if isinstance(parts, Mapping) else parts


def _is_note(part: Any) -> bool:
    return isinstance(part, Mapping) and "note" in str(part.get("part_type"))


def _intercom_rows(fields: Fields) -> list[Fields]:
    return _with_notes(fields, _parts(fields), _is_note, _intercom_key(fields))


def _intercom_skipped(fields: Fields) -> str | None:
    return PRIVATE_NOTE if _NOTE in fields else None


def _convert_intercom(rows: Sequence[Fields], default_id: str) -> Record | None:
    """Convert an Intercom conversation with its parts, and the customer's rating."""
    chat = next((row for row in rows if _NOTE not in row), {})
    parts = _listed(_parts(chat), "conversation_parts")
    source = mapping_of(chat.get("source"))
    if "author" not in source:
        raise WrongShape("a conversation has no `source` with the author of its first message")
    said = [{"created_at": chat.get("created_at"), **source}, *(part for part in parts if not _is_note(part))]
    # Parts without a body are events: an assignment, a change of state.
    turns = [turn for turn in map(_message, said) if turn is not None]
    listed = mapping_of(chat.get("tags")).get("tags")
    tags = [mapping_of(tag).get("name") for tag in listed] if isinstance(listed, list) else []
    details: dict[str, Any] = {name: value for name, value in chat.items() if name not in {*_INTERCOM_READ, "tags"}}
    details |= {**mapping_of(chat.get("custom_attributes")), **({"tags": tags} if tags else {})}
    conversation = conversation_from({**details, "id": chat.get("id")}, turns, default_id)
    given = mapping_of(chat.get("conversation_rating"))
    rating = None
    if given.get("rating") is not None:
        contacts = mapping_of(chat.get("contacts")).get("contacts") or [{}]
        known = (given.get("contact"), contacts[0] if isinstance(contacts, list) else {}, source.get("author"))
        by = next((str(entry["id"]) for entry in map(mapping_of, known) if entry.get("id")), "customer")
        rating = _rating(conversation.id, by, given["rating"], given.get("remark"), given.get("created_at"))
    return _record(conversation, sum(map(_is_note, parts)), rating)


def _message(part: Fields) -> Turn | None:
    """Return the turn of a part, or `None` if the part has no body."""
    body = part.get("body")
    if body in (None, ""):
        return None
    if not isinstance(body, str):
        raise WrongShape(f"the body of part {part.get('id')!r} is a text, got {type(body).__name__}")
    author = mapping_of(part.get("author"))
    kind = str(author.get("type"))
    if kind not in _AGENTS | _CUSTOMERS:
        raise WrongShape(
            f"the author of part {part.get('id')!r} has the type {kind!r}; allowed: user, lead, contact, admin, bot"
        )
    text = text_of_html(body) if body.lstrip().startswith("<") else body.strip()
    who = author.get("name") or author.get("id")
    time = _time(part.get("created_at"))
    return Turn("user" if kind in _CUSTOMERS else "assistant", text, None if who is None else str(who), time)


formats.register("intercom")(
    Format(
        matches=_is_intercom, convert=_convert_intercom, key=_intercom_key, split=_intercom_rows,
        skip_reason=_intercom_skipped, is_whole=lambda fields: True,
    )
)  # fmt: skip
