"""The recorded judge: answers that a model gave earlier, replayed from a file of judgements.

A recorded number between two options of an ordered scale (`1.8`, the mean of several runs, say) is an expected value:
its probability goes to the two options around it, so that their mean is that number. Several runs of one item are one
distribution, the mean of theirs. A scale with more options than a judge is asked to choose from (0 to 100, real-valued)
is answered on eleven of them, in the same way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, UnknownName
from accord.formats import read_rows
from accord.models.model import Answer, Unanswered
from accord.models.reply_parsing import NO_DISTRIBUTION, distribution_error
from accord.values import ISSUE, Question, Sample

JUDGEMENTS_FILE = "judgments.jsonl.gz"
NOT_RECORDED = "not recorded"
RECORDED_ROUNDING = 0.02
"""How far a recorded distribution, rounded when it was written, may sum past 1."""


Runs = Sequence[Mapping[str, float]]
"""The distributions of every time that one question was asked about one item."""


@dataclass(frozen=True)
class RecordedAnswers:
    """What one model answered: the distributions of all runs, by item and question."""

    model: str
    answers: dict[tuple[str, str], list[Mapping[str, float]]] = field(default_factory=dict)

    @property
    def questions(self) -> Counter[str]:
        """How many items each question was answered about."""
        return Counter(question for (_, question), runs in self.answers.items() if runs)

    def answered(self, question: str | None = None) -> set[str]:
        """Items with an answer to a question, in any case of its letters; without one, to any question."""
        name = None if question is None else question.casefold()
        return {item for (item, asked), runs in self.answers.items() if runs and name in (None, asked.casefold())}

    def options(self, question: str) -> Counter[str]:
        """What was answered to a question, counted over items and runs; of a distribution every option it names."""
        return Counter(
            option for (_, asked), runs in self.answers.items() if asked == question for run in runs for option in run
        )


def read_recordings(paths: Iterable[str | Path]) -> dict[str, RecordedAnswers]:
    """Every model's answers in some files of judgements, or benchmark folders that hold one, by the model's name.

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is no judgement.
    """
    recorded: dict[str, RecordedAnswers] = {}
    for path in paths:
        for where, row in _judgements(Path(path)):
            name = str(row["judge_model"])
            of_model = recorded.setdefault(name, RecordedAnswers(name)).answers
            runs = of_model.setdefault((str(row["item_id"]), str(row["question"])), [])
            distribution = _distribution(row, where)
            if distribution:
                runs.append(distribution)
    return recorded


def question_of(model: str, question: str) -> str:
    """Id of a question as answered by another recorded model than the judge."""
    return f"{question} ({model})"


def recorded_item(sample: Sample) -> str:
    """Return the name under which a recording holds a sample.

    Turns of a dialogue may have been recorded as items of their own (`items` in its metadata). Otherwise an item about
    a turn is about the last one of its conversation.
    """
    conversation, turn = sample.conversation, sample.turn
    items = conversation.metadata.get("items")
    if isinstance(items, Mapping) and turn is not None:
        return str(items.get(str(turn)))
    is_earlier = turn is not None and conversation.reply is None and turn != len(conversation.turns) - 1
    return str(sample.target) if is_earlier else conversation.id


class RecordedJudge:
    """Replays `{"item_id", "question", "judge_model", "distribution" | "value", "run"}` rows.

    Where a question was asked several times (`run`), the distributions are averaged. A recorded question is found by
    its name, in any case of its letters.
    """

    mode = "recorded"
    together = 1000

    def __init__(
        self, recorded: Mapping[tuple[str, str], Runs], name: str, others: Iterable[RecordedAnswers] = ()
    ) -> None:
        """Create a judge from what was recorded.

        Args:
            recorded: Distributions of all runs, by item and question.
            name: The model that gave them.
            others: Answers of other models, which are found under `question_of`.
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
        """Read judgement files, or benchmark folders that hold one.

        Args:
            paths: Files of judgements, or folders that hold `judgments.jsonl.gz`.
            model: The recorded model that is the judge, if the files hold several. Answers of the others are replayed
                too, under ids of their own (`question_of`).

        Raises:
            BadInput: A file cannot be read, a row is no judgement, or several models are there and none is named.
            UnknownName: The named model is not in the files.
        """
        recorded = read_recordings(paths)
        if model is None and len(recorded) != 1:
            raise BadInput(
                f"the recording holds {len(recorded)} models; name one: {', '.join(sorted(recorded))} (models: "
                "{judge: {mode: recorded, model: NAME}}, or --recorded-model NAME)"
            )
        chosen = model if model is not None else next(iter(recorded))
        if chosen not in recorded:
            raise UnknownName("recorded model", chosen, recorded)
        others = [recording for name, recording in recorded.items() if name != chosen]
        return cls(recorded[chosen].answers, chosen, others)

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The recorded distributions themselves: another recording is another answer."""
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

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Any]:
        """Nothing goes over a wire."""
        return ()

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """The recorded answers; `not recorded` for a question nobody asked then."""
        return [self._one(sample, question) for question in questions]

    async def close(self) -> None:
        """Nothing is open."""

    def _runs(self, sample: Sample, question: Question) -> Runs:
        """All runs of a question about a sample."""
        return self._recorded.get((recorded_item(sample), question.id.removeprefix(ISSUE).casefold()), ())

    def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        runs = self._runs(sample, question)
        if not runs:
            return Unanswered(question.id, NOT_RECORDED, "the recording has no answer for this conversation")
        mean = {option: sum(run.get(option, 0.0) for run in runs) / len(runs) for option in set().union(*runs)}
        wrong = distribution_error(mean.values(), RECORDED_ROUNDING)
        if wrong is not None:
            return Unanswered(question.id, NO_DISTRIBUTION, f"recorded for {question.id!r}: {wrong}")
        return on_scale(question, mean)


def on_scale(question: Question, mass: Mapping[str, float]) -> Answer:
    """An answer on the scale's own options, in their order; all mass that has no place on the scale is outside.

    Options are compared as numbers where they are numbers (`1.0` is `1`), and found by their meaning too. A number
    between two options of an ordered scale goes to both, so that the mean is that number.
    """
    options = [str(option) for option in question.scale.options]
    inside = dict.fromkeys(options, 0.0)
    named = {_plain(option): option for option in options}
    named |= {text.casefold(): option for option, text in question.meanings.items() if text.casefold() not in named}
    numbers = [float(option) for option in options] if question.scale.is_ordered else []
    for option, p in mass.items():
        own = named.get(_plain(option)) or named.get(option.strip().casefold())
        for place, share in [(own, 1.0)] if own is not None else _between(option, options, numbers):
            inside[place] += share * float(p)
    return Answer(question.id, inside, max(0.0, 1.0 - sum(inside.values())))


def _between(written: str, options: Sequence[str], numbers: Sequence[float]) -> list[tuple[str, float]]:
    """The two options around a number, each with its share; none where it is no number, or off the scale.

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


def _judgements(path: Path) -> Iterator[tuple[Callable[[str], BadRow], Mapping[str, Any]]]:
    """Each row, and how to complain of it."""
    found = path / JUDGEMENTS_FILE if path.is_dir() else path
    if not found.is_file():
        raise BadInput(f"no recorded judgements at {found}")
    for row in read_rows(found):
        if isinstance(row, BadRow):
            raise row
        missing = {"item_id", "question", "judge_model"} - row.fields.keys()
        complain = partial(BadRow, str(found), row.line)
        if missing:
            raise complain(f"a recorded judgement has no {sorted(missing)[0]!r}")
        yield complain, row.fields


def _distribution(row: Mapping[str, Any], complain: Callable[[str], BadRow]) -> Mapping[str, float]:
    """The row's distribution; a bare value is a distribution with all its mass on it; nothing is no run."""
    distribution, value = row.get("distribution"), row.get("value")
    if distribution is None:
        return {} if value is None else {str(value): 1.0}
    numbers = distribution.values() if isinstance(distribution, dict) else [None]
    if any(not isinstance(p, int | float) or not 0 <= p <= 1 + 1e-6 for p in numbers):
        raise complain("a distribution maps options to probabilities")
    return {str(option): float(p) for option, p in distribution.items()}
