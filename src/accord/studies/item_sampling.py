"""Sampling of the conversations, turns or pairs of a study: filters, strata and random draws."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from accord.edges import parse_whole_number
from accord.store import Item, Store
from accord.values import ISSUE, Conversation, IssueAnnotation, ItemSettings, StudySettings, Synthetic, Target, steps


def sample_items(
    name: str, study: StudySettings, store: Store, round: int, assessments: Sequence[IssueAnnotation] = ()
) -> Iterator[Item]:
    """Yield the items of one round of a study; the same store and seed give the same items.

    Args:
        name: Name of the study.
        study: Settings of the study.
        store: Store with the conversations.
        round: Number of the round, from 1.
        assessments: Issues that a model found, for studies of assessed turns.
    """
    settings = study.items
    rng = random.Random(f"{study.seed}/{name}/{round}")
    found = store.conversations(set(settings.ids) or None, settings.synthetic)
    conversations = (each for each in found if _passes(each, settings.filter))
    units: Iterable[tuple[Target, Target | None]]
    if study.level == "pair":
        units = _sample_pairs(conversations, settings.sample, rng)
    else:
        strata = _strata(conversations, study, _allowed_turns(store, settings, assessments))
        if settings.assessed:
            turns = [target for stratum in strata for target in stratum]
            sample = _sample_across_dialogues(turns, settings.sample, rng)
        else:
            required = [_parse_target(text) for text in (*study.gold, *study.attention_checks)]
            sample = _sample_strata(strata, settings.sample, rng, required)
        units = ((target, None) for target in sample)
    kinds: dict[str, Literal["gold", "check"]] = dict.fromkeys(study.attention_checks, "check")
    kinds |= dict.fromkeys(study.gold, "gold")
    for place, (target, against) in enumerate(units):
        yield Item(name, round, place, kinds.get(str(target), "plain"), target, against)


def _passes(conversation: Conversation, filters: Mapping[str, Collection[str]]) -> bool:
    """Return True if each filtered entry of a conversation has one of its values."""
    return all(_entry(conversation, key) in values for key, values in filters.items())


def _allowed_turns(
    store: Store, settings: ItemSettings, assessments: Iterable[IssueAnnotation]
) -> Collection[Target] | None:
    """Return the turns with the issues of the settings and, in studies of assessed turns, those to validate."""
    allowed = _turns_with_issues(store, settings.issues, settings.synthetic) if settings.issues else None
    if not settings.assessed:
        return allowed
    assessed = set(eligible_turns(assessments))
    return assessed if allowed is None else assessed & allowed


def _strata(
    conversations: Iterable[Conversation], study: StudySettings, allowed: Collection[Target] | None
) -> list[list[Target]]:
    """Return the targets that the study allows, by the values of the entries that stratify them."""
    strata: dict[tuple[str, ...], list[Target]] = {}
    for conversation in conversations:
        stratum = strata.setdefault(tuple(_entry(conversation, key) for key in study.items.stratify_by), [])
        stratum += [target for target in _targets(study.level, conversation) if allowed is None or target in allowed]
    return list(strata.values())


def _sample_pairs(
    conversations: Iterable[Conversation], count: int | None, rng: random.Random
) -> list[tuple[Target, Target]]:
    """Sample pairs of conversations that open with the same message."""
    by_opening: dict[str, list[Target]] = {}
    for conversation in conversations:
        opening = conversation.turns[0].content if conversation.turns else ""
        by_opening.setdefault(opening, []).append(Target(conversation.id))
    pairs = []
    for targets in by_opening.values():
        rng.shuffle(targets)
        pairs += list(zip(targets[::2], targets[1::2], strict=False))
    rng.shuffle(pairs)
    return pairs[:count]


def _turns_with_issues(store: Store, kinds: Iterable[str], synthetic: Synthetic) -> set[Target]:
    """Return the turns in which a model found an issue of these kinds."""
    annotations = (each for kind in kinds for each in store.annotations({"model"}, ISSUE + kind, synthetic=synthetic))
    return {annotation.target for annotation in annotations if annotation.is_of_issues}


def _targets(level: str, conversation: Conversation) -> Iterable[Target]:
    if level == "conversation":
        return [Target(conversation.id)]
    return [Target(conversation.id, place) for place in steps.judged_turns(conversation, level)]


def eligible_turns(assessments: Iterable[IssueAnnotation]) -> list[Target]:
    """Return the turns that can be validated: all without issues, and the first with issues of each dialogue."""
    ordered = sorted((each for each in assessments if each.target.turn is not None), key=lambda each: each.target)
    flagged: set[str] = set()
    targets = []
    for assessment in ordered:
        if assessment.issues and assessment.target.conversation in flagged:
            continue
        if assessment.issues:
            flagged.add(assessment.target.conversation)
        targets.append(assessment.target)
    return targets


def _sample_across_dialogues(turns: list[Target], count: int | None, rng: random.Random) -> list[Target]:
    """Sample turns: one per dialogue, and more only if there are fewer dialogues than turns to sample."""
    turns = sorted(turns)
    rng.shuffle(turns)
    seen: Counter[str] = Counter()
    ranks = []
    for turn in turns:
        ranks.append(seen[turn.conversation])
        seen[turn.conversation] += 1
    order = sorted(range(len(turns)), key=ranks.__getitem__)
    sample = [turns[place] for place in order[:count]]
    rng.shuffle(sample)
    return sample


def _entry(conversation: Conversation, key: str) -> str:
    value = conversation.group(key)
    return "" if value is None else str(value)


def _parse_target(text: str) -> Target:
    conversation, sign, turn = text.rpartition("#")
    place = parse_whole_number(turn)
    return Target(conversation, place) if sign and place is not None else Target(text)


def _sample_strata(
    strata: Sequence[list[Target]], count: int | None, rng: random.Random, required: Sequence[Target]
) -> list[Target]:
    """Return the required targets, then the same number from each stratum where possible, in random order."""
    population = [target for stratum in strata for target in stratum]
    if count is None or count >= len(population):
        rng.shuffle(population)
        return population
    known = set(population)
    sample = [target for target in required if target in known]
    for stratum in strata:
        rng.shuffle(stratum)
    taken = set(sample)
    for place in range(max(map(len, strata), default=0)):
        for stratum in strata:
            if len(sample) < count and place < len(stratum) and stratum[place] not in taken:
                sample.append(stratum[place])
    rng.shuffle(sample)
    return sample
