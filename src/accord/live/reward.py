"""A fitted evaluator as a reward: a number for each reply, in the calling convention of TRL's reward functions.

from trl import GRPOTrainer
trainer = GRPOTrainer(..., reward_funcs=Reward(load_evaluator("evaluators/mixture")))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.learning import Evaluator
from accord.live.scorer import live_metrics
from accord.models import memory_models, run
from accord.values import BadInput, Conversation, Document, Sample, Score, Turn, sendable

Message = str | Sequence[Mapping[str, Any]]
"""A text, or messages with a role and a content."""


class Reward:
    """What a person nobody has met is expected to say of each reply, in units of the scale.

    Args:
        evaluator: A fitted one that learned from metrics of replies.
        missing: The reward of a reply that cannot be scored (empty, or with nothing to measure).
    """

    __name__ = "accord_reward"

    def __init__(self, evaluator: Evaluator, missing: float = 0.0) -> None:
        """Prepare.

        Raises:
            BadInput: The evaluator learned from more than metrics of replies.
        """
        self.evaluator, self.missing = evaluator, missing
        self._models = memory_models()  # nobody is asked: every source is live
        live_metrics(evaluator)

    def one(self, prompt: Message, response: Message, documents: Sequence[str] = ()) -> float:
        """The reward of one reply."""
        return self([prompt], [response], [documents])[0]

    def __call__(
        self,
        prompts: Sequence[Message],
        completions: Sequence[Message],
        documents: Sequence[Sequence[str] | str | None] | None = None,
        **ignored: Any,
    ) -> list[float]:
        """(n,) rewards of a batch; a data set's column `documents` gives what each reply could draw on.

        Raises:
            BadInput: Not as many completions, or documents, as prompts.
        """
        sources: Sequence[Sequence[str] | str | None] = [()] * len(prompts) if documents is None else documents
        if not len(prompts) == len(completions) == len(sources):
            raise BadInput(
                f"{len(prompts)} prompts, {len(completions)} completions and {len(sources)} lists of documents; "
                "a batch has as many of each"
            )
        samples = [_sample(place, *each) for place, each in enumerate(zip(prompts, completions, sources, strict=True))]
        scores = run(self.evaluator.predict(samples), self._models)
        replies = [sample.conversation.turns[-1].content for sample in samples]
        return [
            score.value if isinstance(score, Score) and reply.strip() else self.missing
            for score, reply in zip(scores, replies, strict=True)
        ]


def _sample(place: int, prompt: Message, completion: Message, documents: Sequence[str] | str | None) -> Sample:
    """The reply as the last turn of a conversation; what tools gave back is no part of it."""
    before = _turns(prompt, "user")
    reply = "\n".join(turn.content for turn in _turns(completion, "assistant") if turn.role == "assistant")
    turns = (*before, Turn("assistant", reply))
    given = [documents] if isinstance(documents, str) else documents or ()
    return Sample(Conversation(str(place), turns, tuple(Document(sendable(text)) for text in given)), len(turns) - 1)


def _turns(said: Message, role: str) -> list[Turn]:
    if isinstance(said, str):
        return [Turn(role, sendable(said))]
    return [Turn(str(message.get("role", role)), sendable(str(message.get("content") or ""))) for message in said]
