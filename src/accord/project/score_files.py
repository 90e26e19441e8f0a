"""Scores of conversations that were never imported, from files of `accord score`, for `estimate`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow
from accord.formats import read_rows
from accord.learning import Level
from accord.values import POPULATION, Question, Signature

Scored = dict[str, list[tuple[str, int | None, float]]]
"""Conversation, turn and score of units, by assistant version."""
_PARTS = re.compile(r"(?:^|\|)question:([^|]*)")


def scores_in_files(
    files: Sequence[str], question: Question, level: Level, known: Collection[str], signature: str | None
) -> Scored:
    """Return the scores for a new annotator in files of `accord score`, except scores of training conversations.

    A conversation counts once, with its score in the first file that has one.

    Args:
        files: Paths; `PATH=VERSION` names the assistant version of a file, else each row names it in `system`, or in
            `version` without a system.
        question: The main question.
        level: Level of the scores.
        known: Conversations that are in the store or have scores already; they are left out.
        signature: Signature of the evaluator in use; None does not compare it.

    Raises:
        BadInput: A file cannot be read or has no usable scores, another evaluator or question was scored, or a row
            names no assistant version.
    """
    found: Scored = {}
    seen = set(known)
    for given in files:
        path, version = _named(given)
        names: set[str] = set()
        for line, row in _rows(path, level):
            name = version or row.get("system") or row.get("version")
            _check(path, line, row, question, signature)
            if not name:
                raise BadInput(
                    f"{path}: line {line}: the score of {row['conversation']!r} names no assistant version; add it to "
                    f"the option: --scores {path}=VERSION"
                )
            names.add(row["conversation"])
            if row["conversation"] not in seen:
                value = _value(path, line, row, question)
                found.setdefault(str(name), []).append((row["conversation"], _turn(path, line, row), value))
        if not names:
            raise BadInput(
                f"{path} has no score of a {level} for a new annotator outside the training data; allowed: a file of "
                "`accord score CHATS --out FILE` without --annotator"
            )
        seen |= names
    return found


def _named(given: str) -> tuple[Path, str]:
    """Return the path and the assistant version of `PATH` or `PATH=VERSION`; a path may hold `=` itself."""
    path, sign, version = given.rpartition("=")
    return (Path(path), version) if sign and not Path(given).exists() else (Path(given), "")


def _rows(path: Path, level: Level) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the line and the fields of each score that counts."""
    if not path.is_file():
        raise BadInput(f"no file {path}; name a file of `accord score CHATS --out FILE`")
    for row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
        fields = row.fields
        if missing := {"conversation", "value", "signature"} - fields.keys():
            raise BadInput(f"{path}: line {row.line} has no {sorted(missing)[0]!r}; allowed: rows of `accord score`")
        is_turn = _turn(path, row.line, fields) is not None
        is_scored = fields["value"] not in (None, "") and fields.get("annotator", POPULATION) == POPULATION
        if is_scored and is_turn == (level != "conversation") and str(fields.get("in_training")).lower() != "true":
            yield row.line, fields


def _turn(path: Path, line: int, row: Mapping[str, Any]) -> int | None:
    """Return the turn of a score, or `None` for a whole conversation."""
    if (turn := row.get("turn")) in (None, ""):
        return None
    try:
        return int(str(turn).removesuffix(".0"))
    except ValueError:
        raise BadInput(
            f"{path}: line {line}: the turn {turn!r} is not a whole number; allowed: rows of `accord score`"
        ) from None


def _check(path: Path, line: int, row: Mapping[str, Any], question: Question, signature: str | None) -> None:
    """Reject a score of another question or evaluator."""
    said = str(row["signature"])
    asked = _PARTS.search(said)
    if asked is not None and asked[1] != question.id:
        raise BadInput(f"{path}: line {line} scores the question {asked[1]!r}; the main question is {question.id!r}")
    if signature is not None and Signature.without_version(said) != Signature.without_version(signature):
        raise BadInput(
            f"{path}: line {line} was scored by another evaluator than the one in use; score again: accord score"
        )


def _value(path: Path, line: int, row: Mapping[str, Any], question: Question) -> float:
    """Return the score as a number on the scale."""
    low, high = min(question.scale.numbers), max(question.scale.numbers)
    try:
        value = float(row["value"])
    except (TypeError, ValueError):
        value = float("nan")
    if not low <= value <= high:
        raise BadInput(f"{path}: line {line}: the score {row['value']!r} is not on the scale, {low:g} to {high:g}")
    return value
