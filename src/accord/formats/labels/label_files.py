"""Label files, as tables or JSON lines: one row per rating, or one row per annotator with a column per question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from accord.edges import BadInput, BadRow, is_sendable, unescape_formula
from accord.formats.files.memory import Source
from accord.formats.files.row_reader import TABLE_SUFFIXES, locate, read_rows, suffix
from accord.formats.labels.answers import answer_to, plain_number
from accord.formats.labels.rating_columns import RATING, UNNAMED, answers_in, number_in
from accord.formats.openai_messages import checked_id, turn_index
from accord.formats.record import (
    Fields,
    Row,
    WrongShape,
    plain_name,
    under_our_names,
)
from accord.formats.table import ALIASES as OF_TEXT
from accord.formats.table import holds_text
from accord.formats.tables.column_roles import (
    NO_ANSWERS,
    NO_OPTIONS,
    NO_ROLES,
    ROLE_ROWS,
    TEXTS,
    JudgedAnswer,
    TableOptions,
    TableRoles,
    cells_of,
    is_model_name,
    may_be_answer,
    table_roles,
    unclear_to_import,
)
from accord.formats.tables.people import is_person
from accord.formats.tables.words import ALIASES, LABEL_COLUMNS
from accord.values import Label, Question, Rubric, Target, check_label

T = TypeVar("T")
_ROLES = {"role", *OF_TEXT["role"]} - {"from", "author"}


def is_judgement(fields: Fields) -> bool:
    """Return True if a row is the recorded answer of a model to a question."""
    return {"judge_model", "item_id"} <= fields.keys() and bool({"question", "distribution"} & fields.keys())


RECORDED_JUDGEMENTS = (
    "these are recorded answers of a model, not labels. To use them as the judge: models: {judge: {mode: recorded, "
    "paths: [FILE]}}"
)
"""Error for a file of recorded answers in place of labels."""


def looks_like_labels(fields: Fields) -> bool:
    """Return True if a row is a label alone: it names a conversation and holds no text of one.

    `question` and `answer` are a message and its reply if the row also has a rating, else a question and its value.

    A model's recorded answer (`is_judgement`) is not a label.
    """
    row = under_our_names(fields, ALIASES)
    if is_judgement(fields):
        return False
    if row.get("conversation") in (None, "") or {"messages", "conversations", "resourceSpans"} & fields.keys():
        return False
    if not is_exchange(fields):  # `question` and `answer` are not messages
        texts = {name: value for name, value in fields.items() if plain_name(name) not in ("question", "answer")}
    else:
        texts = dict(fields)
    if holds_text(texts):
        return False
    if "annotator" in row:
        return True
    others = row.keys() - {"conversation", "turn", "time"}
    named = [name for name in others if isinstance(name, str)]
    plain = set(map(plain_name, named))
    is_text = bool(plain & TEXTS) or any(_is_nested(row[name]) for name in named)
    return bool(others) and not is_text and ("value" in row or not plain & _ROLES)


def _is_nested(value: Any) -> bool:
    """Return True if a cell contains objects, as the issues of a row do."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def is_exchange(fields: Fields) -> bool:
    """Return True if a row's `question` and `answer` are a message and its reply, not a rubric question and its value.

    >>> is_exchange({"id": 1, "question": "Is it open?", "answer": "Until six.", "rating": 4, "rater": "a"})
    True
    >>> is_exchange({"id": 1, "question": "Q0", "answer": 4, "rater": "a"})
    False
    >>> is_exchange({"id": 1, "question": "Open?", "answer": "Yes.", "nora": 4, "sam": 5})
    True
    """
    row = {plain_name(name): value for name, value in fields.items() if isinstance(name, str)}
    if not {"question", "answer"} <= row.keys():
        return False
    is_rated = any(row.get(name) not in (None, "") for name in ("rating", "score", "value", "label"))
    sides = [row["question"], row["answer"]]
    is_long = all(isinstance(side, str) for side in sides) and any(len(str(side).split()) > 4 for side in sides)
    others = (value for name, value in row.items() if name not in LABEL_COLUMNS)
    has_rating = _number_of(row["answer"]) is None and any(_number_of(value) is not None for value in others)
    return is_rated or is_long or has_rating or any(isinstance(side, list | dict) for side in sides)


def _number_of(value: Any) -> float | None:
    return number_in(value.strip()) if isinstance(value, str) else value if isinstance(value, int | float) else None


def read_labels(
    path: str | Source,
    rubric: Rubric,
    columns: Mapping[str, str] | None = None,
    on_bad_row: Callable[[BadRow], None] | None = None,
    questions: Collection[str] = (),
    raters: Mapping[str, str] = {},
    roles: TableRoles | None = None,
    on_line: Callable[[int], None] = lambda line: None,
    on_judged: Callable[[JudgedAnswer], None] = lambda answer: None,
) -> Iterator[Label]:
    """Yield every label of a person in a table or in JSON lines, in order; a model's answers go to `on_judged`.

    Args:
        path: The file.
        rubric: Its questions name the columns of a wide table, and its scales define how a value is read.
        columns: Accord's column names to the file's.
        on_bad_row: Called with each bad row, which is then skipped; without it a bad row is raised.
        questions: Further columns of a wide table that hold labels on questions outside the rubric.
        raters: Columns of a wide table that each hold the ratings of one annotator, with the annotator.
        roles: Roles of the file's columns (`file_roles`); by default detected.
        on_line: Called with the line of each row before its answers.
        on_judged: Called with each answer of a model.

    Raises:
        BadInput: The file cannot be read as a whole, lacks a column that `columns` names, or has a column that may hold
            ratings of people or a model's answers.
        BadRow: A row is not a label, or off its question's scale, and `on_bad_row` is not given.

    >>> from accord import load_rubric
    >>> from accord.sample import sources
    >>> label = next(read_labels(sources()[1], load_rubric("llm-rubric")))
    >>> label.target.conversation, label.annotator, label.question, label.value
    ('support-001', 'amira', 'Q1', 4)
    """
    if roles is None:
        roles = file_roles(path, columns, is_named=lambda name: True)
        if roles.unclear:
            raise BadInput(unclear_to_import(str(path), roles.unclear))
    source, wide = (
        locate(path),
        _WideTable(rubric, {question.id for question in rubric.questions}.union(questions), raters, roles),
    )

    def labels_of(fields: Fields) -> list[Label]:
        for answer in _judged(fields, roles):
            on_judged(answer)
        labels = _labels(fields, wide)
        for label in labels:
            check_label(label, rubric)
        return labels

    rows = mapped(_rows(source), roles.columns(columns or {}), str(source))
    return converted_rows(source, rows, labels_of, on_bad_row, on_line)


def converted_rows(
    source: Source,
    rows: Iterable[Row | BadRow],
    convert: Callable[[Fields], Iterable[T]],
    on_bad_row: Callable[[BadRow], None] | None,
    on_line: Callable[[int], None] = lambda line: None,
) -> Iterator[T]:
    """Yield the values of rows; a row that `convert` rejects is bad, and raised without `on_bad_row`.

    `on_line` is called with the line of each row before its values.
    """
    for row in rows:
        try:
            if not isinstance(row, BadRow):
                on_line(row.line)
                yield from convert(row.fields)
                continue
            error = row
        except BadInput as reason:
            error = BadRow(str(source), row.line, str(reason))
        if on_bad_row is None:
            raise error
        on_bad_row(error)


class _WideTable(NamedTuple):
    """Columns with labels of a table with a column per question or per annotator: `asked` and `raters`."""

    rubric: Rubric
    asked: Collection[str]
    raters: Mapping[str, str]
    roles: TableRoles


def file_roles(
    path: str | Source,
    columns: Mapping[str, str] | None = None,
    has_text: bool = False,
    options: TableOptions = NO_OPTIONS,
    is_named: Callable[[str], bool] = is_person,
    rows: Iterable[Row | BadRow] | None = None,
) -> TableRoles:
    """Return the roles of a file's columns, from its first rows; see `table_roles` for the other arguments.

    `rows` are the rows of the file, if it is open already.

    Raises:
        BadInput: The file cannot be read.
    """
    source = locate(path)
    first = islice(mapped(_rows(source, rows), columns, str(source)), ROLE_ROWS)
    cells = cells_of([row.fields for row in first if isinstance(row, Row)])
    return table_roles(cells, options, has_text, is_named)


def _judged(fields: Fields, roles: TableRoles) -> list[JudgedAnswer]:
    """Return a model's answers in a row of labels."""
    row = _stripped(fields)
    has_model = "annotator" in row and isinstance(row["annotator"], str) and is_model_name(row["annotator"])
    if not (roles.judges or roles.are_all_judged or has_model):
        return []
    target, judge = _target(row), "" if roles.names is None else str(fields.get(roles.names) or "")
    answers = [JudgedAnswer(target, name, judge or roles.judges[name], fields.get(name)) for name in roles.judges]
    if has_model or roles.are_all_judged:
        names_question = row.get("question") not in (None, "")
        answers += _answers_beside_name(target, roles, raw_answers(roles.without_judges(fields))[1], names_question)
    return [answer for answer in answers if answer.value not in (None, "")]


def _answers_beside_name(
    target: Target, roles: TableRoles, answers: Iterable[tuple[str, str, Any]], names_question: bool
) -> Iterator[JudgedAnswer]:
    """Yield the answers of models in a row that names who answered; `names_question` if it also names the question."""
    for question, annotator, value in answers:
        judge = roles.judge_of(question, annotator)
        if judge is not None and (names_question or may_be_answer(question, value)):
            yield JudgedAnswer(target, question, judge, value)


def _rows(source: Source, rows: Iterable[Row | BadRow] | None = None) -> Iterator[Row | BadRow]:
    """Yield the rows of a file; in tables, the apostrophes that mark formulas are removed (`inert`)."""
    is_table = suffix(source) in TABLE_SUFFIXES
    for row in read_rows(source) if rows is None else rows:
        if isinstance(row, Row) and is_table:
            row = Row(row.line, {k: unescape_formula(v) if isinstance(v, str) else v for k, v in row.fields.items()})
        yield row


def mapped(rows: Iterable[Row | BadRow], columns: Mapping[str, str] | None, where: str) -> Iterator[Row | BadRow]:
    """Yield rows with the columns of a column map (Accord's name to the file's) renamed.

    Raises:
        BadInput: The first row lacks a column that the map names.
    """
    first = True
    for row in rows:
        if columns and isinstance(row, Row):
            missing = next((theirs for theirs in columns.values() if theirs not in row.fields), None) if first else None
            if missing is not None:
                raise BadInput(f"{where} has no column {missing!r}; it has {', '.join(map(str, row.fields))}")
            first = False
            ours = {theirs: name for name, theirs in columns.items()}
            cells = {name: value for name, value in row.fields.items() if name in ours or name not in columns}
            row = Row(row.line, {ours.get(name, name): value for name, value in cells.items()})
        yield row


def raw_answers(fields: Fields) -> tuple[Target, list[tuple[str, str, Any]]]:
    """Return the target of a row, and every value that may be a label as (question, annotator, value).

    In a wide table, every column without another known meaning may be a question. A row without a conversation raises
    `WrongShape`.
    """
    row = _stripped(fields)
    target, annotator = _target(row), _annotator(row)
    if "value" in row and row.get("question") not in (None, ""):
        return target, [(str(row["question"]), annotator, row["value"])]
    known = {"conversation", "turn", "time", "against", "against_turn", "question", "comment", "value"}
    rest = {name: value for name, value in row.items() if name not in known}
    if "value" in row:
        rest[_value_name(fields)] = row["value"]
    return target, [(answer.question, answer.annotator or annotator, answer.value) for answer in answers_in(rest)]


def _value_name(fields: Fields) -> str:
    """The file's name of the column with the value; `rating` for a column that is just called `value`."""
    named = {plain_name(name): name for name in fields if isinstance(name, str)}
    return next((named[name] for name in ALIASES["value"] if "value" not in named and name in named), "rating")


def raw_label_rows(
    path: str | Source,
    columns: Mapping[str, str] | None = None,
    roles: TableRoles = NO_ROLES,
    rows: Iterable[Row | BadRow] | None = None,
) -> Iterator[tuple[int, Target, list[tuple[str, str, Any]], list[JudgedAnswer], Fields]]:
    """Yield each row of a file of labels: line, target, the `raw_answers` of people, a model's answers, and its cells.

    Rows that cannot be read are skipped. `rows` are the rows of the file, if it is open already (`sniff_rows`).
    """
    source = locate(path)
    for row in mapped(_rows(source, rows), roles.columns(columns or {}), str(source)):
        if not isinstance(row, Row):
            continue
        try:
            judged = _judged(row.fields, roles)
            target, answers = _answers_of_people(row.fields, roles)
        except WrongShape:
            continue
        yield row.line, target, answers, judged, row.fields


def _answers_of_people(fields: Fields, roles: TableRoles) -> tuple[Target, list[tuple[str, str, Any]]]:
    fields = roles.without_judges(fields)
    if _has_only_judges(fields, roles):
        return _target(_stripped(fields)), []
    target, answers = raw_answers(fields)
    return target, [answer for answer in answers if roles.judge_of(answer[0], answer[1]) is None]


def _has_only_judges(fields: Fields, roles: TableRoles) -> bool:
    """Return True if a row without its columns of judges holds no rating."""
    rest = (fields[name] for name in fields if plain_name(name) not in NO_ANSWERS)
    return bool(roles.judges) and all(value in (None, "") for value in rest)


def _stripped(fields: Fields) -> Fields:
    return {
        name: value.strip() if isinstance(value, str) else value
        for name, value in under_our_names(fields, ALIASES).items()
    }


def _target(row: Mapping[str, Any]) -> Target:
    if row.get("conversation") in (None, ""):
        raise WrongShape("a label needs a conversation (map other column names with --columns)")
    return Target(checked_id(row["conversation"]), turn_index(row.get("turn")))


def _annotator(row: Mapping[str, Any]) -> str:
    if "annotator" in row and row["annotator"] in (None, ""):
        raise WrongShape("a label needs an annotator; this row names none (map other column names with --columns)")
    return checked_id(row.get("annotator", UNNAMED))


def _labels(fields: Fields, wide: _WideTable) -> list[Label]:
    if wide.roles.are_all_judged:
        return []
    fields = wide.roles.without_judges(fields)
    row = _stripped(fields)
    if _has_only_judges(fields, wide.roles):
        return []
    target, annotator, time = _target(row), _annotator(row), row.get("time")
    against = None
    if row.get("against") not in (None, ""):
        against = Target(checked_id(row["against"]), turn_index(row.get("against_turn")))
    when = None if time in (None, "") else str(time)
    if when is not None and not is_sendable(when):
        raise WrongShape(f"time {when!r} is not a valid text")
    sides = target, against
    return [
        Label(target, checked_id(question), who, _value(raw, question, wide.rubric, sides), when, against=against)
        for question, who, raw in _answers(fields, row, annotator, wide)
        if raw not in (None, "") and wide.roles.judge_of(question, who) is None
    ]


def _answers(fields: Fields, row: Mapping[str, Any], annotator: str, wide: _WideTable) -> list[tuple[str, str, Any]]:
    """Return the answers of a row as (question, annotator, value).

    The row names the question; otherwise the columns of a wide table do; otherwise it is the main question.
    """
    if "value" in row and row.get("question") not in (None, ""):
        return [(str(row["question"]), annotator, row["value"])]
    rubric = wide.rubric
    cells = {**row, **{name: value.strip() if isinstance(value, str) else value for name, value in fields.items()}}
    columns = [question.id for question in rubric.questions if question.id in cells]
    answers = [(name, annotator, cells[name]) for name in columns]
    answers += [(RATING, person, cells[name]) for name, person in wide.raters.items() if name in cells]
    read = {*columns, *wide.raters}
    answers += [answer for answer in raw_answers(fields)[1] if answer[0] in wide.asked and answer[0] not in read]
    if not answers and "value" in row:
        return [(rubric.main, annotator, row["value"])]
    if not answers:
        raise WrongShape(
            f"no value, and no column named after a question of the rubric {rubric.name!r}; it has {', '.join(row)}. "
            "Name the column with values: --columns value=NAME"
        )
    return answers


def _value(raw: Any, name: str, rubric: Rubric, sides: tuple[Target, Target | None]) -> Any:
    """Return a value on the scale of its question; of a question outside the rubric, as a number if possible."""
    question = rubric.get(name)
    if question is not None and question.compares:
        raw = side_value(raw, question, sides)
    return answer_to(question, raw, name)


def side_value(raw: Any, question: Question, sides: tuple[Target, Target | None]) -> Any:
    """Convert `first`, `second`, `tie` or the name of a side to an option of a comparison; options stay unchanged."""
    if not isinstance(raw, str) or question.scale.parse(raw) is not None or not isinstance(plain_number(raw), str):
        return raw
    numbers = question.scale.options or question.scale.numbers
    names = {str(side): end for side, end in zip(sides, (numbers[-1], numbers[0]), strict=True) if side is not None}
    words = {"first": numbers[-1], "second": numbers[0]}
    if len(numbers) % 2:
        words["tie"] = numbers[len(numbers) // 2]
    return {**names, **words}.get(raw, raw)


def label_ids(path: str | Source, columns: Mapping[str, str] | None = None) -> set[str]:
    """Return the conversations that a file of labels names, without reading its labels."""
    source, known, ids = locate(path), dict[tuple[Any, ...], str | None](), set[str | int]()
    for row in mapped(read_rows(source), columns, str(source)):
        if not isinstance(row, Row):
            continue
        names = tuple(row.fields)
        if names not in known:
            marked = under_our_names({name: name for name in row.fields}, ALIASES)
            known[names] = marked.get("conversation")
        if (column := known[names]) is not None and isinstance(id := row.fields[column], str | int):
            ids.add(id)
    is_table = suffix(source) in TABLE_SUFFIXES
    texts = (unescape_formula(id) if is_table and isinstance(id, str) else str(id) for id in ids)
    return {text.strip() for text in texts if text.strip()}
