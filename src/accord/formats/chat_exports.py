"""Exports of chat applications: Slack and ChatGPT.

- Slack: the workspace export has a folder per channel and a file per day, each a list of messages. A thread is a
  conversation, also over several days if the folder of the channel is imported. Messages of a bot are replies, and
  thumbs that people gave to one are their labels on the question `thumbs`: 1 or 0.
- ChatGPT: `conversations.json` of a data export, a list of conversations with a tree of messages. The branch that ends
  at `current_node` is read, without hidden messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from accord.formats.files.slack_folders import CHANNEL
from accord.formats.openai_messages import checked_id, conversation_from, role_named, text_of
from accord.formats.record import Fields, Format, Record, WrongShape, formats, mapping_of
from accord.values import Conversation, Label, Target, Turn

LONE_MESSAGE, EVENT = "a Slack message outside threads", "a Slack event such as a join"
THUMBS = "thumbs"
"""Question that thumbs under a reply answer."""

# --- Slack ---------------------------------------------------------------------------------------------------------

_UP, _DOWN = frozenset({"+1", "thumbsup"}), frozenset({"-1", "thumbsdown"})
_SPOKEN = frozenset({"", "bot_message", "thread_broadcast", "file_share", "me_message", "assistant_app_thread"})
"""Subtypes of messages; all others are events."""
_TIMES = "0123456789."


def _is_slack(fields: Fields) -> bool:
    time = fields.get("ts")
    is_stamp = isinstance(time, str) and "." in time and not time.strip(_TIMES)
    return (
        is_stamp and "text" in fields and (fields.get("type") == "message" or bool({"user", "bot_id"} & fields.keys()))
    )


def _slack_key(fields: Fields) -> str | None:
    """Return the thread of a message. A message without a time or a text is refused here, before it joins others."""
    _seconds(fields.get("ts"))
    if not isinstance(fields.get("text"), str):
        raise WrongShape(f"the text of the Slack message {fields['ts']!r} is a {type(fields.get('text')).__name__}")
    thread = str(fields.get("thread_ts") or fields["ts"])
    _seconds(thread)
    return f"{fields[CHANNEL]}-{thread}" if fields.get(CHANNEL) else thread


def _slack_skipped(fields: Fields) -> str | None:
    if str(fields.get("subtype") or "") not in _SPOKEN:
        return EVENT
    return None if fields.get("thread_ts") else LONE_MESSAGE


def _convert_slack(rows: Sequence[Fields], default_id: str) -> Record | None:
    """Convert a thread of a Slack export: bots are the assistant, and thumbs under their messages labels."""
    spoken = [row for row in rows if _slack_skipped(row) is None]
    if not spoken:
        return None
    name = checked_id(_slack_key(spoken[0]))
    turns, labels = list[Turn](), list[Label]()
    # A message that was also sent to the channel occurs twice.
    by_time = {str(row.get("ts")): row for row in spoken}
    for row in sorted(by_time.values(), key=lambda row: _seconds(row.get("ts"))):
        text, is_bot = str(row["text"]), bool(row.get("bot_id")) or row.get("subtype") == "bot_message"
        who = row.get("username") or row.get("user") or row.get("bot_id")
        time = datetime.fromtimestamp(_seconds(row.get("ts")), UTC).isoformat()
        if is_bot:
            labels += _thumbs(row, Target(name, len(turns)))
        for sign, entity in (("<", "&lt;"), (">", "&gt;"), ("&", "&amp;")):  # the only ones that Slack writes
            text = text.replace(entity, sign)
        turns.append(Turn("assistant" if is_bot else "user", text, None if who is None else str(who), time))
    bots = {turn.name for turn in turns if turn.role == "assistant" and turn.name}
    metadata = {"system": bots.pop()} if len(bots) == 1 else {}
    metadata |= {"channel": spoken[0][CHANNEL]} if spoken[0].get(CHANNEL) else {}
    return Record(Conversation(name, tuple(turns), (), metadata), tuple(labels))


def _seconds(stamp: Any) -> float:
    """Return a time stamp of Slack as seconds; another form raises `WrongShape`."""
    try:
        seconds = float(stamp)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < 1 << 33:
        raise WrongShape(f"{stamp!r} is not a time of a Slack message, such as 1717000000.000100")
    return seconds


def _thumbs(row: Fields, target: Target) -> list[Label]:
    """Return the thumbs that people gave to a message; a person with both has no label."""
    given: dict[str, set[int]] = {}
    reactions = row.get("reactions") or []
    if not isinstance(reactions, list):
        raise WrongShape(f"`reactions` of the Slack message {row.get('ts')!r} are a list of objects")
    for reaction in reactions:
        name = str(mapping_of(reaction).get("name")).partition("::")[0]  # the tone of the skin follows
        if name in _UP | _DOWN:
            users = reaction.get("users")
            if not isinstance(users, list):
                raise WrongShape(f"the reaction {name!r} to the Slack message {row.get('ts')!r} has no list of users")
            for user in users:
                given.setdefault(checked_id(user), set()).add(int(name in _UP))
    return [Label(target, THUMBS, user, values.pop()) for user, values in given.items() if len(values) == 1]


formats.register("slack")(Format(matches=_is_slack, convert=_convert_slack, key=_slack_key, skip_reason=_slack_skipped))


# --- ChatGPT -------------------------------------------------------------------------------------------------------

_READ = ("mapping", "current_node", "id", "conversation_id", "moderation_results", "plugin_ids", "safe_urls")
_UNSPOKEN = frozenset({"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"})
"""Types of content that users do not see."""


def _is_chatgpt(fields: Fields) -> bool:
    mapping = fields.get("mapping")
    return isinstance(mapping, Mapping) and ("current_node" in fields or {"title", "create_time"} <= fields.keys())


def _convert_chatgpt(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert a conversation of ChatGPT's data export: the branch that ends at its current message."""
    [fields] = rows
    nodes = fields.get("mapping")
    if not isinstance(nodes, Mapping):
        raise WrongShape(f"`mapping` is an object of messages, got {type(nodes).__name__}")
    place = fields.get("current_node")
    branch, seen = list[Fields](), set[str]()
    while place is not None:
        node = nodes.get(place) if isinstance(place, str) else None
        if not isinstance(node, Mapping):
            raise WrongShape(f"`mapping` has no message {str(place)[:60]!r}, to which the conversation refers")
        if place in seen:
            raise WrongShape(f"message {place[:60]!r} is its own ancestor; the tree of messages has a circle")
        seen.add(place)
        if node.get("message") is not None:
            branch.append(mapping_of(node["message"]))
        place = node.get("parent")
    if not branch:
        raise WrongShape("the conversation names no `current_node`, or its branch has no messages")
    branch.reverse()
    turns = [turn for turn in map(_chatgpt_turn, branch) if turn is not None]
    if not turns:
        raise WrongShape("the conversation has no messages that its user saw")
    slugs = (mapping_of(message.get("metadata")).get("model_slug") for message in branch)
    models = {slug for slug in slugs if isinstance(slug, str) and slug}
    details = {name: value for name, value in fields.items() if name not in _READ}
    model = models.pop() if len(models) == 1 else fields.get("default_model_slug")
    details |= {"id": fields.get("conversation_id") or fields.get("id")} | ({"model": model} if model else {})
    return Record(conversation_from(details, turns, default_id))


def _chatgpt_turn(message: Fields) -> Turn | None:
    """Return the turn of a message, or `None` if the message is hidden or empty."""
    role, content = mapping_of(message.get("author")).get("role"), mapping_of(message.get("content"))
    if not isinstance(role, str) or not role:
        raise WrongShape(f"message {str(message.get('id'))[:60]!r} has no `author` with a role")
    is_hidden = mapping_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
    if is_hidden or str(content.get("content_type")) in _UNSPOKEN:
        return None
    text, others = text_of(content["parts"] if "parts" in content else content.get("text", content.get("result")))
    called = message.get("recipient")
    extra: dict[str, Any] = {"parts": others} if others else {}
    if role == "assistant" and isinstance(called, str) and called not in ("all", ""):
        extra["tool_calls"] = [{"type": "function", "function": {"name": called, "arguments": json.dumps(text)}}]
        text = ""
    if not (text.strip() or extra):
        return None
    time, stamp = None, message.get("create_time")
    if isinstance(stamp, int | float) and not isinstance(stamp, bool) and 0 < stamp < 1 << 33:
        time = datetime.fromtimestamp(stamp, UTC).isoformat()
    name = mapping_of(message.get("author")).get("name")
    return Turn(role_named(role), text, str(name) if name else None, time, extra)


formats.register("chatgpt")(Format(matches=_is_chatgpt, convert=_convert_chatgpt))
