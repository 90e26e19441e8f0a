"""ABC-Eval (Finch et al., ACL 2023): marks on the turns of a dialogue, put together from rows of one turn each.

A benchmark row of `abc_eval` holds one turn with all that was said before it; here the rows of one dialogue become one
conversation, and their ratings labels of its turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accord.conversation import Conversation, Target
from accord.labels import Label
from accord.readers.messages import checked_id, turn_from_message, turn_index
from accord.readers.record import Fields, Format, Record, WrongShape, formats

NAME = "abc-eval"


def _dialogue(fields: Fields) -> str:
    meta = fields.get("meta")
    if not isinstance(meta, Mapping) or not meta.get("dialogue_id"):
        raise WrongShape("a row of ABC-Eval names its dialogue: meta.dialogue_id")
    return checked_id(meta["dialogue_id"])


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    name = _dialogue(rows[0])
    whole = max(rows, key=lambda row: len(row["messages"]))
    for row in rows:
        if row["messages"] != whole["messages"][: len(row["messages"])]:
            raise WrongShape(f"the rows of dialogue {name!r} tell it differently")
    turns = tuple(turn_from_message(message) for message in whole["messages"])
    items = {str(turn_index(row.get("response_index"))): row.get("id") for row in rows}
    metadata = {"dataset": NAME, "system": whole.get("system"), "items": items}
    return Record(
        Conversation(name, turns, metadata=metadata), tuple(label for row in rows for label in _labels(row, name))
    )


def _labels(row: Fields, name: str) -> list[Label]:
    turn = turn_index(row.get("response_index"))
    if turn is None:
        raise WrongShape("a row of ABC-Eval is about one turn: response_index")
    return [
        Label(Target(name, turn), str(rating["question"]), checked_id(rating["annotator"]), rating["value"])
        for rating in row["ratings"]
    ]


# Rows look like any benchmark's: the format is named (`--format abc-eval`), never guessed.
formats.register(NAME)(Format(recognises=lambda _: False, convert=_convert, key=_dialogue))
