"""Recipe: the requests about an input, from prompts, demonstrations and the selector.

Its state has files that users can read (`prompts.yaml`, `demonstrations.jsonl`) and the learned values.
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
from accord.evidence import SourceState
from accord.methods.in_context.prompt_inversion import TaskPrompt, dump_tasks, read_tasks
from accord.methods.in_context.scoring_requests import ScoreRequest
from accord.methods.in_context.selectors import (
    ExampleLibrary,
    Floats,
    Indices,
    Nodes,
    PreparedNodes,
    Query,
    Selector,
    make_selector,
    random_nodes,
)
from accord.methods.in_context.template import TURN, PromptTemplate, RatedExample, prompt_text, unit
from accord.models import Failure
from accord.values import Question, Sample, Signature, content_hash

FORMAT = 2
PROMPTS_FILE, DEMONSTRATIONS_FILE = "prompts.yaml", "demonstrations.jsonl"
WORDING = ("level", "mode", "background", "context", "most", "top")
FIT_AGAIN = "fit again: accord fit"


@dataclass(frozen=True)
class EnsembleSizes:
    """Demonstrations per request, random sets per prompt (ζ) and their seed, requests per input."""

    k: int = 5
    each: int = 512
    ensemble: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the requests about an input.

    Attributes:
        examples: Possible demonstrations.
        tasks: Prompts, best first.
        library: Examples and prompts as the selector sees them.
        embedder: Name of the embedder of the library's vectors.
        model: Scorer and its endpoint.
    """

    wording: PromptTemplate
    examples: Sequence[RatedExample]
    tasks: Sequence[TaskPrompt]
    library: ExampleLibrary
    selector: Selector
    sizes: EnsembleSizes
    embedder: str
    model: str

    @cached_property
    def nodes(self) -> Nodes:
        """Sets ranked for every input, drawn once so that values that depend on sets alone are computed once."""
        return self._drawn(range(len(self.examples)))

    @cached_property
    def prepared(self) -> PreparedNodes:
        """Precomputed values of the sets."""
        return self.selector.prepare(self.nodes)

    @cached_property
    def twins(self) -> Mapping[str, list[int]]:
        """Indices of the examples by the digest of their visible text."""
        by_digest: dict[str, list[int]] = {}
        for place, example in enumerate(self.examples):
            by_digest.setdefault(content_hash(prompt_text(example.sample)), []).append(place)
        return by_digest

    @cached_property
    def hash(self) -> str:
        """Tagged digest of everything that determines the requests."""
        demonstrations = [[content_hash(prompt_text(example.sample)), example.score] for example in self.examples]
        arrays = [_bytes(self.library.vectors), _bytes(self.library.prompts)]
        parts = [self.wording.hash, [task.hash for task in self.tasks], demonstrations, arrays, asdict(self.sizes)]
        return content_hash([*parts, _digest(self.selector), self.embedder, self.model], length=12)

    def choose(self, query: Query, left_out: Collection[int] = ()) -> Nodes:
        """Return the sets to ask with, heaviest first (algorithm 2), without the examples `left_out`.

        A selector with retrieval adds, for each prompt, the set that it retrieves. `BadInput` if too few are left.
        """
        weights, nodes = self.selector.weights(query, self.prepared), self.nodes
        if left_out:
            rows_left = nodes.without(left_out)
            weights, nodes = weights[rows_left], nodes.take(rows_left)
        if not len(nodes):
            nodes = self._drawn([place for place in range(len(self.examples)) if place not in set(left_out)])
            weights = self.selector.weights(query, self.selector.prepare(nodes))
        retrieved = self.selector.retrieved(query, self.sizes.k, left_out)
        if retrieved is not None and len(retrieved) == self.sizes.k:
            tasks = np.arange(len(self.tasks), dtype=np.intp)
            added = Nodes(np.tile(np.array(retrieved, dtype=np.intp), (len(tasks), 1)), tasks)
            weights = np.concatenate([self.selector.weights(query, self.selector.prepare(added)), weights])
            nodes = added.concat(nodes)
        rows = greedy_subgraph(weights, nodes, self.sizes.ensemble)
        return nodes.take(np.array(rows, dtype=np.intp))

    def _drawn(self, examples: Sequence[int]) -> Nodes:
        rng = np.random.default_rng(self.sizes.seed)
        return random_nodes(rng, examples, len(self.tasks), self.sizes.k, self.sizes.each)

    def left_out_of(self, sample: Sample) -> list[int]:
        """Return the examples that equal the input; requests about the input do not show them."""
        return self.twins.get(content_hash(prompt_text(sample)), [])

    def requests(self, sample: Sample, query: Query, left_out: Collection[int] = ()) -> list[ScoreRequest]:
        """Return the requests about an input, without the examples at the indices `left_out`."""
        nodes = self.choose(query, left_out)
        return [
            ScoreRequest(tuple(self.examples[place] for place in demonstrations), self.tasks[task].text, sample)
            for demonstrations, task in zip(nodes.demonstrations.tolist(), nodes.prompt.tolist(), strict=True)
        ]

    def unasked(self, sample: Sample) -> Failure | None:
        """Return the reason why an input cannot be asked about; `None` if it can."""
        if not any(turn.content.strip() for turn in sample.conversation.up_to(sample.turn)):
            return Failure("empty conversation", "no turn has words")
        if not self.wording.question.applies_to(sample.conversation, sample.turn):
            return Failure("does not apply", "the question excludes such conversations")
        if len(self.examples) - len(self.left_out_of(sample)) < self.sizes.k:
            return Failure("too few examples", "nearly all equal the input")
        return None

    @property
    def signature(self) -> Signature:
        """Signature of the recipe's answers."""
        return Signature.of(
            "in-context", model=self.model.partition(" ")[0], via=self.wording.mode, selector=self.selector.name,
            prompts=len(self.tasks), examples=len(self.examples), k=self.sizes.k, asked=self.sizes.ensemble,
            recipe=self.hash,
        )  # fmt: skip

    # --- as a state -------------------------------------------------------------------------------------------------

    def state(self) -> SourceState:
        """Return the recipe as JSON, arrays, and files for users; `recipe_from` reads it back."""
        card, arrays = self.selector.state()
        wording = {name: getattr(self.wording, name) for name in WORDING}
        state_card = {
            "format": FORMAT, "hash": self.hash, "embedder": self.embedder, "model": self.model,
            "question": self.wording.question.model_dump(mode="json"), "wording": wording,
            "sizes": asdict(self.sizes), "selector": self.selector.name, "prompts": [t.hash for t in self.tasks],
            "learned": card,
        }  # fmt: skip
        state_arrays = {f"selector.{name}": array for name, array in arrays.items()}
        state_arrays |= {"library.vectors": self.library.vectors, "library.prompts": self.library.prompts}
        rows = "".join(json.dumps(example.to_json(), ensure_ascii=True) + "\n" for example in self.examples)
        files = {PROMPTS_FILE: dump_tasks(self.wording.question.id, self.tasks), DEMONSTRATIONS_FILE: rows}
        return SourceState(state_card, {n: np.ascontiguousarray(array) for n, array in state_arrays.items()}, files)


def recipe_from(state: SourceState) -> Recipe:
    """Return the recipe of a saved state; `BadInput` if it is damaged, or a file was edited after learning."""
    missing = next((name for name in (PROMPTS_FILE, DEMONSTRATIONS_FILE) if name not in state.files), None)
    if missing is not None:
        raise BadInput(f"{missing} of the evaluator is missing; {FIT_AGAIN}")
    state_card, arrays = state.card, state.arrays
    try:
        if state_card["format"] != FORMAT:
            origin = "a newer Accord; upgrade" if state_card["format"] > FORMAT else f"an older Accord; {FIT_AGAIN}"
            raise BadInput(f"the evaluator was written by {origin}")
        examples = [RatedExample.from_json(json.loads(row)) for row in state.files[DEMONSTRATIONS_FILE].splitlines()]
        wording = PromptTemplate(Question.model_validate(state_card["question"]), **state_card["wording"])
        scores = unit(np.array([example.score for example in examples]), wording.question)
        texts = tuple(prompt_text(example.sample) for example in examples)
        library = ExampleLibrary(arrays["library.vectors"], scores, texts, arrays["library.prompts"])
        learned = {name.removeprefix("selector."): array for name, array in arrays.items()}
        selector = make_selector(state_card["selector"], state_card["sizes"]["seed"])
        selector = selector.restore(library, state_card["learned"], learned)
        tasks = read_tasks(state.files[PROMPTS_FILE], PROMPTS_FILE)
        sizes, embedder, model = EnsembleSizes(**state_card["sizes"]), state_card["embedder"], state_card["model"]
        recipe = Recipe(wording, examples, tasks, library, selector, sizes, embedder, model)
        saved_prompts, saved_hash = state_card["prompts"], state_card["hash"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"the evaluator is damaged ({type(error).__name__}); {FIT_AGAIN}") from None
    if [task.hash for task in tasks] != saved_prompts:
        raise BadInput(
            f"{PROMPTS_FILE} was edited after the selector learned. To test edited prompts, set in-context: "
            "{prompts: FILE} and fit again"
        )
    if len(examples) != len(recipe.library.vectors) or recipe.hash != saved_hash:
        raise BadInput(
            f"the evaluator was edited after the selector learned (demonstrations, scores or settings); {FIT_AGAIN}"
        )
    return recipe


def at_level(samples: Sequence[Sample], level: str) -> list[Sample]:
    """Return the samples to score: for turns, the last reply of a whole conversation; a turn is unchanged."""
    scored = []
    for sample in samples:
        turns, replies = sample.conversation.turns, sample.conversation.replies
        if level == TURN and sample.turn is None and replies:
            last = max(place for place, turn in enumerate(turns) if turn is replies[-1])
            sample = Sample(sample.conversation, last)
        scored.append(sample)
    return scored


def _digest(selector: Selector) -> str:
    """Return a digest of a selector's learned state."""
    card, arrays = selector.state()
    return content_hash([selector.name, card, {name: _bytes(array) for name, array in arrays.items()}], length=12)


def _bytes(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


# --- algorithm 2 ----------------------------------------------------------------------------------------------------


def greedy_subgraph(weights: Floats, nodes: Nodes, size: int = 5) -> list[int]:
    """Return the row of the heaviest node, then of the node that adds most to the chosen ones; the first in a tie.

        W_e(i, j) = 1 - |D_i ∩ D_j|/k                    (eq. 7)
        Q(G', i)  = Σ_j 2·W_e·W_v(i) / (W_e + W_v(i))    (eq. 8), 0 if both are 0

    `weights` has (N,) W_v, in [0, 1]; the order of a node's demonstrations does not matter.
    """
    if not len(nodes) or size < 1:
        return []
    k = nodes.demonstrations.shape[1]
    gained, free = np.zeros(len(nodes)), np.ones(len(nodes), dtype=bool)
    chosen = [int(np.argmax(weights))]
    while len(chosen) < min(size, len(nodes)):
        free[chosen[-1]] = False
        edges = 1 - shared_with(nodes, chosen[-1]) / k
        total = edges + weights
        gained += np.divide(2 * edges * weights, total, out=np.zeros_like(total), where=total > 0)
        chosen.append(int(np.argmax(np.where(free, gained, -np.inf))))
    return chosen


def shared_with(nodes: Nodes, row: int) -> Indices:
    """Return (N,) |D_i ∩ D_row|."""
    member = np.zeros(int(nodes.demonstrations.max(initial=0)) + 1, dtype=np.intp)
    member[nodes.demonstrations[row]] = 1
    return np.asarray(member[nodes.demonstrations].sum(axis=1))
