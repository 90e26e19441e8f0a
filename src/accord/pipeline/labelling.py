"""What a store's labels can still be asked for: which labels are worth most next, and how good each system is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from accord.config import Config
from accord.learning import suggest_labels
from accord.pipeline.collecting import collect, samples_of
from accord.pipeline.learning import factory
from accord.pipeline.models import Models
from accord.store import Store
from accord.validation import gaps, system_means
from accord.values import BadInput, Labels, Rubric, Target


def next_labels(
    store: Store, config: Config, rubric: Rubric, models: Models, count: int, annotators: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The labels on the main question that would teach most, the best first; asks no model.

    Raises:
        BadInput: Too few labels to say, nothing left to label, or a main question that compares.
        UnknownName: An annotator who has not labelled yet.
    """
    _check_rates(rubric)
    labels = store.labels()
    about_turns = any(label.target.turn is not None for label in labels.on(rubric.main))
    targets = [Target(name) for name in store.conversation_ids()]
    if about_turns:
        targets = [
            Target(c.id, place)
            for c in store.conversations(target.conversation for target in targets)
            for place, turn in enumerate(c.turns)
            if turn.role == "assistant"
        ]
    evidence = collect(store, config, rubric, samples_of(store, targets), models, ask=False)
    found = suggest_labels(evidence, labels, rubric.main_question, count, annotators)
    return [
        {
            "conversation": each.target.conversation, "turn": each.target.turn, "question": rubric.main,
            "annotator": each.annotator, "gain": each.gain,
        }
        for each in found
    ]  # fmt: skip


def _check_rates(rubric: Rubric) -> None:
    """Refuse a main question that compares.

    Raises:
        BadInput: It does.
    """
    if rubric.main_question.compares:
        raise BadInput(f"{rubric.main!r} compares two conversations; this needs a main question that rates one")


def estimate_stored(store: Store, config: Config, rubric: Rubric, models: Models) -> dict[str, Any]:
    """Each system's mean rating from its labels and the scores of all its conversations, and every difference.

    Conversations that the rubric was learned on are left out.

    Raises:
        BadInput: Labels are about turns or comparisons, or a system has too few labelled conversations.
    """
    _check_rates(rubric)
    seen = frozenset(rubric.learned_on)  # what a rubric was learned on is no random part of what it scores
    labels = Labels(label for label in store.labels() if label.target.conversation not in seen)
    if any(label.target.turn is not None for label in labels.on(rubric.main)):
        raise BadInput("labels are about turns; a system's mean is taken over whole conversations")
    samples = samples_of(store, [Target(name) for name in store.conversation_ids() if name not in seen])
    evidence = collect(store, config, rubric, samples, models, ask=False)
    systems = {sample.conversation.id: sample.conversation.system or "not said" for sample in samples}
    found = system_means(
        evidence, labels, rubric.main_question, factory(config, rubric), systems, config.folds, config.seed
    )
    return {
        "question": rubric.main,
        "systems": [each.to_json() for each in found],
        "differences": [gap.to_json() for gap in gaps(found)],
    }
