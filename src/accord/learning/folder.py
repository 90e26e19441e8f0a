"""The folder of a saved evaluator: `evaluator.json`, `arrays.safetensors`, and the files that people may edit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays
from accord.learning.presets import Level
from accord.values import ARRAYS_BYTES, BadInput, Json, read_card, read_whole
from accord.version import __version__

FOLDER_FORMAT = 4
CARD, _ARRAYS = "evaluator.json", "arrays.safetensors"
_WITH_ABSENCES = (".history", ".seen")
"""How arrays of kept evidence are called, where NaN is an absence."""
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What building an evaluator from a card raises that is not of its shape."""
HELD_OUT, TRAINING_SET = "held-out", "training-set"
QUESTIONS = "questions"
"""Where evaluators of the rubric's other questions stand in a folder, and what they say in the notes of a score."""


class HeadCard(TypedDict):
    """A head: the name it is registered under, its settings, and the JSON of `Head.state`."""

    name: str
    settings: dict[str, Json]
    learned: dict[str, Any]


class SourceCard(TypedDict):
    """A source: its name, its settings, and the JSON of `Source.state`."""

    name: str
    settings: dict[str, Json]
    learned: dict[str, Any]


class Card(TypedDict):
    """What `evaluator.json` holds. `models` are settings by role, `also` the questions of the evaluators beside it.

    Of evaluators that were learned since there are such: `plausibility` is the gate of implausible replies, `questions`
    are the rubric's that were learned with the main one.
    """

    format: int
    accord_version: str
    name: str
    level: Level | None
    question: dict[str, Json]
    head: HeadCard
    sources: list[SourceCard]
    seed: int
    models: dict[str, dict[str, Json]]
    also: list[str]
    questions: NotRequired[list[str]]
    plausibility: NotRequired[dict[str, Any] | None]


def write_folder(folder: Path, card: Card, arrays: Arrays, files: Mapping[str, str]) -> None:
    """Write all of it; what else the folder holds stays."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / _ARRAYS).write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def saved_as(folder: str | Path) -> Card:
    """The card of a saved evaluator.

    Raises:
        BadInput: The folder holds none, or one that this Accord does not read.
    """
    try:
        about: Card = read_card(Path(folder) / CARD)
        number = int(about["format"])
    except FileNotFoundError:
        raise BadInput(f"{folder} holds no evaluator: {CARD} is missing; fit one: accord fit") from None
    except BadInput as error:
        raise BadInput(f"{folder} holds a damaged evaluator: {error}; fit it again") from None
    except DAMAGED as error:
        raise BadInput(f"{folder} holds a damaged evaluator ({type(error).__name__}); fit it again") from None
    if number != FOLDER_FORMAT:
        newer = "Upgrade Accord." if number > FOLDER_FORMAT else "Fit it again: accord fit."
        raise BadInput(
            f"{folder} was written by Accord {about.get('accord_version')} in folder format {number}; this Accord "
            f"({__version__}) reads {FOLDER_FORMAT}. {newer}"
        )
    return about


def read_arrays(folder: Path) -> Arrays:
    """The arrays of a saved evaluator.

    Raises:
        BadInput: They are damaged, or a number in them is none.
        FileNotFoundError: There are none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(read_whole(folder / _ARRAYS, ARRAYS_BYTES))
    except SafetensorError as error:
        raise BadInput(f"{folder} holds a damaged evaluator ({type(error).__name__}); fit it again") from None
    if endless := [name for name, array in arrays.items() if not _is_usable(name, array)]:
        raise BadInput(f"{folder} holds a damaged evaluator ({endless[0]} is no finite number); fit it again")
    return arrays


def _is_usable(name: str, array: NDArray[Any]) -> bool:
    """Whether what was learned is finite; evidence that a head keeps as it saw it may lack values."""
    if array.dtype.kind != "f":
        return array.dtype.kind in "biu"
    return not (np.isinf(array) if name.endswith(_WITH_ABSENCES) else ~np.isfinite(array)).any()


def under(name: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays of one part, under their own names."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
