"""An evaluator of metrics, fitted to the replies of the sample's support conversations, which scores without a model."""

from __future__ import annotations

from collections.abc import Sequence

from small_sample import sources

from accord import Conversation, Evaluator, Label, Labels, Question, Rubric, Scale, Score, Unscored, read
from accord.evidence import (
    SourceContext,
    Training,
)
from accord.evidence.bank.reply_metrics import BANK
from accord.learning import EvaluatorSettings, make_evaluator
from accord.models import memory_models, run
from accord.values import Sample

QUESTION = Question(id="useful", text="Is it useful?", scale=Scale(options=(1, 2, 3, 4)))
CONTEXT = SourceContext(Rubric(name="useful", questions=(QUESTION,), main="useful"))


def support_chats() -> list[Conversation]:
    return [record.conversation for record in read(sources()[0])]


def replies(*chats: Conversation) -> list[Sample]:
    return [Sample(c, place) for c in chats for place, turn in enumerate(c.turns) if turn.role == "assistant"]


def unfitted(head: str = "curves", names: Sequence[str] = BANK) -> Evaluator:
    settings = {"metrics": {"names": tuple(names)}}
    return make_evaluator(head, EvaluatorSettings(head=head), QUESTION, CONTEXT, ("metrics",), settings)


def fitted(evaluator: Evaluator, samples: Sequence[Sample], labels: Labels) -> Evaluator:
    return run(evaluator.fit(Training(tuple(samples), labels, QUESTION)), memory_models())


def learned(chats: Sequence[Conversation], names: Sequence[str] = BANK) -> Evaluator:
    """An evaluator that learned from one annotator who prefers long replies."""
    samples = replies(*chats)
    labels = Labels(
        Label(s.target, "useful", "ann", 1 + min(3, len(s.conversation.turns[s.turn or 0].content) // 120))
        for s in samples
    )
    return fitted(unfitted(names=names), samples, labels)


def predicted(evaluator: Evaluator, samples: Sequence[Sample]) -> list[Score | Unscored]:
    """Batch scores."""
    return run(evaluator.predict(samples), memory_models())
