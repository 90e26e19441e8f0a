"""The recorded judge: a model's earlier answers from a file of judgements.

A recorded number between two options of an ordered scale, such as the mean 1.8 of several runs, is an expected value:
its probability is split between the two options so that their mean is that number. Several runs of one item are
averaged. If a scale has more options than a judge can choose from (0 to 100, real-valued), answers use eleven options.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, UnknownName, is_sendable
from accord.formats import VALUE_KEYS, read_rows
from accord.models.model import Answer, Judge, Unanswered
from accord.models.requests.reply_parsing import NO_DISTRIBUTION, distribution_error
from accord.values import ISSUE, Question, Sample

JUDGEMENTS_FILE = "judgments.jsonl.gz"
NOT_RECORDED = "not recorded"
RECORDED_ROUNDING = 0.02
"""Largest excess of the sum of a recorded distribution over 1; recorded probabilities are often rounded."""


Runs = Sequence[Mapping[str, float]]
"""Distributions of all runs of one question about one item."""


@dataclass(frozen=True)
class RecordedAnswers:
    """One model's answers: distributions of all runs by item and question."""

    model: str
    answers: dict[tuple[str, str], list[Mapping[str, float]]] = field(default_factory=dict)

    @property
    def questions(self) -> Counter[str]:
        """Number of items with an answer, by question."""
        return Counter(question for (_, question), runs in self.answers.items() if runs)

    def answered(self, question: str | None = None) -> set[str]:
        """Return the items with an answer to a question, ignoring case, or to any question."""
        name = None if question is None else question.casefold()
        return {item for (item, each), runs in self.answers.items() if runs and name in (None, each.casefold())}

    def options(self, question: str) -> Counter[str]:
        """Return the number of runs with each option of a question, over items; distributions count all options."""
        return Counter(
            option for (_, each), runs in self.answers.items() if each == question for run in runs for option in run
        )


def read_recordings(paths: Iterable[str | Path]) -> dict[str, RecordedAnswers]:
    """Read the answers of every model in files of judgements, or in benchmark folders with one, by model name.

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is not a judgement.
    """
    recorded: dict[str, RecordedAnswers] = {}
    for path in paths:
        for bad_row, row in _judgements(Path(path)):
            name = str(row["judge_model"])
            of_model = recorded.setdefault(name, RecordedAnswers(name)).answers
            runs = of_model.setdefault((str(row["item_id"]), str(row["question"])), [])
            distribution = _distribution(row, bad_row)
            if distribution:
                runs.append(distribution)
    return recorded


def question_of(model: str, question: str) -> str:
    """Return the id of a question as answered by a recorded model other than the judge."""
    return f"{question} ({model})"


def recorded_item(sample: Sample) -> str:
    """Return the item id of a sample in a recording.

    Turns of a dialogue may be separate items (`items` in its metadata). Otherwise an item about a turn is about the
    last turn of its conversation.
    """
    conversation, turn = sample.conversation, sample.turn
    items = conversation.metadata.get("items")
    if isinstance(items, Mapping) and turn is not None:
        return str(items.get(str(turn)))
    is_earlier = turn is not None and conversation.reply is None and turn != len(conversation.turns) - 1
    return str(sample.target) if is_earlier else conversation.id


class RecordedJudge(Judge):
    """Judge that replays `{"item_id", "question", "judge_model", "distribution" | "value", "run"}` rows.

    A value may also be named `rating`, `score`, `label`, `answer` or `result`.

    Distributions of several runs of a question are averaged. Questions are found by name, ignoring case.
    """

    mode = "recorded"
    together = 1000

    def __init__(
        self, recorded: Mapping[tuple[str, str], Runs], name: str, others: Iterable[RecordedAnswers] = ()
    ) -> None:
        """Create a judge from recorded answers.

        Args:
            recorded: Distributions of all runs, by item and question.
            name: The model that gave the answers.
            others: Answers of other models, with question ids from `question_of`.
        """
        self.name = name
        self._recorded: dict[tuple[str, str], Runs] = {}
        for (item, question), runs in recorded.items():
            self._recorded.setdefault((item, question.casefold()), runs)
        for other in others:
            for (item, question), runs in other.answers.items():
                self._recorded.setdefault((item, question_of(other.model, question).casefold()), runs)

    @classmethod
    def read(cls, paths: Iterable[str | Path], model: str | None = None) -> RecordedJudge:
        """Read judgement files, or benchmark folders with one.

        Args:
            paths: Files of judgements, or folders that hold `judgments.jsonl.gz`.
            model: The recorded model that is the judge, if the files have several. Answers of the others are replayed
                too, with question ids from `question_of`.

        Raises:
            BadInput: A file cannot be read, a row is not a judgement, or `model` is missing for several models.
            UnknownName: The named model is not in the files.
        """
        recorded = read_recordings(paths)
        if model is None and len(recorded) != 1:
            raise BadInput(
                f"the recording has {len(recorded)} models; allowed: {', '.join(sorted(recorded))}. Select one with "
                "models: {judge: {mode: recorded, model: NAME}}, or --recorded-model NAME"
            )
        chosen = model if model is not None else next(iter(recorded))
        if chosen not in recorded:
            raise UnknownName("recorded model", chosen, recorded)
        others = [recording for name, recording in recorded.items() if name != chosen]
        return cls(recorded[chosen].answers, chosen, others)

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the recorded distributions."""
        runs = self._runs(sample, question)
        recorded = [dict(run) for run in runs]
        return {
            "judge": self.name,
            "mode": self.mode,
            "target": str(sample.target),
            "question": question.id,
            "options": [str(option) for option in question.scale.options],
            "runs": recorded,
        }

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Return the recorded answers; a question without one is unanswered with `not recorded`."""
        return [self._one(sample, question) for question in questions]

    def _runs(self, sample: Sample, question: Question) -> Runs:
        """Return all runs of a question about a sample."""
        return self._recorded.get((recorded_item(sample), question.id.removeprefix(ISSUE).casefold()), ())

    def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        runs = self._runs(sample, question)
        if not runs:
            return Unanswered(question.id, NOT_RECORDED, "the recording has no answer for this conversation")
        mean = {option: sum(run.get(option, 0.0) for run in runs) / len(runs) for option in set().union(*runs)}
        error = distribution_error(mean.values(), RECORDED_ROUNDING)
        if error is not None:
            return Unanswered(question.id, NO_DISTRIBUTION, f"recorded for {question.id!r}: {error}")
        return on_scale(question, mean)


def on_scale(question: Question, mass: Mapping[str, float]) -> Answer:
    """Return an answer on the scale's options, in order; mass elsewhere is outside.

    Options are compared as numbers if possible (`1.0` is `1`), and found by their meaning too. A number between two
    options of an ordered scale is split between them so that the mean is that number.
    """
    options = [str(option) for option in question.scale.options]
    inside = dict.fromkeys(options, 0.0)
    named = {_plain(option): option for option in options}
    named |= {text.casefold(): option for option, text in question.meanings.items() if text.casefold() not in named}
    numbers = [float(option) for option in options] if question.scale.is_ordered else []
    for option, p in mass.items():
        exact = named.get(_plain(option)) or named.get(option.strip().casefold())
        for name, share in [(exact, 1.0)] if exact is not None else _between(option, options, numbers):
            inside[name] += share * float(p)
    return Answer(question.id, inside, max(0.0, 1.0 - sum(inside.values())))


def _between(written: str, options: Sequence[str], numbers: Sequence[float]) -> list[tuple[str, float]]:
    """Return the two options around a number, each with its share; empty for other texts and off the scale.

    >>> _between("1.8", ["1", "2", "3"], [1.0, 2.0, 3.0])
    [('1', 0.2), ('2', 0.8)]
    """
    try:
        number = float(written)
    except ValueError:
        return []
    if not numbers or not numbers[0] <= number <= numbers[-1]:
        return []
    above = bisect_right(numbers, number)
    low, high = numbers[above - 1], numbers[above]
    share = round((number - low) / (high - low), 12)
    return [(options[above - 1], round(1 - share, 12)), (options[above], share)]


def _plain(option: str) -> str:
    try:
        return format(float(option), "g")
    except ValueError:
        return option


_NAMED = ("item_id", "question", "judge_model")


def _judgements(path: Path) -> Iterator[tuple[Callable[[str], BadRow], Mapping[str, Any]]]:
    """Yield a function that makes an error about each row, and the row."""
    file = path / JUDGEMENTS_FILE if path.is_dir() else path
    if not file.is_file():
        raise BadInput(f"no recorded judgements at {file}")
    for row in read_rows(file):
        if isinstance(row, BadRow):
            raise row
        missing = set(_NAMED) - row.fields.keys()
        bad_row = partial(BadRow, str(file), row.line)
        if missing:
            raise bad_row(f"a recorded judgement has no {sorted(missing)[0]!r}")
        if (odd := next((name for name in _NAMED if not is_sendable(str(row.fields[name]))), None)) is not None:
            raise bad_row(f"{odd!r} of a recorded judgement holds NUL or half a surrogate pair")
        yield bad_row, row.fields


def _distribution(row: Mapping[str, Any], bad_row: Callable[[str], BadRow]) -> Mapping[str, float]:
    """Return the row's distribution; a value has all the mass, and an empty row has no distribution."""
    distribution = row.get("distribution")
    value = next((row[name] for name in VALUE_KEYS if row.get(name) not in (None, "")), None)
    if distribution is None:
        return {} if value is None else {str(value): 1.0}
    numbers = distribution.values() if isinstance(distribution, dict) else [None]
    if any(not isinstance(p, int | float) or not 0 <= p <= 1 + 1e-6 for p in numbers):
        raise bad_row("a distribution maps options to probabilities")
    return {str(option): float(p) for option, p in distribution.items()}
