"""Synthetic corpora with known parameters: rated turns, ratings with thumbs, and the utility of demonstrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accord.methods import ExampleLibrary, Indices, Nodes, Pairs, Query, Vectors, random_nodes
from accord.testing import Planted, annotator_levels
from accord.values import Conversation, Label, Labels, Question, Rubric, Scale, Target, Turn

Floats = NDArray[np.float64]


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


MECHANISMS: Mapping[str, float] = {"match": 0.25, "absolute": 0.15, "relative": 0.3, "scores": 0.2, "prompt": 0.1}
"""Planted mechanisms with their default weights."""


@dataclass(frozen=True)
class PlantedUtility:
    """n rated examples, which are also the training inputs, and Q unseen inputs; all have one of T topics.

    Attributes:
        library: Examples and prompts.
        queries: (n + Q, h) vectors of the examples, then of the unseen inputs.
        topics: (n + Q,) topics.
        truth: (n + Q,) scores; those of unseen inputs stay hidden.
        fit: (T, ℓ) suitability of each prompt for each topic, in [0, 1].
        noise: (n + Q, n) contribution of each demonstration to the judge's error on each input.
        mechanisms: Share of utility of each planted mechanism; the shares sum to 1.
        loud: Share of chance in the size of an error: 0 none, 1 a normal deviate.
    """

    library: ExampleLibrary
    queries: Vectors
    topics: Indices
    truth: Floats
    fit: Floats
    noise: Floats
    mechanisms: Mapping[str, float] = field(default_factory=lambda: MECHANISMS)
    loud: float = 0.0

    @property
    def unseen(self) -> range:
        """Inputs that are not examples."""
        return range(len(self.library), len(self.topics))

    def query(self, query: int) -> Query:
        """Return an input for a selector."""
        return Query(self.queries[query], text_of(int(self.topics[query]), query))

    def utility(self, query: int, nodes: Nodes) -> Floats:
        """(N,) how much each node helps an input, in [0, 1]: the mean of the planted mechanisms by their shares.

        `match`: the share of demonstrations of the input's topic. `absolute`: whether the one next to the input is of
        its topic. `relative`: the share of neighbours of which the second's topic follows the first's. `scores`: twice
        the standard deviation of the demonstrations' scores, whether they show the whole scale; no example does that
        alone. `prompt`: how well the prompt suits the input's topic.
        """
        shown = self.topics[nodes.demonstrations]
        own = shown == self.topics[query]
        follows = shown[:, 1:] == (shown[:, :-1] + 1) % len(self.fit)
        parts: dict[str, Floats] = {
            "match": own.mean(axis=1),
            "absolute": own[:, -1].astype(float),
            "relative": follows.mean(axis=1),
            "scores": 2 * self.library.scores[nodes.demonstrations].std(axis=1),
            "prompt": self.fit[self.topics[query], nodes.prompt],
        }
        return np.asarray(sum(share * parts[name] for name, share in self.mechanisms.items()))

    def error(self, query: int, nodes: Nodes) -> Floats:
        """(N,) ŷ - y of the scripted judge: 1 - utility, its sign that of the demonstrations' mean noise.

        Sets without a common demonstration err independently, so that their mean errs less; sets that overlap do not.
        """
        k = nodes.demonstrations.shape[1]
        drawn = self.noise[query][nodes.demonstrations].sum(axis=1) / np.sqrt(k)
        size = (1 - self.loud) + self.loud * np.abs(drawn)
        return np.asarray((1 - self.utility(query, nodes)) * size * np.sign(drawn))

    def pairs(self, gamma: int = 4, k: int = 5, seed: int = 0) -> Pairs:
        """Algorithm 1 on the examples: γ random sets of the others a prompt, and how near the judge came."""
        rng, n, prompts = np.random.default_rng(seed), len(self.library), len(self.library.prompts)
        drawn = [
            random_nodes(rng, [other for other in range(n) if other != query], prompts, k, gamma) for query in range(n)
        ]
        whole = Nodes(np.concatenate([each.demonstrations for each in drawn]), np.tile(drawn[0].prompt, n))
        target = [np.exp(-np.abs(self.error(query, nodes))) for query, nodes in enumerate(drawn)]
        of = np.repeat(np.arange(n), prompts * gamma)
        return Pairs(self.queries[:n], self.library.texts, of, whole, np.concatenate(target))


def planted_utility(
    seed: int = 0,
    mechanisms: Mapping[str, float] = MECHANISMS,
    examples: int = 360,
    unseen: int = 100,
    topics: int = 6,
    prompts: int = 4,
    width: int = 384,
    spread: float = 0.7,
    loud: float = 0.0,
) -> PlantedUtility:
    """Draw a synthetic corpus for demonstration selection.

    Args:
        seed: Seed of the draw.
        mechanisms: Planted mechanisms with weights, divided by their sum.
        examples: n.
        unseen: Q.
        topics: T.
        prompts: ℓ.
        width: Width of the vectors.
        spread: Length of a text's own direction, relative to its topic's.
        loud: As of `PlantedUtility`.
    """
    rng, whole = np.random.default_rng(seed), examples + unseen
    of = rng.permutation(np.arange(whole) % topics)
    vectors = _units(_directions(rng, topics, width)[of] + spread * _directions(rng, whole, width))
    truth = rng.integers(0, 5, whole) / 4
    texts = tuple(text_of(int(topic), place) for place, topic in enumerate(of[:examples]))
    tasks = _units(_directions(rng, 1, width) + _directions(rng, prompts, width))
    best = np.stack([np.roll(np.linspace(1, 0, prompts), topic % prompts) for topic in range(topics)])
    return PlantedUtility(
        library=ExampleLibrary(vectors[:examples], truth[:examples], texts, tasks),
        queries=vectors,
        topics=of,
        truth=truth,
        fit=best,
        noise=rng.normal(size=(whole, examples)),
        mechanisms={name: weight / sum(mechanisms.values()) for name, weight in mechanisms.items()},
        loud=loud,
    )


def text_of(topic: int, place: int) -> str:
    """Return a text with shared words, words of its topic, and a word of its own."""
    said = " ".join(f"topic{topic}word{(place + step) % 7}" for step in range(3))
    return f"we talked about {said} today, case {place}"


def _directions(rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    return np.asarray(rng.normal(size=(count, width)) / np.sqrt(width))


def _units(vectors: NDArray[np.float64]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


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
