"""A fitted evaluator as a reward: a number for each reply, in the calling convention of TRL's reward functions.

from trl import GRPOTrainer
trainer = GRPOTrainer(..., reward_funcs=Reward(load_evaluator("evaluators/mixture")))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.edges import BadInput, sendable
from accord.learning import Evaluator
from accord.live.scorer import check_live
from accord.models import LIKELIHOOD, Models, memory_models, run
from accord.values import Conversation, Document, Sample, Score, Turn

Said = str | Sequence[Mapping[str, Any]]
"""A text, or messages with a role and a content."""


class Reward:
    """What a person nobody has met is expected to say of each reply, in units of the scale.

    Without a score (an empty reply, one of punctuation or emoji alone, or one that nothing is known of) the reward is
    the scale's floor: what says nothing is never better than the worst that can be said. An evaluator with a gate
    (`plausibility: true`) has its likelihood model asked about every reply, since what is rewarded is learned: words in
    no order, or a reply to something else, are worth little then.

    Args:
        evaluator: A fitted one whose sources are live, unless `models` are given.
        missing: The reward of a reply without a score; by default the scale's lowest value.
        models: Whom sources that are not live may ask; without them nobody is asked.
    """

    __name__ = "accord_reward"

    def __init__(self, evaluator: Evaluator, missing: float | None = None, models: Models | None = None) -> None:
        """Prepare.

        Raises:
            BadInput: A source of the evaluator is not live, and there are no models.
            NotFitted: It has learned nothing yet.
        """
        check_live(evaluator, asks=models is not None)
        self.evaluator = evaluator
        self.missing = float(min(evaluator.question.scale.numbers)) if missing is None else missing
        gate = {LIKELIHOOD: evaluator.models[LIKELIHOOD]} if LIKELIHOOD in evaluator.models else {}
        self._models = models or memory_models(gate)

    def one(self, prompt: Said, response: Said, documents: Sequence[str] = ()) -> float:
        """The reward of one reply."""
        return self([prompt], [response], [documents])[0]

    def __call__(
        self,
        prompts: Sequence[Said],
        completions: Sequence[Said],
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
        return [score.value if isinstance(score, Score) else self.missing for score in scores]


def _sample(place: int, prompt: Said, completion: Said, documents: Sequence[str] | str | None) -> Sample:
    """The reply as the last turn of a conversation; what tools gave back is no part of it."""
    before = _turns(prompt, "user")
    reply = "\n".join(turn.content for turn in _turns(completion, "assistant") if turn.role == "assistant")
    turns = (*before, Turn("assistant", reply))
    given = [documents] if isinstance(documents, str) else documents or ()
    return Sample(Conversation(str(place), turns, tuple(Document(sendable(text)) for text in given)), len(turns) - 1)


def _turns(said: Said, role: str) -> list[Turn]:
    if isinstance(said, str):
        return [Turn(role, sendable(said))]
    return [Turn(str(message.get("role", role)), sendable(str(message.get("content") or ""))) for message in said]
