"""Which conversations are made: each way takes the same topics, drawn by a seed; the same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from accord.edges import BadInput
from accord.synth.settings import READERS, SYNTH_METHODS, SynthMethod, SynthSettings
from accord.values import Topic


@dataclass(frozen=True)
class ConversationPlan:
    """A conversation before it is made; `draw` counts those of one way about one topic."""

    how: SynthMethod
    topic: Topic
    persona: str
    draw: int


def possible_methods(settings: SynthSettings, has_documents: bool, topics: Sequence[Topic]) -> tuple[SynthMethod, ...]:
    """The ways that topics and documents allow, or those that are named.

    Raises:
        BadInput: A way that is named needs what is not there.
    """
    oracle = any(topic.documents for topic in topics)
    may = [how for how in SYNTH_METHODS if how == "DS1" or (has_documents and (how != "DS2" or oracle))]
    for how in settings.methods:
        if how in READERS and not has_documents:
            raise BadInput(f"{how} needs documents; name them: --documents FOLDER, or documents under synth:")
        if how not in may:
            raise BadInput(f"{how} needs topics that name their documents: topics: [{{text: ..., documents: [ID]}}]")
    return tuple(how for how in may if not settings.methods or how in settings.methods)


def plan_conversations(
    settings: SynthSettings, hows: Sequence[SynthMethod], topics: Sequence[Topic], personas: Sequence[str], seed: int
) -> list[ConversationPlan]:
    """The conversations, by turns of each way; DS2 takes the topics that name documents alone."""
    drawn = random.Random(f"synth/{seed}")
    order = drawn.sample(list(topics), len(topics))
    count = len(order) if settings.count is None else settings.count
    who = [drawn.choice(personas) if personas else "" for _ in range(count)]
    found = []
    for place in range(count):
        for how in hows:
            own = [topic for topic in order if topic.documents] if how == "DS2" else order
            if own and (settings.count is not None or place < len(own)):
                found.append(ConversationPlan(how, own[place % len(own)], who[place], place // len(own)))
    return found
