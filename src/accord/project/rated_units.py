"""Conversations, replies or steps that people rated or could have rated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from accord.edges import BadInput
from accord.learning import Level
from accord.statistics import MIN_LABELED
from accord.values import Sample, steps

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


def check_rates(project: Workspace) -> None:
    """Reject a main question that compares."""
    if project.question.compares:
        raise BadInput(f"{project.question.id!r} compares two conversations; this needs a main question that rates one")


class Units(NamedTuple):
    """Conversations, replies or steps that people rated or could have rated.

    Attributes:
        samples: Their samples.
        text: Which replies they are; empty if all are.
        is_single: True if each conversation has one of several replies.
        place: Place of this reply among the replies, negative from the end, or `None` if places differ.
    """

    samples: list[Sample]
    text: str = ""
    is_single: bool = False
    place: int | None = None


def units(project: Workspace, level: Level | None) -> Units:
    """Return the conversations, replies or steps with a label on the main question, and those that could have one.

    Of replies, these are the one that a file marks, or, if all labels of conversations with several replies are about
    the reply in one place (the last one, the first one), the reply in this place; else all. The other replies are
    context, perhaps by another assistant version, and their mean differs from the mean of the rated ones.
    """
    samples = list(project.all_samples(level))
    if level != "turn":
        return Units(samples)
    replies: dict[str, list[Sample]] = {}
    for sample in samples:
        replies.setdefault(sample.conversation.id, []).append(sample)
    rated: dict[str, set[int | None]] = {}
    for target in project.rated(project.question.id).targets:
        rated.setdefault(target.conversation, set()).add(target.turn)
    marks = {name: steps.marked_turn(own[0].conversation) for name, own in replies.items()}

    def places(turns: Mapping[str, Collection[int | None]]) -> list[tuple[int, int]]:
        """Return the places of turns from the end and from the start, in conversations with several replies."""
        return [
            (place - len(own), place)
            for name, own in replies.items() if len(own) > 1
            for place, sample in enumerate(own) if sample.turn in turns.get(name, ())
        ]  # fmt: skip

    labeled = places({name: turns for name, turns in rated.items() if marks.get(name) is None})
    place = _common(labeled) if len(labeled) >= MIN_LABELED else None
    chosen: dict[str, list[Sample]] = {}
    for name, own in replies.items():
        mark, wanted = marks[name], {sample.turn for sample in own}
        if mark is not None:
            wanted = {mark}
            own = own if mark in {sample.turn for sample in own} else [*own, Sample(own[0].conversation, mark)]
        elif place is not None:
            wanted = {sample.turn for sample in own[place:][:1]} if -len(own) <= place else set()
        wanted |= rated.get(name, set())
        chosen[name] = [sample for sample in own if sample.turn in wanted]
    said = ["the reply that its file marks"] if any(mark is not None for mark in marks.values()) else []
    if place is not None:
        named = f"reply {place + 1}" if place > 0 else f"reply {-place} from the end"
        where = {-1: "the last reply", 0: "the first reply"}.get(place, named)
        said.append(f"{where} of each conversation, as all labels are")
    found = places({name: [sample.turn for sample in own] for name, own in chosen.items()})
    is_single = any(len(own) > 1 for own in replies.values()) and all(len(own) < 2 for own in chosen.values())
    samples = [sample for own in chosen.values() for sample in own]
    return Units(samples, " or ".join(said), is_single, _common(found) if is_single else None)


def _common(places: Sequence[tuple[int, int]]) -> int | None:
    """Return the common place: -1 for the last, else from the start, else from the end; `None` if places differ."""
    ends, starts = {end for end, _ in places}, {start for _, start in places}
    return next((min(each) for each in (ends & {-1} if len(ends) == 1 else (), starts, ends) if len(each) == 1), None)
