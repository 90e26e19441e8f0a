"""The requests about an input: prompts, demonstrations and the selector that puts them together.

As a state they are files that people can read (`prompts.yaml`, `demonstrations.jsonl`), and what was learned about
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from accord.edges import BadInput
from accord.evidence import State
from accord.methods.in_context.prompt_inversion import TaskPrompt, dump_tasks, read_tasks
from accord.methods.in_context.scoring_requests import Asked
from accord.methods.in_context.selectors import (
    Library,
    Nodes,
    Prepared,
    Query,
    Selector,
    greedy_subgraph,
    make_selector,
    random_nodes,
)
from accord.methods.in_context.template import TURN, Example, PromptTemplate, prompt_text, unit
from accord.models import Failure
from accord.values import Question, Sample, Signature, content_hash

FORMAT = 2
PROMPTS_FILE, DEMONSTRATIONS_FILE = "prompts.yaml", "demonstrations.jsonl"
WORDING = ("level", "mode", "background", "context", "most", "top")
FIT_AGAIN = "fit again: accord fit"


@dataclass(frozen=True)
class Sizes:
    """Demonstrations per request, random sets per prompt (ζ) and their seed, requests per input."""

    k: int = 5
    each: int = 512
    ensemble: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what is asked for an input.

    Attributes:
        wording: How scores are asked for.
        examples: What can be shown.
        tasks: The prompts, best first.
        library: Both, as the selector sees them.
        selector: Fitted.
        sizes: How much is shown and asked.
        embedder: The name of what made the library's vectors.
        model: Who is asked, and where.
    """

    wording: PromptTemplate
    examples: Sequence[Example]
    tasks: Sequence[TaskPrompt]
    library: Library
    selector: Selector
    sizes: Sizes
    embedder: str
    model: str

    @cached_property
    def nodes(self) -> Nodes:
        """The sets that are ranked for every input: drawn once, so that what depends on them alone is computed once."""
        return self._drawn(range(len(self.examples)))

    @cached_property
    def prepared(self) -> Prepared:
        """The part that the selector computes of the sets alone."""
        return self.selector.prepare(self.nodes)

    @cached_property
    def twins(self) -> Mapping[str, list[int]]:
        """The examples by the digest of what is shown of them."""
        found: dict[str, list[int]] = {}
        for place, example in enumerate(self.examples):
            found.setdefault(content_hash(prompt_text(example.sample)), []).append(place)
        return found

    @cached_property
    def hash(self) -> str:
        """A tagged digest of all that decides what is asked."""
        shown = [[content_hash(prompt_text(example.sample)), example.score] for example in self.examples]
        arrays = [_bytes(self.library.vectors), _bytes(self.library.prompts)]
        about = [self.wording.hash, [task.hash for task in self.tasks], shown, arrays, asdict(self.sizes)]
        return content_hash([*about, _digest(self.selector), self.embedder, self.model], length=12)

    def choose(self, query: Query, left_out: Collection[int] = ()) -> Nodes:
        """The sets to ask with, the heaviest first (Algorithm 2), none of which shows an example that is `left_out`.

        A selector that retrieves adds, for each prompt, the very set that it would show.

        Raises:
            BadInput: Fewer examples than a set has are left.
        """
        weights, nodes = self.selector.weights(query, self.prepared), self.nodes
        if left_out:
            kept = nodes.without(left_out)
            weights, nodes = weights[kept], nodes.take(kept)
        if not len(nodes):
            nodes = self._drawn([place for place in range(len(self.examples)) if place not in set(left_out)])
            weights = self.selector.weights(query, self.selector.prepare(nodes))
        own = self.selector.retrieved(query, self.sizes.k, left_out)
        if own is not None and len(own) == self.sizes.k:
            tasks = np.arange(len(self.tasks), dtype=np.intp)
            more = Nodes(np.tile(np.array(own, dtype=np.intp), (len(tasks), 1)), tasks)
            weights = np.concatenate([self.selector.weights(query, self.selector.prepare(more)), weights])
            nodes = more.concat(nodes)
        rows = greedy_subgraph(weights, nodes, self.sizes.ensemble)
        return nodes.take(np.array(rows, dtype=np.intp))

    def _drawn(self, examples: Sequence[int]) -> Nodes:
        rng = np.random.default_rng(self.sizes.seed)
        return random_nodes(rng, examples, len(self.tasks), self.sizes.k, self.sizes.each)

    def left_out_of(self, sample: Sample) -> list[int]:
        """The examples that are the input itself: not shown beside it."""
        return self.twins.get(content_hash(prompt_text(sample)), [])

    def requests(self, sample: Sample, query: Query, left_out: Collection[int] = ()) -> list[Asked]:
        """The requests about an input, without the examples at the places `left_out`."""
        nodes = self.choose(query, left_out)
        return [
            Asked(tuple(self.examples[place] for place in shown), self.tasks[task].text, sample)
            for shown, task in zip(nodes.demonstrations.tolist(), nodes.prompt.tolist(), strict=True)
        ]

    def unasked(self, sample: Sample) -> Failure | None:
        """The reason why an input cannot be asked about; `None` where it can."""
        if not any(turn.content.strip() for turn in sample.conversation.up_to(sample.turn)):
            return Failure("nothing was said", "no turn has words")
        if not self.wording.question.applies_to(sample.conversation):
            return Failure("does not apply", "the question is not for such conversations")
        if len(self.examples) - len(self.left_out_of(sample)) < self.sizes.k:
            return Failure("too few examples", "nearly all of them are the input itself")
        return None

    @property
    def signature(self) -> Signature:
        """The signature of the recipe's answers."""
        return Signature.of(
            "in-context", model=self.model.partition(" ")[0], via=self.wording.mode, selector=self.selector.name,
            prompts=len(self.tasks), examples=len(self.examples), k=self.sizes.k, asked=self.sizes.ensemble,
            recipe=self.hash,
        )  # fmt: skip

    # --- as a state -------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """The recipe as JSON, arrays, and the files that people may read; `recipe_from` reads it back."""
        card, arrays = self.selector.state()
        wording = {name: getattr(self.wording, name) for name in WORDING}
        about = {
            "format": FORMAT, "hash": self.hash, "embedder": self.embedder, "model": self.model,
            "question": self.wording.question.model_dump(mode="json"), "wording": wording,
            "sizes": asdict(self.sizes), "selector": self.selector.name, "prompts": [t.hash for t in self.tasks],
            "learned": card,
        }  # fmt: skip
        kept = {f"selector.{name}": array for name, array in arrays.items()}
        kept |= {"library.vectors": self.library.vectors, "library.prompts": self.library.prompts}
        rows = "".join(json.dumps(example.to_json(), ensure_ascii=True) + "\n" for example in self.examples)
        files = {PROMPTS_FILE: dump_tasks(self.wording.question.id, self.tasks), DEMONSTRATIONS_FILE: rows}
        return State(about, {name: np.ascontiguousarray(array) for name, array in kept.items()}, files)


def recipe_from(state: State) -> Recipe:
    """The recipe that a state holds.

    Raises:
        BadInput: The state is damaged, or a file of it was edited: the selector learned with other ones.
    """
    missing = next((name for name in (PROMPTS_FILE, DEMONSTRATIONS_FILE) if name not in state.files), None)
    if missing is not None:
        raise BadInput(f"the evaluator holds no prompts and demonstrations: {missing} is missing; {FIT_AGAIN}")
    about, arrays = state.card, state.arrays
    try:
        if about["format"] != FORMAT:
            what = "a newer Accord; upgrade" if about["format"] > FORMAT else f"an older Accord; {FIT_AGAIN}"
            raise BadInput(f"the evaluator was written by {what}")
        examples = [Example.from_json(json.loads(row)) for row in state.files[DEMONSTRATIONS_FILE].splitlines()]
        wording = PromptTemplate(Question.model_validate(about["question"]), **about["wording"])
        scores = unit(np.array([example.score for example in examples]), wording.question)
        texts = tuple(prompt_text(example.sample) for example in examples)
        library = Library(arrays["library.vectors"], scores, texts, arrays["library.prompts"])
        own = {n.removeprefix("selector."): array for n, array in arrays.items() if n.startswith("selector.")}
        selector = make_selector(about["selector"], about["sizes"]["seed"]).restore(library, about["learned"], own)
        tasks = read_tasks(state.files[PROMPTS_FILE], PROMPTS_FILE)
        found = Recipe(
            wording, examples, tasks, library, selector, Sizes(**about["sizes"]), about["embedder"], about["model"]
        )
        prompts, made = about["prompts"], about["hash"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"the evaluator is damaged ({type(error).__name__}); {FIT_AGAIN}") from None
    if [task.hash for task in tasks] != prompts:
        raise BadInput(
            f"{PROMPTS_FILE} was edited since the selector learned; enter the edited prompts into the contest: "
            "in-context: {prompts: FILE}"
        )
    if len(examples) != len(found.library.vectors) or found.hash != made:
        raise BadInput(
            "the evaluator was edited since the selector learned: other demonstrations, scores or settings; "
            f"{FIT_AGAIN}"
        )
    return found


def at_level(samples: Sequence[Sample], level: str) -> list[Sample]:
    """The samples to score: of whole conversations, where turns are scored, the last reply; a turn stays what it is."""
    return [sample if level != TURN or sample.turn is not None else _last_reply(sample) for sample in samples]


def _last_reply(sample: Sample) -> Sample:
    turns, replies = sample.conversation.turns, sample.conversation.replies
    last = next((place for place in range(len(turns) - 1, -1, -1) if replies and turns[place] is replies[-1]), None)
    return sample if last is None else Sample(sample.conversation, last)


def _digest(selector: Selector) -> str:
    """A digest of what a selector learned."""
    card, arrays = selector.state()
    return content_hash([selector.name, card, {name: _bytes(array) for name, array in arrays.items()}], length=12)


def _bytes(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
