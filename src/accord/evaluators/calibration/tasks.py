"""All questions as tasks (LLM-RUBRIC, section 2): what each annotator said beside each rating of the main question."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from accord.conversation import Target
from accord.evaluators.ratings import Ratings
from accord.labels import Labels
from accord.scale import Value

MOST_OPTIONS = 10


def answers_to(rated: Ratings, labels: Labels) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """Every question's answers on the sheets of the main question's ratings.

    A question counts as a task where at least two of its options were chosen; its options are those that somebody
    chose, or, where those are more than `MOST_OPTIONS`, as many ranges of them. Where a person rated a text several
    times, their k-th answer to any question belongs to their k-th rating.

    Returns:
        (n, Q) index of the chosen option, the main question first, -1 where nobody answered; and the number of
        options of each question.
    """
    main = rated.labels[0].question if len(rated.labels) else ""
    said: dict[tuple[Target, str], dict[str, list[Value]]] = defaultdict(lambda: defaultdict(list))
    for label in labels:
        if label.value is not None and label.question != main:
            said[label.target, label.annotator][label.question].append(label.value)
    chosen: dict[str, set[Value]] = defaultdict(set)
    sheets: list[dict[str, Value]] = []
    again: dict[tuple[Target, str], int] = defaultdict(int)
    for label in rated.labels:
        who = (label.target, label.annotator)
        sheet = {q: values[again[who]] for q, values in said[who].items() if again[who] < len(values)}
        again[who] += 1
        sheets.append(sheet)
        for question, value in sheet.items():
            chosen[question].add(value)
    tasks = {question: _places(values) for question, values in sorted(chosen.items()) if len(values) > 1}
    others = [[tasks[q][sheet[q]] if q in sheet else -1 for q in tasks] for sheet in sheets]
    answers = np.column_stack([rated.answer, np.array(others, dtype=np.intp).reshape(len(sheets), len(tasks))])
    return answers.astype(np.intp), (len(rated.options), *(max(place.values()) + 1 for place in tasks.values()))


def _places(values: set[Value]) -> dict[Value, int]:
    """Each value's place: numbers in their order, words by the alphabet, at most `MOST_OPTIONS` places."""
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    count = min(len(ordered), MOST_OPTIONS)
    return {value: place * count // len(ordered) for place, value in enumerate(ordered)}
