"""Tables of pairwise preferences: two responses per row, and preferences of people and judges.

Two columns differ only in a side (`response_a`, `response_b`; `model_a`, `model_b`; `output_1`, `output_2`;
`answer_left`, `answer_right`). Those with texts are the sides, those with names are the versions of the system. A
preference is a column such as `winner`, `judge_winner` or `human_preference`. In a long table, a column names the
annotator of each row, such as `judge` of MT-bench with `gpt4_pair` and `expert_3`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from accord.edges import BadInput, BadRow, one_line
from accord.formats.labels.label_files import side_value
from accord.formats.labels.rating_columns import UNNAMED, words_of
from accord.formats.openai_messages import checked_id, exchange, turns_of
from accord.formats.record import ANNOTATOR_KEYS, Fields, Format, Record, Row, WrongShape, formats, plain_name
from accord.formats.tables.column_roles import Columns, is_model_name, judge_in
from accord.formats.tables.words import HUMAN
from accord.values import Conversation, Label, Rubric, Target, content_hash

FIRST, TIE, SECOND = 1.0, 0.5, 0.0
"""Preferences as the share of a win that the first side gets."""
ALLOWED = "a, b or tie, 1, 2 or 0, left or right, the name of a column of a side, or the name of a version"
SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"))
_TEXTS = {"response", "answer", "output", "completion", "reply", "generation", "conversation", "candidate", "text",
          "side", "option", "responses", "outputs", "assistant"}  # fmt: skip
_VERSIONS = {"model", "system", "version", "bot", "generator", "variant", "arm", "agent", "assistant", "name", "llm"}
_NOT_SIDES = {"score", "rating", "label", "judge", "human", "rater", "annotator", "tokens", "length", "id"}
_PREFERENCES = {"winner", "winners", "win", "preference", "preferences", "preferred", "prefers", "prefer", "better",
                "vote", "choice"}  # fmt: skip
_REASONS = {"reason", "reasons", "reasoning", "explanation", "comment", "comments", "rationale", "confidence", "notes"}
_ITEMS = ("item", "item_id", "example_id", "question_id", "prompt_id", "conversation_id", "input_id", "case_id",
          "sample_id", "task_id", "instruction_id", "id")  # fmt: skip
_PROMPTS = ("prompt", "instruction", "question", "input", "user_input", "query", "user_prompt")
_FIRST_WORDS, _SECOND_WORDS = {"a", "1", "first", "left"}, {"b", "2", "second", "right"}
_TIE_WORDS = {"tie", "tied", "ties", "draw", "equal", "equally", "same", "both", "bothbad", "bothgood", "neither", "0"}
_FILL = {*_TEXTS, *_VERSIONS, "wins", "win", "won", "winner", "is", "better", "the", "prefer", "preferred"}
_TIE_FILL = {"good", "bad", "about", "the", "are", "preference", "inconsistent", "is", "a", "it", "no"}
MIN_PARSED = 0.8
"""Share of a column's values that are preferences from which the column holds preferences."""


@dataclass(frozen=True)
class PairRoles:
    """Roles of the columns of a table of pairs.

    Attributes:
        texts: Columns with the first and the second response, if there are texts.
        versions: Columns with the versions of both sides, if they have names.
        judges: Columns with the judge's preferences; the first one is checked.
        people: Columns with people's preferences, one for each person.
        unclear: Columns of preferences of which nothing says who gave them.
        annotator: Column that names who gave the preference of a row.
        models: Annotators that are models.
        item: Column whose equal values are the same input.
        prompt: Column with the text of the input.
        turn: Column with the turn of a row.
        reasons: Reason of each choice by column.
    """

    texts: tuple[str, str] | None
    versions: tuple[str, str] | None
    judges: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    annotator: str | None = None
    models: tuple[str, ...] = ()
    item: str | None = None
    prompt: str | None = None
    turn: str | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[str, ...]:
        """Columns of both sides."""
        return (*(self.texts or ()), *(self.versions or ()))


def pair_roles(
    columns: Columns, judges: Sequence[str] = (), people: Sequence[str] = (), item: str | None = None,
    system: str | None = None, name: str = "the table",
) -> PairRoles | None:  # fmt: skip
    """Return the roles of a table of pairs, or `None` for another table.

    Args:
        columns: The cells.
        judges: Columns, or annotators, that the user says are the judge.
        people: Columns that the user says hold people's preferences.
        item: Column that the user says names the input.
        system: Column that the user says holds the version of one side.
        name: Name of the table, for errors.

    Raises:
        BadInput: A named column does not exist, or is a side, or `system` is not the column of a side.

    >>> roles = pair_roles({"response_a": ["x"], "response_b": ["y"], "winner": ["a"], "judge_winner": ["tie"]})
    >>> roles.texts, roles.judges, roles.people
    (('response_a', 'response_b'), ('judge_winner',), ('winner',))
    >>> pair_roles({"response": ["x"], "score": [3]}) is None
    True
    """
    texts, versions = _side_columns(columns)
    if texts is None and versions is None:
        return None
    versions = _named_versions(columns, system, versions, name)
    reasons = {column: "the two columns differ only in the side" for column in (*(texts or ()), *(versions or ()))}
    if sides := [each for each in (*judges, *people, item) if each in reasons]:
        raise BadInput(f"{name}: {sides[0]!r} is a side of the pairs; name a column with preferences, or the item")
    free = [each for each in columns if each not in reasons and each != item]
    preferred = [each for each in free if _holds_preferences(each, columns, versions, texts)]
    for each in (*judges, *people):
        if each in columns and each not in preferred and each not in reasons:
            preferred.append(each)
    if not preferred:
        return None
    annotator = next((each for each in free if plain_name(each) in (*ANNOTATOR_KEYS, "judge", "judge_name")
                      and each not in preferred), None)  # fmt: skip
    known = set(map(str, columns[annotator])) - {"None"} if annotator else set()
    unknown = [each for each in (*judges, *people, item) if each is not None and each not in columns]
    if missing := [each for each in unknown if each not in known or each not in judges]:
        listed = ", ".join(map(repr, list(columns)[:30]))
        raise BadInput(f"{name} has no column {missing[0]!r}; its columns: {listed}")
    models = tuple(each for each in judges if each not in columns) or tuple(
        each for each in sorted(known) if is_model_name(each) or "judge" in words_of(each)
    )
    of_judge = [each for each in preferred if each in judges or (not judges and each not in people and _is_judge(each))]
    rest = [each for each in preferred if each not in of_judge]
    of_people = [each for each in rest if each in people or (not people and set(words_of(each)) & HUMAN)]
    unclear = [] if people else [each for each in rest if each not in of_people]
    for each in of_judge:
        reasons[each] = "named by --judge" if each in judges else "its name says that a model gave it"
    for each in of_people:
        reasons[each] = "named by --human" if each in people else "its name says that people gave it"
    if unclear and annotator:
        of_people, unclear = [*of_people, *unclear], []
        reasons |= dict.fromkeys(of_people, f"{annotator!r} names who gave it")
    elif unclear and (of_judge or models) and not of_people:
        of_people, unclear = unclear, []
        reasons |= dict.fromkeys(of_people, f"the judge is {', '.join(of_judge or models)}")
    elif len(unclear) == 1 and of_people and not (of_judge or models):
        of_judge, unclear = unclear, []
        reasons[of_judge[0]] = f"people are {', '.join(of_people)}"
    plain = {plain_name(each): each for each in reversed(free) if each not in preferred}
    prompt = next((plain[each] for each in _PROMPTS if each in plain), None)
    named = item or next((plain[each] for each in _ITEMS if each in plain), None)
    if item is None and prompt and (named is None or _counts(columns[named]) > _counts(columns[prompt])):
        named = prompt  # the same input in both orders has two ids
    if named:
        reasons[named] = "named by --item" if item else "rows with the same value have the same input"
    return PairRoles(
        texts, versions, tuple(of_judge), tuple(of_people), tuple(unclear), annotator,
        () if of_judge else models, named, prompt, plain.get("turn"), reasons,
    )  # fmt: skip


def _counts(cells: Sequence[Any]) -> int:
    return len({str(cell) for cell in cells})


def _is_judge(column: str) -> bool:
    return bool(judge_in(column)[0]) and not set(words_of(column)) & HUMAN


def _partner(column: str, names: Iterable[str]) -> str | None:
    """Return the column of the second side for a column of the first one."""
    words = words_of(column)
    for first, second in SIDES:
        for place in (len(words) - 1, 0):
            if words and words[place] == first:
                other = [*words[:place], second, *words[place + 1 :]]
                found = next((each for each in names if words_of(each) == other), None)
                if found is not None:
                    return found
    return None


def _side_columns(columns: Columns) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """Return the columns with the texts of both sides, and those with their versions."""
    texts = versions = None
    for column in columns:
        words = set(words_of(column))
        base = words & (_TEXTS | _VERSIONS)
        other = _partner(column, columns) if not words & (_NOT_SIDES | _PREFERENCES) else None
        if other is None or not (base or len(words) == 1):
            continue
        is_text = _is_long((*columns[column][:200], *columns[other][:200]))
        if (words & _TEXTS and not words & _VERSIONS) or (is_text and not words & (_VERSIONS - {"assistant"})):
            texts = texts or (column, other)
        elif base:
            versions = versions or (column, other)
    return texts, versions


def _is_long(cells: Sequence[Any]) -> bool:
    """Return True for texts or messages, and False for names."""
    present = [cell for cell in cells if cell is not None]
    return any(not isinstance(cell, str | int | float) for cell in present) or (
        sum(len(str(cell)) for cell in present) > 40 * max(len(present), 1)
    )


def _named_versions(
    columns: Columns, system: str | None, found: tuple[str, str] | None, name: str
) -> tuple[str, str] | None:
    """Return the columns of versions: the side that the user names with its partner, else the detected ones."""
    if system is None:
        return found
    for column in columns:
        other = _partner(column, columns)
        if other is not None and system in (column, other):
            return column, other
    listed = ", ".join(map(repr, list(columns)[:30]))
    raise BadInput(
        f"{name}: --system {system} names no side of a table of pairs; name a column such as model_a, whose partner is "
        f"model_b. Its columns: {listed}"
    )


def _holds_preferences(
    column: str, columns: Columns, versions: tuple[str, str] | None, texts: tuple[str, str] | None
) -> bool:
    """Return True for a column named like a preference, a judge or people whose values are preferences."""
    words = set(words_of(column))
    present = [(row, cell) for row, cell in enumerate(columns[column]) if cell is not None]
    if not present or words & _REASONS or (words & {"model", "id", "time"} and not words & _PREFERENCES):
        return False
    if not (words & _PREFERENCES or words & HUMAN or _is_judge(column)):
        return False
    read = preference_reader(columns, versions, texts)
    parsed = sum(read(row, cell) is not None for row, cell in present)
    is_named = bool(words & _PREFERENCES) and all(len(str(cell)) <= 60 for _, cell in present[:200])
    return parsed >= (0.5 if is_named else MIN_PARSED) * len(present)


def preference_reader(
    columns: Columns, versions: tuple[str, str] | None, texts: tuple[str, str] | None
) -> Callable[[int, Any], float | None]:
    """Return a function that reads the preference in a cell of a row: 1 for the first side, 0.5, 0, or None."""
    sides = [each for each in (versions, texts) if each is not None]
    heads = {plain_name(column): value for pair in sides for column, value in zip(pair, (FIRST, SECOND), strict=True)}
    known: dict[str, float | None] = {}

    def read(row: int, cell: Any) -> float | None:
        text = str(cell).strip().casefold()
        if versions is not None:
            names = [str(columns[each][row]).strip().casefold() for each in versions]
            if text in names and names[0] != names[1]:
                return FIRST if text == names[0] else SECOND
        if text not in known:
            known[text] = heads[plain_name(text)] if plain_name(text) in heads else _of_words(text)
        return known[text]

    return read


def _of_words(text: str) -> float | None:
    """Return the preference in a text that names no version, or None.

    >>> _of_words("model_a"), _of_words("tie (bothbad)"), _of_words("[[B]]"), _of_words("1.0"), _of_words("fine")
    (1.0, 0.5, 0.0, 1.0, None)
    """
    try:
        return {1.0: FIRST, 2.0: SECOND, 0.0: TIE, 1.5: TIE}.get(float(text))
    except ValueError:
        words = set(words_of(text))
    if text.strip() == "[[c]]":  # a tie in the verdicts of MT-bench
        return TIE
    if words & _TIE_WORDS or words == {"no", "preference"}:
        return TIE if words <= _TIE_WORDS | _TIE_FILL | _FILL else None
    left = words - _FILL
    if len(left) != 1:
        return None
    return FIRST if left <= _FIRST_WORDS else SECOND if left <= _SECOND_WORDS else None


def preferences(columns: Columns, column: str, roles: PairRoles, name: str) -> list[float | None]:
    """Return the preference in each row of a column: the share of a win that the first side gets.

    Raises:
        BadInput: A value is not a preference, or the column has 0 and 1 alone, which have two meanings.
    """
    read = preference_reader(columns, roles.versions, roles.texts)
    found: list[float | None] = []
    for row, cell in enumerate(columns[column]):
        value = None if cell is None else read(row, cell)
        if cell is not None and value is None:
            raise BadInput(
                f"{name}, row {row + 1}, column {column!r}: {one_line(str(cell), 40)!r} is not a preference; allowed: "
                f"{ALLOWED}. Correct the value, or leave the cell empty"
            )
        found.append(value)
    _check_numbers(columns, column, roles, name)
    return found


def _check_numbers(columns: Columns, column: str, roles: PairRoles, name: str) -> None:
    """Refuse a column of preferences with 0 and 1 alone, which have two meanings."""
    numbers = {str(cell).strip().removesuffix(".0") for cell in columns[column] if cell is not None}
    if numbers == {"0", "1"} and not (
        roles.versions and numbers & {str(cell) for each in roles.versions for cell in columns[each]}
    ):
        raise BadInput(
            f"{name}, column {column!r}: 0 and 1 can mean a tie and the first side, or the two sides; write a, b, tie"
        )


def check_pair_file(rows: Iterable[Row | BadRow], judges: Iterable[str], name: str) -> None:
    """Check the columns of a file of pairs before its rows are read one by one.

    Args:
        rows: Its first rows.
        judges: Columns that the user says hold a judge's answers.
        name: Name of the file.

    Raises:
        BadInput: Several columns hold preferences of people or of a judge, or one has numbers with two meanings.
    """
    fields = [row.fields for row in rows if isinstance(row, Row)]
    names = dict.fromkeys(each for row in fields for each in row if isinstance(each, str))
    columns = {each: [None if row.get(each) == "" else row.get(each) for row in fields] for each in names}
    roles = pair_roles(columns, name=name)
    if roles is None:
        return
    for column in (*roles.people, *roles.unclear):
        _check_numbers(columns, column, roles, name)
    of_judge = [each for each in judges if each in (*roles.people, *roles.unclear)]
    if len(roles.unclear) > 1 or of_judge:
        listed = ", ".join(map(repr, of_judge or roles.unclear))
        raise BadInput(
            f"{name}: preferences of people are stored, and nothing in the names of {listed} says that a judge gave "
            "them. Rename the judge's column to judge_winner and people's to human_winner"
        )


def check_sides(columns: Columns, roles: PairRoles, name: str) -> None:
    """Refuse rows that compare a version with itself, and rows with only one side.

    Raises:
        BadInput: The first such row.
    """
    for first, second in filter(None, (roles.versions, roles.texts)):
        for row, (one, other) in enumerate(zip(columns[first], columns[second], strict=True)):
            if one is None or other is None:
                empty = first if one is None else second
                raise BadInput(f"{name}, row {row + 1}: {empty!r} is empty; a pair needs both sides. Remove the row")
            if one == other and (first, second) == roles.versions:
                raise BadInput(
                    f"{name}, row {row + 1} compares version {one_line(str(one), 40)!r} with itself; correct {first!r} "
                    f"or {second!r}, or remove the row"
                )


# --- conversations and labels -----------------------------------------------------------------------------------------

PREFERENCE = "preference"
"""Question of a comparison in a table of pairs: 1 for the first conversation, 0 for a tie, -1 for the second."""


def _row_roles(fields: Fields) -> PairRoles | None:
    """Return the roles of a row of texts by the names of its columns. Other words than preferences are errors later."""
    row = {name: cell for name, cell in fields.items() if isinstance(name, str)}
    if not any(_partner(name, row) for name in row):
        return None
    missing = {name for name, cell in row.items() if cell in (None, "")}
    named = {
        name for name, cell in row.items()
        if (words := set(words_of(name))) & {"winner", "preference", "preferred"} and not words & _REASONS
        and len(str(cell)) <= 60
    }  # fmt: skip
    cells = {name: ["tie" if name in named else None if name in missing else cell] for name, cell in row.items()}
    roles = pair_roles(cells)
    return roles if roles is not None and roles.texts is not None else None


def _is_pair(fields: Fields) -> bool:
    """Return True for two texts and a preference; a column `winner` with another word is an error of its row."""
    return _row_roles(fields) is not None


def _parts(fields: Fields) -> list[Fields]:
    """Split a row into its two conversations; the first one has the preferences of people."""
    roles = _row_roles(fields)
    if roles is None or roles.texts is None:
        raise WrongShape(f"no pair of responses with a preference: {ALLOWED}")
    cells: dict[str, list[Any]] = {str(name): [None if cell == "" else cell] for name, cell in fields.items()}
    try:
        check_sides(cells, roles, "the table")
        columns = [*roles.people, *roles.unclear]
        values = {column: preferences(cells, column, roles, "the table")[0] for column in columns}
    except BadInput as error:
        raise WrongShape(str(error).removeprefix("the table, row 1").lstrip(":, ")) from None
    judged = [column for column in roles.judges if cells[column][0] is not None]
    who = None if roles.annotator is None else cells[roles.annotator][0]
    if who is not None and str(who) in roles.models:
        judged, values = [str(who)], {}
    used = {*roles.sides, *columns, *roles.judges, roles.annotator, roles.prompt}
    metadata = {
        name: cell for name, [cell] in cells.items()
        if name not in used and isinstance(cell, str | int | float) and len(str(cell)) <= 100
    }  # fmt: skip
    item = None if roles.item in (None, roles.prompt) else cells[roles.item or ""][0]
    sides, replies = [], []
    for place, column in enumerate(roles.texts):
        version = None if roles.versions is None else str(cells[roles.versions[place]][0])
        messages = _messages(None if roles.prompt is None else cells[roles.prompt][0], cells[column][0])
        turns = turns_of(messages)
        replies.append([number for number, turn in enumerate(turns) if turn.role == "assistant"])
        digest = content_hash([[turn.role, turn.content] for turn in turns], length=8).rpartition(":")[2]
        name = "-".join([str("pair" if item is None else item), *([version] if version else []), digest])
        own = metadata if version is None else {**metadata, "system": version}
        sides.append({"id": name, "messages": messages, "metadata": own})
    first, second = sides
    if first["id"] == second["id"]:
        raise WrongShape("both responses are equal, so they are one conversation; remove the row")
    turn = _number_of_turn(None if roles.turn is None else cells[roles.turn][0], replies)
    labels = []
    for column, value in values.items():
        by = str(who) if who is not None else _person_in(column)
        if value is not None:
            labels.append((by, int(2 * value - 1)))
    return [{**first, "against": second["id"], "labels": labels, "turn": turn, "judged": judged}, second]


def _person_in(column: str) -> str:
    """Return the annotator that the name of a column contains, or `UNNAMED`."""
    words = set(words_of(column)) - _PREFERENCES - {"human", "people", "gold", "label"}
    return column if words and words & HUMAN else UNNAMED


def _number_of_turn(cell: Any, replies: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Return the places of the n-th reply in both conversations, for a column `turn` that counts replies from 1."""
    text = str(cell)
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0
    first, second = replies
    is_one_of_several = 0 < number <= min(len(first), len(second)) and max(len(first), len(second)) > 1
    return (first[number - 1], second[number - 1]) if is_one_of_several else None


def _messages(prompt: Any, reply: Any) -> list[Any]:
    """Return the messages of a prompt and a reply: texts, lists of texts in turn, or messages."""
    given, said = _decoded(prompt), _decoded(reply)
    if isinstance(said, list) and said and all(isinstance(each, Mapping) for each in said):
        return said
    if isinstance(said, list) and isinstance(given, list) and all(isinstance(each, str) for each in (*given, *said)):
        asked = [{"role": "user", "content": text} for text in given]
        replied = [{"role": "assistant", "content": text} for text in said]
        return [message for both in zip_longest(asked, replied) for message in both if message is not None]
    return exchange(None if prompt is None else _as_text(given, prompt), _as_text(said, reply))


def _decoded(cell: Any) -> Any:
    """Return the list in the JSON text of a cell, and any other cell unchanged."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(cell)
    return cell


def _as_text(value: Any, cell: Any) -> Any:
    return value if isinstance(value, list) and value and all(isinstance(e, Mapping) for e in value) else str(cell)


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert rows of two responses with a preference: two conversations, and a comparison for each person."""
    name = checked_id(rows[0]["id"])
    labels = []
    for row in rows:
        first, second = row.get("turn") or (None, None)
        for by, value in row.get("labels", ()):
            target, against = Target(name, first), Target(row["against"], second)
            labels.append(Label(target, PREFERENCE, checked_id(by), value, against=against))
    conversation = Conversation(name, turns_of(rows[0]["messages"]), metadata=rows[0]["metadata"])
    return Record(conversation, tuple(labels), scales=([-1, 1],) * len(labels))


def on_comparison(label: Label, rubric: Rubric) -> Label:
    """Return a label of a table of pairs as an answer to the rubric's comparison; unchanged without exactly one."""
    asked = [question for question in rubric.questions if question.compares]
    own = rubric.get(PREFERENCE) or (asked[0] if len(asked) == 1 else None)
    if label.question != PREFERENCE or label.against is None or own is None or not own.compares:
        return label
    word = {1: "first", 0: "tie", -1: "second"}[int(label.value or 0)]
    return replace(label, question=own.id, value=side_value(word, own, (label.target, label.against)))


def _judged_part(part: Fields) -> str | None:
    judged = part.get("judged")
    if not judged:
        return None
    return (
        f"preferences of {', '.join(judged)}: recorded judgements are about one conversation; compare these with "
        "people's by accord check"
    )


formats.register("pairs")(
    Format(
        matches=_is_pair, convert=_convert, key=lambda part: str(part["id"]),
        split=_parts, skip_reason=_judged_part,
    )
)  # fmt: skip
