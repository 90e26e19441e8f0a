"""The other systems of table 1: ways to put prompts and demonstrations together, by name.

Every system says for an input which requests to make; their answers are averaged as the method's own are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accord.methods.in_context.asking import Asked
from accord.methods.in_context.inversion import TaskPrompt
from accord.methods.in_context.nodes import Query, Selector
from accord.methods.in_context.recipe import Recipe
from accord.methods.in_context.selectors import SELECTORS
from accord.values import Sample

ZERO_SHOT, FEW_SHOT = "by hand, no examples", "by hand, random examples"
AT_RANDOM, BEST, ALL = "a written prompt, random examples", "best prompt, random examples", "all prompts"
ONE = ", one request"

Choose = Callable[[Sample, Query, Collection[int]], list[Asked]]


@dataclass(frozen=True)
class Baselines:
    """The parts that systems are made of.

    Attributes:
        recipe: The method as it was learned.
        hand: The best prompt that was written by hand.
        anyone: A prompt that a model wrote, drawn at random; `None` where none was written.
        selectors: Every selector, fitted on the same pairs.
        seed: Of the random examples.
    """

    recipe: Recipe
    hand: TaskPrompt
    anyone: TaskPrompt | None
    selectors: Mapping[str, Selector]
    seed: int = 0

    def systems(self) -> dict[str, Choose]:
        """Every system by name: table 1's, then each selector with the subgraph and with its one best set."""
        best = self.recipe.tasks[0]
        found: dict[str, Choose] = {
            ZERO_SHOT: lambda sample, query, out: [Asked((), self.hand.text, sample)],
            FEW_SHOT: self._random([self.hand]),
        }
        if self.anyone is not None:
            found[AT_RANDOM] = self._random([self.anyone])
        found[BEST] = self._random([best])
        for name, selector in self.selectors.items():
            chosen = self._retrieved(selector, best)
            if chosen is not None:
                found[f"best prompt, {name}"] = chosen
        found[ALL] = self._random(self.recipe.tasks)
        for name, selector in self.selectors.items():
            one = replace(self.recipe, selector=selector)
            found[name] = _chosen(one)
            if name != SELECTORS[0]:
                found[f"{name}{ONE}"] = _chosen(replace(one, sizes=replace(one.sizes, ensemble=1)))
        return found

    def _random(self, tasks: Sequence[TaskPrompt]) -> Choose:
        """Random demonstrations, drawn by the seed and the input: the same ones whatever the prompt."""

        def choose(sample: Sample, query: Query, left_out: Collection[int]) -> list[Asked]:
            digest = int.from_bytes(str(sample.target).encode()[-8:], "big")
            rng = np.random.default_rng([self.seed, digest])
            shown = [place for place in rng.permutation(len(self.recipe.examples)) if place not in set(left_out)]
            examples = tuple(self.recipe.examples[place] for place in shown[: self.recipe.sizes.k])
            return [Asked(examples, task.text, sample) for task in tasks]

        return choose

    def _retrieved(self, selector: Selector, task: TaskPrompt) -> Choose | None:
        """The very set that a selector retrieves, with one prompt; `None` for one that retrieves nothing."""
        probe = Query(self.recipe.library.vectors[0], self.recipe.library.texts[0])
        if selector.retrieved(probe, self.recipe.sizes.k, ()) is None:
            return None

        def choose(sample: Sample, query: Query, left_out: Collection[int]) -> list[Asked]:
            places = selector.retrieved(query, self.recipe.sizes.k, left_out) or ()
            return [Asked(tuple(self.recipe.examples[place] for place in places), task.text, sample)]

        return choose


def _chosen(recipe: Recipe) -> Choose:
    def choose(sample: Sample, query: Query, left_out: Collection[int]) -> list[Asked]:
        return recipe.asked(recipe.choose(query, left_out), sample)

    return choose
