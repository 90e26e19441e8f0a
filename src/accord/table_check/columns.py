"""The columns of one question in a table: the judge with its runs, and the people who answered it.

`accord.formats.table_roles` assigns a role to each column, for every reader. A check compares the answers to one
question: here its columns are chosen, and every choice has a note.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.edges import BadInput
from accord.formats import (
    CONSENSUS,
    HUMAN,
    NOT_VALUES,
    ROLE_ROWS,
    Columns,
    TableOptions,
    TableRoles,
    copies_text,
    judge_in,
    no_scale,
    question_in,
    structure,
    table_roles,
    unclear_text,
    unread_text,
    words_of,
)


def find_columns(columns: Columns, options: TableOptions, name: str, has_text: bool = False) -> TableRoles:
    """Return the roles of a table's columns for one question.

    Args:
        columns: The cells.
        options: Columns that the user names.
        name: Name of the table, for errors.
        has_text: True if the rows hold texts of conversations.

    Raises:
        BadInput: A named column does not exist, or no column holds a judge's scores or people's labels.
    """
    rows = max(map(len, columns.values()), default=0)
    first = {column: cells[:ROLE_ROWS] for column, cells in columns.items()}
    roles = table_roles(first, options, has_text)
    if rows > ROLE_ROWS and not (roles.people and (roles.judges or roles.models)):  # labels may come later
        roles = table_roles(columns, options, has_text)
    check_given(columns, options, roles, name)
    judges, people, models = list(roles.judges), list(roles.people), list(roles.models)
    if roles.are_all_judged:
        raise BadInput(
            f"{name}: {roles.names!r} names the judge of each row, so all values are a judge's; "
            f"{_no(columns, 'labels of people', '--human')}"
        )
    if options.judges:
        judges = [each for each in options.judges if each in columns]
        models = [each for each in options.judges if each not in columns]
    if options.rated:
        people = [each for each in options.rated if each in columns]
    if roles.unclear and not ((judges or models) and people):
        raise BadInput(_unclear(name, roles.unclear, bool(judges or models), bool(people)))
    if not (judges or models):
        raise BadInput(f"{name}: {_no(columns, 'scores of a judge', '--judge')}")
    if not people:
        raise BadInput(f"{name}: {_no(columns, 'labels of people', '--human')}")
    notes = [*roles.notes, *roles.reasons.values(), *copies_text(roles.copies)]
    judges, people = _of_one_question(judges, people, options, notes)
    if not options.rated:
        people = _without_consensus(people, notes)
    if not options.judges:
        judges = _runs(judges, notes)
    if unread := unread_text(roles.unread, "rename it to annotator"):
        notes.append(unread)
    people = people[:1] if roles.annotator is not None else people
    chosen = replace(
        roles, judges={each: roles.judges.get(each, "judge") for each in judges}, people=tuple(people),
        models=tuple(models[: max(len(options.judges), 1)] if not judges else ()), notes=tuple(notes),
    )  # fmt: skip
    others = [*(("judge", each) for each in judges), *(("group", each) for each in options.groups)]
    single = {
        "item": options.item,
        "system": options.system,
        "length": options.length,
        "confidence": options.confidence,
    }
    for option, column in [*others, *single.items()]:
        if column in people:
            raise BadInput(f"{name}: --{option} {column}: this column holds labels of people; name another column")
    return structure(columns, chosen, options)


def _unclear(name: str, unclear: Sequence[str], has_judge: bool, has_people: bool) -> str:
    """Return the error about columns of people or of a judge: with one unclear column, the other side is named, too."""
    first, *others = map(shlex.quote, unclear)
    other = others[0] if others else "COLUMN"
    of_people = f"--human {first}" + ("" if has_judge else f" --judge {other}")
    of_judge = f"--judge {first}" + ("" if has_people else f" --human {other}")
    return unclear_text(name, unclear, of_people, of_judge)


def check_given(columns: Columns, options: TableOptions, roles: TableRoles, name: str) -> None:
    """Raise `BadInput` for a named column that does not exist; a judge may be a value of the annotator column."""
    named = [*options.judges, *options.rated, *options.groups, options.item, options.system, options.length,
             options.confidence]  # fmt: skip
    values = set(map(str, columns[roles.annotator])) if roles.annotator else set()
    for column in filter(None, named):
        if column not in columns and not (column in options.judges and column in values):
            raise BadInput(f"{name} has no column {column!r}; its columns: {_listed(columns)}")


def _listed(columns: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, list(columns)[:30]))


def _no(columns: Columns, what: str, option: str) -> str:
    """Return the error about a role without a column, with the reason of a column that only its name fits."""
    named = [each for each in columns if (set(words_of(each)) & HUMAN if option == "--human" else judge_in(each)[0])]
    reasons = [f"{each!r} {no_scale(columns[each])}" for each in named if not set(words_of(each)) & NOT_VALUES][:3]
    found = f"no column holds {what}: {'; '.join(reasons)}" if reasons else f"no column is named like {what}"
    return f"{found}; its columns: {_listed(columns)}. Name it: {option} COLUMN"


def _of_one_question(
    judges: Sequence[str], people: Sequence[str], options: TableOptions, notes: list[str]
) -> tuple[list[str], list[str]]:
    """Return the columns of the first question that both sides answer; all columns if names name no question."""
    asked = list(dict.fromkeys(map(question_in, judges)))
    answered = list(dict.fromkeys(map(question_in, people)))
    both = [each for each in asked if each in answered]
    if len(answered) < 2 and len(asked) < 2 or not both:
        return list(judges), list(people)
    chosen = both[0]
    kept = list(judges) if options.judges else [each for each in judges if question_in(each) == chosen]
    kept_people = list(people) if options.rated else [each for each in people if question_in(each) == chosen]
    for other in both[1:]:
        judge = next(each for each in judges if question_in(each) == other)
        person = next(each for each in people if question_in(each) == other)
        options_of_it = f"--judge {shlex.quote(judge)} --human {shlex.quote(person)}"
        notes.append(f"not checked: {' '.join(other)}; check it with {options_of_it}")
    return kept, kept_people


def _without_consensus(people: Sequence[str], notes: list[str]) -> list[str]:
    """Return the columns of single people if a further column sums them up."""
    single = [each for each in people if not set(words_of(each)) & CONSENSUS]
    if len(single) < 2 or len(single) == len(people):
        return list(people)
    left = [each for each in people if each not in single]
    notes.append(
        f"left out: {', '.join(left)}, which sums up other columns; check it with --human {shlex.quote(left[0])}"
    )
    return single


def _runs(judges: Sequence[str], notes: list[str]) -> list[str]:
    """Return the columns of one judge: its runs, or the first of several judges."""
    runs: dict[str, list[tuple[int, str]]] = {}
    for column in judges:
        words = words_of(column)
        if words and words[-1].isdecimal() and len(words[-1]) < 3:
            base = column[: column.casefold().rindex(words[-1])].rstrip(" _-").casefold()
            runs.setdefault(base, []).append((int(words[-1]), column))
    for found in runs.values():
        numbers = [number for number, _ in sorted(found)]
        if len(numbers) > 1 and numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return [column for _, column in sorted(found)]
    if len(judges) > 1:
        notes.append(f"other judges are not checked: {', '.join(judges[1:])}; name one with --judge")
    return list(judges[:1])
