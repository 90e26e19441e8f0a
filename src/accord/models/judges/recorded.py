"""The recorded judge: answers that a model gave earlier, replayed from a file of judgements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from accord.formats import read_rows
from accord.models.model import Answer, Unanswered
from accord.values import ISSUE, BadInput, BadRow, Question, Sample, Scale, UnknownName

JUDGEMENTS_FILE = "judgments.jsonl.gz"


class RecordedJudge:
    """Replays `{"item_id", "question", "judge_model", "distribution" | "value", "run"}` rows.

    Where a question was asked several times (`run`), the distributions are averaged.
    """

    mode = "recorded"
    together = 1000

    def __init__(self, recorded: Mapping[tuple[str, str], Sequence[Mapping[str, float]]], name: str) -> None:
        """`recorded` maps (conversation id, question id) to the distributions of its runs."""
        self.name = name
        self._recorded = recorded

    @classmethod
    def read(cls, paths: Iterable[str | Path], model: str | None = None) -> RecordedJudge:
        """Read judgement files, or benchmark folders that hold one.

        Args:
            paths: Files of judgements, or folders that hold `judgments.jsonl.gz`.
            model: Which recorded model to replay, where the files hold several.

        Raises:
            BadInput: A file cannot be read, a row is no judgement, or several models are there and none is named.
            UnknownName: The named model is not in the files.
        """
        recorded: dict[str, dict[tuple[str, str], list[Mapping[str, float]]]] = {}
        for path in paths:
            for where, row in _judgements(Path(path)):
                of_model = recorded.setdefault(str(row["judge_model"]), {})
                runs = of_model.setdefault((str(row["item_id"]), str(row["question"])), [])
                distribution = _distribution(row, where)
                if distribution:
                    runs.append(distribution)
        if model is None and len(recorded) != 1:
            raise BadInput(f"the recording holds {len(recorded)} models; name one: {', '.join(sorted(recorded))}")
        chosen = model if model is not None else next(iter(recorded))
        if chosen not in recorded:
            raise UnknownName("recorded model", chosen, recorded)
        return cls(recorded[chosen], chosen)

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The recorded distributions themselves: another recording is another answer."""
        runs = self._runs(sample, question)
        recorded = [dict(run) for run in runs]
        return {
            "judge": self.name,
            "mode": self.mode,
            "target": str(sample.target),
            "question": question.id,
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

    def _runs(self, sample: Sample, question: Question) -> Sequence[Mapping[str, float]]:
        """What was recorded of a subject; turns of a dialogue may have been recorded as items of their own."""
        items = sample.conversation.metadata.get("items")
        item = items.get(str(sample.turn)) if isinstance(items, Mapping) else None
        name = item if isinstance(item, str) else sample.conversation.id
        return self._recorded.get((name, question.id.removeprefix(ISSUE)), ())

    def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        runs = self._runs(sample, question)
        if not runs:
            return Unanswered(question.id, "not recorded", "the recording has no answer for this conversation")
        mean = {option: sum(run.get(option, 0.0) for run in runs) / len(runs) for option in set().union(*runs)}
        return on_scale(question.id, question.scale, mean)


def on_scale(question: str, scale: Scale, mass: Mapping[str, float]) -> Answer:
    """An answer that keeps only the scale's own options, in their order, and counts all other mass as outside.

    Options are compared as numbers where they are numbers: `1.0` is `1`.
    """
    plain: dict[str, float] = {}
    for option, p in mass.items():
        plain[_plain(option)] = plain.get(_plain(option), 0.0) + float(p)
    inside = {str(option): plain.get(_plain(str(option)), 0.0) for option in scale.options}
    return Answer(question, inside, max(0.0, 1.0 - sum(inside.values())))


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
