"""A scripted model that writes prompts, and scores the better the more its examples are like the input.

How good a conversation is can be read from its words; the model errs on an input by how few of the examples that it is
shown are of the same kind, and which way it errs differs from set to set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from accord.models import Prompt
from accord.values import Conversation, Label, Labels, Question, Rubric, Scale, Target, Turn

KINDS = ("garden", "engine", "violin", "recipe")
_WORDS = {
    "garden": "The roses need water in the evening, and the soil wants compost before the frost",
    "engine": "The piston rattles when the oil is low, and the gearbox slips on a steep road",
    "violin": "The bow wants rosin, and the upper string goes out of tune after every concert",
    "recipe": "The dough has to rest in a warm bowl, and the oven needs twenty minutes to heat",
}
_SAID = re.compile(r"case (\d+) of kind (\w+) and worth (\d)")
_NUMBERED = re.compile(r"\(version (\d+)\)")


def rated_chats(count: int = 40, people: Sequence[str] = ("ann", "bob")) -> tuple[list[Conversation], Labels, Rubric]:
    """Conversations of four kinds, each worth 1 to 5, with what some people say of them: bob is a little stricter."""
    question = Question(id="overall", text="How good is the answer?", scale=Scale(options=(1, 2, 3, 4, 5)))
    chats, labels = [], []
    for number in range(count):
        kind, worth = KINDS[number % len(KINDS)], 1 + (number * 7 + number // 4) % 5
        chat = Conversation(
            f"chat-{number:03d}",
            (
                Turn("user", f"Tell me about this, please. {_WORDS[kind]}; or so they say, {number} times."),
                Turn("assistant", f"This is case {number} of kind {kind} and worth {worth}. {_WORDS[kind]}."),
            ),
        )
        chats.append(chat)
        for place, name in enumerate(people):
            value = max(1, worth - (place == 1 and number % 3 == 0))
            labels.append(Label(Target(chat.id), question.id, name, value))
    return chats, Labels(labels), Rubric(name="planted", questions=(question,), main=question.id)


@dataclass(frozen=True)
class Scorer:
    """A script for `ScriptedModel`: answers requests of in-context scoring.

    Attributes:
        farthest: The most that it errs, in units of the scale.
    """

    farthest: float = 2.0

    def __call__(self, prompt: Prompt) -> str:
        """A task prompt, or a score."""
        text = prompt.messages[-1].content
        if text.endswith("Answer with the task prompt alone."):
            number = hashlib.sha256(text.encode()).digest()[0]
            return f"Score the answer from 1 to 5 by how much it helps (version {number})."
        *shown, (_, kind, worth) = _SAID.findall(text)
        alike = sum(each == kind for _, each, _ in shown) / max(len(shown), 1)
        version = _NUMBERED.search(text)
        # Which way it errs follows from the examples, so that sets which share none err apart.
        sign = sum(1 if _coin(number, text[-200:]) else -1 for number, _, _ in shown) / max(len(shown), 1) or 0.4
        error = self.farthest * (1 - alike) * sign + (0.3 if version is None else 0.02 * (int(version[1]) % 7))
        return f"{min(5.0, max(1.0, int(worth) + error)):.2f}"


def _coin(*parts: str) -> bool:
    return hashlib.sha256(" ".join(parts).encode()).digest()[0] % 2 == 0


def subjects_by_kind(chats: Sequence[Conversation]) -> dict[str, list[str]]:
    """The ids of planted conversations by kind."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for chat, kind in product(chats, KINDS):
        if f"of kind {kind} " in chat.turns[-1].content:
            found[kind].append(chat.id)
    return found
