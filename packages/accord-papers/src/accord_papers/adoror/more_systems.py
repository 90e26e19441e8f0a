"""Systems of figure 2 and table 3 as plug-ins, and their answers on Topical-USR with the embedded model.

`registered` adds to the systems of table 1: `ADOROR without@PART` for each part of the selector, `prompt@N` for each
tried prompt, and `demonstrations@SEED` for other random examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from accord import Project
from accord.evidence import Training
from accord.methods import at_random, rivals
from accord.methods.in_context.experiment import Choose, InContextTraining
from accord.methods.in_context.selectors import Nodes, TowerSettings
from accord.methods.in_context.source import IN_CONTEXT, InContext
from accord.models import run
from accord.project import config_from
from accord.values import Question, Rubric, Scale
from accord_papers.adoror import systems
from accord_papers.adoror.simulated_world import MECHANISMS, planted_utility
from accord_papers.adoror.simulation import PAPER, K, Sizes
from accord_papers.adoror.system_answers import (
    CONTEXT,
    DIMENSIONS,
    FOLDS,
    MODEL,
    TINY,
    folds_of,
    learned_and_asked,
    responses_of,
    spearman,
    system_rows,
)
from accord_papers.adoror.systems import ABLATIONS
from accord_papers.study import Row

WITHOUT, PROMPT, DRAW = "ADOROR without", "prompt", "demonstrations"
"""Families of rivals: without a part of the selector, with a tried prompt, with random examples of a seed."""
TABLE_3: Mapping[str, str] = {
    f"{WITHOUT}@relative": "ADOROR w/o relative positions",
    f"{WITHOUT}@absolute": "ADOROR w/o absolute positions",
    f"{WITHOUT}@scores": "ADOROR w/o scores",
}
"""Rivals of table 3 whose selector lacks a part, by the paper's names."""
BY_HAND, DRAWS = 20, 10
"""Prompts of figure 2a; draws of the demonstrations of figure 2b."""


def selected_without(part: str, result: InContextTraining) -> Choose:
    """The method with a selector that lacks a part."""
    recipe, towers = result.recipe, TowerSettings(**dict(result.settings.towers))
    selector = ABLATIONS[f"adoror without {part}"](result.seed, towers).fit(recipe.library, result.pairs)
    return replace(recipe, selector=selector).requests


def drawn_again(seed: int, result: InContextTraining) -> Choose:
    """The best prompt, with random examples of another seed (figure 2b)."""
    recipe = result.recipe
    return at_random(replace(recipe, sizes=replace(recipe.sizes, seed=seed)), recipe.tasks[:1])


@contextmanager
def registered() -> Iterator[None]:
    """Register the systems of table 1, figure 2 and table 3 while the block runs."""
    with systems.registered():
        rivals.family(WITHOUT, lambda part: partial(selected_without, part))
        rivals.family(DRAW, lambda seed: partial(drawn_again, int(seed)))
        yield


def named(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the paper's names of the systems of table 3."""
    return [{**row, "system": TABLE_3.get(row["system"], row["system"])} for row in rows]


def ask_topical_usr(folder: Path, limit: int, asked: Sequence[str]) -> list[Row]:
    """Return a row per fold and system on some responses of Topical-USR, Overall, with the embedded model.

    Args:
        folder: Folder of the data set.
        limit: Number of responses, in whole contexts.
        asked: Systems to compare with ADOROR.
    """
    scorer = {"model": f"embedded:{MODEL}", "mode": "logprobs", "context": CONTEXT}
    about = {"background": "fact", "selector": "adoror", "calibrate": False, "level": "turn", "rivals": list(asked)}
    sources = {IN_CONTEXT: about | dict(TINY)}
    config = config_from({"store": "sqlite:///:memory:", "models": {"scorer": scorer}, "sources": sources})
    text, answers = DIMENSIONS["Overall"]
    question = Question(id="Overall", text=text, scale=Scale(options=answers))
    everything = Training(*responses_of(folder, question.id, limit), question)
    rubric = Rubric(name="topical-usr", questions=(question,), main=question.id)
    rows: list[Row] = []
    with registered(), Project(config, rubric) as project:
        for fold, (train, test) in enumerate(folds_of(everything, "context")):
            found = run(learned_and_asked(cast(InContext, project.source(IN_CONTEXT)), train, test), project.models)
            rows += system_rows(found, test, {"split": "context", "dimension": question.id, "fold": fold})
    return named(rows)


def chance_rows(seed: int, sizes: Sizes = PAPER) -> list[Row]:
    """Return ρ with each of 20 prompts, and with ten draws of the demonstrations on each of five test sets (figure 2).

    Returns:
        Rows with `what`: `prompt`, with random demonstrations, or `demonstrations`, with the first prompt; the number
        of the prompt or draw (`place`), `fold`, and `rho` on the unseen inputs of that fold in a planted world.
    """
    world = planted_utility(seed, MECHANISMS, sizes.examples, sizes.unseen, sizes.topics, BY_HAND, sizes.width)
    rng, rows = np.random.default_rng([seed, 6]), list[Row]()
    for what, count in ((PROMPT, BY_HAND), (DRAW, DRAWS)):
        for place in range(count):
            prompt = np.array([place if what == PROMPT else 0], dtype=np.intp)
            pairs = []
            for query in world.unseen:
                shown = Nodes(rng.permutation(len(world.library))[None, :K], prompt)
                pairs.append((float(world.truth[query] + world.error(query, shown)[0]), float(world.truth[query])))
            about = {"seed": seed, "what": what, "place": place}
            rows += [{**about, "fold": fold, "rho": spearman(pairs[fold::FOLDS])} for fold in range(FOLDS)]
    return rows
