"""A fitted evaluator as a reward function of TRL: a number for each reply.

from trl import GRPOTrainer
trainer = GRPOTrainer(..., reward_funcs=Reward(load_evaluator("evaluators/mixture")))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.edges import BadInput, sendable
from accord.formats import fields_about
from accord.learning import Evaluator
from accord.live.scorer import check_live
from accord.models import LIKELIHOOD, Models, memory_models, run
from accord.scoring import Scorer
from accord.values import Conversation, Document, Sample, Score, Turn

Prompt = str | Sequence[Mapping[str, Any]]
"""A text, or messages with `role` and `content`."""


class Reward:
    """Expected rating of each reply by a new annotator, in units of the scale.

    A reply without a score (empty, without words, or without evidence) gets the lowest value of the scale, so that it
    is never better than a bad reply. An evaluator with a plausibility check (`plausibility: true`) asks its likelihood
    model about every reply, since training exploits every reward: shuffled words and unrelated replies get low rewards.

    Args:
        evaluator: A fitted evaluator; its sources are live unless `models` are given.
        missing: Reward of a reply without a score; by default the lowest value of the scale.
        models: Models for sources that are not live; None sends no requests.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     reward = Reward(project.fit("constant").evaluator)
    >>> rewards = reward(["Where is my order?"] * 2, ["It arrives on Monday.", ""])
    >>> len(rewards), all(1 <= each <= 4 for each in rewards)
    (2, True)
    """

    __name__ = "accord_reward"

    def __init__(self, evaluator: Evaluator, missing: float | None = None, models: Models | None = None) -> None:
        """Check the evaluator.

        Raises:
            BadInput: A source of the evaluator is not live, and `models` is None.
            NotFitted: The evaluator is not fitted.
        """
        check_live(evaluator, asks=models is not None)
        self.evaluator = evaluator
        self.missing = float(min(evaluator.question.scale.numbers)) if missing is None else missing
        check = {LIKELIHOOD: evaluator.models[LIKELIHOOD]} if LIKELIHOOD in evaluator.models else {}
        self._models = models or memory_models(check)

    def one(self, prompt: Prompt, response: Prompt, documents: Sequence[str] = ()) -> float:
        """Return the reward of one reply.

        Args:
            prompt: Text of the user, or messages with `role` and `content`.
            response: Text of the reply, or messages.
            documents: Documents available to the assistant.
        """
        return self([prompt], [response], [documents])[0]

    def __call__(
        self,
        prompts: Sequence[Prompt],
        completions: Sequence[Prompt],
        documents: Sequence[Sequence[str] | str | None] | None = None,
        **columns: Any,
    ) -> list[float]:
        """Return (n,) rewards of a batch.

        Args:
            prompts: n prompts, as texts or messages.
            completions: n replies, as texts or messages.
            documents: Documents of each reply: the column `documents` of a data set.
            **columns: Other columns, which trainers pass: texts and numbers by reply are metadata, such as the
                version of the assistant in `system`.

        Raises:
            BadInput: The numbers of prompts, completions and documents differ.
        """
        sources: Sequence[Sequence[str] | str | None] = [()] * len(prompts) if documents is None else documents
        if not len(prompts) == len(completions) == len(sources):
            raise BadInput(
                f"{len(prompts)} prompts, {len(completions)} completions and {len(sources)} lists of documents; "
                "give the same number of each"
            )
        about = [_metadata(place, columns, len(prompts)) for place in range(len(prompts))]
        rows = zip(prompts, completions, sources, about, strict=True)
        samples = [_sample(place, *each) for place, each in enumerate(rows)]
        _, scores = run(Scorer(self.evaluator).flow(samples), self._models)
        return [score.value if isinstance(score, Score) else self.missing for score in scores]


def _metadata(place: int, columns: Mapping[str, Any], count: int) -> Mapping[str, Any]:
    """Return the entries of a row in the columns that have one for each reply."""
    rows = {
        name: column for name, column in columns.items() if isinstance(column, list | tuple) and len(column) == count
    }
    metadata: Mapping[str, Any] = fields_about({name: column[place] for name, column in rows.items()})["metadata"]
    return metadata


def _sample(
    place: int,
    prompt: Prompt,
    completion: Prompt,
    documents: Sequence[str] | str | None,
    metadata: Mapping[str, Any],
) -> Sample:
    """Return the reply as the last turn of a conversation, without results of tools."""
    before = _turns(prompt, "user")
    reply = "\n".join(turn.content for turn in _turns(completion, "assistant") if turn.role == "assistant")
    turns = (*before, Turn("assistant", reply))
    given = [documents] if isinstance(documents, str) else documents or ()
    read = tuple(Document(sendable(text)) for text in given)
    return Sample(Conversation(str(place), turns, read, metadata), len(turns) - 1)


def _turns(prompt: Prompt, role: str) -> list[Turn]:
    if isinstance(prompt, str):
        return [Turn(role, sendable(prompt))]
    return [Turn(str(message.get("role", role)), sendable(str(message.get("content") or ""))) for message in prompt]
