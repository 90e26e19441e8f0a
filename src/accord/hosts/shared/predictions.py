"""Scores as predictions in annotation tools, in files that the tools import.

A prediction is an answer to the project's question about a whole conversation: the option next to the score, and how
probable it is. `accord import` reads the exports of these tools, and skips predictions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from accord.edges import BadInput, write_atomically
from accord.formats import read
from accord.hosts.shared.push import Place, host_score, number_of
from accord.hosts.shared.push_file import score_rows
from accord.store import batches
from accord.values import POPULATION, Conversation, Question
from accord.verbs import Project

TOOLS = ("label-studio", "argilla")
CONVERSATIONS = 1_000
"""Conversations that are read from the store together."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted answer of a person about a conversation.

    Attributes:
        value: Score, in units of the scale.
        answer: Option of the scale next to the score; the score itself on a real scale.
        probability: Probability of this option, or `None` if it is unknown.
        annotator: Annotator whose answer is predicted, or `population`.
        evaluator: Name and signature of the evaluator.
        comment: Score, band and evaluator in one sentence.
    """

    value: float
    answer: float | int | str
    probability: float | None
    annotator: str
    evaluator: str
    comment: str


class Tool(Protocol):
    """Module of an annotation tool."""

    def record(self, conversation: Conversation, question: Question, predictions: Sequence[Prediction]) -> Any:
        """Return the JSON value of a conversation with its predictions."""
        ...

    def hint(self, question: Question) -> str:
        """Return a sentence about the settings of the tool that suit the file."""
        ...


@dataclass
class PredictionFile:
    """Counts of a file of predictions, and a hint for its import; `skipped` has rows without a prediction by reason.

    Without predictions, the file is not written.
    """

    host: str
    out: str
    hint: str
    rows: int = 0
    sent: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def is_complete(self) -> bool:
        """True if every row with a score became a prediction."""
        return all(reason.startswith("unscored") for reason in self.skipped)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**vars(self), "skipped": dict(self.skipped)}


def write_predictions(
    project: Project,
    tool: str,
    scores: str,
    out: Path,
    conversations: Sequence[Path] = (),
    on_rows: Callable[[int], None] = lambda rows: None,
) -> PredictionFile:
    """Write the conversations of a file of scores with predictions, for import into an annotation tool.

    Args:
        project: Project with the question; its store has the imported conversations.
        tool: Name of the tool, one of `TOOLS`.
        scores: File of scores, or folder of parts.
        out: File to write: a list in JSON; not written without a prediction.
        conversations: Files with the conversations that were scored, for those that the store lacks.
        on_rows: Called with the number of rows read.

    Raises:
        BadInput: A file cannot be read, or holds no scores.
    """
    module = cast(Tool, cast(Any, import_module(f"accord.hosts.{tool.replace('-', '_')}")))
    question = project.question
    counts = PredictionFile(tool, str(out), module.hint(question))
    found: dict[str, dict[str, Prediction]] = {}
    for row in score_rows(scores):
        counts.rows += 1
        prediction = _prediction(row, question)
        if isinstance(prediction, str):
            counts.skipped[prediction] += 1
        else:
            found.setdefault(str(row["conversation"]), {})[prediction.annotator] = prediction
        on_rows(counts.rows)
    if not found and counts.rows == counts.skipped[_NOT_A_SCORE]:
        raise BadInput(f"{scores} holds no scores of an evaluator; name a file of: accord score")
    records = []
    for conversation in _conversations(project, found.keys(), conversations):
        predictions = list(found.pop(conversation.id).values())
        records.append(module.record(conversation, question, predictions))
        counts.sent += len(predictions)
    counts.skipped += Counter({_NO_TEXT: sum(map(len, found.values()))})
    if records:
        write_atomically(out, json.dumps(records, ensure_ascii=False, indent=1) + "\n")
    return counts


_NOT_A_SCORE, _OF_TURN = "not a row of scores", "a score of a turn; a task is a whole conversation"
_NO_TEXT = (
    "the conversation is neither in the store nor in a file of --from; name the file that was scored: --from FILE"
)


def _prediction(row: Mapping[str, Any], question: Question) -> Prediction | str:
    """Return the prediction of a row of scores, or the reason why there is none."""
    if "conversation" not in row or "value" not in row:
        return _NOT_A_SCORE
    if row.get("turn") not in (None, ""):
        return _OF_TURN
    score = host_score(row, Place("session", str(row["conversation"])), question.id)
    if isinstance(score, str):
        return score
    answer, probability = _answer(score.value, question, row.get("distribution"))
    annotator = str(row.get("annotator") or POPULATION)
    return Prediction(score.value, answer, probability, annotator, str(score.details["evaluator"]), score.comment)


def _answer(value: float, question: Question, distribution: Any) -> tuple[float | int | str, float | None]:
    """Return the option next to a score, and its probability."""
    scale = question.scale
    options = [option for option in scale.options if not isinstance(option, str)]
    if not options:
        return value, None
    answer = min(options, key=lambda option: abs(float(option) - value))
    shares = distribution
    if isinstance(distribution, str):
        with suppress(ValueError, RecursionError):  # a table of another origin; the answer has no probability
            shares = json.loads(distribution)
    share = number_of(shares.get(f"{float(answer):g}")) if isinstance(shares, Mapping) else None
    return answer, share


def _conversations(project: Project, names: Any, files: Sequence[Path]) -> Iterator[Conversation]:
    """Yield conversations by their ids, from files first; each id once."""
    missing = set(names)
    for file in files:
        for record in read(file):
            if record.conversation.id in missing:
                missing.discard(record.conversation.id)
                yield record.conversation
    for batch in batches(sorted(missing), CONVERSATIONS):
        yield from project.store.conversations(batch)


def messages_of(conversation: Conversation) -> list[dict[str, str]]:
    """Return the messages as role and text."""
    return [{"role": turn.role, "content": turn.content} for turn in conversation.turns]
