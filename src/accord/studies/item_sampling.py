"""Which conversations, turns or pairs a study is about: a filter, a draw, equally many of each kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from accord.edges import parse_whole_number
from accord.store import Item, Store
from accord.values import ISSUE, Conversation, IssueAnnotation, StudySettings, Synthetic, Target


def drawn(
    name: str, study: StudySettings, store: Store, round: int, assessments: Sequence[IssueAnnotation] = ()
) -> Iterator[Item]:
    """The items of one round of a study, drawn by its seed: the same store gives the same items.

    Args:
        name: Of the study.
        study: What it asks.
        store: Of the conversations.
        round: Which round.
        assessments: What a model found in turns, where the study is about those.
    """
    settings, wanted = study.items, set(study.items.ids)
    found_in = _found(store, settings.issues, settings.synthetic) if settings.issues else None
    if settings.assessed:
        may = set(eligible(assessments))
        found_in = may if found_in is None else may & found_in
    draw = random.Random(f"{study.seed}/{name}/{round}")
    strata: dict[tuple[str, ...], list[Target]] = {}
    pairs: dict[str, list[Target]] = {}
    for conversation in store.conversations(wanted or None, settings.synthetic):
        if not all(_entry(conversation, key) in values for key, values in settings.filter.items()):
            continue
        if study.level == "pair":
            pairs.setdefault(_opening(conversation), []).append(Target(conversation.id))
            continue
        stratum = strata.setdefault(tuple(_entry(conversation, key) for key in settings.stratify_by), [])
        stratum += [each for each in _targets(study.level, conversation) if found_in is None or each in found_in]
    known = [_target(each) for each in (*study.gold, *study.attention_checks)]
    found: list[tuple[Target, Target | None]] = []
    for several in pairs.values():
        draw.shuffle(several)
        found += list(zip(several[::2], several[1::2], strict=False))
    if pairs:
        draw.shuffle(found)
        found = found[: settings.sample]
    elif settings.assessed:
        turns = [each for stratum in strata.values() for each in stratum]
        found = [(each, None) for each in _spread(turns, settings.sample, draw)]
    else:
        found = [(each, None) for each in _stratified(list(strata.values()), settings.sample, draw, known)]
    for place, (target, against) in enumerate(found):
        said = str(target)
        kind = "gold" if said in study.gold else "check" if said in study.attention_checks else "plain"
        yield Item(name, round, place, kind, target, against)  # type: ignore[arg-type]


def _found(store: Store, kinds: Iterable[str], synthetic: Synthetic) -> set[Target]:
    """The turns in which a model found an issue of these kinds."""
    found = (each for kind in kinds for each in store.annotations({"model"}, ISSUE + kind, synthetic=synthetic))
    return {each.target for each in found if each.is_of_issues}


def _targets(level: str, conversation: Conversation) -> Iterable[Target]:
    if level == "conversation":
        return [Target(conversation.id)]
    replies = {id(turn) for turn in conversation.replies}
    return [Target(conversation.id, place) for place, turn in enumerate(conversation.turns) if id(turn) in replies]


def eligible(assessments: Iterable[IssueAnnotation]) -> list[Target]:
    """The turns that may be validated, by conversation and turn: all without issues, and each dialogue's first with."""
    ordered = sorted((each for each in assessments if each.target.turn is not None), key=lambda each: each.target)
    flagged: set[str] = set()
    found = []
    for each in ordered:
        if each.issues and each.target.conversation in flagged:
            continue
        if each.issues:
            flagged.add(each.target.conversation)
        found.append(each.target)
    return found


def _spread(turns: list[Target], count: int | None, draw: random.Random) -> list[Target]:
    """Draw turns: of a dialogue a second one only where there are fewer dialogues than turns to draw."""
    turns = sorted(turns)
    draw.shuffle(turns)
    seen: Counter[str] = Counter()
    rounds = []
    for turn in turns:
        rounds.append(seen[turn.conversation])
        seen[turn.conversation] += 1
    first = sorted(range(len(turns)), key=rounds.__getitem__)
    found = [turns[place] for place in first[:count]]
    draw.shuffle(found)
    return found


def _entry(conversation: Conversation, key: str) -> str:
    value = conversation.system if key == "system" else conversation.metadata.get(key)
    return "" if value is None else str(value)


def _opening(conversation: Conversation) -> str:
    """What conversations of one pair share: what was said first."""
    return conversation.turns[0].content if conversation.turns else ""


def _target(name: str) -> Target:
    conversation, sign, turn = name.rpartition("#")
    place = parse_whole_number(turn)
    return Target(conversation, place) if sign and place is not None else Target(name)


def _stratified(
    strata: Sequence[list[Target]], count: int | None, draw: random.Random, first: Sequence[Target]
) -> list[Target]:
    """So many targets, equally many of each stratum as far as it has them, in a random order; all that are known."""
    everything = [each for stratum in strata for each in stratum]
    if count is None or count >= len(everything):
        draw.shuffle(everything)
        return everything
    there = set(everything)
    found = [each for each in first if each in there]
    for stratum in strata:
        draw.shuffle(stratum)
    rows = max(map(len, strata), default=0)
    taken = set(found)
    for place in range(rows):
        for stratum in strata:
            if len(found) < count and place < len(stratum) and stratum[place] not in taken:
                found.append(stratum[place])
    draw.shuffle(found)
    return found
