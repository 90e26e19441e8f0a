"""A decisions endpoint behind the chat seam: a prompt in, the distribution over one question's options out."""

from __future__ import annotations

from accord.conversation import Conversation, sendable
from accord.llm.decisions import DecisionsModel, Request, asked_of, read_decided
from accord.llm.model import CallFailed, Prompt, Reply, Subject, Unanswered
from accord.llm.render import answer_labels
from accord.rubric import Question


class DecidedChat:
    """A chat model that answers every prompt with one question's distribution.

    The reply's `first_token` holds a probability by the label that a prompt shows for each option (`answer_labels`),
    given that the endpoint does not refuse; its `text` is the likeliest one's.
    """

    def __init__(self, model: DecisionsModel, question: Question) -> None:
        """`question` is what is asked about each prompt."""
        self.name = model.name
        self.question = question
        self._model = model

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Ask the question about a prompt.

        Raises:
            CallFailed: The call failed; `refused` where the question was, `no option` where no option has a
                probability.
            BadInput: The question's scale is real-valued.
            ModelError: No call can succeed.
        """
        decided = await self._model.ask(request_of(prompt, self.question))
        [(mass, reason)] = decided.answers
        answer = read_decided(self.question, mass, reason)
        if isinstance(answer, Unanswered):
            raise CallFailed(answer.reason, answer.detail)
        labels = answer_labels(self.question.scale)
        shares = {label: answer.probabilities[option] for label, option in labels.items()}
        likeliest = max(shares, key=lambda label: shares[label])
        return Reply(likeliest, decided.version, shares, decided.usage)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


def request_of(prompt: Prompt, question: Question) -> Request:
    """What is sent for a prompt, so that it can be priced: its messages' words one after another, and the question.

    Raises:
        BadInput: The question's scale is real-valued.
    """
    said = "\n\n".join(message.content for message in prompt.messages)
    return Request(sendable(said), (asked_of(Subject(Conversation("", ())), question),))
