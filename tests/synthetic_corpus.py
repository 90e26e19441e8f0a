"""Synthetic corpora with known parameters: rated turns, ratings with thumbs, and rated chats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accord.testing.synthetic_ratings import (
    Planted,
    annotator_levels,
)
from accord.values import Conversation, Label, Labels, Question, Rubric, Scale, Target, Turn


def planted_turns(
    conversations: int = 120,
    turns: int = 8,
    annotators: int = 3,
    features: int = 8,
    spread: float = 0.8,
    inside: float = 0.05,
    noise: float = 0.5,
    seed: int = 0,
) -> Planted:
    """Draw turns whose conversations have levels that the evidence identifies but does not explain.

    y = round(3 + x·w + level of the conversation + level of the annotator + noise) on a scale of five, each turn rated
    by
    one annotator; x varies inside a conversation by a standard deviation of `inside`, the levels have one of `spread`.
    A
    split that separates turns of one conversation leaks its level.
    """
    rng = np.random.default_rng(seed)
    rows = conversations * turns
    of = np.repeat(np.arange(conversations), turns)
    x = rng.normal(size=(conversations, features))[of] + rng.normal(scale=inside, size=(rows, features))
    weights = np.linspace(0.5, 0.0, features)
    levels = annotator_levels(annotators, 0.4)
    names = list(levels)
    targets = tuple(Target(f"c{c:04d}", turn=2 * (row % turns) + 1) for row, c in enumerate(of))
    own = rng.normal(scale=spread, size=conversations)[of] + rng.normal(scale=noise, size=rows)
    who = rng.integers(annotators, size=rows)
    labels = []
    for row, target in enumerate(targets):
        name = names[who[row]]
        value = 3 + x[row] @ weights + own[row] + levels[name]
        labels.append(Label(target, "main", name, int(np.clip(round(value), 1, 5))))
    return Planted.of(targets, x, labels, 5, weights, levels)


def planted_thumbs(
    ratings: int = 50, users: int = 200, each: int = 5, conversations: int = 600, features: int = 12, seed: int = 0
) -> tuple[Planted, Labels]:
    """Draw staff ratings of a few conversations, users' thumbs on others, and the ratings to predict.

    y = round(3 + x·w + level of the conversation + level of the annotator + noise) on a scale of five is the rating of
    one
    of three members of staff; a thumb is 1 if the same sum, for the user, is above 0, else 0. Users show thumbs on half
    of
    the conversations, `ratings` of which staff rated too.

    Returns:
        The training corpus, and the staff ratings of the other half.
    """
    rng = np.random.default_rng(seed)
    x, order = rng.normal(size=(conversations, features)), rng.permutation(conversations)
    weights = rng.normal(size=features)
    weights *= 0.8 / np.linalg.norm(weights)
    worth = x @ weights + rng.normal(scale=0.5, size=conversations)
    levels, own = annotator_levels(3, 0.4), rng.normal(scale=0.5, size=users)
    targets, names = tuple(Target(f"c{place:04d}") for place in range(conversations)), list(levels)

    def rated(place: int) -> Label:
        name = names[place % 3]
        value = 3 + worth[place] + levels[name] + rng.normal(scale=0.8)
        return Label(targets[place], "main", name, int(np.clip(round(value), 1, 5)))

    old, new = np.split(order, 2)
    labels = [rated(int(place)) for place in old[:ratings]]
    for user in range(users):
        for place in rng.choice(old, each, replace=False):
            thumb = worth[place] + own[user] + rng.normal() > 0
            labels.append(Label(targets[place], "thumb", f"user-{user}", int(thumb)))
    return Planted.of(targets, x, labels, 5, weights, levels), Labels([rated(int(place)) for place in new])


KINDS = ("garden", "engine", "violin", "recipe")
_WORDS = {
    "garden": "The roses need water in the evening, and the soil wants compost before the frost",
    "engine": "The piston rattles when the oil is low, and the gearbox slips on a steep road",
    "violin": "The bow wants rosin, and the upper string goes out of tune after every concert",
    "recipe": "The dough has to rest in a warm bowl, and the oven needs twenty minutes to heat",
}


def rated_chats(count: int = 40, people: Sequence[str] = ("ann", "bob")) -> tuple[list[Conversation], Labels, Rubric]:
    """Return conversations of four kinds with qualities 1 to 5, rated by some annotators; bob is a little stricter."""
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
