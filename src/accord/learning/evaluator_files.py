"""Files of a saved evaluator: `evaluator.json`, `arrays.safetensors`, and editable files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    NotRequired,  # pydantic does not read typing's before Python 3.12
)

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from accord.edges import ARRAYS_BYTES, BadInput, is_plain_json, one_line, read_bytes, read_json_file, write_atomically
from accord.evidence import Arrays
from accord.learning.presets import Level
from accord.version import __version__

FOLDER_FORMAT = 5
CARD, _ARRAYS = "evaluator.json", "arrays.safetensors"
_WITH_ABSENCES = (".history", ".seen")
"""Endings of arrays of stored evidence, where NaN is a missing value."""
DAMAGED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, AssertionError, StopIteration,
    MemoryError,
)  # fmt: skip
"""Exceptions that restoring an evaluator raises if its card or arrays differ from what `save` wrote."""
REFIT_NEEDED = "refit-needed.json"
"""File in place of an evaluator that held a text of an erased conversation."""
HELD_OUT, TRAINING_SET = "held-out", "training-set"
OTHER_QUESTIONS = "other_questions"
"""Subfolder of the evaluators of other questions, and note of a score with their predictions."""


_Name = Annotated[str, Field(max_length=1000)]
_Names = Annotated[list[_Name], Field(max_length=1000)]
_STRICT = ConfigDict(strict=True)


@with_config(_STRICT)
class HeadCard(TypedDict):
    """Head: its registered name, its settings, and the JSON of `Head.state`."""

    name: _Name
    settings: dict[str, Any]
    learned: dict[str, Any]


@with_config(_STRICT)
class SourceCard(TypedDict):
    """Source: its name, its settings, and the JSON of `Source.state`."""

    name: _Name
    settings: dict[str, Any]
    learned: dict[str, Any]


@with_config(_STRICT)
class Card(TypedDict):
    """Content of `evaluator.json`, validated by `saved_as`.

    `models` holds settings by role, `other_questions` the ids of questions that other evaluators in the folder predict,
    `plausibility` the check against implausible replies, `languages` the languages of the training texts.
    """

    format: Annotated[int, Field(ge=1, le=10**6)]
    accord_version: _Name
    name: _Name
    level: Level | None
    question: dict[str, Any]
    head: HeadCard
    sources: Annotated[list[SourceCard], Field(max_length=1000)]
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)]
    models: dict[str, dict[str, Any]]
    other_questions: _Names
    shares_evidence: bool
    plausibility: dict[str, Any] | None
    languages: NotRequired[_Names]


_CARDS = TypeAdapter(Card)


def write_folder(folder: Path, card: Card, arrays: Arrays, files: Mapping[str, str]) -> None:
    """Write all files; other files in the folder stay."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomically(folder / name, text)
    write_atomically(folder / _ARRAYS, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    write_atomically(folder / CARD, json.dumps(card, indent=1) + "\n")


def saved_as(folder: str | Path) -> Card:
    """Return the card of a saved evaluator.

    Raises:
        BadInput: The folder holds no evaluator, or one that this version of Accord cannot read.
    """
    try:
        card = read_json_file(Path(folder) / CARD)
    except FileNotFoundError:
        if (Path(folder) / REFIT_NEEDED).is_file():
            raise BadInput(
                f"{folder} held texts of conversations that were erased, so the evaluator was removed; fit it again: "
                f"accord fit {Path(folder).name}"
            ) from None
        raise BadInput(f"{folder} holds no evaluator: {CARD} is missing; fit one: accord fit") from None
    except BadInput as error:
        raise BadInput(f"{folder} holds a damaged evaluator: {error}; fit it again") from None
    number = card.get("format") if isinstance(card, dict) else None
    if type(number) is not int:
        raise BadInput(f"{folder} holds a damaged evaluator ({CARD} names no format); fit it again")
    if number != FOLDER_FORMAT:
        newer = "Upgrade Accord." if number > FOLDER_FORMAT else "Fit it again: accord fit."
        raise BadInput(
            f"{folder} was written by Accord {one_line(str(card.get('accord_version')), 40)} in folder format "
            f"{one_line(str(number), 40)}; this Accord ({__version__}) reads {FOLDER_FORMAT}. {newer}"
        )
    if not is_plain_json(card):
        raise BadInput(f"{folder} holds a damaged evaluator ({CARD}: text or number out of range); fit it again")
    try:
        _CARDS.validate_python(card)
    except ValidationError as error:
        first = error.errors()[0]
        where = one_line(".".join(map(str, first["loc"])), 100)
        raise BadInput(f"{folder} holds a damaged evaluator ({CARD}: {where}: {first['msg']}); fit it again") from None
    return card  # type: ignore[no-any-return]


def read_arrays(folder: Path) -> Arrays:
    """Return the arrays of a saved evaluator.

    Raises:
        BadInput: They are damaged, or hold a number that is not finite.
        FileNotFoundError: There are none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(read_bytes(folder / _ARRAYS, ARRAYS_BYTES))
    except SafetensorError as error:
        raise BadInput(f"{folder} holds a damaged evaluator ({type(error).__name__}); fit it again") from None
    if unusable := [name for name, array in arrays.items() if not _is_usable(name, array)]:
        raise BadInput(f"{folder} holds a damaged evaluator ({unusable[0]} is not a finite number); fit it again")
    return arrays


def _is_usable(name: str, array: NDArray[Any]) -> bool:
    """Return True if an array is finite; stored evidence may lack values."""
    if array.dtype.kind != "f":
        return array.dtype.kind in "biu"
    return not (np.isinf(array) if name.endswith(_WITH_ABSENCES) else ~np.isfinite(array)).any()
